"""Drives the issue unit as fetch and the other units do, and compares every cycle with the model of its rules."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rtl.isa.control_code import GROUP_BYTES, NO_BARRIER, instruction_address
from rtl.issue import IssueUnit, Policy
from rtl.issue.choose import window_cycles
from rtl.layouts import InstructionKind as Kind
from rtl.layouts import LaneClient
from rtl.params import SmParams
from sim.testbench import Bench
from testbench.issue_model import COLLECTED, FLOW, INJECTED, SILENT, Inputs, IssueModel, Planned, Selection

__all__ = ["Behaviour", "IssueDriver"]

LATENCY = 2
"""Cycles from selection to output."""
PLACES = 2
SOURCES, READERS = 4, 2
UNITS = ("flow", "memory", "conversion", "barrier", "trap")
Program = Callable[[int, int], list[Planned]]
"""The group at a pc of a warp."""


@dataclass(frozen=True)
class Behaviour:
    """How the units around behave. Chances are those in a cycle.

    ``fetch``, ``complete``, ``flow``: least and most cycles from claim to group, from selection to completion, from
    selection to flow result. ``room``: chance that a unit has room. ``holds``: that a warp is held for some
    cycles. ``injects``: that a warp is to enter a trap, or leave it. ``branches``: that a flow instruction goes
    elsewhere; ``ends``: that it ends its warp. ``operations``: that a client has a new operation. ``launches``: that a
    free slot is launched.
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
    policy: Policy = Policy.GREEDY_THEN_OLDEST


@dataclass
class _Feeding:
    """What the driver does for a warp."""

    place: int | None = None
    """The pc that is fetched next."""
    claims: int = 0
    results: deque[tuple[int, int, bool]] = field(default_factory=deque)
    """Due, pc, and whether the warp has ended."""


