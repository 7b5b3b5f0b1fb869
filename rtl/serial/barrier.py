"""The barrier unit of the serial machine: threads are counted one by one, all barriers are used."""

from typing import Any

from amaranth.hdl import Assert, Module, Signal, Value
from amaranth.lib import data

from rtl.arbiter import lowest
from rtl.barrier import BarrierUnit
from rtl.barrier.queue import BarrierQueue, is_executed
from rtl.barrier.stages import BARRIERS_OF_CTA, BarrierTask, barrier_request
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams

__all__ = ["SerialBarrierQueue", "SerialBarrierUnit"]


class SerialBarrierQueue(BarrierQueue):
    """Decodes the one instruction that is under way, counts a thread of it a cycle, and offers it
    after 32 cycles. Its request has one more field, ``threads``: the threads that execute B2R."""

    def request_layout(self, params: SmParams) -> data.StructLayout:
        return data.StructLayout(dict(barrier_request(params).members) | {"threads": WARP_THREADS})

    def decode_content(self, m: Module, content: Value) -> None:
        """R2B's value is always operand b: it is kept for every instruction."""

    def count(self, m: Module) -> None:
        """Threads and predicates are rotated, so that the thread to count is the lowest bit."""
        request = self.request
        instruction = self.dispatch.payload
        counted: Any = Signal(self.layout)
        predicate = Signal(WARP_THREADS)
        remaining = Signal(range(WARP_THREADS + 1))
        counts = Signal()
        m.d.comb += counts.eq(remaining.any() & ~request.valid)
        m.d.comb += self.room.eq(~(counts | request.valid | self.dispatch.valid))
        m.d.comb += request.payload.eq(counted)
        m.d.comb += request.payload.executes.eq(is_executed(counted))

        executes = counted.threads[0]
        is_true = executes & predicate[0]
        is_false = executes & ~predicate[0]
        with m.If(self.dispatch.valid):
            m.d.sync += counted.eq(self.decoded)
            m.d.sync += counted.threads.eq(self.threads)
            m.d.sync += counted.content.eq(instruction.operands[1])
            m.d.sync += predicate.eq(instruction.predicate)
            m.d.sync += remaining.eq(WARP_THREADS)
        with m.Elif(counts):
            m.d.sync += counted.threads.eq(counted.threads.rotate_right(1))
            m.d.sync += predicate.eq(predicate.rotate_right(1))
            m.d.sync += remaining.eq(remaining - 1)
            m.d.sync += counted.some_true.eq(counted.some_true | is_true)
            m.d.sync += counted.some_false.eq(counted.some_false | is_false)
            m.d.sync += counted.population.eq(counted.population + is_true)
        with m.If(counts):
            m.d.sync += request.valid.eq(remaining == 1)
        with m.Elif(request.ready):
            m.d.sync += request.valid.eq(0)
        m.d.sync += Assert(
            ~(self.dispatch.valid & (counts | request.valid)),
            "an instruction is dispatched without room")


class SerialBarrierUnit(BarrierUnit):
    """A BarrierUnit that does not record which barriers are used. All barriers of a CTA are cleared
    when it begins (CLEAR_CTA, before any other task), each is when it was released (ZERO_ROW,
    CLEAR_ROW), and all are settled.

    Attributes
    ----------
    uncleared : warps
        CTA slots whose CTA has begun and whose barriers were not cleared since.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(params)
        self.clears_row = Signal()
        self.uncleared = Signal(params.warps)
        # The lowest of these slots; whether its clearing begins.
        self.has_uncleared = Signal()
        self.lowest_uncleared = Signal(params.warp_bits)
        self.starts_clearing = Signal()

    def make_queue(self, params: SmParams) -> BarrierQueue:
        return SerialBarrierQueue(params)

    def make_presence(self, params: SmParams) -> None:
        """All barriers are used."""

    def select_task(self, m: Module) -> None:
        """Clearing a CTA's barriers has priority."""
        work = self.work
        with m.If(self.has_uncleared):
            m.d.comb += self.starts_clearing.eq(1)
            m.d.sync += work.barrier.cta.eq(self.lowest_uncleared)
            m.d.sync += work.barrier.number.eq(0)
            m.d.sync += work.row.eq(0)
            m.next = "CLEAR_CTA"
        with m.Else():
            super().select_task(m)

    def settle(self, m: Module) -> None:
        """SETTLE, SETTLE_NEXT: all barriers of the CTA; and the states that clear rows."""
        number = self.work.barrier.number
        with m.State("SETTLE"):
            m.d.sync += number.eq(0)
            m.next = "FETCH"
        with m.State("SETTLE_NEXT"):
            m.d.sync += number.eq(number + 1)
            with m.If(number == BARRIERS_OF_CTA - 1):
                m.next = "SELECT"
            with m.Else():
                m.next = "FETCH"
        self._clear(m)

    def _clear(self, m: Module) -> None:
        """CLEAR_CTA: all barriers of a CTA that has begun. ZERO_ROW, CLEAR_ROW: a barrier that was
        released."""
        work = self.work
        with m.State("CLEAR_CTA"):
            m.d.comb += self.clears_row.eq(1)
            m.d.sync += work.barrier.number.eq(work.barrier.number + 1)
            with m.If(work.barrier.number == BARRIERS_OF_CTA - 1):
                m.next = "SELECT"
        with m.State("ZERO_ROW"):
            m.d.sync += work.row.eq(0)
            m.next = "CLEAR_ROW"
        with m.State("CLEAR_ROW"):
            m.d.comb += self.clears_row.eq(1)
            with m.If(work.task == BarrierTask.SETTLE):
                m.next = "SETTLE_NEXT"
            with m.Else():
                m.next = "SELECT"

    def end_release(self, m: Module) -> None:
        """The barrier that was released is cleared."""
        m.next = "ZERO_ROW"

    def row_is_written(self) -> Value:
        return self.writes_row | self.clears_row

    def keep_presence(self, m: Module) -> None:
        """CTAs whose barriers are still to be cleared. All barriers are used."""
        warps = len(self.uncleared)
        launch = self.launch.payload
        cta_starts = self.launch.valid & (launch.number == 0)
        started = one_hot(launch.cta, warps, cta_starts)
        cleared = one_hot(self.lowest_uncleared, warps, self.starts_clearing)
        m.d.comb += self.is_present.eq(1)
        m.d.comb += self.has_uncleared.eq(self.uncleared.any())
        m.d.comb += self.lowest_uncleared.eq(lowest(self.uncleared))
        m.d.sync += self.uncleared.eq((self.uncleared & ~cleared) | started)

    def reading_threads(self) -> Value:
        return self.work.request.threads

    def keep_value(self, m: Module, value: Signal, wanted: Signal, index: Signal) -> None:
        """The beats of a write are over before the next one is sent: one register keeps its
        value."""
        is_sent = self.port.write.valid & self.port.write.ready
        with m.If(is_sent):
            m.d.sync += wanted.eq(value)
