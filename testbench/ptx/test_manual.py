"""``docs/ptx.md`` agrees with the tests that it names."""

import re
from pathlib import Path

from testbench.ptx import test_branches as test_ptx_branches
from testbench.ptx import test_calls as test_ptx_calls

MANUAL = Path(__file__).parents[2] / "docs" / "ptx.md"


def claims() -> list[tuple[str, list[str]]]:
    """Returns the rows of the manual's table: a claim, and the tests that check it."""
    rows = re.findall(r"^\| (.+?) \| ((?:`\w+`(?:, )?)+) \|$", MANUAL.read_text(), re.MULTILINE)
    return [(claim, re.findall(r"`(\w+)`", tests)) for claim, tests in rows]


def test_every_claim_of_the_manual_has_its_test_and_every_test_its_claim():
    named = [test for _, tests in claims() for test in tests]
    names = {*vars(test_ptx_branches), *vars(test_ptx_calls)}
    present = {name for name in names if name.startswith("test_")}
    assert sorted(set(named)) == sorted(present)
