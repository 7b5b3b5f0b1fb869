"""What a rule of the instruction table comes to, for every value of the few fields that it looks at."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Generic, TypeVar

from amaranth.hdl import Cat, Const, Value

from rtl.isa.syntax import Field, Form, Values
from rtl.word import field_of

__all__ = ["Condition", "Outcomes"]

T = TypeVar("T")


@dataclass(frozen=True)
class Condition:
    """Fields of a word, joined, have one of these values."""

    fields: tuple[Field, ...]
    codes: frozenset[int]

    def of(self, word: Value) -> Value:
        """Whether it holds."""
        width = sum(field.width for field in self.fields)
        others = frozenset(range(1 << width)) - self.codes
        if not others or not self.codes:
            return Const(not others, 1)
        bits = Cat(field_of(word, field).as_unsigned() for field in self.fields)
        return bits.matches(*self.codes) if len(self.codes) <= len(others) else ~bits.matches(*others)


class _Seen(Mapping[str, int]):
    """Field values that note which fields of the form were looked at."""

    def __init__(self, form: Form, known: Mapping[str, int]) -> None:
        self._form, self._known = form, known
        self.missing: list[str] = []

    def __getitem__(self, name: str) -> int:
        if name not in self._form.fields:
            raise KeyError(name)
        if name not in self._known:
            self.missing.append(name)
        return self._known.get(name, self._form.fields[name].get(self._form.default))

    def __iter__(self) -> Iterator[str]:
        return iter(self._form.fields)

    def __len__(self) -> int:
        return len(self._form.fields)


class Outcomes(Generic[T]):
    """A function of a form's field values as a table.

    Parameters
    ----------
    form : Form
    function : Callable[[Values], T]
        Looks at few bits.
    """

    def __init__(self, form: Form, function: Callable[[Values], T]) -> None:
        self._form = form
        self._names: tuple[str, ...] = ()
        while (found := self._tabulate(function)) is None:
            pass
        self._found = found

    def _tabulate(self, function: Callable[[Values], T]) -> dict[int, T] | None:
        """The outcomes by the fields' bits; None when the function looked at one more field."""
        fields = [self._form.fields[name] for name in self._names]
        found = {}
        for values in product(*(field.bounds for field in fields)):
            seen = _Seen(self._form, dict(zip(self._names, values, strict=True)))
            outcome = function(seen)
            if seen.missing:
                self._names = (*self._names, seen.missing[0])
                return None
            code = position = 0
            for field, value in zip(fields, values, strict=True):
                code |= (value // field.scale & (1 << field.width) - 1) << position
                position += field.width
            found[code] = outcome
        return found

    def __iter__(self) -> Iterator[T]:
        """All outcomes."""
        return iter(self._found.values())

    def when(self, test: Callable[[T], bool]) -> Condition:
        """What holds of a word of this form, if its outcome passes the test."""
        codes = frozenset(code for code, outcome in self._found.items() if test(outcome))
        return Condition(tuple(self._form.fields[name] for name in self._names), codes)
