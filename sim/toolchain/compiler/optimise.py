"""Simple optimisations on single values: copies and numbers where they are used, equal operations once, dead ones
never.

All of them rest on values that are defined once, on every way to their uses. If a value and what it is made of are
such, then wherever the value may be used what it is made of has not changed.
"""

from collections.abc import Callable, Mapping
from functools import cached_property

from rtl.isa.kinds import Boolean, Logic, ProductAddend

from .cleanup import drop_unreachable
from .dataflow import Liveness, ending_reads
from .definitions import Definitions
from .dominance import Dominators
from .ir import ADD, COPY_PREDICATE, MOVE, PT, RZ, WORD, Block, Function, Op, Source, Value, number, real
from .opcodes import RELATIONS, Opcode, opcode
from .operands import fits
from .patterns import combine

__all__ = ["optimise"]


def optimise(function: Function) -> None:
    """Repeats all steps until none of them finds anything to change."""
    analysis = _Analysis(function)
    unchanged = 0
    for step in (_fold_numbers, _propagate, _share, _combine, _remove_dead) * _ROUNDS:
        if step(analysis):
            # Only guards and branches that numbers decide change the ways between blocks.
            analysis = _Analysis(function, analysis.dominators if step is not _fold_numbers else None)
            unchanged = 0
            continue
        unchanged += 1
        if unchanged == _STEPS:
            return


_ROUNDS = 12
_STEPS = 5


class _Analysis:
    """A function, and what is known of it as long as it does not change."""

    def __init__(self, function: Function, dominators: Dominators | None = None) -> None:
        self.function = function
        self._dominators = dominators

    @property
    def dominators(self) -> Dominators | None:
        """The dominator tree, if it is known already."""
        return self.definitions.places.blocks if "definitions" in vars(self) else self._dominators

    @cached_property
    def definitions(self) -> Definitions:
        """Its values that are defined once."""
        return Definitions(self.function, self._dominators)


def _combine(analysis: _Analysis) -> bool:
    """Operations that one instruction can do together."""
    return combine(analysis.function, analysis.definitions)


# Copies

_COPIES = (MOVE, COPY_PREDICATE)


def _copied(op: Op) -> Source | None:
    """What an operation copies into its one result."""
    if op.opcode not in _COPIES or op.sets_carry or op.takes_carry or not op.replaces:
        return None
    if op.opcode is MOVE:
        return op.sources[0]
    if op.results[1] is None and all(
            source.what == 1 and not source.inverted for source in op.sources[1:]):
        return op.sources[0]
    return None


def _propagate(analysis: _Analysis) -> bool:
    """Uses of copies become uses of what is copied."""
    function, known = analysis.function, analysis.definitions
    changed = False

    def better(source: Source, block: Block, index: int, op_at: Op | None = None, at: int = 0) -> Source | None:
        op = known.only.get(source.what) if isinstance(source.what, Value) else None
        if op is None or op.opcode not in _COPIES:
            return None
        copied = _copied(op)
        if copied is None or op.results[0] is not source.what:
            return None
        if copied.value is not None:
            if copied.value.fixed is not None and copied.value is not function.stack:
                return None
            if not known.places.dominates(op, block, index) or not known.same(copied, op, block, index):
                return None
        return _compose(op_at, at, source, copied)

    for block in function.blocks:
        for index, op in enumerate(block.ops):
            for at, source in enumerate(op.sources):
                new = better(source, block, index, op, at)
                if new is not None and new != source and (new.value is not None or fits(op, at, new)):
                    op.sources[at] = new
                    changed = True
                elif new is not None and new.value is None and _fits_exchanged(op, at, new):
                    op.sources[0], op.sources[1] = op.sources[1], op.sources[0]
                    op.sources[1 - at] = new
                    changed = True
            if op.guard is not None:
                new = better(op.guard, block, index)
                if new is not None:
                    op.guard = new
                    changed = True
        if block.condition is not None:
            new = better(block.condition, block, len(block.ops))
            if new is not None:
                block.condition = new
                changed = True
    return changed


