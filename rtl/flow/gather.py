"""Gather: the first stage. It computes the threads that execute an instruction, and its target."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import (
    FlowInstruction,
    FlowOperation,
    StackOperation,
    ThreadCode,
    flow_launch,
    flow_request,
)
from rtl.params import WARP_THREADS, SmParams

from .stages import gathered_instruction, thread_state
from .target import TargetResolver

__all__ = ["GatherStage"]

_LAUNCH_INSTRUCTION = FlowInstruction.const({
    "operation": FlowOperation.LAUNCH,
    "stack_operation": StackOperation.LAUNCH,
    "code": ThreadCode.KILLED,
    "constant": 1,
})
"""A launch as an instruction. Its target is its operand: the pc at which the warp begins."""


class GatherStage(Component):
    """The first stage: computes the threads that execute an instruction, and its target.

    A launch is executed like an instruction: all 32 threads are active, and the threads that the
    launch does not include leave as KILLED. A launch has priority over a request.

    Members
    -------
    request : In(stream of flow_request)
    launch : In(stream of flow_launch)
    state : In(thread_state)
        The state of the request's warp.
    gathered : Out(stream of gathered_instruction)
        From a register.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(stream.Signature(flow_request(params))),
            "launch": In(stream.Signature(flow_launch(params))),
            "state": In(thread_state()),
            "gathered": Out(stream.Signature(gathered_instruction(params))),
        })
        self.resolver = TargetResolver(params)
        """Adds up the target."""
        self._next: Any = Signal(gathered_instruction(params), name="next_gathered")
        """The input of the output register."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._select_instruction(m)
        self._gather_threads(m)
        self._resolve_target(m)
        self._advance(m)
        return m

    def _select_instruction(self, m: Module) -> None:
        """Selects the launch, if there is one, or else the request."""
        request = self.request.payload
        launch = self.launch.payload
        is_launch = self.launch.valid
        selected = self._next.request
        m.d.comb += selected.eq(request)
        m.d.comb += self._next.codes.eq(self.state.codes)
        m.d.comb += self._next.configuration.eq(launch.stack)
        with m.If(is_launch):
            m.d.comb += selected.warp.eq(launch.warp)
            m.d.comb += selected.pc.eq(launch.pc)
            m.d.comb += selected.operand.eq(launch.pc)
        with m.Else():
            m.d.comb += self._next.configuration.base.eq(request.operand)    # used by SET_BASE
        m.d.comb += selected.instruction.eq(self._instruction_without_mux())
        plain = Mux(is_launch, _LAUNCH_INSTRUCTION.as_value(), request.instruction.as_value())
        m.d.sync += Assert(
            selected.instruction.as_value() == plain,
            "the selected instruction is neither the launch nor the request")

    def _instruction_without_mux(self) -> Any:
        """``Mux(is_launch, launch, request)`` as AND and OR. From a multiplexer synthesis would
        make a register that ``launch.valid`` resets, and that signal is known late."""
        request = self.request.payload.instruction.as_value()
        is_launch = self.launch.valid.replicate(len(request))
        return (request & ~is_launch) | (_LAUNCH_INSTRUCTION.as_value() & is_launch)

    def _gather_threads(self, m: Module) -> None:
        """Computes the threads that execute the instruction: active threads whose guard holds. Of
        an indexed branch, those whose register equals the operand branch now, the others later."""
        request = self.request.payload
        launch = self.launch.payload
        gathered = self._next
        active = Signal(WARP_THREADS)
        executing = Signal(WARP_THREADS)
        has_operand = Signal(WARP_THREADS)
        with m.If(self.launch.valid):
            m.d.comb += active.eq(~0)
            m.d.comb += executing.eq(~launch.threads)
            m.d.comb += has_operand.eq(~0)
        with m.Else():
            is_indexed = request.instruction.indexed
            m.d.comb += active.eq(self.state.active)
            m.d.comb += executing.eq(active & request.guard)
            m.d.comb += has_operand.eq(request.same | (~is_indexed).replicate(WARP_THREADS))
        m.d.comb += gathered.group.eq(executing & has_operand)
        m.d.comb += gathered.deferred.eq(executing & ~has_operand)
        m.d.comb += gathered.remaining.eq(active & ~executing)
        m.d.comb += gathered.is_executed.eq(executing.any())
        m.d.comb += gathered.has_deferred.eq(gathered.deferred.any())
        m.d.comb += gathered.has_remaining.eq(gathered.remaining.any())

    def _resolve_target(self, m: Module) -> None:
        """Computes the target of the selected instruction."""
        resolver = self.resolver
        m.submodules.resolver = resolver
        m.d.comb += resolver.request.eq(self._next.request)
        m.d.comb += self._next.target.eq(resolver.target)

    def _advance(self, m: Module) -> None:
        """Loads the register to the decide stage."""
        gathered = self.gathered
        m.d.comb += self.launch.ready.eq(gathered.ready)
        m.d.comb += self.request.ready.eq(gathered.ready & ~self.launch.valid)
        with m.If(gathered.ready):
            m.d.sync += gathered.valid.eq(self.launch.valid | self.request.valid)
            m.d.sync += gathered.payload.eq(self._next)
