"""Collects the register operands of instructions that another unit executes."""

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.layouts import Event, dispatched
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick

from .slots import beat_stage
from .stages import Operands

__all__ = ["Collector"]

_OPERANDS = 2


class Collector(Component):
    """Holds one instruction while its registers are read, a beat a cycle.

    It needs the operands of the lowest thread that executes the instruction, and the threads whose
    operand a is the same. If no thread executes it, the operands are undefined, and ``same`` is 0.

    =====  ==========================================================================
    stage  what happens to each beat
    =====  ==========================================================================
    S5     operands a and b of the lowest executing thread are stored, from the first
           beat with such a thread
    S6     operand a of each thread is compared with the stored one
    S7     of the last beat: ``complete`` becomes valid
    =====  ==========================================================================

    Members
    -------
    instruction : In(Event of dispatched)
        In S3; only when ``busy`` is 0.
    beat, operands : In(Event of beat_stage), In(Operands for each lane)
        S5: beats of any instruction; only those with ``collects`` count.
    busy : Out(1)
        From S4 on until ``complete`` is transferred.
    complete : Out(stream of dispatched)
        The instruction with its operands.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "instruction": In(Event(dispatched(params))),
            "beat": In(Event(beat_stage(params))),
            "operands": In(data.ArrayLayout(Operands, params.lanes)),
            "busy": Out(1),
            "complete": Out(stream.Signature(dispatched(params))),
        })
        self._has_beat = Signal(name="has_beat")
        """A beat of the instruction is in S5."""
        self._first = Signal(data.ArrayLayout(32, _OPERANDS), name="first")
        """Operands a and b of the lowest thread."""
        self._found = Signal(name="found")
        self._same = Signal(WARP_THREADS, name="same")
        """The threads whose operand a is that of the lowest thread."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._find_first(m)
        self._compare(m)
        self._hold(m)
        return m

    def _find_first(self, m: Module) -> None:
        """S5: the lowest thread."""
        threads = self.beat.payload.record.threads
        lane = Signal(range(self._params.lanes))
        m.d.comb += self._has_beat.eq(self.beat.valid & self.beat.payload.record.collects)
        m.d.comb += lane.eq(lowest(threads))
        with m.If(self._has_beat & ~self._found):
            m.d.sync += self._found.eq(threads.any())
            m.d.sync += self._first[0].eq(pick([operands.a for operands in self.operands], lane))
            m.d.sync += self._first[1].eq(pick([operands.b for operands in self.operands], lane))

    def _compare(self, m: Module) -> None:
        """S6: the threads with the same operand a. A beat that is compared before the lowest thread
        is found has no executing threads, so that its outcome is 0."""
        lanes = self._params.lanes
        record = self.beat.payload.record
        had_beat = Signal()
        is_last = Signal()
        values = Signal(data.ArrayLayout(32, lanes))
        threads = Signal(lanes)
        m.d.sync += had_beat.eq(self._has_beat)
        m.d.sync += is_last.eq(record.place.beat == self._params.beats - 1)
        m.d.sync += values.eq(Cat(operands.a for operands in self.operands))
        m.d.sync += threads.eq(record.threads)
        same = Cat(value == self._first[0] for value in values) & threads
        with m.If(had_beat):
            m.d.sync += self._same.eq(Cat(self._same, same)[lanes:])
            m.d.sync += self.complete.valid.eq(is_last)

    def _hold(self, m: Module) -> None:
        """The instruction, from S3 until it is dispatched."""
        arriving = self.instruction
        complete = self.complete
        held = Signal.like(arriving.payload)
        with m.If(arriving.valid):
            m.d.sync += held.eq(arriving.payload)
            m.d.sync += self.busy.eq(1)
            m.d.sync += self._found.eq(0)
        with m.Elif(complete.valid & complete.ready):
            m.d.sync += self.busy.eq(0)
            m.d.sync += complete.valid.eq(0)
        m.d.sync += Assert(
            ~(arriving.valid & self.busy), "registers are collected of two instructions")
        m.d.comb += complete.payload.eq(held)
        m.d.comb += complete.payload.operands.eq(self._first)
        m.d.comb += complete.payload.same.eq(self._same)
