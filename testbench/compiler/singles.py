"""PTX instructions in single precision on many numbers at once: a kernel with them, and several
ways to execute it.

``python -m testbench.compiler.singles --pairs 1000000 div.rn`` divides random numbers and all pairs
of edge values by compiled code on the warp model. It compares the results with NumPy: with single
precision for rounding to nearest, with exact remainders for other directions. Exit code 1 if a
result differs.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from rtl.params import WARP_THREADS
from sim.launch import Buffer, Launch, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as interpret
from sim.model.warp.model import WarpModel
from sim.toolchain.cubin.loader import read_cubin
from sim.toolchain.cuda import MissingCompilerError, cubin_of_ptx
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.runs import compiled
from testbench.execute.singles import EDGES, singles
from testbench.ptx.text import HEADER

DIRECTIONS = ("rn", "rz", "rm", "rp")
_NAMES = [f"{name}.{direction}" for name in ("div", "rcp", "sqrt") for direction in DIRECTIONS]
BLOCK = 64
_LIMIT = 1_000_000_000
_BODY = (
    HEADER
    + """.visible .entry k(.param .u64 out)
{{ .reg .b32 a, b, c, d, e, i, t; .reg .b16 w; .reg .pred p, q; .reg .b64 l, x, y;
  mov.u32 t, %ctaid.x; mov.u32 a, %ntid.x; mov.u32 b, %tid.x; mad.lo.u32 t, t, a, b;
  ld.param.u64 x, [out]; mul.wide.u32 y, t, {bytes}; add.u64 x, x, y;
  ld.global.b32 a, [x]; ld.global.b32 b, [x+4]; ld.global.b32 c, [x+8]; mov.b32 {{w, _}}, a; mov.b32 i, 0;
{body} ret; }}
"""
)


@dataclass(frozen=True)
class Precision:
    """A precision: its numbers as words, and a kernel without its instructions."""

    word: np.dtype
    body: str

    @property
    def size(self) -> int:
        """Number of bytes of a number."""
        return self.word.itemsize

    @property
    def kind(self) -> np.dtype:
        """The type of the numbers."""
        return np.dtype(f"f{self.size}")


SINGLE = Precision(np.dtype(np.uint32), _BODY)


def text_of(operations: list[str], precision: Precision = SINGLE) -> str:
    """Returns a kernel whose threads load a, b and c, and store d after each of the instructions.

    w is the lower half of a; p, q, e, i and l are available for intermediate results.
    """
    size = precision.size
    body = "".join(
        f"{{ {operation}; st.global.b{8 * size} [x+{(3 + at) * size}], d; }}\n"
        for at, operation in enumerate(operations)
    )
    return precision.body.format(bytes=(3 + len(operations)) * size, body=body)


def operands(count: int, seed: int) -> np.ndarray:
    """Returns three numbers for each thread, as words, beginning with pairs of edge values."""
    pairs = [
        (a, b, EDGES[(at + other) % len(EDGES)])
        for at, a in enumerate(EDGES)
        for other, b in enumerate(EDGES)
    ]
    source = Random(seed)
    edges = source.sample(pairs, min(len(pairs), count // 2))
    found = np.array([*edges, *zip(*singles(source, count - len(edges)), strict=True)], np.uint32)
    return found[: len(found) // BLOCK * BLOCK]


def _content(operations: list[str], numbers: np.ndarray) -> list[Buffer]:
    out = np.zeros((len(numbers), 3 + len(operations)), numbers.dtype)
    out[:, :3] = numbers
    return [Buffer("out", out.tobytes())]


def _left(content: bytes, numbers: np.ndarray) -> np.ndarray:
    return np.frombuffer(content, numbers.dtype).reshape(len(numbers), -1)[:, 3:]


def computed(
    operations: list[str],
    numbers: np.ndarray,
    precision: Precision = SINGLE,
    module: Module | None = None,
) -> np.ndarray:
    """Returns the results of compiled code, or of ``module``: a row for each thread, a column for
    each instruction.
    """
    launch: Launch = prepare(
        module or compiled(text_of(operations, precision)),
        _content(operations, numbers),
        grid=(len(numbers) // BLOCK, 1, 1),
        block=(BLOCK, 1, 1),
    )
    assert WarpModel(launch, warps=BLOCK // WARP_THREADS).run(_LIMIT).status == "ok"
    return _left(launch.memory.read(*launch.buffers["out"]), numbers)


def meant(operations: list[str], numbers: np.ndarray, precision: Precision = SINGLE) -> np.ndarray:
    """Returns the results of the PTX interpreter."""
    launch = place(
        parse_ptx(text_of(operations, precision), "t.ptx"),
        _content(operations, numbers),
        grid=(len(numbers) // BLOCK, 1, 1),
        block=(BLOCK, 1, 1),
    )
    interpret(launch)
    return _left(launch.memory.read(*launch.buffers["out"]), numbers)


def assembled_by_nvidia(text: str, folder: Path) -> Module:
    """Returns a program assembled by NVIDIA's assembler; skips the test if that is missing."""
    cubin = folder / "k.cubin"
    try:
        cubin.write_bytes(cubin_of_ptx(text))
    except MissingCompilerError as error:
        import pytest  # of the extra `test`; only tests execute this line

        pytest.skip(f"NVIDIA's assembler: {error}")
    return read_cubin(cubin)


