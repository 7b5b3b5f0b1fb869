"""Outcomes in flight: in registers parallel to the stack's pipeline, or parked."""

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
    """Stores each outcome until the stack answers. ::

        decided --> beside[0] --> beside[1] --> beside[2] --> outcome
            |                                                    ^
            +--> parked, a word a warp --------------------------+

    The stack answers either three cycles after a request, in the order of the requests, or later
    and in any order. An outcome whose answer comes later has left the registers ``beside``. Its
    warp has no other operation then, so one word for each warp stores what is needed of it.

    The last register also holds two results that would be known too late in the cycle of the flow
    result: whether the error is reported, and whether the target is the next instruction.

    Members
    -------
    decided : In(Event(decided_outcome))
    decides : In(1)
        An instruction is in the decide stage, whether or not the stack accepts its request.
    report_mask : In(32)
        Bit n: errors of code n are reported.
    result : In(Event(stack_result))
        The stack's answer.
    outcome : Out(decided_outcome)
        The outcome of the request that the stack answers. If it was parked, only ``basic`` and
        ``unwinds_to_next`` are defined, and all other fields are 0.

    Attributes
    ----------
    beside : list of Event(decided_outcome)
        The registers parallel to the stack's pipeline, the newest outcome first.
    parked : Words
        For each warp the BasicOutcome of its last instruction.
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
        """Shifts outcomes from register to register, in step with the stack's stages."""
        before: Any = self.decided
        for register in self.beside:
            m.d.sync += register.valid.eq(before.valid)
            m.d.sync += register.payload.eq(before.payload)
            before = register

    def _prepare(self, m: Module) -> None:
        """Adds to the last register the results that would be late. While the register has no
        outcome, its fields are 0, so that a parked outcome needs no multiplexer for them."""
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
        """Parks each outcome, whether or not it will be needed. The outcome is written in each
        cycle in which an instruction is in the decide stage. It does not wait until the stack
        accepts the request, because that is known late. This overwrites no other outcome of the
        warp: the warp has none that is still needed.

        An outcome that unwinds is the last one that its warp has parked. Its ``next_pc`` is
        therefore read here even if the outcome is in ``beside``: the comparison need not wait for
        the selection between the two."""
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
        """Assertions about the stack's answers."""
        last = self.beside[-1]
        is_answered = last.valid & self.result.valid
        m.d.sync += Assert(
            ~(is_answered & (last.payload.warp != self.result.payload.warp)),
            "the stack answers out of order")
        is_unwind = is_answered & self.result.payload.resume
        next_pc = last.payload.basic.next_pc
        resumes_at_next = (
            instruction_address(self.result.payload.pc) == instruction_address(next_pc))
        m.d.sync += Assert(
            ~is_unwind | (self.outcome.unwinds_to_next == resumes_at_next),
            "an outcome that unwinds is not the last one that its warp has parked")
