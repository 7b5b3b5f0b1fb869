"""The unit for double precision: its testbench, and the exact arithmetic against MPFR."""

import random
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from rtl.core import Core
from rtl.isa.double import DOUBLE
from rtl.isa.kinds import FloatRounding
from rtl.params import PRESETS, SmParams
from sim.checks.testbench import Bench
from testbench import simulation
from testbench.double import tb_double
from testbench.double.cases import case_of, word_of_form
from testbench.double.driver import DoubleDriver
from testbench.double.numbers import EDGES, NAN, SIGN, as_double, doubles, fused
from testbench.simulation import failure
from testbench.submodules import submodules

gmpy2: Any = import_module("gmpy2")  # gmpy2 has no type hints
_ROUNDINGS = {
    FloatRounding.RN: gmpy2.RoundToNearest,
    FloatRounding.RM: gmpy2.RoundDown,
    FloatRounding.RP: gmpy2.RoundUp,
    FloatRounding.RZ: gmpy2.RoundToZero,
}
passes = partial(simulation.passes, "double")


@pytest.mark.parametrize("rounding", FloatRounding)
def test_what_is_expected_is_what_mpfr_makes_of_it(rounding):
    """Edges with both signs, and random operands near ties and the ends of the range."""
    source = random.Random(rounding.value)
    edges = [edge | sign for edge in EDGES for sign in (0, SIGN)]
    triples = [
        (source.choice(edges), source.choice(edges), source.choice(edges)) for _ in range(600)
    ]
    triples += zip(*doubles(source, 600), strict=True)
    with gmpy2.context(
        precision=53, emin=-1073, emax=1024, subnormalize=True, round=_ROUNDINGS[rounding]
    ):
        exact = [gmpy2.fma(*(gmpy2.mpfr(as_double(bits)) for bits in triple)) for triple in triples]
    found = [fused(*triple, rounding) for triple in triples]
    assert found == [
        NAN if gmpy2.is_nan(number) else np.array(float(number), np.float64).view(np.uint64)
        for number in exact
    ]


def test_results_of_the_datapath_are_correctly_rounded():
    assert passes(tb_double.check_datapath).checks["results of the datapath"] == 12 * 250


def test_comparisons_choose_as_the_host_does():
    assert passes(tb_double.check_comparisons).checks["choices"] == 2 * 304


@pytest.mark.parametrize("seed", [0, 1])
def test_doubles_of_every_form_agree_with_the_model(seed):
    passes(tb_double.check_forms, seed)


def test_doubles_of_edge_values_agree_with_the_model():
    passes(tb_double.check_corners)


def test_instructions_that_come_as_fast_as_there_is_room_follow_each_other():
    passes(tb_double.check_crowd)


def test_threads_that_do_not_execute_an_instruction_cost_no_cycles():
    assert passes(tb_double.check_pace).checks["instructions by themselves"] == len(tb_double.PACE)


@pytest.mark.parametrize(
    ("name", "what", "named"),
    [("DFMA", "after", "R4"), ("DADD", "conditions", "CC"), ("DSETP", "predicates", "P3")],
)
def test_a_wrong_result_is_seen(name, what, named):
    def body(bench: Bench) -> None:
        form = next(form for form in DOUBLE if form.name == name)
        case = case_of(
            bench.random, form, word_of_form(bench.random, form, Rd=4, Pd=3, Pd2=2, cc=1)
        )
        wrong = {
            "after": {**case.after, 4: [word ^ 1 for word in case.after.get(4, [])]},
            "conditions": [flags ^ 2 for flags in case.conditions or ()],
            "predicates": {number: held ^ 1 for number, held in case.predicates.items()},
        }
        DoubleDriver(bench, SmParams(), [replace(case, **{what: wrong[what]})]).run()

    assert named in failure("double", body)


def test_it_needs_single_precision():
    with pytest.raises(ValueError, match="doubles need floats"):
        SmParams(floats=False)


def test_a_machine_without_it_has_no_unit_for_it():
    assert "double" in submodules(Core(PRESETS["default"]))
    assert "double" not in submodules(Core(PRESETS["small"]))
