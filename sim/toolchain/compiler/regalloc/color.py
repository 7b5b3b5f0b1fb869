"""Coloring of the interference graph: assigns a register to every value. Values without one are
spilled.
"""

from sim.toolchain.compiler.abi import STACK_POINTER
from sim.toolchain.compiler.ir import Function, Op, Value
from sim.toolchain.module import ProgramError

from .coalesce import CoalescedGroup, merge_copies
from .interference import Interference
from .pressure import crowded_out
from .register_groups import separate
from .spill import spill, spill_predicates

__all__ = ["allocate"]

_PREDICATES = 7
REGISTERS = 255
"""Registers of a thread, without RZ."""


def allocate(function: Function, limit: int = REGISTERS) -> dict[Value, int]:
    """Returns a register below ``limit`` for every value. Values that do not fit are spilled to the
    frame.
    """
    together = separate(function)
    kept = {value for values in together for value in values}
    while True:
        known = Interference(function)
        predicates, waiting = _color_predicates(known, kept)
        if waiting:
            spill_predicates(function, waiting, kept, known.clobbered)
            continue
        crowded = crowded_out(function, known, limit, kept)
        if crowded:
            spill(function, crowded, kept)
            continue
        registers = _color(function, known, together, limit, kept)
        if isinstance(registers, Value):
            spill(function, [registers], kept)
            continue
        _drop_copies(function, registers)
        return {**registers, **predicates}


def _color_predicates(
    known: Interference, kept: set[Value]
) -> tuple[dict[Value, int], list[Value]]:
    """Returns the registers of predicates, and the predicates to spill."""
    found: dict[Value, int] = {}
    waiting: dict[Value, None] = {}
    taken = [0] * _PREDICATES
    for value in known.live.values:
        if not value.predicate:
            continue
        if value in known.clobbered:
            waiting[value] = None
            continue
        row = known.rows[value]
        while value not in waiting:
            free = [at for at in range(_PREDICATES) if not taken[at] & row]
            if free:
                found[value] = free[0]
                taken[free[0]] |= known.live.bit[value]
                break
            other = _cheapest(
                [value, *(other for other in known.live.members(row) if other in found)],
                known,
                kept,
            )
            waiting[other] = None
            if other in found:
                taken[found.pop(other)] ^= known.live.bit[other]
    return found, list(waiting)


def _cheapest(values: list[Value], known: Interference, kept: set[Value]) -> Value:
    """Returns the value with the lowest spill cost: it has few uses and many neighbours in the
    interference graph.
    """
    candidates = [value for value in values if value not in kept and value.fixed is None]
    if not candidates:
        raise ProgramError("there are too few registers, even with all that can wait in the frame")
    return min(candidates, key=known.cost)


def _color(
    function: Function,
    known: Interference,
    together: list[list[Value]],
    limit: int,
    kept: set[Value],
) -> dict[Value, int] | Value:
    """Returns the registers of all other values, or one value to spill."""
    place = merge_copies(function, known, together)
    groups = {id(group): group for group, _ in place.values()}.values()
    taken = [0] * (REGISTERS + 1)
    base: dict[CoalescedGroup, int] = {}
    for group in sorted(groups, key=lambda group: (not group.fixed, -len(group.members))):
        register = 0 if group.fixed else _free_base(group, taken, limit)
        if register is None:
            return _victim(group, known, kept)
        base[group] = register
        for distance, members in group.members.items():
            taken[register + distance] |= members
    return {value: base[group] + distance for value, (group, distance) in place.items()}


def _free_base(group: CoalescedGroup, taken: list[int], limit: int) -> int | None:
    """Returns the lowest base at which all members have free registers, or None."""
    lowest, highest = min(group.members), max(group.members)
    rows = [(at, group.rows[at], group.clobbered[at]) for at in group.members]
    for base in range(-lowest, limit - highest):
        if base % 4 not in group.bases:
            continue
        for distance, row, clobbered in rows:
            register = base + distance
            if register == STACK_POINTER or taken[register] & row or clobbered >> register & 1:
                break
        else:
            return base
    return None


def _victim(group: CoalescedGroup, known: Interference, kept: set[Value]) -> Value:
    """Returns the value to spill, from the group or its neighbours."""
    crowd = [value for members in group.members.values() for value in known.live.members(members)]
    for row in group.rows.values():
        crowd += [value for value in known.live.members(row) if not value.predicate]
    return _cheapest(crowd, known, kept)


def _drop_copies(function: Function, registers: dict[Value, int]) -> None:
    """Removes copies from a register to itself."""

    def needless(op: Op) -> bool:
        result, source = (
            op.results[0] if op.name == "MOV" else None,
            op.sources[0] if op.sources else None,
        )
        return (
            result is not None
            and source is not None
            and source.value is not None
            and source.plain
            and registers.get(result) == registers.get(source.value)
        )

    for block in function.blocks:
        block.ops = [op for op in block.ops if not needless(op)]
