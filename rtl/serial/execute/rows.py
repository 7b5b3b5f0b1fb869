"""A row of state for each thread, and the special registers that follow from the thread."""

from collections.abc import Callable
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.execute.predicates import ThreadFlags
from rtl.isa.special_registers import (
    COORDINATES_AT,
    SHARED_BANKS,
    VIRTUAL_SM_AT,
    VIRTUAL_WARP_AT,
    SpecialRegister,
    packed_coordinates,
)
from rtl.layouts import Event, thread_index
from rtl.one_hot import chosen_of
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES, SmParams
from rtl.wires import IN_BLOCKS
from rtl.words import Words

from .stages import FlagUpdate, special_read

__all__ = ["IN_ROWS", "ThreadRows"]

_ALL = (1 << WARP_THREADS) - 1
_OF_NUMBER: dict[SpecialRegister, Callable[[int], int]] = {
    SpecialRegister.EQMASK: lambda thread: 1 << thread,
    SpecialRegister.LTMASK: lambda thread: (1 << thread) - 1,
    SpecialRegister.LEMASK: lambda thread: (2 << thread) - 1,
    SpecialRegister.GTMASK: lambda thread: _ALL & -(2 << thread),
    SpecialRegister.GEMASK: lambda thread: _ALL & -(1 << thread),
    SpecialRegister.LANEID: lambda thread: thread,
}
"""Special registers that are functions of a thread's number in its warp: each takes a group of rows
of the table."""
_COORDINATES = (
    SpecialRegister.TID,
    SpecialRegister.TID_X,
    SpecialRegister.TID_Y,
    SpecialRegister.TID_Z,
)
"""The special registers that are read from a thread's row."""


def _constants(params: SmParams) -> dict[SpecialRegister, int]:
    """Special registers that never change: together they take one group of rows of the table."""
    return {
        SpecialRegister.VIRTCFG: params.warps << VIRTUAL_WARP_AT | 1 << VIRTUAL_SM_AT,
        SpecialRegister.SWINLO: SHARED_WINDOW,
        SpecialRegister.LWINLO: LOCAL_WINDOW,
        SpecialRegister.SWINSZ: WINDOW_BYTES,
        SpecialRegister.LWINSZ: WINDOW_BYTES,
        SpecialRegister.SMEMBANKS: SHARED_BANKS,
    }


IN_ROWS = (*_OF_NUMBER, *_COORDINATES, *_constants(SmParams()))
"""The special registers that this memory and its table have."""
_ROW_BITS = 5
_GROUP_BITS = 3
_WORD_BITS = 32


class _Coordinates(NamedTuple):
    """Where a thread is in its CTA."""

    x: Value
    y: Value
    z: Value


class _RowFormat:
    """Where a thread's row has its coordinates, predicates and CC.

    x, y and z have their places in TID; the predicates and CC fill the gaps between them, so that
    for 8 warps a row has 36 bits.
    """

    def __init__(self, params: SmParams) -> None:
        # A CTA has no more threads than the machine.
        width = ceil_log2(params.warps * WARP_THREADS)
        x_at, y_at, z_at = COORDINATES_AT
        starts = (x_at, y_at, max(z_at, y_at + width))
        self._coordinates = [range(start, start + width) for start in starts]
        taken = {bit for place in self._coordinates for bit in place}
        free = [bit for bit in range(2 * len(taken) + _WORD_BITS) if bit not in taken]
        self._flags = free[:ThreadFlags.as_shape().size]
        self.size = max(*taken, *self._flags, _WORD_BITS - 1) + 1

    def coordinates_of(self, row: Value) -> _Coordinates:
        """The coordinates in a row."""
        return _Coordinates(*(Cat(row[bit] for bit in place) for place in self._coordinates))

    def flags_of(self, row: Value) -> Value:
        """The predicates and CC in a row."""
        return Cat(row[bit] for bit in self._flags)

    def row_of(self, coordinates: _Coordinates, flags: Value) -> Value:
        """The row with these coordinates, whose upper bits may be cut, and these predicates and
        CC."""
        bits = list(Const(0, self.size))
        for place, coordinate in zip(self._coordinates, coordinates, strict=True):
            bits[place.start:place.stop] = coordinate[:len(place)]
        for bit, flag in zip(self._flags, flags, strict=True):
            bits[bit] = flag
        return Cat(bits)


