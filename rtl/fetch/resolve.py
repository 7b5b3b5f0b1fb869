"""Constant operands: the last stages of fetch."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import CODE_BITS, GROUP_BYTES, GROUP_INSTRUCTIONS
from rtl.layouts import (
    CONSTANT_BANKS,
    ConstantBank,
    Event,
    fetched_group,
    indexed_request,
    indexed_response,
    redirect,
)
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.pick import pick
from rtl.word import field_of

from .constants import WORD_ADDRESS_BITS, ConstantCache
from .loader import line_part
from .predecode import CONSTANT_FIELDS
from .records import fetched, lookup

__all__ = ["ConstantResolver"]

_WORD_BYTES_BITS = 2
_BANK_BITS = (CONSTANT_BANKS - 1).bit_length()


class ConstantResolver(Component):
    """Reads the constant operands of groups that pass, a word a cycle. A word that is not in the cache stops all.

    A group without constant operands leaves at once, if no other is here.

    ===========  ==============================================================
    stage        what happens
    ===========  ==============================================================
    choose       a word is chosen, of the group that waits here or of ``indexed``
    bank         its address, for the cache to read, and whether the bank has it
    read         what the cache has there is compared
    last         hit, or wait; the group leaves with its last word
    ===========  ==============================================================

    Members
    -------
    banks : In(constant banks)
    fetched : In(stream of fetched)
    redirect : In(Event of redirect)
        Groups of that warp that are here count for nothing.
    group : Out(Event of fetched_group)
    indexed, value : In(stream of indexed_request), Out(stream of indexed_response)
        Other words; they go first. One at a time.
    miss, free, part, filled, clearing, cleared
        See ConstantCache.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._cache = ConstantCache(params)
        self.lines = self._cache.lines
        """Lines in the cache."""
        super().__init__({
            "banks": In(data.ArrayLayout(ConstantBank, CONSTANT_BANKS)),
            "fetched": In(stream.Signature(fetched(params))),
            "redirect": In(Event(redirect(params))), "group": Out(Event(fetched_group(params))),

            "indexed": In(stream.Signature(indexed_request())), "value": Out(stream.Signature(indexed_response())),
            "miss": Out(data.StructLayout({"valid": 1, "line": LINE_ADDRESS_BITS})), "free": In(1),
            "part": In(line_part()), "filled": Out(1), "clearing": In(1), "cleared": In(range(self.lines))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cache = cache = self._cache
        m.d.comb += [
            self.miss.eq(cache.miss), cache.free.eq(self.free), cache.part.eq(self.part),
            self.filled.eq(cache.filled), cache.clearing.eq(self.clearing), cache.cleared.eq(self.cleared)]
        going = Signal()        # no stage behind the first one waits

        # Choose.
        here: Any = Signal(self.fetched.payload.shape())
        waiting = Signal()
        todo, rest = Signal(GROUP_INSTRUCTIONS), Signal(GROUP_INSTRUCTIONS)
        chosen: Any = Signal(lookup())
        leaves = Signal()
        answering, skips = Signal(), Signal()
        arriving = self.fetched.payload
        constants = Cat(instruction.predecoded.constant != 0 for instruction in arriving.group.instructions)
        m.d.comb += [
            self.indexed.ready.eq(going & ~answering), chosen.indexed.eq(self.indexed.valid & ~answering),
            chosen.valid.eq(chosen.indexed | waiting & todo.any()), rest.eq(todo & (todo - 1)),
            leaves.eq(going & waiting & Mux(chosen.indexed, ~todo.any(), ~rest.any())),
            self.fetched.ready.eq(~waiting | leaves)]
        with m.If(chosen.indexed):
            m.d.comb += [chosen.bank.eq(self.indexed.payload.bank), chosen.address.eq(self.indexed.payload.address)]
        with m.Else():
            for slot in reversed(range(GROUP_INSTRUCTIONS)):
                with m.If(todo[slot]):
                    m.d.comb += chosen.slot.eq(slot)
                    self._operand(m, here.group.instructions[slot], chosen)
        with m.If(self._stale(waiting, here) | leaves):
            m.d.sync += waiting.eq(0)
        with m.Elif(going & ~chosen.indexed):
            m.d.sync += todo.eq(rest)
        with m.If(self.fetched.ready):
            m.d.sync += [waiting.eq(self.fetched.valid & ~skips), here.eq(arriving), todo.eq(constants)]

        # Bank.
        bank_lookup, bank_group, bank_leaves = self._stage(m, going, chosen, here, leaves)
        bank: Any = Signal(ConstantBank)
        word = bank_lookup.address[_WORD_BYTES_BITS:]
        words = (bank.size + (1 << _WORD_BYTES_BITS) - 1) >> _WORD_BYTES_BITS
        m.d.comb += bank.eq(pick((self.banks[number].as_value() for number in range(CONSTANT_BANKS)),
                               bank_lookup.bank[:_BANK_BITS]))
        address, read_address, last_address = (Signal(WORD_ADDRESS_BITS, name=name) for name in (
            "address", "read_address", "last_address"))
        missing, last_missing, again = Signal(), Signal(), Signal()
        m.d.comb += address.eq(bank.address[_WORD_BYTES_BITS:] + word)
        with m.If(going):
            m.d.sync += [
                read_address.eq(address), last_address.eq(read_address), last_missing.eq(missing),
                missing.eq(bank_lookup.bank[_BANK_BITS:].any() | ~bank.valid | (word >= words))]

        # Read.
        read_lookup, read_group, read_leaves = self._stage(m, going, bank_lookup, bank_group, bank_leaves)

        # Last. While its word is not there, both this one and the one behind it are looked up again and again.
        last_lookup, last_group, last_leaves = self._stage(m, going, read_lookup, read_group, read_leaves)
        needs = last_lookup.valid & ~last_missing & ~cache.hit & ~again
        constant = Signal(indexed_response())
        m.d.sync += again.eq(needs)
        m.d.comb += [
            cache.address.eq(Mux(needs, last_address, Mux(again, read_address, address))),
            going.eq(~(needs | again)), cache.wanted.eq(needs & ~cache.filled),
            constant.missing.eq(last_missing | cache.error),
            constant.value.eq(Mux(constant.missing, 0, cache.value))]

        values = Signal(data.ArrayLayout(indexed_response(), GROUP_INSTRUCTIONS))     # of the group, so far
        whole = Signal.like(values)
        m.d.comb += whole.eq(values)
        with m.If(last_lookup.valid & ~last_lookup.indexed):
            m.d.comb += whole[last_lookup.slot].eq(constant)
        with m.If(going):
            m.d.sync += values.eq(Mux(last_leaves, 0, whole.as_value()))
        self._answer(m, answering, going & last_lookup.valid & last_lookup.indexed, constant)
        leaving, leaver = Signal(), Signal.like(here)
        m.d.comb += [
            skips.eq(~(waiting | bank_leaves | read_leaves | last_leaves | constants.any())),
            leaving.eq(Mux(skips, self.fetched.valid, going & last_leaves)),
            leaver.eq(Mux(skips, arriving.as_value(), last_group.as_value()))]
        self._leave(m, leaving, leaver, whole)
        return m

    def _operand(self, m: Module, instruction: Any, chosen: Any) -> None:
        """Bank and address of the instruction's constant operand; an address alone has 16 bits."""
        for number, (offset, bank) in enumerate(CONSTANT_FIELDS):
            with m.If(instruction.predecoded.constant == number + 1):
                value = field_of(instruction.word, offset).as_unsigned() * offset.scale
                m.d.comb += [chosen.address.eq(value), chosen.bank.eq(field_of(instruction.word, bank))]

    def _stale(self, valid: Signal, group: Any) -> Any:
        """The group that is there counts for nothing."""
        return valid & self.redirect.valid & (self.redirect.payload.warp == group.warp)

    def _stage(self, m: Module, going: Signal, wanted: Any, group: Any,
               leaves: Signal) -> tuple[Any, Any, Signal]:
        """The lookup of the stage before, and the group that it is the last one of, in the next cycle."""
        next_wanted, next_group, next_leaves = Signal.like(wanted), Signal.like(group), Signal()
        with m.If(self._stale(next_leaves, next_group)):
            m.d.sync += next_leaves.eq(0)
        with m.If(going):
            m.d.sync += [
                next_wanted.eq(wanted), next_group.eq(group), next_leaves.eq(leaves & ~self._stale(leaves, group))]
        return next_wanted, next_group, next_leaves

    def _answer(self, m: Module, answering: Signal, done: Signal, constant: Any) -> None:
        """The word for the other client, and whether one is on its way."""
        with m.If(self.value.valid & self.value.ready):
            m.d.sync += [self.value.valid.eq(0), answering.eq(0)]
        with m.If(self.indexed.valid & self.indexed.ready):
            m.d.sync += answering.eq(1)
        with m.If(done):
            m.d.sync += [self.value.valid.eq(1), self.value.payload.eq(constant)]

    def _leave(self, m: Module, leaves: Signal, group: Any, constants: Any) -> None:
        """A group with all its constants, in the next cycle."""
        valid, left, values = Signal(), Signal.like(group), Signal.like(constants)
        m.d.sync += [valid.eq(leaves & ~self._stale(leaves, group)), left.eq(group), values.eq(constants)]
        out = self.group.payload
        m.d.comb += [
            self.group.valid.eq(valid & ~self._stale(valid, left)), out.warp.eq(left.warp),
            out.pc.eq(left.place.group << (GROUP_BYTES - 1).bit_length()), out.first.eq(left.place.first)]
        for slot in range(GROUP_INSTRUCTIONS):
            instruction, stored = out.instructions[slot], left.group.instructions[slot]
            m.d.comb += [
                instruction.word.eq(stored.word), instruction.kind.eq(stored.predecoded.kind),
                instruction.control.as_value().eq(left.group.codes.word_select(slot, CODE_BITS)),
                instruction.error.as_value().eq(stored.predecoded.error),
                instruction.quarter.eq(stored.predecoded.quarter),
                instruction.constant.eq(values[slot].value), instruction.constant_missing.eq(values[slot].missing)]
