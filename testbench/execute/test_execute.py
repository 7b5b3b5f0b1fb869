"""The lanes: the decoder against the instruction table, the lanes by their testbench."""

import random
from collections import Counter
from functools import partial
from itertools import product

import pytest

from rtl.execute import float_prepare
from rtl.execute.decode import LANE_FORMS
from rtl.execute.decode_stage import DecodeStage
from rtl.execute.float_control import FloatTerms
from rtl.execute.float_prepare import FloatPrepare
from rtl.isa.floating import FLOATING
from rtl.isa.legality import is_refused
from rtl.isa.syntax import PT, RZ, Pipe
from rtl.isa.table import FORMS, find
from rtl.layouts import InstructionKind
from rtl.params import WARP_THREADS, SmParams
from rtl.word import telling_patterns
from sim.model.thread.run import step
from testbench import simulation
from testbench.execute import tb_execute
from testbench.execute.driver import LaneDriver
from testbench.execute.reference import thread_beats
from testbench.handmade import alone, encode
from testbench.simulation import combinational, failure, simulate

FIXED_LATENCY = (Pipe.ALU, Pipe.PREDICATE, Pipe.MULTIPLY)


passes = partial(simulation.passes, "execute")


def test_every_form_of_fixed_latency_passes_the_lanes():
    others = {form.name for form in FORMS if form.pipe in FIXED_LATENCY and form not in LANE_FORMS}
    assert others == {
        "VOTE.VTG",
        "VABSDIFF4",
    }  # refused; of VABSDIFF4 only words that compiled code does not have
    assert {form.name for form in LANE_FORMS if form.pipe not in FIXED_LATENCY} == {"S2R"}


def test_no_word_is_two_instructions():
    for number, form in enumerate(LANE_FORMS):
        for other in FORMS:
            refused_rest = is_refused(other) and not other.mask & ~form.mask
            if other not in LANE_FORMS[: number + 1] and not refused_rest:
                assert (form.match ^ other.match) & form.mask & other.mask


@pytest.mark.parametrize("floats", [False, True])
def test_what_is_no_instruction_of_the_lanes_lets_operands_pass(floats):
    dut = DecodeStage(SmParams(floats=floats, doubles=False))

    async def body(ctx):
        for form in FORMS:
            if find(form.default) is not form:
                continue
            kind = source.choice(
                [kind for kind in InstructionKind if kind is not InstructionKind.LANES]
            )
            ctx.set(dut.instruction.payload, {"word": form.default, "kind": kind})
            ctx.set(dut.instruction.valid, source.getrandbits(1))
            await ctx.tick()
            got = ctx.get(dut.decoded.lanes)
            destination = got.destination
            assert (destination.register, destination.q, destination.writes_cc) == (RZ, PT, 0), (
                form.name
            )
            assert not got.control.unpack, form.name
            assert list(got.registers) == [RZ] * 3
            assert not ctx.get(dut.decoded.computes)
            decoded.add(got.as_bits())
        assert len(decoded) == 1

    source, decoded = random.Random(0), set()
    simulate(dut, body)


@pytest.mark.parametrize("floats", [False, True])
def test_every_form_is_distinguished_from_all_others(floats):
    """With any fields, and with fewer compared bits than the forms have fixed ones."""
    forms = [form for form in LANE_FORMS if floats or form not in FLOATING]
    source = random.Random(1)
    for name in {form.name for form in forms}:
        group, others = (
            [form for form in forms if form.name == name],
            [form for form in forms if form.name != name],
        )
        patterns = telling_patterns(group, others)
        tests = [
            (int(pattern.replace("-", "0"), 2), int(pattern.replace("0", "1").replace("-", "0"), 2))
            for pattern in patterns
        ]
        for form in forms:
            word = source.getrandbits(64) & ~form.mask | form.match
            assert any(word & mask == match for match, mask in tests) == (form in group), form.name
        assert sum(mask.bit_count() for _, mask in tests) < sum(
            form.mask.bit_count() for form in group
        )


@pytest.mark.parametrize("lanes", [4, 1])
def test_lanes_agree_with_the_thread_model_in_every_mode(lanes):
    assert (
        passes(partial(tb_execute.check_modes, lanes=lanes)).checks["results, thread model"]
        > 600 * lanes
    )


@pytest.mark.parametrize("lanes", [4, 1])
def test_lanes_agree_with_the_warp_model(lanes):
    assert (
        passes(partial(tb_execute.check_model, lanes=lanes), 1).checks["results, warp model"]
        > 600 * lanes
    )


def test_single_precision_results_are_those_of_the_formulas():
    assert passes(tb_execute.check_singles, 2).checks["results, single precision"] > 2500


