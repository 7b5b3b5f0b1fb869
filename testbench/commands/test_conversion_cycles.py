"""The documented cycles of the conversion unit and the double-precision unit are those of the
hardware.
"""

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from rtl.convert.datapath import DATAPATH_STAGES, FUNCTION_DELAY
from rtl.isa.double import DOUBLE
from rtl.isa.table import find
from rtl.params import PRESETS, WARP_THREADS, SmParams
from testbench.commands.test_unit_cycles import cycles, text_of
from testbench.convert.cases import case_of
from testbench.convert.driver import ConvertDriver
from testbench.double import cases as double_cases
from testbench.double.driver import DoubleDriver
from testbench.double.tb_double import PACE
from testbench.handmade import ALL
from testbench.project.test_manual import DOCS, table
from testbench.watch import Watch, watched
from testbench.words import encode

PARAMS = SmParams(warps=16, lanes=8)
SOURCE = 8
"""The register that is converted."""
POPC = encode("POPC", "r", Rd=4, Rb=SOURCE)
WORDS = {
    "POPC": POPC,
    "I2F": encode("I2F", "r", Rd=4, Rb=SOURCE, source=2, destination=2),
    "I2F to a pair": encode("I2F", "r", Rd=4, Rb=SOURCE, source=2, destination=3),
    "MUFU": encode("MUFU", Rd=4, Ra=SOURCE, function=4),
    "I2I": encode("I2I", "r", Rd=4, Rb=SOURCE, source=2, destination=2),
    "I2I that saturates": encode("I2I", "r", Rd=4, Rb=SOURCE, source=2, destination=1, saturate=1),
    "I2F of a pair": encode("I2F", "r", Rd=4, Rb=SOURCE, source=3, destination=2),
}
HALF_WORD = 0xFFFF
"""The largest number that I2I.U16 does not saturate."""
REGISTERED = 2
"""Cycles from the request for a source until the datapath's register has it."""


@dataclass(frozen=True)
class Run:
    """An instruction that is alone in its unit.

    Attributes:
        case: The instruction.
        watch: The samples of its events.
        total: Cycles from its selection to its completion.
    """

    case: Any
    watch: Watch
    total: int

    def between(self, first: str, second: str) -> int:
        """Returns the cycles from the last cycle in which one signal is 1 to the next one in which
        another is.
        """
        start = self.watch.last(first)
        return self.watch.first(second, start) - start


def serial_cycles(row: str) -> str:
    """Returns the documented cycles of the form with one lane."""
    return cycles("convert", row, heading="### With one lane")


def lane_events(port: Any) -> dict[str, Any]:
    """Returns the signals between a unit and the lanes."""
    return {
        "gather": port.gather.valid,
        "gather granted": port.gather.valid & port.gather.ready,
        "gathered": port.data.gathered.valid,
        "write": port.write.valid,
        "write granted": port.write.valid & port.write.ready,
        "wanted": port.data.wanted.valid,
    }


def conversion(params: SmParams, name: str) -> Run:
    word = WORDS[name]
    form = find(word)
    assert form is not None
    case = case_of(random.Random(0), form, word)

    def signals(dut: Any) -> dict[str, Any]:
        of_both = {"dispatch": dut.dispatch.valid} | lane_events(dut.port)
        if params.serial:
            return of_both
        return of_both | {
            "requested": dut.compute._requested.valid,
            "leaves": dut.compute._leaving.valid,
        }

    driver, watch = watched(
        "convert", lambda bench: ConvertDriver(bench, params, [case], idle=0.0), signals
    )
    ((total,),) = driver.cycles.values()
    return Run(case, watch, total)


@pytest.fixture(scope="module")
def converted():
    return {name: conversion(PARAMS, name) for name in ("POPC", "I2F", "I2F to a pair", "MUFU")}


@pytest.fixture(scope="module")
def serial():
    return {
        name: conversion(PRESETS["least"], name)
        for name in ("I2I", "I2I that saturates", "I2F of a pair", "POPC")
    }


def test_a_conversion_takes_the_cycles_of_the_manual(converted):
    popc, single, function = (converted[name] for name in ("POPC", "I2F", "MUFU"))
    row = cycles("convert", "from dispatch to the request for the gather")
    assert {row} == {
        f"{run.watch.first('gather') - run.watch.first('dispatch')}" for run in converted.values()
    }
    groups = len(popc.watch.cycles("requested"))
    assert cycles("convert", "POPC, I2I") == f"{groups // PARAMS.beats} a beat"
    for run, row, stages in (
        (single, "all others except MUFU", DATAPATH_STAGES),
        (function, "MUFU", DATAPATH_STAGES + FUNCTION_DELAY),
    ):
        threads = len(run.watch.cycles("requested"))
        assert cycles("convert", row) == f"{threads} plus {stages}"
        delay = run.watch.first("leaves") - run.watch.first("requested")
        assert delay == REGISTERED + stages
    assert (
        f"for single threads: {WARP_THREADS} cycles and its {DATAPATH_STAGES} stages, for MUFU "
        f"{DATAPATH_STAGES + FUNCTION_DELAY}."
    ) in text_of("docs/lanes.md")
    shown = text_of("waveforms/README.md")
    assert f"a thread's source, and {DATAPATH_STAGES} cycles later its result" in shown
    writes = [
        len(converted[name].watch.cycles("write granted")) for name in ("I2F", "I2F to a pair")
    ]
    assert writes == [1, 2]


