"""A mnemonic with its modifiers: which forms of the table it may be, and what it sets in them."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from rtl.isa.syntax import Form, Modifier
from rtl.isa.table import BY_NAME

__all__ = ["Candidate", "candidates"]

Candidate = tuple[Form, Mapping[str, int]]
"""A form, and the values of the fields that the modifiers set."""


@lru_cache(maxsize=4096)
def candidates(mnemonic: str) -> tuple[Candidate, ...]:
    """The forms that a mnemonic such as ``ISETP.GE.U32.AND`` may be. Modifiers are in the order that the table
    has them. ValueError says why it is none.
    """
    search = _Search(mnemonic)
    found = [
        (form, values)
        for at in search.names()
        for form in BY_NAME[mnemonic[:at]]
        if (values := search.values(form, form.modifiers, at)) is not None
    ]
    if not found:
        raise ValueError(search.complaint())
    return tuple(found)


class _Search:
    """The search for the modifiers of one mnemonic. ``furthest`` is how much of it some form could read,
    ``expected`` what might have followed there.
    """

    def __init__(self, mnemonic: str) -> None:
        self.mnemonic = mnemonic
        self.furthest = 0
        self.expected: set[str] = set()

    def names(self) -> Iterator[int]:
        """Ends of the instruction names that the mnemonic begins with; names have dots, too."""
        at = 0
        while at < len(self.mnemonic):
            at = self.mnemonic.find(".", at + 1) % (len(self.mnemonic) + 1)
            if self.mnemonic[:at] in BY_NAME:
                yield at

    def values(self, form: Form, modifiers: tuple[Modifier, ...], at: int) -> dict[str, int] | None:
        """What these modifiers are when they read the mnemonic from ``at`` to its end; None when they don't."""
        if not modifiers:
            self._reach(at)
            return {} if at == len(self.mnemonic) else None
        modifier, *rest = modifiers
        self._reach(at, [text for text in modifier.texts.values() if text])
        for value, text in _spellings(form, modifier):
            end = at + len(text)
            if self.mnemonic.startswith(text, at) and self.mnemonic[end : end + 1] in (".", ""):
                values = self.values(form, tuple(rest), end)
                if values is not None:
                    return {modifier.field: value, **values}
        return None

    def _reach(self, at: int, texts: list[str] | None = None) -> None:
        if at > self.furthest:
            self.furthest = at
            self.expected = set()
        if at == self.furthest:
            self.expected |= set(texts or ())

    def complaint(self) -> str:
        """Why the mnemonic is none."""
        if not self.furthest:
            return f"unknown instruction {self.mnemonic}"
        read, rest = self.mnemonic[: self.furthest], self.mnemonic[self.furthest :]
        expected = f": expected {', '.join(sorted(self.expected))}" if self.expected else ""
        if rest:
            return f"{read} has no modifier {rest} here{expected}"
        return f"{read} lacks a modifier{expected}"


def _spellings(form: Form, modifier: Modifier) -> Iterator[tuple[int, str]]:
    """Values and texts that a modifier can have in this form, the default's value where several have no text."""
    field = form.fields[modifier.field]
    default = field.get(form.default)
    texts = {text: value for value, text in modifier.texts.items()} | dict(modifier.aliases)
    texts |= {text: value for value, text in modifier.texts.items() if value == default}
    for text, value in texts.items():
        if field.put(form.match, value) & form.mask == form.match:
            yield value, text