@pytest.mark.parametrize("lanes", [4, 1])
def test_video_instructions(lanes):
    assert (
        passes(partial(tb_execute.check_video, lanes=lanes), 3).checks[
            "results, video instructions"
        ]
        > 600 * lanes
    )


def test_the_lane_of_a_serial_machine_computes_what_a_full_lane_does():
    assert passes(tb_execute.check_both, 4).checks["results of both full lanes"] > 1200


@pytest.mark.parametrize("what", ["values", "conditions", "p", "destination", "threads"])
def test_a_wrong_result_is_seen(what):
    def body(bench):
        beats = [
            beat
            for beat in thread_beats(bench.random, 4, 1)
            if (
                beat.after.conditions
                if what == "conditions"
                else beat.after.predicates
                if what == "p"
                else beat.after.values
            )
        ][:3]
        after = beats[-1].after
        if what == "p":
            after.predicates = {
                number: [bit ^ 1 for bit in bits] for number, bits in after.predicates.items()
            }
        elif what == "destination":
            after.destination ^= 1
        elif what == "threads":
            after.threads = after.threads[1:]
        else:
            setattr(
                after,
                what,
                [value ^ (thread == 3) for thread, value in enumerate(getattr(after, what))],
            )
        LaneDriver(bench, 4, beats).run()

    found = {
        "values": "thread 3",
        "conditions": "CC",
        "p": "P",
        "destination": "destination",
        "threads": "threads",
    }
    assert found[what] in failure("execute", body)


# FCHK: exponents of dividend and divisor, and their difference, for which the short path of a
# division is valid.
LEAST, MOST = {"a": 30, "b": 1, "a - b": -124}, {"a": 254, "b": 252, "a - b": 125}


def at_the_bounds():
    """Exponents of a and b at which one bound is met, or missed by one, while all others hold."""
    for what, off in product(LEAST, (-1, 0, 1)):
        for bound in (LEAST, MOST):
            edge = bound[what] + off
            for other in range(256):
                a, b = {"a": (edge, other), "b": (other, edge), "a - b": (other, other - edge)}[
                    what
                ]
                measures = {"a": a, "b": b, "a - b": a - b}
                if (
                    0 <= a <= 255
                    and 0 <= b <= 255
                    and other % 8 == 5
                    and all(
                        LEAST[name] <= measure <= MOST[name]
                        for name, measure in measures.items()
                        if name != what
                    )
                ):
                    yield a, b, not LEAST[what] <= edge <= MOST[what]


def checks_divisions():
    """FCHK in a lane at both sides of each bound."""
    source, dut = random.Random(0), FloatPrepare()

    async def body(ctx):
        ctx.set(dut.control, {"decides": 1, "terms": FloatTerms.ADD, "checks": 1})
        counts = Counter()
        for a, b, outside in at_the_bounds():
            fractions = [source.choice([0, 0x7F_FFFF, source.getrandbits(23)]) for _ in "ab"]
            words = [
                source.getrandbits(1) << 31 | exponent << 23 | fraction
                for exponent, fraction in zip((a, b), fractions, strict=True)
            ]
            ctx.set(dut.operands, dict(zip("ab", words, strict=True)))
            assert ctx.get(dut.holds) == outside, (a, b)
            counts[outside] += 1
        assert min(counts[True], counts[False]) > 60

    combinational(dut, body)


def test_divisions_are_checked_at_their_bounds():
    checks_divisions()


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize(
    ("bound", "place"),
    [("_DIVIDENDS", 0), ("_DIVIDENDS", 1), ("_DIVISORS", 1), ("_QUOTIENTS", 0), ("_QUOTIENTS", 1)],
)
def test_a_bound_that_is_one_off_is_seen(monkeypatch, bound, place, step):
    moved = list(getattr(float_prepare, bound))
    moved[place] += step
    monkeypatch.setattr(float_prepare, bound, tuple(moved))
    with pytest.raises(AssertionError):
        checks_divisions()


def test_both_models_check_divisions_at_the_same_bounds():
    word = encode("FCHK", "r", Pd=0, Ra=1, Rb=2)
    cases = list(at_the_bounds())
    cases = cases[: len(cases) // WARP_THREADS * WARP_THREADS]
    for first in range(0, len(cases), WARP_THREADS):
        part = cases[first : first + WARP_THREADS]
        registers = {1: [a << 23 for a, _, _ in part], 2: [b << 23 for _, b, _ in part]}
        warp, _ = alone(word, registers)
        assert warp.predicates[0] == sum(
            outside << thread for thread, (_, _, outside) in enumerate(part)
        )
        for thread in range(0, WARP_THREADS, 4):
            done = step(word, {number: row[thread] for number, row in registers.items()})
            assert done.predicates[0] == part[thread][2]
