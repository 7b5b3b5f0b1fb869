"""Rules of the instruction table as truth tables over the few fields that they read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """A condition on a word: its fields, concatenated, have one of some values.

    Attributes
    ----------
    fields : tuple of Field
        The first field gives the lowest bits.
    codes : frozenset of int
        The values of the concatenation for which the condition holds.
    """

    fields: tuple[Field, ...]
    codes: frozenset[int]

    def of(self, word: Value) -> Value:
        """Whether the condition holds for a word. Compares with the codes, or with all other values
        if these are fewer."""
        width = sum(field.width for field in self.fields)
        others = frozenset(range(1 << width)) - self.codes
        if not others or not self.codes:
            return Const(not others, 1)
        bits = Cat(field_of(word, field).as_unsigned() for field in self.fields)
        if len(self.codes) <= len(others):
            return bits.matches(*self.codes)
        return ~bits.matches(*others)


class _RecordedValues(Mapping[str, int]):
    """Field values of a word that record which unknown fields were read. These have the values of
    the form's default word."""

    def __init__(self, form: Form, known: Mapping[str, int]) -> None:
        self._form = form
        self._known = known
        self.unknown: list[str] = []

    def __getitem__(self, name: str) -> int:
        if name not in self._form.fields:
            raise KeyError(name)
        if name in self._known:
            return self._known[name]
        self.unknown.append(name)
        return self._form.fields[name].get(self._form.default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._form.fields)

    def __len__(self) -> int:
        return len(self._form.fields)


class Outcomes(Generic[T]):
    """A function of a form's field values, as a truth table.

    The function is called with all combinations of values of the fields that it reads. Calling the
    function shows which fields these are: when it reads a field that is not in the table yet, the
    field is added, and tabulation starts again.

    Parameters
    ----------
    form : Form
    function : Callable[[Values], T]
        It reads few bits: their number is the logarithm of the table's size.
    """

    def __init__(self, form: Form, function: Callable[[Values], T]) -> None:
        self._form = form
        self._names: tuple[str, ...] = ()
        table = None
        while table is None:
            table = self._tabulate(function)
        self._table = table

    def _tabulate(self, function: Callable[[Values], T]) -> dict[int, T] | None:
        """The outcomes, by the fields' bits. None if the function has read one more field."""
        fields = [self._form.fields[name] for name in self._names]
        table = {}
        for values in product(*(field.bounds for field in fields)):
            known = dict(zip(self._names, values, strict=True))
            recorded = _RecordedValues(self._form, known)
            outcome = function(recorded)
            if recorded.unknown:
                self._names = (*self._names, recorded.unknown[0])
                return None
            table[_encode(fields, values)] = outcome
        return table

    def __iter__(self) -> Iterator[T]:
        """All outcomes."""
        return iter(self._table.values())

    def when(self, test: Callable[[T], bool]) -> Condition:
        """The condition under which the outcome for a word of this form passes the test."""
        codes = frozenset(code for code, outcome in self._table.items() if test(outcome))
        return Condition(tuple(self._form.fields[name] for name in self._names), codes)


def _encode(fields: Iterable[Field], values: Iterable[int]) -> int:
    """Field values as they are encoded, concatenated."""
    code = 0
    position = 0
    for field, value in zip(fields, values, strict=True):
        code |= (value // field.scale & (1 << field.width) - 1) << position
        position += field.width
    return code