class ThreadRows(Component):
    """For each thread a row in block memory: its coordinates in its CTA, its predicates, and CC.
    Beside it, in block memory that is never written, a table of the special registers that are
    constant or a function of the thread's number.

    Members
    -------
    read : In(special_read)
        The thread whose row is read or written, and a special register.
    flags : Out(FlagUpdate)
        The thread's predicates and CC, a cycle later.
    enable, value : In(1), Out(32)
        While ``enable``, the special register, which is one of IN_ROWS, of the thread of the cycle
        before; else 0.
    write : In(1)
        Replaces the thread's predicates and CC. Its row was read in the cycle before. Not while
        ``is_blocked``.
    launched : In(Event of thread_index)
        A thread of a warp that is launched: its row gets its coordinates, and its predicates and CC
        become 0.
    is_blocked : Out(1)
        A launched thread takes the write port.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._format = _RowFormat(params)
        super().__init__({
            "read": In(special_read(params)),
            "flags": Out(FlagUpdate()),
            "enable": In(1),
            "value": Out(_WORD_BITS),
            "write": In(1),
            "launched": In(Event(thread_index(params))),
            "is_blocked": Out(1),
        })
        self._row = Signal(self._format.size, name="row")
        """The row that was read."""
        self._table_word = Signal(_WORD_BITS, name="table_word")
        """The word of the table that was read."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rows = rows = Words(
            self._format.size, self._params.warps << _ROW_BITS, **IN_BLOCKS)
        m.d.sync += self._row.eq(rows.read(m, self.read.place))
        m.d.comb += self.flags.before.eq(self._format.flags_of(self._row))
        self._write_row(m, rows.write_port())
        self._look_up(m)
        self._select_value(m)
        return m

    def _write_row(self, m: Module, write: Any) -> None:
        """Writes a launched thread's row, or flags into the row that was read."""
        launched = self.launched.payload
        is_launched = self.launched.valid
        coordinates = self._format.coordinates_of(self._row)
        new_flags = Value.cast(self.flags.after)
        new_coordinates = _Coordinates(launched.x, launched.y, launched.z)
        no_flags = Const(0, len(new_flags))
        m.d.comb += self.is_blocked.eq(is_launched)
        m.d.comb += write.en.eq(is_launched | self.write)
        with m.If(is_launched):
            m.d.comb += write.addr.eq(Cat(launched.thread, launched.warp))
            m.d.comb += write.data.eq(self._format.row_of(new_coordinates, no_flags))
        with m.Else():
            m.d.comb += write.addr.eq(self.read.place)
            m.d.comb += write.data.eq(self._format.row_of(coordinates, new_flags))

    def _look_up(self, m: Module) -> None:
        """Reads the special register in the table. In the group of constants, the lower bits
        of the register's number select the row, in place of the thread's number."""
        groups = list(_OF_NUMBER)
        content = [_OF_NUMBER[number](thread)
                   for number in groups for thread in range(WARP_THREADS)]
        content += [0] * WARP_THREADS
        for number, value in _constants(self._params).items():
            content[(len(groups) << _ROW_BITS) + number % WARP_THREADS] = value
        m.submodules.table = table = memory.Memory(
            shape=_WORD_BITS, depth=1 << _GROUP_BITS + _ROW_BITS, init=content, attrs=IN_BLOCKS)
        port = table.read_port(domain="comb")
        group = Signal(_GROUP_BITS, init=len(groups))
        row = Signal(_ROW_BITS)
        m.d.comb += row.eq(self.read.number[:_ROW_BITS])
        with m.Switch(self.read.number):
            for place, number in enumerate(groups):
                with m.Case(number):
                    m.d.comb += group.eq(place)
                    m.d.comb += row.eq(self.read.place.thread)
        m.d.comb += port.addr.eq(Cat(row, group))
        m.d.sync += self._table_word.eq(port.data)

    def _select_value(self, m: Module) -> None:
        """The special register: from the thread's row, or else from the table."""
        thread = self._format.coordinates_of(self._row)
        coordinates = packed_coordinates(thread.x, thread.y, thread.z)
        values = {
            SpecialRegister.TID: coordinates[:_WORD_BITS],
            SpecialRegister.TID_X: thread.x,
            SpecialRegister.TID_Y: thread.y,
            SpecialRegister.TID_Z: thread.z,
        }
        in_row = Signal(len(values))
        in_table = Signal()
        with m.If(self.enable):
            m.d.comb += in_row.eq(Cat(self.read.number == number for number in values))
            m.d.comb += in_table.eq(~in_row.any())
        m.d.comb += self.value.eq(
            chosen_of(Cat(in_row, in_table), [*values.values(), self._table_word]))
