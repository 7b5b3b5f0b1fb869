"""The interference graph: which values must not share a register."""

import numpy as np

from sim.toolchain.compiler.analysis.liveness import Liveness
from sim.toolchain.compiler.analysis.loops import block_weights
from sim.toolchain.compiler.ir import Function, Op, Value

__all__ = ["Interference"]


class Interference:
    """For every value the values that are live at its definitions, as bits, and the registers that
    calls change while it is live.
    """

    def __init__(self, function: Function) -> None:
        self.live = Liveness(function)
        self.clobbered: dict[Value, int] = {}
        self.uses: dict[Value, float] = {}
        for value in function.parameters:
            self.live.mask(iter([value]))
        rows: dict[int, int] = {}
        weights = block_weights(function)
        for block in function.blocks:
            effects = self.live.effects[block]
            for index, op, alive in self.live.backwards(block):
                self._operation(op, alive, effects[index][1], rows, weights[block])
        entry = function.blocks[0]
        arriving = self.live.live_in[entry] | self.live.mask(iter(function.parameters))
        for value in self.live.members(arriving):
            rows[self.live.bit[value]] = rows.get(self.live.bit[value], 0) | arriving
        self.rows = self._symmetric(rows)

    def cost(self, value: Value) -> float:
        """Returns the spill cost of a value: low for few uses and many neighbours."""
        return self.uses.get(value, 0) / (1 + self.rows[value].bit_count())

    def _operation(
        self, op: Op, alive: int, written: int, rows: dict[int, int], weight: float
    ) -> None:
        bits, uses = self.live.bit, self.uses
        apart = alive | written
        if op.opcode.name == "MOV" and isinstance(op.sources[0].operand, Value):
            apart &= ~bits[op.sources[0].operand]
        for value in op.results:
            if value is not None:
                bit = bits[value]
                rows[bit] = rows.get(bit, 0) | apart
                uses[value] = uses.get(value, 0) + weight
        for value in op.reads():
            uses[value] = uses.get(value, 0) + weight
        if op.clobbers:
            mask = sum(1 << number for number in op.clobbers)
            for value in self.live.members(alive & ~written):
                self.clobbered[value] = self.clobbered.get(value, 0) | mask

    def _symmetric(self, rows: dict[int, int]) -> dict[Value, int]:
        count = len(self.live.values)
        numbers = [rows.get(1 << at, 0) & ~(1 << at) for at in range(count)]
        return {
            value: row | column
            for value, row, column in zip(
                self.live.values, numbers, _columns(numbers, count), strict=True
            )
        }


_CHUNK = 1024
"""The number of rows transposed at once: a multiple of 8."""
_SWAPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
"""The steps that transpose 8 by 8 bits in a number: the distance of the bits to swap, and the mask
of the lower ones.
"""


def _columns(rows: list[int], count: int) -> list[int]:
    """Returns the columns of a square bit matrix, transposed in tiles of 8 by 8."""
    width = -(-count // 8)
    columns = np.zeros((width, 8, width), np.uint8)
    for first in range(0, count, _CHUNK):
        part = rows[first : first + _CHUNK]
        part += [0] * (-len(part) % 8)
        content = np.frombuffer(b"".join(row.to_bytes(width, "little") for row in part), np.uint8)
        tiles = content.reshape(-1, 8, width).transpose(2, 0, 1).copy().view("<u8")
        for distance, lower in _SWAPS:
            changed = (tiles ^ tiles >> np.uint64(distance)) & np.uint64(lower)
            tiles ^= changed ^ changed << np.uint64(distance)
        columns[:, :, first // 8 : first // 8 + len(part) // 8] = (
            tiles.view(np.uint8).reshape(width, -1, 8).transpose(0, 2, 1)
        )
    return [
        int.from_bytes(column.tobytes(), "little")
        for column in columns.reshape(8 * width, width)[:count]
    ]
