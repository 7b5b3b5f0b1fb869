"""Every command of the tour prints the documented text."""

import re
import runpy
import shlex
from doctest import ELLIPSIS, OutputChecker
from importlib import import_module
from pathlib import Path

import pytest

from sim.__main__ import COMMANDS
from testbench.simulation import as_here
from testbench.waves.sources import check_page, check_screen

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tour.md").read_text()
PROGRAMS = Path(__file__).parent / "tour"
MODULES = {
    module.removesuffix(".command").removesuffix(".__main__"): module
    for module in COMMANDS.values()
}


def commands_of(text: str) -> list[tuple[str, str]]:
    """Returns the commands of a page or of a part of one, and their documented output."""
    return [
        (line, printed)
        for block in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for line, _, printed in (command.partition("\n") for command in block.split("$ ")[1:])
    ]


SECTIONS = {section.partition("\n")[0]: section for section in PAGE.split("\n## ")[1:]}
"""The text of each section by its heading."""
STEPS = {heading: commands for heading, text in SECTIONS.items() if (commands := commands_of(text))}
"""The commands of each section and their documented output, by heading."""


def prints(command: str, expected: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Checks that a command prints the expected text and returns its words."""
    words = shlex.split(command)
    assert words[0] == "python"
    run(words)
    printed = capsys.readouterr().out
    assert OutputChecker().check_output(as_here(expected), printed, ELLIPSIS), (
        f"{command}\n{printed}"
    )
    return words


def run(words: list[str]) -> None:
    if words[1] == "-m":
        import_module(MODULES[words[2]]).main(words[3:])
    else:
        runpy.run_path(words[1])["main"](*words[2:])


@pytest.mark.parametrize("step", STEPS)
def test_commands_print_what_the_tour_says(step, tmp_path, monkeypatch, capsys):
    (tmp_path / "testbench").symlink_to(ROOT / "testbench")
    monkeypatch.chdir(tmp_path)
    compared: set[str] = set()
    for command, expected in STEPS[step]:
        words = prints(command, expected, capsys)
        for option in ("--vcd", "--timeline"):
            if option in words:
                made = tmp_path / words[words.index(option) + 1]
                assert made.stat().st_size > 1000
                picture = ROOT / "docs" / "tour" / f"{made.stem}.png"
                if f"](tour/{picture.name})" in PAGE:
                    (check_screen if option == "--vcd" else check_page)(picture, made)
                    compared.add(picture.name)
    kept = set(re.findall(r"\]\(tour/(\w+\.png)\)", SECTIONS[step]))
    assert compared == kept


def test_every_program_is_in_the_tour():
    commands = "\n".join(command for step in STEPS.values() for command, _ in step)
    for program in PROGRAMS.iterdir():
        if program.suffix in (".sass", ".ptx", ".py"):
            assert f"testbench/programs/tour/{program.name}" in commands, program.name
