"""Merges several PTX texts as a linker does: visible names are common to all, static names belong
to one text.

A text is split into the items of its outermost level, of which only linkage and names matter here.
Other errors are found when the whole text is compiled.

- A static name that another text also has is renamed; the first static one keeps it if no visible
  name is the same.
- Of several weak or common definitions one is kept: a strong one, else the first.
- An extern declaration refers to another text's definition. Of a variable without definition one
  declaration is kept, that with the largest alignment: it is dynamic shared memory.
- The newest version and machine of all texts apply to the whole.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sim.toolchain.module import ProgramError

__all__ = ["join"]

_TOKEN = re.compile(
    r"""
    (?P<skipped>\s+|//[^\n]*|/\*[\s\S]*?\*/|\.(?:loc|file)(?![\w$])[^\n]*|@@DWARF[^\n]*
        |\.section\s+[^\s{]+\s*\{[^}]*\}|\.pragma\s*"[^"\n]*"(?:\s*,\s*"[^"\n]*")*\s*;)
    |(?P<string>"[^"\n]*")|(?P<directive>\.[A-Za-z_][\w$]*)|(?P<number>[0-9][\w.]*)
    |(?P<word>[A-Za-z][\w$]*|[_$%][\w$]+|_)|(?P<other>[\s\S])""",
    re.VERBOSE,
)
_LINKAGES = (".visible", ".extern", ".weak", ".common")
_FUNCTIONS = (".func", ".function", ".entry")
_HEADERS = (".version", ".target", ".address_size")
_OPEN, _CLOSE = "([{", ")]}"
_STARTS = (";", "{", "}", ":")
"""The tokens that can precede an instruction without a guard."""
_NO_OPERATION = (":", ",", "}", ")", "]", "+", "-")
"""The tokens after a word that rule out that it is an operation."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


@dataclass(frozen=True)
class _Declaration:
    """A declaration or definition. ``names`` are the names that it declares; ``body`` is the index
    of the token at which a function's body or an initial value begins.
    """

    tokens: tuple[_Token, ...]
    linkage: str | None = None
    is_function: bool = False
    is_entry: bool = False
    names: tuple[str, ...] = ()
    body: int | None = None

    @property
    def defines(self) -> bool:
        """Whether it is a definition."""
        return self.body is not None if self.is_function else self.linkage != ".extern"

    @property
    def alignment(self) -> int:
        """The alignment of a variable in the text, 1 by default."""
        found = re.search(r"\.align\s+([0-9]+)", _text(self.tokens))
        return int(found[1]) if found else 1

    def with_linkage(self, linkage: str) -> "_Declaration":
        """Returns the item with another linkage."""
        rest = (
            self.tokens
            if self.linkage is None
            else tuple(one for one in self.tokens if one.text != self.linkage)
        )
        return replace(
            self,
            tokens=(_Token("directive", linkage), _Token("skipped", " "), *rest),
            linkage=linkage,
        )

    def declared(self, linkage: str) -> "_Declaration":
        """Returns a declaration of the item that this one defines."""
        end = _Token("other", ";")
        tokens = self.tokens if self.body is None else (*self.tokens[: self.body], end)
        return replace(self, tokens=tokens, body=None).with_linkage(linkage)


@dataclass
class _PtxText:
    """A text: the header and the items."""

    version: tuple[int, int] = (0, 0)
    targets: tuple[str, ...] = ()
    items: list[_Declaration] = field(default_factory=list)

    @property
    def machine(self) -> int:
        """The number of the target machine."""
        found = re.search(r"[0-9]+", self.targets[0]) if self.targets else None
        return int(found[0]) if found else 0

    @property
    def linked(self) -> set[str]:
        """The names that are visible in other texts."""
        return {name for item in self.items if item.linkage is not None for name in item.names}

    @property
    def static(self) -> set[str]:
        """The names that are not visible in other texts."""
        return {
            name for item in self.items if item.linkage is None for name in item.names
        } - self.linked


def _text(tokens: Sequence[_Token]) -> str:
    return "".join(one.text for one in tokens)


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        yield _Token(found.lastgroup or "other", found[0])


def _split(text: str) -> _PtxText:
    """Splits a text into its header and items."""
    found, tokens, begin, depth = _PtxText(), list(_tokens(text)), 0, 0
    first = ""
    for at, one in enumerate(tokens):
        if one.kind == "skipped":
            continue
        first = first or one.text
        if one.kind == "other":
            depth += (one.text in _OPEN) - (one.text in _CLOSE)
        if depth:
            continue
        if first in _HEADERS:
            if _header_ends(first, one, tokens[at + 1 : at + 3]):
                words = [
                    token.text
                    for token in tokens[begin : at + 1]
                    if token.kind in ("number", "word")
                ]
                _take_header(found, words, first)
                begin, first = at + 1, ""
        elif one.text == ";" or (
            one.text == "}" and any(token.text in _FUNCTIONS for token in tokens[begin:at])
        ):
            if first != ";":
                found.items.append(_item(tokens[begin : at + 1]))
            begin, first = at + 1, ""
    if first:
        found.items.append(_item(tokens[begin:]))  # the compiler reports its error
    return found


def _header_ends(name: str, last: _Token, rest: Sequence[_Token]) -> bool:
    """Whether a directive of the header is complete: it has a number or word, and no comma
    follows.
    """
    following = next((token.text for token in rest if token.kind != "skipped"), "")
    return last.kind in ("number", "word") and (name != ".target" or following != ",")


