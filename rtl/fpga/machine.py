"""All of a board but its clocks and its pads: the machine, memory, the host's link, registers,
lamps, video."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Module,
    ResetInserter,
    ResetSignal,
    Signal,
)
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.beats import BeatArbiter, LineBeats
from rtl.component import Component
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
"""Address of the first byte of the board's memory (ours): above the windows of generic addresses,
so that these hide nothing of it, and null pointers meet nothing."""
_VIDEO_TAG_BITS = 1
"""Of video's port to memory: it requests one line at a time."""
_RECEIVE_BYTES = 2048
"""Of the queue in which requests wait: what a host may send ahead."""
_RESET_CYCLES = 4
"""In which the machine is in reset."""
_FIRST_LINE = MEMORY_BASE // LINE_BYTES


class BoardMachine(Component):
    """A machine as a board has it. ::

        receive --> receiver --> queue --> link --+--> sm.host, registers
        transmit <-- transmitter <---------+      |
                                                  |
        sm --> gate --> beats --+                 |
        link -------------------+--> arbiter --> memory --> bus
        video ------------------+

    Reset: the gate is closed; when memory owes the machine nothing, the machine is in reset for
    _RESET_CYCLES. So it is at first. Everything else goes on.

    Parameters
    ----------
    params : SmParams
    clock, baud : int
        Hz; bits a second of the serial line, at most a quarter of it.
    memory : Callable[[int], Component]
        Makes memory from the width of its port's tags: a component with a member ``port``,
        In(BeatPort), and an attribute ``size``, its bytes. It counts lines from 0, and answers
        those that it does not have with ``error``. If it has a member ``bus``, this leads to its
        pads.
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

    def __init__(self, params: SmParams, clock: int, baud: int, memory: Callable[[int], Any],
                 lamps: int = 8, video: Callable[[int], Any] | None = None) -> None:
        self.sm = Sm(params)
        self.gate = MemoryGate(params, self.sm.tag_bits)
        has_beats = "beat" in self.sm.memory.request.payload.shape().members
        self.beats = None if has_beats else LineBeats(self.sm.tag_bits)
        self.link = HostLink()
        self.video: Any = None if video is None else video(_VIDEO_TAG_BITS)
        tag_bits = [self.sm.tag_bits, len(self.link.memory.request.payload.tag)]
        if self.video is not None:
            tag_bits.append(_VIDEO_TAG_BITS)
        self.arbiter = BeatArbiter(tag_bits)
        self.memory = memory(len(self.arbiter.port.request.payload.tag))
        self.registers = BoardRegisters(params, clock, self.memory.size)
        self.receiver = UartReceiver(clock, baud)
        self.transmitter = UartTransmitter(clock, baud)
        self.warp_lamps = WarpLamps(params, clock, lamps)
        self._has_bus = "bus" in self.memory.signature.members
        members: dict[str, Any] = {
            "receive": In(1, init=1),    # pyright: ignore[reportCallIssue]
            "transmit": Out(1, init=1),    # pyright: ignore[reportCallIssue]
            "live": Out(lamps),
            "trapped": Out(lamps),
            "failed": Out(lamps),
            "lamps": Out(lamps),
            "traffic": Out(1),
        }
        if self._has_bus:
            members["bus"] = self.memory.signature.members["bus"]
        if self.video is not None:
            members["lanes"] = self.video.signature.members["lanes"]
        super().__init__(members)
        self._is_in_reset = Signal(init=1)
        """The machine is."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gate = self.gate
        m.submodules.link = self.link
        m.submodules.arbiter = self.arbiter
        m.submodules.memory = self.memory
        m.submodules.registers = self.registers
        m.submodules.receiver = self.receiver
        m.submodules.transmitter = self.transmitter
        m.submodules.warp_lamps = self.warp_lamps
        self._add_machine(m, platform)
        self._connect_line(m)
        self._connect_registers(m)
        self._connect_memory(m)
        if self.video is not None:
            self._connect_video(m)
        self._connect_lamps(m)
        self._reset(m)
        return m

    def _add_machine(self, m: Module, platform: object) -> None:
        """The machine with its reset. On a board that, by a global net, is its only reset."""
        if platform is None:
            m.submodules.sm = ResetInserter(self._is_in_reset)(self.sm)
            return
        m.domains.machine = ClockDomain(local=True)
        m.submodules.machine_reset = net = GlobalNet()
        m.d.comb += net.i.eq(self._is_in_reset)
        m.d.comb += ClockSignal("machine").eq(ClockSignal())
        m.d.comb += ResetSignal("machine").eq(net.o)
        m.submodules.sm = DomainRenamer("machine")(self.sm)

    def _connect_line(self, m: Module) -> None:
        """Serial line <-> link. A register takes what the queue's block RAM has read."""
        m.submodules.waiting = queue = SyncFIFOBuffered(width=8, depth=_RECEIVE_BYTES)
        received = self.receiver.received
        has_byte = Signal()
        byte = Signal(8)
        takes = Signal()
        m.d.comb += self.receiver.pin.eq(self.receive)
        m.d.comb += queue.w_en.eq(received.valid)
        m.d.comb += queue.w_data.eq(received.payload)
        m.d.comb += takes.eq(~has_byte | self.link.received.ready)
        m.d.comb += queue.r_en.eq(takes)
        with m.If(takes):
            m.d.sync += has_byte.eq(queue.r_rdy)
            m.d.sync += byte.eq(queue.r_data)
        m.d.comb += self.link.received.valid.eq(has_byte)
        m.d.comb += self.link.received.payload.eq(byte)
        connect(m, self.link.sent, self.transmitter.content)
        m.d.comb += self.transmit.eq(self.transmitter.pin)
        m.d.comb += self.traffic.eq(queue.r_rdy | has_byte | ~self.transmitter.content.ready)

    def _connect_registers(self, m: Module) -> None:
        """Link -> registers of the machine and of the board. Each reads 0 outside of its own."""
        bus = self.link.bus
        board = self.registers.bus
        machine = self.sm.host
        for registers in (machine, board):
            m.d.comb += registers.address.eq(bus.address)
            m.d.comb += registers.read.eq(bus.read)
            m.d.comb += registers.write.eq(bus.write)
            m.d.comb += registers.data.eq(bus.data)
        m.d.comb += bus.value.eq(machine.value | board.value)
        state = self.registers.state
        m.d.comb += state.busy.eq(self.sm.busy)
        m.d.comb += state.locked_down.eq(self.sm.core.trap_state.locked_down)
        m.d.comb += state.interrupt.eq(self.sm.interrupt)
        m.d.comb += self.sm.policy.eq(self.registers.policy)

    def _connect_memory(self, m: Module) -> None:
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
        port = self.arbiter.port
        connect(m, port, self.memory.port)
        m.d.comb += self.memory.port.request.payload.address.eq(
            port.request.payload.address ^ _FIRST_LINE)
        if self._has_bus:
            connect(m, flipped(self.bus), self.memory.bus)

    def _connect_video(self, m: Module) -> None:
        """Memory -> video, which counts from the beginning of memory, too."""
        m.submodules.video = video = self.video
        framebuffer = self.registers.framebuffer
        client = self.arbiter.clients[-1]
        connect(m, video.memory, client)
        m.d.comb += client.request.payload.address.eq(
            video.memory.request.payload.address ^ _FIRST_LINE)
        m.d.comb += framebuffer.present.eq(1)
        m.d.comb += framebuffer.underrun.eq(video.underrun)
        m.d.comb += video.enable.eq(framebuffer.enable)
        m.d.comb += video.scale.eq(framebuffer.scale)
        m.d.comb += video.base.eq(framebuffer.base)
        m.d.comb += self.lanes.eq(video.lanes)

    def _connect_lamps(self, m: Module) -> None:
        """Machine -> lamps."""
        lamps = self.warp_lamps
        m.d.comb += lamps.running.eq(self.sm.distributor.running)
        m.d.comb += lamps.traps.eq(self.sm.core.trap_state)
        connect(m, self.sm.retired.errors, lamps.errors)
        m.d.comb += lamps.reset.eq(self._is_in_reset)
        m.d.comb += self.live.eq(lamps.live)
        m.d.comb += self.trapped.eq(lamps.trapped)
        m.d.comb += self.failed.eq(lamps.failed)
        m.d.comb += self.lamps.eq(lamps.lamps)

    def _reset(self, m: Module) -> None:
        """The machine's reset: at first, and later once memory owes it nothing."""
        remaining = Signal(range(_RESET_CYCLES), init=_RESET_CYCLES - 1)
        m.d.comb += self.registers.resetting.eq(self.gate.close | self._is_in_reset)
        with m.FSM(init="RESET", name="reset"):
            with m.State("RUN"), m.If(self.registers.reset):
                m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += self.gate.close.eq(1)
                m.d.sync += remaining.eq(_RESET_CYCLES - 1)
                with m.If(self.gate.empty):
                    m.d.sync += self._is_in_reset.eq(1)
                    m.next = "RESET"
            with m.State("RESET"):
                m.d.comb += self.gate.close.eq(1)
                m.d.sync += remaining.eq(remaining - 1)
                with m.If(remaining == 0):
                    m.d.sync += self._is_in_reset.eq(0)
                    m.next = "RUN"
