"""NumPy's results for kernels whose order of additions is known: words must be equal."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["CASES", "Case"]

_Arrays = dict[str, np.ndarray]
_FLOAT = np.float32


def _fused(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> np.ndarray:
    """Computes a fused multiply-add in doubles, which is exact here: products are exact, and so are
    sums of these numbers.
    """
    return (np.asarray(a, np.float64) * np.asarray(b) + np.asarray(c)).astype(_FLOAT)


@dataclass(frozen=True)
class Case:
    """A run: the buffers except the first one, the expected content of the first one, and the
    permitted error.
    """

    inputs: _Arrays
    exact: np.ndarray
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    error: float = 0.0

    @property
    def buffers(self) -> _Arrays:
        """Returns all buffers, in the order of the parameters."""
        return {"out": np.zeros(self.exact.shape, _FLOAT), **self.inputs}

    def check(self, left: np.ndarray) -> None:
        """Compares the words of the first buffer with the expected ones."""
        found = left.view(_FLOAT).reshape(self.exact.shape)
        if self.error:
            assert np.allclose(found, self.exact, rtol=self.error, atol=self.error)
        else:
            assert np.array_equal(left, self.exact.astype(_FLOAT).view(np.uint32).ravel()), (
                found,
                self.exact,
            )


def _stencil(source: np.random.Generator) -> Case:
    plate = source.uniform(0, 100, (10, 18)).astype(_FLOAT)
    around = (plate[1:-1, :-2] + plate[1:-1, 2:]) + (plate[:-2, 1:-1] + plate[2:, 1:-1])
    left = np.zeros_like(plate)
    left[1:-1, 1:-1] = _fused(_FLOAT(0.125), around, _FLOAT(0.5) * plate[1:-1, 1:-1])
    return Case({"in": plate}, left, (2, 1, 1), (8, 8, 1))


def _reduction(source: np.random.Generator) -> Case:
    numbers = source.normal(0, 100, 256).astype(_FLOAT)
    sums = np.zeros(64, _FLOAT)
    for part in numbers.reshape(4, 64):
        sums = sums + part
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return Case({"in": numbers}, np.array([sums[0], numbers.max()], _FLOAT), (1, 1, 1), (64, 1, 1))


def _fourier(source: np.random.Generator) -> Case:
    numbers = source.normal(0, 1, (64, 2)).astype(_FLOAT)
    angles = -2 * np.pi * np.arange(32) / 64
    roots = np.array([np.cos(angles), np.sin(angles)], _FLOAT).T.copy()
    held, thread = numbers, np.arange(32)
    for power in range(6):
        length = 1 << power
        part = thread & length - 1
        (c, s), a, (x, y) = roots[part * (32 // length)].T, held[:32], held[32:].T
        turned = np.array([_fused(x, c, -(y * s)), _fused(x, s, y * c)]).T
        to, new = 2 * thread - part, np.zeros_like(held)
        new[to], new[to + length] = a + turned, a - turned
        held = new
    exact = np.fft.fft(numbers[:, 0] + 1j * numbers[:, 1])
    assert np.allclose(held[:, 0] + 1j * held[:, 1], exact, atol=1e-4)
    return Case({"in": numbers, "roots": roots}, held, (1, 1, 1), (32, 1, 1))


def _mandelbrot(_source: np.random.Generator) -> Case:
    x, y = (axis.astype(_FLOAT) for axis in np.meshgrid(np.arange(16), np.arange(8)))
    cx, cy = _fused(x, _FLOAT(0.1875), _FLOAT(-2.25)), _fused(y, _FLOAT(0.34375), _FLOAT(-1.25))
    zx, zy, steps = np.zeros_like(cx), np.zeros_like(cx), np.zeros_like(cx)
    for _ in range(40):
        xx, yy = zx * zx, zy * zy
        stays = xx + yy <= 4
        zx, zy = np.where(stays, (xx - yy) + cx, zx), np.where(stays, _fused(zx + zx, zy, cy), zy)
        steps += stays
    return Case(
        {}, np.dstack([steps, zx, zy, np.sqrt(_fused(zx, zx, zy * zy))]), (2, 1, 1), (16, 4, 1)
    )


def _options(source: np.random.Generator) -> Case:
    """Uses the same formulas in doubles: functions and sums in single precision may differ by some
    units.
    """
    price, strike, time = (
        source.uniform(5, 30, 64),
        source.uniform(5, 30, 64),
        source.uniform(0.25, 3, 64),
    )
    given = np.array([price, strike, time, time], _FLOAT).T.copy()
    price, strike, time, _ = given.T.astype(np.float64)
    rate, change = 0.02, 0.3

    def below(d: np.ndarray) -> np.ndarray:
        t = 1 / (1 + 0.2316419 * np.abs(d))
        factors = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153, 0.0)
        above = 0.39894228 * np.exp(-0.5 * d * d) * np.polyval(factors, t)
        return np.where(d > 0, 1 - above, above)

    first = (np.log(price / strike) + (rate + 0.5 * change**2) * time) / (change * np.sqrt(time))
    p, q = below(first), below(first - change * np.sqrt(time))
    worth = strike * np.exp(-rate * time)
    return Case(
        {"in": given},
        np.array([price * p - worth * q, worth * (1 - q) - price * (1 - p)]).T,
        (2, 1, 1),
        (32, 1, 1),
        error=2e-5,
    )


def _means(source: np.random.Generator) -> Case:
    points = (source.normal(0, 0.5, (64, 2)) + source.choice([-2, 2], (64, 2))).astype(_FLOAT)
    means, nearest = points[:4].copy(), np.zeros(64, int)
    for _ in range(3):
        x, y = (points[:, None] - means[None]).transpose(2, 0, 1)
        nearest = _fused(x, x, y * y).argmin(axis=1)
        for mean in range(4):
            own = points[nearest == mean]
            if len(own):
                means[mean] = own.cumsum(axis=0, dtype=_FLOAT)[-1] / _FLOAT(len(own))
    return Case(
        {"points": points}, np.array([*nearest, *means.ravel()], _FLOAT), (1, 1, 1), (64, 1, 1)
    )


def _triangles(source: np.random.Generator) -> Case:
    matrix = source.uniform(-1, 1, (8, 8)).astype(_FLOAT) + 4 * np.eye(8, dtype=_FLOAT)
    a = matrix.copy()
    for step in range(7):
        a[step + 1 :, step] /= a[step, step]
        a[step + 1 :, step + 1 :] = _fused(
            -a[step + 1 :, step, None], a[None, step, step + 1 :], a[step + 1 :, step + 1 :]
        )
    assert np.allclose((np.tril(a, -1) + np.eye(8)) @ np.triu(a), matrix, atol=1e-5)
    return Case({"in": matrix}, a, (1, 1, 1), (8, 8, 1))


def _jacobi(source: np.random.Generator) -> Case:
    matrix = source.uniform(-1, 1, (32, 32)).astype(_FLOAT) + 32 * np.eye(32, dtype=_FLOAT)
    right = source.uniform(-32, 32, 32).astype(_FLOAT)
    inverse, x, far = _FLOAT(1) / matrix.diagonal(), np.zeros(32, _FLOAT), np.zeros(32, _FLOAT)
    for _ in range(6):
        total = right
        for at in range(32):
            total = np.where(np.arange(32) == at, total, _fused(-matrix[:, at], x[at], total))
        far, x = np.abs(total * inverse - x), total * inverse
    assert np.allclose(matrix.astype(np.float64) @ x, right, atol=1e-1)
    return Case({"matrix": matrix, "right": right}, np.array([x, far]), (1, 1, 1), (32, 1, 1))


def _sorted(source: np.random.Generator) -> Case:
    numbers = source.normal(0, 1, 128).astype(_FLOAT) * np.exp2(
        source.integers(-140, 120, 128)
    ).astype(_FLOAT)
    numbers[:3] = np.inf, -np.inf, 0
    return Case({"in": numbers}, np.sort(numbers), (1, 1, 1), (64, 1, 1))


CASES = {
    "stencil": _stencil,
    "reduction": _reduction,
    "fourier": _fourier,
    "mandelbrot": _mandelbrot,
    "options": _options,
    "means": _means,
    "triangles": _triangles,
    "jacobi": _jacobi,
    "sorted": _sorted,
}
"""Kernel -> function that makes a run with numbers from a random source."""
