"""The fetch unit of a serial machine: one instruction at a time."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component, members_of
from rtl.fetch.predecode import CONSTANT_FIELDS
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS
from rtl.isa.table import FORMS
from rtl.layouts import (
    CONSTANT_BANKS,
    ConstantBank,
    Event,
    EventLayout,
    GridConfiguration,
    InstructionKind,
    described_bank,
    fetched_instruction,
    indexed_request,
    indexed_response,
    redirect,
)
from rtl.params import ADDRESS_BITS, SmParams
from rtl.wires import IN_BLOCKS
from rtl.word import field_of, instruction_address

from .beat_cache import BeatCache
from .walk import WalkingPredecoder

__all__ = ["SerialFetch"]

_BEAT_AT, _WORD_AT = ceil_log2(INSTRUCTION_BYTES), 2
_BANK_BITS = ceil_log2(CONSTANT_BANKS)


class SerialFetch(Component):
    """Brings an instruction whenever a warp is redirected: a group is that one instruction, and ``pc`` its own address.
    No control code is read, since all of it is about instructions that are under way together.

    The instruction is looked up, and decoded; then its constant operand is, if it has one. Words for the other reader
    of constant banks are looked up in between.

    Members
    -------
    grid, indexed, value, memory
        See FetchUnit.
    bank, named : In(EventLayout of described_bank), Out(ConstantBank)
        A constant bank of the grid, before it runs; that which LDC names, if the last instruction that was brought is
        one.
    redirect : In(Event of redirect)
        The warp's instruction there is wanted. The next one not before that has come.
    group : Out(Event of fetched_instruction)
    room, claimed : In(1 bit a warp), Out(Event of a warp)
        Of FetchUnit; nothing is brought but what is asked for.
    invalidate, busy : In(1), Out(1)
        The cache becomes empty: what is looked up after that comes from memory; it is about to.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._cache = BeatCache(params)
        self._wanted, self._number = Signal(indexed_request()), Signal(_BANK_BITS)
        """The word of a constant bank that is wanted now; the bank that is looked up."""
        super().__init__({
            **members_of(self._cache, "invalidate", "busy", "memory"), "grid": In(GridConfiguration),
            "redirect": In(Event(redirect(params))), "room": In(params.warps), "claimed": Out(Event(params.warp_bits)),
            "group": Out(Event(fetched_instruction(params))), "bank": In(EventLayout(described_bank())),
            "named": Out(ConstantBank), "indexed": In(stream.Signature(indexed_request())),
            "value": Out(stream.Signature(indexed_response()))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cache = cache = self._cache
        m.submodules.predecoder = predecoder = WalkingPredecoder(self._params.floats, self._params.doubles)
        self.join(m, cache, "invalidate", "busy", "memory")
        asked, of_bank, for_other, missing = Signal(), Signal(), Signal(), Signal()
        pc, word, fault = Signal(self.redirect.payload.pc.shape()), Signal(WORD_BITS), Signal()
        warp, predecoded = Signal.like(self.group.payload.warp), predecoder.predecoded
        m.d.comb += [predecoder.word.eq(word), predecoder.registers.eq(self.grid.registers)]
        place, beyond = self._place(m, pc, word, predecoded.constant, of_bank, for_other)
        address, number = Signal.like(place), self._number
        m.d.comb += [cache.address.eq(address[-len(cache.address):]), cache.constant.eq(of_bank)]

        with m.If(self.redirect.valid):
            m.d.sync += [asked.eq(1), pc.eq(self.redirect.payload.pc), warp.eq(self.redirect.payload.warp)]
        m.d.sync += Assert(~(self.redirect.valid & asked), "an instruction is wanted before the last one has come")
        with m.FSM():
            with m.State("IDLE"):
                # So what takes an instruction's place without being one finds no word.
                m.d.sync += [word.eq(0), fault.eq(0), missing.eq(0), of_bank.eq(0), for_other.eq(0)]
                with m.If(self.indexed.valid):
                    m.d.sync += for_other.eq(1)
                    m.next = "BANK"
                with m.Elif(asked):
                    m.next = "PLACE"
            with m.State("PLACE"):
                m.d.sync += address.eq(place)
                m.next = "INSTRUCTION"
            with m.State("INSTRUCTION"):
                m.d.comb += cache.look.eq(1)
                with m.If(cache.found):
                    m.d.sync += [word.eq(cache.word), fault.eq(cache.error)]
                    m.next = "DECODE"
            with m.State("DECODE"):
                m.d.comb += predecoder.works.eq(1)
                with m.If(predecoder.over):
                    m.next = "BANK"
            with m.State("BANK"):
                m.d.sync += [number.eq(self._wanted.bank), of_bank.eq(1)]
                m.next = "FIND"
            with m.State("FIND"):
                m.next = "LEAVE"
                with m.If(for_other | predecoded.constant.any() & ~fault):
                    m.next = "WITHIN"
            with m.State("WITHIN"):
                m.d.sync += [address.eq(place), missing.eq(beyond)]
                m.next = "CONSTANT"
            with m.State("CONSTANT"):
                m.d.comb += cache.look.eq(~missing)
                with m.If(cache.found):
                    m.d.sync += missing.eq(cache.error)
                with m.If(cache.found | missing):
                    m.d.comb += self.indexed.ready.eq(for_other)
                    m.next = "LEAVE"
                    with m.If(for_other):
                        m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.value.valid.eq(1)
                with m.If(self.value.ready):
                    m.next = "IDLE"
            with m.State("LEAVE"):
                m.d.comb += self.group.valid.eq(1)
                m.d.sync += asked.eq(0)
                m.next = "IDLE"

        # What leaves. The beat of a constant stays in the cache's output.
        constant, out = self.value.payload, self.group.payload
        instruction = out.instructions[0]
        m.d.comb += [
            constant.missing.eq(missing),
            constant.value.eq(Mux(missing, 0, cache.word.word_select(address[0], len(constant.value)))),
            instruction.constant_missing.eq(missing), instruction.constant.eq(constant.value),
            out.warp.eq(warp), out.pc.eq(instruction_address(pc)), instruction.word.eq(word),
            instruction.quarter.eq(predecoded.quarter), instruction.kind.eq(predecoded.kind),
            instruction.error.as_value().eq(predecoded.error)]
        with m.If(fault):
            m.d.comb += [instruction.kind.eq(InstructionKind.REFUSED), instruction.error.eq(WarpError.MMU_FAULT)]
        return m

    def _place(self, m: Module, pc: Value, word: Value, constant: Value, of_bank: Value,
               for_other: Value) -> tuple[Value, Value]:
        """The address of the 32-bit word that is wanted: of the instruction at ``pc``, or in the bank that was looked
        up, and then whether that has none there."""
        wanted, number, bank = self._wanted, self._number, self.named
        (first, second) = CONSTANT_FIELDS
        for (offset, which), chosen in ((first, constant != 2), (second, constant == 2)):
            with m.If(chosen & ~for_other):
                m.d.comb += [wanted.address.eq(field_of(word, offset).as_unsigned() * offset.scale),
                             wanted.bank.eq(field_of(word, which))]
        with m.If(for_other):
            m.d.comb += wanted.eq(self.indexed.payload)
        m.submodules.banks = banks = memory.Memory(
            shape=ConstantBank, depth=CONSTANT_BANKS, init=[], attrs=IN_BLOCKS)
        write, read, told = banks.write_port(), banks.read_port(domain="comb"), self.bank
        base, within = Signal(ADDRESS_BITS), Signal(wanted.address.shape())
        m.d.sync += bank.eq(read.data)
        m.d.comb += [
            write.en.eq(told.valid), write.addr.eq(told.payload.number), write.data.eq(told.payload.bank),
            read.addr.eq(number), base.eq(Mux(of_bank, bank.address, self.grid.program)),
            within.eq(Mux(of_bank, wanted.address, Cat(Const(0, _BEAT_AT), instruction_address(pc)[_BEAT_AT:])))]
        place = (base[_WORD_AT:] + within[_WORD_AT:])[:ADDRESS_BITS - _WORD_AT]
        beyond = (wanted.bank[_BANK_BITS:].any() | ~bank.valid
                  | (Cat(Const(0, _WORD_AT), within[_WORD_AT:]) >= bank.size))
        return place, beyond


_LDC_BANK = next(form.fields["bank"] for form in FORMS if form.name == "LDC")
assert len(CONSTANT_FIELDS) == 2 and CONSTANT_FIELDS[0][1] == _LDC_BANK