def of_nvidia_if_there(
    operations: list[str], numbers: np.ndarray, folder: Path, precision: Precision = SINGLE
) -> np.ndarray:
    """Returns the results of code of NVIDIA's assembler; skips the test if that is missing."""
    return computed(
        operations, numbers, precision, assembled_by_nvidia(text_of(operations, precision), folder)
    )


def check_same(
    operations: list[str],
    numbers: np.ndarray,
    found: np.ndarray,
    exact: np.ndarray,
    any_nan: bool,
    precision: Precision = SINGLE,
) -> None:
    """Compares words; with ``any_nan`` all NaNs are equal."""
    differ = found != exact
    if any_nan:
        differ &= ~(np.isnan(found.view(precision.kind)) & np.isnan(exact.view(precision.kind)))
    for row, column in np.argwhere(differ)[:1]:
        raise AssertionError(
            f"{operations[column]} of {[hex(word) for word in numbers[row]]} is "
            f"{found[row, column]:#x}, not {exact[row, column]:#x}"
        )


# Correctly rounded results, by NumPy


def _directed(nearest: np.ndarray, error: np.ndarray, direction: str) -> np.ndarray:
    """Returns a finite result to nearest, rounded in another direction; ``error`` has the sign of
    its rounding error.
    """
    below, above = (np.nextafter(nearest, np.float32(end)) for end in (-np.inf, np.inf))
    down, up = np.where(error < 0, below, nearest), np.where(error > 0, above, nearest)
    return {"rn": nearest, "rm": down, "rp": up, "rz": np.where(np.signbit(nearest), up, down)}[
        direction
    ]


def quotients(a: np.ndarray, b: np.ndarray, direction: str) -> np.ndarray:
    """Returns normal quotients of normal numbers. The remainder is exact: both products fit in
    doubles.
    """
    nearest = a / b
    error = (a.astype(np.float64) - nearest.astype(np.float64) * b) * np.sign(b)
    return _directed(nearest, error, direction)


def roots(a: np.ndarray, direction: str) -> np.ndarray:
    """Returns square roots of normal numbers."""
    nearest = np.sqrt(a)
    return _directed(nearest, a.astype(np.float64) - nearest.astype(np.float64) ** 2, direction)


def _check(name: str, found: np.ndarray, exact: np.ndarray, at: np.ndarray) -> int:
    """Prints and returns how many results differ; all NaNs are equal."""
    same = (found == exact) & (np.signbit(found) == np.signbit(exact)) | (
        np.isnan(found) & np.isnan(exact)
    )
    wrong = np.flatnonzero(~same & at)
    print(
        f"{name:8} {int(at.sum()):9,} results, {len(wrong)} differ",
        *(f"{found[place]!r} for {exact[place]!r}" for place in wrong[:3]),
    )
    return len(wrong)


def _differ(names: list[str], numbers: np.ndarray) -> int:
    """Returns how many results of instructions on pairs of numbers differ."""
    operations = [f"{name}.f32 d, a{', b' * name.startswith('div')}" for name in names]
    found = computed(operations, numbers).view(np.float32)
    a, b = (numbers[:, at].copy().view(np.float32) for at in (0, 1))
    one, wrong = np.ones_like(a), 0
    with np.errstate(all="ignore"):
        # Normal results are compared with NumPy in the requested direction, others with the
        # interpreter.
        sizes = {"div": np.abs(a / b), "rcp": np.abs(one / a), "sqrt": np.abs(np.sqrt(a))}
        tiny = np.finfo(np.float32).tiny
        for column, name in enumerate(names):
            kind, direction = name.split(".")
            exact = (
                roots(a, direction)
                if kind == "sqrt"
                else quotients(*((a, b) if kind == "div" else (one, a)), direction)
            )
            size = sizes[kind]
            at = (
                (size > 2 * tiny) & np.isfinite(size)
                if direction != "rn"
                else np.ones(len(a), bool)
            )
            wrong += _check(name, found[:, column], exact, at)
    return wrong


def main() -> int:
    """Runs the command and returns the exit code."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument(
        "names", metavar="NAME", nargs="*", default=_NAMES, help=f"of {', '.join(_NAMES)} (all)"
    )
    parser.add_argument(
        "--pairs", type=int, default=10_000, help="how many pairs of numbers (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(_NAMES):
        parser.error(f"{unknown.pop()} is none of {', '.join(_NAMES)}")
    start = time.perf_counter()
    source = np.random.default_rng(arguments.seed)
    edges = np.array([(a, b, 0) for a in EDGES for b in EDGES], np.uint32)
    numbers = np.zeros((-(-(arguments.pairs + len(edges)) // BLOCK) * BLOCK, 3), np.uint32)
    numbers[:, :2] = source.integers(0, 1 << 32, (len(numbers), 2), np.uint32)
    numbers[: len(edges)] = edges
    wrong = _differ(arguments.names, numbers)
    print(f"{len(numbers):,} pairs in {time.perf_counter() - start:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
