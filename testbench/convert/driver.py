"""Drives the conversion unit with instructions of many warps, and compares all its outputs."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ
from rtl.layouts import InstructionKind
from rtl.machines import units_of
from rtl.params import WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.toolchain.assembly.spelling import spell
from testbench.convert.cases import BANK, ConversionCase
from testbench.driver import UnitDriver, as_struct, offer
from testbench.execute.constant_server import ConstantServer
from testbench.execute.lane_client_driver import LaneClientDriver, LaneOperation

_DISPATCH_CYCLES = 3
"""Cycles from the selection of an instruction to its dispatch."""
_GATHER_CYCLES = 4
"""The minimum number of cycles from the selection of an instruction to its gather."""
_NO_BARRIER = 7
_SEQUENCES = 1 << 16


@dataclass
class _Flying:
    """A selected instruction in flight."""

    case: ConversionCase
    sequence: int
    warp: int
    selected: int
    operations: list[LaneOperation] = field(default_factory=list)


class ConvertDriver(UnitDriver):
    """Executes cases, each on a warp that has no other one in flight.

    Parameters:
        bench: Source of random numbers for the times of instructions; reports differences.
        params: Parameters of the hardware.
        idle: Probability that no instruction is selected although there is room, and that the lanes
            are busy.
        delay: Cycles by which the lanes are later.
        report_mask: Errors that are reported.

    Attributes:
        done: Number of completed instructions.
        cycles: For each instruction name, the cycles from selection to completion.
    """

    def __init__(
        self,
        bench: Bench,
        params: SmParams,
        cases: Iterable[ConversionCase],
        *,
        idle: float = 0.3,
        delay: int = 0,
        report_mask: int = 0xFFFF_FFFF,
    ) -> None:
        dut = units_of(params).conversion(params)
        self.lanes = LaneClientDriver(
            bench, params, dut.port, idle=idle, delay=delay, ended=self._ended
        )
        self._constants = ConstantServer(bench, dut, idle)
        super().__init__(bench, dut, self.lanes, self._constants)
        self.done = 0
        self.cycles: dict[str, list[int]] = {}
        self._params = params
        self._cases = iter(cases)
        self._case = next(self._cases, None)
        self._coming: deque[Any] = deque([None] * _DISPATCH_CYCLES)
        self._idle = idle
        self._report_mask = report_mask
        self._flying: deque[_Flying] = deque()
        self._completed: set[int] = set()
        self._sequence = bench.random.randrange(_SEQUENCES)

    async def _drive(self, ctx: Any) -> None:
        """Executes all cases."""
        ctx.set(self.dut.report_mask, self._report_mask)
        self._advance(ctx)
        async for done, error in self._ticks(
            ctx, as_struct(self.dut.completion), as_struct(self.dut.error)
        ):
            if error.valid:
                self._error(error)
            if done.valid:
                self._complete(
                    int(done.sequence),
                    int(done.warp),
                    int(done.write_barrier),
                    int(done.read_barrier),
                    True,
                )
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
        idle = (
            case is None
            or self.bench.random.random() < self._idle
            or not ctx.get(self.dut.room)
            or (self._params.serial and self._flying)
        )
        if not idle and case is not None and (warp := self._free_warp()) is not None:
            chosen = self._select(case, warp)
            self._case = next(self._cases, None)
        self._coming.append(chosen)
        offer(ctx, self.dut.dispatch, self._coming.popleft())

    def _free_warp(self) -> int | None:
        """A random warp without an instruction in flight; None if there is none."""
        free = set(range(self._params.warps)) - {flying.warp for flying in self._flying}
        return self.bench.random.choice(sorted(free)) if free else None

    def _select(self, case: ConversionCase, warp: int) -> dict[str, Any]:
        """Selects a case for a warp; returns the payload of its dispatch."""
        self._sequence = (self._sequence + 1) % _SEQUENCES
        self._flying.append(_Flying(case, self._sequence, warp, self.lanes.now))
        for number, vector in case.before.items():
            self.lanes.registers[warp, number] = list(vector)
        self.lanes.conditions[warp] = [0] * WARP_THREADS
        # The serial unit does not request a word that it does not need.
        if (
            case.threads
            and case.error is WarpError.NONE
            and case.wide
            and (case.writes or not self._params.serial)
        ):
            self._constants.expect(spell(case.word), BANK, case.wide, case.constant[1])
        return {
            "warp": warp,
            "sequence": self._sequence,
            "pc": 8 * self._sequence,
            "word": case.word,
            "kind": InstructionKind.CONVERSION,
            "active": case.active,
            "guard": case.guard,
            "operands": [case.constant[0], 0],
            "same": (1 << WARP_THREADS) - 1,
            "fault": case.fault,
            "write_barrier": case.write_barrier,
            "read_barrier": case.read_barrier,
        }

    def _ended(self, operation: LaneOperation) -> None:
        """Records an operation that the lanes have executed."""
        flying = next(
            (flying for flying in self._flying if flying.sequence == operation.sequence), None
        )
        if flying is None:
            self.bench.fail(
                f"an operation of sequence number {operation.sequence}, which is not under way"
            )
        flying.operations.append(operation)
        if operation.gather:
            self.bench.expect(
                f"{self._name(flying)}: a gather right after dispatch",
                operation.cycle - flying.selected >= _GATHER_CYCLES,
                True,
            )
        elif operation.last:
            self._complete(
                operation.sequence, operation.warp, operation.barrier, _NO_BARRIER, False
            )

    def _error(self, event: Any) -> None:
        """Compares a reported error, which precedes the completion of its instruction."""
        flying = self._flying[0]
        self.bench.expect(
            f"{self._name(flying)}: error, pc, warp",
            (WarpError(event.error), event.pc, event.warp),
            (flying.case.error, 8 * flying.sequence, flying.warp),
        )
        self._completed.add(flying.sequence)

    def _complete(
        self, sequence: int, warp: int, write_barrier: int, read_barrier: int, at_once: bool
    ) -> None:
        """Compares the effects of the oldest instruction, which has completed."""
        bench, flying = self.bench, self._flying.popleft()
        case, where = flying.case, self._name(flying)
        bench.expect(
            f"{where}: completes as sequence number, warp",
            (sequence, warp),
            (flying.sequence, flying.warp),
        )
        bench.expect(f"{where}: write barrier", write_barrier, case.write_barrier)
        bench.expect(f"{where}: ends without a write", at_once, not case.writes)
        bench.expect(
            f"{where}: has an error", sequence in self._completed, case.error is not WarpError.NONE
        )
        gathers = [operation for operation in flying.operations if operation.gather]
        writes = [operation for operation in flying.operations if not operation.gather]
        read = case.writes and (case.reads or case.read_barrier != _NO_BARRIER)
        # A lane reads one register at a time.
        words = 1 + (self._params.serial and case.reads_pair)
        bench.expect(
            f"{where}: gathers",
            [(operation.last, operation.barrier) for operation in gathers],
            [(place == words - 1, case.read_barrier) for place in range(words)] if read else [],
        )
        if at_once:
            bench.expect(f"{where}: read barrier", read_barrier, case.read_barrier)
        registers = sorted(case.after) if case.writes else []
        if case.writes and not registers:
            registers = [RZ]
        last = len(registers) - 1
        expected = [
            (number, place == last, place == last and case.conditions is not None, case.threads)
            for place, number in enumerate(registers)
        ]
        bench.expect(
            f"{where}: writes",
            [
                (operation.registers[0], operation.last, operation.conditional, operation.threads)
                for operation in writes
            ],
            expected,
        )
        for number, vector in case.after.items():
            bench.expect(f"{where}: R{number}", self.lanes.registers[flying.warp, number], vector)
        if case.conditions is not None:
            bench.expect(f"{where}: CC", self.lanes.conditions[flying.warp], case.conditions)
        self.done += 1
        self._happened()
        self.cycles.setdefault(case.form.name, []).append(self.lanes.now - flying.selected)

    def _name(self, flying: _Flying) -> str:
        return f"{spell(flying.case.word)} ({flying.case.word:#018x}), sequence number {flying.sequence}"
