"""What a rule of the instruction table comes to, for every value of the few fields that it looks at."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Generic, TypeVar

from amaranth.hdl import Cat, Const, Value

from rtl.isa.syntax import Form, Values
from rtl.word import field_of

__all__ = ["Outcomes"]

T = TypeVar("T")


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

    def holds(self, word: Value, test: Callable[[T], bool]) -> Value:
        """Whether the word, which has the form, has an outcome that passes the test."""
        bits = Cat(field_of(word, self._form.fields[name]).as_unsigned() for name in self._names)
        passing = [code for code, outcome in self._found.items() if test(outcome)]
        failing = [code for code, outcome in self._found.items() if not test(outcome)]
        if not passing or not failing:
            return Const(bool(passing), 1)
        return _among(bits, passing) if len(passing) <= len(failing) else ~_among(bits, failing)


def _among(bits: Value, codes: Iterable[int]) -> Value:
    return bits.matches(*codes)
