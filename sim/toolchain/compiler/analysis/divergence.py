"""Divergence analysis: finds the branches that are uniform, that is, taken by all threads of a warp
or by none.

The result affects speed only: a branch without a reconvergence point is correct whether or not the
warp diverges.
"""

from collections.abc import Mapping

from rtl.isa.special_registers import SpecialRegister
from sim.toolchain.compiler.ir import Block, Function, Op, Source, Value

from .loops import Loop
from .post_dominators import LoopLevels

__all__ = ["divergent_blocks"]

_SAME_FOR_ALL = frozenset(
    {
        SpecialRegister.CTAID_X,
        SpecialRegister.CTAID_Y,
        SpecialRegister.CTAID_Z,
        SpecialRegister.SMEMSZ,
        SpecialRegister.VIRTCFG,
        SpecialRegister.VIRTID,
    }
)
"""Special registers that have the same value in all threads of a block."""
_OWN = frozenset({"CAL", "ICAL", "SHFL", "LDG", "LD", "LDL", "LDS", "ATOM", "ATOMS", "CS2R"})


def divergent_blocks(function: Function, graph: LoopLevels) -> set[Block]:
    """Returns the blocks at whose terminator the threads of a warp may diverge."""
    definitions: dict[Value, list[tuple[Block, Op]]] = {}
    for block in function.blocks:
        for op in block.ops:
            for value in op.writes():
                definitions.setdefault(value, []).append((block, op))
    different: set[Value] = set(function.parameters)
    divergent: set[Block] = set()
    while True:
        apart = graph.blocks_apart(divergent)
        before = len(different), len(divergent)
        for value, places in definitions.items():
            if value not in different and _differs(places, different, apart):
                different.add(value)
        _leave_loops(function, graph, definitions, different, divergent)
        for block in function.blocks:
            condition = block.condition
            if (
                condition is not None
                and not block.uniform
                and len(set(block.successors)) > 1
                and condition.value in different
            ):
                divergent.add(block)
        if (len(different), len(divergent)) == before:
            return divergent


def _differs(places: list[tuple[Block, Op]], different: set[Value], apart: set[Block]) -> bool:
    """Whether a value with these definitions may differ between threads."""
    if len(places) > 1 and any(block in apart for block, _ in places):
        return True
    return any(_makes_different(op, different) for _, op in places)


def _makes_different(op: Op, different: set[Value]) -> bool:
    if op.name in _OWN:
        return True
    if op.name == "S2R":
        return op.fields["special"] not in _SAME_FOR_ALL
    if op.name in ("VOTE", "B2R"):
        return False
    sources: list[Source] = [*op.sources, *([op.guard] if op.guard is not None else [])]
    # The source of the carry is not traced: it counts as different.
    return op.takes_carry or any(source.value in different for source in sources)


def _leave_loops(
    function: Function,
    graph: LoopLevels,
    definitions: Mapping[Value, list[tuple[Block, Op]]],
    different: set[Value],
    divergent: set[Block],
) -> None:
    """Adds the values that are used outside a loop of their definition, if threads leave that loop
    at different times.
    """
    leaving = graph.left_apart(divergent)
    if not leaving:
        return
    around: dict[Block, set[Loop]] = {block: set() for block in function.blocks}
    for loop in leaving:
        for block in loop.blocks:
            around[block].add(loop)
    for block in function.blocks:
        used = {value for op in block.ops for value in op.reads()}
        if block.condition is not None and block.condition.value is not None:
            used.add(block.condition.value)
        different |= {
            value
            for value in used - different
            if not all(around[place] <= around[block] for place, _ in definitions.get(value, []))
        }
