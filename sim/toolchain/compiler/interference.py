"""Which values must not share a register, and classes of values that are to have the same one or neighbours."""

from dataclasses import dataclass, field

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
    register : int or None
        The base, where it is fixed.
    """

    members: dict[int, int]
    rows: dict[int, int]
    bases: frozenset[int] = frozenset(range(4))
    register: int | None = None
    clobbered: dict[int, int] = field(default_factory=dict)


def merge_copies(function: Function, known: Interference, together: list[list[Value]]) -> dict[Value, tuple[Group, int]]:
    """The group of every register value and its distance there. Values that are copied into each other come into the same
    group if they can, those copied most often first.
    """
    place: dict[Value, tuple[Group, int]] = {}
    for values in together:
        alignment = 4 if len(values) > 2 else 2
        group = Group({}, {}, frozenset(base for base in range(4) if base % alignment == 0))
        for at, value in enumerate(values):
            _enter(group, at, value, known)
            place[value] = group, at
    for value in known.live.values:
        if value.predicate or value in place:
            continue
        group = Group({}, {}, register=value.fixed)
        _enter(group, 0, value, known)
        place[value] = group, 0
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
    into, at = place[one]
    group, own = place[other]
    shift = at - own
    if into is group:
        return
    if into.register is not None and group.register is not None and into.register + shift != group.register:
        return
    moved = {distance + shift: members for distance, members in group.members.items()}
    if max(*moved, *into.members) - min(*moved, *into.members) >= _WIDEST:
        return
    if any(into.rows.get(distance, 0) & members or (
            into.members.get(distance, 0) & group.rows[distance - shift]) for distance, members in moved.items()):
        return
    bases = into.bases & frozenset((base - shift) % 4 for base in group.bases)
    register = into.register
    if group.register is not None:
        register = group.register - shift
    if not bases or (register is not None and (register % 4 not in bases or register < 0)):
        return
    if register is not None and _overlaps_fixed(into, group, register, shift):
        return
    for distance, members in moved.items():
        into.members[distance] = into.members.get(distance, 0) | members
        into.rows[distance] = into.rows.get(distance, 0) | group.rows[distance - shift]
        into.clobbered[distance] = into.clobbered.get(distance, 0) | group.clobbered[distance - shift]
        for value in known.live.members(members):
            place[value] = into, distance
    into.bases, into.register = bases, register


def _overlaps_fixed(into: Group, group: Group, register: int, shift: int) -> bool:
    """Whether a fixed register would be one that a call changes while the value is needed."""
    for distance, mask in into.clobbered.items():
        if register + distance < 0 or mask >> register + distance & 1:
            return True
    return any(register + distance + shift < 0 or mask >> register + distance + shift & 1
               for distance, mask in group.clobbered.items())
