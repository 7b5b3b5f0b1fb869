"""Tables of cycles in the manual are those of the hardware: figures that depend on the RTL alone.

The rows of benchmarks are measured again; each of them represents a few others, since all take
minutes. The cycles of the flow unit and of the stack are those that their testbenches require.
"""

import re
import shlex
from pathlib import Path

import pytest

from rtl.params import PRESETS
from sim.checks.benchmarks.classes import class_table
from sim.checks.benchmarks.machine import BenchmarkMachine
from sim.engine import CompiledEngine
from sim.run import main as run
from testbench.crs import limits
from testbench.engine.designs import needs_compiled
from testbench.flow.driver import ENTRY_CYCLES, HIT_CYCLES, PUSH_CYCLES
from testbench.flow.serial_cycles import LATENCY, SERIAL_CYCLES
from testbench.project.test_manual import DOCS
from testbench.project.test_manual import table as cells_of

PAGE = DOCS / "benchmarks.md"
HOLES = 3
"""Under a trap frame at most: they fill a line of four tokens."""
FLOW, STACK = (
    (DOCS / "units" / name).read_text(encoding="utf-8") for name in ("flow.md", "crs.md")
)
ONE_WARP = {
    "arithmetic: IADD to IADD": ("arithmetic: IADD to IADD, XMAD to XMAD; IADD.CC to IADD.X", 0),
    "predicate: ISETP to guard": ("predicate: ISETP to an operand or a guard", 0),
    "bytes: PRMT to PRMT": ("a quarter of the rate: BFE to BFE, PRMT to PRMT", 0),
    "S2R": ("S2R", 0),
    "conversion: I2I to I2I": ("conversion: POPC to POPC, I2I to I2I", 0),
    "SHFL to SHFL": ("SHFL to SHFL", 0),
    "LDS to LDS": ("LDS to LDS", 0),
    "LDG to LDG": ("LDG to LDG, all threads one address", 0),
    "STG": ("STG, one after the other, all threads one address", 0),
    "ATOM to ATOM, one address": ("ATOM to ATOM, all threads one address", 0),
    "BAR.SYNC, 1 warp": ("BAR.SYNC, 1 warp; 8 warps", 0),
    "BAR.SYNC, 8 warps": ("BAR.SYNC, 1 warp; 8 warps", 1),
    "BRA, taken": ("BRA to the next instruction", 0),
    "BRA, not taken": ("BRA backward that no thread takes", 0),
    "CAL, RET": ("CAL, RET: two jumps to other code", 0),
    "SSY, SYNC": ("SSY, SYNC; PBK, BRK", 0),
    "SSY, BRA that diverges, SYNC, SYNC": ("SSY, BRA that diverges, SYNC, SYNC", 0),
}
"""Names of the benchmark: the row of the table that has them, and which of its figures that is."""
SERIAL = (
    "arithmetic: IADD to IADD",
    "BRA, taken",
    "CAL, RET",
    "SSY, SYNC",
    "conversion: I2I to I2I",
    "LDS to LDS",
    "STG",
)
"""Names of the benchmark, in the order of the table of the serial machine."""
SEVERAL_WARPS = ("LDG, coalesced", "STG, coalesced", "LDS, no conflict", "IADD")
"""Rows of the table for eight warps, by the same names."""


def table(page: Path, heading: str, first: str = "") -> list[list[str]]:
    """The rows of a table, with the text of links alone. ``first``: what the head row begins with."""
    return [
        [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell) for cell in row]
        for row in cells_of(page, heading, first)
    ]


@pytest.fixture(scope="module")
def measured():
    machine = BenchmarkMachine(PRESETS["default"], CompiledEngine)
    return {
        row.name: row
        for row in class_table(
            machine, [*ONE_WARP, *(f"{name}, 8 warps" for name in SEVERAL_WARPS)]
        )
    }


@needs_compiled
def test_cycles_of_the_serial_machine_are_those_of_the_manual():
    machine = BenchmarkMachine(PRESETS["least"], CompiledEngine)
    found = {row.name: row.cycles for row in class_table(machine, SERIAL)}
    measured = [f"{found[name]:,.0f}" for name in SERIAL]
    rows = (
        (DOCS / "serial.md").read_text(encoding="utf-8").split("\n| instructions | cycles |\n")[1]
    )
    figures = [line.strip("|").split("|")[1].strip() for line in rows.split("\n\n")[0].splitlines()]
    assert figures[1:] == measured


