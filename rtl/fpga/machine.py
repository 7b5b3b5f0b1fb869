"""All of a board but its clocks and its pads: the machine, memory, the host's link, registers, lamps, video."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import (
    Cat,
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Module,
    ResetInserter,
    ResetSignal,
    Signal,
)
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect

from rtl.beats import BeatArbiter, LineBeats
from rtl.component import Component, members_of, pass_on
from rtl.isa.tokens import LINE_BYTES
from rtl.params import SmParams
from rtl.sm import Sm

from .gate import MemoryGate
from .global_net import GlobalNet
from .lamps import WarpLamps
from .link import HostLink
from .registers import BoardRegisters
from .uart import UartReceiver, UartTransmitter

__all__ = ["MEMORY_BASE", "BoardMachine"]

MEMORY_BASE = 1 << 32
"""Address of the first byte of the board's memory (ours): above the windows of generic addresses, so that these hide
nothing of it, and null pointers meet nothing."""
_VIDEO_TAG_BITS = 1
"""Of video's port to memory: it asks for one line at a time."""
_RECEIVE_BYTES = 2048
"""Of the queue in which requests wait: what a host may send ahead."""
_RESET_CYCLES = 4
"""In which the machine is in reset."""
_FIRST_LINE = MEMORY_BASE // LINE_BYTES
_LAMPS = ("live", "trapped", "failed", "lamps")


