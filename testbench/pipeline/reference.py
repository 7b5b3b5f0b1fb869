"""The expected outputs of the execute unit, from the warp model, and their comparison."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rtl.isa.control_code import INSTRUCTION_BYTES, instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.rate import quarter_rate
from rtl.isa.syntax import PT, RZ, Constant, Form, Values
from rtl.params import WARP_THREADS
from sim.checks.testbench import Bench
from sim.launch import Launch
from sim.model.warp.action import constant_address
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement
from sim.model.warp.state import Warp
from testbench.pipeline.driver import Pipeline, Script, Written

RESULT_CYCLES = 6
"""Cycles from an instruction to one that reads its register or its CC."""
COMPLETION_CYCLES = 6
"""Cycles from an instruction in S2 to the write of its first beat in S8."""
_WORD = 4


def grid_of(launch: Launch) -> Mapping[str, Any]:
    """The unit's grid inputs for a launch."""
    return {
        "registers": launch.registers,
        "shared": launch.shared,
        "local": launch.local,
        "grid": dict(zip("xyz", launch.grid, strict=True)),
        "block": dict(zip("xyz", launch.block, strict=True)),
    }


def begin(pipeline: Pipeline, warp: Warp, first_row: int) -> Script:
    """Launches a warp, without setting its registers."""
    pipeline.launch(warp.slot, first_row=first_row, index=warp.cta.index)
    yield
    for thread in range(WARP_THREADS):
        x, y, z = (int(axis[thread]) for axis in warp.thread_index)
        pipeline.place(warp.slot, thread, (x, y, z))
        yield
    pipeline.flow_result(warp.slot, warp.masks.active)
    yield


def word_at(machine: WarpModel, warp: Warp) -> int:
    """The word of a warp's next instruction."""
    launch = machine.launch
    return launch.memory.read_number(
        launch.program_base + instruction_address(warp.pc), INSTRUCTION_BYTES
    )


def constant_of(machine: WarpModel, form: Form, values: Values) -> tuple[int, bool]:
    """The value of the constant operand at a fixed address, and whether the address is beyond the
    end of its bank.
    """
    for operand in form.operands.values():
        if isinstance(operand, Constant) and operand.index is None:
            bank, place = values[operand.bank], constant_address(values, operand)
            content = machine.launch.banks.get(bank, b"")
            return (
                machine.constant(bank, place, _WORD, WarpError.INVALID_CONST_ADDR),
                place + _WORD > -(-len(content) // _WORD) * _WORD,
            )
    return 0, False


@dataclass(frozen=True)
class Expected:
    """The expected writes of an instruction, and the warp's predicates after it."""

    name: str
    record: Retirement
    predicates: tuple[int, ...]
    barriers: tuple[int, int]
    last_beat: int


def compare(bench: Bench, expected: Expected, written: Written) -> None:
    """Compares a write with the warp model."""
    record, name = expected.record, expected.name
    registers = (
        {written.register: written.threads} if written.threads and written.register != RZ else {}
    )
    bench.expect(
        f"{name}: registers and threads",
        registers,
        {number: threads for number, (threads, _) in record.registers.items()},
    )
    for number, (threads, values) in record.registers.items():
        for thread in _threads(threads):
            bench.expect(
                f"{name}: R{number} of thread {thread}", written.values[thread], values[thread]
            )
    executing = {threads for threads, _ in record.predicates.values()}
    for number in record.predicates:
        if len(record.predicates) < PT:
            bench.expect(
                f"{name}: writes P{number}", written.predicates >> number & 1, int(any(executing))
            )
    for thread in _threads(written.threads):
        bench.expect(
            f"{name}: predicates of thread {thread}",
            written.flags[thread],
            sum((mask >> thread & 1) << number for number, mask in enumerate(expected.predicates)),
        )
    threads, nibbles = record.condition or (0, ())
    bench.expect(
        f"{name}: threads whose CC is written",
        written.threads if written.conditional else 0,
        threads,
    )
    for thread in _threads(threads):
        bench.expect(f"{name}: CC of thread {thread}", written.conditions[thread], nibbles[thread])


def _threads(mask: int) -> Iterator[int]:
    return (thread for thread in range(mask.bit_length()) if mask >> thread & 1)


class Ledger:
    """The expected writes of everything that passes the lanes of a pipeline.

    Attributes:
        compared: Number of instructions and operations whose writes were compared.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._expected: dict[int, Expected] = {}
        self.compared = 0

    def note(
        self, sequence: int, name: str, record: Retirement, warp: Warp, barriers: tuple[int, int]
    ) -> None:
        """Records an instruction or operation that passes the lanes now.

        ``warp`` is the model's state after it, ``barriers`` are its write and read scoreboards.
        """
        pipeline = self._pipeline
        ends = pipeline.cycle + COMPLETION_CYCLES + pipeline.params.beats - 1
        if quarter_rate(record.word):
            ends += pipeline.params.parts * pipeline.params.beats
        self._expected[sequence] = Expected(
            f"cycle {pipeline.cycle}, {name}", record, tuple(warp.predicates[:PT]), barriers, ends
        )

    def check(self) -> None:
        """Compares all writes and completions at the end of a run."""
        pipeline, bench = self._pipeline, self._pipeline.bench
        completions = {int(event.sequence): (cycle, event) for cycle, event in pipeline.completions}
        for sequence, expected in self._expected.items():
            compare(bench, expected, pipeline.written.get(sequence, Written()))
            self.compared += 1
            bench.expect(f"{expected.name}: complete", sequence in completions, True)
            cycle, event = completions[sequence]
            if pipeline.timed:
                bench.expect(f"{expected.name}: cycle of completion", cycle, expected.last_beat)
            bench.expect(
                f"{expected.name}: scoreboards",
                (event.write_barrier, event.read_barrier),
                expected.barriers,
            )
        bench.expect(
            "instructions that are complete", len(pipeline.completions), len(self._expected)
        )
