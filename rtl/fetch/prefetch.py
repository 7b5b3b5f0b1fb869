"""The prefetcher: lines of instructions that a warp may need soon."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.isa.syntax import WORD_BITS, Field, Form, Target
from rtl.isa.table import FORMS
from rtl.layouts import Event, InstructionKind
from rtl.structs import struct_value
from rtl.word import field_of, telling_patterns

from .predecode import kind_of
from .records import GROUP_BITS, LINE_BITS, LINE_GROUPS, PrefetchedLine, claimed_group

__all__ = ["Prefetcher"]

_GROUP_AT = (GROUP_BYTES - 1).bit_length()
_WORD_AT = (INSTRUCTION_BYTES - 1).bit_length()
_LINE_AT = _GROUP_AT + (LINE_GROUPS - 1).bit_length()
_PC_BITS = _LINE_AT + LINE_BITS


def _direct_target(form: Form) -> tuple[Field, bool] | None:
    """Where the word of a direct branch or call has its target, and whether that counts from the
    next instruction; None for other forms."""
    target = form.operands.get("target")
    if kind_of(form) is InstructionKind.FLOW and isinstance(target, Target):
        return form.fields[target.field], target.relative
    return None


_FLOW_FORMS = [form for form in FORMS if kind_of(form) is InstructionKind.FLOW]
_BRANCHES: dict[tuple[Field, bool], list[Form]] = {}
"""Direct branches and calls, by where their target is."""
for _form in _FLOW_FORMS:
    if (_target := _direct_target(_form)) is not None:
        _BRANCHES.setdefault(_target, []).append(_form)


class _Branch(data.Struct):
    """A direct branch or call in a group that a warp gets."""

    group: unsigned(GROUP_BITS)
    slot: range(GROUP_INSTRUCTIONS)
    word: unsigned(WORD_BITS)


class Prefetcher(Component):
    """Proposes lines of instructions that a warp may need soon. ::

        entered --> next line ------------------+--> lines
        group ----> branch --> TARGET: line ----+

    When a warp enters a line, the next line is proposed. It may evict another one: its place in the
    cache differs from those of the lines before it, as many as the cache holds, so that a loop that
    fits into the cache loses no line.

    When a warp receives a group, the line of a branch's target is proposed: of the first direct
    branch or call from the instruction on at which the warp enters the group. That line may only
    fill an empty place: a branch that is never taken does not evict a line in use.

    A proposed line replaces one of the same kind that was not offered yet. Target lines have
    priority over next lines.

    Members
    -------
    entered : In(Event(LINE_BITS))
        A line that a warp enters: the warp receives a group of it, or waits for it.
    group : In(Event of claimed_group)
    flush : In(1)
        Discards all proposed lines.
    lines : Out(stream of PrefetchedLine)
        Stable until it is taken, or flushed.
    """

    def __init__(self) -> None:
        super().__init__({
            "entered": In(Event(unsigned(LINE_BITS))),
            "group": In(Event(claimed_group())),
            "flush": In(1),
            "lines": Out(stream.Signature(PrefetchedLine)),
        })
        self._next: Any = Event(unsigned(LINE_BITS)).create(path=("next",))
        self._branch: Any = Event(_Branch).create(path=("branch",))
        self._target: Any = Event(unsigned(LINE_BITS)).create(path=("target",))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._offer(m)
        self._find_next(m)
        self._find_branch(m)
        self._find_target(m)
        with m.If(self.flush):
            for register in (self._next, self._branch, self._target, self.lines):
                m.d.sync += register.valid.eq(0)
        return m

    def _offer(self, m: Module) -> None:
        """The line that is offered: a target, or else the next line."""
        lines = self.lines
        with m.If(~lines.valid | lines.ready):
            m.d.sync += lines.valid.eq(self._target.valid | self._next.valid)
            m.d.sync += lines.payload.eq(struct_value(
                PrefetchedLine,
                line=Mux(self._target.valid, self._target.payload, self._next.payload),
                may_evict=~self._target.valid))
            with m.If(self._target.valid):
                m.d.sync += self._target.valid.eq(0)
            with m.Else():
                m.d.sync += self._next.valid.eq(0)

    def _find_next(self, m: Module) -> None:
        """The line after the one that a warp enters."""
        with m.If(self.entered.valid):
            m.d.sync += self._next.valid.eq(1)
            m.d.sync += self._next.payload.eq(self.entered.payload + 1)

    def _find_branch(self, m: Module) -> None:
        """The first direct branch or call that the warp can reach in the group."""
        group = self.group.payload
        branch = self._branch
        is_branch = Cat(
            (group.place.first <= slot) & _is_direct_branch(instruction)
            for slot, instruction in enumerate(group.stored.instructions))
        m.d.sync += branch.valid.eq(self.group.valid & is_branch.any())
        m.d.sync += branch.payload.group.eq(group.place.group)
        for slot in reversed(range(GROUP_INSTRUCTIONS)):
            with m.If(is_branch[slot]):
                m.d.sync += branch.payload.slot.eq(slot)
                m.d.sync += branch.payload.word.eq(group.stored.instructions[slot].word)

    def _find_target(self, m: Module) -> None:
        """TARGET: the line to which the branch goes. A relative target counts from the instruction
        after the branch; the words of a group are its control word and its instructions."""
        branch = self._branch.payload
        next_word = branch.slot + 2
        next_pc = Cat(Const(0, _GROUP_AT), branch.group) + (next_word << _WORD_AT)
        pc = Signal(_PC_BITS)
        for (field, is_relative), forms in _BRANCHES.items():
            with m.If(_has_form(branch.word, forms)):
                m.d.comb += pc.eq(field_of(branch.word, field) + (next_pc if is_relative else 0))
        with m.If(self._branch.valid):
            m.d.sync += self._target.valid.eq(1)
            m.d.sync += self._target.payload.eq(pc[_LINE_AT:])


def _has_form(word: Value, forms: list[Form]) -> Value:
    """Whether a word of the kind FLOW has one of these forms."""
    others = [form for form in _FLOW_FORMS if form not in forms]
    return word.matches(*telling_patterns(forms, others))


def _is_direct_branch(instruction: Any) -> Value:
    """Whether an instruction is a direct branch or call that can be executed."""
    forms = [form for each in _BRANCHES.values() for form in each]
    is_flow = instruction.predecoded.kind == InstructionKind.FLOW
    return is_flow & _has_form(instruction.word, forms)
