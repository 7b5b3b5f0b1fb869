"""Compares compiled division, square roots and reciprocals with NumPy:
``python -m testbench.programs.single.rounding [--double] [--count N] [--seed N] [--level O0|O3]``.

NVIDIA's compiled code for them, slow paths included, runs on the warp model: with all pairs of edge
values, then with random numbers of every kind. The command prints how many results were wrong, and
its exit code is 1 if any was. A million of each takes some minutes. With ``--double`` it tests
double precision, where NumPy rounds to nearest as well; all NaNs are equal.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.launch import Buffer, Launch, prepare
from sim.support.command import Parser
from sim.toolchain.cubin.loader import read_cubin
from testbench.double.numbers import EDGES as DOUBLE_EDGES
from testbench.double.numbers import SIGN, doubles
from testbench.ended import on_warps
from testbench.execute.singles import EDGES, singles

__all__ = [
    "DOUBLE",
    "LIMIT",
    "SINGLE",
    "THREADS",
    "exact_quotients",
    "exact_roots",
    "launch_of",
    "main",
    "words",
]

FOLDER = Path(__file__).parent
LIMIT = 200_000
"""Largest number of instructions of a block."""
THREADS = 64
"""Number of threads of a block, each with a pair or a number."""
_PART = 1 << 15
"""Number of pairs or numbers of a launch."""

Words = NDArray[Any]
"""Floating-point numbers as unsigned words of the same size."""


@dataclass(frozen=True)
class Precision:
    """Kernels of one precision: their folder, words at the edges, a source of other pairs, and each
    kernel's results.
    """

    folder: Path
    edges: Words
    pairs: Callable[[random.Random, int], Words]
    exact: Mapping[str, Callable[[Words], Words]]


def launch_of(
    kernel: str,
    level: str,
    buffers: dict[str, np.ndarray],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    folder: Path = FOLDER,
) -> Launch:
    """A launch of one of a folder's kernels."""
    arguments = [Buffer(name, content.tobytes()) for name, content in buffers.items()]
    return prepare(
        read_cubin(folder / f"{kernel}.{level}.cubin"), arguments, grid=grid, block=block
    )


def words(launch: Launch, kind: Any = np.uint32) -> Words:
    """Returns the words of the first buffer."""
    return np.frombuffer(launch.memory.read(*next(iter(launch.buffers.values()))), kind)


def exact_quotients(numbers: Words) -> Words:
    """Returns the results of kernel ``quotients``: four words for each pair of words."""
    a, b = numbers.view(np.float32).T
    with np.errstate(all="ignore"):
        quotient = a / b
        ordered = ~np.isnan(a) & ~np.isnan(b) & (a != b)
        return (
            np.array(
                [
                    np.where(np.isnan(quotient), np.float32(-1), quotient),
                    np.where(a < b, 1, np.where(a > b, 2, np.where(a == b, 3, 4))),
                    np.where(ordered, np.minimum(a, b), 0),
                    np.where(ordered, np.maximum(np.abs(a), 2), 0),
                ],
                np.float32,
            )
            .T.copy()
            .view(np.uint32)
        )


def exact_roots(numbers: Words) -> Words:
    """Returns the results of kernel ``roots``: for each word a root and a reciprocal."""
    a = numbers.view(np.float32)
    with np.errstate(all="ignore"):
        exact = np.array([np.sqrt(a), np.float32(1) / a], np.float32).T
    return np.where(np.isnan(exact), np.float32(-1), exact).view(np.uint32)


