"""The instructions that wait, in memories, from which they are sent to their warps and to the
units."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.layouts import Event, InstructionKind, fetched_group
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.sweep import Sweep
from rtl.words import Words

from .decode import IssueDecoder, StoredInstruction
from .records import BUFFERED_GROUPS, Effects, Place, Requirements

__all__ = ["InstructionStore"]

_WORD_AT = (INSTRUCTION_BYTES - 1).bit_length()
_GROUP_AT = (GROUP_BYTES - 1).bit_length()
_LAST = GROUP_INSTRUCTIONS - 1
_IN_LUTS = 16
"""Warps, at most, whose instructions are in LUT memory."""

_ISSUED = data.StructLayout({
    "number": range(GROUP_INSTRUCTIONS),
    "is_injected": 1,
    "leaves_trap": 1,
})
"""What is read in S1: an instruction's place in its group, or what is injected instead."""


class InstructionStore(Component):
    """Two groups of each warp, decoded: a memory for each instruction of a group, read by the
    number of a warp; beside them, where each warp's next instruction is. ::

        group --> decoders --> requirements --+--> following --+--> bus, to a warp
                     |                        '----------------'
                     +-------> effects --------------------------> effects, to a warp    (S1)
                     '-------> instructions, pc --> register ----> instruction, pc       (S2)

    A warp's groups are written to its two entries alternately.

    Members
    -------
    group : In(Event of fetched_group)
    warp : In
        The warp that was selected in the cycle before.
    is_injected, leaves_trap : In(1), In(1)
        An ENTER or LEAVE issues in place of the instruction; it is a LEAVE.
    effects : Out(Effects)
        What becomes of that warp.
    instruction, pc : Out(StoredInstruction), Out(32)
        What it issues, with its own address; a cycle later.
    following_warp, following : In, Out(Requirements)
        A warp; the instruction after the last one that this warp has taken from the bus.
    bus_has_arriving : In(1)
        The bus has the first instruction of the ``group``, not ``following``.
    bus, bus_ends_group : Out(Requirements), Out(1)
        That instruction; it is the last one of its group.
    bus_is_taken : In(1)
        Its warp takes it.

    Attributes
    ----------
    requirements, effects_of, instructions : list of Memory
        What is stored, a memory for each instruction of a group.
    pcs : Memory
        Groups' addresses, without the bits that count bytes.
    entries : Words
        By warp: the entry for its next group.
    places : Words
        Of each warp, ``here``: where the last instruction is that it has taken, and ``next``: the
        one after that.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "group": In(Event(fetched_group(params))),
            "warp": In(params.warp_bits),
            "is_injected": In(1),
            "leaves_trap": In(1),
            "effects": Out(Effects),
            "instruction": Out(StoredInstruction),
            "pc": Out(32),
            "following_warp": In(params.warp_bits),
            "following": Out(Requirements),
            "bus_has_arriving": In(1),
            "bus": Out(Requirements),
            "bus_ends_group": Out(1),
            "bus_is_taken": In(1),
        })
        self.decoders = [IssueDecoder(params) for _ in range(GROUP_INSTRUCTIONS)]
        self.sweep = Sweep(params.warps)
        self.entries = Words(1, params.warps, self.sweep)
        self.places = Words(data.StructLayout({"here": Place, "next": Place}), params.warps)
        self.pcs = self._column(32 - _GROUP_AT)
        self.requirements = [self._column(Requirements) for _ in range(GROUP_INSTRUCTIONS)]
        self.effects_of = [self._column(Effects) for _ in range(GROUP_INSTRUCTIONS)]
        self.instructions = [self._column(StoredInstruction) for _ in range(GROUP_INSTRUCTIONS)]

        self._entry = Signal(range(BUFFERED_GROUPS))
        """The entry for the group that arrives."""
        self._here: Any = Signal(Place)
        """Where the instruction is that issues."""
        self._next: Any = Signal(Place)
        """Where ``following`` is."""
        self._issuing: Any = Signal(_ISSUED)
        self._issued: Any = Signal(_ISSUED)
        """What issues in S1, and the same in S2."""

    def _column(self, shape: Any) -> memory.Memory:
        """A memory for something of each group."""
        return memory.Memory(shape=shape, depth=BUFFERED_GROUPS * self._params.warps, init=[])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = self.sweep
        m.submodules.entries = self.entries
        m.submodules.places = self.places
        self._add_memories(m)
        self._write_group(m)
        self._follow_places(m)
        self._drive_bus(m)
        self._leave(m)
        return m

    def _add_memories(self, m: Module) -> None:
        m.submodules.pc_0 = self.pcs
        for number, decoder in enumerate(self.decoders):
            m.submodules[f"decoder_{number}"] = decoder
            m.submodules[f"requirements_{number}"] = self.requirements[number]
            m.submodules[f"effects_{number}"] = self.effects_of[number]
            m.submodules[f"instruction_{number}"] = self.instructions[number]

    def _write_group(self, m: Module) -> None:
        """A group is decoded and stored."""
        group = self.group.payload
        self._write(m, self.pcs, group.pc[_GROUP_AT:])
        for number, decoder in enumerate(self.decoders):
            m.d.comb += decoder.fetched.eq(group.instructions[number])
            self._write(m, self.requirements[number], decoder.requirements)
            self._write(m, self.effects_of[number], decoder.effects)
            self._write(m, self.instructions[number], decoder.stored)

    def _write(self, m: Module, column: memory.Memory, value: Any) -> None:
        port = column.write_port()
        m.d.comb += port.en.eq(self.group.valid)
        m.d.comb += port.addr.eq(Cat(self._entry, self.group.payload.warp))
        m.d.comb += port.data.eq(value)

    def _read(self, m: Module, column: memory.Memory, warp: Any, place: Any,
              domain: str = "comb") -> Value:
        """What a column has of the group at a place."""
        port = column.read_port(domain=domain)
        m.d.comb += port.addr.eq(Cat(place.entry, warp))
        return Value.cast(port.data)

    def _follow_places(self, m: Module) -> None:
        """Where each warp is in its groups."""
        group = self.group.payload
        taken: Any = Signal(Place)
        next_: Any = Signal(Place)
        m.d.comb += self._entry.eq(self.entries.read(m, group.warp))
        m.d.comb += self._here.eq(self.places.read(m, self.warp).here)
        m.d.comb += self._next.eq(self.places.read(m, self.following_warp).next)
        self.entries.write(m, self.group.valid, group.warp, ~self._entry)

        with m.If(self.bus_has_arriving):
            m.d.comb += taken.eq(struct_value(Place, entry=self._entry, number=group.first))
        with m.Else():
            m.d.comb += taken.eq(self._next)
        m.d.comb += self.bus_ends_group.eq(taken.number == _LAST)
        with m.If(self.bus_ends_group):
            m.d.comb += next_.entry.eq(~taken.entry)
        with m.Else():
            m.d.comb += next_.entry.eq(taken.entry)
            m.d.comb += next_.number.eq(taken.number + 1)
        taker = Mux(self.bus_has_arriving, group.warp, self.following_warp)
        self.places.write(m, self.bus_is_taken, taker, {"here": taken, "next": next_})

    def _drive_bus(self, m: Module) -> None:
        """What the bus has: from a memory, or from the decoders."""
        stored = [
            self._read(m, column, self.following_warp, self._next) for column in self.requirements]
        arriving = [decoder.requirements.as_value() for decoder in self.decoders]
        m.d.comb += self.following.eq(Array(stored)[self._next.number])
        m.d.comb += self.bus.eq(self.following)
        with m.If(self.bus_has_arriving):
            m.d.comb += self.bus.eq(Array(arriving)[self.group.payload.first])

    def _leave(self, m: Module) -> None:
        """What becomes of the warp that was selected; a cycle later, what leaves. With few warps
        that is chosen before a register; with many in front of it, since the register is the
        memory's own."""
        here = self._here
        effects = [self._read(m, column, self.warp, here) for column in self.effects_of]
        m.d.comb += self.effects.eq(Array(effects)[here.number])
        m.d.comb += self._issuing.eq(struct_value(
            _ISSUED, number=here.number, is_injected=self.is_injected,
            leaves_trap=self.leaves_trap))
        m.d.sync += self._issued.eq(self._issuing)

        if self._params.warps <= _IN_LUTS:
            words = [self._read(m, column, self.warp, here) for column in self.instructions]
            m.d.sync += self.instruction.eq(self._choose(m, words, self._issuing))
        else:
            words = [self._read(m, column, self.warp, here, "sync") for column in self.instructions]
            m.d.comb += self.instruction.eq(self._choose(m, words, self._issued))

        group_pc = self._read(m, self.pcs, self.warp, here, "sync")
        word_number = self._issued.number + 1      # number 0 is the control word
        m.d.comb += self.pc.eq(
            Cat(Const(0, _WORD_AT), word_number[:_GROUP_AT - _WORD_AT], group_pc))

    def _choose(self, m: Module, words: list[Value], leaving: Any) -> Any:
        """An instruction of a group, or what is injected in its place."""
        chosen: Any = Signal(StoredInstruction)
        m.d.comb += chosen.eq(Array(words)[leaving.number])
        with m.If(leaving.is_injected):
            m.d.comb += chosen.word.eq(0)
            m.d.comb += chosen.quarter.eq(0)
            m.d.comb += chosen.constant_missing.eq(0)
            m.d.comb += chosen.is_predicted.eq(0)
            m.d.comb += chosen.is_unconditional.eq(0)
            m.d.comb += chosen.kind.eq(InstructionKind.ENTER)
            with m.If(leaving.leaves_trap):
                m.d.comb += chosen.kind.eq(InstructionKind.LEAVE)
        return chosen


assert GROUP_INSTRUCTIONS < 1 << _GROUP_AT - _WORD_AT
