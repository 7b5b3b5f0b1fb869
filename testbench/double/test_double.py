"""The unit for double precision."""

from dataclasses import replace
from functools import partial

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from rtl.conversion_units import ConversionUnits
from rtl.isa.double import DOUBLE
from rtl.params import PRESETS, SmParams
from sim.testbench import Bench
from testbench import simulation
from testbench.double import tb_double
from testbench.double.cases import case_of, word_of_form
from testbench.double.driver import DoubleDriver
from testbench.simulation import failure

passes = partial(simulation.passes, "double")


def test_datapath():
    assert passes(tb_double.check_datapath).checks["results of the datapath"] == 12 * 250


def test_comparisons():
    assert passes(tb_double.check_comparisons).checks["choices"] == 2 * 304


@pytest.mark.parametrize("seed", [0, 1])
def test_forms(seed):
    passes(tb_double.check_forms, seed)


def test_corners():
    passes(tb_double.check_corners)


def test_crowd():
    passes(tb_double.check_crowd)


@pytest.mark.parametrize(("name", "what", "named"), [
    ("DFMA", "after", "R4"), ("DADD", "conditions", "CC"), ("DSETP", "predicates", "P3")])
def test_a_wrong_result_is_seen(name, what, named):
    def body(bench: Bench) -> None:
        form = next(form for form in DOUBLE if form.name == name)
        case = case_of(bench.random, form, word_of_form(bench.random, form, Rd=4, Pd=3, Pd2=2, cc=1))
        wrong = {"after": {**case.after, 4: [word ^ 1 for word in case.after.get(4, [])]},
                 "conditions": [flags ^ 2 for flags in case.conditions or ()],
                 "predicates": {number: held ^ 1 for number, held in case.predicates.items()}}
        DoubleDriver(bench, SmParams(), [replace(case, **{what: wrong[what]})]).run()

    assert named in failure("double", body)


def test_it_needs_single_precision():
    with pytest.raises(ValueError, match="doubles need floats"):
        SmParams(floats=False)


def test_a_machine_without_it_has_no_unit_for_it():
    with_it, without = (rtlil.convert(ConversionUnits(PRESETS[preset])) for preset in ("default", "small"))
    assert "rtl/double/" in with_it
    assert "rtl/double/" not in without
