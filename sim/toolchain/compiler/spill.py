"""Values without a register: in the frame, or a predicate in a register."""

from collections.abc import Callable
from dataclasses import replace

from .dataflow import ending_reads
from .ir import PT, RZ, Function, Op, Source, Value
from .layout import aligned
from .optimise import Definitions

__all__ = ["spill", "spill_predicate"]


def spill(function: Function, value: Value, kept: set[Value]) -> None:
    """Keeps a value in the frame: stored behind each definition, loaded before each use."""
    offset = aligned(function.frame, 4)
    function.frame = offset + 4
    stack = Source(function.stack)
    _rewrite(function, value, kept,
             lambda copy: Op("LDL", [copy], [stack], offset=offset),
             lambda copy: Op("STL", [], [stack, Source(copy)], offset=offset))


def spill_predicate(function: Function, value: Value, kept: set[Value], across_calls: bool) -> None:
    """Compares again before each use if that gives the same, else keeps the predicate in a register, all ones or zero.
    What is kept ``across_calls`` alone serves all uses from one call to the next.
    """
    known = Definitions(function)
    made = known.only.get(value)
    if made is not None and _repeatable(function, value, made, known):
        _rewrite(function, value, kept, lambda copy: _repeated(made, value, copy), None, across_calls)
        made.results = [None if result is value else result for result in made.results]
        if not any(made.results):
            block, _ = known.places.at[made]
            block.ops.remove(made)
        return
    holder = Value(f"{value.name}.kept")
    _rewrite(function, value, kept,
             lambda copy: Op("ISETP", [copy, None], [Source(holder), RZ, PT], ".NE.AND"),
             lambda copy: Op("PSET", [holder], [Source(copy), PT, PT], ".AND.AND"), across_calls)


def _repeatable(function: Function, value: Value, made: Op, known: Definitions) -> bool:
    """Whether a comparison gives the same wherever its predicate is used."""
    if made.name != "ISETP" or made.takes_carry or made.guard is not None or made.sources[2].value is not None:
        return False
    for block in function.blocks:
        uses = [index for index, op in enumerate(block.ops) if value in op.reads()]
        if value in ending_reads(function, block):
            uses.append(len(block.ops))
        for index in uses:
            if not known.places.dominates(made, block, index):
                return False
            if not all(known.same(source, made, block, index) for source in made.sources):
                return False
    return True


def _repeated(made: Op, value: Value, copy: Value) -> Op:
    return replace(made, results=[copy if result is value else None for result in made.results],
                   sources=list(made.sources))


def _rewrite(function: Function, value: Value, kept: set[Value], load: Callable[[Value], Op],
             store: Callable[[Value], Op] | None, shared: bool = False) -> None:
    """Gives every use and definition a copy of its own, or with ``shared`` one for all between two calls."""
    for block in function.blocks:
        ops: list[Op] = []
        current: Value | None = None
        for op in block.ops:
            if op.clobbers:
                current = None
            reads, writes = value in op.reads(), value in op.writes()
            if not reads and (not writes or store is None):
                ops.append(op)
                continue
            copy = current if current is not None else Value(f"{value.name}.", value.predicate)
            if (reads or not op.replaces) and current is None:
                ops.append(load(copy))
            if shared:
                current = copy
            else:
                kept.add(copy)
            op.sources = [replace(source, what=copy) if source.what is value else source for source in op.sources]
            if op.guard is not None and op.guard.what is value:
                op.guard = replace(op.guard, what=copy)
            op.results = [copy if result is value else result for result in op.results]
            ops.append(op)
            if writes and store is not None:
                ops.append(store(copy))
        if value in ending_reads(function, block):
            copy = current if current is not None else Value(f"{value.name}.", value.predicate)
            if current is None:
                kept.add(copy)
                ops.append(load(copy))
            assert block.condition is not None
            block.condition = replace(block.condition, what=copy)
        block.ops = ops
