"""The demos: their pictures equal NumPy's, and are displayed correctly."""

import io
import re
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from rtl.params import PRESETS
from sim.demo.command import main
from sim.demo.machine import DemoError, Painter
from sim.demo.picture import Style, as_text, colours, style_of
from sim.demo.scenes import FRACTION_BITS, SCENES, Picture, Size, palette, view
from sim.engine import CompiledEngine
from sim.runner import HardwareRunner, ModelRunner
from testbench import refusal
from testbench.engine.designs import needs_compiled

SMALL = Size(40, 5)
"""A size that is no multiple of a CTA's 32 x 2 pixels."""


def refused(capsys, *arguments: str) -> str:
    return refusal.refused(capsys, main, arguments).removeprefix("python -m sim.demo: ")


def mandelbrot(size: Size, steps: int) -> Picture:
    """Returns the picture of the Mandelbrot set, computed for all points at once."""
    left, top, step = view(size)
    real = np.broadcast_to(left + step * np.arange(size.width), (size.height, size.width))
    imaginary = np.broadcast_to((top + step * np.arange(size.height))[:, None], real.shape)
    x, y, count = (np.zeros(real.shape, int) for _ in range(3))
    inside = np.ones(real.shape, bool)
    for _ in range(steps):
        inside &= x * x + y * y <= 4 << 2 * FRACTION_BITS
        x, y = (
            np.where(inside, new, old)
            for new, old in (
                ((x * x - y * y >> FRACTION_BITS) + real, x),
                ((2 * x * y >> FRACTION_BITS) + imaginary, y),
            )
        )
        count += inside
    return palette(steps)[count]


def life(cells: Picture) -> Picture:
    """Returns the next generation."""
    alive = (cells >> 4 & 1).astype(int)
    steps = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    around: NDArray[np.int_] = sum((np.roll(alive, step, (0, 1)) for step in steps), -alive)
    born, stays = (around == 3) & (alive == 0), (alive == 1) & ((around == 2) | (around == 3))
    fading = np.where(alive == 1, 2, cells >> 1)
    return np.where(born, 0x1F, np.where(stays, 0x1C, fading)).astype(np.uint8)


@pytest.mark.parametrize(("size", "steps"), [(Size(64, 48), 12), (SMALL, 3), (Size(1, 1), 1)])
def test_the_mandelbrot_set_is_that_of_numpy(size, steps):
    (drawn,) = SCENES["mandelbrot"].pictures(Painter(ModelRunner(PRESETS["tiny"])), size, steps, 1)
    assert (drawn == mandelbrot(size, steps)).all()
    assert size.width == 1 or len(np.unique(drawn)) > 2


@pytest.mark.parametrize("size", [Size(40, 21), Size(3, 3)])
def test_generations_of_life_are_those_of_numpy(size):
    painter = Painter(ModelRunner(PRESETS["tiny"]))
    pictures = list(SCENES["life"].pictures(painter, size, 4, 5))
    assert len(pictures) == 4
    for before, after in pairwise(pictures):
        assert (after == life(before)).all()
    assert size.width == 3 or all((picture >> 4).any() for picture in pictures)


@needs_compiled
def test_the_hardware_draws_the_same_in_lockstep():
    painter = Painter(HardwareRunner(PRESETS["default"], CompiledEngine, check=True))
    (drawn,) = SCENES["mandelbrot"].pictures(painter, SMALL, 6, 1)
    assert (drawn == mandelbrot(SMALL, 6)).all()
    first, second = SCENES["life"].pictures(painter, SMALL, 2, 3)
    assert (second == life(first)).all()
    assert painter.cycles > 1000


def test_a_kernel_that_does_not_end_well_is_reported(capsys, monkeypatch):
    monkeypatch.setattr("sim.demo.machine._LIMIT", 1)
    with pytest.raises(DemoError, match="status        timeout"):
        list(SCENES["life"].pictures(Painter(ModelRunner(PRESETS["tiny"])), SMALL, 1, 1))
    assert main(["life", "--engine", "model", "--steps", "1"]) == 1
    assert "status        timeout" in capsys.readouterr().out


