"""Draws some cycles of a waveform as an SVG timing diagram, for a manual or a README.

::

    python -m sim.waves.picture waveforms/crs.vcd --first 10 --cycles 16 -o crs.svg \\
        request.valid request.ready request.payload.operation@request.valid=operation request.payload.warp:dec

A row is a signal's name below the root scope. Behind it may stand ``@`` and a one-bit signal,
outside of which the row has no value, ``:`` and a format of numbers (hex, dec, signed, bin), and
``=`` and a label, in this order. Rows of one scope that follow each other form a group.
"""

import argparse
import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any, cast, get_args

import pywellen
import wavedrom

from sim.support.command import CommandError, Parser, check_file, write_file
from sim.waves.tracer import CLOCK
from sim.waves.traces import NumberFormat

__all__ = ["PictureError", "Row", "Waveform", "draw", "main"]

CHARACTER = 6.6
"""Average width of a character in a bubble, in pixels."""
CYCLE = 40
"""Width of a cycle at scale 1, in pixels."""
EDGE = 12
"""Width of a bubble's two slanted edges, in pixels."""
LARGEST_SCALE = 4
TEXT_COLORS = "3456789"
"""WaveDrom's filled bubbles, assigned in turn to the texts of an enumeration."""


class PictureError(CommandError):
    """A picture that cannot be drawn. The message is one line with the reason."""


@dataclass(frozen=True)
class Row:
    """A row of a picture.

    Attributes:
        signal: Name below the root scope.
        label: Label of the row; if empty, the last part of the name.
        when: A one-bit signal; in cycles in which it is 0 the row has no value. Empty: it always
            has one.
        format: Format of numbers.
    """

    signal: str
    label: str = ""
    when: str = ""
    format: NumberFormat = "hex"

    @classmethod
    def parse(cls, text: str) -> "Row":
        """Parses ``signal[@when][:format][=label]``."""
        rest, _, label = text.partition("=")
        rest, _, number = rest.partition(":")
        signal, _, when = rest.partition("@")
        number = number or "hex"
        if number not in get_args(NumberFormat):
            raise argparse.ArgumentTypeError(
                f"no format {number}; there are {', '.join(get_args(NumberFormat))}"
            )
        return cls(signal, label, when, cast(NumberFormat, number))


