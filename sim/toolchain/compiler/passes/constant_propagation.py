"""Copy and constant propagation: replaces uses of a copy by the copied value or number."""

from rtl.isa.kinds import ProductAddend
from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.ir import (
    COPY_PREDICATE,
    MOVE,
    Block,
    Function,
    Op,
    Source,
    Value,
    number,
    real,
)
from sim.toolchain.compiler.operands import fits

__all__ = ["copied_source", "propagate"]

_COPIES = (MOVE, COPY_PREDICATE)


def copied_source(op: Op) -> Source | None:
    """Returns the source that an operation copies to its only result, or None if it is no copy."""
    if op.opcode not in _COPIES or op.sets_carry or op.takes_carry or not op.replaces:
        return None
    if op.opcode is MOVE:
        return op.sources[0]
    if op.results[1] is None and all(
        source.operand == 1 and not source.inverted for source in op.sources[1:]
    ):
        return op.sources[0]
    return None


def propagate(function: Function, known: Definitions) -> bool:
    """Replaces uses of copies by the copied source. Returns whether anything changed."""
    changed = False
    copies = {value: op for value, op in known.only.items() if op.opcode in _COPIES}
    if not copies:
        return False

    def better(
        source: Source, block: Block, index: int, op_at: Op | None = None, at: int = 0
    ) -> Source | None:
        op = copies.get(source.operand) if isinstance(source.operand, Value) else None
        if op is None:
            return None
        copied = copied_source(op)
        if copied is None or op.results[0] is not source.operand:
            return None
        if copied.value is not None:
            if copied.value.fixed is not None and copied.value is not function.stack:
                return None
            if not known.dominators.dominates(op, block, index) or not known.same(
                copied, op, block, index
            ):
                return None
        return _compose(op_at, at, source, copied)

    for block in function.blocks:
        for index, op in enumerate(block.ops):
            for at, source in enumerate(op.sources):
                if source.operand not in copies:
                    continue
                new = better(source, block, index, op, at)
                if new is None:
                    continue
                if new != source and (new.value is not None or fits(op, at, new)):
                    op.sources[at] = new
                    changed = True
                elif new.value is None and _fits_exchanged(op, at, new):
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
    """Returns a source of an operation with ``inner`` substituted for its operand, or None if they
    cannot be combined.
    """
    if inner.inverted and _is_predicate(outer):
        return Source(inner.operand, inverted=outer.inverted != inner.inverted)
    if not inner.plain:
        return None
    if isinstance(inner.operand, int) and op is not None and op.name == "XMAD" and at < 2:
        # A 16-bit immediate holds the selected half, unless the instruction reads the other half
        # too.
        if op.fields["merge"] or op.fields["addend"] is ProductAddend.CBCC:
            return None
        return number(inner.operand >> 16 if outer.part else inner.operand & 0xFFFF)
    if isinstance(inner.operand, int) and op is not None and (mask := _mask(op, at)) is not None:
        return number(inner.operand & mask)
    new = outer.with_operand(inner.operand)
    if op is not None and op.opcode.single and not _is_predicate(outer):
        return real(new)
    if op is not None and (
        op.name == "ADD64" or op.sets_carry or op.takes_carry or op.opcode.exact
    ):
        # The modifier negates the pair, or the operand of the carry chain.
        return new
    return number(new.number) if new.number is not None and not _is_predicate(outer) else new


def _mask(op: Op, at: int) -> int | None:
    """Returns the bits of a number that an operation reads as this source, or None if it
    reads all.
    """
    role = op.shape.roles.get(at)
    return op.opcode.mask(role.key) if role is not None else None


def _is_predicate(source: Source) -> bool:
    return source.value is not None and source.value.predicate


def _fits_exchanged(op: Op, at: int, new: Source) -> bool:
    """Whether the number fits if the operation's first two sources are exchanged."""
    if at > 1 or not op.opcode.commutes or len(op.sources) < 2 or op.sources[1 - at].value is None:
        return False
    trial = Op(op.opcode, op.results, [*op.sources])
    trial.sources[0], trial.sources[1] = trial.sources[1], trial.sources[0]
    return fits(trial, 1 - at, new)
