"""Values that are the same in all threads of a warp, bit by bit: most special registers, and the
next instruction's pc."""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.special_registers import VIRTUAL_WARP_AT, SpecialRegister, packed_coordinates
from rtl.layouts import Event, GridConfiguration, warp_launch
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value

from .bits import WordBits, word_write
from .stages import ErrorStatus, special_read

__all__ = ["SpecialBits"]

_CLOCK_BITS = 64
_LOW_WORDS = (
    SpecialRegister.CLOCK, SpecialRegister.CLOCKLO, SpecialRegister.GLOBALTIMERLO)
_HIGH_WORDS = (SpecialRegister.CLOCKHI, SpecialRegister.GLOBALTIMERHI)
_CTA_HALF_BITS = 16
"""Bits of a CTA's y and z, which share a word."""
_LOWEST_PC_BIT = INSTRUCTION_BYTES.bit_length() - 1


def _bit(value: Any, index: Any) -> Value:
    """A bit of a value; 0 above its highest bit."""
    value = Value.cast(value)
    if len(value) >= WARP_THREADS:
        value = value[:WARP_THREADS]
    return value.bit_select(index, 1)


def _is_one_of(number: Value, registers: Iterable[SpecialRegister]) -> Value:
    """Whether it is the number of one of these special registers."""
    return number.matches(*map(int, registers))


class SpecialBits(Component):
    """A value is read in 64 cycles: of two cycles for each bit, the first has its index, the second
    its value.

    The clock and the global timer count cycles. They are one counter, which rotates and is
    incremented bit by bit, a bit in every other cycle. A read of it has to begin when ``aligned``
    allows it, and gets a multiple of 128.

    Members
    -------
    read, bit : In(special_read), Out(1)
        A bit of a special register of the warp: the one with the thread's number; a cycle later.
    aligned : Out(1)
        The first bit may be requested in the next cycle.
    pc, next_pc, advance : In(32), Out(1), In(1)
        The same bit of the next instruction's pc. Bits are requested in order, and ``advance`` is 1
        in the second cycle of each.
    status : In(ErrorStatus)
    grid : In(GridConfiguration)
    launch : In(Event of warp_launch)
        Has the coordinates of the warp's CTA in the grid.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "read": In(special_read(params)),
            "bit": Out(1),
            "aligned": Out(1),
            "pc": In(32),
            "next_pc": Out(1),
            "advance": In(1),
            "status": In(ErrorStatus),
            "grid": In(GridConfiguration),
            "launch": In(Event(warp_launch(params))),
        })
        self._clock_bit = Signal(name="clock_bit")
        """The bit of the clock that is processed."""
        self._cta_bit = Signal(name="cta_bit")
        """The bit of a CTA's coordinate; 0 for other registers."""
        self._index = self.read.place.thread
        """The number of the bit that is read."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._count(m)
        self._keep_coordinates(m)
        self._select(m)
        self._add_to_pc(m)
        return m

    def _count(self, m: Module) -> None:
        """The clock, a ring of bits: in each rotation, which takes 128 cycles, the bits that count
        rotations are incremented. ``phase`` is what the bits below these would be."""
        ring = Signal(_CLOCK_BITS)
        phase = Signal(range(2 * _CLOCK_BITS))
        carry = Signal()
        m.d.sync += phase.eq(phase + 1)
        lowest_bit = len(phase)
        is_below_lowest = phase[1:] == lowest_bit - 1
        with m.If(phase[0]):
            m.d.sync += ring.eq(Cat(ring[1:], ring[0] ^ carry))
            m.d.sync += carry.eq((ring[0] & carry) | is_below_lowest)
        m.d.comb += self._clock_bit.eq(ring[0])
        is_low = Signal()
        is_high = Signal()
        m.d.comb += is_low.eq(_is_one_of(self.read.number, _LOW_WORDS))
        m.d.comb += is_high.eq(_is_one_of(self.read.number, _HIGH_WORDS))
        with m.If(is_low):
            m.d.comb += self.aligned.eq(phase.all())
        with m.Elif(is_high):
            m.d.comb += self.aligned.eq(phase[:-1].all() & ~phase[-1])
        with m.Else():
            m.d.comb += self.aligned.eq(1)

    def _keep_coordinates(self, m: Module) -> None:
        """The coordinates of each warp's CTA: x in a word, y and z in the halves of another."""
        m.submodules.x = x = WordBits(self._params.warps)
        m.submodules.yz = yz = WordBits(self._params.warps)
        launch = self.launch.payload
        written = word_write(self._params.warps)
        index = launch.index
        m.d.comb += x.write.valid.eq(self.launch.valid)
        m.d.comb += x.write.payload.eq(
            struct_value(written, number=launch.warp, word=index.x))
        m.d.comb += yz.write.valid.eq(self.launch.valid)
        m.d.comb += yz.write.payload.eq(
            struct_value(written, number=launch.warp, word=Cat(index.y, index.z)))
        is_z = self.read.number == SpecialRegister.CTAID_Z
        m.d.comb += x.read.eq(self.read.place)
        m.d.comb += yz.read.eq(Cat(self._index[:-1], is_z, self.read.place.warp))

        reads_x = Signal()
        reads_yz = Signal()
        is_y_or_z = _is_one_of(self.read.number, (SpecialRegister.CTAID_Y, SpecialRegister.CTAID_Z))
        m.d.sync += reads_x.eq(self.read.number == SpecialRegister.CTAID_X)
        m.d.sync += reads_yz.eq(is_y_or_z & (self._index < _CTA_HALF_BITS))
        m.d.comb += self._cta_bit.eq((x.bit & reads_x) | (yz.bit & reads_yz))

    def _select(self, m: Module) -> None:
        """The bit of special register ``number``."""
        block = self.grid.block
        values = {
            SpecialRegister.NTID: packed_coordinates(block.x, block.y, block.z)[:32],
            SpecialRegister.VIRTID: self.read.place.warp << VIRTUAL_WARP_AT,
            SpecialRegister.SMEMSZ: self.grid.shared,
            SpecialRegister.LMEMLOSZ: self.grid.local,
            SpecialRegister.REGALLOC: self.grid.registers,
            SpecialRegister.GLOBALERRORSTATUS: self.status.of_all,
            SpecialRegister.WARPERRORSTATUS: self.status.of_warp,
            SpecialRegister.WARPERRORSTATUSCLEAR: self.status.of_warp,
        }
        selected = Signal()
        selected_bit = Signal()
        with m.Switch(self.read.number):
            for number in (*_LOW_WORDS, *_HIGH_WORDS):
                with m.Case(number):
                    m.d.comb += selected.eq(self._clock_bit)
            for number, value in values.items():
                with m.Case(number):
                    m.d.comb += selected.eq(_bit(value, self._index))
        m.d.sync += selected_bit.eq(selected)
        m.d.comb += self.bit.eq(selected_bit | self._cta_bit)

    def _add_to_pc(self, m: Module) -> None:
        """The next instruction's pc: the size of an instruction is added bit by bit."""
        carry = Signal()
        pc_bit = Signal()
        adds_one = Signal()
        m.d.comb += pc_bit.eq(_bit(self.pc, self._index))
        m.d.comb += adds_one.eq(carry | (self._index == _LOWEST_PC_BIT))
        m.d.sync += self.next_pc.eq(pc_bit ^ adds_one)
        with m.If(self.advance):
            is_last = self._index == WARP_THREADS - 1
            m.d.sync += carry.eq(adds_one & pc_bit & ~is_last)