class IssueDriver:
    """Runs for a number of cycles.

    Parameters
    ----------
    bench : Bench
    params : SmParams
    program : Program
    behaviour : Behaviour

    Attributes
    ----------
    selected : list[tuple[int, Selection]]
        Cycle and selection.
    waits : list[int]
        For each warp, the longest time for which it wanted to issue and others did.
    cycles : int
    """

    def __init__(self, bench: Bench, params: SmParams, program: Program, behaviour: Behaviour) -> None:
        self.bench, self.params, self.program, self.behaviour = bench, params, program, behaviour
        self.dut = IssueUnit(params, SOURCES, READERS)
        self.model = IssueModel(params.warps, params.beats, window_cycles(params))
        self.selected: list[tuple[int, Selection]] = []
        self.waits = [0] * params.warps
        self.cycles = 0
        self._waiting = [0] * params.warps
        self._warps = [_Feeding() for _ in range(params.warps)]
        self._coming: deque[tuple[int, int, int]] = deque()     # due, warp, pc of groups
        self._completions: list[tuple[int, int, int, int]] = []
        self._reads: list[tuple[int, int, int]] = []
        self._resumes: list[tuple[int, int]] = []
        self._collecting = (0, 0)
        self._held = [0] * params.warps
        self._injects: dict[int, Kind] = {}
        self._offers: dict[LaneClient, tuple[int, bool]] = {}
        self._operations = 0
        self._serial = 0
        self._claimed: int | None = None

    def run(self, cycles: int, *, traces: Any = None, name: str = "") -> None:
        """Simulates."""
        async def drive(ctx: Any) -> None:
            await self._drive(ctx, cycles)

        self.bench.simulate(self.dut, [drive], traces=traces, name=name)

    async def _drive(self, ctx: Any, cycles: int) -> None:
        dut, inputs = self.dut, Inputs(rooms=dict.fromkeys(UNITS, 0))
        expected: deque[Selection | None] = deque([None] * LATENCY)
        redirected: list[int] = []
        readies = [stream.ready for stream in dut.operations]
        ticks = ctx.tick().sample(dut.instruction, dut.operation, dut.room, dut.live, dut.drained, dut.redirect,
                                  dut.completion, *readies)
        async for _, _, instruction, operation, room, live, drained, redirect, completion, *taken in ticks:
            self._compare(expected.popleft(), instruction, operation, completion)
            warps = self.model.warps
            self.bench.expect("live warps", live, sum(warp.live << n for n, warp in enumerate(warps)))
            self.bench.expect("warps with nothing in flight", drained, sum(
                (not warp.in_flight and not warp.results) << n for n, warp in enumerate(warps)))
            self.bench.expect("redirected warps", [redirect.payload.warp] if redirect.valid else [], redirected)
            self._check_room(room)
            selection = self.model.step(inputs)
            self.bench.expect("clients whose operation is taken", sorted(
                client.value for client in LaneClient if taken[client.value] and client in inputs.operations),
                sorted(client.value for client in self.model.taken))
            redirected = self.model.redirected
            expected.append(selection)
            self._note(selection)
            if self._claimed is not None:
                self._warps[self._claimed].claims += 1
            if selection is not None and selection.planned is not None and selection.planned.last:
                self._warps[selection.warp].claims -= 1     # pyright: ignore[reportArgumentType, reportCallIssue]
            for warp in redirected:
                assert inputs.result is not None
                self._warps[warp].place, self._warps[warp].claims = inputs.result[1], 0
                self._coming = deque(group for group in self._coming if group[1] != warp)
            for client in self.model.taken:
                del self._offers[client]
            self.cycles += 1
            if self.cycles >= cycles:
                break
            inputs = self._next(room, redirected)
            self._set(ctx, inputs)

    def _check_room(self, room: int) -> None:
        """Nobody has room that has not begun, and nobody whose places are claimed."""
        for number, (feeding, warp) in enumerate(zip(self._warps, self.model.warps, strict=True)):
            free = warp.live and not warp.begins and feeding.claims < PLACES
            self.bench.expect(f"room of warp {number}", room >> number & 1, int(free))

    def _compare(self, expected: Selection | None, instruction: Any, operation: Any, completion: Any) -> None:
        bench = self.bench
        planned = expected.planned if expected is not None else None
        got = (instruction.payload.warp if instruction.valid else None,
               operation.client if operation.valid else None)
        bench.expect(f"warp and client selected in cycle {self.cycles - LATENCY}", got,
                     (expected.warp, expected.client) if expected is not None else (None, None))
        if planned is not None:
            payload = instruction.payload
            for name in ("pc", "word", "kind", "error", "constant"):
                bench.expect(f"{name} of an instruction at {planned.pc:#x}", payload[name], getattr(planned, name))
            bench.expect("missing", bool(payload.constant_missing), planned.missing)
            bench.expect("barriers", (payload.write_barrier, payload.read_barrier),
                         (planned.control.write_barrier, planned.control.read_barrier))
            bench.expect("serial number", payload.serial, self._serial % 0x10000)
            self._serial += 1
        silent = planned is not None and planned.kind in (Kind.NOTHING, Kind.DEPENDENCY)
        bench.expect("completion beside the instruction", bool(completion.valid), silent)
        if expected is not None and expected.client is not None:
            bench.expect("operation", operation.payload.serial, expected.number % 0x10000)

    def _note(self, selection: Selection | None) -> None:
        """What follows from a selection, and who waits."""
        for warp in range(self.params.warps):
            waits = warp in self.model.wanting and (selection is None or selection.warp != warp)
            self._waiting[warp] = self._waiting[warp] + 1 if waits else 0
            self.waits[warp] = max(self.waits[warp], self._waiting[warp])
        if selection is None:
            return
        self.selected.append((self.cycles, selection))
        if selection.planned is None or selection.warp is None:
            return
        random, behaviour, now = self.bench.random, self.behaviour, self.cycles
        number, planned, warp = selection.warp, selection.planned, self._warps[selection.warp]
        kind, control = planned.kind, planned.control
        if kind in INJECTED:
            del self._injects[number]
        if kind in COLLECTED:
            self._collecting = now + random.randint(3, 4), now + random.randint(4, 12)
        due = now + random.randint(*behaviour.complete)
        if kind in FLOW:
            result = now + random.randint(*behaviour.flow)
            result = max(result, warp.results[-1][0] + 1 if warp.results else 0)
            goes = kind in (Kind.FLOW, Kind.FLOW_INDEXED, *INJECTED) and random.random() < behaviour.branches
            pc = random.randrange(0, 1 << 12, 8) if goes else planned.next_pc
            pc = pc & -GROUP_BYTES if random.random() < 0.5 and instruction_address(pc & -GROUP_BYTES) == pc else pc
            ends = kind in (Kind.FLOW, Kind.FLOW_INDEXED, Kind.LEAVE) and random.random() < behaviour.ends
            warp.results.append((result, pc, ends))
            due = max(due, result + 1)
        if kind in SILENT:
            return
        read_barrier = control.read_barrier
        if kind in (Kind.MEMORY, Kind.CONVERSION) and random.random() < 0.7:
            self._reads.append((random.randint(now + 4, max(now + 4, due - 1)), number, read_barrier))
            read_barrier = NO_BARRIER
            due = max(due, self._reads[-1][0])
        self._completions.append((due, number, control.write_barrier, read_barrier))
        if kind in (Kind.BARRIER, Kind.BARRIER_INDEXED, Kind.TRAP):
            self._resumes.append((random.randint(now + 3, due + 5), number))

    def _next(self, room: int, redirected: list[int]) -> Inputs:
        """What the units say in the next cycle."""
        random, behaviour, now = self.bench.random, self.behaviour, self.cycles
        inputs = Inputs(rooms={unit: random.random() < behaviour.room for unit in UNITS}, policy=behaviour.policy)
        inputs.collecting = self._collecting[0] <= now < self._collecting[1]
        for number, left in enumerate(self._held):
            begins = behaviour.holds and random.random() < behaviour.holds
            self._held[number] = max(0, left - 1) or (random.randrange(1, 20) if begins else 0)
            inputs.hold |= (self._held[number] > 0) << number
            if behaviour.injects and number not in self._injects and random.random() < behaviour.injects:
                self._injects[number] = random.choice(INJECTED)
        inputs.injects = dict(self._injects)
        for client in LaneClient:
            if client not in self._offers and random.random() < behaviour.operations:
                self._operations += 1
                self._offers[client] = self._operations, client is not LaneClient.LAUNCH and random.random() < 0.5
        inputs.operations = dict(self._offers)

        free = [number for number, warp in enumerate(self.model.warps)
                if not warp.live and not warp.in_flight and not warp.results and not self._warps[number].results]
        if free and random.random() < behaviour.launches:
            inputs.launched = random.choice(free)
            warp = self._warps[inputs.launched]
            warp.place = None
            warp.results.append((now + random.randint(*behaviour.flow), random.randrange(0, 1 << 12, 8), False))
        due = [number for number, warp in enumerate(self._warps)
               if warp.results and warp.results[0][0] <= now and number != inputs.launched]
        if due:
            number = random.choice(due)
            _, pc, ends = self._warps[number].results.popleft()
            inputs.result = number, pc, ends
        inputs.completions, self._completions = _some(self._completions, now, SOURCES)
        inputs.reads, self._reads = _some(self._reads, now, READERS)
        for resume in [resume for resume in self._resumes if resume[0] <= now]:
            self._resumes.remove(resume)
            inputs.resume |= 1 << resume[1]
        self._fetch(inputs, redirected)
        return inputs

    def _fetch(self, inputs: Inputs, redirected: list[int]) -> None:
        """Claims a place for a group, and lets one come."""
        random, now = self.bench.random, self.cycles
        able = [number for number, (feeding, warp) in enumerate(zip(self._warps, self.model.warps, strict=True))
                if warp.live and not warp.begins and feeding.claims < PLACES and feeding.place is not None
                and number not in redirected]
        self._claimed = random.choice(able) if able else None
        if self._claimed is not None:
            warp = self._warps[self._claimed]
            assert warp.place is not None
            due = now + random.randint(*self.behaviour.fetch)
            due = max([due, *(group[0] + 1 for group in self._coming if group[1] == self._claimed)])
            self._coming.append((due, self._claimed, warp.place))
            warp.place = (warp.place & -GROUP_BYTES) + GROUP_BYTES & 0xFFFF_FFFF
        ready = [group for group in self._coming if group[0] <= now]
        if ready:
            first = min(ready)
            self._coming.remove(first)
            _, number, pc = first
            address = instruction_address(pc)
            group = self.program(number, pc & -GROUP_BYTES)
            inputs.group = number, [planned for planned in group if planned.pc >= address]

    def _set(self, ctx: Any, inputs: Inputs) -> None:
        """The same, for the hardware."""
        dut = self.dut
        ctx.set(dut.rooms, inputs.rooms)
        ctx.set(dut.collecting, inputs.collecting)
        ctx.set(dut.hold, inputs.hold)
        for kind, asked in ((Kind.ENTER, dut.enter), (Kind.LEAVE, dut.leave)):
            ctx.set(asked, sum(1 << warp for warp, wanted in inputs.injects.items() if wanted is kind))
        ctx.set(dut.policy, inputs.policy)
        ctx.set(dut.resume, inputs.resume)
        ctx.set(dut.launched, {"valid": inputs.launched is not None, "warp": inputs.launched or 0})
        ctx.set(dut.claimed, {"valid": self._claimed is not None, "warp": self._claimed or 0})
        ctx.set(dut.result.valid, inputs.result is not None)
        if inputs.result is not None:
            warp, pc, terminated = inputs.result
            ctx.set(dut.result.payload, {"warp": warp, "pc": pc, "terminated": terminated})
        for port, event in _ports(dut.completions, inputs.completions):
            ctx.set(port, {"valid": event is not None} | (
                dict(zip(("warp", "write_barrier", "read_barrier"), event, strict=True)) if event else {}))
        for port, event in _ports(dut.reads, inputs.reads):
            ctx.set(port, {"valid": event is not None} | (
                dict(zip(("warp", "barrier"), event, strict=True)) if event else {}))
        for client in LaneClient:
            offer = inputs.operations.get(client)
            ctx.set(dut.operations[client.value].valid, offer is not None)
            if offer is not None:
                ctx.set(dut.operations[client.value].payload, {"serial": offer[0] % 0x10000, "gather": offer[1]})
        ctx.set(dut.group.valid, inputs.group is not None)
        if inputs.group is not None:
            self._set_group(ctx, *inputs.group)

    def _set_group(self, ctx: Any, warp: int, present: list[Planned]) -> None:
        base = present[0].pc & -GROUP_BYTES
        group = self.program(warp, base)
        ctx.set(self.dut.group.payload, {
            "warp": warp, "pc": base, "first": len(group) - len(present), "instructions": [
                {"word": planned.word, "kind": planned.kind, "error": planned.error, "constant": planned.constant,
                 "constant_missing": planned.missing, "control": {
                     name: getattr(planned.control, name)
                     for name in ("stall", "no_yield", "write_barrier", "read_barrier", "wait", "reuse")}}
                for planned in group]})


def _some(events: list[Any], now: int, most: int) -> tuple[list[Any], list[Any]]:
    """Events that are due, without when they were, at most so many; and those that are left."""
    due = [event for event in events if event[0] <= now][:most]
    return [event[1:] for event in due], [event for event in events if event not in due]


def _ports(ports: list[Any], events: Any) -> list[tuple[Any, Any]]:
    """An event, or None, for each port."""
    return list(zip(ports, [*events, *[None] * (len(ports) - len(events))], strict=True))
