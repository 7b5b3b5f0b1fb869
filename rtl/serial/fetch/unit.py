"""The fetch unit of the serial machine: one instruction at a time."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.fetch.predecode import CONSTANT_FIELDS
from rtl.fetch.records import TAG_BITS
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.syntax import Field
from rtl.isa.table import FORMS
from rtl.layouts import (
    CONSTANT_BANKS,
    BeatPort,
    ConstantBank,
    Event,
    FetchedInstruction,
    GridConfiguration,
    InstructionKind,
    described_bank,
    fetched_instruction,
    indexed_request,
    indexed_response,
    redirect,
)
from rtl.params import ADDRESS_BITS, SmParams
from rtl.structs import struct_value
from rtl.wires import IN_BLOCKS
from rtl.word import field_of, instruction_address

from .beat_cache import BeatCache
from .walk import WalkingPredecoder

__all__ = ["SerialFetch"]

_INSTRUCTION_ALIGNED_BITS = ceil_log2(INSTRUCTION_BYTES)
_WORD_ALIGNED_BITS = 2
_BANK_BITS = ceil_log2(CONSTANT_BANKS)
_SECOND_PLACE = 2
"""The code of the second of CONSTANT_FIELDS, see Predecoded."""


class SerialFetch(Component):
    """Fetches an instruction for each redirect: its group is that one instruction, and ``pc`` its
    own address. No control code is read, since all of it is about instructions that are under way
    together. ::

        IDLE --> LOCATE_INSTRUCTION --> LOOK_UP_INSTRUCTION --> DECODE
         |                                                        |
         | indexed request                                        v
         +---------------------------------------------------> NAME_BANK --> READ_BANK
                                                                                 |
                +----------------- no constant operand -------------------------+
                v                                                                v
              SEND <----------- LOOK_UP_CONSTANT <----------------- LOCATE_CONSTANT
                                        |
              RESPOND <-----------------+ of an indexed request

    An indexed request has priority over the next instruction.

    Error: an instruction that memory does not have is REFUSED with MMU_FAULT. A constant is missing
    if its bank is not valid or ends below it, or if memory does not have it.

    Members
    -------
    grid, indexed, value, memory
        See FetchUnit.
    bank : In(Event of described_bank)
        A constant bank of the grid, before it runs.
    named : Out(ConstantBank)
        The bank that LDC names, if the last instruction that was fetched is one.
    redirect : In(Event of redirect)
        Requests the warp's instruction there; the next one only after its group.
    group : Out(Event of fetched_instruction)
    room, claimed : In(1 bit a warp), Out(Event of a warp)
        Of FetchUnit; unused, since nothing is fetched that was not requested.
    invalidate, busy : In(1), Out(1)
        The cache becomes empty: what is looked up after that comes from memory; it is about to.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._cache = BeatCache(params)
        self._predecoder = WalkingPredecoder(params.floats, params.doubles)
        self._requested = Signal(redirect(params))
        """Where the instruction is that was requested."""
        self._is_requested = Signal()
        """It was not sent yet."""
        self._word = self._predecoder.word
        self._has_fault = Signal()
        """Memory does not have the instruction."""
        self._is_indexed = Signal()
        """An indexed request is served, not an instruction."""
        self._locates_constant = self._cache.constant
        """The address is a constant's, not the instruction's."""
        self._constant = Signal(indexed_request())
        """The word of a constant bank that is requested."""
        self._bank_number = Signal(_BANK_BITS)
        """The bank that is read."""
        self._is_missing = Signal()
        """The constant is."""
        self._next_address = Signal(ADDRESS_BITS - _WORD_ALIGNED_BITS)
        self._address = Signal.like(self._next_address)
        """Of the word of 32 bits that is looked up."""
        self._is_out_of_bank = Signal()
        """The bank has no such word."""
        super().__init__({
            "grid": In(GridConfiguration),
            "bank": In(Event(described_bank())),
            "named": Out(ConstantBank),
            "redirect": In(Event(redirect(params))),
            "group": Out(Event(fetched_instruction(params))),
            "room": In(params.warps),
            "claimed": Out(Event(params.warp_bits)),
            "indexed": In(stream.Signature(indexed_request())),
            "value": Out(stream.Signature(indexed_response())),
            "invalidate": In(1),
            "busy": Out(1),
            "memory": Out(BeatPort(TAG_BITS)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cache = self._cache
        m.submodules.predecoder = self._predecoder
        self._connect_cache(m)
        self._connect_predecoder(m)
        self._keep_request(m)
        self._select_constant(m)
        self._keep_banks(m)
        self._locate(m)
        self._send_group(m)
        self._send_value(m)
        self._sequence(m)
        return m

    def _connect_cache(self, m: Module) -> None:
        """The cache is read in beats. The cache's output holds a constant's beat until it is
        sent."""
        cache = self._cache
        m.d.comb += cache.invalidate.eq(self.invalidate)
        m.d.comb += self.busy.eq(cache.busy)
        m.d.comb += cache.address.eq(self._address[-len(cache.address):])
        connect(m, cache.memory, flipped(self.memory))

    def _connect_predecoder(self, m: Module) -> None:
        m.d.comb += self._predecoder.registers.eq(self.grid.registers)

    def _keep_request(self, m: Module) -> None:
        """Keeps a redirect."""
        with m.If(self.redirect.valid):
            m.d.sync += self._is_requested.eq(1)
            m.d.sync += self._requested.eq(self.redirect.payload)
        m.d.sync += Assert(
            ~(self.redirect.valid & self._is_requested),
            "an instruction is requested before the last one was sent")

    def _select_constant(self, m: Module) -> None:
        """The word of a constant bank: of an indexed request, or the instruction's operand. An
        instruction without one has some bank here, too: LDC the one that it names."""
        constant = self._constant
        second_is_used = self._predecoder.predecoded.constant == _SECOND_PLACE
        (first_offset, first_bank), (second_offset, second_bank) = CONSTANT_FIELDS
        with m.If(self._is_indexed):
            m.d.comb += constant.eq(self.indexed.payload)
        with m.Elif(second_is_used):
            m.d.comb += constant.eq(self._operand(second_offset, second_bank))
        with m.Else():
            m.d.comb += constant.eq(self._operand(first_offset, first_bank))

    def _operand(self, offset: Field, bank: Field) -> Any:
        """The word of a constant bank whose offset and bank these fields of the instruction are."""
        return struct_value(
            indexed_request(),
            bank=field_of(self._word, bank),
            address=field_of(self._word, offset).as_unsigned() * offset.scale)

    def _keep_banks(self, m: Module) -> None:
        """The grid's constant banks. One is read a cycle after its number is known."""
        m.submodules.banks = banks = memory.Memory(
            shape=ConstantBank, depth=CONSTANT_BANKS, init=[], attrs=IN_BLOCKS)
        write = banks.write_port()
        read = banks.read_port(domain="comb")
        m.d.comb += write.en.eq(self.bank.valid)
        m.d.comb += write.addr.eq(self.bank.payload.number)
        m.d.comb += write.data.eq(self.bank.payload.bank)
        m.d.comb += read.addr.eq(self._bank_number)
        m.d.sync += self.named.eq(read.data)

    def _locate(self, m: Module) -> None:
        """The address of a word in memory, of the instruction or of a constant; and whether the
        bank, which was read, has that."""
        bank = self.named
        pc = instruction_address(self._requested.pc)
        aligned_pc = Cat(Const(0, _INSTRUCTION_ALIGNED_BITS), pc[_INSTRUCTION_ALIGNED_BITS:])
        base = Mux(self._locates_constant, bank.address, self.grid.program)
        offset = Mux(self._locates_constant, self._constant.address, aligned_pc)
        m.d.comb += self._next_address.eq(
            base[_WORD_ALIGNED_BITS:] + offset[_WORD_ALIGNED_BITS:])

        no_such_bank = self._constant.bank[_BANK_BITS:].any() | ~bank.valid
        offset_of_word = Cat(Const(0, _WORD_ALIGNED_BITS), offset[_WORD_ALIGNED_BITS:])
        m.d.comb += self._is_out_of_bank.eq(no_such_bank | (offset_of_word >= bank.size))

    def _send_group(self, m: Module) -> None:
        """The instruction, and its constant operand."""
        group = self.group.payload
        predecoded = self._predecoder.predecoded
        response = self.value.payload
        instruction = struct_value(
            FetchedInstruction,
            word=self._word,
            control=0,
            kind=Mux(self._has_fault, InstructionKind.REFUSED, predecoded.kind),
            quarter=predecoded.quarter,
            error=Mux(self._has_fault, WarpError.MMU_FAULT, predecoded.error),
            constant=response.value,
            constant_missing=response.missing)
        m.d.comb += group.eq(struct_value(
            group.shape(),
            warp=self._requested.warp,
            pc=instruction_address(self._requested.pc),
            first=0,
            instructions=instruction))

    def _send_value(self, m: Module) -> None:
        """The constant: one of the two words of a beat."""
        response = self.value.payload
        word = self._cache.word.word_select(self._address[0], len(response.value))
        m.d.comb += response.eq(struct_value(
            indexed_response(),
            value=Mux(self._is_missing, 0, word),
            missing=self._is_missing))

    def _sequence(self, m: Module) -> None:
        """What happens when."""
        with m.FSM():
            with m.State("IDLE"):
                # An indexed request, which has no instruction, gets a word without operands.
                m.d.sync += self._word.eq(0)
                m.d.sync += self._has_fault.eq(0)
                m.d.sync += self._is_missing.eq(0)
                m.d.sync += self._locates_constant.eq(0)
                m.d.sync += self._is_indexed.eq(self.indexed.valid)
                with m.If(self.indexed.valid):
                    m.next = "NAME_BANK"
                with m.Elif(self._is_requested):
                    m.next = "LOCATE_INSTRUCTION"
            self._instruction_states(m)
            self._bank_states(m)
            self._constant_states(m)
            with m.State("RESPOND"):
                m.d.comb += self.value.valid.eq(1)
                with m.If(self.value.ready):
                    m.next = "IDLE"
            with m.State("SEND"):
                m.d.comb += self.group.valid.eq(1)
                m.d.sync += self._is_requested.eq(0)
                m.next = "IDLE"

    def _instruction_states(self, m: Module) -> None:
        """LOCATE_INSTRUCTION, LOOK_UP_INSTRUCTION, DECODE."""
        cache = self._cache
        with m.State("LOCATE_INSTRUCTION"):
            m.d.sync += self._address.eq(self._next_address)
            m.next = "LOOK_UP_INSTRUCTION"
        with m.State("LOOK_UP_INSTRUCTION"):
            m.d.comb += cache.look.eq(1)
            with m.If(cache.found):
                m.d.sync += self._word.eq(cache.word)
                m.d.sync += self._has_fault.eq(cache.error)
                m.next = "DECODE"
        with m.State("DECODE"):
            m.d.comb += self._predecoder.works.eq(1)
            with m.If(self._predecoder.done):
                m.next = "NAME_BANK"

    def _bank_states(self, m: Module) -> None:
        """NAME_BANK, READ_BANK: for LDC, too, which has no constant operand here."""
        has_operand = self._predecoder.predecoded.constant.any() & ~self._has_fault
        with m.State("NAME_BANK"):
            m.d.sync += self._bank_number.eq(self._constant.bank)
            m.d.sync += self._locates_constant.eq(1)
            m.next = "READ_BANK"
        with m.State("READ_BANK"):
            with m.If(self._is_indexed | has_operand):
                m.next = "LOCATE_CONSTANT"
            with m.Else():
                m.next = "SEND"

    def _constant_states(self, m: Module) -> None:
        """LOCATE_CONSTANT, LOOK_UP_CONSTANT. A word that the bank does not have is not looked
        up."""
        cache = self._cache
        with m.State("LOCATE_CONSTANT"):
            m.d.sync += self._address.eq(self._next_address)
            m.d.sync += self._is_missing.eq(self._is_out_of_bank)
            m.next = "LOOK_UP_CONSTANT"
        with m.State("LOOK_UP_CONSTANT"):
            m.d.comb += cache.look.eq(~self._is_missing)
            with m.If(cache.found):
                m.d.sync += self._is_missing.eq(cache.error)
            with m.If(cache.found | self._is_missing):
                m.d.comb += self.indexed.ready.eq(self._is_indexed)
                with m.If(self._is_indexed):
                    m.next = "RESPOND"
                with m.Else():
                    m.next = "SEND"


_LDC_BANK = next(form.fields["bank"] for form in FORMS if form.name == "LDC")
assert len(CONSTANT_FIELDS) == _SECOND_PLACE
assert CONSTANT_FIELDS[0][1] == _LDC_BANK
