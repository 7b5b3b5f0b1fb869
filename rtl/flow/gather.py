"""The first stage: which threads execute an instruction."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import FlowOperation, StackOperation, ThreadCode, flow_launch, flow_request
from rtl.params import WARP_THREADS, SmParams

from .stages import WarpState, decide_stage

__all__ = ["ThreadGather"]


class ThreadGather(Component):
    """The threads of an instruction; combinational. A launch goes before an instruction.

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
            gathered.left.eq(active & ~threads & Const(~0, WARP_THREADS)), gathered.codes.eq(self.state.codes)]

        # What it is.
        m.d.comb += [gathered[name].eq(request[name]) for name in ("warp", "instruction", "pc", "operand", "fault")]
        m.d.comb += gathered.stack.eq(launch.stack)
        with m.If(launches):
            m.d.comb += [
                gathered.warp.eq(launch.warp), gathered.instruction.eq(0),
                gathered.instruction.operation.eq(FlowOperation.LAUNCH),
                gathered.instruction.asked.eq(StackOperation.LAUNCH),
                gathered.instruction.code.eq(ThreadCode.KILLED), gathered.instruction.constant.eq(1),
                gathered.pc.eq(launch.pc), gathered.operand.eq(launch.pc)]
        with m.Elif(instruction.operation == FlowOperation.SET_BASE):
            m.d.comb += gathered.stack.base.eq(request.operand)
        return m
