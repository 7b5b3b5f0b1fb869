"""The execute unit around its lanes: executing threads, latencies, outputs to other units.

There are directed cases for several numbers of lanes, random instructions of several warps at the
least distance of the latency contract, and kernels with their own stall counts. Every write is
compared with the warp model.
"""

from collections.abc import Iterable

from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.waves import Mark, Trace, View, instruction
from testbench.kernels.manifest import RUNS
from testbench.pipeline.cases import CASES, REPORTED, SERIAL_CASES, distances
from testbench.pipeline.driver import Pipeline, Script
from testbench.pipeline.programs import KernelLives
from testbench.pipeline.random_programs import RandomLives
from testbench.pipeline.special import check_special_registers

_LANES = (1, 2, 4, 8, 32)
_KERNELS = (
    "k08_fib_recursion",
    "k24_bitops",
    "k25_divrem32:unsigned",
    "k27_murmur_xorshift:zero",
    "k15_shared_reduce",
)
"""Kernels with recursion, shifts and logic, division, products, several warps."""


def machine_of(lanes: int, warps: int = 4) -> SmParams:
    """The parameters of a small machine."""
    floats = lanes > 1
    return SmParams(warps=warps, lanes=lanes, registers=256, floats=floats, doubles=floats)


def check_cases(bench: Bench, lanes: int = 8) -> None:
    """All directed cases."""
    pipeline = Pipeline(bench, machine_of(lanes), report_mask=REPORTED)

    def script(p: Pipeline) -> Script:
        for case in cases:
            yield from case(p)

    cases = SERIAL_CASES if pipeline.params.serial else CASES
    pipeline.play(script)
    bench.checked("cases", len(cases))


def check_distances(bench: Bench, lanes: int) -> None:
    """The latencies of results."""
    Pipeline(bench, machine_of(lanes)).play(distances)
    bench.checked("lane counts whose latencies are exact")


def check_random(bench: Bench, lanes: int = 8, steps: int = 300, warps: int = 4) -> None:
    """Random instructions of all warps."""
    lives = RandomLives(bench, machine_of(lanes, warps), steps)
    lives.run()
    bench.checked("instructions and operations compared", lives.ledger.compared)


def check_programs(bench: Bench, names: Iterable[str], limit: int = 300, lanes: int = 8) -> None:
    """Kernels with the stall counts of NVIDIA's assembler."""
    for name in names:
        lives = KernelLives(bench, machine_of(lanes), RUNS[name], "O3", limit)
        lives.run()
        bench.checked(
            "instructions of kernels, and writes of other units between them", lives.ledger.compared
        )


def record(bench: Bench) -> None:
    """Runs some instructions of four warps for the waveform."""
    lives = RandomLives(bench, machine_of(8), 60)
    lives.run(traces=traces_of(lives.pipeline))
    bench.checked("instructions and operations compared", lives.ledger.compared)


def traces_of(pipeline: Pipeline) -> View:
    """The traced signals of the unit."""
    dut = pipeline.dut
    issued, written = dut.instruction.payload, dut.written.payload
    gather, write = dut.gather.payload, dut.write.payload
    operands = dut.operands
    beat = operands.beat
    beat_record = beat.payload.record
    first = operands.operands[0]
    return View(
        {
            "S2": {
                "text": instruction(dut.instruction.valid, issued.word, issued.pc),
                "instruction": dut.instruction.valid,
                "warp": Trace(issued.warp, "dec"),
                "pc": issued.pc,
                "kind": issued.kind,
                "word": issued.word,
                "gather": dut.gather.valid,
                "gathers": gather.client,
                "first": Trace(gather.operation.registers[0], "dec"),
                "write": dut.write.valid,
                "writes": write.client,
                "register": Trace(write.operation.register, "dec"),
                "active": dut.masks.read.value,
                "guard": dut.dispatch_stage.selection.guard,
                "executing": dut.dispatch_stage.slot.payload.threads,
                "read_beat": Trace(operands.registers.beat, "dec"),
            },
            "S4": {
                "valid": beat.valid,
                "beat": Trace(beat_record.place.beat, "dec"),
                "threads": beat_record.threads,
                "a": first.a,
                "b": first.b,
                "c": first.c,
            },
            "S7": {
                "valid": dut.written.valid,
                "warp": Trace(written.warp, "dec"),
                "beat": Trace(written.beat, "dec"),
                "lanes": written.lanes,
                "register": Trace(written.register, "dec"),
                "value": written["values"][0],
                "predicates": written.predicates,
                "cc": written.conditional,
            },
            "events": {
                "complete": dut.completion.valid,
                "sequence": dut.completion.payload.sequence,
                "passed": dut.passed.valid,
                "dispatch": dut.dispatch.valid,
                "error": dut.error.valid,
            },
        },
        marks=[Mark("instruction", [dut.instruction.valid])],
    )


def run(bench: Bench) -> None:
    """Runs the testbench."""
    for lanes in _LANES:
        check_cases(bench, lanes)
        check_random(bench, lanes, 2000 if bench.thorough else 300)
    for lanes in (1, 8):
        check_special_registers(bench, machine_of(lanes))
        check_programs(bench, _KERNELS, 2000 if bench.thorough else 300, lanes)
    record(bench)
