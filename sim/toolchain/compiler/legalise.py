"""Puts constants and numbers that an instruction cannot encode into registers."""

from dataclasses import replace

from .instructions import groups, needs_slot, shape, slot_takes
from .ir import Function, Op, Source, Value, number, real

__all__ = ["legalise"]

_MIRRORED = {".LT": ".GT", ".GT": ".LT", ".LE": ".GE", ".GE": ".LE", ".EQ": ".EQ", ".NE": ".NE"}


def legalise(function: Function) -> None:
    """Makes every operation encodable."""
    for block in function.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "IADD" and op.takes_carry:
                op.sources = [_complement(source) for source in op.sources]
            _exchange(op)
            if op.name in ("FMUL", "FFMA"):
                _sign_product(op)
            _load_sources(op, ops)
            ops.append(op)
        block.ops = ops


def _complement(source: Source) -> Source:
    """A number that is subtracted with a carry: what is added is its complement."""
    if isinstance(source.what, int) and source.negated:
        return number(~source.what)
    return source


def _sign_product(op: Op) -> None:
    """A product's sign stands at its second factor."""
    first, second, *rest = op.sources
    if first.negated:
        op.sources = [first.negate(), real(second.negate()), *rest]


def _exchange(op: Op) -> None:
    """Brings the one source that is no register to where it can stand."""
    if len(op.sources) < 2 or not needs_slot(op, 0, op.sources[0]) or needs_slot(op, 1, op.sources[1]):
        return
    first, second, *rest = op.sources
    if shape(op).commutes:
        op.sources = [second, first, *rest]
    elif op.name in ("ISETP", "ISET", "FSETP", "FSET") and ".X" not in op.mods and op.mods[:3] in _MIRRORED:
        op.sources = [second, first, *rest]
        op.mods = _MIRRORED[op.mods[:3]] + op.mods[3:]
    elif op.name == "SEL":
        op.sources = [second, first, rest[0].invert()]


def _load_sources(op: Op, before: list[Op]) -> None:
    together = groups(op)[1]
    free = True
    for index, source in enumerate(op.sources):
        if source.value is not None or op.name == "MOV":
            continue
        group = next((group for group in together if index in group), None)
        if group is not None:
            if any(op.sources[at].what != 0 for at in group):
                _load(op, index, before)
        elif not slot_takes(op, index, source):
            _load(op, index, before)
        elif needs_slot(op, index, source) and op.name != "SHFL":
            if free:
                free = False
            else:
                _load(op, index, before)


def _load(op: Op, index: int, before: list[Op]) -> None:
    value = Value("n")
    source = op.sources[index]
    whole = None if shape(op).exact else source.number
    before.append(Op("MOV", [value], [Source(whole if whole is not None else source.what)], line=op.line,
                     column=op.column))
    op.sources[index] = Source(value) if whole is not None else replace(source, what=value)
