"""Spilling: values are kept in the frame; predicates are kept in a register or recomputed."""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from rtl.isa.kinds import Compare
from sim.support.alignment import round_up
from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.analysis.liveness import ending_reads
from sim.toolchain.compiler.ir import PT, RZ, Block, Function, Op, Source, Value
from sim.toolchain.compiler.opcodes import opcode

__all__ = ["spill", "spill_predicates"]

_LOAD, _STORE = opcode("LDL"), opcode("STL")
_IS_NOT_ZERO, _ALL_ONES = opcode("ISETP", (("compare", Compare.NE),)), opcode("PSET")


@dataclass(frozen=True)
class _Keeper:
    """The spill code of a value: the operations before uses and after definitions of its copies.

    If ``shared``, one copy serves all uses between two calls.
    """

    load: Callable[[Value], Op]
    store: Callable[[Value], Op] | None
    shared: bool = False


def spill(function: Function, values: Iterable[Value], kept: set[Value]) -> None:
    """Spills values to the frame: stores them after each definition, and loads them before each
    use.
    """
    stack = Source(function.stack)
    keepers = {}
    for value in values:
        offset = round_up(function.frame, 4)
        function.frame = offset + 4
        keepers[value] = _Keeper(partial(_loaded, stack, offset), partial(_stored, stack, offset))
    _rewrite(function, keepers, kept)


def _loaded(stack: Source, offset: int, copy: Value) -> Op:
    return Op(_LOAD, [copy], [stack], offset=offset)


def _stored(stack: Source, offset: int, copy: Value) -> Op:
    return Op(_STORE, [], [stack, Source(copy)], offset=offset)


def spill_predicates(
    function: Function, values: Iterable[Value], kept: set[Value], clobbered: Container[Value]
) -> None:
    """Spills predicates: repeats a comparison before each use if the result is the same, else keeps
    the predicate in a register as all ones or zero. A predicate in ``clobbered`` is restored once
    between two calls, for all uses there.
    """
    known = Definitions(function)
    uses = _uses(function)
    keepers, repeated = {}, []
    for value in values:
        made = known.only.get(value)
        shared = value in clobbered
        if made is not None and _repeatable(uses[value], made, known):
            keepers[value] = _Keeper(partial(_repeated, made, value), None, shared)
            repeated.append((value, made))
        else:
            holder = Value(f"{value.name}.kept")
            keepers[value] = _Keeper(partial(_unpacked, holder), partial(_packed, holder), shared)
    _rewrite(function, keepers, kept)
    for value, made in repeated:
        made.results = [None if result is value else result for result in made.results]
        if not any(made.results):
            known.dominators.at[made][0].ops.remove(made)


def _unpacked(holder: Value, copy: Value) -> Op:
    return Op(_IS_NOT_ZERO, [copy, None], [Source(holder), RZ, PT])


def _packed(holder: Value, copy: Value) -> Op:
    return Op(_ALL_ONES, [holder], [Source(copy), PT, PT])


def _uses(function: Function) -> dict[Value, list[tuple[Block, int]]]:
    """Returns the uses of predicates: the block, and the index among its operations."""
    found: dict[Value, list[tuple[Block, int]]] = defaultdict(list)
    for block in function.blocks:
        for index, op in enumerate(block.ops):
            for value in op.reads():
                if value.predicate:
                    found[value].append((block, index))
        for value in ending_reads(function, block):
            found[value].append((block, len(block.ops)))
    return found


def _repeatable(uses: list[tuple[Block, int]], made: Op, known: Definitions) -> bool:
    """Whether a comparison has the same result at each use of its predicate."""
    if (
        made.name != "ISETP"
        or made.takes_carry
        or made.guard is not None
        or made.sources[2].value is not None
    ):
        return False
    return all(
        known.dominators.dominates(made, block, index)
        and all(known.same(source, made, block, index) for source in made.sources)
        for block, index in uses
    )


def _repeated(made: Op, value: Value, copy: Value) -> Op:
    return replace(
        made,
        results=[copy if result is value else None for result in made.results],
        sources=list(made.sources),
    )


def _rewrite(function: Function, keepers: Mapping[Value, _Keeper], kept: set[Value]) -> None:
    """Replaces uses and definitions of spilled values by copies with spill code."""
    for block in function.blocks:
        ops: list[Op] = []
        current: dict[Value, Value] = {}
        for op in block.ops:
            if op.clobbers:
                current.clear()
            read = {value for value in op.reads() if value in keepers}
            written = [
                value
                for value in op.writes()
                if value in keepers and keepers[value].store is not None
            ]
            copies = {
                value: current.get(value, Value(f"{value.name}.", value.predicate))
                for value in (*op.reads(), *written)
                if value in keepers
            }
            for value, copy in copies.items():
                if (value in read or not op.replaces) and value not in current:
                    ops.append(keepers[value].load(copy))
                if keepers[value].shared:
                    current[value] = copy
                else:
                    kept.add(copy)
            if copies:
                op.sources = [
                    replace(source, operand=copies[source.value])
                    if source.value in copies
                    else source
                    for source in op.sources
                ]
                if op.guard is not None and op.guard.value in copies:
                    op.guard = replace(op.guard, operand=copies[op.guard.value])
                op.results = [
                    copies.get(result, result) if result is not None else None
                    for result in op.results
                ]
            ops.append(op)
            ops += [
                store(copies[value])
                for value in written
                if (store := keepers[value].store) is not None
            ]
        for value in ending_reads(function, block):
            if value not in keepers:
                continue
            copy = current.get(value, Value(f"{value.name}.", value.predicate))
            if value not in current:
                kept.add(copy)
                ops.append(keepers[value].load(copy))
            assert block.condition is not None
            block.condition = replace(block.condition, operand=copy)
        block.ops = ops
