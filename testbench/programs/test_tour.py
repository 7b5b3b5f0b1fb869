"""Every command of the tour prints what the tour says."""

import re
import runpy
import shlex
from doctest import ELLIPSIS, OutputChecker
from importlib import import_module
from pathlib import Path

import pytest

from sim.__main__ import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tour.md").read_text()
PROGRAMS = Path(__file__).parent / "tour"
MODULES = {module.removesuffix(".command").removesuffix(".__main__"): module for module in COMMANDS.values()}


def steps() -> dict[str, list[tuple[str, str]]]:
    """Heading -> commands, and what they print."""
    found: dict[str, list[tuple[str, str]]] = {}
    for section in PAGE.split("\n## ")[1:]:
        heading = section.partition("\n")[0]
        for block in re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
            for command in block.split("$ ")[1:]:
                line, _, printed = command.partition("\n")
                found.setdefault(heading, []).append((line, printed))
    return found


STEPS = steps()


def run(words: list[str]) -> None:
    if words[1] == "-m":
        import_module(MODULES[words[2]]).main(words[3:])
    else:
        runpy.run_path(words[1], run_name="__main__")


@pytest.mark.parametrize("step", STEPS)
def test_commands_print_what_the_tour_says(step, tmp_path, monkeypatch, capsys):
    (tmp_path / "testbench").symlink_to(ROOT / "testbench")
    monkeypatch.chdir(tmp_path)
    for command, expected in STEPS[step]:
        words = shlex.split(command)
        assert words[0] == "python"
        run(words)
        printed = capsys.readouterr().out
        assert OutputChecker().check_output(expected or "", printed, ELLIPSIS), f"{command}\n{printed}"
        for option in ("--vcd", "--timeline"):
            if option in words:
                assert (tmp_path / words[words.index(option) + 1]).stat().st_size > 1000


def test_every_program_is_in_the_tour():
    commands = "\n".join(command for step in STEPS.values() for command, _ in step)
    for program in PROGRAMS.iterdir():
        if program.suffix in (".sass", ".ptx", ".py"):
            assert f"testbench/programs/tour/{program.name}" in commands, program.name
