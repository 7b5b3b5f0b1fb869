"""The instructions that wait, in memories, and the way from there to the warps and to the units."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import Event, InstructionKind, fetched_group
from rtl.params import SmParams
from rtl.words import Words

from .arrival import ArrivalDecoder
from .records import BUFFERED_GROUPS, Control, Head, Place

__all__ = ["InstructionStore", "StoredInstruction"]

_WORD_AT, _GROUP_AT = ((size - 1).bit_length() for size in (INSTRUCTION_BYTES, GROUP_BYTES))


class StoredInstruction(data.Struct):
    """What leaves of an instruction when it issues."""

    word: unsigned(WORD_BITS)
    kind: InstructionKind
    error: WarpError
    constant: unsigned(32)
    constant_missing: unsigned(1)
    write_barrier: unsigned(3)
    read_barrier: unsigned(3)


class InstructionStore(Component):
    """Two groups of each warp: a memory for each of the three instructions, read by the number of a warp. What leaves
    is read by the clock, so that it may be in block RAM where there are many warps.

    Members
    -------
    group : In(Event of fetched_group)
    entry : Out
        Where it goes.
    arriving : Out(Head)
        Of the instruction that the warp begins with.
    next_warp, next, head : In, In(Place), Out(Head)
        What decides when that instruction can issue.
    warp, place, control : In, In(Place), Out(Control)
        What becomes of the warp when that instruction issues.
    instruction, pc : Out(StoredInstruction), Out(32)
        That instruction and its own address, a cycle later.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "group": In(Event(fetched_group(params))), "entry": Out(range(BUFFERED_GROUPS)), "arriving": Out(Head),
            "next_warp": In(params.warp_bits), "next": In(Place), "head": Out(Head), "warp": In(params.warp_bits),
            "place": In(Place), "control": Out(Control), "instruction": Out(StoredInstruction), "pc": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        group = self.group.payload
        heads, controls, instructions = [], [], []
        for number, fetched in enumerate(group.instructions):
            m.submodules[f"decoder_{number}"] = decoder = ArrivalDecoder()
            stored: Any = Signal(StoredInstruction, name=f"stored_{number}")
            pass_on(m, fetched, stored, "word", "kind", "error", "constant", "constant_missing")
            m.d.comb += [
                decoder.instruction.eq(fetched), stored.write_barrier.eq(fetched.control.write_barrier),
                stored.read_barrier.eq(decoder.read_barrier)]
            heads.append(decoder.head)
            controls.append(decoder.control)
            instructions.append(stored)

        m.submodules.entries = entries = Words(1, self._params.warps)
        entries.write(m, self.group.valid, group.warp, ~self.entry)
        left = Signal.like(self.place.number)
        m.d.sync += left.eq(self.place.number)
        m.d.comb += [
            self.entry.eq(entries.read(m, group.warp)),
            self.arriving.eq(Array(head.as_value() for head in heads)[group.first]),
            self.head.eq(Array(self._stored(m, "head", heads, self.next_warp, self.next))[self.next.number]),
            self.control.eq(Array(self._stored(m, "control", controls, self.warp, self.place))[self.place.number]),
            self.instruction.eq(Array(self._stored(m, "instruction", instructions, self.warp, self.place, "sync"))[
                left])]
        (pc,) = self._stored(m, "pc", [group.pc[_GROUP_AT:]], self.warp, self.place, "sync")
        m.d.comb += self.pc.eq(Cat(Const(0, _WORD_AT), (left + 1)[:_GROUP_AT - _WORD_AT], pc))
        return m

    def _stored(self, m: Module, name: str, written: Sequence[Any], warp: Any, place: Any, domain: str = "comb",
                ) -> list[Any]:
        """What was stored of a group, in a memory for each part of it."""
        read = []
        for number, value in enumerate(map(Value.cast, written)):
            m.submodules[f"{name}_{number}"] = column = memory.Memory(
                shape=len(value), depth=BUFFERED_GROUPS * self._params.warps, init=[])
            write, port = column.write_port(), column.read_port(domain=domain)
            m.d.comb += [
                write.en.eq(self.group.valid), write.addr.eq(Cat(self.entry, self.group.payload.warp)),
                write.data.eq(value), port.addr.eq(Cat(place.entry, warp))]
            read.append(port.data)
        return read


assert GROUP_INSTRUCTIONS < 1 << _GROUP_AT - _WORD_AT
