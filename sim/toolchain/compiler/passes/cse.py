"""Common subexpression elimination: replaces an operation by the result of an equal one that
dominates it.
"""

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.ir import COPY_PREDICATE, MOVE, Function, Op, Source, Value

from .constant_propagation import copied_source

__all__ = ["share_subexpressions"]


def share_subexpressions(function: Function, known: Definitions) -> bool:
    """Replaces operations by the results of dominating equal ones. Returns whether anything
    changed.
    """
    seen: dict[tuple, list[Op]] = {}
    changed = False
    for block in function.blocks:
        ops: list[Op] = []
        for index, op in enumerate(block.ops):
            if not _may_be_shared(op):
                ops.append(op)
                continue
            equal = seen.setdefault(_key(op), [])
            # Few operations have an equal one: only for these the sources are checked.
            earlier = (
                next(
                    (
                        other
                        for other in equal
                        if known.dominators.dominates(other, block, index) and _stays(other, known)
                    ),
                    None,
                )
                if equal and _stays(op, known)
                else None
            )
            if earlier is None:
                equal.append(op)
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
        return Op(
            COPY_PREDICATE,
            [result, None],
            [Source(value), Source(1), Source(1)],
            line=op.line,
            column=op.column,
        )
    return Op(MOVE, [result], [Source(value)], line=op.line, column=op.column)


def _may_be_shared(op: Op) -> bool:
    """Whether an operation is a pure function of its sources, and no copy."""
    return (
        op.opcode is not MOVE
        and op.guard is None
        and not op.takes_carry
        and op.is_pure
        and copied_source(op) is None
    )


def _key(op: Op) -> tuple:
    """Returns the key that equal operations share."""
    return op.opcode, tuple(op.sources), tuple(value is None for value in op.results)


def _stays(op: Op, known: Definitions) -> bool:
    """Whether an operation's results and sources have the same values at all uses of its
    results.
    """
    return all(value is None or value in known.only for value in op.results) and all(
        known.steady(source, op) for source in op.sources
    )
