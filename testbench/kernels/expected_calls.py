"""Kernels that test calls: recursion, function pointers, several return points."""

from collections.abc import Mapping

from .outcome import Inputs, Kernels, Outcome, exact, signed

__all__ = ["KERNELS"]

KERNELS = Kernels()


def _fibonacci(n: int) -> int:
    return n if n < 2 else _fibonacci(n - 1) + _fibonacci(n - 2)


@KERNELS.of("k08_fib_recursion")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {"out": exact([_fibonacci(t) for t in range(inputs.threads)])}


def _ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return _ackermann(m - 1, 1 if n == 0 else _ackermann(m, n - 1))


@KERNELS.changing("k09_ackermann", "out")
def _(inputs: Inputs, out: list[int]) -> None:
    for t in range(inputs.threads):
        out[t & 3] = _ackermann(2, t & 3)


@KERNELS.of("k10_calltable_global")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    def called(t: int, u: int) -> int:
        match u:
            case 0:
                return t + u
            case 1:
                return t * u
            case _:
                return t << 2 if t < u else t ^ u

    return {"out": exact([called(t, t % 3) for t in range(inputs.threads)])}


@KERNELS.of("k11_calltargets")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {"out": exact([t * 1 if t & 1 else t + 0 for t in range(inputs.threads)])}


@KERNELS.of("k12_callprototype_param")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    # Thread 0 never calls; each other thread calls a function that stores its argument, the
    # thread's number, and exits.
    return {"out": exact(list(range(inputs.threads)))}


def _inner(x: int) -> int:
    return x * x if signed(x) < 10 else x - 3


def _outer(x: int, count: int, limit: int) -> int:
    for _ in range(count):
        x = _inner(x)
        if signed(x) > signed(limit):
            return -x
    return x


@KERNELS.of("k46_noinline_multilevel")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    return {"o": exact([_outer(t, t, 4 * t) for t in range(inputs.threads)])}


@KERNELS.changing("k53_divergent_ret_func", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    table = inputs.words("in")
    for t in range(inputs.threads):
        if t & 1:
            o[t] = 1
            continue
        found = -1
        for at in range(t):
            if table[at] == t:
                found = at
                break
            if table[at] > 1000:
                found = None
                break
        if found is not None:
            o[t] = found
