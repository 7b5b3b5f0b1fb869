"""The tables of cycles in the manual are those of the hardware: figures that depend on the RTL
alone.

The rows of benchmarks are measured again, in shorter loops. The cycles of the flow unit and of the
stack are those that their testbenches require.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from rtl.params import PRESETS
from sim.checks.benchmarks.classes import class_table
from sim.checks.benchmarks.floats import float_table
from sim.checks.benchmarks.machine import BenchmarkMachine
from sim.checks.benchmarks.roofline import roofline_table
from sim.checks.benchmarks.throughput import throughput_table
from sim.engine import CompiledEngine
from sim.run import main as run
from testbench.commands.test_unit_cycles import NUMERALS, cycles, text_of
from testbench.crs import limits
from testbench.engine.designs import needs_compiled
from testbench.flow.driver import ENTRY_CYCLES, HIT_CYCLES, PUSH_CYCLES
from testbench.flow.serial_cycles import LATENCY, SERIAL_CYCLES
from testbench.project.test_manual import DOCS
from testbench.project.test_manual import table as cells_of

PAGE = DOCS / "benchmarks.md"
HOLES = 3
"""Largest number of holes under a trap frame: they fill a line of four tokens."""
FLOW, STACK = (
    (DOCS / "units" / name).read_text(encoding="utf-8") for name in ("flow.md", "crs.md")
)
ONE_WARP = {
    "arithmetic: IADD to IADD, XMAD to XMAD; IADD.CC to IADD.X": [
        ["arithmetic: IADD to IADD", "arithmetic: XMAD to XMAD", "carry: IADD.CC to IADD.X"]
    ],
    "predicate: ISETP to an operand or a guard": [
        ["predicate: ISETP to operand", "predicate: ISETP to guard"]
    ],
    "VOTE to VOTE": [["VOTE to VOTE"]],
    "a quarter of the rate: BFE to BFE, PRMT to PRMT": [
        ["field: BFE to BFE", "bytes: PRMT to PRMT"]
    ],
    "the same, with a scoreboard: IMUL to IMUL": [["product: IMUL to IMUL"]],
    "S2R": [["S2R"]],
    "conversion: POPC to POPC, I2I to I2I": [
        ["conversion: POPC to POPC", "conversion: I2I to I2I"]
    ],
    "double precision: DADD to DADD, DMUL to DMUL, DFMA to DFMA; with one active thread": [
        ["double: DADD to DADD", "double: DMUL to DMUL", "double: DFMA to DFMA"],
        ["double: DFMA to DFMA, one thread active"],
    ],
    "SHFL to SHFL": [["SHFL to SHFL"]],
    "LDC to LDC": [["LDC to LDC"]],
    "LDS to LDS": [["LDS to LDS"]],
    "STS, one after the other": [["STS"]],
    "LDG to LDG, all threads one address": [["LDG to LDG"]],
    "STG, one after the other, all threads one address": [["STG"]],
    "ATOM to ATOM, all threads one address": [["ATOM to ATOM, one address"]],
    "ATOM to ATOM of floats, all threads one address": [["ATOM to ATOM of floats, one address"]],
    "ATOMS to ATOMS, all threads one address": [["ATOMS to ATOMS, one address"]],
    "BAR.SYNC, 1 warp; 8 warps": [["BAR.SYNC, 1 warp"], ["BAR.SYNC, 8 warps"]],
    "BRA to the next instruction": [["BRA, taken"]],
    "BRA backward that no thread takes": [["BRA, not taken"]],
    "EXIT that no thread takes": [["EXIT, not taken"]],
    "CAL, RET: two jumps to other code": [["CAL, RET"]],
    "BRX to the next instruction": [["BRX"]],
    "SSY, SYNC; PBK, BRK": [["SSY, SYNC", "PBK, BRK"]],
    "SSY, BRA that diverges, SYNC, SYNC": [["SSY, BRA that diverges, SYNC, SYNC"]],
    "SSY, LDS, SYNC": [["SSY, LDS, SYNC"]],
    "SSY, STS, SYNC": [["SSY, STS, SYNC"]],
    "SSY, BAR.SYNC, SYNC": [["SSY, BAR.SYNC, SYNC"]],
}
"""For each row of the table, the benchmarks of each of its figures."""
SERIAL = (
    "arithmetic: IADD to IADD",
    "BRA, taken",
    "CAL, RET",
    "SSY, SYNC",
    "conversion: I2I to I2I",
    "LDS to LDS",
    "STG",
)
"""Benchmarks in the order of the table of the serial machine."""
MEMORY = (
    ["LDG to LDG"],
    ["LDS to LDS"],
    ["LDC to LDC"],
    ["SHFL to SHFL"],
    ["conversion: POPC to POPC"],
    ["STG"],
    ["ATOMS to ATOMS, one address", "ATOM to ATOM, one address"],
    ["LDG, coalesced, 8 warps", "STG, coalesced, 8 warps"],
    ["LDS, no conflict, 8 warps", "STS, no conflict, 8 warps", "SHFL, 8 warps", "POPC, 8 warps"],
    ["ATOMS, consecutive words, 8 warps", "RED, consecutive words, 8 warps"],
)
"""Benchmarks for each row of the table of the memory unit."""


def table(page: Path, heading: str, first: str = "") -> list[list[str]]:
    """Returns the rows of a table, with links replaced by their texts. ``first`` is the start of
    the head row.
    """
    return [
        [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell) for cell in row]
        for row in cells_of(page, heading, first)
    ]


@pytest.fixture(scope="module")
def machine():
    return BenchmarkMachine(PRESETS["default"], CompiledEngine)


@pytest.fixture(scope="module")
def measured(machine):
    """Returns the measured cycles of every class, by name."""
    return {row.name: row for row in class_table(machine)}


def shows(page: str, figure: float) -> bool:
    """Returns whether the page has a measured figure, rounded to a tenth; an integer may have no
    fraction.
    """
    return page.removesuffix(".0") == f"{figure:.1f}".removesuffix(".0")


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


def cycles_of_command(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the cycles that a command of a page reports, in the notation of pages."""
    _, _, module, program, *options = shlex.split(command)
    assert module == "sim.run"
    assert run([str(DOCS.parent / program), *options]) == 0
    found = re.search(r"^cycles +(\d+)$", capsys.readouterr().out, re.MULTILINE)
    assert found is not None
    return f"{int(found[1]):,}"


