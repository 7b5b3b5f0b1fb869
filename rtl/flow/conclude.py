"""Conclude: the last stage. It combines the stack's result with the outcome to the flow result."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import REPORT_BITS, Event, ThreadCode, flow_result, reported, stack_result
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields

from .stages import decided_outcome, thread_state

__all__ = ["ConcludeStage"]


class ConcludeStage(Component):
    """The last stage: computes the warp's next pc, active threads and codes; combinational.

    An error of the outcome has priority over an error of the stack. An instruction that fails does
    nothing, whether or not its error is reported.

    Members
    -------
    outcome : In(decided_outcome)
        The outcome that belongs to ``stack_result``, from OutcomesInFlight.
    report_mask : In(32)
        Bit n: errors of code n are reported.
    stack_result : In(Event(stack_result))
    state : In(thread_state)
        The warp's state before the instruction.
    next_state : Out(thread_state)
        The warp's state after it.
    result : Out(Event(flow_result))
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "outcome": In(decided_outcome(params)),
            "report_mask": In(REPORT_BITS),
            "stack_result": In(Event(stack_result(params))),
            "state": In(thread_state()),
            "next_state": Out(thread_state()),
            "result": Out(Event(flow_result(params))),
        })
        self._is_refused = Signal(name="is_refused")
        """The stack has refused the request."""
        self._fails = Signal(name="fails")
        """The instruction fails: its outcome has an error, or the stack has refused."""
        self._resumes = Signal(name="resumes")
        """An unwind has found the threads that continue, at the pc of their token."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        outcome = self.outcome
        answer = self.stack_result.payload
        m.d.comb += self._is_refused.eq(answer.error != WarpError.NONE)
        m.d.comb += self._fails.eq(self._is_refused | (outcome.error != WarpError.NONE))
        m.d.comb += self._resumes.eq(answer.resume & ~outcome.basic.is_pop_quad)
        self._report(m)
        self._select_pc(m)
        self._select_active(m)
        self._assign_codes(m)
        self._answer(m)
        return m

    def _report(self, m: Module) -> None:
        """Selects the error, if it is reported."""
        outcome = self.outcome
        answer = self.stack_result.payload
        result = self.result.payload
        has_error = outcome.error != WarpError.NONE
        stack_error_is_reported = ~has_error & reported(self.report_mask, answer.error)
        with m.If(outcome.reports_error | stack_error_is_reported):
            with m.If(has_error):
                m.d.comb += result.error.eq(outcome.error)
            with m.Else():
                m.d.comb += result.error.eq(answer.error)

    def _select_pc(self, m: Module) -> None:
        """Selects the warp's next pc, and compares it with the pc at which fetch has continued.
        After an error the warp continues at the next instruction (ours), except after an operation
        of the trap unit, which retries."""
        outcome = self.outcome
        result = self.result.payload
        with m.If(~self._fails & self._resumes):
            m.d.comb += result.pc.eq(self.stack_result.payload.pc)
        with m.Elif(~self._fails & outcome.jumps):
            m.d.comb += result.pc.eq(outcome.target)
        with m.Elif(outcome.basic.retries):
            m.d.comb += result.pc.eq(outcome.basic.pc)
        with m.Else():
            m.d.comb += result.pc.eq(outcome.basic.next_pc)

        # After a failure or a retry, fetch has to be redirected in any case.
        may_be_as_predicted = ~self._fails & ~outcome.basic.retries
        with m.If(self._resumes):
            m.d.comb += result.as_predicted.eq(may_be_as_predicted & outcome.unwinds_to_next)
        with m.Elif(outcome.jumps):
            m.d.comb += result.as_predicted.eq(
                may_be_as_predicted & (outcome.predicted | outcome.target_is_next))
        with m.Else():
            m.d.comb += result.as_predicted.eq(
                may_be_as_predicted & (~outcome.predicted | outcome.target_is_next))

    def _select_active(self, m: Module) -> None:
        """Selects the active threads: those that an unwind resumes, or those of the outcome, or the
        same as before; none if the warp ends. An outcome that sets them has no error."""
        answer = self.stack_result.payload
        active = self.next_state.active
        with m.If(answer.resume):
            m.d.comb += active.eq(answer.mask)
        with m.Elif(self.outcome.sets_active & ~self._is_refused):
            m.d.comb += active.eq(self.outcome.active)
        with m.Else():
            m.d.comb += active.eq(self.state.active & ~answer.empty.replicate(WARP_THREADS))

    def _assign_codes(self, m: Module) -> None:
        """Selects the codes of the threads. An outcome sets codes only with a NONE or LAUNCH
        request, or with the last push of a trap frame, whose room was checked: the stack refuses
        none of these. When the warp ends, threads that wait for a RETURN token have exited."""
        answer = self.stack_result.payload
        sets_codes = Signal()
        m.d.comb += sets_codes.eq(answer.empty | self._resumes | self.outcome.sets_codes)
        for thread, code in enumerate(self.next_state.codes):
            stack_code = answer.codes[thread]
            with m.If(answer.empty & (stack_code == ThreadCode.RETURN)):
                m.d.comb += code.eq(ThreadCode.EXIT)
            with m.Elif(sets_codes):
                m.d.comb += code.eq(stack_code)
            with m.Else():
                m.d.comb += code.eq(self.state.codes[thread])

    def _answer(self, m: Module) -> None:
        """Sends the rest of the result."""
        outcome = self.outcome
        answer = self.stack_result.payload
        result = self.result.payload
        m.d.comb += self.result.valid.eq(self.stack_result.valid & ~outcome.has_no_result)
        m.d.comb += result.warp.eq(answer.warp)
        m.d.comb += common_fields(result, self.next_state)
        m.d.comb += result.terminated.eq(answer.empty)
        m.d.comb += result.request_pc.eq(outcome.basic.pc)
        m.d.comb += result.value.eq(answer.value)
        m.d.comb += result.kept.eq(outcome.basic.keeps_reference & (answer.empty | ~self._fails))
