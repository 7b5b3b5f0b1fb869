"""A board without its clocks and pads: the machine, memory, the host's link, registers, lamps,
video."""

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
from rtl.structs import struct_value

from .gate import MemoryGate
from .global_net import GlobalNet
from .lamps import LampSignals, WarpLamps
from .link import HostLink
from .registers import BoardRegisters, MachineState
from .uart import UartReceiver, UartTransmitter

__all__ = ["MEMORY_BASE", "RESET_CYCLES", "BoardMachine"]

MEMORY_BASE = 1 << 32
"""Address of the first byte of the board's memory (ours): above the windows of generic addresses,
so that these hide no part of it, and nothing is mapped at address 0."""
_VIDEO_TAG_BITS = 1
"""Tag bits of video's port to memory, which has one request outstanding at most."""
_RECEIVE_BYTES = 2048
"""Depth of the queue of received bytes: how many a host may send before the link takes them. Bytes
that arrive when it is full are lost, and their frame is damaged."""
RESET_CYCLES = 4
"""Length of the machine's reset."""
_FIRST_LINE = MEMORY_BASE // LINE_BYTES


class BoardMachine(Component):
    """The machine with memory, link and registers. ::

        receive --> receiver --> queue --> link --+--> sm.host, registers
        transmit <-- transmitter <---------+      |
                                                  |
        sm --> gate --> beats --+                 |
        link -------------------+--> arbiter --> memory --> bus
        video ------------------+

    Reset of the machine, by a host's write to CONTROL: the gate is closed; when no request of the
    machine is pending or outstanding, the machine is in reset for RESET_CYCLES; then the gate is
    opened, and the machine's sweep follows. A request for a reset during a reset is ignored. After
    a reset of the domain ``sync`` the machine is in reset for RESET_CYCLES, too. Memory, link,
    registers and video are not part of the machine's reset.

    Parameters
    ----------
    params : SmParams
    clock, baud : int
        Hz; bits a second of the serial line, at most a quarter of it.
    memory : Callable[[int], Component]
        Makes memory from the width of its port's tags: a component with a member ``port``,
        In(BeatPort), and an attribute ``size``, in bytes. Its first line has address 0; requests
        for lines outside are answered with ``error``. If it has a member ``bus``, this is
        connected to pads.
    lamps : int
        Number of lamps; see WarpLamps.
    video : Callable[[int], Component] or None
        Makes the component that shows the framebuffer, from the width of its port's tags; its
        ports are those of :class:`~rtl.fpga.video.Video`.

    Members
    -------
    receive, transmit : In(1), Out(1)
        The serial line.
    lamps : Out(LampSignals)
    traffic : Out(1)
        The link has bytes to receive or sends some.
    bus : Out
        That of memory, if it has one.
    lanes : Out
        Those of video, if there is any.
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
            "lamps": Out(LampSignals(lamps)),
            "traffic": Out(1),
        }
        if self._has_bus:
            members["bus"] = self.memory.signature.members["bus"]
        if self.video is not None:
            members["lanes"] = self.video.signature.members["lanes"]
        super().__init__(members)
        self._is_in_reset = Signal(init=1)
        """The machine is in reset."""

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
        """The machine and its reset. In simulation this is added to the reset of ``sync``. On a
        board the machine has a domain with the clock of ``sync`` and this reset alone, on a
        global net."""
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
        """Serial line <-> link. The queue is in block RAM; a register follows it, which keeps the
        delay of the RAM off the paths of the link."""
        m.submodules.waiting = queue = SyncFIFOBuffered(width=8, depth=_RECEIVE_BYTES)
        arriving = self.receiver.received
        received = self.link.received
        m.d.comb += self.receiver.pin.eq(self.receive)
        m.d.comb += queue.w_en.eq(arriving.valid)
        m.d.comb += queue.w_data.eq(arriving.payload)
        m.d.comb += queue.r_en.eq(~received.valid | received.ready)
        with m.If(queue.r_en):
            m.d.sync += received.valid.eq(queue.r_rdy)
            m.d.sync += received.payload.eq(queue.r_data)
        connect(m, self.link.sent, self.transmitter.content)
        m.d.comb += self.transmit.eq(self.transmitter.pin)
        m.d.comb += self.traffic.eq(
            queue.r_rdy | received.valid | ~self.transmitter.content.ready)

    def _connect_registers(self, m: Module) -> None:
        """Link -> registers of the machine and of the board. An access is sent to both; the one
        that does not have the address reads 0, so that the values can be ORed."""
        bus = self.link.bus
        board = self.registers.bus
        machine = self.sm.host
        for registers in (machine, board):
            m.d.comb += registers.address.eq(bus.address)
            m.d.comb += registers.read.eq(bus.read)
            m.d.comb += registers.write.eq(bus.write)
            m.d.comb += registers.data.eq(bus.data)
        m.d.comb += bus.value.eq(machine.value | board.value)
        m.d.comb += self.registers.state.eq(struct_value(
            MachineState,
            busy=self.sm.busy,
            locked_down=self.sm.core.trap_state.locked_down,
            interrupt=self.sm.interrupt))
        m.d.comb += self.sm.policy.eq(self.registers.policy)

    def _connect_memory(self, m: Module) -> None:
        """Machine, link -> memory, whose first line has address 0.

        Line addresses are XORed with _FIRST_LINE, a single bit above all lines of memory. That
        subtracts the base if the bit is set. If it is not, it becomes set, and memory answers with
        ``error``. The assignment overrides the address that ``connect`` assigns.
        """
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
        """Memory -> video. Video counts lines from the beginning of memory, so its addresses are
        XORed with _FIRST_LINE to be addresses of the arbiter; the assignment overrides that of
        ``connect``."""
        m.submodules.video = video = self.video
        client = self.arbiter.clients[-1]
        connect(m, self.registers.framebuffer, video.framebuffer)
        connect(m, video.memory, client)
        m.d.comb += client.request.payload.address.eq(
            video.memory.request.payload.address ^ _FIRST_LINE)
        m.d.comb += self.lanes.eq(video.lanes)

    def _connect_lamps(self, m: Module) -> None:
        """Warps of the machine -> lamps."""
        warps = self.warp_lamps
        m.d.comb += warps.running.eq(self.sm.distributor.running)
        m.d.comb += warps.traps.eq(self.sm.core.trap_state)
        m.d.comb += warps.reset.eq(self._is_in_reset)
        connect(m, self.sm.retired.errors, warps.errors)
        connect(m, warps.lamps, flipped(self.lamps))

    def _reset(self, m: Module) -> None:
        """The state machine of the machine's reset. DRAIN waits until no request is pending or
        outstanding; RESET lasts RESET_CYCLES and is the initial state."""
        remaining = Signal(range(RESET_CYCLES), init=RESET_CYCLES - 1)
        m.d.comb += self.registers.resetting.eq(self.gate.close | self._is_in_reset)
        with m.FSM(init="RESET", name="reset"):
            with m.State("RUN"), m.If(self.registers.reset):
                m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += self.gate.close.eq(1)
                m.d.sync += remaining.eq(RESET_CYCLES - 1)
                with m.If(self.gate.empty):
                    m.d.sync += self._is_in_reset.eq(1)
                    m.next = "RESET"
            with m.State("RESET"):
                m.d.comb += self.gate.close.eq(1)
                m.d.sync += remaining.eq(remaining - 1)
                with m.If(remaining == 0):
                    m.d.sync += self._is_in_reset.eq(0)
                    m.next = "RUN"