@needs_compiled
def test_cycles_of_a_kernel_on_the_serial_machine_are_those_of_the_manual(capsys):
    (command, least), (_, tiny) = table(DOCS / "serial.md", "## Cycles", "command")[1:]
    for preset, figure in (("least", least), ("tiny", tiny)):
        other = command.replace("--preset least", f"--preset {preset}")
        assert cycles_of_command(other, capsys) == figure


@needs_compiled
def test_a_loop_takes_the_cycles_of_the_table_of_warps_and_lanes(capsys):
    page = DOCS.parent / "CONTRIBUTING.md"
    found = re.search(
        r"^python -m sim\.run .*--preset tiny .*--grid .*$", page.read_text("utf-8"), re.MULTILINE
    )
    assert found is not None
    rows = {row[0]: row[1:] for row in table(page, "#### What warps and lanes change", "machine")}
    for machine, (warps, lanes, _) in rows.items():
        words = machine.split()
        changed = {words[i].strip("-"): int(words[i + 1]) for i in range(2, len(words), 2)}
        params = replace(PRESETS[words[1]], **changed)
        assert (warps, lanes) == (f"{params.warps}", f"{params.lanes}")
    for machine in ("--preset tiny", "--preset default"):  # other tests compile these, too
        command = found[0].replace("--preset tiny", machine)
        assert cycles_of_command(command, capsys) == rows[machine][2]


@needs_compiled
def test_a_line_is_printed_in_the_cycles_of_the_manual(capsys):
    found = re.search(
        r"runs for ([\d,]+) cycles with `(python -m sim.run [^`]+)`", text_of("docs/runtime.md")
    )
    assert found is not None
    assert cycles_of_command(found[2], capsys) == found[1]


@needs_compiled
def test_cycles_of_one_warp_are_those_of_the_manual(measured):
    rows = {row[0]: row[1:] for row in table(PAGE, "## One warp")}
    assert rows.keys() == ONE_WARP.keys()
    for title, names in ONE_WARP.items():
        instructions, cycles, _ = rows[title]
        for figure, alike in zip(cycles.split("; "), names, strict=True):
            for name in alike:
                assert instructions == f"{measured[name].instructions:g}", name
                assert shows(figure, measured[name].cycles), f"{name}: {measured[name].cycles}"


@needs_compiled
def test_cycles_of_several_warps_are_those_of_the_manual(measured):
    rows = [row[:2] for row in table(PAGE, "## Several warps")]
    assert len(rows) == 10
    for name, figure in rows:
        found = measured[f"{name}, 8 warps"].per_instruction
        assert shows(figure, found), f"{name}: {found}"
    chain, single, independent = (
        row[1] for row in table(PAGE, "## Several warps", "class | cycles")
    )
    for name in ("DADD", "DMUL", "DFMA"):
        assert shows(chain, measured[f"double: {name} to {name}"].cycles)
    assert shows(single, measured["double: DFMA to DFMA, one thread active"].cycles)
    for name in ("double: DFMA, independent", "DFMA, 8 warps"):
        assert shows(independent, measured[name].per_instruction)
    rate = (
        f"a dependent DFMA follows in {float(chain):.0f} cycles, in {float(single):.0f} with a single active thread; "
        f"independent ones follow each other in {float(independent):.0f}"
    )
    assert rate in text_of("docs/lanes.md")


