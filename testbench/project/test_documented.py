"""Every documented command begins its work with only the extras that are named beside it."""

import json
import re
import subprocess
import sys

import pytest

from sim.support.entry import EXTRAS
from testbench.project.documented import ROOT, documented

ELSEWHERE = re.compile(
    r"no such file|port /dev/|gtkwave and surfer are not installed|openFPGALoader is not installed|"
    r"not installed: (?:iverilog|verilator)|(?:iverilog|verilator) is not installed|"
    r"one of BOARD, --unit and --verilog is required|expected one argument|"
    r"the following arguments are required|there is no \S+\.vcd",
    re.IGNORECASE,
)
"""Permitted reasons for an end before that: files of another command, a board, programs that pip
does not install, and commands that a page only mentions.
"""


@pytest.fixture(scope="module")
def begun():
    done = subprocess.run(
        [sys.executable, "-m", "testbench.project.beginnings"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_commands_begin_with_the_extras_that_are_named_beside_them(begun):
    assert len(begun) == len(documented()) > 100
    wrong = [
        f"{each['page']}: {each['command']}: {each['errors'].strip()}"
        for each in begun
        if each["code"] not in (None, 0)
        and not each["missing"]
        and not ELSEWHERE.search(each["errors"])
    ]
    assert wrong == []


def test_every_extra_that_is_named_exists():
    """Every module of the table of extras is in the extra that the table names."""
    text = (ROOT / "pyproject.toml").read_text()
    table = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = {
        name: {
            word.lower().replace("-", "_")
            for word in re.findall(r'^ +"([\w-]+)', body, re.MULTILINE)
        }
        for name, body in re.findall(r"^(\w+) = \[(.*?)^\]", table, re.MULTILINE | re.DOTALL)
    }
    assert {extra for command in documented() for extra in command.extras} <= extras.keys()
    projects = {"PIL": "pillow", "serial": "pyserial", "z3": "z3_solver"}
    assert [
        module
        for module, extra in EXTRAS.items()
        if projects.get(module, module) not in extras[extra]
    ] == []
