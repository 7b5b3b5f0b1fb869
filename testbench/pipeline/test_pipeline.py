"""The execute unit around its lanes: its parts, the unit by its testbench, and faults that must be
detected.
"""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module, Signal

from rtl.execute.common import CommonDecoder
from rtl.execute.condition import CONDITION_TABLES
from rtl.execute.vote import verdict_of, votes_of
from rtl.isa.condition import ConditionCode
from rtl.isa.kinds import VoteMode
from rtl.isa.syntax import PT, Pipe
from rtl.isa.table import FORMS
from rtl.params import WARP_THREADS
from sim.checks.testbench import Bench, CheckError
from sim.model.warp.retirement import Retirement, WarpMasks
from testbench import simulation
from testbench.pipeline import tb_pipeline
from testbench.pipeline.driver import Written
from testbench.pipeline.reference import Expected, compare
from testbench.pipeline.special import check_special_registers
from testbench.simulation import ENGINE, combinational
from testbench.words import form_of

passes = partial(simulation.passes, "pipeline")


def _operand(predicate: Any) -> tuple[int, int]:
    return predicate.number, predicate.negated


def test_guards_tests_and_operands_of_every_form():
    dut = CommonDecoder()
    constants = [form for form in FORMS if form.pipe is Pipe.FLOW and form.variant == "c"]

    async def body(ctx):
        for word in {form.default for form in FORMS}:
            form = form_of(word)
            for name, number in (
                ("guard", 3),
                ("guard_not", 1),
                ("test", 5),
                ("Pc", 2),
                ("Pc_not", 1),
            ):
                if name in form.fields:
                    word = form.fields[name].put(word, number)
            ctx.set(dut.word, word)
            ctx.set(dut.x, {"number": 4, "negated": 0})
            instruction, votes = (
                ctx.get(dut.instruction),
                (form.name == "BAR" and form.variant != "all")
                or (form.pipe is Pipe.DOUBLE and "x" in form.operands),
            )
            tested = form.pipe is Pipe.FLOW and "test" in form.fields
            assert _operand(instruction.guard) == ((3, 1) if form.guarded else (PT, 0)), form
            assert (
                instruction.test.as_bits()
                == CONDITION_TABLES[5 if tested else ConditionCode.T.value]
            ), form
            assert _operand(instruction.predicate) == ((2, 1) if votes else (4, 0)), form
            assert not instruction.misaligned, form
        for form in constants:
            for offset in range(8):
                ctx.set(dut.word, form.fields["offset"].put(form.default, offset))
                # Where a register is added, the alignment of the offset alone is not an error.
                misaligned = offset % 4 != 0 and form.name not in ("BRX", "JMX")
                assert ctx.get(dut.instruction).misaligned == misaligned, form

    combinational(dut, body)


def test_votes_against_python():
    source, mode, verdict = Random(0), Signal(VoteMode), Signal()
    executing, holding = Signal(WARP_THREADS), Signal(WARP_THREADS)
    m = Module()
    votes = votes_of(executing, holding)
    m.d.comb += verdict.eq(verdict_of(mode, votes.agrees, votes.objects))

    async def body(ctx):
        for _ in range(300):
            threads, predicate = (
                source.choice([0, 1, (1 << 32) - 1, source.getrandbits(32), 1 << 31]) for _ in "12"
            )
            ballot = threads & predicate
            for asked, answer in (
                (VoteMode.ALL, ballot == threads),
                (VoteMode.ANY, ballot != 0),
                (VoteMode.EQ, ballot in (0, threads)),
            ):
                for port, value in ((mode, asked), (executing, threads), (holding, predicate)):
                    ctx.set(port, value)
                assert ctx.get(verdict) == answer

    combinational(m, body)


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_each_case_of_the_pipeline_passes(lanes):
    assert passes(lambda bench: tb_pipeline.check_cases(bench, lanes)).checks["cases"] > 8


@pytest.mark.parametrize("lanes", [4, 8])
def test_how_soon_results_are_seen(lanes):
    passes(lambda bench: tb_pipeline.check_distances(bench, lanes))


@pytest.mark.parametrize(("lanes", "steps"), [(1, 340), (2, 220), (4, 220)])
def test_random_instructions_and_operations_agree_with_the_model(lanes, steps):
    report = passes(lambda bench: tb_pipeline.check_random(bench, lanes, steps, 2))
    assert report.checks["instructions and operations compared"] > 100


@pytest.mark.parametrize(("lanes", "least"), [(1, 60), (8, 500)])
def test_special_registers_are_read_as_the_launch_says(lanes, least):
    report = passes(lambda bench: check_special_registers(bench, tb_pipeline.machine_of(lanes)))
    assert report.checks["reads of special registers"] > least


def test_a_kernel_with_its_own_stall_counts():
    report = passes(lambda bench: tb_pipeline.check_programs(bench, ["k25_divrem32:unsigned"], 120))
    assert report.cycles > 500


@pytest.mark.parametrize(
    "wrong",
    [
        {"threads": 1},
        {"threads": 7},
        {"register": 4},
        {"values": [5, 6] * 16},
        {"predicates": 0},
        {"flags": [4] * 32},
        {"conditional": False},
        {"conditions": [9, 8] * 16},
    ],
    ids=str,
)
def test_a_wrong_write_is_seen(wrong):
    masks = WarpMasks(3)
    record = Retirement(
        0,
        8,
        0,
        masks,
        masks,
        16,
        0,
        0,
        registers={3: (3, (5,) * 32)},
        predicates={2: (3, 1)},
        condition=(3, (9,) * 32),
    )
    expected = Expected("one", record, (0, 0, 1, 0, 0, 0, 0), (7, 7), 0)
    right = Written(3, 3, [5] * 32, 1 << 2, [4, 0] * 16, True, [9] * 32)
    bench = Bench("pipeline", ENGINE)
    compare(bench, expected, right)
    with pytest.raises(CheckError, match="one: "):
        compare(bench, expected, replace(right, **wrong))