class Waveform:
    """A waveform of :class:`sim.waves.Tracer`, by cycle; PictureError for any other file.

    Attributes:
        path: Path of the file.
        names: Names of all signals, with their groups.
        cycles: Number of cycles.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise PictureError(f"{path}: No such file or directory")
        try:
            wave: Any = pywellen.Waveform(str(path))  # pyright: ignore
        except Exception as error:  # the parser of pywellen raises nothing more specific
            raise PictureError(f"{path}: not a waveform: {error}") from error
        self.path = path
        self._variables = {
            variable.full_name.partition(".")[2]: variable for variable in wave.all_vars()
        }
        edges = [time for time, value in self.variable(CLOCK).tv if str(value) == "1"]
        if len(edges) < 2:
            raise PictureError(f"{path}: {CLOCK} has no whole cycle")
        self.names = tuple(self._variables)
        self._period = edges[1]  # the first edge is at 0
        self.cycles = len(edges)

    def variable(self, name: str) -> Any:
        """Returns the variable called ``name``; PictureError without one."""
        if name not in self._variables:
            group = f"{name.rpartition('.')[0]}."
            near = [known for known in self._variables if "." in name and known.startswith(group)]
            near = near or get_close_matches(name, self._variables, 3, 0.4)
            hint = f"; there is {', '.join(near)}" if near else ""
            raise PictureError(f"{self.path}: no signal {name}{hint}")
        return self._variables[name]

    def check_cycles(self, first: int, count: int, at_least: int = 1) -> None:
        """PictureError when the waveform lacks these cycles, or they are fewer than ``at_least``."""
        begins_in_it = 0 <= first < self.cycles
        if begins_in_it and count < at_least:
            raise PictureError(f"--cycles {count}: at least {at_least}")
        if not begins_in_it or first + count > self.cycles:
            wanted = f"{first} to {first + count - 1}" if count > 0 else str(first)
            raise PictureError(f"{self.path}: has cycles 0 to {self.cycles - 1}, not {wanted}")

    def values(self, name: str, first: int, count: int) -> list[Any]:
        """Returns the values of a signal in ``count`` cycles: text or numbers."""
        variable = self.variable(name)
        signal = variable.signal
        return [signal.value_at((first + cycle) * self._period) for cycle in range(count)]


def _label(value: Any, number: NumberFormat, width: int) -> str:
    """Returns the text of a value in a bubble."""
    if not isinstance(value, int):
        return str(value)
    if number == "hex":
        return str(value) if value < 10 else f"{value:#x}"
    if number == "bin":
        return f"{value:0{width}b}"
    return str(value - (1 << width) if number == "signed" and value >> width - 1 else value)


def _lane(
    wave: Waveform, row: Row, first: int, count: int, colors: dict[str, str]
) -> tuple[dict[str, Any], float]:
    """Returns a row in WaveJSON, and the scale at which its labels fit. ``colors`` are those
    assigned to texts so far.
    """
    values = wave.values(row.signal, first, count)
    shown = (
        [bool(value) for value in wave.values(row.when, first, count)]
        if row.when
        else [True] * count
    )
    width = wave.variable(row.signal).bitwidth or 0
    steps, data, scale = "", [], 1.0
    cycles = [value if seen else None for value, seen in zip(values, shown, strict=True)]
    for value, run in ((value, len(list(group))) for value, group in groupby(cycles)):
        if value is None:
            step = "x"
        elif width == 1:
            step = str(value)
        else:
            text = _label(value, row.format, width)
            step = "="
            if isinstance(value, str):
                step = colors.setdefault(text, TEXT_COLORS[len(colors) % len(TEXT_COLORS)])
            data.append(text)
            scale = max(scale, (len(text) * CHARACTER + EDGE) / (run * CYCLE))
        steps += step + "." * (run - 1)
    lane: dict[str, Any] = {"name": row.label or row.signal.rpartition(".")[2], "wave": steps}
    return (lane | {"data": data} if data else lane), scale


def draw(vcd: Path, rows: Sequence[Row], first: int, cycles: int, title: str = "") -> str:
    """Draws ``count`` clock cycles of a waveform as SVG, from cycle ``first`` on.

    Raises PictureError if the waveform lacks cycles or signals.
    """
    wave = Waveform(vcd)
    wave.check_cycles(first, cycles)
    signal: list[Any] = [{"name": CLOCK, "wave": "p" + "." * (cycles - 1)}]
    colors: dict[str, str] = {}
    scale = 1.0
    for scope, group in groupby(rows, lambda row: row.signal.rpartition(".")[0]):
        lanes = []
        for row in group:
            lane, needed = _lane(wave, row, first, cycles, colors)
            lanes.append(lane)
            scale = max(scale, needed)
        signal += [[scope, *lanes]] if scope and len(lanes) > 1 else lanes
    ticks = {"tick": first} if cycles > 1 else {}  # Wavedrom cannot number the edges of one cycle
    source = {
        "signal": signal,
        "head": ticks | ({"text": title} if title else {}),
        "config": {"hscale": min(-int(-scale // 1), LARGEST_SCALE)},
    }
    picture: Any = wavedrom.render(json.dumps(source))
    picture.elements.insert(
        1, picture.rect(size=("100%", "100%"), fill="white")
    )  # readable on a dark page
    return picture.tostring() + "\n"


def _draw(options: Namespace) -> None:
    check_file(options.output, options.vcd)
    write_file(
        options.output,
        draw(options.vcd, options.rows, options.first, options.cycles, options.title).encode(),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "sim.waves.picture",
        "Draws some cycles of a waveform as SVG.",
        "waveforms/flow.vcd --cycles 12 -o flow.svg result.pc@result.valid",
    )
    parser.add_argument("vcd", type=Path, help="a waveform that sim.run_tb or sim.run wrote")
    parser.add_argument(
        "rows",
        nargs="+",
        type=Row.parse,
        metavar="SIGNAL[@WHEN][:FORMAT][=LABEL]",
        help="a row of the diagram: a signal, only in the cycles in which the signal WHEN is 1, as a "
        f"number in FORMAT ({', '.join(get_args(NumberFormat))}), with LABEL instead of its name",
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="CYCLE", help="first cycle (default: 0)"
    )
    parser.add_argument(
        "--cycles", type=int, default=16, metavar="COUNT", help="number of cycles (default: 16)"
    )
    parser.add_argument("--title", default="", help="title above the diagram (default: none)")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="SVG", help="the file to write"
    )
    return parser.run(arguments, _draw, exits=False)


if __name__ == "__main__":
    sys.exit(main())