def _pairs(source: random.Random, count: int) -> Words:
    """Returns random pairs: one half are numbers of every kind, the other half arbitrary words."""
    first, second, _ = singles(source, count // 2)
    first += [source.getrandbits(32) for _ in range(count - count // 2)]
    second += [source.getrandbits(32) for _ in range(count - count // 2)]
    return np.array([first, second], np.uint32).T.copy()


def _double_pairs(source: random.Random, count: int) -> Words:
    """Returns random pairs in double precision, in the same way."""
    first, second, _ = doubles(source, count // 2)
    first += [source.getrandbits(64) for _ in range(count - count // 2)]
    second += [source.getrandbits(64) for _ in range(count - count // 2)]
    return np.array([first, second], np.uint64).T.copy()


def _double_quotients(numbers: Words) -> Words:
    a, b = numbers.view(np.float64).T
    with np.errstate(all="ignore"):
        return (a / b)[:, np.newaxis].view(np.uint64)


def _double_roots(numbers: Words) -> Words:
    a = numbers.view(np.float64)
    with np.errstate(all="ignore"):
        return np.array([np.sqrt(a), 1 / a]).T.copy().view(np.uint64)


SINGLE = Precision(
    FOLDER, np.array(EDGES, np.uint32), _pairs, {"quotients": exact_quotients, "roots": exact_roots}
)
DOUBLE = Precision(
    FOLDER.parent / "double",
    np.array([edge | sign for edge in DOUBLE_EDGES for sign in (0, SIGN)], np.uint64),
    _double_pairs,
    {"quotients": _double_quotients, "roots": _double_roots},
)


def _parts(given: Words, fresh: Callable[[int], Words], count: int) -> Iterator[Words]:
    """Yields ``given``, then fresh pairs, in parts: ``count`` in all, and more to fill the last
    block.
    """
    while count > 0:
        part = np.concatenate(
            [given, fresh(max(0, min(_PART, count + -count % THREADS) - len(given)))]
        )
        given = given[:0]
        yield part
        count -= len(part)


def _wrong(precision: Precision, kernel: str, level: str, numbers: Words) -> Words:
    """Returns the numbers for which the kernel's result is wrong."""
    exact = precision.exact[kernel](numbers)
    launch = launch_of(
        kernel,
        level,
        {"out": np.zeros_like(exact), "in": numbers},
        (len(numbers) // THREADS, 1, 1),
        (THREADS, 1, 1),
        precision.folder,
    )
    left = words(on_warps(launch, LIMIT * len(numbers) // THREADS), exact.dtype).reshape(
        exact.shape
    )
    real = f"f{exact.dtype.itemsize}"
    same = (left == exact) | (np.isnan(left.view(real)) & np.isnan(exact.view(real)))
    return numbers[~same.all(axis=1)]


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns the exit code."""
    parser = Parser("testbench.programs.single.rounding", str(__doc__), "--count 1000 --level O3")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--double", action="store_true", help="in double precision")
    parser.add_argument("--level", choices=["O0", "O3"], default="O3")
    return parser.run(arguments, _check)


def _check(chosen: Any) -> int:
    """Checks as many numbers as the options select and returns the exit code."""
    source, failed, precision = (
        random.Random(chosen.seed),
        False,
        DOUBLE if chosen.double else SINGLE,
    )
    edges, size = precision.edges, 8 * precision.edges.itemsize
    pairs = np.stack(np.meshgrid(edges, edges), axis=-1).reshape(-1, 2)
    kernels: dict[str, tuple[Words, Callable[[int], Words]]] = {
        "quotients": (pairs, lambda count: precision.pairs(source, count)),
        "roots": (edges, lambda count: precision.pairs(source, count)[:, 0].copy()),
    }
    for kernel, (given, fresh) in kernels.items():
        done, wrong = 0, list[str]()
        for part in _parts(given, fresh, chosen.count):
            found = _wrong(precision, kernel, chosen.level, part)
            wrong += [
                " ".join(f"{word:#0{size // 4 + 2}x}" for word in np.atleast_1d(number))
                for number in found
            ]
            done += len(part)
        named = f": {'; '.join(wrong[:4])}" if wrong else ""
        print(
            f"{kernel} of {size} bits, {chosen.level}: {done:,} checked, {len(wrong):,} wrong{named}",
            flush=True,
        )
        failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
