"""The pictures: the arguments of each kernel, and the order of its pictures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.launch import Argument, Buffer, Launch, Scalar, prepare
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.module import Module

__all__ = ["FRACTION_BITS", "PICTURE", "SCENES", "Picture", "Place", "Run", "Scene", "Size", "view"]

PICTURE = "PICTURE"
"""Name of the buffer with the picture."""
FRACTION_BITS = 12
"""Fraction bits of the numbers of the Mandelbrot set."""
_PROGRAMS = Path(__file__).parent / "programs"
_BLOCK = (32, 2, 1)
_ALIVE = 0x1C
_DENSITY = 0.3
"""Initial fraction of living cells."""
_CENTRE, _HEIGHT = -0.65, 2.5
"""Real part of the centre of the picture, whose imaginary part is 0; and the picture's height."""
_COLOURS = ((0, 0, 0.25), (0, 0.5, 1), (1, 1, 1), (1, 0.75, 0), (0.6, 0, 0))
"""Red, green and blue, from the first step of escape to the last."""

Picture = NDArray[np.uint8]
"""Height x width pixels of one byte: 3 bits of red, 3 of green, 2 of blue."""
Place = Callable[..., Launch]
"""Places a launch; takes ``local``, ``crs`` and ``memory`` as :func:`~sim.launch.prepare` does."""
Run = Callable[[Place], bytes]
"""Runs a launch; returns the content of the buffer PICTURE."""


@dataclass(frozen=True)
class Size:
    """Size of a picture in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


@dataclass(frozen=True)
class Scene:
    """A program that draws.

    Attributes:
        about: What it draws, and what ``--steps`` counts.
        steps: Default number of steps.
        pictures: Yields its pictures, from the runner of its launches, size, steps, and random
            seed.
    """

    about: str
    steps: int
    pictures: Callable[[Run, Size, int, int], Iterator[Picture]]


@cache
def _program(name: str) -> Module:
    return read_ptx_program(str(_PROGRAMS / f"{name}.ptx"))


def _drawn(run: Run, name: str, size: Size, buffer: Buffer, *numbers: int) -> Picture:
    """Returns the picture of one launch, with a thread for each pixel."""
    arguments: list[Argument] = [Buffer(PICTURE, bytes(size.width * size.height)), buffer]
    arguments += [Scalar(number, 4) for number in (size.width, size.height, *numbers)]
    grid = (-(-size.width // _BLOCK[0]), -(-size.height // _BLOCK[1]), 1)
    content = run(partial(prepare, _program(name), arguments, grid=grid, block=_BLOCK))
    return np.frombuffer(content, np.uint8).reshape(size.height, size.width)


def view(size: Size) -> tuple[int, int, int]:
    """Returns left edge, top edge and pixel distance of a picture of the Mandelbrot set, as
    fixed-point numbers.
    """
    step = max(1, round(_HEIGHT * (1 << FRACTION_BITS) / size.height))
    return (
        round(_CENTRE * (1 << FRACTION_BITS)) - step * size.width // 2,
        -step * size.height // 2,
        step,
    )


def palette(steps: int) -> Picture:
    """Returns the colours of points that escape after 0 to ``steps`` - 1 steps, and of points that
    do not.
    """
    place = np.linspace(0, len(_COLOURS) - 1, steps)
    red, green, blue = (
        np.interp(place, range(len(_COLOURS)), part) for part in zip(*_COLOURS, strict=True)
    )
    levels = [np.rint(part * most).astype(int) for part, most in ((red, 7), (green, 7), (blue, 3))]
    return np.append(levels[0] << 5 | levels[1] << 2 | levels[2], 0).astype(np.uint8)


def _mandelbrot(run: Run, size: Size, steps: int, _seed: int) -> Iterator[Picture]:
    yield _drawn(
        run, "mandelbrot", size, Buffer("PALETTE", palette(steps).tobytes()), *view(size), steps
    )


def _life(run: Run, size: Size, steps: int, seed: int) -> Iterator[Picture]:
    alive = np.random.default_rng(seed).random((size.height, size.width)) < _DENSITY
    picture = (alive * _ALIVE).astype(np.uint8)
    for _ in range(steps):
        picture = _drawn(run, "life", size, Buffer("CELLS", picture.tobytes()))
        yield picture


SCENES = {
    "mandelbrot": Scene(
        "the Mandelbrot set (N: steps after which a point counts as within it)", 32, _mandelbrot
    ),
    "life": Scene("Conway's game of life on a torus (N: generations)", 16, _life),
}
"""Scenes by name."""
