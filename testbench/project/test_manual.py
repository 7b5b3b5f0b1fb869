"""The manual: its tables agree with the data, its links have targets, and its lists name every file
once.
"""

import re
import tomllib
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path

import pytest

from rtl.fpga.link import REQUEST_BYTES
from rtl.fpga.registers import BOARD_BLOCK, BOARD_REGISTERS
from rtl.isa.control import CONTROL
from rtl.isa.control_code import GROUP_BYTES
from rtl.isa.conversion import CONVERSION
from rtl.isa.double import DOUBLE
from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.floating import FLOATING
from rtl.isa.integer import INTEGER
from rtl.isa.legality import is_refused
from rtl.isa.memory import MEMORY
from rtl.isa.qmd import QMD
from rtl.isa.registers import (
    COUNTER_BLOCK,
    COUNTERS,
    SM_BLOCK,
    SM_REGISTERS,
    WORK_BLOCK,
    WORK_REGISTERS,
)
from rtl.isa.special_registers import SPECIAL_REGISTER_TEXTS, SpecialRegister
from rtl.isa.tokens import TokenKind
from rtl.isa.video import VIDEO
from rtl.layouts import InstructionKind, LaunchRejection
from rtl.params import PRESETS, WARP_THREADS, SmParams
from sim.checks.prove import theorems
from sim.cuda.command import main as cuda
from sim.manual import with_ports
from sim.report.ports import PORT_UNITS, described_members, ports_of
from sim.report.reference import register_rows
from sim.run import main as run
from sim.toolchain.listing.refusals import refused_reasons, refused_rows

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "rtl" / "README.md"
DOCS = ROOT / "docs"
UNITS = DOCS / "units"
HOST = DOCS / "host.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(
        ROOT / name / "README.md"
        for name in (
            "rtl",
            "sim",
            "testbench",
            "testbench/programs",
            "testbench/programs/cuda",
            "testbench/programs/tour",
            "docs/examples",
            "waveforms",
            "constraints",
        )
    ),
    *sorted(DOCS.glob("*.md")),
    *sorted(UNITS.glob("*.md")),
]
UNIT_PAGES = {
    "fetch": "front_end.md",
    "issue": "front_end.md",
    "execute": "lanes.md",
    "convert": "lanes.md",
    "flow": "control_flow.md",
    "crs": "control_flow.md",
    "memory": "memory.md",
    "barrier": "barriers_traps.md",
    "launch": "host.md",
    "host": "host.md",
}


