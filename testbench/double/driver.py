"""Drives the unit for double precision with instructions of many warps, and compares all its
outputs.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rtl.double import DoubleUnit
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT
from rtl.layouts import InstructionKind
from rtl.params import WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.toolchain.assembly.spelling import spell
from testbench.double.cases import BANK, DoubleCase
from testbench.driver import UnitDriver, offer
from testbench.execute.constant_server import ConstantServer
from testbench.execute.lane_client_driver import LaneClientDriver, LaneOperation

_DISPATCH_CYCLES = 3
"""Cycles from the selection of an instruction to its dispatch."""
_NO_BARRIER = 7
_SEQUENCES = 1 << 16


@dataclass
class _Flying:
    """A selected instruction in flight."""

    case: DoubleCase
    sequence: int
    warp: int
    selected: int
    operations: list[LaneOperation] = field(default_factory=list)


class DoubleDriver(UnitDriver):
    """Executes cases, each on a warp that has no other one in flight.

    Parameters:
        bench: Source of random numbers for the times of instructions; reports differences.
        params: Parameters of the hardware.
        idle: Probability that no instruction is selected although there is room, and that the lanes
            and the constants are busy.
        delay: Cycles by which the lanes are later.

    Attributes:
        done: Number of completed instructions.
        cycles: For each instruction name, the cycles from selection to completion.
    """

    def __init__(
        self,
        bench: Bench,
        params: SmParams,
        cases: Iterable[DoubleCase],
        *,
        idle: float = 0.3,
        delay: int = 0,
    ) -> None:
        dut = DoubleUnit(params)
        self.lanes = LaneClientDriver(
            bench, params, dut.port, idle=idle, delay=delay, ended=self._ended
        )
        self._constants = ConstantServer(bench, dut, idle)
        super().__init__(bench, dut, self.lanes, self._constants)
        self.done = 0
        self.cycles: dict[str, list[int]] = {}
        self._params, self._idle = params, idle
        self._cases = iter(cases)
        self._case = next(self._cases, None)
        self._coming: deque[Any] = deque([None] * _DISPATCH_CYCLES)
        self._flying: deque[_Flying] = deque()
        self._sequence = bench.random.randrange(_SEQUENCES)

    async def _drive(self, ctx: Any) -> None:
        """Executes all cases."""
        self._advance(ctx)
        async for _ in self._ticks(ctx):
            if self._case is None and not self._flying:
                return
            self._advance(ctx)

    def _due(self) -> list[str]:
        return [self._name(flying) for flying in self._flying]

    def _advance(self, ctx: Any) -> None:
        """Selects a case, with the given probability, and dispatches the one selected some cycles
        ago.
        """
        chosen, case = None, self._case
        free = set(range(self._params.warps)) - {flying.warp for flying in self._flying}
        if (
            case is not None
            and free
            and ctx.get(self.dut.room)
            and self.bench.random.random() >= self._idle
        ):
            chosen = self._select(case, self.bench.random.choice(sorted(free)))
            self._case = next(self._cases, None)
        self._coming.append(chosen)
        offer(ctx, self.dut.dispatch, self._coming.popleft())

    def _select(self, case: DoubleCase, warp: int) -> dict[str, Any]:
        """Selects a case for a warp; returns the payload of its dispatch."""
        self._sequence = (self._sequence + 1) % _SEQUENCES
        self._flying.append(_Flying(case, self._sequence, warp, self.lanes.now))
        for number, vector in case.before.items():
            self.lanes.registers[warp, number] = list(vector)
        self.lanes.conditions[warp] = [0] * WARP_THREADS
        for number in range(PT):
            self.lanes.predicates[warp, number] = 0
        constant = (0, True)
        if case.offset is not None:
            self._constants.expect(
                spell(case.word), BANK, case.offset + 4, case.constant(case.offset + 4)[0]
            )
            constant = case.constant(case.offset)
        return {
            "warp": warp,
            "sequence": self._sequence,
            "pc": 8 * self._sequence,
            "word": case.word,
            "kind": InstructionKind.CONVERSION,
            "active": (1 << WARP_THREADS) - 1,
            "guard": case.threads,
            "predicate": case.predicate,
            "operands": [constant[0], 0],
            "same": (1 << WARP_THREADS) - 1,
            "fault": WarpError.NONE,
            "write_barrier": case.write_barrier,
            "read_barrier": case.read_barrier,
        }

    def _ended(self, operation: LaneOperation) -> None:
        """Records an operation that the lanes have executed; the last write completes its
        instruction.
        """
        flying = next(
            (flying for flying in self._flying if flying.sequence == operation.sequence), None
        )
        if flying is None:
            self.bench.fail(
                f"an operation of sequence number {operation.sequence}, which is not under way"
            )
        flying.operations.append(operation)
        if operation.last and not operation.gather:
            self._complete()

    def _complete(self) -> None:
        """Compares the effects of the oldest instruction, which has completed."""
        bench, flying = self.bench, self._flying.popleft()
        case, where = flying.case, self._name(flying)
        gathers = [operation for operation in flying.operations if operation.gather]
        writes = [operation for operation in flying.operations if not operation.gather]
        bench.expect(
            f"{where}: the warp of all operations",
            {each.warp for each in flying.operations},
            {flying.warp},
        )
        bench.expect(
            f"{where}: barriers of its gathers",
            [(each.last, each.barrier) for each in gathers],
            [(False, _NO_BARRIER)] * (len(gathers) - 1) + [(True, case.read_barrier)],
        )
        bench.expect(
            f"{where}: barriers of its writes",
            [(each.last, each.barrier) for each in writes],
            [(False, _NO_BARRIER)] * (len(writes) - 1) + [(True, case.write_barrier)],
        )
        bench.expect(f"{where}: threads", {each.threads for each in writes}, {case.threads})
        for number, vector in case.after.items():
            bench.expect(f"{where}: R{number}", self.lanes.registers[flying.warp, number], vector)
        for number in range(PT):
            bench.expect(
                f"{where}: P{number}",
                self.lanes.predicates[flying.warp, number] & case.threads,
                case.predicates.get(number, 0) & case.threads,
            )
        if case.conditions is not None:
            bench.expect(f"{where}: CC", self.lanes.conditions[flying.warp], case.conditions)
        self.done += 1
        self._happened()
        self.cycles.setdefault(case.form.name, []).append(self.lanes.now - flying.selected)

    def _name(self, flying: _Flying) -> str:
        return f"{spell(flying.case.word)} ({flying.case.word:#018x}), sequence number {flying.sequence}"