# Display


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "style"),
    [
        (Terminal(), {"COLORTERM": "truecolor"}, Style.TRUE),
        (Terminal(), {}, Style.CUBE),
        (Terminal(), {"COLORTERM": "truecolor", "NO_COLOR": "1"}, Style.PLAIN),
        (Terminal(), {"NO_COLOR": ""}, Style.CUBE),
        (Terminal(), {"TERM": "dumb"}, Style.PLAIN),
        (io.StringIO(), {"COLORTERM": "truecolor"}, Style.PLAIN),
    ],
)
def test_colours_are_for_terminals_that_support_them(stream, environment, style):
    assert style_of(stream, environment) == style


def test_a_character_shows_two_pixels():
    picture = np.array([[0b11100000, 0], [0b00011100, 0b11], [0xFF, 0xFF]], np.uint8)
    true, cube = as_text(picture, Style.TRUE), as_text(picture, Style.CUBE)
    assert true.splitlines() == [
        "\x1b[38;2;255;0;0;48;2;0;255;0m▀\x1b[38;2;0;0;0;48;2;0;0;255m▀\x1b[0m",
        "\x1b[38;2;255;255;255;48;2;0;0;0m▀▀\x1b[0m",
    ]
    assert cube.splitlines()[0] == "\x1b[38;5;196;48;5;46m▀\x1b[38;5;16;48;5;21m▀\x1b[0m"
    assert as_text(np.array([[0xFF, 0], [0xFF, 0xFF]], np.uint8), Style.PLAIN) == "@=\n"


def test_levels_are_spread_over_bytes():
    assert colours(np.array([[0xFF, 0, 0b00100101]], np.uint8)).tolist() == [
        [[255] * 3, [0] * 3, [36, 36, 85]]
    ]


def test_the_command_shows_the_last_picture(capsys):
    assert main(["life", "--engine", "model", "--steps", "2", "--size", "20x6"]) == 0
    *rows, last = capsys.readouterr().out.splitlines()
    assert len(rows) == 3
    assert re.fullmatch(r"life, 20x6, 2 steps: [\d,]+ instructions of the model", last)


def test_a_terminal_sees_every_generation(capsys, monkeypatch):
    monkeypatch.setattr("sim.demo.command.style_of", lambda _: Style.TRUE)
    assert main(["life", "--engine", "model", "--steps", "3", "--size", "20x6"]) == 0
    text = capsys.readouterr().out
    assert text.count("\x1b[3A") == 2 and text.count("\x1b[0m\n") == 9


def test_a_picture_is_written_as_png(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    out = tmp_path / "set.png"
    assert (
        main(
            ["mandelbrot", "--engine", "model", "--steps", "3", "--size", "32x4", "--png", str(out)]
        )
        == 0
    )
    pixels = np.asarray(image.open(out))
    assert pixels.shape == (80, 640, 3)
    assert (pixels[::20, ::20] == colours(mandelbrot(Size(32, 4), 3))).all()
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["circle"], "argument SCENE: invalid choice: 'circle' (choose from "),
        (
            ["life", "--size", "7"],
            "argument --size: '7' is not WIDTHxHEIGHT with numbers from 1 to 4096",
        ),
        (
            ["life", "--size", "7x0"],
            "argument --size: '7x0' is not WIDTHxHEIGHT with numbers from 1 to 4096",
        ),
        (["life", "--steps", "0"], "argument --steps: '0' is not a whole number from 1 on"),
        (
            ["life", "--engine", "model", "--check"],
            "--check needs hardware, which the engine model does not have",
        ),
        (
            ["life", "--png", "missing/life.png"],
            "missing/life.png: No such file or directory: there is no folder missing",
        ),
    ],
)
def test_bad_arguments_are_refused(capsys, arguments, line):
    assert refused(capsys, *arguments).startswith(line)


def test_a_png_without_pillow_is_refused(capsys, monkeypatch):
    monkeypatch.setattr("sim.support.entry.find_spec", lambda _: None)
    assert refused(capsys, "life", "--png", "life.png") == (
        "the extra 'picture' is not installed: pip install -e '.[picture]'"
    )
