"""Streaming programs, which do little work for each word of memory; in PTX, compiled by this
project's compiler.

Every CTA has 64 threads, so that the smallest preset runs them, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.launch import Buffer, Launch, Scalar, prepare
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.module import Module

__all__ = ["STREAMING", "Streaming", "complaints", "launch"]

_HERE = Path(__file__).parent / "programs"
_THREADS = 64
_WORD = 4
Words = NDArray[np.uint32]
Inputs = Mapping[str, Words | int]


@dataclass(frozen=True)
class Streaming:
    """A program.

    Attributes:
        arguments: Buffers of words and numbers by name, in the order of the kernel's parameters;
            the first buffer receives the results.
        expected: The expected results.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Inputs
    expected: Words


def _random(seed: int, count: int, limit: int = 1 << 32) -> Words:
    return np.random.default_rng(seed).integers(0, limit, count, np.uint64).astype(np.uint32)


def _zeros(count: int) -> Words:
    return np.zeros(count, np.uint32)


def _sum(words: Words) -> Words:
    return np.array([words.sum(dtype=np.uint32)], np.uint32)


def _vector_addition(count: int) -> Streaming:
    a, b = _random(1, count), _random(2, count)
    return Streaming(
        "vector_addition",
        (count // _THREADS, 1, 1),
        (_THREADS, 1, 1),
        {"c": _zeros(count), "a": a, "b": b},
        a + b,
    )


def _transpose(width: int) -> Streaming:
    words = _random(3, width * width)
    return Streaming(
        "transpose",
        (width // 32, width // 32, 1),
        (32, 2, 1),
        {"out": _zeros(width * width), "in": words, "width": width},
        words.reshape(width, width).T.ravel(),
    )


def _reduction(blocks: int, repeats: int) -> Streaming:
    words = _random(4, blocks * _THREADS * repeats)
    return Streaming(
        "reduction",
        (blocks, 1, 1),
        (_THREADS, 1, 1),
        {"out": _zeros(1), "in": words, "repeats": repeats},
        _sum(words),
    )


def _scan(count: int) -> Streaming:
    words = _random(5, count)
    return Streaming(
        "scan",
        (count // _THREADS, 1, 1),
        (_THREADS, 1, 1),
        {"out": _zeros(count), "in": words},
        words.reshape(-1, _THREADS).cumsum(axis=1, dtype=np.uint32).ravel(),
    )


def _histogram(blocks: int, repeats: int) -> Streaming:
    words = _random(6, blocks * _THREADS * repeats)
    return Streaming(
        "histogram",
        (blocks, 1, 1),
        (_THREADS, 1, 1),
        {"out": _zeros(_THREADS), "in": words, "repeats": repeats},
        np.bincount(words % _THREADS, minlength=_THREADS).astype(np.uint32),
    )


def _stencil(columns: int, rows: int) -> Streaming:
    """Columns and rows are without the margin."""
    words = _random(7, (columns + 2) * (rows + 2)).reshape(rows + 2, columns + 2)
    left = np.zeros_like(words)
    left[1:-1, 1:-1] = (
        words[:-2, 1:-1]
        + words[2:, 1:-1]
        + words[1:-1, :-2]
        + words[1:-1, 2:]
        - 4 * words[1:-1, 1:-1]
    )
    return Streaming(
        "stencil",
        (columns // _THREADS, rows, 1),
        (_THREADS, 1, 1),
        {"out": _zeros(words.size), "in": words.ravel(), "width": columns + 2},
        left.ravel(),
    )


def _matrix_product(width: int) -> Streaming:
    a, b = _random(8, width * width), _random(9, width * width)
    return Streaming(
        "matrix_product",
        (width // 8, width // 8, 1),
        (8, 8, 1),
        {"c": _zeros(width * width), "a": a, "b": b, "width": width},
        (a.reshape(width, width) @ b.reshape(width, width)).ravel(),
    )


def _gather(count: int) -> Streaming:
    words, index = _random(10, count), _random(11, count, count)
    return Streaming(
        "gather",
        (count // _THREADS, 1, 1),
        (_THREADS, 1, 1),
        {"out": _zeros(count), "in": words, "index": index},
        words[index],
    )


STREAMING: tuple[Callable[[], Streaming], ...] = tuple(
    cache(make)
    for make in (
        lambda: _vector_addition(4096),
        lambda: _transpose(96),
        lambda: _reduction(16, 8),
        lambda: _scan(4096),
        lambda: _histogram(16, 4),
        lambda: _stencil(128, 32),
        lambda: _matrix_product(32),
        lambda: _gather(4096),
    )
)
"""Makers of the programs."""


@cache
def _module(name: str) -> Module:
    return read_ptx_program(_HERE / f"{name}.ptx")


def launch(program: Streaming) -> Launch:
    """Returns a launch of a program, in a separate memory."""
    arguments = [
        Scalar(value, _WORD)
        if isinstance(value, int)
        else Buffer(name, value.astype("<u4").tobytes())
        for name, value in program.arguments.items()
    ]
    return prepare(_module(program.name), arguments, grid=program.grid, block=program.block)


def complaints(program: Streaming, finished: Launch) -> list[str]:
    """Returns the first wrong word of each buffer of a launch that has ended, a line each."""
    first, *_ = program.arguments
    found = []
    for name, argument in program.arguments.items():
        if isinstance(argument, int):
            continue
        expected = program.expected if name == first else argument
        left = np.frombuffer(finished.memory.read(*finished.buffers[name]), "<u4")
        found += [
            f"{program.name}: {name}[{at}] is {left[at]:#x}, not {expected[at]:#x}"
            for at in np.flatnonzero(left != expected)[:1]
        ]
    return found
