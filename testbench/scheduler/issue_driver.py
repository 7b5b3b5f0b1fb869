"""Drives the issue unit as fetch and the other units do, and checks every selection with the
reference model.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rtl.isa.control_code import (
    GROUP_BYTES,
    INSTRUCTION_BYTES,
    NO_BARRIER,
    instruction_address,
)
from rtl.issue import BUFFERED_GROUPS, IssueUnit, window_cycles
from rtl.layouts import (
    COMPLETING,
    KIND_RULES,
    UNITS,
    IssueEvents,
    LaneClient,
    Policy,
    WaitReason,
    kinds_where,
)
from rtl.layouts import InstructionKind as Kind
from rtl.params import SmParams
from sim.checks.testbench import Bench
from testbench.driver import UnitDriver, flags_in, offer
from testbench.scheduler.issue_model import SURE, Inputs, IssueModel, Planned, RuleError, Selection
from testbench.scheduler.issue_waits import HELD, Waits
from testbench.scheduler.operation_streams import (
    OPERATION_STREAMS,
    OperationKind,
    OperationStream,
    offers_of,
)

_INSTRUCTIONS = kinds_where(lambda rule: not rule.injected)
LATENCY = 2
"""Cycles from a selection to the output of the instruction."""
COMPLETIONS_APART: dict[str, int] = {"conversion": 2, "memory": 3, "barrier": 6}
"""The minimum number of cycles between two completions of a unit."""
Program = Callable[[int, int], list[Planned]]
"""Returns the group at a pc of a warp."""


@dataclass(frozen=True)
class Behaviour:
    """Random behaviour of the units around issue. Ranges are in cycles, probabilities per cycle if
    not said otherwise.

    Attributes:
        fetch: Range from a claim to its group.
        complete: Range from a selection to its completion.
        flow: Range from a selection to its flow result.
        room: Probability that a unit has room.
        holds: Probability that a warp is held for some cycles.
        injects: Probability that a warp has to enter or to leave a trap.
        branches: Probability, per flow instruction, that it changes the pc.
        ends: Probability, per flow instruction, that it ends its warp.
        operations: Probability that a client has a new operation of a kind.
        launches: Probability that a free slot is launched.
        most: Maximum number of instructions in a unit.
        streams: The streams that carry operations.
        policy: The scheduling policy.
    """

    fetch: tuple[int, int] = (4, 12)
    complete: tuple[int, int] = (6, 30)
    flow: tuple[int, int] = (5, 15)
    room: float = 0.8
    holds: float = 0.0
    injects: float = 0.0
    branches: float = 0.5
    ends: float = 0.03
    operations: float = 0.05
    launches: float = 0.1
    most: int = 24
    streams: Sequence[OperationStream] = OPERATION_STREAMS
    policy: Policy = Policy.GREEDY_THEN_OLDEST


WILLING = Behaviour(fetch=(1, 1), room=1.0, operations=0.0, launches=1.0)
"""All warps run, and no unit delays them."""


@dataclass
class _Feeding:
    """The state of the driver for a warp."""

    place: int | None = None
    """The pc that is fetched next."""
    results: deque[tuple[int, int, bool]] = field(default_factory=deque)
    """Outstanding flow results: due cycle, pc, and whether the warp ends."""
    launched: int = -100
    """The cycle of the launch."""
    idle: int = 0
    """Number of cycles since the last instruction in flight."""


@dataclass
class _Cycle:
    """Inputs and outputs of a cycle."""

    inputs: Inputs
    room: int = 0
    live: int = 0
    drained: int = 0
    taken: dict[OperationStream, int] = field(default_factory=dict)
    """Numbers of the operations taken, by stream."""
    reasons: list[WaitReason] = field(default_factory=list)
    """For each warp, the reported reason why it does not issue."""


class IssueDriver(UnitDriver):
    """Runs the issue unit for a number of cycles.

    Attributes:
        selected: Cycle and selection.
        waited: The checks of the reported wait reasons.
    """

    def __init__(
        self, bench: Bench, params: SmParams, program: Program, behaviour: Behaviour
    ) -> None:
        super().__init__(bench, IssueUnit(params))
        self.params, self.program, self.behaviour = params, program, behaviour
        self.model = IssueModel(params, window_cycles(params.beats))
        self.waited = Waits(self.model)
        self.selected: list[tuple[int, Selection]] = []
        self._past: deque[_Cycle] = deque()
        self._moving: list[int] = []
        """Warps that flow results may redirect in the next cycle."""
        self._branching: int | None = None
        """The warp that a branch redirects in the next cycle."""
        self._warps = [_Feeding() for _ in range(params.warps)]
        self._coming: deque[tuple[int, int, int]] = deque()  # due, warp, pc of groups
        self._lanes: list[
            tuple[int, int, tuple[int, ...], bool]
        ] = []  # due, warp, scoreboards, completes
        self._gathers: list[tuple[int, int, tuple[int, ...], bool]] = []  # the same
        self._units: dict[str, list[tuple[int, int, tuple[int, ...], bool]]] = {
            unit: [] for unit in COMPLETING
        }
        self._unit_at: dict[str, int] = dict.fromkeys(COMPLETING, 0)
        self._resumes: list[tuple[int, int]] = []
        self._collecting = (0, 0)
        self._held = [0] * params.warps
        self._injects: dict[int, Kind] = {}
        self._offers: dict[OperationStream, int] = {}
        self._operations = 0
        self._sequence = 0
        self._going: dict[str, tuple[int, int, tuple[int, ...], bool]] = {}
        self._given: dict[str, Any] = {}

    @property
    def waits(self) -> list[int]:
        """For each warp, the longest time in which it could have issued but others were
        selected.
        """
        return self.model.waits

    async def _drive(self, ctx: Any, cycles: int) -> None:
        dut, now = self.dut, _Cycle(Inputs(rooms=dict.fromkeys(UNITS, 0)))
        redirected: list[tuple[int, int]] = []
        leaving = dut.instruction, dut.gather, dut.write, dut.redirect
        layouts = [event.payload.shape() for event in leaving]
        sampled = (
            *(event.valid for event in leaving),
            *(event.payload.as_value() for event in leaving),
            dut.completion.valid,
            dut.events.as_value(),
            dut.room,
            dut.control.live,
            dut.drained,
            dut.scoreboards.room,
            *dut.reasons,
            *(offer.ready for offer in offers_of(dut).values()),
        )
        async for seen in self._ticks(ctx, *sampled):
            valid, payloads, (completes, counted, *others) = seen[:4], seen[4:8], seen[8:]
            instruction, gather, write, redirect = (
                layout.from_bits(bits) if there else None
                for layout, there, bits in zip(layouts, valid, payloads, strict=True)
            )
            now.room, now.live, now.drained, now.inputs.events, *others = others
            now.reasons, ready = (
                [WaitReason(each) for each in others[: len(dut.reasons)]],
                others[len(dut.reasons) :],
            )
            now.taken = {
                stream: self._offers[stream]
                for stream, is_ready in zip(OPERATION_STREAMS, ready, strict=True)
                if is_ready and stream in self._offers
            }
            self._past.append(now)
            if len(self._past) > LATENCY:
                past = self._past.popleft()
                operations = {
                    OperationStream(kind, LaneClient(event.client)): event.operation.sequence
                    for kind, event in (
                        (OperationKind.GATHER, gather),
                        (OperationKind.WRITE, write),
                    )
                    if event is not None
                }
                selection = self._selection(instruction, operations, past)
                self._check_state(past)
                self._check_counted(past, selection, flags_in(IssueEvents, counted))
                self._judge(past, selection, instruction, bool(completes))
                self.bench.expect("redirected warps", redirected, self.model.redirected)
            redirected = [(redirect.warp, redirect.pc)] if redirect is not None else []
            self._follow_redirects(now.inputs.result, redirect)
            for stream in now.taken:
                del self._offers[stream]
            if redirect is not None:
                self._warps[redirect.warp].place = redirect.pc & -INSTRUCTION_BYTES
                self._coming = deque(group for group in self._coming if group[1] != redirect.warp)
            if self.cycle >= cycles:
                break
            now = _Cycle(self._next(now))
            self._set(ctx, now.inputs)

    def _follow_redirects(self, result: tuple[int, int, bool] | None, redirect: Any) -> None:
        """Updates the warps that flow results may redirect in the next cycle; no group may arrive
        for them.

        A flow result redirects in the next cycle, or later if a branch takes precedence.
        """
        if redirect is None:
            self._moving.clear()
        elif redirect.warp in self._moving:
            self._moving.remove(redirect.warp)
        if result is not None:
            self._moving.append(result[0])

    def _selection(
        self, instruction: Any, operations: dict[OperationStream, int], past: _Cycle
    ) -> Selection | None:
        """The selection that belongs to this cycle's outputs."""
        self.bench.expect(
            "operations that were taken",
            {stream: number % 0x10000 for stream, number in past.taken.items()},
            operations,
        )
        if operations:
            self.bench.expect("an instruction beside an operation", instruction is not None, False)
            return Selection(operations=tuple(operations))
        return (
            Selection(instruction.warp, Kind(instruction.kind)) if instruction is not None else None
        )

    def _check_state(self, past: _Cycle) -> None:
        """Compares live, room and drained of each warp. Drained may be late."""
        for number, (feeding, warp) in enumerate(zip(self._warps, self.model.warps, strict=True)):
            self.bench.expect(
                f"whether warp {number} lives", past.live >> number & 1, int(warp.live)
            )
            free = warp.live and not warp.begins and warp.claims < BUFFERED_GROUPS
            if number not in {moved for moved, _ in self.model.redirected}:
                self.bench.expect(f"room of warp {number}", past.room >> number & 1, int(free))
            feeding.idle = (
                feeding.idle + 1 if warp.idle and warp.issued < self.model.cycle - LATENCY else 0
            )
            if not warp.idle or feeding.idle > SURE:
                self.bench.expect(
                    f"whether warp {number} is drained", past.drained >> number & 1, int(warp.idle)
                )

    def _check_counted(
        self, past: _Cycle, selection: Selection | None, counted: Collection[str]
    ) -> None:
        """Checks the events for the counters: the selection or, without one, why each warp did not
        issue.

        A warp that is ready for the lanes but also held for another reason may count as waiting for
        the lanes.
        """
        operated = selection is not None and bool(selection.operations)
        idle, wait_reasons = selection is None, set(past.reasons)
        expected = {
            "issued": selection is not None and selection.kind in _INSTRUCTIONS,
            "operation": operated,
            "idle": idle,
            "held": idle and bool(wait_reasons & HELD),
            **{
                reason.name.lower(): idle and reason in wait_reasons
                for reason in (
                    WaitReason.STALL,
                    WaitReason.SCOREBOARD,
                    WaitReason.UNIT,
                    WaitReason.FETCH,
                )
            },
        }
        self.bench.expect("what is counted", {name: name in counted for name in expected}, expected)
        lanes, also = "lanes" in counted, {WaitReason.TRAP, WaitReason.SCOREBOARD, WaitReason.UNIT}
        if (
            WaitReason.LANES in wait_reasons
            or not wait_reasons & also
            or not idle
            or self.model.cycle >= self.model.lanes_at
        ):
            self.bench.expect(
                "whether waiting for the lanes is counted",
                lanes,
                idle and WaitReason.LANES in wait_reasons,
            )

    def _judge(
        self, past: _Cycle, selection: Selection | None, instruction: Any, completes: bool
    ) -> None:
        """Checks a selection with the model, compares the output, and plays the unit that executes
        the instruction.
        """
        bench, cycle = self.bench, self.model.cycle
        try:
            self.waited.check(past.reasons, past.inputs)
            planned = self.model.step(past.inputs, selection)
        except RuleError as error:
            bench.fail(f"cycle {cycle}: {error}")
        if planned is not None:
            for name in ("pc", "word", "kind", "quarter", "error", "constant"):
                bench.expect(
                    f"{name} of an instruction at {planned.pc:#x}",
                    instruction[name],
                    getattr(planned, name),
                )
            bench.expect("missing", bool(instruction.constant_missing), planned.missing)
            bench.expect(
                "barriers", (instruction.write_barrier, instruction.read_barrier), planned.barriers
            )
            bench.expect("sequence number", instruction.sequence, self._sequence % 0x10000)
            self._sequence += 1
        silent = planned is not None and planned.kind in (Kind.NOTHING, Kind.DEPENDENCY)
        bench.expect("completion beside the instruction", completes, silent)
        if selection is not None:
            self._happened()
            self.selected.append((cycle, selection))
        self._branching = None
        if planned is not None:
            assert selection is not None and selection.warp is not None
            if planned.predicts is not None:
                self._branching = selection.warp
            self._execute(cycle, selection.warp, planned)

    def _execute(self, then: int, number: int, planned: Planned) -> None:
        """Schedules the effects of a selected instruction: flow result, completion, resume."""
        random, behaviour, warp = self.bench.random, self.behaviour, self._warps[number]
        kind, rule = planned.kind, KIND_RULES[planned.kind]
        if rule.injected:
            del self._injects[number]
        if rule.collected:
            self._collecting = then + random.randint(3, 4), then + random.randint(5, 12)
        due = then + random.randint(*behaviour.complete)
        if rule.unit == "flow":
            result = then + random.randint(*behaviour.flow)
            result = max(result, warp.results[-1][0] + 1 if warp.results else 0)
            branch = planned.predicts
            is_certain = branch is not None and not branch.needs_result
            goes = (
                rule.after == "result" and not is_certain and (random.random() < behaviour.branches)
            )
            pc = branch.target if branch is not None else planned.next_pc
            if goes:
                pc = random.choice((random.randrange(0, 1 << 12, 8), planned.next_pc))
            pc = (
                pc & -GROUP_BYTES
                if random.random() < 0.5 and instruction_address(pc & -GROUP_BYTES) == pc
                else pc
            )
            ends = (
                kind in (Kind.FLOW, Kind.FLOW_INDEXED, Kind.LEAVE)
                and not is_certain
                and random.random() < behaviour.ends
            )
            warp.results.append((result, pc, ends))
            due = max(due, result + 1)
        if rule.silent:
            return
        if rule.unit is None or kind is Kind.TRAP:
            due = then + LATENCY + self.params.beats * (1 + planned.quarter * self.params.parts)
            self._lanes.append((due, number, planned.barriers, True))
        else:
            self._answer(then, due, number, planned)
        if rule.after == "resumed":
            self._resumes.append((random.randint(max(due, then + 3), due + 8) + 1, number))

    def _answer(self, then: int, due: int, number: int, planned: Planned) -> None:
        """Schedules the completion by the unit itself or through the lanes; some instructions
        release their source registers earlier.
        """
        random, (write, read) = self.bench.random, planned.barriers
        unit = KIND_RULES[planned.kind].unit
        if (
            planned.kind in (Kind.MEMORY, Kind.CONVERSION, Kind.BARRIER_READ)
            and random.random() < 0.7
        ):
            earlier = random.randint(then + 4, max(then + 4, due - 1))
            self._gathers.append((earlier, number, (NO_BARRIER, read), False))
            read, due = NO_BARRIER, max(due, earlier + 1)
        by_lanes = unit == "flow" or random.random() < 0.5
        events = (
            self._lanes
            if by_lanes and planned.kind is not Kind.BARRIER
            else self._units[unit or ""]
        )
        events.append((due, number, (write, read), True))

    def _next(self, last: _Cycle) -> Inputs:
        """The inputs of the next cycle."""
        random, behaviour, now = self.bench.random, self.behaviour, self.cycle
        outstanding = {unit: len(events) for unit, events in self._units.items()}
        inputs = Inputs(
            policy=behaviour.policy,
            rooms={
                unit: random.random() < behaviour.room
                and outstanding.get(unit, 0) + len(self._lanes) // 2 < behaviour.most
                for unit in UNITS
            },
        )
        inputs.collecting = self._collecting[0] <= now < self._collecting[1]
        for number, left in enumerate(self._held):
            begins = behaviour.holds and random.random() < behaviour.holds
            self._held[number] = max(0, left - 1) or (random.randrange(1, 20) if begins else 0)
            inputs.hold |= (self._held[number] > 0) << number
            if (
                behaviour.injects
                and number not in self._injects
                and random.random() < behaviour.injects
            ):
                self._injects[number] = random.choice((Kind.ENTER, Kind.LEAVE))
        inputs.injects = dict(self._injects)
        for stream in behaviour.streams:
            if stream not in self._offers and random.random() < behaviour.operations:
                self._operations += 1
                self._offers[stream] = self._operations
        inputs.operations = dict(self._offers)

        sources = self._lanes, self._gathers, *self._units.values()
        busy = {event[1] for events in sources for event in events}
        free = [
            number
            for number, (warp, feeding) in enumerate(
                zip(self.model.warps, self._warps, strict=True)
            )
            if not warp.live
            and warp.idle
            and not feeding.results
            and now > feeding.launched + 2 * LATENCY
            and number not in busy
        ]
        if free and random.random() < behaviour.launches:
            inputs.launched = random.choice(free)
            warp = self._warps[inputs.launched]
            warp.launched = now
            warp.results.append(
                (now + random.randint(*behaviour.flow), random.randrange(0, 1 << 12, 8), False)
            )
        due = [
            number
            for number, warp in enumerate(self._warps)
            if warp.results and warp.results[0][0] <= now and number != inputs.launched
        ]
        if due:
            number = random.choice(due)
            _, pc, ends = self._warps[number].results.popleft()
            inputs.result = number, pc, ends
        inputs.completions = [event[1:] for event in self._events(last).values()]
        # sources without an event in this cycle
        busy = {event[1] for events in sources for event in events}
        for resume in [
            resume for resume in self._resumes if resume[0] <= now and resume[1] not in busy
        ]:
            self._resumes.remove(resume)
            inputs.resume |= 1 << resume[1]
        self._fetch(inputs, last)
        return inputs

    def _events(self, last: _Cycle) -> dict[str, tuple[int, int, tuple[int, ...], bool]]:
        """For each source, the event that lowers scoreboards in the next cycle. Events of
        instructions that only pass the lanes are never late.
        """
        now, going = self.cycle, {}
        lanes = [event for event in self._lanes if event[0] <= now]
        lanes = [event for event in lanes if event[0] == now and event[3]] or lanes
        if lanes:
            going["lanes"] = lanes[0]
            self._lanes.remove(lanes[0])
        gathers = [event for event in self._gathers if event[0] <= now and last.inputs.events]
        if gathers:
            going["gathered"] = gathers[0]
            self._gathers.remove(gathers[0])
        for unit, events in self._units.items():
            ready = [event for event in events if event[0] <= now and now >= self._unit_at[unit]]
            if ready:
                going[unit] = ready[0]
                events.remove(ready[0])
                self._unit_at[unit] = now + COMPLETIONS_APART[unit]
        self._going = going
        return going

    def _fetch(self, inputs: Inputs, last: _Cycle) -> None:
        """Claims a buffer for a group, and delivers a group that is due.

        A warp that may be redirected in this cycle, by a branch or else by flow results, has to
        wait: a group would come from the old pc.
        """
        random, now = self.bench.random, self.cycle
        moving = {self._branching} if self._branching is not None else set(self._moving)
        able = [
            number
            for number, feeding in enumerate(self._warps)
            if last.room >> number & 1
            and feeding.place is not None
            and number not in {*moving, last.inputs.claimed}
        ]
        if able:
            inputs.claimed = random.choice(able)
            warp = self._warps[inputs.claimed]
            assert warp.place is not None
            due = now + random.randint(*self.behaviour.fetch)
            due = max(
                [due, *(group[0] + 1 for group in self._coming if group[1] == inputs.claimed)]
            )
            self._coming.append((due, inputs.claimed, warp.place))
            warp.place = (warp.place & -GROUP_BYTES) + GROUP_BYTES & 0xFFFF_FFFF
        ready = [group for group in self._coming if group[0] <= now and group[1] not in moving]
        if ready:
            first = min(ready)
            self._coming.remove(first)
            _, number, pc = first
            address = instruction_address(pc)
            group = self.program(number, pc & -GROUP_BYTES)
            inputs.group = number, [planned for planned in group if planned.pc >= address]

    def _set(self, ctx: Any, inputs: Inputs) -> None:
        """Applies the inputs to the ports of the hardware, where they have changed."""
        dut, wanted = self.dut, {}
        events: dict[Any, Any] = {}
        for name in ("rooms", "collecting", "hold", "policy", "resume"):
            wanted[name] = getattr(inputs, name)
        for kind, name in ((Kind.ENTER, "enter"), (Kind.LEAVE, "leave")):
            wanted[name] = sum(1 << warp for warp, asked in inputs.injects.items() if asked is kind)
        events |= {
            "launched": inputs.launched,
            "claimed": inputs.claimed,
            "result": self._result(*inputs.result) if inputs.result else None,
            "group": inputs.group and self._group(*inputs.group),
        }
        for name in ("lanes", *COMPLETING):
            going = self._going.get(name)
            events[name] = going and {
                "warp": going[1],
                "completes": going[3],
                "write_barrier": going[2][0],
                "read_barrier": going[2][1],
            }
        going = self._going.get("gathered")
        events["gathered"] = going and {"warp": going[1], "barrier": going[2][1]}
        for stream in OPERATION_STREAMS:
            number = inputs.operations.get(stream)
            events[stream] = None if number is None else {"sequence": number % 0x10000}
        ports = dict(zip(COMPLETING, dut.units, strict=True)) | offers_of(dut)
        governed = {
            "hold": dut.control.hold,
            "enter": dut.control.enter,
            "leave": dut.control.leave,
        }
        for name, value in wanted.items():
            if self._given.get(name) != value:
                ctx.set(governed[name] if name in governed else getattr(dut, name), value)
        for name, payload in events.items():
            if self._given.get(name) != payload:
                offer(ctx, ports[name] if name in ports else getattr(dut, name), payload)
        self._given = wanted | events

    def _result(self, number: int, pc: int, terminated: bool) -> dict[str, int]:
        """A flow result. Whether the warp continues at the next instruction is defined only for its
        last outstanding result.
        """
        behind = instruction_address(pc) == self.model.warps[number].behind
        return {"warp": number, "pc": pc, "terminated": terminated, "as_predicted": behind}

    def _group(self, warp: int, present: list[Planned]) -> dict[str, Any]:
        """The payload of a group of which these instructions are present."""
        base = present[0].pc & -GROUP_BYTES
        group = self.program(warp, base)
        return {
            "warp": warp,
            "pc": base,
            "first": len(group) - len(present),
            "instructions": [
                {
                    "word": planned.word,
                    "kind": planned.kind,
                    "quarter": planned.quarter,
                    "error": planned.error,
                    "constant": planned.constant,
                    "constant_missing": planned.missing,
                    "control": asdict(planned.control),
                }
                for planned in group
            ],
        }
