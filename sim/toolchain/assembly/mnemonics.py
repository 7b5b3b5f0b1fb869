"""Mnemonics with modifiers: the possible forms of the table, and the field values that the
modifiers set.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from rtl.isa.syntax import Form, Modifier
from rtl.isa.table import BY_NAME

__all__ = ["Candidate", "candidates"]

Candidate = tuple[Form, Mapping[str, int]]
"""A form, and the values of the fields that the modifiers set."""


@lru_cache(maxsize=4096)
def candidates(mnemonic: str) -> tuple[Candidate, ...]:
    """Returns the possible forms of a mnemonic such as ``ISETP.GE.U32.AND``. Modifiers are in the
    table's order.

    Raises:
        ValueError: There is no form; the message gives the reason.
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
    """The search for the modifiers of one mnemonic. ``furthest`` is the longest prefix that some
    form matched, ``expected`` the possible continuations there.
    """

    def __init__(self, mnemonic: str) -> None:
        self.mnemonic = mnemonic
        self.furthest = 0
        self.expected: set[str] = set()

    def names(self) -> Iterator[int]:
        """Yields the ends of the instruction names that the mnemonic begins with. Names may contain
        dots.
        """
        at = 0
        while at < len(self.mnemonic):
            at = self.mnemonic.find(".", at + 1) % (len(self.mnemonic) + 1)
            if self.mnemonic[:at] in BY_NAME:
                yield at

    def values(self, form: Form, modifiers: tuple[Modifier, ...], at: int) -> dict[str, int] | None:
        """Returns the field values if these modifiers match the mnemonic from ``at`` to its end,
        else None.
        """
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
        """Returns the reason why the mnemonic matches no form."""
        if not self.furthest:
            return f"unknown instruction {self.mnemonic}"
        read, rest = self.mnemonic[: self.furthest], self.mnemonic[self.furthest :]
        expected = f": expected {', '.join(sorted(self.expected))}" if self.expected else ""
        if rest:
            return f"{read} has no modifier {rest} here{expected}"
        return f"{read} lacks a modifier{expected}"


def _spellings(form: Form, modifier: Modifier) -> Iterator[tuple[int, str]]:
    """Yields values and texts of a modifier in this form; of several values without text, the
    default's.
    """
    field = form.fields[modifier.field]
    default = field.get(form.default)
    texts = {text: value for value, text in modifier.texts.items()} | dict(modifier.aliases)
    texts |= {text: value for value, text in modifier.texts.items() if value == default}
    for text, value in texts.items():
        if field.put(form.match, value) & form.mask == form.match:
            yield value, text
