"""Writes results of the narrow parts and of the datapath to the result buffer."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import Event
from rtl.params import SmParams
from rtl.structs import struct_value

from .buffers import GROUPS, result_place, result_write
from .instruction import DOUBLE_BITS, ENTRY_BITS, THREAD_BITS, WORD_BITS

__all__ = ["ResultCollector", "collected_instruction"]

collected_instruction = data.StructLayout({"entry": ENTRY_BITS, "is_narrow": 1})
"""The entry of an instruction, and whether it is computed by groups of threads (``is_narrow``) or
by single threads."""


class ResultCollector(Component):
    """Writes the results of a group, or of a thread, to the result buffer: each result to the
    memory of its lane.

    A 64-bit result takes two cycles: its high word is written a cycle after its low word, in the
    same cycle as the low word of the next thread. Neighbouring threads are in different lanes, so
    that the memory of a lane needs only one write port::

        cycle     n               n + 1            n + 2
        lane 0    thread 0 low    thread 0 high
        lane 1                    thread 1 low     thread 1 high
        lane 2                                     thread 2 low    ...

    Members
    -------
    instruction : In(collected_instruction)
        The instruction whose results arrive.
    is_wide : In(1)
        Its results have 64 bits.
    group_leaving : In(Event(THREAD_BITS))
        The first thread of the group whose results were in ``group`` in the cycle before. They are
        written in this cycle.
    group : In(array of words)
        Has to be 0 for an instruction that is not narrow.
    thread_leaving : In(Event(THREAD_BITS))
        The thread whose result is in ``result`` in this cycle. Its low word is written now, its
        high word in the next cycle.
    result : In(64)
    write : Out(Event(result_write) for each lane)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._group_threads = params.lanes // GROUPS
        super().__init__({
            "instruction": In(collected_instruction),
            "is_wide": In(1),
            "group_leaving": In(Event(THREAD_BITS)),
            "group": In(data.ArrayLayout(WORD_BITS, self._group_threads)),
            "thread_leaving": In(Event(THREAD_BITS)),
            "result": In(DOUBLE_BITS),
            "write": Out(Event(result_write(params))).array(params.lanes),
        })
        self._thread = Signal(THREAD_BITS, name="thread")
        """The thread, or the first one of the group."""
        self._has_low_word = Signal(name="has_low_word")
        """The low word of ``thread`` is written in this cycle."""
        self._high_thread = Signal(THREAD_BITS, name="high_thread")
        """The thread of the cycle before."""
        self._has_high_word = Signal(name="has_high_word")
        """The high word of ``high_thread`` is written in this cycle."""
        self._high_word = Signal(WORD_BITS, name="high_word")
        self._low_was_zero = Signal(name="low_was_zero")
        """The low word of ``high_thread`` was 0."""
        self._group = Signal.like(self.group, name="group_results")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_narrow = self.instruction.is_narrow
        low_word = self.result[:WORD_BITS]
        m.d.comb += self._has_low_word.eq(~is_narrow & self.thread_leaving.valid)
        with m.If(is_narrow):
            m.d.comb += self._thread.eq(self.group_leaving.payload)
        with m.Else():
            m.d.comb += self._thread.eq(self.thread_leaving.payload)
        m.d.sync += self._high_thread.eq(self._thread)
        m.d.sync += self._has_high_word.eq(self._has_low_word & self.is_wide)
        m.d.sync += self._high_word.eq(self.result[WORD_BITS:])
        m.d.sync += self._low_was_zero.eq(low_word == 0)
        m.d.sync += self._group.eq(self.group)
        for lane in range(self._params.lanes):
            self._write_lane(m, lane)
        is_other_parity = self._thread[0] != self._high_thread[0]
        m.d.sync += Assert(
            ~self._has_high_word | (~is_narrow & is_other_parity), "a high word is lost")
        return m

    def _write_lane(self, m: Module, lane: int) -> None:
        """The write of a lane: a word of a group, the low word of ``thread``, or the high word of
        ``high_thread``. These two threads differ in parity: lanes of the parity of ``thread`` can
        only have its low word, the others only the high word."""
        lane_bits = ceil_log2(self._params.lanes)
        group_of_lane, place_in_group = divmod(lane, self._group_threads)
        write = self.write[lane]
        word = write.payload.word
        instruction = self.instruction
        takes_high = ~instruction.is_narrow & (self._thread[0] != lane % 2)
        thread = Mux(takes_high, self._high_thread, self._thread)
        is_own_group = self._thread[lane_bits - 1] == group_of_lane
        is_own_thread = thread[:lane_bits] == lane

        # For an instruction that is not narrow ``_group`` is 0, so that a disjunction selects.
        thread_word = Signal(WORD_BITS, name=f"thread_word_{lane}")
        with m.If(takes_high):
            m.d.comb += thread_word.eq(self._high_word)
        with m.Elif(~instruction.is_narrow):
            m.d.comb += thread_word.eq(self.result[:WORD_BITS])
        m.d.comb += word.value.eq(self._group[place_in_group] | thread_word)
        m.d.comb += word.sign.eq(word.value[-1])
        m.d.comb += word.zero.eq((word.value == 0) & (~takes_high | self._low_was_zero))

        m.d.comb += write.payload.place.eq(struct_value(
            result_place(self._params),
            second=takes_high,
            beat=thread[lane_bits:],
            entry=instruction.entry))
        with m.If(instruction.is_narrow):
            m.d.comb += write.valid.eq(self.group_leaving.valid & is_own_group)
        with m.Elif(takes_high):
            m.d.comb += write.valid.eq(self._has_high_word & is_own_thread)
        with m.Else():
            m.d.comb += write.valid.eq(self._has_low_word & is_own_thread)
