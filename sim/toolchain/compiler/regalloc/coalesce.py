"""Coalescing: values that are copied to each other, or must be consecutive, form groups with one
base register.
"""

from dataclasses import dataclass, field

from sim.toolchain.compiler.abi import STACK_POINTER
from sim.toolchain.compiler.analysis.loops import find_loops, innermost
from sim.toolchain.compiler.ir import Block, Function, Value

from .interference import Interference

__all__ = ["CoalescedGroup", "merge_copies"]

_WIDEST = 16


@dataclass(eq=False)
class CoalescedGroup:
    """Values whose registers have fixed distances.

    Attributes:
        members: For each distance from the base the values there, as bits.
        rows: For each distance the values that interfere with these, as bits.
        bases: The possible base registers, modulo 4.
        fixed: Whether the base is R0.
        clobbered: For each distance the registers that calls change while a value is live, as bits.
        joined: The group that this one was merged into, and its base's distance there.
    """

    members: dict[int, int]
    rows: dict[int, int]
    bases: frozenset[int] = frozenset(range(4))
    fixed: bool = False
    clobbered: dict[int, int] = field(default_factory=dict)
    joined: "tuple[CoalescedGroup, int] | None" = None

    def enter(self, at: int, value: Value, known: Interference) -> None:
        """Adds a value at a distance."""
        self.members[at] = self.members.get(at, 0) | known.live.bit[value]
        self.rows[at] = self.rows.get(at, 0) | known.rows[value]
        self.clobbered[at] = self.clobbered.get(at, 0) | known.clobbered.get(value, 0)

    def root(self) -> "tuple[CoalescedGroup, int]":
        """Returns the group that this one was finally merged into, and the offset of its distances
        there.
        """
        group, shift, passed = self, 0, []
        while group.joined is not None:
            passed.append((group, group.joined[1]))
            group = group.joined[0]
        for other, distance in reversed(passed):
            shift += distance
            other.joined = group, shift
        return group, shift


def merge_copies(
    function: Function, known: Interference, together: list[list[Value]]
) -> dict[Value, tuple[CoalescedGroup, int]]:
    """Merges groups of values that are copied to each other if possible, copies in inner loops
    first.

    All values with fixed registers are in one group with base R0.

    Returns:
        The group of every register value, and its distance there.
    """
    place: dict[Value, tuple[CoalescedGroup, int]] = {}
    fixed = CoalescedGroup({}, {}, frozenset([0]), True)
    for values in together:
        alignment = 4 if len(values) > 2 else 2
        group = CoalescedGroup(
            {}, {}, frozenset(base for base in range(4) if base % alignment == 0)
        )
        for at, value in enumerate(values):
            group.enter(at, value, known)
            place[value] = group, at
    for value in known.live.values:
        if value.predicate or value in place:
            continue
        group, at = (CoalescedGroup({}, {}), 0) if value.fixed is None else (fixed, value.fixed)
        group.enter(at, value, known)
        place[value] = group, at
    for to, source in _copies(function):
        _merge(_where(place, to), _where(place, source))
    return {value: _where(place, value) for value in place}


def _where(
    place: dict[Value, tuple[CoalescedGroup, int]], value: Value
) -> tuple[CoalescedGroup, int]:
    """Returns the current group of a value, and its distance there."""
    own, distance = place[value]
    group, shift = own.root()
    return group, distance + shift


def _copies(function: Function) -> list[tuple[Value, Value]]:
    """Returns all copies from register to register, those in inner loops first."""
    loops = innermost(find_loops(function))

    def depth(block: Block) -> int:
        return loops[block].depth if block in loops else 0

    found = []
    for block in function.blocks:
        for op in block.ops:
            if op.name == "MOV" and op.sources[0].value is not None and op.sources[0].plain:
                result = op.results[0]
                if result is not None and op.sources[0].value is not function.stack:
                    found.append((-depth(block), result, op.sources[0].value))
    found.sort(key=lambda item: item[0])
    return [(to, source) for _, to, source in found]


def _merge(one: tuple[CoalescedGroup, int], other: tuple[CoalescedGroup, int]) -> None:
    """Merges two groups so that both positions are the same register, unless they interfere."""
    if other[0].fixed:
        one, other = other, one
    into, at = one
    group, own = other
    shift = at - own
    if into is group or group.fixed:
        return
    moved = {distance + shift: members for distance, members in group.members.items()}
    if into.fixed:
        if (
            min(moved) < 0
            or STACK_POINTER in moved
            or any(group.clobbered[distance - shift] >> distance & 1 for distance in moved)
        ):
            return
    elif max(*moved, *into.members) - min(*moved, *into.members) >= _WIDEST:
        return
    if any(
        into.rows.get(distance, 0) & members
        or (into.members.get(distance, 0) & group.rows[distance - shift])
        for distance, members in moved.items()
    ):
        return
    bases = into.bases & frozenset((base - shift) % 4 for base in group.bases)
    if not bases:
        return
    for distance, members in moved.items():
        into.members[distance] = into.members.get(distance, 0) | members
        into.rows[distance] = into.rows.get(distance, 0) | group.rows[distance - shift]
        into.clobbered[distance] = (
            into.clobbered.get(distance, 0) | group.clobbered[distance - shift]
        )
    into.bases, group.joined = bases, (into, shift)
