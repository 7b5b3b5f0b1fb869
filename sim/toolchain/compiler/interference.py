"""Which values must not share a register, and classes of values that are to have the same one or neighbours."""

from dataclasses import dataclass, field

from .abi import STACK_POINTER
from .dataflow import Liveness
from .ir import Block, Function, Op, Value
from .loops import find_loops, innermost

__all__ = ["Group", "Interference", "merge_copies"]

_WIDEST = 16


class Interference:
    """For every value the values live at its definitions, as bits, and the registers that calls change meanwhile."""

    def __init__(self, function: Function) -> None:
        self.live = Liveness(function)
        self.clobbered: dict[Value, int] = {}
        self.uses: dict[Value, float] = {}
        for value in function.parameters:
            self.live.mask(iter([value]))
        rows: dict[int, int] = {}
        loops = innermost(find_loops(function))
        for block in function.blocks:
            weight = 10.0 ** min(loops[block].depth if block in loops else 0, 4)
            for _, op, alive in self.live.backwards(block):
                self._operation(op, alive, rows, weight)
        entry = function.blocks[0]
        arriving = self.live.live_in[entry] | self.live.mask(iter(function.parameters))
        for value in self.live.members(arriving):
            rows[self.live.bit[value]] = rows.get(self.live.bit[value], 0) | arriving
        self.rows = self._symmetric(rows)

    def _operation(self, op: Op, alive: int, rows: dict[int, int], weight: float) -> None:
        written = self.live.mask(op.writes())
        around = alive | written
        for value in op.writes():
            bit = self.live.bit[value]
            apart = around
            if op.name == "MOV" and op.sources[0].value is not None:
                apart &= ~self.live.bit[op.sources[0].value]
            rows[bit] = rows.get(bit, 0) | apart
            self.uses[value] = self.uses.get(value, 0) + weight
        for value in op.reads():
            self.uses[value] = self.uses.get(value, 0) + weight
        if op.clobbers:
            mask = sum(1 << number for number in op.clobbers)
            for value in self.live.members(alive & ~written):
                self.clobbered[value] = self.clobbered.get(value, 0) | mask

    def _symmetric(self, rows: dict[int, int]) -> dict[Value, int]:
        found = dict.fromkeys(self.live.values, 0)
        for bit, row in rows.items():
            value = self.live.values[bit.bit_length() - 1]
            found[value] |= row & ~bit
            for other in self.live.members(row & ~bit):
                found[other] |= bit
        return found


@dataclass(eq=False)
class Group:
    """Values with fixed distances between their registers.

    Attributes
    ----------
    members : dict[int, int]
        For each distance from the base the values there, as bits.
    rows : dict[int, int]
        What these must not share their register with.
    bases : frozenset[int]
        What the base may be, modulo 4.
    fixed : bool
        The base is R0.
    """

    members: dict[int, int]
    rows: dict[int, int]
    bases: frozenset[int] = frozenset(range(4))
    fixed: bool = False
    clobbered: dict[int, int] = field(default_factory=dict)


def merge_copies(function: Function, known: Interference,
                 together: list[list[Value]]) -> dict[Value, tuple[Group, int]]:
    """The group of every register value and its distance there. Values that are copied into each other come into the
    same group if they can, those copied most often first. All values with registers of their own are one group from R0
    on.
    """
    place: dict[Value, tuple[Group, int]] = {}
    fixed = Group({}, {}, frozenset([0]), True)
    for values in together:
        alignment = 4 if len(values) > 2 else 2
        group = Group({}, {}, frozenset(base for base in range(4) if base % alignment == 0))
        for at, value in enumerate(values):
            _enter(group, at, value, known)
            place[value] = group, at
    for value in known.live.values:
        if value.predicate or value in place:
            continue
        group, at = (Group({}, {}), 0) if value.fixed is None else (fixed, value.fixed)
        _enter(group, at, value, known)
        place[value] = group, at
    for to, source in _copies(function):
        if to in place and source in place:
            _merge(place, known, to, source)
    return place


def _enter(group: Group, at: int, value: Value, known: Interference) -> None:
    group.members[at] = group.members.get(at, 0) | known.live.bit[value]
    group.rows[at] = group.rows.get(at, 0) | known.rows[value]
    group.clobbered[at] = group.clobbered.get(at, 0) | known.clobbered.get(value, 0)


def _copies(function: Function) -> list[tuple[Value, Value]]:
    """All copies from register to register, those in inner loops first."""
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


def _merge(place: dict[Value, tuple[Group, int]], known: Interference, one: Value, other: Value) -> None:
    """Joins the groups of two values so that both have the same register, if nothing speaks against it."""
    if place[other][0].fixed:
        one, other = other, one
    into, at = place[one]
    group, own = place[other]
    shift = at - own
    if into is group or group.fixed:
        return
    moved = {distance + shift: members for distance, members in group.members.items()}
    if into.fixed:
        if min(moved) < 0 or STACK_POINTER in moved or any(
                group.clobbered[distance - shift] >> distance & 1 for distance in moved):
            return
    elif max(*moved, *into.members) - min(*moved, *into.members) >= _WIDEST:
        return
    if any(into.rows.get(distance, 0) & members or (
            into.members.get(distance, 0) & group.rows[distance - shift]) for distance, members in moved.items()):
        return
    bases = into.bases & frozenset((base - shift) % 4 for base in group.bases)
    if not bases:
        return
    for distance, members in moved.items():
        into.members[distance] = into.members.get(distance, 0) | members
        into.rows[distance] = into.rows.get(distance, 0) | group.rows[distance - shift]
        into.clobbered[distance] = into.clobbered.get(distance, 0) | group.clobbered[distance - shift]
        for value in known.live.members(members):
            place[value] = into, distance
    into.bases = bases
