"""What each thread has beside its registers, and the special registers that are known from its number."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.execute.predicates import ThreadFlags
from rtl.isa.special_registers import COORDINATES_AT, SHARED_BANKS, VIRTUAL_SM_AT, VIRTUAL_WARP_AT, SpecialRegister
from rtl.layouts import thread_index
from rtl.one_hot import chosen_of
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES, SmParams
from rtl.wires import IN_BLOCKS

__all__ = ["IN_ROWS", "ThreadRows"]

_ALL = (1 << WARP_THREADS) - 1
_OF_NUMBER: dict[SpecialRegister, Callable[[int], int]] = {
    SpecialRegister.EQMASK: lambda thread: 1 << thread,
    SpecialRegister.LTMASK: lambda thread: (1 << thread) - 1,
    SpecialRegister.LEMASK: lambda thread: (2 << thread) - 1,
    SpecialRegister.GTMASK: lambda thread: _ALL & -(2 << thread),
    SpecialRegister.GEMASK: lambda thread: _ALL & -(1 << thread),
    SpecialRegister.LANEID: lambda thread: thread}
"""Special registers that a thread's number in its warp tells, each in a group of rows of the table."""
_PLACES = {SpecialRegister.TID: "xyz", SpecialRegister.TID_X: "x", SpecialRegister.TID_Y: "y",
           SpecialRegister.TID_Z: "z"}


def _constants(params: SmParams) -> dict[SpecialRegister, int]:
    """Special registers that are always the same: one group of rows."""
    return {
        SpecialRegister.VIRTCFG: params.warps << VIRTUAL_WARP_AT | 1 << VIRTUAL_SM_AT,
        SpecialRegister.SWINLO: SHARED_WINDOW, SpecialRegister.LWINLO: LOCAL_WINDOW,
        SpecialRegister.SWINSZ: WINDOW_BYTES, SpecialRegister.LWINSZ: WINDOW_BYTES,
        SpecialRegister.SMEMBANKS: SHARED_BANKS}


IN_ROWS = (*_OF_NUMBER, *_PLACES, *_constants(SmParams()))
"""The special registers that are found here."""
_ROW_BITS = 5
_GROUP_BITS = 3


class ThreadRows(Component):
    """A block memory of a row for each thread: where it is in its block, its predicates, and CC. Beside it a table of
    the special registers that are constants or that a thread's number tells, in block memory that is never written.

    In a thread's row x, y and z have the places that TID has for them; the predicates and CC are in the gaps, so that
    of 8 warps a row has 36 bits.

    Members
    -------
    warp, thread : In, In(5)
    number : In(8)
        A special register, of those in IN_ROWS.
    flags, gives, value : Out(ThreadFlags), In(1), Out(32)
        What was read, a cycle later: the thread's predicates and CC; and special register ``number``, 0 unless it
        ``gives`` that.
    write, after : In(1), In(ThreadFlags)
        The thread's predicates and CC become these. Its row was read in the cycle before. Not while ``taken``.
    event, taken : In(valid, payload: thread_index), Out(1)
        A thread of a warp that is launched: where it is is noted, its predicates and CC become 0.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._width = width = ceil_log2(params.warps * WARP_THREADS)    # a CTA has no more threads than the machine
        x_at, y_at, z_at = COORDINATES_AT
        starts = {"x": x_at, "y": y_at, "z": max(z_at, y_at + width)}
        self._places = {axis: range(start, start + width) for axis, start in starts.items()}
        taken = {bit for place in self._places.values() for bit in place}
        free = [bit for bit in range(2 * len(taken) + 32) if bit not in taken]
        self._flags = free[:ThreadFlags.as_shape().size]
        self._size = max(*taken, *self._flags, 31) + 1
        super().__init__({
            "warp": In(params.warp_bits), "thread": In(_ROW_BITS), "number": In(8),
            "flags": Out(ThreadFlags), "gives": In(1), "value": Out(32), "write": In(1), "after": In(ThreadFlags),
            "event": In(data.StructLayout({"valid": 1, "payload": thread_index(params)})), "taken": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self._params.warps << _ROW_BITS
        m.submodules.rows = rows = memory.Memory(shape=self._size, depth=depth, init=[], attrs=IN_BLOCKS)
        read, write, row = rows.read_port(domain="comb"), rows.write_port(), Signal(self._size)
        m.d.comb += read.addr.eq(Cat(self.thread, self.warp))
        m.d.sync += row.eq(read.data)
        known = self._look_up(m)
        places = {axis: Cat(row[bit] for bit in place) for axis, place in self._places.items()}
        m.d.comb += self.flags.eq(Cat(row[bit] for bit in self._flags))
        self._choose(m, known, places)

        # What is written.
        thread, after = self.event.payload, [Value.cast(self.after)[number] for number in range(len(self._flags))]
        m.d.comb += [
            self.taken.eq(self.event.valid), write.en.eq(self.event.valid | self.write),
            write.addr.eq(Mux(self.event.valid, Cat(thread.thread, thread.warp), Cat(self.thread, self.warp)))]
        for axis, place in self._places.items():
            for number, bit in enumerate(place):
                m.d.comb += write.data[bit].eq(Mux(self.event.valid, thread[axis][number], row[bit]))
        for bit, flag in zip(self._flags, after, strict=True):
            m.d.comb += write.data[bit].eq(flag & ~self.event.valid)
        return m

    def _look_up(self, m: Module) -> Signal:
        """The row of special register ``number`` in the table, a cycle later. Of a constant the row has the lower bits
        of the register's number for the thread's."""
        groups = list(_OF_NUMBER)
        content = [_OF_NUMBER[number](thread) for number in groups for thread in range(WARP_THREADS)]
        content += [0] * WARP_THREADS
        for number, value in _constants(self._params).items():
            content[(len(groups) << _ROW_BITS) + number % WARP_THREADS] = value
        m.submodules.table = table = memory.Memory(
            shape=32, depth=1 << _GROUP_BITS + _ROW_BITS, init=content, attrs=IN_BLOCKS)
        port, known = table.read_port(domain="comb"), Signal(32)
        group, own = Signal(_GROUP_BITS, init=len(groups)), Signal()
        with m.Switch(self.number):
            for place, number in enumerate(groups):
                with m.Case(number):
                    m.d.comb += [group.eq(place), own.eq(1)]
        m.d.comb += port.addr.eq(Cat(Mux(own, self.thread, self.number[:_ROW_BITS]), group))
        m.d.sync += known.eq(port.data)
        return known

    def _choose(self, m: Module, known: Signal, places: dict[str, Any]) -> None:
        """What special register ``number`` is: of the thread's row, or of the table's."""
        x_at, y_at, z_at = COORDINATES_AT
        values = {SpecialRegister.TID: (places["x"] << x_at | places["y"] << y_at | places["z"] << z_at)[:32],
                  SpecialRegister.TID_X: places["x"], SpecialRegister.TID_Y: places["y"],
                  SpecialRegister.TID_Z: places["z"]}
        is_place = Signal(len(values))
        m.d.comb += [
            is_place.eq(Cat(self.number == number for number in values) & self.gives.replicate(len(values))),
            self.value.eq(chosen_of(Cat(is_place, self.gives & ~is_place.any()), [*values.values(), known]))]
