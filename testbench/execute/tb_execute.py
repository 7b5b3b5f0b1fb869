"""The lanes: every form of every instruction, against the thread model and the warp model.

The thread model executes words in all their modes, the warp model words with random fields, of
every form of the lanes. Operands include edges. Each instruction follows the one before in the next
cycle, or in a serial machine after its end. The lane of a serial machine is also compared with a
full lane of other machines.
"""

from collections.abc import Iterable

from rtl.execute.decode import LANE_FORMS
from rtl.isa.floating import FLOATING
from rtl.isa.video import VIDEO
from sim.checks.testbench import Bench
from sim.toolchain.assembly.spelling import spell
from sim.waves import Mark, Text, Trace, View
from testbench.execute.both_lanes import INTEGER_FORMS, BothDriver
from testbench.execute.driver import Beat, LaneDriver
from testbench.execute.reference import (
    COMPUTED,
    corner_beats,
    distance_beats,
    model_beats,
    thread_beats,
)

LANES = 4
"""Lanes of the tested machine. The result of a lane does not depend on their number."""
SHOWN = ("IADD", "XMAD", "SHF.R", "ISETP", "LOP3.LUT")
"""Instructions of the waveform."""


def _play(bench: Bench, what: str, beats: Iterable[Beat], lanes: int = LANES) -> dict[str, int]:
    driver = LaneDriver(bench, lanes, beats)
    driver.run()
    bench.checked(f"results, {what}", sum(driver.counts.values()))
    return driver.counts


def check_modes(bench: Bench, lanes: int = LANES) -> None:
    """Words of every form in its modes, against the thread model."""
    count = 1300 if bench.thorough else 30
    counts = _play(bench, "thread model", thread_beats(bench.random, lanes, count), lanes)
    _table(
        bench, "threads compared with the thread model", counts, {form.name for form in COMPUTED}
    )


def check_model(bench: Bench, lanes: int = LANES) -> None:
    """Words of every form with random legal fields, against the warp model."""
    count, forms = 500 if bench.thorough else 8, LANE_FORMS if lanes > 1 else INTEGER_FORMS
    counts = _play(bench, "warp model", model_beats(bench.random, lanes, count, forms), lanes)
    _table(bench, "threads compared with the warp model", counts, {form.name for form in forms})


def check_singles(bench: Bench) -> None:
    """Floating-point forms with registers, with operands that nearly cancel."""
    count = 9000 if bench.thorough else 60
    forms = [form for form in LANE_FORMS if form in FLOATING and form.variant in ("r", "")]
    counts = _play(bench, "single precision", model_beats(bench.random, LANES, count, forms))
    _table(bench, "threads compared in single precision", counts, {form.name for form in forms})
    _play(bench, "single precision at the ends of its ranges", corner_beats(bench.random, LANES))


def check_video(bench: Bench, lanes: int = LANES) -> None:
    """More words of video instructions, which have thousands of combinations of types, parts,
    bounds and second operations.
    """
    count = 6000 if bench.thorough else 50
    forms = [form for form in LANE_FORMS if form in VIDEO]
    counts = _play(
        bench, "video instructions", model_beats(bench.random, lanes, count, forms), lanes
    )
    _table(bench, "threads compared in video instructions", counts, {form.name for form in VIDEO})
    _play(bench, "distances of bytes", distance_beats(bench.random, lanes, 4 * count), lanes)


def check_serial(bench: Bench) -> None:
    """A serial machine: the same checks, and words of every form against a full lane of other
    machines.
    """
    for check in (check_modes, check_model, check_video):
        check(bench, 1)
    check_both(bench)


def check_both(bench: Bench) -> None:
    """Both full lanes: all their outputs, written or not."""
    driver = BothDriver(bench, 1000 if bench.thorough else 12)
    driver.run()
    bench.checked("results of both full lanes", sum(driver.counts.values()))


def _table(bench: Bench, title: str, counts: dict[str, int], names: set[str]) -> None:
    """Reports the number of comparisons of each instruction; fails if an instruction was not
    compared.
    """
    if missing := names - counts.keys():
        bench.fail(f"{title}: never {', '.join(sorted(missing))}")
    bench.table(title, ["", "threads"], sorted(counts.items()))


def record(bench: Bench) -> None:
    """Runs a few instructions for the waveform."""
    forms = [form for form in LANE_FORMS if form.name in SHOWN]
    driver = LaneDriver(bench, LANES, model_beats(bench.random, LANES, 3, forms))
    driver.run(traces=_traces(driver))


def _traces(driver: LaneDriver) -> View:
    dut = driver.dut
    lane, control = dut.lanes.lanes[0], dut.instruction.control
    prepared, terms = lane.combine.prepared, lane.conclude.terms
    return View(
        {
            "instruction": {
                "text": Text(spell, [dut.word]),
                "word": dut.word,
                "destination": Trace(dut.instruction.destination.register, "dec"),
                "first_term": control.first,
                "truth": control.truth,
                "product": control.product,
                "count": control.count,
            },
            "operands": {name: dut.operands[0][name] for name in ("a", "b", "c", "conditions")},
            "prepared": {
                "a": prepared.a,
                "b": prepared.b,
                "c": prepared.c,
                "less": prepared.relation.less,
                "amount": Trace(prepared.shift.amount, "dec"),
            },
            "terms": {"x": terms.x, "y": terms.y, "plus": terms.plus, "decision": terms.decision},
            "result": {name: dut.results[0][name] for name in ("value", "p", "q", "conditions")},
        },
        marks=[Mark("first", [dut.word])],
        cycle_pixels=130,
    )


def run(bench: Bench) -> None:
    """Runs the testbench."""
    for check in (check_modes, check_model, check_singles, check_video, record, check_serial):
        check(bench)
