"""Makes the table of MUFU's functions: ``python -m testbench.convert.make_table [--check]``.

In each interval a parabola goes through the function at the three zeros of a Chebyshev polynomial,
computed with 120 bits, and its coefficients are rounded.

There are two corrections. If the function is exact at the beginning of its first interval, as
log2(1) is, C0 is changed so that the table is exact there, too. In the last interval of RCP, C0 is
changed so that the reciprocal of the largest significand is rounded up: compiled division corrects
any reciprocal but this one.

With ``--check`` no file is written; exit code 1 if the table in the repository differs. Needs
gmpy2.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gmpy2 as _gmpy2

from rtl.isa import functions
from rtl.isa.functions import DISTANCE_BITS, UNIT
from sim.support.command import Parser, write_file

__all__ = ["PATH", "main", "table_text", "value"]

PATH = Path(functions.__file__).with_name("function_table.py")
_PRECISION = 120
gmpy2: Any = _gmpy2
_ONE = 1 << UNIT
_LARGEST = (
    (1 << DISTANCE_BITS - 1) - (1 << DISTANCE_BITS - 15),
    (_ONE >> 1) + (1 << UNIT - 25) + 1,
)
"""Distance of the largest significand in its interval, and the smallest value that is rounded to
more than 1 / 2.
"""
_HEAD = '''"""The coefficients of MUFU's functions, made by ``python -m testbench.convert.make_table``.

:mod:`rtl.isa.functions` says what they mean.
"""

__all__ = ["TABLE"]

TABLE: tuple[tuple[int, int, int], ...] = (
'''
_TAIL = ''')
"""C0, C1 and C2 of every row."""
'''


def value(coefficients: tuple[int, int, int], d: int) -> int:
    """The machine's result for a row at distance ``d``, in fixed point."""
    c0, c1, c2 = coefficients
    return c0 + (c1 * d + 2 * c2 * (d * d >> DISTANCE_BITS) >> DISTANCE_BITS - 1)


def _rows(
    function: Callable[[Any], Any],
    count: int,
    first: int = 0,
    width: int = 1,
    exact: int | None = None,
    last: tuple[int, int] | None = None,
) -> Iterator[tuple[int, int, int]]:
    """The rows of a function from ``first`` on.

    ``exact`` is its exact value at ``first``, ``last`` a distance in the last row and the minimum
    value there.
    """
    node = gmpy2.sqrt(gmpy2.mpfr(3)) / 2
    half = gmpy2.mpfr(width) / (2 * count)
    for number in range(count):
        middle = first + (2 * number + 1) * half
        above, here, below = (function(middle + step * half) for step in (node, 0, -node))
        terms = here, (above - below) / (2 * node), (above + below - 2 * here) / (2 * node * node)
        c0, c1, c2 = (int(gmpy2.rint(term * _ONE)) for term in terms)
        if number == 0 and exact is not None:
            c0 += exact - value((c0, c1, c2), -(1 << DISTANCE_BITS - 1))
        if number == count - 1 and last is not None:
            c0 += max(0, last[1] - value((c0, c1, c2), last[0]))
        yield c0, c1, c2


def table_text() -> str:
    """The text of the file."""
    with gmpy2.context(precision=_PRECISION):
        quarter = gmpy2.const_pi() / 2
        sections = {
            "RCP: 1 / x, 1 <= x < 2": _rows(lambda x: 1 / x, 256, 1, exact=_ONE, last=_LARGEST),
            "RSQ: 1 / sqrt(x), 1 <= x < 2": _rows(gmpy2.rec_sqrt, 128, 1, exact=_ONE),
            "RSQ: 1 / sqrt(x), 2 <= x < 4": _rows(gmpy2.rec_sqrt, 128, 2, 2),
            "LG2: log2(x), 1 <= x < 2": _rows(gmpy2.log2, 128, 1, exact=0),
            "EX2: 2**x / 2, 0 <= x < 1": _rows(lambda x: gmpy2.exp2(x) / 2, 128, exact=_ONE // 2),
            "SIN: sin(x * pi / 2), 0 <= x < 1": _rows(
                lambda x: gmpy2.sin(quarter * x), 128, exact=0
            ),
        }
        lines = [line for title, rows in sections.items() for line in _section(title, rows)]
    return _HEAD + "".join(lines) + _TAIL


def _section(title: str, rows: Iterator[tuple[int, int, int]]) -> Iterator[str]:
    """The lines of the rows of a function."""
    yield f"    # {title}\n"
    for c0, c1, c2 in rows:
        yield f"    ({c0}, {c1}, {c2}),\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = Parser(
        "testbench.convert.make_table", "Makes the table of MUFU's functions.", "--check"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if the table would change"
    )
    check, text = parser.parse_args(arguments).check, table_text()
    changes = PATH.read_text(encoding="utf-8") != text
    if check:
        return int(changes)
    # a newer file would invalidate compiled models in processes that have read the older one
    if changes:
        write_file(PATH, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
