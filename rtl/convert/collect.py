"""Results on their way from the narrow parts and the datapath to the result buffer."""

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
"""An instruction whose results are made; ``is_narrow``: by groups of threads."""


class ResultCollector(Component):
    """Writes the results of a group, or those of a thread, to the memories of their lanes.

    A thread's result of 64 bits takes two cycles: its high word is written a cycle after the low
    one, beside the low word of the next thread. That is another lane's, so each lane's memory needs
    one write port only::

        cycle     n               n + 1            n + 2
        lane 0    thread 0 low    thread 0 high
        lane 1                    thread 1 low     thread 1 high
        lane 2                                     thread 2 low    ...

    Members
    -------
    instruction : In(collected_instruction)
        The one whose results come.
    is_wide : In(1)
        They have 64 bits.
    group_leaving : In(Event(THREAD_BITS))
        The first thread of a group whose results were in ``group`` a cycle ago.
    group : In(array of words)
        0 while the instruction is not a narrow one.
    thread_leaving : In(Event(THREAD_BITS))
    result : In(64)
        The result of that thread, in the same cycle.
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
        """The low word of ``thread`` is written."""
        self._high_thread = Signal(THREAD_BITS, name="high_thread")
        """The thread before it."""
        self._has_high_word = Signal(name="has_high_word")
        """The high word of ``high_thread`` is written."""
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
        """What a lane's memory gets: a word of a group, a low word, or the high word of a thread
        before. Lanes of the thread's parity have the low word, the others the high one."""
        lane_bits = ceil_log2(self._params.lanes)
        group_of_lane, place_in_group = divmod(lane, self._group_threads)
        write = self.write[lane]
        word = write.payload.word
        instruction = self.instruction
        takes_high = ~instruction.is_narrow & (self._thread[0] != lane % 2)
        thread = Mux(takes_high, self._high_thread, self._thread)
        is_own_group = self._thread[lane_bits - 1] == group_of_lane
        is_own_thread = thread[:lane_bits] == lane

        # Outside of narrow instructions the group's results are 0.
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
