"""The constant resolver: reads the constant operands of groups."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Module, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.constant_banks import DRIVER_BANK, PARAMETER_BASE
from rtl.isa.control_code import CODE_BITS, GROUP_BYTES, GROUP_INSTRUCTIONS
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import (
    CONSTANT_BANKS,
    ConstantBank,
    Event,
    FetchedInstruction,
    fetched_group,
    indexed_request,
    indexed_response,
    redirect,
)
from rtl.params import SmParams
from rtl.pick import pick
from rtl.structs import struct_value
from rtl.word import field_of

from .constants import ConstantCache
from .predecode import CONSTANT_FIELDS
from .records import (
    LineLoaderPort,
    cache_line,
    constant_lookup,
    fetched,
    group_constants,
    located_constant,
    resolved_group,
)

__all__ = ["ConstantResolver"]

PRELOADED = (0, PARAMETER_BASE)
"""Addresses in bank DRIVER_BANK whose lines are requested when a grid begins: the driver's words,
with the stack pointer, which compiled code reads first; and the kernel's parameters."""
_LINE_BYTES_BITS = (LINE_BYTES - 1).bit_length()
_WORD_BYTES = 4
_WORD_BYTES_BITS = (_WORD_BYTES - 1).bit_length()
_BANK_BITS = (CONSTANT_BANKS - 1).bit_length()
_GROUP_BYTES_BITS = (GROUP_BYTES - 1).bit_length()