class BoardMachine(Component):
    """A machine as a board has it.

    Parameters
    ----------
    params : SmParams
    clock, baud : int
        Hz; bits a second of the serial line, at most a quarter of it.
    memory : Callable[[int], Component]
        Makes memory from the width of its port's tags: a component with a member ``port``, In(BeatPort), and an
        attribute ``size``, its bytes. It counts lines from 0, and answers those that it does not have with ``error``.
        If it has a member ``bus``, this leads to its pads.
    lamps : int
        Lamps for warps; see WarpLamps.
    video : Callable[[int], Component] or None
        Makes what shows the framebuffer from the width of its port's tags: a component as
        :class:`~rtl.fpga.video.Video` is.

    Members
    -------
    receive, transmit : In(1), Out(1)
        The serial line.
    live, trapped, failed, lamps : Out
        See WarpLamps.
    traffic : Out(1)
        The host's link is at work.
    bus : Out
        Of memory, if that has one.
    lanes : Out
        Of video, if there is any.
    """

    def __init__(self, params: SmParams, clock: int, baud: int, memory: Callable[[int], Any], lamps: int = 8,
                 video: Callable[[int], Any] | None = None) -> None:
        self.sm = sm = Sm(params)
        self.gate = MemoryGate(params, sm.tag_bits)
        self.beats = None if "beat" in sm.memory.request.payload.shape().members else LineBeats(sm.tag_bits)
        self.link = HostLink()
        self.video: Any = None if video is None else video(_VIDEO_TAG_BITS)
        tag_bits = [sm.tag_bits, len(self.link.memory.request.payload.tag)]
        self.arbiter = BeatArbiter(tag_bits if video is None else [*tag_bits, _VIDEO_TAG_BITS])
        self.memory = memory(len(self.arbiter.port.request.payload.tag))
        self.registers = BoardRegisters(params, clock, self.memory.size)
        self.receiver, self.transmitter = UartReceiver(clock, baud), UartTransmitter(clock, baud)
        self.warp_lamps = WarpLamps(params, clock, lamps)
        super().__init__({
            "receive": In(1, init=1), "transmit": Out(1, init=1),    # pyright: ignore[reportCallIssue]
            **members_of(self.warp_lamps, *_LAMPS), "traffic": Out(1),
            **(members_of(self.memory, "bus") if "bus" in self.memory.signature.members else {}),
            **({} if self.video is None else members_of(self.video, "lanes"))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        resetting = Signal(init=1)
        for name in ("gate", "link", "arbiter", "memory", "registers", "receiver", "transmitter", "warp_lamps"):
            m.submodules[name] = getattr(self, name)
        self._machine(m, resetting, platform)
        self._line(m)
        self._host(m)
        self._memory(m)
        self._video(m)
        self._reset(m, resetting)

        lamps, sm = self.warp_lamps, self.sm
        m.d.comb += [
            lamps.running.eq(sm.distributor.running), lamps.traps.eq(sm.core.trap_state),
            lamps.errors.eq(sm.retired.errors), lamps.reset.eq(resetting)]
        self.join(m, lamps, *_LAMPS)
        return m

    def _machine(self, m: Module, resetting: Signal, platform: object) -> None:
        """The machine, which ``resetting`` resets. On a board that, by a global net, is its only reset."""
        if platform is None:
            m.submodules.sm = ResetInserter(resetting)(self.sm)
            return
        m.domains.machine = ClockDomain(local=True)
        m.submodules.machine_reset = net = GlobalNet()
        m.d.comb += [ClockSignal("machine").eq(ClockSignal()), net.i.eq(resetting), ResetSignal("machine").eq(net.o)]
        m.submodules.sm = DomainRenamer("machine")(self.sm)

    def _line(self, m: Module) -> None:
        """Serial line <-> link."""
        m.submodules.waiting = waiting = SyncFIFOBuffered(width=8, depth=_RECEIVE_BYTES)
        receiver, transmitter, link = self.receiver, self.transmitter, self.link
        # What block memory has read goes by way of a register.
        there, byte, takes = Signal(), Signal(8), Signal()
        with m.If(takes):
            m.d.sync += [there.eq(waiting.r_rdy), byte.eq(waiting.r_data)]
        m.d.comb += [
            receiver.pin.eq(self.receive), self.transmit.eq(transmitter.pin), waiting.w_en.eq(receiver.received.valid),
            waiting.w_data.eq(receiver.received.payload), takes.eq(~there | link.received.ready),
            link.received.payload.eq(byte), link.received.valid.eq(there), waiting.r_en.eq(takes),
            self.traffic.eq(waiting.r_rdy | there | ~transmitter.content.ready)]
        connect(m, link.sent, transmitter.content)

    def _host(self, m: Module) -> None:
        """Link -> registers of the machine and of the board."""
        bus, sm = self.link.bus, self.sm
        for registers in (sm.host, self.registers.bus):
            pass_on(m, bus, registers, "address", "read", "write", "data")
        m.d.comb += [
            bus.value.eq(sm.host.value | self.registers.bus.value), sm.policy.eq(self.registers.policy),
            self.registers.state.eq(Cat(sm.busy, sm.core.trap_state.locked_down, sm.interrupt))]

    def _memory(self, m: Module) -> None:
        """Machine, link -> memory, whose first line has the address 0."""
        machine, link, *_ = self.arbiter.clients
        connect(m, self.sm.memory, self.gate.machine)
        if self.beats is None:
            connect(m, self.gate.memory, machine)
        else:
            m.submodules.beats = self.beats
            connect(m, self.gate.memory, self.beats.lines)
            connect(m, self.beats.beats, machine)
        connect(m, self.link.memory, link)
        connect(m, self.arbiter.port, self.memory.port)
        m.d.comb += self.memory.port.request.payload.address.eq(self.arbiter.port.request.payload.address ^ _FIRST_LINE)
        if "bus" in self.signature.members:
            self.join(m, self.memory, "bus")

    def _video(self, m: Module) -> None:
        """Memory -> video, which counts from the beginning of memory, too."""
        if self.video is None:
            return
        m.submodules.video = video = self.video
        shown, client = self.registers.framebuffer, self.arbiter.clients[-1]
        connect(m, video.memory, client)
        m.d.comb += [
            client.request.payload.address.eq(video.memory.request.payload.address ^ _FIRST_LINE),
            shown.present.eq(1), shown.underrun.eq(video.underrun)]
        pass_on(m, shown, video, "enable", "scale", "base")
        self.join(m, video, "lanes")

    def _reset(self, m: Module, resetting: Signal) -> None:
        """The machine's reset: at first, and later while memory owes it nothing."""
        registers, left = self.registers, Signal(range(_RESET_CYCLES), init=_RESET_CYCLES - 1)
        m.d.comb += registers.resetting.eq(self.gate.close | resetting)
        with m.FSM(init="RESET", name="reset"):
            with m.State("RUN"), m.If(registers.reset):
                m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += self.gate.close.eq(1)
                m.d.sync += left.eq(_RESET_CYCLES - 1)
                with m.If(self.gate.empty):
                    m.d.sync += resetting.eq(1)
                    m.next = "RESET"
            with m.State("RESET"):
                m.d.comb += self.gate.close.eq(1)
                m.d.sync += left.eq(left - 1)
                with m.If(left == 0):
                    m.d.sync += resetting.eq(0)
                    m.next = "RUN"
