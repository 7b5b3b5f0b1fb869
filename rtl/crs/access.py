"""The first stage: whose turn it is, and what is known of its stack."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import API_CALL_LIMIT, TOKENS_PER_LINE
from rtl.layouts import DEPTH_BITS, Event, StackOperation, stack_request
from rtl.params import SmParams

from .records import (
    COUNT_BITS,
    NEAR_BITS,
    POINTER_CALLS,
    TOP_STEP,
    Counters,
    Limits,
    Parking,
    Seek,
    StackState,
    again,
    change_stage,
)
from .tokens import role_of

__all__ = ["StackAccess"]

_FLAGS = {
    StackOperation.PUSH: ("push",), StackOperation.CALL: ("push", "counts"),
    StackOperation.PREPARE_CALL: ("push", "counts", "prepares"), StackOperation.UNWIND: ("walk", "holds"),
    StackOperation.POP_QUAD: ("walk", "quad", "holds"),
    StackOperation.RESTORE: ("walk", "frame", "mode", "leave", "holds"),
    StackOperation.CLEAR: ("walk", "clear", "holds"),
    StackOperation.GET_POINTER: ("get",), StackOperation.SET_POINTER: ("set", "holds"),
    StackOperation.GET_BASE: ("base",), StackOperation.SET_BASE: ("move", "holds"),
    StackOperation.WRITE_BACK: ("write_back", "holds"), StackOperation.LAUNCH: ("launch", "holds"),
    StackOperation.SET_MODE: ("mode",)}
"""The flags of :class:`Step` that are set for an operation."""
_PUSHES = tuple(operation for operation, flags in _FLAGS.items() if "push" in flags)
_UNWINDS = tuple(operation for operation, flags in _FLAGS.items() if "walk" in flags)


class StackAccess(Component):
    """Takes what comes back from where it was parked, or a request, unless an unwind that is under way has its next
    token read (``follows``); combinational.

    A request waits while its warp is busy, if it is a push also while the warp's lines are all dirty, and in the cycle
    after a request of the same warp, whose state is being written then. An unwind whose warp was busy waits one cycle
    more, since its token is not read before. A write-back of a warp whose lines memory has
    is done at once.

    Members
    -------
    request : In(stream of stack_request)
    again, again_taken : In(Event(again)), Out(1)
    follows : In(1)
    busy, full : In(warps), In(warps)
    before : In(Event(warp))
        Whose step is in the next stage.
    warp : Out
        Whose turn it is, as far as it has one. What follows is of this warp.
    state, counters, limits, seek : In(StackState), In(Counters), In(Limits), In(Seek)
    asks, blocked : Out(1), Out(1)
        There is a request, and its warp was not busy a cycle ago; it waits since it is a push, and all lines are dirty.
    reads : Out(1)
        The topmost token may be looked at.
    valid, stage : Out(1), Out(change_stage)
    """

    def __init__(self, params: SmParams) -> None:
        warps = params.warps
        super().__init__({
            "request": In(stream.Signature(stack_request(params))), "again": In(Event(again(params))),
            "again_taken": Out(1), "follows": In(1), "busy": In(warps), "full": In(warps),
            "before": In(Event(params.warp_bits)), "warp": Out(params.warp_bits), "state": In(StackState),
            "counters": In(Counters), "limits": In(Limits), "seek": In(Seek), "asks": Out(1), "blocked": Out(1),
            "reads": Out(1), "valid": Out(1), "stage": Out(change_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, back, stage, step = self.request.payload, self.again.payload, self.stage, self.stage.step
        state, counters, limits, operation, returns = (
            self.state, self.counters, self.limits, request.operation, self.again.valid)

        # Whose turn it is.
        pushes, unwinds, busy, was_busy = Signal(), Signal(), Signal(), Signal()
        with m.Switch(operation):
            with m.Case(*_PUSHES):
                m.d.comb += pushes.eq(1)
            with m.Case(*_UNWINDS):
                m.d.comb += unwinds.eq(1)
        m.d.comb += [
            self.warp.eq(Mux(returns, back.warp, request.warp)), self.again_taken.eq(returns & ~self.follows),
            busy.eq(self.busy.bit_select(request.warp, 1)), self.asks.eq(self.request.valid & ~was_busy),
            self.blocked.eq(self.request.valid & ~busy & pushes & self.full.bit_select(request.warp, 1)),
            self.request.ready.eq(~(busy | (was_busy & unwinds) | self.blocked | returns | self.follows
                                    | (self.before.valid & (self.before.payload == request.warp)))),
            self.valid.eq(self.again_taken | (self.request.valid & self.request.ready)),
            self.reads.eq(returns | (self.asks & unwinds))]
        m.d.sync += was_busy.eq(self.request.valid & busy)

        # What is to be done.
        lines = Signal(COUNT_BITS)
        settled = ~limits.memory | (stage.clean & counters.written)
        with m.If(returns):
            walks = (back.parking == Parking.WALK) | (back.parking == Parking.SINK)
            m.d.comb += [
                step.walk.eq(walks), step.quad.eq(self.seek.quad), step.frame.eq(self.seek.frame), step.prior.eq(1),
                step.holds.eq(1), step.load.eq(back.parking == Parking.LOAD), step.fault.eq(back.fault)]
        with m.Else():
            m.d.comb += step.pair.eq(request.pair)
            with m.If(request.enable), m.Switch(operation):
                for meant, flags in _FLAGS.items():
                    with m.Case(meant):
                        value = ~settled if meant == StackOperation.WRITE_BACK else 1
                        m.d.comb += [step[flag].eq(value) for flag in flags]

        # What is known. GETCRSPTR and the trap frame count whole lines.
        sets = (operation == StackOperation.SET_POINTER) & ~returns
        whole = ((operation == StackOperation.GET_POINTER) | (operation == StackOperation.SET_MODE)) & ~returns
        token, pointer = stage.token, request.operand
        m.d.comb += [
            stage.warp.eq(self.warp), stage.top.eq(state.last), stage.sunk.eq(state.sunk),
            stage.below.eq(counters.below), stage.cleaned.eq(counters.cleaned), stage.limit.eq(limits.limit),
            stage.memory.eq(limits.memory),
            stage.number.eq(Mux(sets, pointer[:DEPTH_BITS], state.last | Mux(whole, TOKENS_PER_LINE - 1, 0))),
            stage.calls.eq(Mux(sets, pointer[POINTER_CALLS:31], state.calls)),
            stage.kill.eq(Mux(sets, pointer[31], state.kill)),
            lines.eq(state.entered - counters.below), stage.lines.eq(lines), stage.held.eq(lines),
            stage.lone.eq(lines == 1),
            stage.near.eq(Cat((state.last[TOP_STEP + 1:] ^ limits.limit[1:])[part::NEAR_BITS] == 0
                              for part in range(NEAR_BITS))),
            stage.sees.eq(step.walk & ~step.clear & ~step.fault & ~state.last[-1] & (state.entered != counters.below)),
            stage.dirty.eq(state.dirtied - counters.cleaned), stage.clean.eq(state.dirtied == counters.cleaned),
            stage.calls_full.eq(limits.checks_calls & (state.calls >= API_CALL_LIMIT)),
            token.pc.eq(request.operand), token.mask.eq(request.mask), token.kind.eq(request.kind),
            token.role.as_value().eq(role_of(request.kind)),
            token.counted.eq((operation == StackOperation.CALL) | (operation == StackOperation.PREPARE_CALL))]
        return m
