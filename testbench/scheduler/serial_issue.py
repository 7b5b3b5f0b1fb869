"""Drives the issue unit of a serial machine as fetch and the other units do, and tracks the state
of every warp.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rtl.isa.control_code import NO_BARRIER, instruction_address
from rtl.layouts import COMPLETING, GATHERING, KIND_RULES, LaneClient, Policy
from rtl.layouts import InstructionKind as Kind
from rtl.machines import units_of
from rtl.params import SmParams
from sim.checks.testbench import Bench
from testbench.driver import UnitDriver, offer
from testbench.scheduler.issue_model import Planned
from testbench.scheduler.operation_streams import (
    OPERATION_STREAMS,
    OperationKind,
    OperationStream,
    offers_of,
)

_CLIENTS = {
    "memory": LaneClient.MEMORY,
    "conversion": LaneClient.CONVERSION,
    "barrier": LaneClient.BARRIER,
    "flow": LaneClient.FLOW,
}
_AT_ONCE = Kind.NOTHING, Kind.DEPENDENCY
LATENCY = 2
"""Cycles from an operation taken to its output."""
_SLACK = 12
"""Cycles, besides some per warp, within which a warp that may issue must be selected."""


@dataclass(frozen=True)
class Chances:
    """Random behaviour of the units around issue.

    Attributes:
        fetch: Range in cycles from a fetch request to the instruction.
        under_way: Range in cycles from an instruction to its completion.
        room: Probability, per cycle, that all units have room.
        holds: Probability, per cycle, that a warp is held for some cycles.
        injects: Probability, per cycle, that a warp has to enter or to leave a trap.
        branches: Probability, per flow instruction, that it changes the pc.
        ends: Probability, per flow instruction, that it ends its warp.
        operations: Probability, per instruction, that its unit requests an operation.
        busy: Probability, per cycle, that the lanes are busy.
        launches: Probability, per cycle, that a free slot is launched.
        policy: The scheduling policy.
    """

    fetch: tuple[int, int] = (3, 9)
    under_way: tuple[int, int] = (2, 12)
    room: float = 0.9
    holds: float = 0.0
    injects: float = 0.0
    branches: float = 0.5
    ends: float = 0.1
    operations: float = 0.9
    busy: float = 0.2
    launches: float = 0.2
    policy: Policy = Policy.GREEDY_THEN_OLDEST


@dataclass
class _Warp:
    """The state of a warp. ``pc`` is that of its next instruction; undefined while ``begins``."""

    live: bool = False
    begins: bool = False
    pc: int = 0
    waits: bool = False
    held: int = 0
    injects: Kind | None = None
    able: int = 0
    """Number of cycles in which it could have been selected, apart from other warps."""
    passed: int = 0
    """Number of instructions of other warps selected meanwhile."""


@dataclass
class _Flight:
    """The instruction in flight: the cycle in which it ends, its result, and the operations that
    its unit requests.
    """

    warp: int
    planned: Planned | None
    kind: Kind
    sequence: int
    ends: int
    result: dict[str, int] | None = None
    operations: list[OperationStream] = field(default_factory=list)
    offered: int = 0


class SerialIssueDriver(UnitDriver):
    """Runs the issue unit of a serial machine for a number of cycles.

    Attributes:
        selected: Cycle, warp and kind of each selection.
        operations: The streams of the operations taken.
        passed: The maximum number of instructions of other warps selected while a warp could have
            been.
    """

    def __init__(
        self,
        bench: Bench,
        params: SmParams,
        program: Callable[[int, int], list[Planned]],
        chances: Chances,
    ) -> None:
        super().__init__(bench, units_of(params).issue(params))
        self.params, self.program, self.chances = params, program, chances
        self.selected: list[tuple[int, int, Kind]] = []
        self.operations: list[OperationStream] = []
        self.passed = 0
        self._warps = [_Warp() for _ in range(params.warps)]
        self._flight: _Flight | None = None
        self._wanted: tuple[int, int, int] | None = None  # due, warp, pc
        self._launches: list[tuple[int, int]] = []  # due, warp: results of launches
        self._resumes: list[tuple[int, int]] = []
        self._given: dict[str, Any] = {}  # events of the cycle
        self._idle = 0
        # output cycle of operations taken
        self._passing: list[tuple[int, OperationStream, _Flight]] = []
        self._room = False
        self._busy = False  # the lanes are busy

    async def _drive(self, ctx: Any, cycles: int) -> None:
        dut = self.dut
        ctx.set(dut.policy, self.chances.policy)
        streams = [offer.ready for offer in offers_of(dut).values()]
        ticks = self._ticks(
            ctx,
            dut.instruction.valid,
            dut.instruction.payload,
            dut.redirect.valid,
            dut.redirect.payload,
            dut.completion.valid,
            dut.completion.payload.sequence,
            dut.control.taken,
            dut.control.live,
            dut.drained,
            dut.gather.valid,
            dut.gather.payload,
            dut.write.valid,
            dut.write.payload,
            *streams,
        )
        async for (
            comes,
            instruction,
            asks,
            redirect,
            completes,
            sequence,
            taken,
            live,
            drained,
            gathers,
            gather,
            writes,
            write,
            *ready,
        ) in ticks:
            expect, warps = self.bench.expect, self._warps
            expect(
                "warps that live",
                live,
                sum(warp.live << number for number, warp in enumerate(warps)),
            )
            busy = self._flight.warp if self._flight is not None else None
            expect(
                "warps of which nothing is in flight",
                drained,
                sum((number != busy) << number for number in range(len(warps))),
            )
            self._operate(
                dict(zip(OPERATION_STREAMS, ready, strict=True)),
                {
                    OperationKind.GATHER: gather if gathers else None,
                    OperationKind.WRITE: write if writes else None,
                },
            )
            expect(
                "completion",
                (completes, sequence if completes else None),
                (
                    int(bool(comes) and Kind(instruction.kind) in _AT_ONCE),
                    len(self.selected) % 0x10000 if completes else None,
                ),
            )
            expect(
                "taken",
                taken,
                1 << instruction.warp
                if comes and not KIND_RULES[Kind(instruction.kind)].injected
                else 0,
            )
            self._progress(bool(comes), instruction.warp)
            self._change()
            if comes:
                self._issued(instruction)
            if asks:
                expect(
                    "an instruction is wanted while none is under way or wanted",
                    self._flight is None and self._wanted is None,
                    True,
                )
                warp = self._warps[redirect.warp]
                expect(
                    f"pc of warp {redirect.warp}",
                    (redirect.pc, warp.live and not warp.begins),
                    (warp.pc, True),
                )
                self._wanted = (
                    self.cycle + self.bench.random.randint(*self.chances.fetch),
                    redirect.warp,
                    redirect.pc,
                )
            if self.cycle >= cycles:
                break
            self._play(ctx)

    def _operate(self, ready: dict[OperationStream, int], out: dict[OperationKind, Any]) -> None:
        """Checks the operation taken in this cycle, and compares the operations at the outputs."""
        flight = self._flight
        asked = flight.operations[0] if flight is not None and flight.operations else None
        for stream, is_ready in ready.items():
            if is_ready and stream == asked:
                assert flight is not None
                if self._busy:
                    self.bench.fail("an operation is taken while the lanes are at something")
                if stream.kind is OperationKind.GATHER and not flight.offered:
                    self.bench.fail("a gather is taken in the first cycle in which it is offered")
                self._passing.append((self.cycle + LATENCY, stream, flight))
                flight.operations.pop(0)
                flight.offered = -1
        due = [(stream, passing) for cycle, stream, passing in self._passing if cycle == self.cycle]
        expected: dict[OperationKind, Any] = dict.fromkeys(out)
        for stream, passing in due:
            expected[stream.kind] = (
                stream.client,
                passing.warp,
                passing.sequence % 0x10000,
                passing.sequence % 16,
            )
            self.operations.append(stream)
        self._passing = [each for each in self._passing if each[0] > self.cycle]
        self.bench.expect(
            "operations",
            {
                kind: None
                if event is None
                else (
                    event.client,
                    event.operation.warp,
                    event.operation.sequence,
                    event.operation.index,
                )
                for kind, event in out.items()
            },
            expected,
        )
        if flight is not None:
            flight.offered += 1

    def _may(self, warp: _Warp) -> bool:
        return (
            warp.live
            and not warp.begins
            and (warp.injects is not None or not (warp.waits or warp.held))
        )

    def _progress(self, comes: bool, number: int) -> None:
        """Checks that a warp that may issue is selected in time, and counts the selections of other
        warps.
        """
        free = self._flight is None and self._room and any(self._may(warp) for warp in self._warps)
        self._idle = 0 if comes or not free else self._idle + 1
        if self._idle > 2 * self.params.warps + _SLACK + self.chances.fetch[1]:
            self.bench.fail("nothing is selected, though a warp may issue")
        for other, warp in enumerate(self._warps):
            able = self._may(warp) and not (comes and other == number)
            warp.passed = warp.passed + comes if able else 0
            self.passed = max(self.passed, warp.passed)

    def _issued(self, left: Any) -> None:
        """Checks that the selection is allowed, and compares it with the program."""
        expect, random, chances = self.bench.expect, self.bench.random, self.chances
        number, kind, warp = left.warp, Kind(left.kind), self._warps[left.warp]
        expect("nothing else is under way", self._flight, None)
        self._happened()
        rule, planned = KIND_RULES[kind], None
        expect("pc", left.pc, warp.pc)
        expect("sequence number", left.sequence, len(self.selected) % 0x10000)
        expect("scoreboards", (left.write_barrier, left.read_barrier), (NO_BARRIER, NO_BARRIER))
        if rule.injected:
            expect("what is injected", kind, warp.injects)
            warp.injects, following = None, warp.pc
            self._resumes = [each for each in self._resumes if each[1] != number]
        else:
            expect(
                f"whether warp {number} may issue", (self._may(warp), warp.injects), (True, None)
            )
            planned = self._at(number, warp.pc)
            for name in ("word", "kind", "quarter", "error", "constant"):
                expect(f"{name} at {warp.pc:#x}", left[name], getattr(planned, name))
            expect("missing", bool(left.constant_missing), planned.missing)
            following = planned.next_pc
        flight = _Flight(
            number,
            planned,
            kind,
            len(self.selected),
            self.cycle + random.randint(*chances.under_way),
        )
        self.selected.append((self.cycle, number, kind))
        warp.pc = following
        if rule.unit == "flow":
            goes = rule.after == "result" and random.random() < chances.branches
            pc = random.randrange(0, 1 << 10, 8) if goes else following
            ends = (
                kind in (Kind.FLOW, Kind.FLOW_INDEXED, Kind.LEAVE)
                and random.random() < chances.ends
            )
            flight.result = {
                "warp": number,
                "pc": pc,
                "terminated": ends,
                "as_predicted": int(pc == following),
            }
        if rule.after == "resumed":
            warp.waits = True
            self._resumes.append((self.cycle + random.randint(2, 40), number))
        if (
            rule.unit in _CLIENTS
            and not rule.silent
            and kind not in (Kind.BARRIER, Kind.BARRIER_INDEXED)
        ):
            client = _CLIENTS[rule.unit]
            flight.operations = [OperationStream(OperationKind.WRITE, client)]
            if client in GATHERING and random.random() < chances.operations:
                flight.operations.insert(0, OperationStream(OperationKind.GATHER, client))
        self._flight = None if kind in _AT_ONCE else flight

    def _at(self, number: int, pc: int) -> Planned:
        """The instruction of a warp at a pc."""
        return next(
            each for each in self.program(number, pc & -32) if each.pc == instruction_address(pc)
        )

    def _play(self, ctx: Any) -> None:
        """Chooses the events of the next cycle."""
        dut, random, chances, now = self.dut, self.bench.random, self.chances, self.cycle
        self._room, self._busy = random.random() < chances.room, random.random() < chances.busy
        ctx.set(dut.collecting, self._busy)
        ctx.set(dut.rooms.as_value(), 31 if self._room else random.getrandbits(5))
        for warp in self._warps:
            begins = random.random() < chances.holds
            warp.held = max(0, warp.held - 1) or (random.randrange(1, 40) if begins else 0)
            if warp.injects is None and warp.live and random.random() < chances.injects:
                warp.injects = random.choice((Kind.ENTER, Kind.LEAVE))
        for kind, port in ((Kind.ENTER, dut.control.enter), (Kind.LEAVE, dut.control.leave)):
            ctx.set(
                port,
                sum((warp.injects is kind) << number for number, warp in enumerate(self._warps)),
            )
        ctx.set(
            dut.control.hold,
            sum(bool(warp.held) << number for number, warp in enumerate(self._warps)),
        )
        self._give(ctx)
        self._begin(ctx)
        group = None
        if self._wanted is not None and self._wanted[0] <= now:
            _, number, pc = self._wanted
            self._wanted, planned = None, self._at(number, pc)
            group = {
                "warp": number,
                "pc": planned.pc,
                "first": 0,
                "instructions": [
                    {
                        "word": planned.word,
                        "kind": planned.kind,
                        "quarter": planned.quarter,
                        "error": planned.error,
                        "constant": planned.constant,
                        "constant_missing": planned.missing,
                    }
                ],
            }
        offer(ctx, dut.group, group)

    def _give(self, ctx: Any) -> None:
        """Offers operations of the instruction in flight, and completes it."""
        dut, random, flight, now = self.dut, self.bench.random, self._flight, self.cycle
        given: dict[str, Any] = dict.fromkeys(("result", "lanes", *COMPLETING))
        asked = flight.operations[0] if flight is not None and flight.operations else None
        for stream, port in offers_of(dut).items():
            offer(
                ctx,
                port,
                None if flight is None or stream != asked else {"index": flight.sequence % 16},
            )
        given[random.choice(("lanes", *COMPLETING))] = {
            "completes": 0,
            "warp": random.randrange(self.params.warps),
        }
        if flight is not None and asked is None and not self._passing and flight.ends <= now:
            if flight.result is not None:
                given["result"], flight.result = flight.result, None
                flight.ends = now + random.randint(1, 5)
            else:
                who = random.choice(("lanes", *COMPLETING))
                given[who] = {"completes": 1, "warp": flight.warp}
        resumed = [each for each in self._resumes if each[0] <= now]
        self._resumes = [each for each in self._resumes if each[0] > now]
        given["resume"] = sum(1 << number for number in {number for _, number in resumed})
        self._given = given

    def _begin(self, ctx: Any) -> None:
        """Launches warps in free slots, and applies all events of the cycle to the ports."""
        random, given, now = self.bench.random, self._given, self.cycle
        free = [number for number, warp in enumerate(self._warps) if not warp.live]
        given["launched"] = None
        if free and random.random() < self.chances.launches:
            given["launched"] = random.choice(free)
            self._launches.append((now + random.randint(2, 30), given["launched"]))
        if given["result"] is None and self._launches and self._launches[0][0] <= now:
            _, number = self._launches.pop(0)
            given["result"] = {
                "warp": number,
                "pc": random.randrange(0, 1 << 10, 8),
                "terminated": 0,
                "as_predicted": 0,
            }
        for name, port in (
            ("result", self.dut.result),
            ("lanes", self.dut.lanes),
            ("launched", self.dut.launched),
            *zip(COMPLETING, self.dut.units, strict=True),
        ):
            offer(ctx, port, given[name])
        ctx.set(self.dut.resume, given["resume"])

    def _change(self) -> None:
        """Applies the events of this cycle to the tracked state."""
        given, flight = self._given, self._flight
        if not given:
            return
        if any(
            given[name] is not None and given[name]["completes"] for name in ("lanes", *COMPLETING)
        ):
            self._flight = None
        for number, warp in enumerate(self._warps):
            warp.waits &= not given["resume"] >> number & 1
        if given["launched"] is not None:
            warp = self._warps[given["launched"]]
            warp.live = warp.begins = True
        if given["result"] is not None:
            warp, result = self._warps[given["result"]["warp"]], given["result"]
            warp.pc, warp.waits = instruction_address(result["pc"]), False
            if result["terminated"]:
                warp.live, warp.injects = False, None
                self._resumes = [each for each in self._resumes if each[1] != result["warp"]]
            if not warp.begins and flight is not None and KIND_RULES[flight.kind].silent:
                self._flight = None
            warp.begins = False
