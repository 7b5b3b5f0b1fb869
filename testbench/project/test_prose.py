"""Pages, comments, docstrings, help texts and messages use none of the words of words.toml."""

import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbench.project.documented import ROOT

WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            page
            for top in ("docs", "rtl", "sim", "testbench", "waveforms", "constraints")
            for page in (ROOT / top).rglob("*.md")
        ),
    ]
)
CODE = [
    path
    for top in ("rtl", "sim", "testbench", "docs")
    for path in sorted((ROOT / top).rglob("*.py"))
    if path != Path(__file__)
]
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def found_in(text: str, words: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields each word of the list in a text, with its replacement."""
    text = re.sub(r"\s+", " ", text)
    for pattern, instead in words.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            yield match[0], instead


def sentences(code: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of every comment, and of every string with a space in it: docstrings,
    help texts, messages.
    """
    block, begin, last = "", 0, 0
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            # A sentence may continue in the comment of the next line.
            if token.start[0] != last + 1:
                yield begin, block
                block, begin = "", token.start[0]
            block, last = f"{block} {token.string.lstrip('#')}", token.start[0]
        elif token.type in STRINGS and " " in token.string:
            yield token.start[0], token.string
    yield begin, block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_no_word_of_the_list(page):
    words = {**WORDS["everywhere"], **WORDS["pages"]}
    prose = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    assert [
        f"{word!r}: write {instead}"
        for word, instead in found_in(re.sub(r"`[^`]*`", "``", prose), words)
    ] == []


def test_code_uses_no_word_of_the_list_in_comments_docstrings_and_messages():
    assert [
        f"{path.relative_to(ROOT)}:{line}: {word!r}: write {instead}"
        for path in CODE
        for line, text in sentences(path.read_text(encoding="utf-8"))
        for word, instead in found_in(text, WORDS["everywhere"])
    ] == []


def test_a_word_of_the_list_is_found_over_the_end_of_a_line():
    assert list(found_in("It was Mended, as\nplacement has it.", WORDS["everywhere"])) == [
        ("Mended", "fix, fixed"),
        ("as placement has it", "as in ..., as ... does it, defined by ..."),
    ]
    code = 'def f():\n    """Mended it."""\n    # for\n    # ever\n    raise E(f"{x} a knob")\n'
    assert [
        (line, word)
        for line, text in sentences(code)
        for word, _ in found_in(text, WORDS["everywhere"])
    ] == [(2, "Mended"), (5, "knob"), (3, "for ever")]
