"""The manual's pictures of waveforms: ``python -m testbench.waves.pictures`` draws all of them
again.

Each is drawn by a command of the page that shows it, from the waveform that a testbench records.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from sim.checks import run_tb
from sim.checks.testbench import run
from sim.engine import choose
from sim.support.command import CommandError, Parser
from sim.waves import picture, sequence
from testbench.project.documented import ROOT, documented

__all__ = ["Picture", "pictures_of"]

_COMMANDS = {"sim.waves.picture": picture.main, "sim.waves.sequence": sequence.main}


class Picture:
    """A picture that a command of a manual page draws.

    Attributes:
        command: Name of the module that draws it.
        arguments: Its arguments, without the waveform and the file.
        path: Path of the picture, relative to the project's root.
    """

    def __init__(self, command: str, arguments: Sequence[str]) -> None:
        self.command = command
        at = arguments.index("-o")
        self.path = Path(arguments[at + 1])
        self.arguments = [*arguments[1:at], *arguments[at + 2 :]]

    def draw(self, waveform: Path, target: Path) -> None:
        """Draws the picture of a waveform into a file. Raises CommandError if the command fails."""
        code = _COMMANDS[self.command]([str(waveform), "-o", str(target), *self.arguments])
        if code:
            raise CommandError(f"{self.path} cannot be drawn: {self.command} ends with {code}")


def pictures_of(unit: str) -> list[Picture]:
    """Returns the pictures in docs of a testbench's waveform."""
    found = {}
    for command in documented():
        module, *arguments = command.words[2:] or [""]
        if module in _COMMANDS and arguments[0] == f"waveforms/{unit}.vcd" and "-o" in arguments:
            made = Picture(module, arguments)
            if made.path.parts[0] == "docs":
                found[made.path] = made
    return list(found.values())


def _draw_all(_options: Namespace) -> None:
    for unit in run_tb.testbenches():
        pictures = pictures_of(unit)
        if not pictures:
            continue
        with TemporaryDirectory() as folder:
            waveform = Path(folder, f"{unit}.vcd")
            bench = import_module(run_tb.module_name(run_tb.testbenches()[unit]))
            report = run(unit, bench.record, choose()[0], vcd=waveform)
            if not report.passed:
                raise CommandError(f"testbench {unit} fails: {report.failure}")
            for each in pictures:
                each.draw(waveform, ROOT / each.path)
                print(each.path, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code."""
    parser = Parser(
        "testbench.waves.pictures", "Draws the manual's pictures of waveforms again.", ""
    )
    return parser.run(arguments, _draw_all)


if __name__ == "__main__":
    sys.exit(main())
