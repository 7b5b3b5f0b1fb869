"""A written line has the last bytes written and their mask; an answer of memory is read unchanged.

Lines are filled and modified one at a time: between two completed lines all writes are to the
second one, as the theorem `miss_queue` proves. For any one byte of any one line:

1. What is sent to memory, and what atomic operations read, is the byte's last write, or the
   answer's byte at the time when its row was copied.
2. It is marked as written if it was written since the previous line was completed; a copy is no
   write.
3. What is read from the answer is memory's last answer.
"""

from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.utils import ceil_log2

from rtl.isa.tokens import LINE_BYTES
from rtl.memory.instruction import LINE_WORDS, BeatKind, memory_tag_bits
from rtl.memory.line_memory import LineMemory
from rtl.params import PRESETS
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, ever, free, no_reset
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_BITS = memory_tag_bits(_PARAMS)


class _Spec(Elaboratable):
    """The memory of lines, with an unconstrained writer of one line at a time."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        dut: Any = LineMemory(_PARAMS)
        past = Past(m)
        m.submodules.dut = dut
        free(m, dut)
        tag, byte = Signal(_BITS), Signal(range(LINE_BYTES))
        m.d.comb += [
            tag.eq(AnyConst(len(tag))),
            byte.eq(AnyConst(len(byte))),
            Assume(dut.tag == tag, "the line that is looked at"),
        ]
        place, banks = byte[:2], min(_PARAMS.lanes, LINE_WORDS)
        bank, row = byte[2 : 2 + ceil_log2(banks)], byte[2 + ceil_log2(banks) :]

        # Promises of other units
        all_bytes, values = (
            Cat(each[name] for each in dut.lines.write.banks) for name in ("bytes", "value")
        )
        copied_row, copied_tag = past(dut.copy.payload.row), past(dut.copy.payload.tag)
        writes, open_, open_tag = dut.lines.write.line & all_bytes.any(), Signal(), Signal(_BITS)
        m.d.comb += [
            Assume(
                ~(dut.copy.valid & dut.lines.read.used), "nothing is read while a row is copied"
            ),
            Assume(~(dut.lines.copied & all_bytes.any()), "nor written in the next cycle"),
            Assume(~dut.lines.copied | (values == Cat(dut.lines.values)), "what is copied"),
            Assume(
                ~(writes & open_ & ~dut.finish.valid) | (dut.lines.write.tag == open_tag),
                "one line after the other",
            ),
            Assume(~(dut.finish.valid & open_) | (dut.finish.payload == open_tag), "is finished"),
        ]
        with m.If(writes):
            m.d.sync += [open_.eq(1), open_tag.eq(dut.lines.write.tag)]
        with m.Elif(dut.finish.valid):
            m.d.sync += open_.eq(0)

        # Expected value of the byte
        answer, value, written, expected_mask_bit, known = (
            Signal(8),
            Signal(8),
            Signal(),
            Signal(),
            Signal(),
        )
        answered = past(answer)
        access: Any = Array(dut.lines.write.banks)[bank]
        stored = (
            writes
            & (dut.lines.write.tag == tag)
            & (access.row[: len(row)] == row)
            & _bit(access.bytes, place)
        )
        copies = dut.lines.copied & (copied_row == row) & (copied_tag == tag)
        with m.If(dut.take.valid):
            m.d.sync += answer.eq(dut.take.payload.word_select(byte, 8))
        with m.If(stored | copies):
            m.d.sync += [
                value.eq(Mux(stored, access.value.as_value().word_select(place, 8), answered)),
                known.eq(1),
            ]
        m.d.sync += written.eq(Mux(dut.finish.valid, 0, written) | stored)
        with m.If(dut.finish.valid & (dut.finish.payload == tag)):
            m.d.sync += expected_mask_bit.eq(written)
        claim(m, dut.answer.word_select(byte, 8) == answer, "what memory has answered")
        claim(
            m,
            written == (_bit(dut.written_so_far, byte) & open_ & (open_tag == tag)),
            "what was written since",
        )
        claim(m, ~dut.written_so_far.any() | open_, "of which line")
        claim(m, dut.content.data.word_select(byte, 8) == value, "what memory gets", when=known)
        is_finished = dut.finish.valid & (dut.finish.payload == tag)
        claim(
            m,
            _bit(dut.content.mask, byte) == expected_mask_bit,
            "what it writes",
            when=ever(m, is_finished),
        )
        word = Array(dut.lines.words)[bank]
        reads: Any = Array(dut.lines.read.rows)[bank]
        claim(
            m,
            word.word_select(place, 8) == value,
            "what atomic operations read",
            when=known & (dut.lines.read.tag == tag) & (reads[: len(row)] == row),
        )
        found = Array(dut.lines.values)[bank].word_select(place, 8)
        is_read, is_answer = dut.lines.read.used, dut.lines.read.kind == BeatKind.ANSWER
        mine = Mux(
            dut.copy.valid,
            dut.copy.payload.row == row,
            is_read & is_answer & (reads[: len(row)] == row),
        )
        claim(m, found == answered, "what is read of an answer", when=past(mine))
        claim(m, found == 0, "nothing else is", when=past.valid & past(is_read & ~is_answer))
        can_happen(
            m, known & expected_mask_bit & past(past(copies)), "a line is copied and written"
        )
        return m


def _bit(bits: Any, number: Value) -> Value:
    return Value.cast(bits).bit_select(number, 1)


THEOREM = Theorem(
    _Spec,
    depth=2,
    cover_depth=8,
    faults=(
        Fault(
            "rtl.memory.line_memory",
            "earlier | self._written_now",
            "Mux(self.finish.valid, 0, self._written_now) | earlier",
        ),
        Fault(
            "rtl.memory.line_memory",
            "Cat(self._copied.row, self._copied.tag)",
            "Cat(self._copied.row, self.copy.payload.tag)",
        ),
        Fault("rtl.memory.line_memory", "Mux(read.used, row, self.copy.payload.row)", "row"),
        Fault("rtl.memory.line_memory", "Mux(is_something_else, 0, found)", "found"),
        Fault(
            "rtl.memory.line_memory",
            "Cat(Const(row, ceil_log2(self._rows)), self.tag)",
            "Cat(Const(row, ceil_log2(self._rows)), self.finish.payload)",
        ),
    ),
)
