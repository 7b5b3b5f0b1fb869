"""The error status of the whole machine: the short form of the testbench, and that its cases cover
every error.
"""

from dataclasses import replace
from functools import partial

import pytest

from rtl.isa.errors import WarpError
from rtl.params import PRESETS
from sim.engine import CompiledEngine
from testbench import simulation
from testbench.engine.designs import needs_compiled
from testbench.project.test_manual import HOST, table
from testbench.simulation import failure
from testbench.sm.errors import error_cases
from testbench.sm.tb_sm import NEVER_RAISED
from testbench.trap import tb_esr
from testbench.trap.driver import TrapDriver
from testbench.trap.esr_cases import REGISTERS

CODES = {error for error in WarpError if error is not WarpError.NONE}
ONE_EACH = {case.error: case for case in error_cases()}
"""The last case of each error."""


@pytest.fixture(scope="module")
def driver():
    return TrapDriver(PRESETS["default"], CompiledEngine)


passes = partial(simulation.passes, "esr", engine=CompiledEngine)


@needs_compiled
@pytest.mark.parametrize("error", ONE_EACH, ids=lambda error: error.name)
def test_each_error_sets_the_error_status_registers(driver, error):
    passes(lambda bench: tb_esr.check_errors(bench, driver, [ONE_EACH[error]]))


@needs_compiled
@pytest.mark.parametrize("name", REGISTERS.cases)
def test_each_case_of_the_registers_passes(driver, name):
    passes(lambda bench: driver.play(bench, REGISTERS.cases[name]))


def test_every_code_is_raised_or_the_manual_says_why_not():
    never = {
        WarpError[row[1]] for row in table(HOST, "## Warp errors") if row[3].startswith("nobody")
    }
    raised = {case.error for case in error_cases()} - {WarpError.NONE}
    assert never == NEVER_RAISED
    assert raised | never == CODES
    assert not raised & never


@needs_compiled
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"error": WarpError.OOR_ADDR}, "error: MISALIGNED_ADDR, expected OOR_ADDR"),
        ({"line": 0}, "pc: "),
        ({"body": ["NOP", "NOP"]}, "error: NONE, expected MISALIGNED_ADDR"),
    ],
)
def test_an_error_that_differs_is_found(driver, change, message):
    case = replace(ONE_EACH[WarpError.MISALIGNED_ADDR], **change)
    assert message in failure(
        "esr", lambda bench: tb_esr.check_errors(bench, driver, [case]), CompiledEngine
    )