def table(page: Path, heading: str, first: str = "") -> list[list[str]]:
    """Returns the cells of the first table under a heading, row by row, without the head row and
    backticks.

    ``first`` is the start of the table's head row.
    """
    text = page.read_text()
    assert text.count(f"\n{heading}\n") == 1, f"{page.name} has not exactly one {heading!r}"
    body = re.split(r"^#+ ", text.split(f"\n{heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = (
        f"\n{body}".split(f"\n\n| {first}" if first else "\n\n|", 1)[1]
        .split("\n\n")[0]
        .splitlines()
    )
    return [
        [cell.strip().replace("`", "") for cell in row.strip().strip("|").split("|")]
        for row in rows[2:]
    ]


def descriptor_rows() -> list[list[str]]:
    """Returns rows of bits, name, meaning."""
    rows = []
    for name, field in QMD.items():
        bits = f"{field.high}:{field.low}" if field.width > 1 else f"{field.low}"
        if field.count > 1:
            bits += f", + {field.step}n, n < {field.count}"
        rows.append([bits, name, field.meaning])
    return rows


def counter_rows() -> list[list[str]]:
    """Returns rows of address, name, counted event."""
    return [
        [f"{COUNTER_BLOCK + 8 * number:#x}", name, what]
        for number, (name, what) in enumerate(COUNTERS.items())
    ]


def error_rows() -> list[list[str]]:
    """Returns rows of code, name, and whether drivers enable the report."""
    return [
        [f"{error.value:#04x}", error.name, "yes" if REPORT_MASK_RESET >> error.value & 1 else "no"]
        for error in WarpError
        if error is not WarpError.NONE
    ]


def preset_rows() -> list[list[str]]:
    """Returns rows of name and every parameter."""
    return [
        [name, *(str(getattr(params, field.name)) for field in fields(params))]
        for name, params in PRESETS.items()
    ]


def special_register_rows() -> list[list[str]]:
    """Returns number and name of special registers that are not always 0."""
    return [
        [str(register.value), SPECIAL_REGISTER_TEXTS[register.value]]
        for register in SpecialRegister
    ]


def class_rows() -> list[list[str]]:
    """Returns rows of a class and its instructions that some machine has."""
    return [
        [name, " ".join(dict.fromkeys(form.name for form in forms if not is_refused(form)))]
        for name, forms in (
            ("integer", INTEGER),
            ("video", VIDEO),
            ("single precision", FLOATING),
            ("double precision", DOUBLE),
            ("conversion", CONVERSION),
            ("memory", MEMORY),
            ("control", CONTROL),
        )
    ]


EXACT = {
    "classes of instructions": (
        DOCS / "implemented.md",
        "## Classes of instructions",
        class_rows(),
    ),
    "reasons of refusals": (
        DOCS / "refused.md",
        "## By reason",
        [[why, str(rows), names] for why, rows, names in refused_reasons()],
    ),
    "refused": (DOCS / "refused.md", "## The list", [list(row) for row in refused_rows()]),
    "board registers": (
        DOCS / "board.md",
        "## Registers of the board",
        [*register_rows(BOARD_BLOCK, BOARD_REGISTERS)],
    ),
    "link commands": (
        DOCS / "board.md",
        "### Commands",
        [[f"{command.value:#04x}", command.name] for command in REQUEST_BYTES],
    ),
    "sm registers": (HOST, "### Error status", [*register_rows(SM_BLOCK, SM_REGISTERS)]),
    "work registers": (HOST, "### Work distributor", [*register_rows(WORK_BLOCK, WORK_REGISTERS)]),
    "counters": (HOST, "### Counters", counter_rows()),
    "launch descriptor": (HOST, "## Launch descriptor", descriptor_rows()),
    "rejections": (
        HOST,
        "### What is rejected",
        [
            [str(rejection.value), rejection.name]
            for rejection in LaunchRejection
            if rejection.value
        ],
    ),
    "errors": (HOST, "## Warp errors", error_rows()),
    "presets": (MANUAL, "## Presets", preset_rows()),
    "instruction kinds": (
        MANUAL,
        "## Kinds of instructions",
        [[kind.name] for kind in InstructionKind],
    ),
    "special registers": (DOCS / "lanes.md", "### Special registers", special_register_rows()),
    "token kinds": (
        DOCS / "control_flow.md",
        "### Kinds of tokens",
        [[kind.name, f"{kind.value:#x}"] for kind in TokenKind],
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_the_tables_of_the_manual_agree_with_the_data(name):
    """A table may have more columns than the data."""
    page, heading, rows = EXACT[name]
    width = len(rows[0])
    assert [row[:width] for row in table(page, heading)] == [
        [cell.replace("`", "") for cell in row] for row in rows
    ]


def test_the_presets_that_are_compared_with_a_real_sm_are_those_of_the_table():
    rows = {
        row[0]: row[2:]
        for row in table(DOCS / "implemented.md", "## Compared with a real Maxwell SM")
    }
    presets = [PRESETS["default"], PRESETS["full"]]
    assert rows["lanes (CUDA cores)"] == [f"{params.lanes}" for params in presets]
    assert rows["warps"] == [f"{params.warps}" for params in presets]
    assert rows["registers of 32 bits"] == [
        f"{params.registers * WARP_THREADS:,}" for params in presets
    ]
    for part, sizes in (
        ("shared memory", [params.shared_bytes for params in presets]),
        ("instruction cache", [params.instruction_groups * GROUP_BYTES for params in presets]),
        ("constant cache", [params.constant_words * 4 for params in presets]),
    ):
        assert rows[part] == [f"{size // 1024} KiB" for size in sizes]


def test_the_figures_of_verification_are_those_of_the_results():
    text = " ".join((ROOT / "README.md").read_text().split("## How it is verified")[1].split())
    page = DOCS / "verification_results.md"
    campaigns = [
        [int(cell.replace(",", "")) for cell in row[1:]]
        for row in table(page, "## Campaigns of random programs")
    ]
    cases, instructions, failed = (sum(column) for column in zip(*campaigns, strict=True))
    assert f"{instructions:,} instructions of {cases:,} [random programs]" in text and not failed
    assert f" {len(theorems())} [theorems]" in text
    sample = [row for row in table(page, "### Fresh samples") if row[1] == "2"]
    survived = sum(int(row[4]) for row in sample)
    tried = sum(int(cell) for row in sample for cell in row[2:5])
    assert len(sample) == 6
    assert f"Of {tried} [mutants]" in text and f"detected {tried - survived} (" in text


def test_the_instructions_with_refused_forms_are_counted():
    """Those that the page of what is implemented does not name."""
    rows = table(DOCS / "refused.md", "## The list")
    named = {name for _, name, why in rows if "(" in why} | {"VABSDIFF4"}
    assert len(named) == 14
    assert "some forms of fourteen others" in (DOCS / "implemented.md").read_text()


def test_the_page_of_commands_has_every_option_of_a_run(capsys):
    with pytest.raises(SystemExit):
        run(["--help"])
    options = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help"}
    first_cells = " ".join(
        row[0] for row in table(DOCS / "commands.md", "## Run a kernel", "option")
    )
    assert set(re.findall(r"--[a-z][a-z-]*", first_cells)) == options


def test_the_page_of_cuda_programs_has_every_option(capsys):
    with pytest.raises(SystemExit):
        cuda(["--help"])
    options = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help"}
    first_cells = " ".join(row[0] for row in table(DOCS / "cuda.md", "## Options", "option"))
    assert set(re.findall(r"--[a-z][a-z-]*", first_cells)) == options


def test_the_manual_has_every_parameter():
    assert [row[0] for row in table(MANUAL, "### Parameters")] == [
        field.name for field in fields(SmParams)
    ]


def test_the_manual_lists_the_errors_that_are_never_raised():
    """Errors that are named in the hardware's code are those that are raised according to the
    manual's last column.
    """
    shared = {ROOT / "rtl" / "isa" / "errors.py", *(ROOT / "rtl" / "layouts").glob("*.py")}
    code = "\n".join(
        path.read_text() for path in (ROOT / "rtl").rglob("*.py") if path not in shared
    )
    named = {
        name for name in re.findall(r"WarpError\.(\w+)", code) if name in WarpError.__members__
    }
    # The trap unit's name for it is a number beyond the codes of this list; NONE is no error.
    raised = {row[1] for row in table(HOST, "## Warp errors") if not row[3].startswith("nobody")}
    assert raised == named - {"NONE"}


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page: its headings, in the form of GitHub's anchors."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:]+)(?:#([^)]*))?\)", text):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(page.parent / target), (
            f"{page.name}: {target}#{anchor}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_fenced_text_does_not_break_a_list_of_the_site(page):
    """Python-Markdown ends a list at text that is indented by less than four spaces."""
    assert re.findall(r"^ {1,3}```.*$", page.read_text(), re.MULTILINE) == []


def listed(page: Path) -> list[str]:
    """Returns file names and patterns in a page's tables, in backticks or as the text of a link."""
    rows = "\n".join(line for line in page.read_text().splitlines() if line.startswith("|"))
    return [
        quoted or linked
        for quoted, linked in re.findall(r"`([\w*/]+\.\w+)`|\[([\w*/.]+)\]\(", rows)
    ]


def test_the_testbenches_page_lists_every_file_once():
    patterns = [name for name in listed(ROOT / "testbench" / "README.md") if name.endswith(".py")]
    for path in (ROOT / "testbench").rglob("*.py"):
        if path.name != "__init__.py":
            name = str(path.relative_to(ROOT / "testbench"))
            found = [pattern for pattern in patterns if fnmatch(name, pattern)]
            assert len(found) == 1, f"{name}: {found}"
    for name in patterns:
        assert "*" in name or (ROOT / "testbench" / name).exists(), name


def test_the_simulation_page_lists_every_file_once():
    """The files are those of the folder itself, and its folders."""
    names = listed(ROOT / "sim" / "README.md")
    here = ROOT / "sim"
    there = {
        path.name
        for path in here.iterdir()
        if path.name not in ("__init__.py", "README.md", "__pycache__")
    }
    for name in there:
        assert names.count(name) == 1, name


def test_the_manual_lists_every_part_of_the_hardware():
    """The parts are the files and folders of rtl, each listed once."""
    names = [name.rstrip("/") for name in listed(MANUAL)]
    here = ROOT / "rtl"
    for path in here.iterdir():
        if path.name not in ("__init__.py", "README.md", "__pycache__"):
            assert names.count(path.name) == 1, path.name


@pytest.mark.parametrize("unit", UNIT_PAGES)
def test_the_page_of_a_unit_names_its_parts(unit):
    """The parts are all modules of the unit's package, except records between its stages."""
    text = (DOCS / UNIT_PAGES[unit]).read_text()
    for path in (ROOT / "rtl" / unit).glob("*.py"):
        if path.stem not in ("__init__", "records"):
            assert re.search(rf"`({unit}/)?{path.name}`", text), path.name


@pytest.mark.parametrize("unit", PORT_UNITS)
def test_a_unit_has_a_page_with_diagram_ports_cycles_and_waves(unit):
    """``python -m sim.manual --ports`` writes the tables of ports."""
    text = (UNITS / f"{unit}.md").read_text()
    head, ports, cycles, waves = re.split(r"^## (?:Ports|Cycles|Waves)$", text, flags=re.MULTILINE)
    assert re.search(r"^```\n(?:.+\n){2,}", head, re.MULTILINE), "no diagram"
    assert len(re.findall(r"^\| `", ports, re.MULTILINE)) > 4
    assert text == with_ports(text, unit), "other ports: python -m sim.manual --ports"
    assert re.search(r"^\|.*\d.*\|$", cycles, re.MULTILINE), "no cycles"
    assert f"]({unit}.svg)" in waves and f"-o docs/units/{unit}.svg" in waves
    assert (UNITS / f"{unit}.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize("unit", PORT_UNITS)
def test_the_picture_of_a_unit_shows_what_its_text_names(unit):
    """Hexadecimal numbers are checked, and cycles if they are named by their numbers."""
    waves = (UNITS / f"{unit}.md").read_text().split("\n## Waves\n")[1]
    text, command = waves.split("\n```\n")[:2]
    picture = (UNITS / f"{unit}.svg").read_text()
    for number in re.findall(r"\b0x[0-9a-f]+\b", text):
        assert f">{number}<" in picture, f"{unit}.svg: no {number}"
    first, count = (int(value) for value in re.findall(r"--(?:first|cycles) (\d+)", command))
    for cycle in re.findall(r"\bcycles?\s+(\d+)", text):
        assert first <= int(cycle) < first + count, f"{unit}.svg: cycle {cycle}"


def test_every_picture_of_units_is_of_a_page():
    assert {path.stem for path in UNITS.iterdir()} == set(PORT_UNITS)


@pytest.mark.parametrize("unit", PORT_UNITS)
def test_docstrings_describe_ports_that_are_there(unit):
    component = ports_of(unit)
    ports = [re.sub(r"_\d+$", "_0..", name) for name in component.signature.members]
    assert set(described_members(type(component))) <= {*ports, *component.signature.members}


def test_every_testbench_has_its_waveform_explained():
    units = sorted(path.stem.removeprefix("tb_") for path in (ROOT / "testbench").rglob("tb_*.py"))
    page = (ROOT / "waveforms" / "README.md").read_text()
    assert sorted(re.findall(r"^## (\w+):", page, re.MULTILINE)) == units


def test_every_page_of_the_manual_is_linked_from_it():
    linked = set(re.findall(r"\]\(\.\./docs/([\w./]+)\)", MANUAL.read_text()))
    assert linked >= {
        str(page.relative_to(DOCS)) for page in (*DOCS.glob("*.md"), *UNITS.glob("*.md"))
    } - {"ptx.md"}


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = dict(
        re.findall(
            r"^(version|license|date-released): (.+)$",
            (ROOT / "CITATION.cff").read_text(),
            re.MULTILINE,
        )
    )
    cited_on = cited.pop("date-released")
    assert cited == {"version": project["version"], "license": project["license"]["text"]}
    newest = re.search(r"^## \[(.+)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest.groups() == (project["version"], cited_on)
