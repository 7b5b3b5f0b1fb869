"""The lanes: the decoder against the instruction table, the whole by its testbench."""


from functools import partial

import pytest

from rtl.execute.decode import LANE_FORMS, LaneDecoder
from rtl.isa.floating import FLOATING
from rtl.isa.syntax import PT, RZ, Pipe
from rtl.isa.table import FORMS
from testbench import simulation
from testbench.execute import tb_execute
from testbench.execute.driver import LaneDriver
from testbench.execute.reference import formula_beats
from testbench.simulation import combinational, failure

FIXED_LATENCY = (Pipe.ALU, Pipe.PREDICATE, Pipe.MULTIPLY)


passes = partial(simulation.passes, "execute")


def test_every_form_of_fixed_latency_passes_the_lanes():
    others = {form.name for form in FORMS if form.pipe in FIXED_LATENCY and form not in LANE_FORMS}
    assert others == {"VOTE.VTG", "FSWZADD"}   # refused
    assert {form.name for form in LANE_FORMS if form.pipe not in FIXED_LATENCY} == {"S2R"}


def test_no_word_is_two_instructions():
    for number, form in enumerate(LANE_FORMS):
        for other in FORMS:
            if other not in LANE_FORMS[:number + 1]:
                assert (form.match ^ other.match) & form.mask & other.mask


@pytest.mark.parametrize("real", [False, True])
def test_what_is_no_instruction_of_the_lanes_writes_nothing(real):
    dut = LaneDecoder(real)

    async def body(ctx):
        for form in FORMS:
            if form in LANE_FORMS and (real or form not in FLOATING):
                continue
            ctx.set(dut.word, form.default)
            got = ctx.get(dut.instruction)
            assert (got.destination, got.p, got.q, got.writes_cc, got.control.unpack) == (RZ, PT, PT, 0, 0), form.name
            assert list(got.registers) == [RZ] * 3

    combinational(dut, body)


def test_formulas():
    assert passes(tb_execute.check_formulas).checks["results, formulas"] > 2500


def test_reference_machine():
    assert passes(tb_execute.check_model, 1).checks["results, reference machine"] > 2500


def test_single_precision():
    assert passes(tb_execute.check_singles, 2).checks["results, single precision"] > 2500


def test_video_instructions():
    assert passes(tb_execute.check_video, 3).checks["results, video instructions"] > 2500


@pytest.mark.parametrize("what", ["values", "conditions", "p", "destination", "threads"])
def test_a_wrong_result_is_seen(what):
    def body(bench):
        beats = [beat for beat in formula_beats(bench.random, 4, 1)
                 if (beat.after.conditions if what == "conditions" else beat.after.predicates if what == "p"
                     else beat.after.values)][:3]
        after = beats[-1].after
        if what == "p":
            after.predicates = {number: [bit ^ 1 for bit in bits] for number, bits in after.predicates.items()}
        elif what == "destination":
            after.destination ^= 1
        elif what == "threads":
            after.threads = after.threads[1:]
        else:
            setattr(after, what, [value ^ (thread == 3) for thread, value in enumerate(getattr(after, what))])
        LaneDriver(bench, 4, beats).run()

    found = {"values": "thread 3", "conditions": "CC", "p": "P", "destination": "destination", "threads": "threads"}
    assert found[what] in failure("execute", body)
