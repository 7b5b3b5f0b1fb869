"""All of a board but its clock and its pads: the machine, memory, the host's link, registers, lamps."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Module, ResetInserter, Signal
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component, pass_on
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import MemoryPort
from rtl.memory_arbiter import MemoryArbiter
from rtl.params import SmParams
from rtl.sm import Sm

from .gate import MemoryGate
from .lamps import WarpLamps
from .link import HostLink
from .registers import BoardRegisters, Framebuffer
from .uart import UartReceiver, UartTransmitter

__all__ = ["MEMORY_BASE", "VIDEO_TAG_BITS", "BoardMachine"]

MEMORY_BASE = 1 << 32
"""Address of the first byte of the board's memory (ours): above the windows of generic addresses, so that these hide
nothing of it, and null pointers meet nothing."""
VIDEO_TAG_BITS = 2
"""Of the port to memory that is left for video."""
_RECEIVE_BYTES = 2048
"""Of the queue in which requests wait: what a host may send ahead."""
_RESET_CYCLES = 4
"""In which the machine is in reset."""


class BoardMachine(Component):
    """A machine as a board has it.

    Parameters
    ----------
    params : SmParams
    clock, baud : int
        Hz; bits a second of the serial line, at most a quarter of it.
    memory : Callable[[int], Component]
        Makes memory from the width of its port's tags: a component with a member ``port``, In(MemoryPort), and an
        attribute ``size``, its bytes. It counts lines from 0, and answers those that it does not have with ``error``.
    lamps : int
        Lamps for warps; see WarpLamps.

    Members
    -------
    receive, transmit : In(1), Out(1)
        The serial line.
    live, trapped, failed, lamps : Out
        See WarpLamps.
    traffic : Out(1)
        The host's link is at work.
    video : In(MemoryPort)
        Memory for a picture; it counts lines from the beginning of memory. May be left open.
    framebuffer : Out(Framebuffer)
    """

    def __init__(self, params: SmParams, clock: int, baud: int, memory: Callable[[int], Any], lamps: int = 8) -> None:
        self.sm = sm = Sm(params)
        self.gate = MemoryGate(sm.tag_bits)
        self.link = HostLink()
        self.arbiter = MemoryArbiter([sm.tag_bits, len(self.link.memory.request.payload.tag), VIDEO_TAG_BITS])
        self.memory = memory(len(self.arbiter.port.request.payload.tag))
        """Its pads, if it has any, are for the board's top."""
        self.registers = BoardRegisters(params, clock, self.memory.size)
        self.receiver, self.transmitter = UartReceiver(clock, baud), UartTransmitter(clock, baud)
        self.warp_lamps = WarpLamps(params, clock, lamps)
        super().__init__({
            "receive": In(1, init=1), "transmit": Out(1, init=1),    # pyright: ignore[reportCallIssue]
            **{name: self.warp_lamps.signature.members[name] for name in ("live", "trapped", "failed", "lamps")},
            "traffic": Out(1), "video": In(MemoryPort(VIDEO_TAG_BITS)), "framebuffer": Out(Framebuffer())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        resetting = Signal()
        for name in ("gate", "link", "arbiter", "memory", "registers", "receiver", "transmitter", "warp_lamps"):
            m.submodules[name] = getattr(self, name)
        m.submodules.sm = ResetInserter(resetting)(self.sm)
        self._line(m)
        self._host(m)
        self._memory(m)
        self._reset(m, resetting)

        lamps, sm = self.warp_lamps, self.sm
        m.d.comb += [
            lamps.running.eq(sm.distributor.running), lamps.traps.eq(sm.core.trap_state),
            lamps.errors.eq(sm.retired.errors), lamps.reset.eq(resetting)]
        self.join(m, lamps, "live", "trapped", "failed", "lamps")
        return m

    def _line(self, m: Module) -> None:
        """Serial line <-> link."""
        m.submodules.waiting = waiting = SyncFIFOBuffered(width=8, depth=_RECEIVE_BYTES)
        receiver, transmitter, link = self.receiver, self.transmitter, self.link
        m.d.comb += [
            receiver.pin.eq(self.receive), self.transmit.eq(transmitter.pin), waiting.w_en.eq(receiver.received.valid),
            waiting.w_data.eq(receiver.received.payload), link.received.payload.eq(waiting.r_data),
            link.received.valid.eq(waiting.r_rdy), waiting.r_en.eq(link.received.ready),
            self.traffic.eq(waiting.r_rdy | ~transmitter.content.ready)]
        connect(m, link.sent, transmitter.content)

    def _host(self, m: Module) -> None:
        """Link -> registers of the machine and of the board."""
        bus, sm = self.link.bus, self.sm
        for registers in (sm.host, self.registers.bus):
            pass_on(m, bus, registers, "address", "read", "write", "data")
        m.d.comb += [
            bus.value.eq(sm.host.value | self.registers.bus.value), sm.policy.eq(self.registers.policy),
            self.registers.state.eq(Cat(sm.busy, sm.core.trap_state.locked_down, sm.interrupt))]
        connect(m, self.registers.framebuffer, flipped(self.framebuffer))

    def _memory(self, m: Module) -> None:
        """Machine, link, video -> memory, whose first line has the address 0."""
        machine, link, video = self.arbiter.clients
        connect(m, self.sm.memory, self.gate.machine)
        connect(m, self.gate.memory, machine)
        connect(m, self.link.memory, link)
        connect(m, flipped(self.video), video)
        connect(m, self.arbiter.port, self.memory.port)
        base = MEMORY_BASE // LINE_BYTES
        m.d.comb += [
            video.request.payload.address.eq(self.video.request.payload.address ^ base),
            self.memory.port.request.payload.address.eq(self.arbiter.port.request.payload.address ^ base)]

    def _reset(self, m: Module, resetting: Signal) -> None:
        """The machine's reset, while memory owes it nothing."""
        registers, left = self.registers, Signal(range(_RESET_CYCLES))
        m.d.comb += registers.resetting.eq(self.gate.close | resetting)
        with m.FSM(name="reset"):
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
