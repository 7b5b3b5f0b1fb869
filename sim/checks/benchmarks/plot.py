"""The roofline as a picture: x is operations per byte, y operations per cycle; it has two roofs,
and a dot for each program.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import Any

from rtl.isa.tokens import LINE_BYTES
from sim.checks.benchmarks.machine import BenchmarkError
from sim.checks.benchmarks.roofline import RooflineRow

__all__ = ["check_plotter", "roofline_svg"]

_SETTINGS = {"svg.hashsalt": "warpstack", "svg.fonttype": "none", "font.size": 9}
"""Settings with which the same figures give the same file."""
_MARGIN = 1.6
_INCHES = (8.0, 5.4)


def check_plotter() -> None:
    """Raises BenchmarkError if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise BenchmarkError("--svg needs matplotlib: pip install -e '.[plot]'")


def _roofs(axes: Any, lanes: int, first: float, last: float) -> None:
    """Draws the roofs: the memory's limit of a line a cycle, up to the limit of the lanes, then
    that.
    """
    corner = lanes / LINE_BYTES
    first = min(first, corner / _MARGIN)
    axes.plot(
        [first, corner, max(last, corner * _MARGIN)],
        [first * LINE_BYTES, lanes, lanes],
        color="black",
        linewidth=1.2,
    )
    axes.annotate(
        f"{lanes} lanes: {lanes} operations a cycle",
        (corner, lanes),
        (10, 4),
        textcoords="offset points",
    )
    middle = (first * corner) ** 0.5
    axes.annotate(
        f"memory: {LINE_BYTES} bytes a cycle",
        (middle, middle * LINE_BYTES),
        (8, -6),
        textcoords="offset points",
    )
    axes.set_ylim(top=lanes * _MARGIN)


def roofline_svg(rows: Sequence[RooflineRow], machine: str) -> str:
    """Returns the picture as SVG, without programs that do not access memory. ``machine`` is the
    machine's name, for the title.
    """
    check_plotter()
    matplotlib: Any = import_module("matplotlib")
    figures: Any = import_module("matplotlib.figure")
    shown = [(row, row.intensity) for row in rows if row.intensity]
    if not shown:
        raise BenchmarkError("there is no program to draw: none of them asks for memory")
    with matplotlib.rc_context(_SETTINGS):
        figure = figures.Figure(_INCHES, layout="constrained")
        axes = figure.add_subplot(
            xscale="log",
            yscale="log",
            title=f"Roofline of the machine {machine}",
            xlabel="operations of threads for a byte of memory",
            ylabel="operations of threads in a cycle",
        )
        intensities = [intensity for _, intensity in shown]
        _roofs(axes, shown[0][0].lanes, min(intensities) / _MARGIN, max(intensities) * _MARGIN)
        for wanted, color, label in (
            (False, "tab:gray", "kernels of testbench/programs"),
            (True, "tab:blue", "streaming programs"),
        ):
            points = [(intensity, row.rate) for row, intensity in shown if row.streaming is wanted]
            if points:
                axes.scatter(*zip(*points, strict=True), s=18, color=color, label=label, zorder=3)
        for row, intensity in shown:
            if row.streaming:
                axes.annotate(
                    row.name.replace("_", " "),
                    (intensity, row.rate),
                    (5, -3),
                    textcoords="offset points",
                    fontsize=8,
                    color="tab:blue",
                    zorder=4,
                )
        axes.grid(which="both", linewidth=0.3, alpha=0.5)
        axes.legend(loc="lower right")
        content = StringIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()
