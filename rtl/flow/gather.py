"""The first stage: which threads execute an instruction, and where it goes."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.layouts import FlowOperation, ThreadCode, flow_launch, flow_request
from rtl.params import WARP_THREADS, SmParams

from .stages import WarpState, decide_stage
from .target import TargetResolver

__all__ = ["ThreadGather"]

_OPERAND_ONLY = (FlowOperation.SET_POINTER.value, FlowOperation.SET_BASE.value)


class ThreadGather(Component):
    """Threads and target of an instruction; combinational. A launch goes before an instruction.

    A launch is an instruction, too: with all threads active, those it does not want leave as KILLED.

    Members
    -------
    request : In(stream of flow_request)
    launch : In(stream of flow_launch)
    state : In(WarpState)
        Of the warp that requests.
    gathered : Out(stream of decide_stage)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(stream.Signature(flow_request(params))), "launch": In(stream.Signature(flow_launch(params))),
            "state": In(WarpState), "gathered": Out(stream.Signature(decide_stage(params)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.resolver = resolver = TargetResolver()
        request, launch, gathered = self.request.payload, self.launch.payload, self.gathered.payload
        instruction, launches = request.instruction, self.launch.valid
        m.d.comb += [
            self.gathered.valid.eq(launches | self.request.valid), self.launch.ready.eq(self.gathered.ready),
            self.request.ready.eq(self.gathered.ready & ~launches)]

        # Which threads.
        active, threads, same = (Signal(WARP_THREADS, name=name) for name in ("active", "threads", "same"))
        m.d.comb += [
            active.eq(self.state.active | launches.replicate(WARP_THREADS)),
            threads.eq(active & Mux(launches, ~launch.threads, request.guard)),
            same.eq(request.same | (~instruction.indexed | launches).replicate(WARP_THREADS)),
            gathered.group.eq(threads & same), gathered.rest.eq(threads & ~same),
            gathered.left.eq(active & ~threads & Const(~0, WARP_THREADS)), gathered.some.eq(threads.any()),
            gathered.others.eq(gathered.rest.any()), gathered.stay.eq(gathered.left.any()),
            gathered.codes.eq(self.state.codes)]

        # Where to.
        m.d.comb += [
            resolver.pc.eq(request.pc), resolver.instruction.eq(instruction), resolver.operand.eq(request.operand),
            resolver.fault.eq(request.fault), gathered.warp.eq(request.warp), gathered.pc.eq(request.pc),
            gathered.following.eq(request.pc + INSTRUCTION_BYTES),
            gathered.target.eq(Mux(instruction.operation.as_value().matches(*_OPERAND_ONLY), request.operand,
                                   resolver.target)),
            gathered.target_error.eq(resolver.error), gathered.stack.eq(launch.stack)]
        m.d.comb += [gathered[name].eq(instruction[name]) for name in (
            "operation", "kind", "code", "counted", "uniform", "limited", "keep_reference")]
        with m.If(launches):
            m.d.comb += [
                gathered.warp.eq(launch.warp), gathered.operation.eq(FlowOperation.LAUNCH),
                gathered.code.eq(ThreadCode.KILLED), gathered.pc.eq(launch.pc), gathered.target.eq(launch.pc),
                gathered.target_error.eq(WarpError.NONE)]
        with m.Elif(instruction.operation == FlowOperation.SET_BASE):
            m.d.comb += gathered.stack.base.eq(request.operand)
        return m
