"""The core: fetch, issue and the units that execute instructions, joined."""

from typing import Any, ClassVar

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.barrier import BarrierUnit
from rtl.component import Component
from rtl.constant_arbiter import ConstantArbiter
from rtl.convert import ConversionUnit
from rtl.crs import CallReturnStack
from rtl.dispatcher import Dispatcher
from rtl.double import DoubleUnit
from rtl.error_collector import ErrorCollector
from rtl.error_status import ErrorStatus
from rtl.execute import ExecuteUnit, IndexedTargets
from rtl.fetch import TAG_BITS as FETCH_TAG_BITS
from rtl.fetch import FetchUnit
from rtl.flow import FlowQueue, FlowUnit
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.tokens import TokenKind
from rtl.issue import IssueUnit
from rtl.lane_client_merger import LaneClientMerger
from rtl.layouts import (
    COMPLETING,
    GATHERING,
    BeatPort,
    Event,
    FlowOperation,
    GridConfiguration,
    IssueEvents,
    LaneClient,
    MemoryPort,
    Policy,
    RegisterAccess,
    StackEvents,
    TrapCommand,
    TrapStatus,
    delayed,
    flow_launch,
    scoreboard_event,
    shared_clear,
    thread_index,
    unit_rooms,
    warp_exit,
    warp_launch,
)
from rtl.memory import MemoryEvents, MemoryUnit, local_move, memory_tag_bits
from rtl.params import SmParams
from rtl.retire import RetirementPort
from rtl.structs import common_fields, struct_value
from rtl.trap import TrapUnit

__all__ = ["Core", "connect_stack"]


def connect_stack(m: Module, flow: FlowUnit, stack: CallReturnStack) -> None:
    """Joins the flow unit and its call/return stack."""
    connect(m, flow.stack.request, stack.request)
    connect(m, stack.pushed, flow.stack.pushed)
    connect(m, stack.result, flow.stack.result)
    m.d.comb += stack.configuration.eq(flow.stack.configuration)
    m.d.comb += flow.stack.killed.eq(stack.killed)
    m.d.comb += flow.stack.holes.eq(stack.holes)
    m.d.comb += flow.stack.entry.eq(stack.entry)


