"""Kernels that test branches, loops and exits."""

from collections.abc import Mapping

from .outcome import WORD, Inputs, Kernels, OneOf, Outcome, exact, signed

__all__ = ["KERNELS"]

KERNELS = Kernels()


def _number(inputs: Inputs, cta: int, thread: int) -> int:
    """Returns a thread's number in a one-dimensional grid."""
    return cta * inputs.run.block[0] + thread


@KERNELS.of("k01_vecadd")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    a, b, c = (inputs.words(name) for name in "abc")
    for thread in inputs.everybody():
        at = _number(inputs, thread.ctaid[0], thread.tid[0])
        if at < inputs.values["n"]:
            c[at] = a[at] + b[at]
    return {"c": exact(c)}


@KERNELS.changing("k02_isaxpy_gridstride", "y")
def _(inputs: Inputs, y: list[int]) -> None:
    x = inputs.words("x")
    for thread in inputs.everybody():
        first = _number(inputs, thread.ctaid[0], thread.tid[0])
        for at in range(first, inputs.values["n"], inputs.run.grid[0] * inputs.run.block[0]):
            y[at] = x[at] * inputs.values["a"] + y[at]


def _last_stores(initial: list[int], stores: list[dict[int, int]]) -> OneOf:
    """Each word may have the value of any thread's last store to it, or its initial value if no
    thread stores to it.
    """
    return OneOf(
        [
            frozenset(last[at] & WORD for last in stores if at in last) or frozenset([value & WORD])
            for at, value in enumerate(initial)
        ]
    )


@KERNELS.of("k03_nested_if")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o, n, m = inputs.words("o"), inputs.values["n"], inputs.values["m"]
    stores = []
    for t in range(inputs.threads):
        mine: dict[int, int] = {}
        if t & 1 == 0:
            if t & 4 == 0:
                r6 = t * m
                mine[t + 3] = r6
            else:
                r6, r8 = t | m, o[t + 4]
                if signed(r8) < signed(r6):
                    r6 -= r8
                else:
                    r6 += r8
                    mine[t + 5] = r6
            r6 += 1
        else:
            if t & 2 == 0:
                r6 = n - t
                mine[t + 2] = r6
            else:
                if t > n:
                    r6 = t ^ m
                    mine[t + 1] = r6
                else:
                    r6 = t * n
                    mine[t] = r6
                r6 += 7
            r6 <<= 3
        mine[t + 16] = r6
        stores.append(mine)
    return {"o": _last_stores(o, stores)}


@KERNELS.changing("k04_loop_break_continue", "o", "in")
def _(inputs: Inputs, o: list[int], cells: list[int]) -> None:
    n = inputs.values["n"]
    for t in range(inputs.threads):
        row = r4 = 0
        while row < n:
            at = row * 32 + t
            value = cells[at]
            row += 1
            if value == 0:
                continue
            if signed(value) > 1000:
                break
            if value & 1:
                r4 = r4 + cells[at + 32] & WORD
                cells[at] = r4
            else:
                r4 ^= value
                cells[at + 1] = r4
        o[t] = r4


@KERNELS.changing("k05_triple_loop", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    for t in range(inputs.threads):
        o[t] = _triple_loop(t, inputs.values["n"])


def _triple_loop(t: int, n: int) -> int:
    total = 0
    for i in range(n):
        j, leave = 0, False
        while j <= i and not leave:
            for k in range(t, 0, -1):
                r6 = k * j + i & WORD
                if r6 & 15 == 13:
                    leave = True
                    break
                if r6 & 15 != 7:
                    total = total + r6 & WORD
            if not leave:
                j += 1
                if total > 100000:
                    return total
    return total


@KERNELS.changing("k06_switch_brx", "o", "in")
def _(inputs: Inputs, o: list[int], cells: list[int]) -> None:
    for t in range(inputs.threads):
        case, value = cells[t], cells[t + 64]
        if case in (0, 6):
            result = value + 5
        elif case == 1:
            result = value * t
        elif case == 2:
            result = value << 4
        elif case in (3, 4):
            result = value ^ 0x55AA
            cells[t] = result
        elif case == 5:
            result = value >> 7
            cells[t + 1] = result
        else:
            result = ~value
        o[t] = result


@KERNELS.changing("k07_switch_chain_in_loop", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    code = inputs.words("code")
    for t in range(inputs.threads):
        o[t] = _interpreted(t, code, inputs.values["n"])


def _interpreted(value: int, code: list[int], n: int) -> int:
    at = 0
    while at < n:
        operation, operand = code[2 * at : 2 * at + 2]
        at += 1
        match operation:
            case 0:
                value = value + operand & WORD
            case 1:
                value = value * operand & WORD
            case 2:
                if value != operand:
                    at = operand
            case 3:
                value ^= operand
            case 4:
                if value < operand:
                    break
                value -= operand
            case _:
                break
    return value


@KERNELS.changing("k13_early_exit", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    for t in range(inputs.threads):
        if t >= inputs.values["n"] or o[t] == 0:
            continue
        o[t] = o[t] * 3 + 1 if o[t] & 1 else o[t] + 10


@KERNELS.of("k47_trap_brkpt")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    first = inputs.words("o")[0]
    return {"o": OneOf([frozenset([first]), frozenset(range(inputs.threads))])}


@KERNELS.of("k52_irreducible")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o, n = inputs.words("o"), inputs.values["n"]
    stores = []
    for t in range(inputs.threads):
        mine: dict[int, int] = {}
        value, first_half = t, t & 1 == 1
        while True:
            if first_half:
                value = value + 5 & WORD
                if value > n:
                    break
                mine[1] = value
            value = value * 3 & WORD
            if value > n:
                break
            first_half = value & 2 == 0
            if not first_half:
                value = value + 1 & WORD
        mine[t] = value
        stores.append(mine)
    return {"o": _last_stores(o, stores)}


@KERNELS.of("k57_deep_nest")
def _(inputs: Inputs) -> Mapping[str, Outcome]:
    o, n = inputs.words("o"), inputs.values["n"]
    stores = []
    for t in range(inputs.threads):
        mine: dict[int, int] = {}
        depth = 0
        while depth < 5 and t >> depth & 1:
            mine[t + depth] = t
            depth += 1
        if depth == 5:
            for count in range(t):
                if o[t + 16] != count:
                    mine[t + 17] = count
            mine[t + 5] = t
        for end in range(min(depth + 1, 5), 0, -1):
            mine[t + 11 - end] = n
        stores.append(mine)
    return {"o": _last_stores(o, stores)}


@KERNELS.changing("k58_prefetch_misc", "o")
def _(inputs: Inputs, o: list[int]) -> None:
    o[1] = o[0]
