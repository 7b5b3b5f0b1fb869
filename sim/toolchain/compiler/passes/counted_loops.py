"""Induction variables of loops of one block, for both kinds of unrolling: the counter and its
initial value.
"""

from dataclasses import replace

from sim.toolchain.compiler.ir import Block, Op, Source, Value

__all__ = ["copied", "first_source", "only_definition"]

_MOST_COPIES = 64
"""The most copies and blocks that are searched for a counter's initial value."""


def copied(op: Op) -> Op:
    """Returns a copy of an operation."""
    return replace(op, results=list(op.results), sources=list(op.sources))


def only_definition(block: Block, value: Value) -> Op | None:
    """Returns the only operation of a block that writes a value, or None if there are several or it
    is guarded.
    """
    found = [op for op in block.ops if value in op.results]
    return found[0] if len(found) == 1 and found[0].guard is None else None


def first_source(value: Value, block: Block, before: dict[Block, list[Block]]) -> Source | None:
    """Returns the constant that copies assign to a value before a block's end, or None."""
    ops = block.ops
    for _ in range(_MOST_COPIES):
        at = next((at for at in range(len(ops) - 1, -1, -1) if value in ops[at].results), None)
        if at is None:
            if len(before[block]) != 1:
                return None
            block = before[block][0]
            ops = block.ops
            continue
        last = ops[at]
        if last.name != "MOV" or last.guard is not None or not last.sources[0].plain:
            return None
        if last.sources[0].value is None:
            return last.sources[0]
        value, ops = last.sources[0].value, ops[:at]
    return None
