"""Tables of the manual's pages."""

import re
from pathlib import Path

__all__ = ["table"]


def table(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, row by row, without its head row. Backticks are left out, and of
    links all but their text.
    """
    text = page.read_text(encoding="utf-8")
    assert text.count(f"\n{heading}\n") == 1, f"{page.name} has not exactly one {heading!r}"
    body = re.split(r"^#+ ", text.split(f"\n{heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = f"\n{body}".split("\n\n|", 1)[1].split("\n\n")[0].splitlines()
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row).replace("`", "") for row in rows[2:]]
    return [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in plain]
