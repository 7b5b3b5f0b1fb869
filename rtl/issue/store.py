"""The instructions that wait, in memories, and the way from there to the warps and to the units."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES, NO_BARRIER, SCOREBOARDS
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS, Form
from rtl.isa.table import BY_NAME
from rtl.layouts import UNITS, ControlBits, Event, InstructionKind, fetched_group, is_kind
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.word import field_of
from rtl.words import Words

from .records import BUFFERED_GROUPS, COMPLETE, NEEDS, RESULTS, Control, Head, Place

__all__ = ["DEPENDENCY_FORMS", "InstructionStore", "StoredInstruction"]

DEPENDENCY_FORMS: dict[str, Form] = {form.variant: form for form in BY_NAME["DEPBAR"]}
"""The forms of DEPBAR: "zero", and "at_most" with a limit for one scoreboard."""
_SHORT = 2
"""Cycles between two instructions of a warp, at least."""
_LONGEST = (1 << ControlBits.as_shape()["stall"].width) - 1
"""The longest stall count."""
_WORD_AT, _GROUP_AT = ((size - 1).bit_length() for size in (INSTRUCTION_BYTES, GROUP_BYTES))
_LAST = GROUP_INSTRUCTIONS - 1
_IN_LUTS = 16
"""Warps, at most, whose instructions are in LUT memory."""


class StoredInstruction(data.Struct):
    """What leaves of an instruction when it issues."""

    word: unsigned(WORD_BITS)
    kind: InstructionKind
    quarter: unsigned(1)
    error: WarpError
    constant: unsigned(32)
    constant_missing: unsigned(1)
    write_barrier: unsigned(3)
    read_barrier: unsigned(3)


class InstructionStore(Component):
    """Two groups of each warp: a memory for each of the three instructions, read by the number of a warp; beside them,
    where each warp's next instruction is. What leaves is in registers, or in block RAM where there are many warps. What
    an instruction means for the scheduler is found out before it is stored.

    Members
    -------
    group : In(Event of fetched_group)
    warp : In
        Who was selected in the cycle before.
    control : Out(Control)
        What becomes of that warp.
    injected, leaves : In(1), In(1)
        What it issues is no instruction: something of kind LEAVE, or of kind ENTER.
    instruction, pc : Out(StoredInstruction), Out(32)
        That instruction and its own address, a cycle later.
    next_warp, behind : In, Out(Head)
        What decides when the instruction behind the last one that was brought to that warp can issue.
    busy, bus, last : In(1), Out(Head), Out(1)
        The same, or of the instruction that the warp of the ``group`` begins with; it is the last one of its group.
    brings : In(1)
        What is on the bus is brought to its warp.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "group": In(Event(fetched_group(params))), "warp": In(params.warp_bits), "control": Out(Control),
            "injected": In(1), "leaves": In(1), "last": Out(1), "instruction": Out(StoredInstruction), "pc": Out(32),
            "next_warp": In(params.warp_bits), "behind": Out(Head), "busy": In(1), "bus": Out(Head), "brings": In(1)})
        self.sweep = Sweep(params.warps)
        self.entries = Words(1, params.warps, self.sweep)
        """Of each warp, where its next group goes."""
        self.places = Words(data.StructLayout({"here": Place, "next": Place}), params.warps)
        """Where the last instruction is that was brought to it, and the one behind."""
        widths = {"pc": [32 - _GROUP_AT], **{
            name: [Shape.cast(shape).width] * GROUP_INSTRUCTIONS
            for name, shape in (("head", Head), ("control", Control), ("instruction", StoredInstruction))}}
        self.columns = {
            name: [memory.Memory(shape=width, depth=BUFFERED_GROUPS * params.warps, init=[]) for width in each]
            for name, each in widths.items()}
        """What is stored, by name: a memory for each instruction of a group, or one for all."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        group, warps = self.group.payload, self._params.warps
        heads, controls, instructions = zip(*(
            self._arrive(m, number, fetched) for number, fetched in enumerate(group.instructions)), strict=True)

        # Where: groups of a warp go to one entry and the other in turn.
        m.submodules.sweep = self.sweep
        m.submodules.entries, m.submodules.places = entries, places = self.entries, self.places
        here, behind = places.read(m, self.warp).here, places.read(m, self.next_warp).next
        entry, brought = entries.read(m, group.warp), Signal.like(here)
        leaving = data.StructLayout({"number": range(GROUP_INSTRUCTIONS), "injected": 1, "leaves": 1})
        now, late = Signal(leaving), Signal(leaving)
        entries.write(m, self.group.valid, group.warp, ~entry)
        places.write(m, self.brings, Mux(self.busy, group.warp, self.next_warp), {
            "here": brought, "next": Cat(brought.entry ^ self.last, Mux(self.last, 0, brought.number + 1))})
        m.d.comb += [
            brought.entry.eq(Mux(self.busy, entry, behind.entry)), self.last.eq(brought.number == _LAST),
            brought.number.eq(Mux(self.busy, group.first, behind.number))]

        def kept(name: str, written: Sequence[Any], warp: Any, place: Any, domain: str = "comb") -> list[Any]:
            """What was stored of a group, in a memory for each part of it."""
            read = []
            for number, (column, value) in enumerate(zip(self.columns[name], written, strict=True)):
                m.submodules[f"{name}_{number}"] = column
                write, port = column.write_port(), column.read_port(domain=domain)
                m.d.comb += [write.en.eq(self.group.valid), write.addr.eq(Cat(entry, group.warp)),
                             write.data.eq(value), port.addr.eq(Cat(place.entry, warp))]
                read.append(port.data)
            return read

        # What is read of them.
        (pc,) = kept("pc", [group.pc[_GROUP_AT:]], self.warp, here, "sync")
        m.d.sync += late.eq(now)
        m.d.comb += [now.number.eq(here.number), now.injected.eq(self.injected), now.leaves.eq(self.leaves)]
        # What leaves is chosen before the register, unless that is the memory's own.
        of, before, behind_it = (now, "comb", m.d.sync) if warps <= _IN_LUTS else (late, "sync", m.d.comb)
        behind_it += self.instruction.eq(
            Array(kept("instruction", instructions, self.warp, here, before))[of.number])
        with m.If(of.injected):
            behind_it += [
                self.instruction.word.eq(0), self.instruction.quarter.eq(0), self.instruction.constant_missing.eq(0),
                self.instruction.kind.eq(Mux(of.leaves, InstructionKind.LEAVE, InstructionKind.ENTER))]
        m.d.comb += [
            self.behind.eq(Array(kept("head", heads, self.next_warp, behind))[behind.number]),
            self.bus.eq(Mux(self.busy, Array(head.as_value() for head in heads)[group.first], self.behind.as_value())),
            self.control.eq(Array(kept("control", controls, self.warp, here))[here.number]),
            self.pc.eq(Cat(Const(0, _WORD_AT), (late.number + 1)[:_GROUP_AT - _WORD_AT], pc))]
        return m

    def _arrive(self, m: Module, number: int, fetched: Any) -> tuple[Any, Any, Any]:
        """What an instruction means. One whose two barrier fields name the same scoreboard raises it once, until it is
        complete: its read barrier is none."""
        signals: Any = (Signal(shape, name=f"arriving_{shape.__name__}_{number}")
                        for shape in (Head, Control, StoredInstruction))
        head, control, stored = signals
        kind, word, code, after = fetched.kind, fetched.word, fetched.control, control.after
        write, read = code.write_barrier, code.read_barrier
        zero, at_most = (DEPENDENCY_FORMS[variant].fields for variant in ("zero", "at_most"))
        silent, dependency, barriers = Signal(), Signal(), Signal(SCOREBOARDS)
        least = self._params.lanes_stall
        long = head.lanes if least else Const(0)
        pass_on(m, fetched, stored, "word", "kind", "quarter", "error", "constant", "constant_missing")
        m.d.comb += [
            silent.eq(is_kind(kind, lambda rule: rule.silent)), dependency.eq(kind == InstructionKind.DEPENDENCY),
            barriers.eq(Mux(silent, 0, Cat((write == each) | (read == each) for each in range(SCOREBOARDS)))),
            stored.write_barrier.eq(write), stored.read_barrier.eq(Mux(read == write, NO_BARRIER, read)),

            # What it waits for, and which room it needs. What has no unit lowers scoreboards by way of the lanes.
            head.wait[:SCOREBOARDS].eq(code.wait | field_of(word, zero["wait"]) & dependency.replicate(SCOREBOARDS)),
            head.wait[COMPLETE].eq(is_kind(kind, lambda rule: "complete" in rule.before)),
            head.wait[RESULTS].eq(is_kind(kind, lambda rule: "results" in rule.before) | fetched.constant_missing),
            head.waits.eq(head.wait.any()), head.lanes.eq(is_kind(kind, lambda rule: rule.lanes)),
            head.collected.eq(is_kind(kind, lambda rule: rule.collected)),
            head.need.eq(reduce(or_, (
                Mux(is_kind(kind, lambda rule, unit=unit: rule.unit == unit), NEEDS.index(unit), 0) for unit in UNITS),
                Mux((barriers.any() | (kind == InstructionKind.REFUSED))
                    & is_kind(kind, lambda rule: rule.unit is None), NEEDS.index("events"), 0))),

            # What it changes.
            after.resume.eq(is_kind(kind, lambda rule: rule.after == "resumed")),
            after.drain.eq(~after.resume & (is_kind(kind, lambda rule: rule.after == "drained")
                                            | fetched.constant_missing)),
            after.results.eq(is_kind(kind, lambda rule: rule.after == "result")),
            after.limit.eq(dependency & field_of(word, at_most["at_most"]).any()),
            head.quarter.eq(fetched.quarter), control.no_yield.eq(code.no_yield),
            head.short.eq((code.stall <= _SHORT) & ~head.quarter & ~long & ~after.as_value().any()),
            control.rest.eq(Mux(head.quarter, max(self._params.quarter_stall, _LONGEST) - _SHORT, Mux(
                long, max(least, _LONGEST) - _SHORT, Mux(code.stall <= _SHORT, 1, code.stall - _SHORT)))),
            control.raises.eq(Cat(barriers, ~silent, is_kind(kind, lambda rule: rule.unit == "flow")))]
        return head, control, stored


assert GROUP_INSTRUCTIONS < 1 << _GROUP_AT - _WORD_AT