@needs_compiled
def test_cycles_of_the_memory_unit_are_those_of_the_manual(measured):
    rows = table(PAGE, "## The memory unit")
    for row, names in zip(rows, MEMORY, strict=True):
        for figure, name in zip(row[1].split("; "), names, strict=True):
            assert shows(figure, measured[name].per_instruction), f"{name}: {measured[name]}"
    text = text_of("docs/benchmarks.md")
    floats = re.search(
        r"ATOM to ATOM at one address (\d+) cycles, RED in consecutive words (\d+)\.", text
    )
    assert floats is not None
    for figure, name in zip(
        floats.groups(),
        ("ATOM to ATOM of floats, one address", "RED of floats, consecutive words, 8 warps"),
        strict=True,
    ):
        assert round(measured[name].per_instruction) == int(figure)


@needs_compiled
def test_cycles_of_a_conversion_are_those_of_its_page(measured):
    rows = dict(table(DOCS / "units" / "convert.md", "## Cycles"))
    (chain,) = [cycles for row, cycles in rows.items() if row.startswith("from the selection of")]
    found = measured["conversion: POPC to POPC"].cycles
    assert chain == f"{found:.0f}"
    assert shows(
        rows["POPC in eight warps, for each instruction"], measured["POPC, 8 warps"].per_instruction
    )
    follows = f"needs the result of POPC or I2I follows after {chain} cycles"
    assert follows in text_of("docs/lanes.md")


@needs_compiled
def test_cycles_of_branches_are_those_of_the_pages_of_fetch_and_of_limits(measured):
    branch, wrong = (f"{round(measured[name].cycles)}" for name in ("BRA, taken", "BRA, not taken"))
    calls = measured["CAL, RET"]
    always, backward, other = table(DOCS / "front_end.md", "### Branch prediction")
    assert always[2].startswith(f"{branch} cycles after the branch")
    result = f"{round(measured['EXIT, not taken'].cycles)}"
    assert backward[2] == (
        f"with the flow result if it is taken, {result} cycles after the branch; else {wrong} cycles"
    )
    assert other[2] == f"{result} cycles if it is not taken, else {wrong}"
    text = text_of("docs/implemented.md")
    assert (
        f"issues {branch} cycles after a direct branch without a guard, {result} cycles after a CAL,"
        in text
    )
    assert result == "10" and "The ten cycles of a branch" in text_of("docs/benchmarks.md")
    last = round(calls.cycles) - round(calls.stall) // 2
    assert f"and {last} cycles after RET." in text
    rows = {row[0]: row[2] for row in table(PAGE, "## Kernels", "instructions")}
    assert rows["BRA without a guard"] == branch
    assert shows(rows["CAL and RET, to other code and back"], calls.cycles)
    assert shows(rows["SSY and SYNC"], measured["SSY, SYNC"].cycles)
    issue, fetch = (
        cycles("issue", row)
        for row in ("selection of a branch without a guard", "redirect of fetch")
    )
    assert int(issue) + int(fetch) == int(branch)


@needs_compiled
def test_how_busy_the_lanes_are_is_what_the_manual_says(machine):
    (page,) = [
        row for row in table(PAGE, "## Throughput of the lanes") if row[0] == "default (8 lanes)"
    ]
    rows = throughput_table(machine, (2, 12))
    assert page[2] == "; ".join(f"{row.busy:.3f}" for row in rows)
    assert {page[3]} == {f"{row.per_cycle:.3f}" for row in rows}


@needs_compiled
def test_programs_with_floats_take_the_cycles_of_the_manual(machine):
    assert [row[:6] for row in table(PAGE, "## Single precision")] == [
        [
            row.name,
            f"{row.cycles:,}",
            f"{row.lane_instructions:,}",
            f"{row.accesses:,}",
            f"{row.computing:.3f}",
            f"{row.busy:.3f}",
        ]
        for row in float_table(machine)
    ]


@needs_compiled
def test_streaming_programs_take_the_cycles_of_the_manual(machine):
    rows = table(PAGE, "## Roofline", "program | memory lines")
    names = [row[0].replace(" ", "_") for row in rows if not row[0].startswith("median")]
    found = [row for row in roofline_table(machine, names) if row.streaming]
    assert [row[1:] for row in rows[: len(found)]] == [
        [
            *(f"{figure:,}" for figure in (row.work.lines, row.work.instructions)),
            f"{row.work.beats(row.lanes):,}",
            f"{row.cycles:,}",
            f"{row.ratio:.2f}",
        ]
        for row in found
    ]
    assert rows[len(found)][5] == f"{median(row.ratio for row in found):.2f}"
    assert [row[:4] for row in table(PAGE, "## Roofline", "program | register accesses")] == [
        [
            row.name.replace("_", " "),
            f"{row.accesses:,}",
            f"{row.busy:.2f}",
            f"{row.ratio_when_busy:.2f}",
        ]
        for row in found
    ]


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
    later = NUMERALS[limits.RESULT_CYCLES]
    assert f"its result is output {later} cycles later" in text_of("docs/units/crs.md")
