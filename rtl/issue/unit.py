"""The issue unit, joined."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.control_code import GROUP_INSTRUCTIONS, SCOREBOARDS
from rtl.layouts import (
    InstructionKind,
    LaneClient,
    completion,
    fetched_group,
    flow_result,
    issued,
    lane_operation,
    operands_read,
    redirect,
)
from rtl.params import SmParams
from rtl.pick import pick

from .available import COLLECTED_KINDS, Availability, unit_rooms
from .choose import WarpChooser
from .operations import OperationChooser, offered_operation
from .records import IssueEvents, Policy, Scheduling, WaitReason, scheduling_of
from .store import InstructionStore
from .warp import LANE_KINDS, WarpScheduler, among

__all__ = ["IssueUnit"]


_REPORTED = {"stall": (WaitReason.STALL,), "scoreboard": (WaitReason.SCOREBOARD,), "lanes": (WaitReason.LANES,),
             "unit": (WaitReason.UNIT,), "fetch": (WaitReason.FETCH,),
             "held": (WaitReason.FLOW, WaitReason.DRAIN, WaitReason.RESUME, WaitReason.TRAP)}


class IssueUnit(Component):
    """Selects in each cycle an instruction of one warp, or an operation that a unit wants of the lanes.

    Parameters
    ----------
    params : SmParams
    completions, reads : int
        How many sources of completions there are, and of operands_read.

    Members
    -------
    group, claimed, room, redirect
        See FetchUnit.
    launched : In(valid and warp)
        A flow_launch of the warp was taken. The warp goes on with its flow result.
    result : In(valid and flow_result)
        Completes PUSH, FLOW and FLOW_INDEXED, for which no completion may come.
    completion_0.. : In(completion), one for each source
        Of all instructions but those, NOTHING and DEPENDENCY.
    read_0.. : In(operands_read), one for each source
    resume : In(1 bit a warp)
        A BARRIER, BARRIER_INDEXED or TRAP instruction lets its warp go on.
    operation_0.. : In(stream of lane_operation), one for each LaneClient
    rooms : In(unit_rooms)
        Each unit can take 4 instructions more than it was given.
    collecting : In(1)
        Operands of a FLOW_INDEXED or BARRIER_INDEXED instruction are collected: from COLLECTING_CYCLES cycles after
        its selection at the latest, until it is given to its unit.
    hold, enter, leave : In(1 bit a warp)
        Of the trap unit: the warp issues no instruction; it enters the trap, or leaves it, when nothing of it is in
        flight, by something of kind ENTER or LEAVE in the place of its next instruction.
    taken : Out(1 bit a warp)
        An instruction of the warp is selected.
    policy : In(Policy)
    instruction : Out(valid and issued)
        Two cycles after it was selected.
    completion : Out(completion)
        Of NOTHING and DEPENDENCY, beside ``instruction``.
    operation : Out(offered_operation)
        Two cycles after it was selected.
    live, drained : Out(1 bit a warp)
        Launched and not ended; nothing of it is in flight.
    reasons : Out(WaitReason of each warp)
    events : Out(IssueEvents)
        Of the cycle before.
    """

    def __init__(self, params: SmParams, completions: int = 4, reads: int = 2) -> None:
        self._params, self._sources, self._readers = params, completions, reads
        warp = params.warp_bits
        sources = {f"completion_{index}": In(completion(params)) for index in range(completions)}
        readers = {f"read_{index}": In(operands_read(params)) for index in range(reads)}
        operations = {f"operation_{client.value}": In(stream.Signature(lane_operation(params)))
                      for client in LaneClient}
        super().__init__(sources | readers | operations | {
            "group": In(data.StructLayout({"valid": 1, "payload": fetched_group(params)})),
            "claimed": In(data.StructLayout({"valid": 1, "warp": warp})), "room": Out(params.warps),
            "redirect": Out(data.StructLayout({"valid": 1, "payload": redirect(params)})),
            "launched": In(data.StructLayout({"valid": 1, "warp": warp})),
            "result": In(data.StructLayout({"valid": 1, "payload": flow_result(params)})),
            "resume": In(params.warps), "hold": In(params.warps), "enter": In(params.warps),
            "leave": In(params.warps), "taken": Out(params.warps), "rooms": In(unit_rooms()), "collecting": In(1),
            "policy": In(Policy), "instruction": Out(data.StructLayout({"valid": 1, "payload": issued(params)})),
            "completion": Out(completion(params)), "operation": Out(offered_operation(params)),
            "live": Out(params.warps), "drained": Out(params.warps),
            "reasons": Out(data.ArrayLayout(WaitReason, params.warps)), "events": Out(IssueEvents)})
        self.completions = [getattr(self, name) for name in sources]
        self.reads = [getattr(self, name) for name in readers]
        self.operations = [getattr(self, name) for name in operations]
        self.warps = [WarpScheduler(completions, reads) for _ in range(params.warps)]
        self.store = InstructionStore(params)

    def elaborate(self, platform: object) -> Module:
        params = self._params
        m = Module()
        for number, warp in enumerate(self.warps):
            m.submodules[f"warp_{number}"] = warp
        m.submodules.availability = availability = Availability(params)
        m.submodules.chooser = chooser = WarpChooser(params)
        m.submodules.operation_chooser = operations = OperationChooser(params)
        m.submodules.store = store = self.store

        # Select: an instruction, or an operation of the lanes.
        wanted, selected = Signal(), Signal()
        kind = Signal(InstructionKind)
        m.d.comb += [
            wanted.eq(chooser.any), selected.eq(wanted & ~operations.first),
            kind.as_value().eq(_any_of([Mux(chooser.chosen[number], warp.kind.as_value(), 0)
                                        for number, warp in enumerate(self.warps)])),
            chooser.policy.eq(self.policy), chooser.taken.eq(selected),
            operations.possible.eq(availability.lanes_free), operations.wanted.eq(wanted),
            operations.issues.eq(selected), availability.rooms.eq(self.rooms),
            availability.collecting.eq(self.collecting),
            availability.enters.eq(operations.goes | selected & among(kind, LANE_KINDS)),
            availability.collects.eq(selected & among(kind, COLLECTED_KINDS))]
        for own, outer in zip(operations.operations, self.operations, strict=True):
            connect(m, flipped(outer), own)
        for number, warp in enumerate(self.warps):
            m.d.comb += [
                warp.available.eq(availability.available), warp.taken.eq(selected & chooser.chosen[number]),
                self.taken[number].eq(warp.taken & ~warp.injects),
                chooser.ready[number].eq(warp.ready), chooser.offers[number].eq(~warp.buffer.head.no_yield)]

        # Read what was selected, and hand it out.
        m.d.sync += [
            store.selected.eq(selected), store.kind.eq(kind),
            store.injected.eq(Cat(chooser.chosen[number] & warp.injects
                                  for number, warp in enumerate(self.warps)).any()),
            self.operation.eq(operations.operation),
            store.slot.as_value().eq(_any_of([Mux(chooser.chosen[number], warp.buffer.slot.as_value(), 0)
                                              for number, warp in enumerate(self.warps)])),
            store.warp.eq(_any_of([Mux(chooser.chosen[number], number, 0) for number in range(params.warps)]))]
        m.d.comb += [self.instruction.eq(store.instruction), self.completion.eq(store.completion)]

        self._fill(m, store)
        self._lower(m, store)
        self._go_on(m, store, chooser)
        self._report(m, self.taken.any(), operations.goes)
        return m

    def _for(self, number: int, event: Any) -> Any:
        """Whether an event is there, and of this warp."""
        return event.valid & (event.warp == number)

    def _fill(self, m: Module, store: InstructionStore) -> None:
        """Groups, into the buffers."""
        group = self.group.payload
        schedulings = Signal(data.ArrayLayout(Scheduling, GROUP_INSTRUCTIONS))
        for number, instruction in enumerate(group.instructions):
            for field, value in scheduling_of(instruction).items():
                m.d.comb += schedulings[number][field].eq(value)
        m.d.comb += [
            store.group.eq(self.group),
            store.entry.eq(pick((warp.buffer.entry for warp in self.warps), group.warp))]
        for number, warp in enumerate(self.warps):
            m.d.comb += [
                warp.buffer.arrives.eq(self.group.valid & (group.warp == number)), warp.buffer.group.eq(schedulings),
                warp.buffer.first.eq(group.first), warp.buffer.claimed.eq(self._for(number, self.claimed)),
                self.room[number].eq(warp.room)]

    def _lower(self, m: Module, store: InstructionStore) -> None:
        """Scoreboards and instructions in flight."""
        events = [(source, barrier) for source in self.completions
                  for barrier in (source.write_barrier, source.read_barrier)]
        events += [(source, source.barrier) for source in self.reads]
        lowered = Signal(data.ArrayLayout(SCOREBOARDS, len(events)))
        raised = Signal(data.ArrayLayout(SCOREBOARDS, 2))
        m.d.comb += [raised[0].eq(1 << store.write_barrier), raised[1].eq(1 << store.read_barrier)]
        for index, (_, barrier) in enumerate(events):
            m.d.comb += lowered[index].eq(1 << barrier)
        for number, warp in enumerate(self.warps):
            scoreboards = warp.scoreboards
            m.d.comb += [
                scoreboards.raises.eq(store.raises & (store.warp == number)), scoreboards.raised.eq(raised),
                scoreboards.lowers.eq(Cat(self._for(number, source) for source, _ in events)),
                scoreboards.lowered.eq(lowered),
                warp.completed.eq(Cat(self._for(number, source) for source in self.completions))]

    def _go_on(self, m: Module, store: InstructionStore, chooser: WarpChooser) -> None:
        """Launches, flow results, and what lets warps go."""
        result = self.result.payload
        m.d.comb += [store.returned.warp.eq(result.warp), store.returned.pc.eq(result.pc)]
        for number, warp in enumerate(self.warps):
            m.d.comb += [
                warp.launched.eq(self._for(number, self.launched)), chooser.launched[number].eq(warp.launched),
                warp.result.eq(self.result.valid & (result.warp == number)), warp.same.eq(store.same),
                warp.terminated.eq(result.terminated), warp.resume.eq(self.resume[number]),
                warp.hold.eq(self.hold[number]), warp.enter.eq(self.enter[number]), warp.leave.eq(self.leave[number]),
                self.live[number].eq(warp.live), self.drained[number].eq(warp.drained)]
        m.d.sync += [
            self.redirect.valid.eq(Cat(warp.redirects for warp in self.warps).any()),
            self.redirect.payload.warp.eq(result.warp), self.redirect.payload.pc.eq(result.pc)]

    def _report(self, m: Module, selected: Signal, operated: Signal) -> None:
        """Reasons and events."""
        for number, warp in enumerate(self.warps):
            m.d.comb += self.reasons[number].eq(warp.reason)
        idle = ~selected & ~operated
        m.d.sync += [self.events.issued.eq(selected), self.events.operation.eq(operated), self.events.idle.eq(idle)]
        for name, reasons in _REPORTED.items():
            m.d.sync += self.events[name].eq(idle & Cat(
                reason.as_value().matches(*reasons) for reason in self.reasons).any())


def _any_of(values: list[Any]) -> Any:
    """The one value that is not 0."""
    return reduce(or_, values)
