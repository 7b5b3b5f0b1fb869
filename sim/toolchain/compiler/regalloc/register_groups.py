"""Copies around operations that need consecutive registers, so that each has fresh values for
them.
"""

from sim.toolchain.compiler.ir import MOVE, Function, Op, Source, Value

__all__ = ["separate"]


def separate(function: Function) -> list[list[Value]]:
    """Adds the copies. Returns the lists of values that must be consecutive, in order."""
    together: list[list[Value]] = []
    for block in function.blocks:
        ops: list[Op] = []
        for op in block.ops:
            results, sources = op.shape.result_groups, op.shape.source_groups
            sources = [
                group for group in sources if any(op.sources[at].value is not None for at in group)
            ]
            together += [_fresh_sources(op, group, ops) for group in sources]
            ops.append(op)
            together += [_fresh_results(op, group, ops) for group in results]
        block.ops = ops
    return together


def _fresh_sources(op: Op, group: list[int], before: list[Op]) -> list[Value]:
    fresh = []
    for at in group:
        value = Value("g")
        before.append(
            Op(
                MOVE,
                [value],
                [Source(op.sources[at].operand)],
                guard=None,
                line=op.line,
                column=op.column,
            )
        )
        op.sources[at] = op.sources[at].with_operand(value)
        fresh.append(value)
    return fresh


def _fresh_results(op: Op, group: list[int], after: list[Op]) -> list[Value]:
    fresh = []
    for at in group:
        value, old = Value("g"), op.results[at]
        op.results[at] = value
        if old is not None:
            after.append(
                Op(
                    MOVE,
                    [old],
                    [Source(value)],
                    guard=op.guard,
                    fresh=op.fresh,
                    line=op.line,
                    column=op.column,
                )
            )
        fresh.append(value)
    if op.guard is not None:
        op.fresh = True
    return fresh
