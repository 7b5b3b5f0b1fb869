"""Common subexpression elimination: an operation that dominates an equal one is not done again."""

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.ir import COPY_PREDICATE, MOVE, Function, Op, Source, Value

from .constant_propagation import copied_source

__all__ = ["share_subexpressions"]


def share_subexpressions(function: Function, known: Definitions) -> bool:
    """An operation that has been done before, with the same sources, is not done again."""
    seen: dict[tuple, list[Op]] = {}
    changed = False
    for block in function.blocks:
        ops: list[Op] = []
        for index, op in enumerate(block.ops):
            key = _key(op, known)
            earlier = (
                next(
                    (
                        other
                        for other in seen.get(key, [])
                        if known.places.dominates(other, block, index)
                    ),
                    None,
                )
                if key is not None
                else None
            )
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
        return Op(
            COPY_PREDICATE,
            [result, None],
            [Source(value), Source(1), Source(1)],
            line=op.line,
            column=op.column,
        )
    return Op(MOVE, [result], [Source(value)], line=op.line, column=op.column)


def _key(op: Op, known: Definitions) -> tuple | None:
    if (
        op.opcode is MOVE
        or op.guard is not None
        or op.takes_carry
        or not op.is_pure
        or copied_source(op) is not None
    ):
        return None
    for value in op.results:
        if value is not None and value not in known.only:
            return None
    for source in op.sources:
        if not known.steady(source, op):
            return None
    return op.opcode, tuple(op.sources), tuple(value is None for value in op.results)
