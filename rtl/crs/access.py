"""The first stage: whose turn it is, and what is known of its stack."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import API_CALL_LIMIT, TOKENS_PER_LINE
from rtl.layouts import DEPTH_BITS, Event, StackConfiguration, StackOperation, stack_request
from rtl.params import SmParams

from .records import (
    COUNT_BITS,
    LIMIT_BITS,
    PLACE_BITS,
    POINTER_CALLS,
    Parking,
    StackState,
    Tags,
    again,
    change_stage,
)
from .tokens import role_of

__all__ = ["StackAccess"]

_PUSHES = (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL)
_UNWINDS = (StackOperation.UNWIND, StackOperation.POP_QUAD, StackOperation.RESTORE, StackOperation.CLEAR)
_FLAGS = {
    StackOperation.PUSH: ("push",), StackOperation.CALL: ("push", "counts"),
    StackOperation.PREPARE_CALL: ("push", "counts", "prepares"), StackOperation.UNWIND: ("walk",),
    StackOperation.POP_QUAD: ("walk", "quad"), StackOperation.RESTORE: ("walk", "frame", "mode", "leave"),
    StackOperation.CLEAR: ("walk", "clear"), StackOperation.GET_POINTER: ("get",), StackOperation.SET_POINTER: ("set",),
    StackOperation.GET_BASE: ("base",), StackOperation.SET_BASE: ("move",), StackOperation.WRITE_BACK: ("write_back",),
    StackOperation.LAUNCH: ("launch",), StackOperation.SET_MODE: ("mode",)}
"""The flags of :class:`Step` that are set for an operation."""


class StackAccess(Component):
    """Takes what comes back from where it was parked, or a request, unless an unwind that is under way has its next
    token read (``follows``); combinational.

    A request waits while its warp is busy, if it is a push also while the warp's lines are all dirty, and in the cycle
    after a request of the same warp, whose state is being written then.

    Members
    -------
    request, configuration : In(stream of stack_request), In(StackConfiguration)
    again, again_taken : In(Event(again)), Out(1)
    follows : In(1)
    busy, full : In(warps), In(warps)
    last_valid, last_warp : In(1), In
        Whose step is in the next stage.
    warp : Out
        Whose turn it is, as far as it has one. What follows is of this warp.
    state, tags, below, cleaned : In
    limit, memory, checks_calls : In(LIMIT_BITS), In(1), In(1)
        See StackRegions.
    quad, frame : In(1), In(1)
        What the warp's unwind looks for, if it comes back.
    enters : Out(1)
        The limit is to be that of the trap handler.
    asks, pushes : Out(1), Out(1)
        There is a request of a warp that is not busy. It is of the kind that pushes.
    reads, place : Out(1), Out(PLACE_BITS)
        A token may be looked at, and where.
    valid, stage : Out(1), Out(change_stage)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits, warps = params.warp_bits, params.warps
        super().__init__({
            "request": In(stream.Signature(stack_request(params))), "configuration": In(StackConfiguration),
            "again": In(Event(again(params))), "again_taken": Out(1), "follows": In(1), "busy": In(warps),
            "full": In(warps),
            "last_valid": In(1), "last_warp": In(bits), "warp": Out(bits), "state": In(StackState), "tags": In(Tags),
            "below": In(COUNT_BITS), "cleaned": In(COUNT_BITS), "limit": In(LIMIT_BITS), "memory": In(1),
            "checks_calls": In(1), "quad": In(1), "frame": In(1), "enters": Out(1), "asks": Out(1), "pushes": Out(1),
            "reads": Out(1),
            "place": Out(PLACE_BITS), "valid": Out(1), "stage": Out(change_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, back, state, stage = self.request.payload, self.again.payload, self.state, self.stage
        operation, step, returns = request.operation, self.stage.step, self.again.valid

        # Whose turn it is.
        unwinds, waits, busy = Signal(), Signal(), Signal()
        with m.Switch(operation):
            with m.Case(*_PUSHES):
                m.d.comb += self.pushes.eq(1)
            with m.Case(*_UNWINDS):
                m.d.comb += unwinds.eq(1)
        m.d.comb += [
            self.warp.eq(Mux(returns, back.warp, request.warp)), self.again_taken.eq(returns & ~self.follows),
            busy.eq(self.busy.bit_select(request.warp, 1)), self.asks.eq(self.request.valid & ~busy),
            waits.eq(busy | (self.pushes & self.full.bit_select(request.warp, 1))
                     | (self.last_valid & (self.last_warp == request.warp))),
            self.request.ready.eq(~waits & ~returns & ~self.follows),
            self.valid.eq(self.again_taken | (self.request.valid & self.request.ready)),
            self.reads.eq(returns | (self.asks & unwinds)), self.place.eq(state.last)]

        # What is to be done.
        with m.If(returns):
            walks = (back.parking == Parking.WALK) | (back.parking == Parking.SINK)
            m.d.comb += [
                step.walk.eq(walks), step.quad.eq(self.quad), step.frame.eq(self.frame), step.prior.eq(1),
                step.single.eq(1),
                step.load.eq(back.parking == Parking.LOAD), step.fault.eq(back.fault)]
        with m.Else():
            m.d.comb += [step.pair.eq(request.pair), step.single.eq(~self.pushes)]
            with m.If(request.enable), m.Switch(operation):
                for meant, flags in _FLAGS.items():
                    with m.Case(meant):
                        m.d.comb += [step[flag].eq(1) for flag in flags]

        # What is known. GETCRSPTR and the trap frame count whole lines.
        sets = (operation == StackOperation.SET_POINTER) & ~returns
        whole = ((operation == StackOperation.GET_POINTER) | (operation == StackOperation.SET_MODE)) & ~returns
        low, steps = stage.number[:PLACE_BITS], stage.number[PLACE_BITS:]
        reaches = (steps == self.limit) & low[1:].all() & (low[0] | step.pair)
        m.d.comb += [
            stage.beyond.eq(steps > self.limit), stage.limited.eq(~stage.number[-1] & (stage.beyond | reaches)),
            self.enters.eq(operation == StackOperation.SET_MODE), stage.warp.eq(self.warp),
            stage.number.eq(Mux(sets, request.operand[:DEPTH_BITS],
                                state.last | Mux(whole, TOKENS_PER_LINE - 1, 0))),
            stage.places.eq(state.last), stage.lines.eq(state.entered - self.below),
            stage.held.eq(state.entered - self.below),
            stage.dirty.eq(state.dirtied - self.cleaned), stage.clean.eq(state.dirtied == self.cleaned),
            stage.below.eq(self.below), stage.cleaned.eq(self.cleaned),
            stage.calls.eq(Mux(sets, request.operand[POINTER_CALLS:31], state.calls)),
            stage.kill.eq(Mux(sets, request.operand[31], state.kill)), stage.sunk.eq(state.sunk),
            stage.tags.eq(self.tags),
            stage.limit.eq(self.limit), stage.memory.eq(self.memory),
            stage.calls_full.eq(self.checks_calls & (state.calls >= API_CALL_LIMIT)),
            stage.token.pc.eq(request.operand), stage.token.mask.eq(request.mask), stage.token.kind.eq(request.kind),
            stage.token.counted.eq((operation == StackOperation.CALL) | (operation == StackOperation.PREPARE_CALL)),
            stage.token.role.as_value().eq(role_of(request.kind)), stage.configuration.eq(self.configuration)]
        return m
