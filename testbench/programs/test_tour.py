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


def steps() -> dict[str, list[tuple[str, str]]]:
    """Returns the commands and their documented output, by heading."""
    sections = {
        section.partition("\n")[0]: commands_of(section) for section in PAGE.split("\n## ")[1:]
    }
    return {heading: commands for heading, commands in sections.items() if commands}


STEPS = steps()


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
    for command, expected in STEPS[step]:
        words = prints(command, expected, capsys)
        for option in ("--vcd", "--timeline"):
            if option in words:
                assert (tmp_path / words[words.index(option) + 1]).stat().st_size > 1000


def test_every_program_is_in_the_tour():
    commands = "\n".join(command for step in STEPS.values() for command, _ in step)
    for program in PROGRAMS.iterdir():
        if program.suffix in (".sass", ".ptx", ".py"):
            assert f"testbench/programs/tour/{program.name}" in commands, program.name