class Core(Component):
    """A streaming multiprocessor without its work distributor and its host.

    ::

                     redirect                     result of a flow instruction
              +--------------------+-------------------------------------------------+
              v                    v                                                 |
        +-----------+  group  +---------+ instruction +-----------+ dispatch  +------------+
        | fetch     | ------> | issue   | ----------> | execute   | --------> | dispatcher |
        +-----------+         +---------+             +-----------+           +------------+
              ^                 ^  ^  operations of a   ^ data of              |  to the unit
              | constants       |  |  lane client       | lane clients         v  of its kind
        +-----------+           |  +--------------------+-- memory, conversion and double,
        | arbiters  |           |                           barrier, flow and stack, trap
        +-----------+           +------- completions, resume, hold of a warp --------+

    An instruction is fetched, selected by issue, and executed by the lanes, or dispatched to a
    unit. Units access registers as clients of the lanes: issue schedules their operations, execute
    moves the data. The result of a flow instruction is a broadcast: it has the pc at which the warp
    continues, and the warp's new active mask. The diagram omits IndexedTargets, which is between
    execute and the dispatcher: a branch through a table waits there for its table entry.

    Members
    -------
    policy : In(Policy)
        Which warp issues first.
    grid : In(GridConfiguration)
        The grid that runs; it does not change while a warp lives.
    launch, thread, flow_launch : In(Event of warp_launch), In(Event of thread_index), \
            In(stream of flow_launch)
        A warp is started in three steps. ``launch`` announces it to all units, and its slot is in
        use from that cycle on. ``thread`` has the position of each of its threads in the block.
        ``flow_launch`` makes the flow unit produce a flow result, with which its threads start.
    clear, clear_rows : In(stream of shared_clear), In(stream of rows of the register file)
        Shared memory of its CTA, and rows of its registers, are cleared; before ``flow_launch``.
    starting : In(1)
        A CTA is being started.
    exit : Out(Event of warp_exit)
        A flow result, in the same cycle; its ``terminated`` is 1 if the warp has ended.
    drained : Out(1 bit a warp)
        No instruction of the warp is in flight.
    invalidate, fetch_busy : In(1), Out(1)
        See FetchUnit.
    fetch_memory, stack_memory, unit_memory : Out(MemoryPort)
        Of fetch, of the call/return stack, of the memory unit.
    command, trap_state : In(TrapCommand), Out(TrapStatus)
        For the debugger; see TrapUnit. While a warp is in the trap no CTA may start.
    error_status, interrupt : Out(RegisterAccess), Out(1)
        See ErrorStatus.
    retired : Out(RetirementPort)
        For checks of the whole machine.
    issue_events, stack_events, memory_events, diverged : Out
        For counters. ``diverged``: a branch has diverged, and the DIVERGE token of the threads that
        wait is pushed.

    Attributes
    ----------
    reasons : list of Signal
        For waveforms: why each warp does not issue, a WaitReason.
    waiting : Signal
        For waveforms: 1 bit a warp, it waits at a barrier.
    """

    memory_port: ClassVar[type[MemoryPort] | type[BeatPort]] = MemoryPort
    """Signature of the three memory ports."""

    fetch: Any
    issue: Any
    execute: Any
    targets: Any
    queue: Any
    flow: Any
    stack: Any
    memory: Any
    conversion: Any
    double: DoubleUnit | None
    barrier: Any
    trap: Any
    status: ErrorStatus

    def __init__(self, params: SmParams) -> None:
        self.make_large_units(params)
        self.make_units(params)
        self.dispatcher = Dispatcher(params)
        self.errors = ErrorCollector(params)
        self.reasons = self.issue.reasons
        self.waiting = Signal(params.warps)
        self._params = params
        super().__init__({
            "policy": In(Policy),
            "grid": In(GridConfiguration),
            "launch": In(Event(warp_launch(params))),
            "thread": In(Event(thread_index(params))),
            "flow_launch": In(stream.Signature(flow_launch(params))),
            "clear": In(stream.Signature(shared_clear(params))),
            "clear_rows": In(stream.Signature(params.row_bits)),
            "starting": In(1),
            "exit": Out(Event(warp_exit(params))),
            "drained": Out(params.warps),
            "invalidate": In(1),
            "fetch_busy": Out(1),
            "fetch_memory": Out(self.memory_port(FETCH_TAG_BITS)),
            "stack_memory": Out(self.memory_port(params.warp_bits)),
            "unit_memory": Out(self.memory_port(memory_tag_bits(params))),
            "command": In(TrapCommand(params)),
            "trap_state": Out(TrapStatus(params)),
            "error_status": Out(RegisterAccess()),
            "interrupt": Out(1),
            "retired": Out(RetirementPort(params)),
            "issue_events": Out(IssueEvents),
            "stack_events": Out(StackEvents),
            "memory_events": Out(MemoryEvents),
            "diverged": Out(1),
            **self.more_ports(),
        })

    # The serial machine and the harness of the front end override these methods.

    def make_large_units(self, params: SmParams) -> None:
        """Makes the units that the harness of the front end omits."""
        self.fetch = FetchUnit(params)
        self.execute = ExecuteUnit(params)
        self.targets = IndexedTargets(params)
        self.memory = MemoryUnit(params)
        self.conversion = ConversionUnit(params)
        self.double = DoubleUnit(params) if params.doubles else None

    def make_units(self, params: SmParams) -> None:
        """Makes the other units that the serial machine has in another form."""
        self.issue = IssueUnit(params)
        self.queue = FlowQueue(params)
        self.flow = FlowUnit(params)
        self.stack = CallReturnStack(params)
        self.barrier = BarrierUnit(params)
        self.trap = TrapUnit(params)
        self.status = ErrorStatus(params)

    def more_ports(self) -> dict[str, Any]:
        """Members that only the serial machine has."""
        return {}

    def join_stack(self, m: Module) -> None:
        """Joins the flow unit and the stack."""
        connect_stack(m, self.flow, self.stack)

    def join_constants(self, m: Module) -> None:
        """Constants at indexed addresses, which fetch does not prefetch: one request at a time."""
        m.submodules.constants = constants = ConstantArbiter()
        connect(m, constants.request, self.fetch.indexed)
        connect(m, self.fetch.value, constants.response)
        connect(m, self.targets.indexed, constants.requests[0])
        connect(m, constants.responses[0], self.targets.value)
        if self.double is None:
            connect(m, self.conversion.indexed, constants.requests[1])
            connect(m, constants.responses[1], self.conversion.value)
            return
        m.submodules.conversion_constants = conversions = ConstantArbiter()
        connect(m, conversions.request, constants.requests[1])
        connect(m, constants.responses[1], conversions.response)
        connect(m, self.conversion.indexed, conversions.requests[0])
        connect(m, conversions.responses[0], self.conversion.value)
        connect(m, self.double.indexed, conversions.requests[1])
        connect(m, conversions.responses[1], self.double.value)

    def connect_more(self, m: Module) -> None:
        """Connections of the serial machine only. Called last, so that its assignments override
        those of the other methods."""

    def connect_error(self, m: Module, error: Any, collected: Any) -> None:
        """Connects a unit's error to the collector. The serial machine fills in warp and pc, which
        its units do not supply."""
        connect(m, error, collected)

    # How the units are joined.

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
        if self.double is not None:
            m.submodules.double = self.double
        m.submodules.barrier = self.barrier
        m.submodules.trap = self.trap
        m.submodules.errors = self.errors
        m.submodules.status = self.status
        self._launch(m)
        self._fetch(m)
        self._dispatch(m)
        self._flow(m)
        self._lane_clients(m)
        self.join_constants(m)
        self._release_scoreboards(m)
        self._traps(m)
        self._errors(m)
        self._memory_ports(m)
        self._retire(m)
        self.connect_more(m)
        return m

    def _launch(self, m: Module) -> None:
        """The grid's configuration, and the launch of a warp. Its threads start later, with
        ``flow_launch``; see :meth:`_flow`."""
        for unit in (self.fetch, self.execute, self.memory):
            m.d.comb += unit.grid.eq(self.grid)
        m.d.comb += self.barrier.barriers.eq(self.grid.barriers)
        connect(m, flipped(self.launch), self.execute.launch, self.memory.launch,
                self.barrier.launch, self.trap.launch, flipped(self.retired.launched))
        connect(m, flipped(self.thread), self.execute.thread)
        connect(m, flipped(self.clear_rows), self.execute.clear_rows)
        connect(m, flipped(self.clear), self.memory.clear)

    def _fetch(self, m: Module) -> None:
        """Groups of instructions to issue, instructions to execute."""
        m.d.comb += self.issue.policy.eq(self.policy)
        m.d.comb += self.fetch.room.eq(self.issue.room)
        connect(m, self.issue.redirect, self.fetch.redirect)
        connect(m, self.fetch.claimed, self.issue.claimed)
        connect(m, self.fetch.group, self.issue.group)
        connect(m, self.issue.instruction, self.execute.instruction, flipped(self.retired.issued))
        m.d.comb += self.fetch.invalidate.eq(self.invalidate)
        m.d.comb += self.fetch_busy.eq(self.fetch.busy)

    def _dispatch(self, m: Module) -> None:
        """Instructions that the lanes do not execute, to their units; the room of each unit."""
        dispatcher = self.dispatcher
        connect(m, self.execute.dispatch, self.targets.dispatch)
        connect(m, self.targets.passed, dispatcher.dispatch)
        connect(m, dispatcher.flow, self.queue.dispatch)
        connect(m, dispatcher.memory, self.memory.dispatch)
        connect(m, dispatcher.conversion, self.conversion.dispatch)
        connect(m, dispatcher.barrier, self.barrier.dispatch)
        connect(m, dispatcher.trap, self.trap.dispatch)

        conversion_room = self.conversion.room
        if self.double is not None:
            connect(m, dispatcher.double, self.double.dispatch)
            conversion_room = conversion_room & self.double.room
        m.d.comb += self.issue.rooms.eq(struct_value(
            unit_rooms(),
            flow=self.queue.room,
            memory=self.memory.room,
            conversion=conversion_room,
            barrier=self.barrier.room,
            trap=self.trap.room))
        m.d.comb += self.issue.collecting.eq(self.execute.collecting | self.targets.busy)

    def _flow(self, m: Module) -> None:
        """Flow instructions, and the broadcast of their results."""
        self.join_stack(m)
        connect(m, self.queue.request, self.flow.request)
        connect(m, flipped(self.flow_launch), self.flow.launch)
        m.d.comb += self.queue.trap.eq(self.trap.flow)

        # The flow unit accepts a SETLMEMBASE: the warp's block of local memory moves.
        request = self.queue.request
        is_set_base = request.payload.instruction.operation == FlowOperation.SET_BASE
        moved = self.memory.local_base
        m.d.comb += moved.valid.eq(request.valid & request.ready & is_set_base)
        m.d.comb += moved.payload.eq(struct_value(
            local_move(self._params), warp=request.payload.warp, base=request.payload.operand))

        # The handshake of flow_launch is late in the cycle, and no unit needs it before the launch
        # has its result. So it is registered: the warp becomes live one cycle after the transfer.
        launch = self.flow_launch
        m.d.sync += self.issue.launched.valid.eq(launch.valid & launch.ready)
        m.d.sync += self.issue.launched.payload.eq(launch.payload.warp)

        result = self.flow.result
        connect(m, result, self.issue.result, self.execute.flow_result, self.errors.flow_result,
                flipped(self.retired.flow))
        m.d.comb += self.barrier.terminated.valid.eq(result.valid & result.payload.terminated)
        m.d.comb += self.barrier.terminated.payload.eq(result.payload.warp)
        m.d.comb += self.exit.valid.eq(result.valid)
        m.d.comb += common_fields(self.exit.payload, result.payload)

        pushed = self.flow.stack.pushed
        is_divergence = pushed.payload.kind == TokenKind.DIVERGE
        m.d.comb += self.diverged.eq(pushed.valid & is_divergence)

    def _lane_clients(self, m: Module) -> None:
        """The units' access to registers: issue schedules operations, execute moves data."""
        execute = self.execute
        connect(m, self.issue.gather, execute.gather)
        connect(m, self.issue.write, execute.write)

        conversion = self._conversion_client(m)
        gathers = {
            LaneClient.MEMORY: self.memory.port.gather,
            LaneClient.CONVERSION: conversion.gather,
        }
        writes = {
            LaneClient.MEMORY: self.memory.port.write,
            LaneClient.CONVERSION: conversion.write,
            LaneClient.BARRIER: self.barrier.port.write,
            LaneClient.FLOW: execute.write_flow,
        }
        for client, offer in zip(GATHERING, self.issue.gather_offers, strict=True):
            connect(m, gathers[client], offer)
        for client, offer in zip(LaneClient, self.issue.write_offers, strict=True):
            connect(m, writes[client], offer)

        connect(m, self.memory.port.data, execute.memory)
        connect(m, conversion.data, execute.conversion)
        connect(m, self.barrier.port.data, execute.barrier)

    def _conversion_client(self, m: Module) -> Any:
        """The conversion unit and the unit for double precision are one client of the lanes."""
        if self.double is None:
            return self.conversion.port
        m.submodules.conversion_clients = clients = LaneClientMerger(self._params)
        connect(m, self.conversion.port, clients.first)
        connect(m, self.double.port, clients.second)
        return clients.merged

    def _release_scoreboards(self, m: Module) -> None:
        """Completions, which release scoreboards; and the events that resume a warp."""
        connect(m, self.execute.passed, self.issue.lanes)
        connect(m, self.execute.gathered, self.issue.gathered)
        completions = {"conversion": self.conversion.completion, "memory": self.memory.completion,
                       "barrier": self.barrier.completion}
        for unit, released in zip(COMPLETING, self.issue.units, strict=True):
            completion = completions[unit]
            m.d.comb += released.valid.eq(completion.valid)
            m.d.comb += released.payload.completes.eq(completion.valid)
            m.d.comb += common_fields(released.payload, completion.payload)

        # The barrier unit has read an instruction's registers. This is never in the cycle of one of
        # its completions, so both can share an event.
        read = self.barrier.operands_read
        released = self.issue.units[COMPLETING.index("barrier")]
        with m.If(read.valid):
            m.d.comb += released.valid.eq(1)
            m.d.comb += released.payload.eq(struct_value(
                scoreboard_event(self._params), completes=0, warp=read.payload.warp,
                write_barrier=NO_BARRIER, read_barrier=read.payload.barrier))
        m.d.comb += self.issue.resume.eq(self.barrier.resume | self.trap.resume)
        m.d.comb += self.drained.eq(self.issue.drained)

    def _traps(self, m: Module) -> None:
        """The trap unit, with issue and the barrier unit, and the status that programs read."""
        trap = self.trap
        m.d.comb += trap.command.eq(self.command)
        m.d.comb += self.trap_state.eq(trap.state)
        m.d.comb += trap.starting.eq(self.starting | self.issue.launched.valid)
        connect(m, trap.control, self.issue.control)

        # ``drained`` may be late, but must not be 1 while an instruction is in flight: so a warp
        # whose instruction is selected in this cycle is excluded. A flow result is delayed like its
        # error, see ErrorCollector, so that both reach the trap unit in one cycle.
        m.d.sync += trap.drained.eq(self.issue.drained & ~self.issue.control.taken)
        connect(m, delayed(m, self.flow.result), trap.result)

        m.d.comb += trap.waiting.eq(self.barrier.waiting)
        connect(m, trap.withdraw, self.barrier.withdraw)
        connect(m, self.barrier.withdrawn, trap.withdrawn, flipped(self.retired.withdrawn))
        m.d.comb += self.barrier.inside.eq(trap.inside)
        m.d.comb += self.waiting.eq(self.barrier.waiting | self.barrier.meeting)

        # The status of a warp and of all warps, which S2R reads.
        connect(m, self.execute.status, trap.status)

    def _errors(self, m: Module) -> None:
        """Errors of all units, to the trap unit and the error status; the report mask."""
        errors = self.errors
        status = self.status
        self.connect_error(m, self.execute.error, errors.lanes)
        self.connect_error(m, self.memory.error, errors.memory)
        self.connect_error(m, self.conversion.error, errors.conversion)
        self.connect_error(m, self.barrier.error, errors.barrier)
        self.connect_error(m, self.trap.error, errors.trap)
        connect(m, self.stack.write_fault, errors.stack_fault)
        connect(m, errors.registered, self.trap.errors, status.errors)
        connect(m, errors.raised, flipped(self.retired.errors))

        connect(m, self.trap.report, status.report)
        m.d.comb += status.events.eq(self.trap.events)
        connect(m, status.access, flipped(self.error_status))
        m.d.comb += self.interrupt.eq(status.interrupt)
        for unit in (self.execute, self.targets, self.dispatcher, self.flow, self.memory,
                     self.conversion, self.barrier, self.trap, errors):
            m.d.comb += unit.report_mask.eq(status.report_mask)

    def _memory_ports(self, m: Module) -> None:
        """The memory ports; events for the counters."""
        connect(m, self.fetch.memory, flipped(self.fetch_memory))
        connect(m, self.stack.port, flipped(self.stack_memory))
        connect(m, self.memory.memory, flipped(self.unit_memory))
        m.d.comb += self.issue_events.eq(self.issue.events)
        m.d.comb += self.stack_events.eq(self.stack.events)
        m.d.comb += self.memory_events.eq(self.memory.events)

    def _retire(self, m: Module) -> None:
        """The retirement interface: what the lanes write, and completions of all units. Its other
        events are connected by the methods above."""
        retired = self.retired
        connect(m, self.execute.written, flipped(retired.written))
        completed = retired.completed
        connect(m, self.issue.completion, flipped(completed.issue))
        connect(m, self.execute.completion, flipped(completed.lanes))
        connect(m, self.memory.completion, flipped(completed.memory))
        connect(m, self.conversion.completion, flipped(completed.conversion))
        connect(m, self.barrier.completion, flipped(completed.barrier))
        connect(m, self.trap.completion, flipped(completed.trap))
