"""Tables as text."""

from collections.abc import Sequence

__all__ = ["table"]


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a title, a header and rows in columns; cells that begin with a digit are
    right-aligned.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    right = [
        all(not cell or cell[0].isdigit() for cell in column) for column in zip(*rows, strict=True)
    ]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, right, strict=True)
        ).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([title, "", line(header), rule, *map(line, rows), ""])
