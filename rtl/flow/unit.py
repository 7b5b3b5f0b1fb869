"""The flow unit: its first and its last stage, and what lies between."""

from typing import Any

from amaranth.hdl import Assert, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component, pass_on
from rtl.isa.errors import WarpError
from rtl.layouts import (
    REPORT_BITS,
    STACK_RESULT_CYCLES,
    Event,
    EventLayout,
    FlowInstruction,
    FlowOperation,
    StackOperation,
    StackPort,
    ThreadCode,
    ThreadCodes,
    flow_launch,
    flow_request,
    flow_result,
    reported,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.word import instruction_address
from rtl.words import Words

from .decide import FlowDecision, TargetResolver, outcome_stage

__all__ = ["FlowUnit"]

_KEPT = {"pc": 32, "following": 32, "stays": 1, "quad": 1, "kept": 1}
"""What is kept of an outcome while the stack needs more steps than usual."""
_LAUNCHED = FlowInstruction.const({
    "operation": FlowOperation.LAUNCH, "asked": StackOperation.LAUNCH, "code": ThreadCode.KILLED, "constant": 1})
_NOTHING = ("jumps", "moves", "marks", "mute", "loud")


class FlowUnit(Component):
    """Keeps the threads' masks of all warps, and executes the instructions that change them or the pc.

    A warp may send an instruction in the cycle after one that only pushes, and in the cycle after the result of any
    other. Warps follow each other in any order, one instruction a cycle.

    Members
    -------
    request : In(stream of flow_request)
    launch : In(stream of flow_launch)
        A new warp; goes before ``request``. Its result tells where it begins.
    report_mask : In(32)
        Bit n: errors of code n are reported. One that is not makes the instruction do nothing; one of entering the trap
        handler always is.
    result : Out(Event of flow_result)
        Four cycles after the request, or later: the warp's next request may come five cycles after this one. What is
        dispatched to :class:`~rtl.flow.FlowQueue` is requested a cycle later: six cycles from dispatch to dispatch.
    stack : Out(StackPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "request": In(stream.Signature(flow_request(params))), "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(REPORT_BITS), "result": Out(Event(flow_result(params))),
            "stack": Out(StackPort(params))})
        self.states = Words(data.StructLayout({"active": WARP_THREADS, "codes": ThreadCodes}), params.warps)
        """Which threads of a warp are active, and why the others are not."""
        self._back = Signal()
        self.decision, self.resolver = FlowDecision(params), TargetResolver()
        """The second stage, and what adds up targets in the first one."""
        self.waiting = Words(data.StructLayout(_KEPT), params.warps)
        """Outcomes that wait for the stack longer than usual."""
        self.beside: list[Any] = [
            Signal(EventLayout(outcome_stage(params)), name=f"beside_{cycle}") for cycle in range(STACK_RESULT_CYCLES)]
        """Outcomes on their way beside the stack, the newest first."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.states = states = self.states
        m.submodules.decision = decision = self.decision
        deciding, told = decision.gathered, self.stack.result.warp
        old = states.read(m, told)
        gathered, new = Signal.like(deciding.payload), Signal.like(old)
        m.d.comb += [self.launch.ready.eq(deciding.ready), self.request.ready.eq(deciding.ready & ~self.launch.valid)]
        self._gather(m, states.read(m, self.request.payload.warp), gathered)
        with m.If(deciding.ready):
            m.d.sync += [deciding.valid.eq(self.launch.valid | self.request.valid), deciding.payload.eq(gathered)]
        connect(m, decision.stack, flipped(self.stack))
        self._conclude(m, self._wait(m, decision), old, new)
        states.write(m, self.stack.result_valid, told, new)
        return m

    def _gather(self, m: Module, state: Any, gathered: Any) -> None:
        """Which threads execute an instruction, and its target. A launch is one, too: with all threads active, those it
        does not want leave as KILLED."""
        request, launch, launches = self.request.payload, self.launch.payload, self.launch.valid
        instruction, asked = request.instruction, gathered.request
        every = launches.replicate(len(instruction.as_value()))
        active, threads, same = (Signal(WARP_THREADS, name=name) for name in ("active", "threads", "same"))
        m.d.comb += [
            active.eq(state.active | launches.replicate(WARP_THREADS)),
            threads.eq(active & Mux(launches, ~launch.threads, request.guard)),
            same.eq(request.same | (~instruction.indexed | launches).replicate(WARP_THREADS)),
            gathered.group.eq(threads & same), gathered.rest.eq(threads & ~same),
            gathered.left.eq(active & ~threads & Const(~0, WARP_THREADS)), gathered.codes.eq(state.codes),
            gathered.some.eq(threads.any()), gathered.others.eq(gathered.rest.any()),
            gathered.stay.eq(gathered.left.any()),
            gathered.stack.eq(launch.stack), asked.eq(request),
            # As a choice synthesis would reset the register by what is taken, which is the last to be known.
            asked.instruction.eq((instruction.as_value() & ~every) | (_LAUNCHED.as_value() & every))]
        with m.If(launches):
            pass_on(m, launch, asked, "warp", "pc")
            m.d.comb += asked.operand.eq(launch.pc)
        with m.Else():
            m.d.comb += gathered.stack.base.eq(request.operand)     # of SET_BASE; nobody else has one
        m.submodules.resolver = resolver = self.resolver
        pass_on(m, asked, resolver, "pc", "instruction", "operand", "fault")
        m.d.comb += [gathered.target.eq(resolver.target), gathered.wrong.eq(resolver.error)]

    def _wait(self, m: Module, decision: FlowDecision) -> Any:
        """What is decided waits for the stack: the usual time beside it, or in a place of the warp's own. Of what has
        waited there nothing else counts; its threads and its target would mean nothing."""
        m.submodules.waiting = waiting = self.waiting
        outcome, valid, known = decision.outcome, decision.decided, Signal(outcome_stage(self._params))
        # Also before the stack has taken the request, which is known late: nothing else of the warp waits then.
        waiting.write(m, decision.gathered.valid, outcome.warp, {name: outcome[name] for name in _KEPT})
        kept = waiting.read(m, self.stack.result.warp)
        for later in self.beside:
            next_valid, next_outcome = later.valid, later.payload
            m.d.sync += [next_valid.eq(valid), next_outcome.eq(outcome)]
            if later is self.beside[-1]:
                m.d.sync += [
                    next_outcome.near.eq(
                        instruction_address(outcome.target) == instruction_address(outcome.following)),
                    next_outcome.loud.eq(outcome.loud | reported(self.report_mask, outcome.error))]
                with m.If(~valid):
                    m.d.sync += [next_outcome[name].eq(0) for name in _NOTHING]
                    m.d.sync += next_outcome.error.eq(WarpError.NONE)
            valid, outcome = next_valid, next_outcome
        # What may unwind is the last of its warp that was kept, so that this needs not wait for who has the outcome.
        m.d.comb += [known.eq(outcome), self._back.eq(
            instruction_address(self.stack.result.pc) == instruction_address(kept.following))]
        with m.If(~valid):
            m.d.comb += [known[name].eq(kept[name]) for name in _KEPT]
        m.d.sync += Assert(~(valid & self.stack.result_valid & (outcome.warp != self.stack.result.warp)),
                           "the stack answers out of order")
        return known

    def _conclude(self, m: Module, outcome: Any, old: Any, new: Any) -> None:
        """Joins the stack's result and what the instruction comes to without it."""
        stack, result = self.stack.result, self.result.payload
        error, failed, refused, tells = Signal(WarpError), Signal(), Signal(), Signal()
        unwound, wrong = stack.resume & ~outcome.quad, outcome.error != WarpError.NONE
        m.d.comb += [
            error.eq(Mux(wrong, outcome.error, stack.error)), refused.eq(stack.error != WarpError.NONE),
            failed.eq(wrong | refused), tells.eq(outcome.loud | ~wrong & reported(self.report_mask, stack.error)),
            self.result.valid.eq(self.stack.result_valid & ~outcome.mute), result.terminated.eq(stack.empty),
            result.kept.eq(outcome.kept & (stack.empty | ~failed)),
            result.error.eq(Mux(tells, error, WarpError.NONE))]

        # Where to go on. An instruction that failed is left behind, whether that is told or not.
        with m.If(~failed & unwound):
            m.d.comb += result.pc.eq(stack.pc)
        with m.Elif(~failed & outcome.jumps):
            m.d.comb += result.pc.eq(outcome.target)
        with m.Elif(outcome.stays):
            m.d.comb += result.pc.eq(outcome.pc)
        with m.Else():
            m.d.comb += result.pc.eq(outcome.following)
        near = Mux(unwound, self._back, ~outcome.jumps | outcome.near)
        m.d.comb += [result.own.eq(outcome.pc), result.behind.eq(~failed & ~outcome.stays & near)]

        # Who goes on. What marks threads can't fail, nor asks it the stack for more than to remember their codes.
        # Threads that wanted to return when the warp ends have exited.
        with m.If(stack.resume):
            m.d.comb += new.active.eq(stack.mask)
        with m.Elif(outcome.moves & ~refused):
            m.d.comb += new.active.eq(outcome.active)
        with m.Else():
            m.d.comb += new.active.eq(old.active & ~stack.empty.replicate(WARP_THREADS))
        marked = stack.empty | unwound | outcome.marks
        for after, code, before in zip(new.codes, stack.codes, old.codes, strict=True):
            ended = stack.empty & (code == ThreadCode.RETURN)
            m.d.comb += after.eq(Mux(marked, Mux(ended, ThreadCode.EXIT.value, code.as_value()), before.as_value()))
        pass_on(m, new, result, "active", "codes")
        pass_on(m, stack, result, "warp", "value")