def _compose(op: Op | None, at: int, outer: Source, inner: Source) -> Source | None:
    """A source of an operation with another one in its place."""
    if inner.inverted and _is_predicate(outer):
        return Source(inner.what, inverted=outer.inverted != inner.inverted)
    if not inner.plain:
        return None
    if isinstance(inner.what, int) and op is not None and op.name == "XMAD" and at < 2:
        # The instruction has room for the half that it takes, unless it wants the other one, too.
        if op.fields["merge"] or op.fields["addend"] is ProductAddend.CBCC:
            return None
        return number(inner.what >> 16 if outer.part else inner.what & 0xFFFF)
    if isinstance(inner.what, int) and op is not None and (mask := _mask(op, at)) is not None:
        return number(inner.what & mask)
    new = outer.of(inner.what)
    if op is not None and op.opcode.single and not _is_predicate(outer):
        return real(new)
    if op is not None and (op.name == "ADD64" or op.sets_carry or op.takes_carry or op.opcode.exact):
        # What is negated is the pair, or what the carry goes with.
        return new
    return number(new.number) if new.number is not None and not _is_predicate(outer) else new


def _mask(op: Op, at: int) -> int | None:
    """The bits of a number that an operation reads as a source, if not all."""
    role = op.shape.roles.get(at)
    return op.opcode.mask(role.key) if role is not None else None


def _is_predicate(source: Source) -> bool:
    return source.value is not None and source.value.predicate


def _fits_exchanged(op: Op, at: int, new: Source) -> bool:
    """Whether the operation can take it as its other source."""
    if at > 1 or not op.opcode.commutes or len(op.sources) < 2 or op.sources[1 - at].value is None:
        return False
    trial = Op(op.opcode, op.results, [*op.sources])
    trial.sources[0], trial.sources[1] = trial.sources[1], trial.sources[0]
    return fits(trial, 1 - at, new)


# Numbers

_LOGIC = {logic: opcode("LOP", (("operation", logic),)) for logic in Logic}
_SHIFT_LEFT, _SHIFT_RIGHT = opcode("SHL"), opcode("SHR")
_SHIFT_RIGHT_UNSIGNED = opcode("SHR", (("signed", False),))
_FOLDS: Mapping[Opcode, Callable[[int, int], int]] = {
    _LOGIC[Logic.AND]: lambda x, y: x & y, _LOGIC[Logic.OR]: lambda x, y: x | y,
    _LOGIC[Logic.XOR]: lambda x, y: x ^ y, _SHIFT_LEFT: lambda x, y: x << min(y, 32),
    _SHIFT_RIGHT_UNSIGNED: lambda x, y: x >> min(y, 32),
    _SHIFT_RIGHT: lambda x, y: (x - ((x >> 31) << 32)) >> min(y, 32), ADD: lambda x, y: x + y,
    _LOGIC[Logic.PASS_B]: lambda x, y: y}


def _fold_numbers(analysis: _Analysis) -> bool:
    """Operations on numbers alone, and such as a number makes simple."""
    function = analysis.function
    changed = _settle_guards(function)
    for op in function.ops():
        if op.sets_carry or op.takes_carry:
            continue
        if op.name == "ISETP":
            changed |= _decide(op)
            continue
        new = _folded(op)
        if new is not None:
            op.opcode, op.sources = MOVE, [new]
            changed = True
    return changed


def _settle_guards(function: Function) -> bool:
    """Guards and branches that are always, or never, taken."""
    changed = False
    for block in function.blocks:
        kept = [op for op in block.ops if op.guard is None or op.guard.value is not None or _true(op.guard)]
        changed |= len(kept) != len(block.ops)
        block.ops = kept
        for op in kept:
            if op.guard is not None and op.guard.value is None:
                op.guard = None
                changed = True
        if block.ending == "branch" and block.condition is not None and block.condition.value is None:
            block.successors = [block.successors[0 if _true(block.condition) else 1]]
            block.ending, block.condition = "goto", None
            changed = True
    if changed:
        drop_unreachable(function)
    return changed


def _true(source: Source) -> bool:
    return bool(source.what) != source.inverted


def _decide(op: Op) -> bool:
    """A comparison of numbers."""
    x, y = (source.number for source in op.sources[:2])
    if x is None or y is None or op.results[1] is not None or op.fields["combine"] is not Boolean.AND:
        return False
    signed = bool(op.fields["signed"])
    x, y = (value - (value >> 31 << 32) if signed else value for value in (x, y))
    holds = RELATIONS[op.fields["compare"]](x, y)
    op.opcode, op.sources = COPY_PREDICATE, [op.sources[2] if holds else Source(0), PT, PT]
    return True