def _take_header(text: _PtxText, words: Sequence[str], name: str) -> None:
    if name == ".version":
        major, _, minor = words[0].partition(".")
        text.version = (
            (int(major), int(minor or 0))
            if major.isdigit() and (minor or "0").isdigit()
            else (0, 0)
        )
    elif name == ".target":
        text.targets = tuple(words)


def _item(tokens: Sequence[_Token]) -> _Declaration:
    """Returns the item of these tokens."""
    texts = [one.text for one in tokens]
    linkage = next((one for one in texts if one in _LINKAGES), None)
    kind = next((one for one in texts if one in _FUNCTIONS), None)
    names: list[str] = []
    body, depth, open_name = None, 0, True
    for at, one in enumerate(tokens):
        if kind is None and one.text == "=" and body is None:
            body = at
        if depth == 0 and kind is not None and one.text == "{":
            body = at
            break
        if one.kind == "other":
            depth += (one.text in _OPEN) - (one.text in _CLOSE)
            open_name = open_name or (depth == 0 and one.text == ",")
        elif one.kind == "word" and depth == 0 and open_name:
            names.append(one.text)
            open_name = False
    if ".alias" in texts:
        names = []
    return _Declaration(
        tuple(tokens), linkage, kind is not None, kind == ".entry", tuple(names), body
    )


def _renamed(item: _Declaration, names: dict[str, str]) -> _Declaration:
    """Returns an item with names replaced, except those of operations."""
    tokens = list(item.tokens)
    places = [at for at, one in enumerate(tokens) if one.kind != "skipped"]
    for number, at in enumerate(places):
        word = tokens[at]
        if word.kind == "word" and word.text in names and not _is_operation(tokens, places, number):
            tokens[at] = _Token("word", names[word.text])
    return replace(
        item, tokens=tuple(tokens), names=tuple(names.get(name, name) for name in item.names)
    )


def _is_operation(tokens: Sequence[_Token], places: Sequence[int], number: int) -> bool:
    """Whether a word is the operation of an instruction."""

    def text(place: int) -> str:
        return tokens[places[place]].text if 0 <= place < len(places) else ""

    guard = (
        tokens[places[number - 1]].kind == "word"
        and (text(number - 2) == "@" or (text(number - 2) == "!" and text(number - 3) == "@"))
        if number
        else False
    )
    return (guard or text(number - 1) in _STARTS) and text(number + 1) not in _NO_OPERATION


def _with_own_names(texts: list[_PtxText], sources: Sequence[str]) -> None:
    """Renames static names that other texts also have."""
    linked = set().union(*(text.linked for text in texts))
    words = {word for source in sources for word in re.findall(r"[\w$%]+", source)}
    taken: set[str] = set()
    for number, text in enumerate(texts, 1):
        changed = {}
        for name in sorted(text.static):
            if name in linked or name in taken:
                new = f"{name}${number}"
                while new in words:
                    new += "_"
                changed[name] = new
            taken.add(name)
        if changed:
            text.items = [_renamed(item, changed) for item in text.items]


def _kept_definitions(items: Sequence[_Declaration]) -> dict[str, int]:
    """Returns the index of the item whose definition is kept for each name.

    Raises:
        ProgramError: A name has two definitions that are not weak.
    """
    kept: dict[str, int] = {}
    for number, item in enumerate(items):
        if item.linkage is None or not item.defines:
            continue
        for name in item.names:
            if name not in kept:
                kept[name] = number
            elif item.linkage == ".visible":
                if items[kept[name]].linkage == ".visible":
                    raise ProgramError(f"{name} is defined in two of the texts that are linked")
                kept[name] = number
    return kept


def _merged(items: Sequence[_Declaration]) -> list[_Declaration]:
    """Returns the items of all texts, with one definition for each name."""
    kept = _kept_definitions(items)
    widest: dict[str, _Declaration] = {}
    for item in items:
        if item.linkage == ".extern" and not item.is_function and len(item.names) == 1:
            name = item.names[0]
            if name not in widest or item.alignment > widest[name].alignment:
                widest[name] = item
    result, declared = [], set()
    for number, item in enumerate(items):
        name = item.names[0] if len(item.names) == 1 else None
        if name is None or item.linkage is None:
            result.append(item)
        elif item.defines:
            if kept[name] == number:
                result.append(item)
            elif not item.is_entry and (item.is_function or kept[name] > number):
                result.append(
                    item.declared(
                        items[kept[name]].linkage or "" if item.is_function else ".extern"
                    )
                )
        elif item.is_function:
            result.append(
                item.with_linkage(items[kept[name]].linkage or "") if name in kept else item
            )
        elif name in kept:
            result.append(item)
        elif name not in declared:
            declared.add(name)
            result.append(widest.get(name, item))
    return result


def join(texts: Sequence[str]) -> str:
    """Merges several PTX texts.

    Raises:
        ProgramError: The texts define a name twice.
    """
    if len(texts) == 1:
        return texts[0]
    parts = [_split(text) for text in texts]
    _with_own_names(parts, texts)
    version = max(part.version for part in parts)
    targets = max(parts, key=lambda part: part.machine).targets
    items = _merged([item for part in parts for item in part.items])
    return (
        f".version {version[0]}.{version[1]}\n.target {', '.join(targets)}\n.address_size 64\n"
        + "\n".join(_text(item.tokens).strip() for item in items)
        + "\n"
    )
