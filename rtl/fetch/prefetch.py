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
"""How many first lines of a kernel are proposed when its grid begins. At most half of the cache is
filled in this way."""


class _Branch(data.Struct):
    """A direct branch or call in a group that a warp receives."""

    group: unsigned(GROUP_BITS)
    slot: range(GROUP_INSTRUCTIONS)
    word: unsigned(WORD_BITS)


class Prefetcher(Component):
    """Proposes lines of instructions that a warp may need soon. ::

        entered --> next line ------------------+--> lines
        group ----> branch --> TARGET: line ----+

    Three kinds of lines are proposed. If several are pending, targets have priority, then next
    lines, then first lines. A proposed target or next line replaces a pending one of its kind.

    - Next line: when a warp enters a line, the line after it is proposed. It may evict another
      line. Consecutive lines, as many as the cache holds, have different indices, so a loop that
      fits into the cache loses no line.
    - Target: when a warp receives a group, the target of a branch is proposed: of the first direct
      branch or call at or after the instruction at which the warp enters the group. The line does
      not evict another one, so a branch that is never taken does not evict a line in use.
    - First lines: when the cache has become empty, as at the start of a grid, the kernel's first
      lines are proposed one after the other. They evict no line. The grid's first warp needs them
      some fifty cycles later, after its registers are cleared.

    Members
    -------
    begins : In(Event(LINE_BITS))
        The cache has become empty; the kernel begins in this line.
    entered : In(Event(LINE_BITS))
        A line that a warp enters: the warp receives a group of it, or waits for it.
    group : In(Event of claimed_group)
        A group that a warp receives.
    flush : In(1)
        Discards all proposed lines.
    lines : Out(stream of PrefetchedLine)
        The payload does not change until it is accepted or flushed.
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
        """The next first line to offer."""
        self._remaining = Signal(range(self._first_lines + 1), name="remaining")
        """Number of first lines that are not offered yet."""
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
        """Selects the line to offer: a target, or else a next line, or else a first line."""
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
        """Proposes the line after the one that a warp enters."""
        with m.If(self.entered.valid):
            m.d.sync += self._next.valid.eq(1)
            m.d.sync += self._next.payload.eq(self.entered.payload + 1)

    def _find_branch(self, m: Module) -> None:
        """Finds the first direct branch or call that the warp can reach in the group."""
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
        """TARGET: computes the line of the branch's target. A relative target counts from the
        instruction after the branch. The first word of a group is its control word, so the
        instruction in slot n is word n + 1, and the next word is n + 2."""
        branch = self._branch.payload
        next_word = branch.slot + 2
        next_pc = Cat(Const(0, _GROUP_AT), branch.group) + (next_word << _WORD_AT)
        pc = Signal(_PC_BITS)
        m.d.comb += pc.eq(target_of(branch.word, next_pc))
        with m.If(self._branch.valid):
            m.d.sync += self._target.valid.eq(1)
            m.d.sync += self._target.payload.eq(pc[_LINE_AT:])


def _is_direct_branch(instruction: Any) -> Value:
    """Whether an instruction is a direct branch or call, and is not refused."""
    is_flow = instruction.predecoded.kind == InstructionKind.FLOW
    return is_flow & has_form(instruction.word, DIRECT_BRANCHES)
