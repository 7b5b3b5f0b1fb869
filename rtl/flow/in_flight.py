"""Decided outcomes in flight: beside the stack's pipeline, or parked while the stack takes
longer."""

from typing import Any

from amaranth.hdl import Assert, Module
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import (
    REPORT_BITS,
    STACK_RESULT_CYCLES,
    Event,
    reported,
    stack_result,
)
from rtl.params import SmParams
from rtl.word import instruction_address
from rtl.words import Words

from .stages import BasicOutcome, decided_outcome

__all__ = ["OutcomesInFlight"]


class OutcomesInFlight(Component):
    """Keeps each decided outcome until the stack answers. ::

        decided --> beside[0] --> beside[1] --> beside[2] --> outcome
            |                                                    ^
            +--> parked, a word a warp --------------------------+

    The stack answers three cycles after a request, in the order of the requests, or later and in
    any order. An outcome whose answer comes then has left the registers ``beside``; its warp has no
    other operation, so that one word a warp keeps what counts.

    In the last register two things are known of an outcome that would be late with the result:
    whether the error is reported, and whether the target is the next instruction.

    Members
    -------
    decided : In(Event(decided_outcome))
    decides : In(1)
        An instruction is in the decide stage, whether or not the stack takes its request.
    report_mask : In(32)
        Bit n: errors of code n are reported.
    result : In(Event(stack_result))
        The stack's answer.
    outcome : Out(decided_outcome)
        Of the request that the stack answers. Of one that was parked only ``basic`` and
        ``unwinds_to_next`` have meaning; it does nothing else and has no error.

    Attributes
    ----------
    beside : list of Event(decided_outcome)
        Beside the stack's pipeline, the newest first.
    parked : Words
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "decided": In(Event(decided_outcome(params))),
            "decides": In(1),
            "report_mask": In(REPORT_BITS),
            "result": In(Event(stack_result(params))),
            "outcome": Out(decided_outcome(params)),
        })
        self.parked = Words(BasicOutcome, params.warps)
        self.beside: list[Any] = [
            Event(decided_outcome(params)).create(path=(f"beside_{cycle}",))
            for cycle in range(STACK_RESULT_CYCLES)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._travel(m)
        self._prepare(m)
        self._park(m)
        self._promise(m)
        return m

    def _travel(self, m: Module) -> None:
        """From register to register, as the request passes the stack's stages."""
        before: Any = self.decided
        for register in self.beside:
            m.d.sync += register.valid.eq(before.valid)
            m.d.sync += register.payload.eq(before.payload)
            before = register

    def _prepare(self, m: Module) -> None:
        """What the last register has beside what it was handed. While it has no outcome, it does
        nothing, so that what was parked needs no choice."""
        before = self.beside[-2]
        incoming = before.payload
        last = self.beside[-1].payload
        m.d.sync += last.target_is_next.eq(
            instruction_address(incoming.target) == instruction_address(incoming.basic.next_pc))
        m.d.sync += last.reports_error.eq(
            incoming.reports_error | reported(self.report_mask, incoming.error))
        with m.If(~before.valid):
            m.d.sync += last.jumps.eq(0)
            m.d.sync += last.predicted.eq(0)
            m.d.sync += last.sets_active.eq(0)
            m.d.sync += last.sets_codes.eq(0)
            m.d.sync += last.has_no_result.eq(0)
            m.d.sync += last.reports_error.eq(0)
            m.d.sync += last.error.eq(WarpError.NONE)

    def _park(self, m: Module) -> None:
        """Each outcome is parked, whether or not it will be needed. It is written in every cycle
        that an instruction is in the decide stage, the same again and again, also before the stack
        has taken the request, which is known late: no other outcome of the warp can be parked then.

        What unwinds is the last outcome of its warp that was parked, so its ``next_pc`` is read
        here even if it is beside the stack: the comparison need not wait for that choice."""
        decided = self.decided.payload
        last = self.beside[-1]
        self.parked.write(m, self.decides, decided.warp, decided.basic)
        m.submodules.parked = self.parked
        parked = self.parked.read(m, self.result.payload.warp)
        m.d.comb += self.outcome.eq(last.payload)
        with m.If(~last.valid):
            m.d.comb += self.outcome.basic.eq(parked)
        m.d.comb += self.outcome.unwinds_to_next.eq(
            instruction_address(self.result.payload.pc) == instruction_address(parked.next_pc))

    def _promise(self, m: Module) -> None:
        """What the stack promises."""
        last = self.beside[-1]
        is_answered = last.valid & self.result.valid
        m.d.sync += Assert(
            ~(is_answered & (last.payload.warp != self.result.payload.warp)),
            "the stack answers out of order")
        is_unwind = is_answered & self.result.payload.resume
        next_pc = last.payload.basic.next_pc
        returns = instruction_address(self.result.payload.pc) == instruction_address(next_pc)
        m.d.sync += Assert(
            ~is_unwind | (self.outcome.unwinds_to_next == returns),
            "an outcome that unwinds is not the last one that its warp has parked")