def test_a_serial_conversion_takes_the_cycles_of_the_manual(serial):
    single, clamped, pair = (
        serial[name] for name in ("I2I", "I2I that saturates", "I2F of a pair")
    )
    requested = {run.watch.first("gather") - run.watch.first("dispatch") for run in serial.values()}
    assert requested == {int(serial_cycles("from dispatch to the request for the gather"))}
    assert [len(run.watch.cycles("gather granted")) for run in (single, pair)] == [1, 2]

    def compute(run: Run) -> int:
        """Returns the cycles of all threads, after the cycle in which the last gather's last beat
        arrives.
        """
        return run.between("gathered", "write") - 1

    a_thread = compute(single) // WARP_THREADS
    assert compute(single) == compute(serial["POPC"]) == compute(pair) == a_thread * WARP_THREADS
    phases = serial_cycles(
        "for each thread: reading the source, shift and exponent, result, range check"
    )
    assert sum(map(int, phases.split(","))) == a_thread
    saturated = sum(source > HALF_WORD for source in clamped.case.before[SOURCE])
    assert 0 < saturated < WARP_THREADS
    more, rest = divmod(compute(clamped) - compute(single), saturated)
    assert not rest
    assert serial_cycles("a result that saturates, or is NaN") == f"{more} more"
    clamped_too = (
        f"A thread takes {a_thread} cycles, or {a_thread + more} if its result is clamped."
    )
    assert clamped_too in text_of("docs/lanes.md")
    (row,) = [row for row in table(DOCS / "serial.md", "## Cycles") if row[0] == "conversion"]
    least, most = (each * WARP_THREADS + 1 for each in (a_thread, a_thread + more))
    assert row[1] == f"{least:,} to {most:,}"


# Double precision


def double(threads: int, count: int = 1) -> Watch:
    """Runs DFMA ``count`` times, each on a warp of its own."""

    def make(bench: Any) -> DoubleDriver:
        form = next(form for form in DOUBLE if form.name == "DFMA")
        word = double_cases.word_of_form(bench.random, form, Rd=4, Ra=8, Rb=10, Rc=12)
        case = double_cases.case_of(bench.random, form, word, threads)
        return DoubleDriver(bench, PARAMS, [case] * count, idle=0.0)

    _, watch = watched(
        "double",
        make,
        lambda dut: {
            "dispatch": dut.dispatch.valid,
            "enters": dut.compute.sent.valid,
            "result": dut.compute.result.valid,
            **lane_events(dut.port),
        },
    )
    return watch


@pytest.fixture(scope="module")
def doubles():
    return {threads: double(threads) for threads in (ALL, 1)}


def test_double_precision_takes_the_cycles_of_the_manual(doubles):
    watch, beats = doubles[ALL], PARAMS.beats
    first, second = watch.cycles("gather granted")
    row = cycles("double", "from dispatch to the request for the gather")
    assert row == str(watch.first("gather") - watch.first("dispatch"))
    assert cycles("double", "gathers").startswith(f"{len(watch.cycles('gathered')) // beats} times")
    assert second - first == beats
    read = watch.first("enters") - 1
    upper = watch.cycles("gathered")[beats]
    assert cycles("double", "from the first beat of the upper words") == str(read - upper)
    last = watch.last("enters")
    step = cycles("double", "from a thread in the datapath to the next one")
    assert last - watch.first("enters") == int(step) * (WARP_THREADS - 1)
    second_write = watch.cycles("wanted")[beats]
    row = cycles("double", "from the last thread's result to the request")
    assert row == str(second_write - watch.last("result"))
    starts = double(ALL, 6).cycles("enters")[::WARP_THREADS]
    apart = {later - earlier for earlier, later in pairwise(starts)}
    assert {int(cycles("double", "from an instruction of all 32 threads to the next"))} == apart


def test_the_events_of_a_double_are_in_the_cycles_of_the_manual(doubles):
    watch, single = doubles[ALL], doubles[1]
    gathers, beats = watch.cycles("gather granted"), watch.cycles("gathered")
    writes = watch.cycles("write granted")
    assert cycles("double", "dispatched; output of the queue") == str(watch.first("dispatch"))
    row = cycles("double", "the gather of the lower words is requested")
    assert row == f"{watch.first('gather')}; {gathers[0]}; {beats[0]}"
    row = cycles("double", "the gather of the upper words is granted")
    assert row == f"{gathers[1]}; {beats[PARAMS.beats]}"
    enters, last = watch.first("enters"), watch.last("enters") - 1 - WARP_THREADS
    row = cycles("double", "the first thread's operands are read; they enter the datapath")
    assert row == f"{enters - 1}; {enters}; {watch.first('result')}"
    assert cycles("double", "the last thread's operands are read") == f"n + {last}"
    row = cycles("double", "the write of the lower words is requested")
    of_all, of_one = writes[0] - WARP_THREADS, single.first("write granted") - 1
    assert row == f"n + {of_all} for all threads, n + {of_one} for one"
    row = cycles("double", "the write of the upper words is granted at the earliest")
    assert row == f"{writes[1] - writes[0]} cycles later; {PACE[ALL] - writes[0]} cycles later"
