"""The prefetcher: lines of instructions that a warp may need soon."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value, unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.flow_forms import DIRECT_BRANCHES, has_form, target_of
from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import Event, InstructionKind
from rtl.params import SmParams

from .records import GROUP_BITS, LINE_BITS, LINE_GROUPS, PrefetchedLine, claimed_group

__all__ = ["Prefetcher"]

_GROUP_AT = (GROUP_BYTES - 1).bit_length()
_WORD_AT = (INSTRUCTION_BYTES - 1).bit_length()
_LINE_AT = _GROUP_AT + (LINE_GROUPS - 1).bit_length()
_PC_BITS = _LINE_AT + LINE_BITS


_MOST_FIRST_LINES = 16
"""First lines of a kernel that are proposed when its grid begins; at most half of the cache."""


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

    When the cache has become empty, as when a grid begins, the kernel's first lines are proposed,
    one after the other. They may only fill empty places. The grid's first warp needs them some
    fifty cycles later, when its registers are cleared.

    When a warp receives a group, the line of a branch's target is proposed: of the first direct
    branch or call from the instruction on at which the warp enters the group. That line may only
    fill an empty place: a branch that is never taken does not evict a line in use.

    A proposed line replaces one of the same kind that was not offered yet. Target lines have
    priority over next lines, and these over the first lines.

    Members
    -------
    begins : In(Event(LINE_BITS))
        The cache has become empty; the kernel begins in this line.
    entered : In(Event(LINE_BITS))
        A line that a warp enters: the warp receives a group of it, or waits for it.
    group : In(Event of claimed_group)
    flush : In(1)
        Discards all proposed lines.
    lines : Out(stream of PrefetchedLine)
        Stable until it is taken, or flushed.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "begins": In(Event(unsigned(LINE_BITS))),
            "entered": In(Event(unsigned(LINE_BITS))),
            "group": In(Event(claimed_group())),
            "flush": In(1),
            "lines": Out(stream.Signature(PrefetchedLine)),
        })
        cache_lines = params.instruction_groups // LINE_GROUPS
        self._first_lines = min(_MOST_FIRST_LINES, cache_lines // 2)
        self._first: Any = Signal(unsigned(LINE_BITS), name="first")
        self._remaining = Signal(range(self._first_lines + 1), name="remaining")
        """First lines that are not offered yet, and the next of them."""
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
            m.d.sync += self._remaining.eq(0)
        with m.If(self.begins.valid):
            m.d.sync += self._first.eq(self.begins.payload)
            m.d.sync += self._remaining.eq(self._first_lines)
        return m

    def _offer(self, m: Module) -> None:
        """The line that is offered: a target, or else a next line, or else a first line."""
        lines = self.lines
        with m.If(~lines.valid | lines.ready):
            m.d.sync += lines.valid.eq(1)
            m.d.sync += lines.payload.may_evict.eq(0)
            with m.If(self._target.valid):
                m.d.sync += lines.payload.line.eq(self._target.payload)
                m.d.sync += self._target.valid.eq(0)
            with m.Elif(self._next.valid):
                m.d.sync += lines.payload.line.eq(self._next.payload)
                m.d.sync += lines.payload.may_evict.eq(1)
                m.d.sync += self._next.valid.eq(0)
            with m.Elif(self._remaining != 0):
                m.d.sync += lines.payload.line.eq(self._first)
                m.d.sync += self._first.eq(self._first + 1)
                m.d.sync += self._remaining.eq(self._remaining - 1)
            with m.Else():
                m.d.sync += lines.valid.eq(0)

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
        m.d.comb += pc.eq(target_of(branch.word, next_pc))
        with m.If(self._branch.valid):
            m.d.sync += self._target.valid.eq(1)
            m.d.sync += self._target.payload.eq(pc[_LINE_AT:])


def _is_direct_branch(instruction: Any) -> Value:
    """Whether an instruction is a direct branch or call that can be executed."""
    is_flow = instruction.predecoded.kind == InstructionKind.FLOW
    return is_flow & has_form(instruction.word, DIRECT_BRANCHES)
