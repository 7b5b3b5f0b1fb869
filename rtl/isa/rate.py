"""The instructions of the lanes that have a quarter of the others' rate (ours): hardware, compiler
and models all read this list.

Of four lanes one is full. Instructions that only a full lane can execute take a warp four times as
many cycles: compiled code needs them less often, and in every lane they would take more than half
of the lane's area.
"""

from collections.abc import Callable

from .kinds import HalfSelect, ProductAddend, SumShift
from .syntax import PT, Form, Values
from .table import find
from .video import VIDEO

__all__ = ["quarter_rate", "quarter_rules"]

_NAMES = frozenset({
    "IMUL",
    "IMUL32I",
    "IMAD",
    "IMAD32I",
    "PRMT",
    "BFE",
    "BFI",
    "SHF.L",
    "SHF.R",
    "ICMP",
    "CSET",
    "CSETP",
    "P2R",
    "R2P",
}) | {form.name for form in VIDEO}
"""Products of words, permutations, fields, pairs, signs, tests of CC, packed predicates, video
instructions."""
_HALVES = ("half_a", "half_b", "half_c")
_NEGATIONS = ("negate_a", "negate_b", "negate_c")


def _other_than(name: str, usual: int) -> Callable[[Values], bool]:
    return lambda values: values[name] != usual


def quarter_rules(form: Form) -> tuple[Callable[[Values], bool], ...]:
    """Rules for the field values of a form: if one holds, only a full lane can execute the
    instruction. Each rule reads few fields. By these rules an IADD3 needs a full lane if it uses
    halves, shifts, or negates all three operands; an XMAD, if it corrects a product for signs
    (CSFU); a LEA.HI, if it negates its operand or writes a predicate."""
    if form.name in _NAMES:
        return (lambda _values: True,)
    if form.name == "XMAD":
        return (lambda values: values["addend"] == ProductAddend.CSFU.value,)
    if form.name == "LEA.HI":
        return _other_than("negate_a", 0), _other_than("Pd", PT)
    if form.name != "IADD3":
        return ()
    usual = {"shift": SumShift.NONE.value, **dict.fromkeys(_HALVES, HalfSelect.WORD.value)}
    return (lambda values: all(values[name] for name in _NEGATIONS),
            *(_other_than(name, code) for name, code in usual.items() if name in form.fields))


def quarter_rate(word: int) -> bool:
    """Whether only full lanes can execute the instruction, at a quarter of the rate."""
    form = find(word)
    return form is not None and any(rule(form.values(word)) for rule in quarter_rules(form))
