"""The core of the serial machine: fetch, issue and the units that execute instructions, joined."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.constant_arbiter import ConstantArbiter
from rtl.core import connect_lane_data
from rtl.dispatcher import Dispatcher
from rtl.error_collector import ErrorCollector
from rtl.execute import IndexedTargets
from rtl.fetch import TAG_BITS as FETCH_TAG_BITS
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.tokens import TokenKind
from rtl.layouts import (
    COMPLETING,
    ERROR_SOURCES,
    BeatPort,
    EventLayout,
    FlowOperation,
    GridConfiguration,
    IssueEvents,
    Policy,
    RegisterAccess,
    StackEvents,
    TrapCommand,
    TrapStatus,
    described_bank,
    error_event,
    flow_launch,
    shared_clear,
    thread_index,
    warp_exit,
    warp_launch,
)
from rtl.memory import MemoryEvents, memory_tag_bits
from rtl.params import SmParams
from rtl.retire import COMPLETION_SOURCES, RetirementPort

from .barrier import SerialBarrierUnit
from .convert import SerialConversionUnit
from .crs import SerialStack
from .errors import SerialErrorStatus
from .execute import SerialExecuteUnit
from .fetch import SerialFetch
from .flow import SerialFlowQueue, SerialFlowUnit
from .issue import SerialIssue
from .memory import SerialMemoryUnit
from .trap import SerialTrapUnit

__all__ = ["SerialCore", "connect_serial_banks", "connect_serial_stack"]


def connect_serial_stack(m: Module, flow: SerialFlowUnit, stack: SerialStack) -> None:
    """Joins the flow unit and its call/return stack."""
    connect(m, flow.stack, stack.stack)


def connect_serial_banks(m: Module, distributor: Any, core: "SerialCore") -> None:
    """Joins the work distributor, which reads the constant banks of a grid, and the core."""
    m.d.comb += core.bank.eq(distributor.bank)


class SerialCore(Component):
    """The serial machine without its work distributor and its host.

    ::

                     redirect                     result of a flow instruction
              +--------------------+-------------------------------------------------+
              v                    v                                                 |
        +-----------+ one     +---------+ instruction +-----------+ dispatch  +------------+
        | fetch     | ------> | issue   | ----------> | execute   | --------> | dispatcher |
        +-----------+ of them +---------+             +-----------+           +------------+
              ^                 ^  ^  operations of a   ^ data of              |  to the unit
              | constants       |  |  lane client       | lane clients         v  of its kind
        +-----------+           |  +--------------------+-- memory, conversion,
        | arbiter   |           |                           barrier, flow and stack, trap
        +-----------+           +------- completion, resume, hold of a warp ----------+

    One instruction is under way at a time. The joints are those of :class:`~rtl.core.Core`, but for
    three: constant banks are known to fetch alone, the flow unit and the stack share one port, and
    errors are those of the instruction that was issued last, whichever unit raises them.

    Members
    -------
    bank : In(EventLayout of described_bank)
        A constant bank of the grid, before the grid runs; ``grid`` has none.
    fetch_memory, stack_memory, unit_memory : Out(BeatPort)
        Of fetch, of the call/return stack, of the memory unit.

    All others are as Core describes them.

    Attributes
    ----------
    reasons : list of Signal
        For waveforms: why each warp does not issue, a WaitReason.
    waiting : Signal
        For waveforms: 1 bit a warp, it waits at a barrier.
    """

    def __init__(self, params: SmParams) -> None:
        self.fetch = SerialFetch(params)
        self.issue = SerialIssue(params)
        self.execute = SerialExecuteUnit(params)
        self.targets = IndexedTargets(params)
        self.dispatcher = Dispatcher(params)
        self.queue = SerialFlowQueue(params)
        self.flow = SerialFlowUnit(params)
        self.stack = SerialStack(params)
        self.memory = SerialMemoryUnit(params)
        self.conversion = SerialConversionUnit(params)
        self.barrier = SerialBarrierUnit(params)
        self.trap = SerialTrapUnit(params)
        self.errors = ErrorCollector(params)
        self.status = SerialErrorStatus(params, len(ERROR_SOURCES))
        self.reasons = self.issue.reasons
        self.waiting = Signal(params.warps)
        self._issued: Any = Signal(data.StructLayout({"warp": params.warp_bits, "pc": 32}))
        """The instruction that is under way, or was last."""
        self._error_layout = error_event(params)
        super().__init__({
            "policy": In(Policy),
            "grid": In(GridConfiguration),
            "bank": In(EventLayout(described_bank())),
            "launch": In(EventLayout(warp_launch(params))),
            "thread": In(EventLayout(thread_index(params))),
            "flow_launch": In(stream.Signature(flow_launch(params))),
            "clear": In(stream.Signature(shared_clear(params))),
            "clear_rows": In(stream.Signature(params.row_bits)),
            "starting": In(1),
            "exit": Out(warp_exit(params)),
            "drained": Out(params.warps),
            "invalidate": In(1),
            "fetch_busy": Out(1),
            "fetch_memory": Out(BeatPort(FETCH_TAG_BITS)),
            "stack_memory": Out(BeatPort(params.warp_bits)),
            "unit_memory": Out(BeatPort(memory_tag_bits(params))),
            "command": In(TrapCommand(params)),
            "trap_state": Out(TrapStatus(params)),
            "error_status": Out(RegisterAccess()),
            "interrupt": Out(1),
            "retired": Out(RetirementPort(params)),
            "issue_events": Out(IssueEvents),
            "stack_events": Out(StackEvents),
            "memory_events": Out(MemoryEvents),
            "diverged": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fetch = self.fetch
        m.submodules.issue = self.issue
        m.submodules.execute = self.execute
        m.submodules.targets = self.targets
        m.submodules.dispatcher = self.dispatcher
        m.submodules.queue = self.queue
        m.submodules.flow = self.flow
        m.submodules.stack = self.stack
        m.submodules.memory = self.memory
        m.submodules.conversion = self.conversion
        m.submodules.barrier = self.barrier
        m.submodules.trap = self.trap
        m.submodules.errors = self.errors
        m.submodules.status = self.status
        self._launch(m)
        self._fetch(m)
        self._dispatch(m)
        self._flow(m)
        self._lane_clients(m)
        self._constants(m)
        self._complete(m)
        self._traps(m)
        self._errors(m)
        self._memory_ports(m)
        self._retire(m)
        return m

    def _launch(self, m: Module) -> None:
        """What the work distributor says of the grid and of a warp that it starts. The memory unit
        has, in the place of every constant bank, the one that the instruction names."""
        for unit in (self.fetch, self.execute, self.memory):
            m.d.comb += unit.grid.eq(self.grid)
        m.d.comb += self.fetch.bank.eq(self.bank)
        for bank in self.memory.grid.banks:
            m.d.comb += bank.eq(self.fetch.named)
        m.d.comb += self.barrier.barriers.eq(self.grid.barriers)
        for unit in (self.execute, self.memory, self.barrier, self.trap):
            m.d.comb += unit.launch.eq(self.launch)
        m.d.comb += self.execute.thread.eq(self.thread)
        connect(m, flipped(self.clear_rows), self.execute.clear_rows)

        clear = self.memory.clear
        m.d.comb += clear.valid.eq(self.clear.valid)
        m.d.comb += clear.payload.shared_base.eq(self.clear.payload.base)
        m.d.comb += clear.payload.bytes.eq(self.clear.payload.bytes)
        m.d.comb += self.clear.ready.eq(clear.ready)

    def _fetch(self, m: Module) -> None:
        """An instruction from fetch to issue, and to execute."""
        m.d.comb += self.issue.policy.eq(self.policy)
        m.d.comb += self.fetch.room.eq(self.issue.room)
        connect(m, self.issue.redirect, self.fetch.redirect)
        connect(m, self.fetch.claimed, self.issue.claimed)
        connect(m, self.fetch.group, self.issue.group)
        connect(m, self.issue.instruction, self.execute.instruction)
        m.d.comb += self.fetch.invalidate.eq(self.invalidate)
        m.d.comb += self.fetch_busy.eq(self.fetch.busy)

        issued = self.issue.instruction
        with m.If(issued.valid):
            m.d.sync += self._issued.warp.eq(issued.payload.warp)
            m.d.sync += self._issued.pc.eq(issued.payload.pc)

    def _dispatch(self, m: Module) -> None:
        """What the lane does not execute, to its unit; whether that has room for it."""
        dispatcher = self.dispatcher
        m.d.comb += self.targets.dispatch.valid.eq(self.execute.dispatch.valid)
        m.d.comb += self.targets.dispatch.payload.eq(self.execute.dispatch.payload)
        connect(m, self.targets.passed, dispatcher.dispatch)
        m.d.comb += self.queue.dispatch.valid.eq(dispatcher.flow.valid)
        m.d.comb += self.queue.dispatch.payload.eq(dispatcher.flow.payload)
        m.d.comb += self.memory.dispatch.eq(dispatcher.memory)
        m.d.comb += self.conversion.dispatch.eq(dispatcher.conversion)
        m.d.comb += self.barrier.dispatch.eq(dispatcher.barrier)
        m.d.comb += self.trap.dispatch.eq(dispatcher.trap)

        rooms = self.issue.rooms
        m.d.comb += rooms.flow.eq(self.queue.room)
        m.d.comb += rooms.memory.eq(self.memory.room)
        m.d.comb += rooms.conversion.eq(self.conversion.room)
        m.d.comb += rooms.barrier.eq(self.barrier.room)
        m.d.comb += rooms.trap.eq(self.trap.room)
        m.d.comb += self.issue.collecting.eq(self.execute.collecting | self.targets.busy)

    def _flow(self, m: Module) -> None:
        """Flow instructions; their results, which say how a warp goes on."""
        connect_serial_stack(m, self.flow, self.stack)
        connect(m, self.queue.request, self.flow.request)
        connect(m, flipped(self.flow_launch), self.flow.launch)
        m.d.comb += self.queue.trap.eq(self.trap.flow)

        # A SETLMEMBASE is taken: the warp's block of local memory moves.
        request = self.queue.request
        is_set_base = request.payload.instruction.operation == FlowOperation.SET_BASE
        moved = self.memory.local_base
        m.d.comb += moved.valid.eq(request.valid & request.ready & is_set_base)
        m.d.comb += moved.warp.eq(request.payload.warp)
        m.d.comb += moved.base.eq(request.payload.operand)

        # As in Core: that a launch was taken is known late in the cycle.
        launch = self.flow_launch
        m.d.sync += self.issue.launched.valid.eq(launch.valid & launch.ready)
        m.d.sync += self.issue.launched.payload.eq(launch.payload.warp)

        result = self.flow.result
        connect(m, result, self.issue.result, self.errors.flow_result)
        m.d.comb += self.execute.flow_result_valid.eq(result.valid)
        m.d.comb += self.execute.flow_result.eq(result.payload)
        m.d.comb += self.barrier.terminated.eq(result.valid & result.payload.terminated)
        m.d.comb += self.barrier.terminated_warp.eq(result.payload.warp)
        m.d.comb += self.exit.valid.eq(result.valid)
        m.d.comb += self.exit.warp.eq(result.payload.warp)
        m.d.comb += self.exit.terminated.eq(result.payload.terminated)
        m.d.comb += self.exit.kept.eq(result.payload.kept)

        pushed = self.flow.stack.pushed
        is_divergence = pushed.payload.kind == TokenKind.DIVERGE
        m.d.comb += self.diverged.eq(pushed.valid & is_divergence)

    def _lane_clients(self, m: Module) -> None:
        """The units' way to registers: issue schedules operations, execute moves data."""
        execute = self.execute
        connect(m, self.issue.gather, execute.gather)
        connect(m, self.issue.write, execute.write)
        connect(m, self.memory.port.gather, self.issue.gather_0)
        connect(m, self.memory.port.write, self.issue.write_0)
        connect(m, self.conversion.port.gather, self.issue.gather_1)
        connect(m, self.conversion.port.write, self.issue.write_1)
        connect(m, self.barrier.port.write, self.issue.write_2)
        connect(m, execute.write_flow, self.issue.write_3)

        m.d.comb += self.memory.port.gathered.eq(execute.memory.gathered)
        m.d.comb += self.conversion.port.gathered.eq(execute.conversion.gathered)
        connect_lane_data(m, execute.memory, self.memory.port)
        connect_lane_data(m, execute.conversion, self.conversion.port)
        connect_lane_data(m, execute.barrier, self.barrier.port)

    def _constants(self, m: Module) -> None:
        """Constants at indexed addresses, which fetch does not read ahead: one request at a
        time."""
        m.submodules.constants = constants = ConstantArbiter()
        connect(m, constants.request, self.fetch.indexed)
        connect(m, self.fetch.value, constants.response)
        connect(m, self.targets.indexed, constants.requests[0])
        connect(m, constants.responses[0], self.targets.value)
        connect(m, self.conversion.indexed, constants.requests[1])
        connect(m, constants.responses[1], self.conversion.value)

    def _complete(self, m: Module) -> None:
        """Completions, which end the instruction under way; what lets a warp issue again."""
        connect(m, self.execute.passed, self.issue.lanes)
        connect(m, self.execute.gathered, self.issue.gathered)
        completions = {"conversion": self.conversion.completion, "memory": self.memory.completion,
                       "barrier": self.barrier.completion}
        for unit, released in zip(COMPLETING, self.issue.units, strict=True):
            completion = completions[unit]
            m.d.comb += released.valid.eq(completion.valid)
            m.d.comb += released.payload.completes.eq(completion.valid)
            m.d.comb += released.payload.warp.eq(completion.warp)
            m.d.comb += released.payload.write_barrier.eq(completion.write_barrier)
            m.d.comb += released.payload.read_barrier.eq(completion.read_barrier)

        # The barrier unit has read an instruction's registers: never in the cycle of a completion.
        read = self.barrier.operands_read
        released = self.issue.units[COMPLETING.index("barrier")]
        with m.If(read.valid):
            m.d.comb += released.valid.eq(1)
            m.d.comb += released.payload.warp.eq(read.warp)
            m.d.comb += released.payload.write_barrier.eq(NO_BARRIER)
            m.d.comb += released.payload.read_barrier.eq(read.barrier)
        m.d.comb += self.issue.resume.eq(self.barrier.resume | self.trap.resume)
        m.d.comb += self.drained.eq(self.issue.drained)

    def _traps(self, m: Module) -> None:
        """Which warps trap, and what that means for issue, barriers and programs."""
        trap = self.trap
        m.d.comb += trap.command.eq(self.command)
        m.d.comb += self.trap_state.eq(trap.state)
        m.d.comb += trap.starting.eq(self.starting | self.issue.launched.valid)
        m.d.comb += trap.live.eq(self.issue.live)
        m.d.comb += trap.taken.eq(self.issue.taken)
        m.d.comb += trap.issued.valid.eq(self.issue.instruction.valid)
        m.d.comb += trap.issued.payload.eq(self.issue.instruction.payload)
        m.d.comb += self.issue.hold.eq(trap.hold)
        m.d.comb += self.issue.enter.eq(trap.enter)
        m.d.comb += self.issue.leave.eq(trap.leave)

        # As in Core: nothing is known to be in flight before an instruction is under way, and flow
        # results are seen with their errors, which are registered.
        m.d.sync += trap.drained.eq(self.issue.drained & ~self.issue.taken)
        m.d.sync += trap.result.valid.eq(self.flow.result.valid)
        m.d.sync += trap.result.payload.eq(self.flow.result.payload)

        m.d.comb += trap.waiting.eq(self.barrier.waiting)
        m.d.comb += trap.withdrawn.eq(self.barrier.withdrawn)
        m.d.comb += self.barrier.withdraw.eq(trap.withdraw)
        m.d.comb += self.barrier.inside.eq(trap.inside)
        m.d.comb += self.waiting.eq(self.barrier.waiting | self.barrier.meeting)

        # S2R reads what a warp, and all warps, know of traps and errors.
        m.d.comb += trap.status_warp.eq(self.execute.status_warp)
        m.d.comb += trap.clear_status.eq(self.execute.clear_status)
        m.d.comb += self.execute.warp_status.eq(trap.status)
        m.d.comb += self.execute.all_status.eq(trap.all_status)

    def _errors(self, m: Module) -> None:
        """Errors of all units, to the trap unit and to the host; which are reported at all."""
        errors = self.errors
        m.d.comb += errors.lanes.eq(self._of_issued(m, "lanes", self.execute.error))
        m.d.comb += errors.memory.eq(self._of_issued(m, "memory", self.memory.error))
        m.d.comb += errors.conversion.eq(self._of_issued(m, "conversion", self.conversion.error))
        m.d.comb += errors.barrier.eq(self._of_issued(m, "barrier", self.barrier.error))
        m.d.comb += errors.trap.eq(self._of_issued(m, "trap", self.trap.error))
        connect(m, self.stack.write_fault, errors.stack_fault)
        m.d.comb += self.trap.errors.eq(errors.registered)

        status = self.status
        m.d.comb += status.errors.eq(errors.registered)
        m.d.comb += status.report.eq(self.trap.report)
        m.d.comb += status.events.eq(self.trap.events)
        connect(m, status.access, flipped(self.error_status))
        m.d.comb += self.interrupt.eq(status.interrupt)
        for unit in (self.execute, self.targets, self.dispatcher, self.flow, self.memory,
                     self.conversion, self.barrier, self.trap, errors):
            m.d.comb += unit.report_mask.eq(status.report_mask)

    def _of_issued(self, m: Module, source: str, error: Any) -> Any:
        """A unit's error, with warp and pc of the instruction that was issued last: the units need
        not keep them."""
        complete = Signal(self._error_layout, name=f"{source}_error")
        m.d.comb += complete.eq(error)
        m.d.comb += complete.warp.eq(self._issued.warp)
        m.d.comb += complete.pc.eq(self._issued.pc)
        return complete

    def _memory_ports(self, m: Module) -> None:
        """The ways to memory; what the counters of memory and stack count."""
        connect(m, self.fetch.memory, flipped(self.fetch_memory))
        connect(m, self.stack.port, flipped(self.stack_memory))
        connect(m, self.memory.memory, flipped(self.unit_memory))
        m.d.comb += self.issue_events.eq(self.issue.events)
        m.d.comb += self.stack_events.eq(self.stack.events)
        m.d.comb += self.memory_events.eq(self.memory.events)

    def _retire(self, m: Module) -> None:
        """The retirement interface: everything that happens to an instruction."""
        retired = self.retired
        m.d.comb += retired.launched.eq(self.launch)
        m.d.comb += retired.issued.valid.eq(self.issue.instruction.valid)
        m.d.comb += retired.issued.payload.eq(self.issue.instruction.payload)
        m.d.comb += retired.written.eq(self.execute.written)
        m.d.comb += retired.flow.valid.eq(self.flow.result.valid)
        m.d.comb += retired.flow.payload.eq(self.flow.result.payload)
        m.d.comb += retired.withdrawn.eq(self.barrier.withdrawn)
        m.d.comb += retired.errors.eq(self.errors.raised)
        completions = {
            "issue": self.issue.completion, "lanes": self.execute.completion,
            "memory": self.memory.completion, "conversion": self.conversion.completion,
            "barrier": self.barrier.completion, "trap": self.trap.completion}
        for number, source in enumerate(COMPLETION_SOURCES):
            m.d.comb += retired.completed[number].eq(completions[source])
