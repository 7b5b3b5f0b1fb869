"""The table of all instructions, and how a word is looked up in it."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from .control import CONTROL
from .conversion import CONVERSION
from .double import DOUBLE
from .floating import FLOATING
from .integer import INTEGER
from .memory import MEMORY
from .syntax import Form
from .video import VIDEO

__all__ = ["BY_NAME", "FORMS", "find"]

FORMS: tuple[Form, ...] = (*CONTROL, *INTEGER, *VIDEO, *FLOATING, *DOUBLE, *CONVERSION, *MEMORY)
"""Every form of every instruction. Where two match a word, the one with more fixed bits is used."""


def _grouped_by_mask() -> list[tuple[int, dict[int, Form]]]:
    groups: dict[int, dict[int, Form]] = {}
    for form in FORMS:
        if form.match & ~form.mask or form.match in groups.setdefault(form.mask, {}):
            raise ValueError(
                f"{form.name}:{form.variant}: match {form.match:#x} outside its mask or taken")
        groups[form.mask][form.match] = form
    return sorted(groups.items(), key=lambda group: -group[0].bit_count())


def _grouped_by_name() -> Mapping[str, tuple[Form, ...]]:
    names: dict[str, tuple[Form, ...]] = {}
    for form in FORMS:
        names[form.name] = (*names.get(form.name, ()), form)
    return MappingProxyType(names)


_GROUPS = _grouped_by_mask()

BY_NAME: Mapping[str, tuple[Form, ...]] = _grouped_by_name()
"""The forms of each instruction, by its name."""


@lru_cache(1 << 16)
def find(word: int) -> Form | None:
    """The form that ``word`` is, or None when the table has no such instruction."""
    for mask, forms in _GROUPS:
        if (form := forms.get(word & mask)) is not None:
            return form
    return None