def _folded(op: Op) -> Source | None:
    fold = _FOLDS.get(op.opcode) if len(op.results) == 1 else None
    if fold is not None:
        x, y = (source.number for source in op.sources)
        if x is not None and y is not None:
            return number(fold(x, y))
        return _simplified(op.opcode, op.sources, x, y)
    if op.name == "SEL" and op.sources[2].value is None:
        chosen = op.sources[0 if _true(op.sources[2]) else 1]
        return chosen if chosen.plain else None
    if op.name == "MAD" and (op.sources[0].number == 0 or op.sources[1].number == 0) and op.sources[2].plain:
        return op.sources[2]
    return None


def _simplified(code: Opcode, sources: list[Source], x: int | None, y: int | None) -> Source | None:
    """The operand that is the result, when the other one is a number that does nothing."""
    for own, other in ((x, sources[1]), (y, sources[0])):
        if own == 0 and code in (ADD, _LOGIC[Logic.OR], _LOGIC[Logic.XOR]) and other.plain:
            return other
        if own == WORD and code is _LOGIC[Logic.AND] and other.plain:
            return other
        if own == 0 and code is _LOGIC[Logic.AND]:
            return RZ
    if code in (_SHIFT_LEFT, _SHIFT_RIGHT, _SHIFT_RIGHT_UNSIGNED) and y == 0 and sources[0].plain:
        return sources[0]
    if code in (_SHIFT_LEFT, _SHIFT_RIGHT_UNSIGNED) and x == 0:
        return RZ
    return None


# Equal operations

def _share(analysis: _Analysis) -> bool:
    """An operation that has been done before, with the same sources, is not done again."""
    function, known = analysis.function, analysis.definitions
    seen: dict[tuple, list[Op]] = {}
    changed = False
    for block in function.blocks:
        ops: list[Op] = []
        for index, op in enumerate(block.ops):
            key = _key(op, known)
            earlier = next((other for other in seen.get(key, []) if known.places.dominates(other, block, index)),
                           None) if key is not None else None
            if earlier is None:
                if key is not None:
                    seen.setdefault(key, []).append(op)
                ops.append(op)
                continue
            changed = True
            for result, value in zip(op.results, earlier.results, strict=True):
                if result is not None:
                    ops.append(_copy(result, value, op) if value is not None else op)
        block.ops = ops
    return changed


def _copy(result: Value, value: Value, op: Op) -> Op:
    if result.predicate:
        return Op(COPY_PREDICATE, [result, None], [Source(value), Source(1), Source(1)], line=op.line,
                  column=op.column)
    return Op(MOVE, [result], [Source(value)], line=op.line, column=op.column)


def _key(op: Op, known: Definitions) -> tuple | None:
    if op.opcode is MOVE or op.guard is not None or op.takes_carry or not op.is_pure or _copied(op) is not None:
        return None
    for value in op.results:
        if value is not None and value not in known.only:
            return None
    for source in op.sources:
        if not known.steady(source, op):
            return None
    return op.opcode, tuple(op.sources), tuple(value is None for value in op.results)


# Dead operations

def _remove_dead(analysis: _Analysis) -> bool:
    """Operations whose results nobody uses go."""
    function = analysis.function
    live = Liveness(function)
    changed = False
    for block in function.blocks:
        kept: list[Op] = []
        alive = live.live_out[block]
        alive |= live.mask(ending_reads(function, block))
        carry_wanted = False
        for op, (read, written) in zip(reversed(block.ops), reversed(live.effects[block]), strict=True):
            needed = alive & written or not (op.opcode.needless or op.sets_carry) or (op.sets_carry and carry_wanted)
            if not needed:
                changed = True
                continue
            if written & ~alive and op.opcode.may_drop_results:
                op.results = [value if value is not None and alive & live.bit[value] else None for value in op.results]
                written &= alive
                changed = True
            if op.sets_carry and not carry_wanted:
                op.sets_carry = False
                changed = True
            if op.sets_carry:
                carry_wanted = False
            if op.takes_carry:
                carry_wanted = True
            kept.append(op)
            alive = alive & ~written if op.replaces else alive | written
            alive |= read
        block.ops = kept[::-1]
    return changed
