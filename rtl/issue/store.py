"""The instructions that wait, in memories in LUTs, and the way from there to the warps and to the units."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import Event, InstructionKind, fetched_group
from rtl.params import SmParams

from .arrival import ArrivalDecoder
from .records import BUFFERED_GROUPS, Control, Head, Place

__all__ = ["GROUP_AT", "WORD_AT", "InstructionStore", "StoredInstruction"]

WORD_AT, GROUP_AT = ((size - 1).bit_length() for size in (INSTRUCTION_BYTES, GROUP_BYTES))


class StoredInstruction(data.Struct):
    """What is read of an instruction when it issues."""

    word: unsigned(WORD_BITS)
    kind: InstructionKind
    error: WarpError
    constant: unsigned(32)
    constant_missing: unsigned(1)
    write_barrier: unsigned(3)
    read_barrier: unsigned(3)
    control: Control


class InstructionStore(Component):
    """Two groups of each warp: a memory for each of the three instructions, read by the number of a warp.

    Members
    -------
    group : In(Event of fetched_group)
    entry : Out
        Where it goes.
    arriving : Out(Head)
        Of the instruction that the warp begins with.
    next_warp, next, head : In, In(Place), Out(Head)
        What decides when that instruction can issue.
    warp, place, instruction, pc : In, In(Place), Out(StoredInstruction), Out(32)
        An instruction, and its own address.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "group": In(Event(fetched_group(params))), "entry": Out(range(BUFFERED_GROUPS)), "arriving": Out(Head),
            "next_warp": In(params.warp_bits), "next": In(Place), "head": Out(Head), "warp": In(params.warp_bits),
            "place": In(Place), "instruction": Out(StoredInstruction), "pc": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        group = self.group.payload
        heads, instructions = [], []
        for number, fetched in enumerate(group.instructions):
            m.submodules[f"decoder_{number}"] = decoder = ArrivalDecoder()
            stored: Any = Signal(StoredInstruction, name=f"stored_{number}")
            m.d.comb += [
                decoder.instruction.eq(fetched), stored.word.eq(fetched.word), stored.kind.eq(fetched.kind),
                stored.error.eq(fetched.error), stored.constant.eq(fetched.constant),
                stored.constant_missing.eq(fetched.constant_missing),
                stored.write_barrier.eq(fetched.control.write_barrier), stored.read_barrier.eq(decoder.read_barrier),
                stored.control.eq(decoder.control)]
            heads.append(decoder.head)
            instructions.append(stored)

        m.submodules.entries = entries = memory.Memory(shape=1, depth=self._params.warps, init=[])
        entry, turned = entries.read_port(domain="comb"), entries.write_port()
        m.d.comb += [
            entry.addr.eq(group.warp), turned.addr.eq(group.warp), turned.data.eq(~entry.data),
            turned.en.eq(self.group.valid), self.entry.eq(entry.data),
            self.arriving.eq(Array(head.as_value() for head in heads)[group.first]),
            self.head.as_value().eq(self._columns(m, "head", heads, self.next_warp, self.next)),
            self.instruction.as_value().eq(self._columns(m, "instruction", instructions, self.warp, self.place))]
        (pc,) = self._memories(m, "pc", [group.pc[GROUP_AT:]], self.warp, self.place)
        m.d.comb += self.pc.eq(Cat(Const(0, WORD_AT), (self.place.number + 1)[:GROUP_AT - WORD_AT], pc))
        return m

    def _columns(self, m: Module, name: str, written: Sequence[Any], warp: Any, place: Any) -> Any:
        """What was stored of an instruction."""
        return Array(self._memories(m, name, written, warp, place))[place.number]

    def _memories(self, m: Module, name: str, written: Sequence[Any], warp: Any, place: Any) -> list[Any]:
        """What was stored of a group, in a memory for each part of it."""
        read = []
        for number, value in enumerate(written):
            bits = value.as_value() if isinstance(value, data.View) else value
            m.submodules[f"{name}_{number}"] = column = memory.Memory(
                shape=len(bits), depth=BUFFERED_GROUPS * self._params.warps, init=[])
            write, port = column.write_port(), column.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.group.valid), write.addr.eq(Cat(self.entry, self.group.payload.warp)),
                write.data.eq(bits), port.addr.eq(Cat(place.entry, warp))]
            read.append(port.data)
        return read


assert GROUP_INSTRUCTIONS < 1 << GROUP_AT - WORD_AT