@needs_compiled
def test_cycles_of_a_kernel_on_the_serial_machine_are_those_of_the_manual(capsys):
    (command, least), (_, tiny) = table(DOCS / "serial.md", "## Cycles", "command")[1:]
    words = shlex.split(command.removeprefix("python -m sim.run "))
    words[0] = str(DOCS.parent / words[0])
    for preset, cycles in (("least", least), ("tiny", tiny)):
        words[words.index("--preset") + 1] = preset
        assert run(words) == 0
        found = re.search(r"^cycles +(\d+)$", capsys.readouterr().out, re.MULTILINE)
        assert found is not None
        assert f"{int(found[1]):,}" == cycles


@needs_compiled
@pytest.mark.parametrize("name", ONE_WARP)
def test_cycles_of_one_warp_are_those_of_the_manual(measured, name):
    title, place = ONE_WARP[name]
    (row,) = [row for row in table(PAGE, "## One warp") if row[0] == title]
    assert row[1] == f"{measured[name].instructions:g}"
    assert row[2].split("; ")[place] == f"{measured[name].cycles:.1f}".removesuffix(".0")


@needs_compiled
@pytest.mark.parametrize("name", SEVERAL_WARPS)
def test_cycles_of_eight_warps_are_those_of_the_manual(measured, name):
    (row,) = [row for row in table(PAGE, "## Several warps") if row[0] == name]
    assert row[1] == f"{measured[f'{name}, 8 warps'].per_instruction:.1f}"


def test_cycles_of_flow_instructions_are_those_that_the_testbench_requires():
    rows = {row[0]: row[2] for row in table(PAGE, "## The flow unit")}
    assert rows["push"] == f"{PUSH_CYCLES}"
    assert rows["branch"] == rows["call"] == rows["all threads and back"] == f"{HIT_CYCLES}"
    assert (
        rows["leave, with or without an unwind that ends at the topmost token"] == f"{HIT_CYCLES}"
    )
    assert rows["unwind, each further token on chip"] == f"+{limits.TOKEN_CYCLES}"
    entry, hole = ENTRY_CYCLES - limits.TOKEN_CYCLES * HOLES, limits.TOKEN_CYCLES
    assert (
        "| any other instruction | the same warp's next one, at the earliest "
        f"| {HIT_CYCLES} |" in FLOW
    )
    assert (
        "| a push, or a direct branch that all active threads take and that cannot fail | the same warp's "
        f"next instruction, at the earliest | {PUSH_CYCLES} |" in FLOW
    )
    assert (
        "| ENTER (into the trap handler) | the warp's next instruction "
        f"| {entry}, and {hole} for each NONE token" in FLOW
    )


def test_cycles_of_the_trap_units_operations_are_those_that_the_testbench_requires():
    queue = 1
    rows = {row[0]: row[2] for row in table(DOCS / "control_flow.md", "### Traps", "operation")}
    entry = ENTRY_CYCLES - limits.TOKEN_CYCLES * HOLES - queue
    assert rows.pop("ENTER_TRAP") == f"{entry}, and {limits.TOKEN_CYCLES} for each hole"
    assert rows.pop("RESTORE") == "as an unwind"
    assert set(rows) == {"LEAVE_TRAP", "TERMINATE", "BRANCH"}
    assert set(rows.values()) == {f"{HIT_CYCLES - queue}"}


def test_cycles_of_the_serial_flow_unit_are_those_that_the_testbench_requires():
    page = table(DOCS / "control_flow.md", "## In a machine of one lane")
    cycles = [int(row[1].split()[0]) for row in page]
    required = SERIAL_CYCLES
    assert cycles == [
        required["leave, other threads remain"],
        required["branch, all threads"],
        required["push"],
        required["unwind to the topmost token"],
        required["each further token"],
        required["each hole"],
        required["exit of the last thread"],
        required["entry"],
        required["each hole under a frame"],
        required["restore"],
        required["line written"] - LATENCY,
        required["line read"] - LATENCY,
    ]
    assert required["push"] == required["call"] == required["divergent branch"]
    (row,) = [
        row
        for row in table(DOCS / "serial.md", "## Cycles")
        if row[0].startswith("flow instruction")
    ]
    assert row[1] == "; ".join(str(cycles[place]) for place in (0, 2, 3, 4))


def test_cycles_of_the_stack_are_those_that_the_testbench_requires():
    assert f"| an unwind | each further token on chip | {limits.TOKEN_CYCLES} more |" in STACK
    assert (
        "| a request, which is a push, SET_MODE or a GET | the same warp's next request "
        f"| {limits.PUSH_CYCLES} |" in STACK
    )
    later = ("", "one", "two", "three")[limits.RESULT_CYCLES]
    assert f"its result is output {later} cycles later" in " ".join(STACK.split())