class ConstantResolver(Component):
    """Reads the constant operands of groups before they are sent to issue, a word a cycle. ::

                            +-------------------- bypass -----------------------+
                            |                                                   v
        fetched --------> CHOOSE --> BANK --> READ --> COMPARE --> collected --> group
        indexed ----------^                    |          ^     \\
                                               v          |      +--> value
                                            CONSTANT CACHE (two cycles)

    =======  ======================================================================
    stage    what is known at its end
    =======  ======================================================================
    CHOOSE   the word to look up: that of ``indexed``, or else that of the lowest
             instruction of the waiting group that still needs one
    BANK     the word's address, which is sent to the cache; whether the word is in
             its bank
    READ     the cache's tag and word
    COMPARE  hit or miss; the group leaves with its last word
    =======  ======================================================================

    Hit: a group with n words leaves n + 4 cycles after it was accepted; groups follow each other
    without a gap. A group without words takes the bypass if no other group is in the resolver: it
    leaves one cycle after it was accepted.

    Miss: BANK, READ and COMPARE stall until the line has arrived. Meanwhile the cache is read for
    the words in COMPARE and in READ in turn, so that both words are known when the pipeline
    advances. The miss is repeated in every other cycle.

    Priority: words of ``indexed`` before words of the group.

    Preload: when the cache has become empty, the lines of PRELOADED are requested, one after the
    other, while no word misses.

    Redirect: the warp's groups are squashed in all stages. Their lookups continue, so a miss still
    stalls the pipeline until its line has arrived. Only a group without constants can overtake it,
    by the bypass.

    Members
    -------
    banks : In(constant banks)
    fetched : In(stream of fetched)
    redirect : In(Event of redirect)
        Squashes the groups of this warp.
    group : Out(Event of fetched_group)
    indexed, value : In(stream of indexed_request), Out(stream of indexed_response)
        Words for another client, one at a time.
    begins : In(1)
        The cache has become empty.
    loader, clear
        See ConstantCache.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._cache = ConstantCache(params)
        super().__init__({
            "banks": In(data.ArrayLayout(ConstantBank, CONSTANT_BANKS)),
            "fetched": In(stream.Signature(fetched(params))),
            "redirect": In(Event(redirect(params))),
            "group": Out(Event(fetched_group(params))),
            "indexed": In(stream.Signature(indexed_request())),
            "value": Out(stream.Signature(indexed_response())),
            "begins": In(1),
            "loader": Out(LineLoaderPort()),
            "clear": In(Event(cache_line(params))),
        })
        # BANK, READ and COMPARE accept a new lookup in this cycle.
        self._advances = Signal()

        # CHOOSE: the waiting group; its instructions that still need a word; the chosen lookup.
        self._waiting: Any = Event(fetched(params)).create(path=("waiting",))
        self._unresolved = Signal(GROUP_INSTRUCTIONS)
        self._chosen: Any = Signal(constant_lookup(params))
        # The position in PRELOADED of the next line to request; none if it is len(PRELOADED).
        self._preload = Signal(range(len(PRELOADED) + 1), init=len(PRELOADED))
        # A word for ``indexed`` is outstanding: chosen, and not yet accepted by the client.
        self._is_outstanding = Signal()

        # The registers of the stages; _located is the result of BANK.
        self._bank: Any = Signal(constant_lookup(params))
        self._located: Any = Signal(located_constant(params))
        self._read: Any = Signal(located_constant(params))
        self._compared: Any = Signal(located_constant(params))

        # COMPARE: the word; the group's words so far, without this one; and with this one.
        self._constant: Any = Signal(indexed_response())
        self._collected: Any = Signal(group_constants())
        self._constants: Any = Signal(group_constants())

        # The arriving group takes the bypass.
        self._bypasses = Signal()
        # The register of the group that leaves, with all its constants.
        self._resolved: Any = Event(resolved_group(params)).create(path=("resolved",))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._connect_cache(m)
        self._request_preloads(m)
        self._choose(m)
        self._accept(m)
        self._advance(m, self._chosen, self._bank)
        self._locate(m)
        self._advance(m, self._located, self._read)
        self._advance(m, self._read, self._compared)
        self._compare(m)
        self._collect(m)
        self._answer(m)
        self._leave(m)
        self._send(m)
        return m

    def _connect_cache(self, m: Module) -> None:
        """The constant cache's ports to the loader, and for clearing it."""
        cache = self._cache
        m.submodules.cache = cache
        connect(m, cache.loader, flipped(self.loader))
        connect(m, flipped(self.clear), cache.clear)

    def _request_preloads(self, m: Module) -> None:
        """Requests the lines that most kernels read first, if the bank has them."""
        bank = self.banks[DRIVER_BANK]
        request = self._cache.preload
        address = Array(PRELOADED)[self._preload]
        is_due = self._preload != len(PRELOADED)
        is_in_bank = bank.valid & (address < bank.size)
        m.d.comb += request.valid.eq(is_due & is_in_bank)
        m.d.comb += request.payload.eq((bank.address + address) >> _LINE_BYTES_BITS)
        with m.If(self.begins):
            m.d.sync += self._preload.eq(0)
        with m.Elif(is_due & (request.ready | ~is_in_bank)):
            m.d.sync += self._preload.eq(self._preload + 1)

    def _is_squashed(self, valid: Value, group: Any) -> Any:
        """Whether a valid group's warp is redirected in this cycle."""
        return valid & self.redirect.valid & (self.redirect.payload.warp == group.lookup.warp)

    def _advance(self, m: Module, arriving: Any, stage: Any) -> None:
        """The register of a stage. A squashed group loses ``is_last`` and so does not leave."""
        with m.If(self._is_squashed(stage.reader.is_last, stage.reader.group)):
            m.d.sync += stage.reader.is_last.eq(0)
        with m.If(self._advances):
            m.d.sync += stage.eq(arriving)
            with m.If(self._is_squashed(arriving.reader.is_last, arriving.reader.group)):
                m.d.sync += stage.reader.is_last.eq(0)

    def _choose(self, m: Module) -> None:
        """CHOOSE: selects the next word."""
        chosen = self._chosen
        reader = chosen.reader
        has_indexed = self.indexed.valid & ~self._is_outstanding
        m.d.comb += self.indexed.ready.eq(self._advances & ~self._is_outstanding)
        m.d.comb += reader.valid.eq(has_indexed | (self._waiting.valid & self._unresolved.any()))
        m.d.comb += reader.is_indexed.eq(has_indexed)
        m.d.comb += reader.group.eq(self._waiting.payload)
        with m.If(has_indexed):
            m.d.comb += chosen.word.eq(self.indexed.payload)
        for slot in range(GROUP_INSTRUCTIONS):
            with m.Elif(self._unresolved[slot]):
                m.d.comb += reader.slot.eq(slot)
                self._read_operand(m, self._waiting.payload.group.instructions[slot])

    def _read_operand(self, m: Module, instruction: Any) -> None:
        """Bank and address of the instruction's constant operand. A fixed address has 16 bits."""
        word = self._chosen.word
        for number, (offset, bank) in enumerate(CONSTANT_FIELDS):
            address = field_of(instruction.word, offset).as_unsigned() * offset.scale
            with m.If(instruction.predecoded.constant == number + 1):
                m.d.comb += word.address.eq(address)
                m.d.comb += word.bank.eq(field_of(instruction.word, bank))

    def _accept(self, m: Module) -> None:
        """CHOOSE: holds the waiting group until its last word is chosen, and then accepts the next
        one."""
        arriving = self.fetched.payload
        instructions = arriving.group.instructions
        reader = self._chosen.reader
        waiting = self._waiting
        others = self._unresolved & (self._unresolved - 1)
        rest = Signal(GROUP_INSTRUCTIONS)
        with m.If(reader.is_indexed):
            m.d.comb += rest.eq(self._unresolved)
        with m.Else():
            m.d.comb += rest.eq(others)
        m.d.comb += reader.is_last.eq(self._advances & waiting.valid & ~rest.any())
        m.d.comb += self.fetched.ready.eq(~waiting.valid | reader.is_last)

        with m.If(self.fetched.ready):
            m.d.sync += waiting.valid.eq(self.fetched.valid & ~self._bypasses)
            m.d.sync += waiting.payload.eq(arriving)
            m.d.sync += self._unresolved.eq(
                Cat(instruction.predecoded.constant != 0 for instruction in instructions))
        with m.Elif(self._is_squashed(waiting.valid, waiting.payload)):
            m.d.sync += waiting.valid.eq(0)
        with m.Elif(self._advances):
            m.d.sync += self._unresolved.eq(rest)

    def _locate(self, m: Module) -> None:
        """BANK: computes the word's address in memory, and whether the word is in its bank."""
        lookup = self._bank
        bank: Any = Signal(ConstantBank)
        banks = (each.as_value() for each in self.banks)
        m.d.comb += bank.eq(pick(banks, lookup.word.bank[:_BANK_BITS]))
        word = lookup.word.address[_WORD_BYTES_BITS:]
        words = (bank.size + _WORD_BYTES - 1) >> _WORD_BYTES_BITS
        has_no_bank = lookup.word.bank[_BANK_BITS:].any() | ~bank.valid
        m.d.comb += self._located.eq(struct_value(
            located_constant(self._params),
            reader=lookup.reader,
            address=bank.address[_WORD_BYTES_BITS:] + word,
            is_missing=has_no_bank | (word >= words)))

    def _compare(self, m: Module) -> None:
        """COMPARE: whether the cache has the word; and the address that the cache reads next.

        The cache answers two cycles after its address. Normally the address is that of the word in
        BANK, and the answer is valid when this word is in COMPARE. The table shows a miss in cycle
        0, if the line is in the cache in cycle 2::

            cycle           0          1 (rereads)        2          3
            address of      COMPARE    READ               BANK       BANK
            answer for      COMPARE    READ, ignored      COMPARE    COMPARE, in READ before
            advances        no         no                 yes        yes

        If the line is not in the cache in cycle 2, that cycle is a cycle 0 again.
        """
        cache = self._cache
        compared = self._compared
        reader = compared.reader
        constant = self._constant
        misses = Signal()
        rereads = Signal()
        m.d.comb += misses.eq(reader.valid & ~compared.is_missing & ~cache.hit & ~rereads)
        m.d.sync += rereads.eq(misses)
        m.d.comb += self._advances.eq(~misses & ~rereads)
        m.d.comb += cache.wanted.eq(misses & ~cache.loader.filled)
        with m.If(misses):
            m.d.comb += cache.address.eq(compared.address)
        with m.Elif(rereads):
            m.d.comb += cache.address.eq(self._read.address)
        with m.Else():
            m.d.comb += cache.address.eq(self._located.address)

        m.d.comb += constant.missing.eq(compared.is_missing | cache.error)
        with m.If(~constant.missing):
            m.d.comb += constant.value.eq(cache.value)

    def _collect(self, m: Module) -> None:
        """COMPARE: collects the words of the group."""
        reader = self._compared.reader
        m.d.comb += self._constants.eq(self._collected)
        with m.If(reader.valid & ~reader.is_indexed):
            m.d.comb += self._constants[reader.slot].eq(self._constant)
        with m.If(self._advances):
            m.d.sync += self._collected.eq(self._constants)
            with m.If(reader.is_last):
                m.d.sync += self._collected.eq(0)

    def _answer(self, m: Module) -> None:
        """Sends the word for ``indexed``. The next one is chosen after the client has accepted
        it."""
        reader = self._compared.reader
        is_read = Signal()
        m.d.comb += is_read.eq(self._advances & reader.valid & reader.is_indexed)
        with m.If(self.value.valid & self.value.ready):
            m.d.sync += self.value.valid.eq(0)
            m.d.sync += self._is_outstanding.eq(0)
        with m.If(self.indexed.valid & self.indexed.ready):
            m.d.sync += self._is_outstanding.eq(1)
        with m.If(is_read):
            m.d.sync += self.value.valid.eq(1)
            m.d.sync += self.value.payload.eq(self._constant)
        m.d.sync += Assert(
            ~is_read | (self._is_outstanding & ~self.value.valid), "a word that nobody requested")

    def _leave(self, m: Module) -> None:
        """Selects the group that leaves: the one with its last word in COMPARE. An arriving group
        takes the bypass if it needs no word and no other group is in the resolver."""
        arriving = self.fetched.payload
        instructions = arriving.group.instructions
        reader = self._compared.reader
        groups_in_stages = Cat(
            self._bank.reader.is_last, self._read.reader.is_last, reader.is_last)
        has_constants = Cat(instruction.predecoded.constant != 0 for instruction in instructions)
        leaving: Any = Event(fetched(self._params)).create(path=("leaving",))
        m.d.comb += self._bypasses.eq(
            ~self._waiting.valid & ~groups_in_stages.any() & ~has_constants.any())
        with m.If(self._bypasses):
            m.d.comb += leaving.valid.eq(self.fetched.valid)
            m.d.comb += leaving.payload.eq(arriving)
        with m.Else():
            m.d.comb += leaving.valid.eq(self._advances & reader.is_last)
            m.d.comb += leaving.payload.eq(reader.group)
        is_squashed = self._is_squashed(leaving.valid, leaving.payload)
        m.d.sync += self._resolved.valid.eq(leaving.valid & ~is_squashed)
        m.d.sync += self._resolved.payload.eq(struct_value(
            resolved_group(self._params), fetched=leaving.payload, constants=self._constants))

    def _send(self, m: Module) -> None:
        """Sends the group with all its constants."""
        resolved = self._resolved
        lookup = resolved.payload.fetched.lookup
        instructions = (self._resolved_instruction(slot) for slot in range(GROUP_INSTRUCTIONS))
        is_squashed = self._is_squashed(resolved.valid, resolved.payload.fetched)
        m.d.comb += self.group.valid.eq(resolved.valid & ~is_squashed)
        m.d.comb += self.group.payload.eq(struct_value(
            fetched_group(self._params),
            warp=lookup.warp,
            pc=lookup.place.group << _GROUP_BYTES_BITS,
            first=lookup.place.first,
            instructions=Cat(instructions)))

    def _resolved_instruction(self, slot: int) -> Any:
        """An instruction of the group with its constant. The slot of an instruction that reads no
        constant may contain a word of a squashed group, so ``missing`` is masked."""
        group = self._resolved.payload.fetched.group
        stored = group.instructions[slot]
        constant = self._resolved.payload.constants[slot]
        reads_constant = stored.predecoded.constant != 0
        return struct_value(
            FetchedInstruction,
            word=stored.word,
            control=group.codes.word_select(slot, CODE_BITS),
            kind=stored.predecoded.kind,
            quarter=stored.predecoded.quarter,
            error=stored.predecoded.error,
            constant=constant.value,
            constant_missing=reads_constant & constant.missing)
