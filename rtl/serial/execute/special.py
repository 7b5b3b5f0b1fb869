"""Special registers that are the same in all threads, and other values of that kind, bit by bit."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.special_registers import COORDINATES_AT, VIRTUAL_WARP_AT, SpecialRegister
from rtl.layouts import GridConfiguration, warp_launch
from rtl.params import WARP_THREADS, SmParams

from .bits import WordBits

__all__ = ["SpecialBits"]

_CLOCK_BITS = 64
_LOW = (SpecialRegister.CLOCK, SpecialRegister.CLOCKLO, SpecialRegister.GLOBALTIMERLO)
_HIGH = (SpecialRegister.CLOCKHI, SpecialRegister.GLOBALTIMERHI)


def _bit(value: Any, index: Any) -> Value:
    """A bit of a value; 0 beyond its end."""
    value = Value.cast(value)
    return value.bit_select(index, 1) if len(value) < WARP_THREADS else value[:WARP_THREADS].bit_select(index, 1)


class SpecialBits(Component):
    """A bit a time: they are read over 64 cycles, each bit in the second of two.

    The clocks, and the global timer, count cycles. The counter goes round and gives a bit every other cycle; so who
    reads it has to begin when ``aligned`` says so, and finds multiples of 128.

    Members
    -------
    number, warp : In(8), In
        The special register.
    index, bit, aligned : In(5), Out(1), Out(1)
        A bit of it, a cycle later. ``aligned``: the first of them may be asked for in the next cycle.
    pc, next_pc, advance : In(32), Out(1), In(1)
        A bit of the next instruction's pc, likewise. Bits are asked for in order, and ``advance`` is 1 in the second
        cycle of each.
    warp_status, all_status : In(32), In(32)
        What the trap unit tells of ``warp``, and of all warps.
    grid : In(GridConfiguration)
    launch : In(valid, payload: warp_launch)
        Tells where in the grid the warp's CTA is.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "number": In(8), "warp": In(params.warp_bits), "index": In(5), "bit": Out(1), "aligned": Out(1),
            "pc": In(32), "next_pc": Out(1), "advance": In(1), "warp_status": In(32), "all_status": In(32),
            "grid": In(GridConfiguration),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)}))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        grid, launch, index = self.grid, self.launch.payload, self.index

        # The clock: a ring of bits. As it passes, one is added to the bit that counts its rounds.
        ring, phase, carry = Signal(_CLOCK_BITS), Signal(range(2 * _CLOCK_BITS)), Signal()
        is_low, is_high = Signal(), Signal()
        m.d.sync += phase.eq(phase + 1)
        with m.If(phase[0]):
            m.d.sync += [ring.eq(Cat(ring[1:], ring[0] ^ carry)),
                         carry.eq((ring[0] & carry) | (phase[1:] == len(phase) - 1))]
        m.d.comb += [
            is_low.eq(self.number.matches(*map(int, _LOW))), is_high.eq(self.number.matches(*map(int, _HIGH))),
            self.aligned.eq(~(is_low | is_high) | (phase[:-1].all() & (phase[-1] == is_low)))]

        # Where the CTA is.
        half = WARP_THREADS // 2
        m.submodules.x = x = WordBits(self._params.warps)
        m.submodules.yz = yz = WordBits(self._params.warps)
        for words, word in ((x, launch.index.x), (yz, Cat(launch.index.y, launch.index.z))):
            m.d.comb += [words.write.eq(self.launch.valid), words.number.eq(launch.warp), words.word.eq(word)]
        is_x, is_z = self.number == SpecialRegister.CTAID_X, self.number == SpecialRegister.CTAID_Z
        is_yz = self.number.matches(int(SpecialRegister.CTAID_Y), int(SpecialRegister.CTAID_Z))
        m.d.comb += [x.read.eq(Cat(index, self.warp)), yz.read.eq(Cat(index[:-1], is_z, self.warp))]
        reads_x, reads_yz = Signal(), Signal()
        m.d.sync += [reads_x.eq(is_x), reads_yz.eq(is_yz & (index < half))]

        # All others.
        other, later = Signal(), Signal()
        x_at, y_at, z_at = COORDINATES_AT
        block = grid.block
        values = {
            SpecialRegister.NTID: (block.x << x_at | block.y << y_at | block.z << z_at)[:32],
            SpecialRegister.VIRTID: self.warp << VIRTUAL_WARP_AT, SpecialRegister.SMEMSZ: grid.shared,
            SpecialRegister.LMEMLOSZ: grid.local, SpecialRegister.REGALLOC: grid.registers,
            SpecialRegister.GLOBALERRORSTATUS: self.all_status, SpecialRegister.WARPERRORSTATUS: self.warp_status,
            SpecialRegister.WARPERRORSTATUSCLEAR: self.warp_status}
        with m.Switch(self.number):
            for number in (*_LOW, *_HIGH):
                with m.Case(number):
                    m.d.comb += other.eq(ring[0])
            for number, value in values.items():
                with m.Case(number):
                    m.d.comb += other.eq(_bit(value, index))
        m.d.sync += later.eq(other)
        m.d.comb += self.bit.eq(later | (x.bit & reads_x) | (yz.bit & reads_yz))

        # The next pc.
        lowest = INSTRUCTION_BYTES.bit_length() - 1
        of_pc, carried, adds = _bit(self.pc, index), Signal(), Signal()
        m.d.comb += adds.eq(carried | (index == lowest))
        m.d.sync += self.next_pc.eq(of_pc ^ adds)
        with m.If(self.advance):
            m.d.sync += carried.eq(adds & of_pc & (index != WARP_THREADS - 1))
        return m
