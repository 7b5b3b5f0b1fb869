"""Which values must not share a register, and classes of values that are to have the same one or neighbours."""

from dataclasses import dataclass, field

import numpy as np

from .abi import STACK_POINTER
from .dataflow import Liveness
from .ir import Block, Function, Op, Value
from .loops import block_weights, find_loops, innermost

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
        weights = block_weights(function)
        for block in function.blocks:
            for _, op, alive in self.live.backwards(block):
                self._operation(op, alive, rows, weights[block])
        entry = function.blocks[0]
        arriving = self.live.live_in[entry] | self.live.mask(iter(function.parameters))
        for value in self.live.members(arriving):
            rows[self.live.bit[value]] = rows.get(self.live.bit[value], 0) | arriving
        self.rows = self._symmetric(rows)

    def cost(self, value: Value) -> float:
        """What it costs to have a value in memory: little where it is used seldom and in the way of many."""
        return self.uses.get(value, 0) / (1 + self.rows[value].bit_count())

    def _operation(self, op: Op, alive: int, rows: dict[int, int], weight: float) -> None:
        written = self.live.written_by(op)
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
        count = len(self.live.values)
        numbers = [rows.get(1 << at, 0) & ~(1 << at) for at in range(count)]
        return {value: row | column for value, row, column in zip(self.live.values, numbers, _columns(numbers, count),
                                                                  strict=True)}


_CHUNK = 1024
"""Rows that are turned at once: a multiple of 8."""
_SWAPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
"""What turns 8 by 8 bits in a number: the distance of bits that change places, and the lower ones of them."""


def _columns(rows: list[int], count: int) -> list[int]:
    """The columns of a square of bits, found in tiles of 8 by 8."""
    width = -(-count // 8)
    columns = np.zeros((width, 8, width), np.uint8)
    for first in range(0, count, _CHUNK):
        part = rows[first:first + _CHUNK]
        part += [0] * (-len(part) % 8)
        content = np.frombuffer(b"".join(row.to_bytes(width, "little") for row in part), np.uint8)
        tiles = content.reshape(-1, 8, width).transpose(2, 0, 1).copy().view("<u8")
        for distance, lower in _SWAPS:
            changed = (tiles ^ tiles >> np.uint64(distance)) & np.uint64(lower)
            tiles ^= changed ^ changed << np.uint64(distance)
        columns[:, :, first // 8:first // 8 + len(part) // 8] = tiles.view(np.uint8).reshape(width, -1, 8).transpose(
            0, 2, 1)
    return [int.from_bytes(column.tobytes(), "little") for column in columns.reshape(8 * width, width)[:count]]


@dataclass(eq=False)
class Group:
    """Values with fixed distances between their registers.

    Attributes:
        members: For each distance from the base the values there, as bits.
        rows: What these must not share their register with.
        bases: What the base may be, modulo 4.
        fixed: The base is R0.
        joined: The group that this one has come into, and its base's distance there.
    """

    members: dict[int, int]
    rows: dict[int, int]
    bases: frozenset[int] = frozenset(range(4))
    fixed: bool = False
    clobbered: dict[int, int] = field(default_factory=dict)
    joined: "tuple[Group, int] | None" = None

    def enter(self, at: int, value: Value, known: Interference) -> None:
        """One more value at a distance."""
        self.members[at] = self.members.get(at, 0) | known.live.bit[value]
        self.rows[at] = self.rows.get(at, 0) | known.rows[value]
        self.clobbered[at] = self.clobbered.get(at, 0) | known.clobbered.get(value, 0)

    def found(self) -> "tuple[Group, int]":
        """The group that this one has come into at last, and what is added to its distances there."""
        group, shift, passed = self, 0, []
        while group.joined is not None:
            passed.append((group, group.joined[1]))
            group = group.joined[0]
        for other, distance in reversed(passed):
            shift += distance
            other.joined = group, shift
        return group, shift


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
            group.enter(at, value, known)
            place[value] = group, at
    for value in known.live.values:
        if value.predicate or value in place:
            continue
        group, at = (Group({}, {}), 0) if value.fixed is None else (fixed, value.fixed)
        group.enter(at, value, known)
        place[value] = group, at
    for to, source in _copies(function):
        if to in place and source in place:
            _merge(_where(place, to), _where(place, source))
    return {value: _where(place, value) for value in place}


def _where(place: dict[Value, tuple[Group, int]], value: Value) -> tuple[Group, int]:
    """The group that a value is in by now, and its distance there."""
    own, distance = place[value]
    group, shift = own.found()
    return group, distance + shift


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


def _merge(one: tuple[Group, int], other: tuple[Group, int]) -> None:
    """Joins the groups of two places so that both are the same register, if nothing speaks against it."""
    if other[0].fixed:
        one, other = other, one
    into, at = one
    group, own = other
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
    into.bases, group.joined = bases, (into, shift)
