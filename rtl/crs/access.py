"""The first stage: whose turn it is, what is pushed, which line is read."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.tokens import API_CALL_LIMIT, TOKENS_PER_LINE, Token
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LINE_BITS, StackOperation, stack_request
from rtl.params import SmParams

from .pointers import WidePointer
from .setting import pointer_value
from .stages import SEEN_BITS, Step
from .window import SLOT_BITS, AccessEvents, WindowFill, WindowState
from .windows import WindowView

__all__ = ["AccessView", "StackAccess", "tokens_up_to"]

_PUSHES = (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL)
_UNWINDS = (StackOperation.UNWIND, StackOperation.POP_QUAD)


def tokens_up_to(last: Signal) -> Cat:
    """Which tokens of the top line are on the stack, when ``last`` is the number of the topmost one."""
    return Cat(last[:2] >= index for index in range(TOKENS_PER_LINE))


class AccessView(data.Struct):
    """What the access sees of its warp."""

    window: WindowView
    pointer: WidePointer
    quad: unsigned(1)
    """Its unwind looks for a QUAD token."""
    seen: unsigned(SEEN_BITS)
    """Lines on chip that it has seen."""
    checks_calls: unsigned(1)
    calls_full: unsigned(1)
    base: unsigned(BLOCK_ADDRESS_BITS)


class StackAccess(wiring.Component):
    """Serves, in this order: a step of the stack's own (``turn``), a request, the next line of the walk that is
    one stage ahead (``follow``). A push is done here, so that the next cycle sees it; all else is decided here
    and done by the last stage.

    Members
    -------
    request : In(stream of stack_request)
    turn, turn_warp : In
    follow, follow_warp, follow_seen, outpaced : In
        The walk one stage ahead has a next line on chip; its unwind ends with the line before (known late).
    busy : In(1)
        The last operation of the request's warp is just being committed.
    sized : In(1)
        A stack launched now has a region in memory.
    installing : In(1)
        A line is written into the cache, so that no token can be.
    warp, view : Out, In(AccessView)
        Whose turn it is, and what is known of that warp.
    accepted : Out(1)
        The request is served.
    wants_push, reads : Out(1)
        A token may be written, a line may be read: known early in the cycle.
    valid, step, error, value : Out
        What the next stages do.
    slot, tokens, top : Out
        The line to read, which of its tokens are on the stack, and the number of the top line.
    push_slot, push_tokens, token : Out, Out(4), Out(Token)
        The token to write, and where.
    change, changed, changed_full : Out(1), Out(WidePointer), Out(1)
        The pointer to write, and whether it has reached the limit of calls.
    events : Out(AccessEvents)
    set_base, set_mode, waits_for_line, waits_for_turn : Out(1)
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "request": In(stream.Signature(stack_request(params))),
            "turn": In(1), "turn_warp": In(bits),
            "follow": In(1), "follow_warp": In(bits), "follow_seen": In(SEEN_BITS), "outpaced": In(1),
            "busy": In(1), "sized": In(1), "installing": In(1),
            "warp": Out(bits), "view": In(AccessView), "accepted": Out(1), "wants_push": Out(1), "reads": Out(1),
            "valid": Out(1), "step": Out(Step), "error": Out(WarpError), "value": Out(32),
            "slot": Out(SLOT_BITS), "tokens": Out(TOKENS_PER_LINE), "top": Out(LINE_BITS),
            "push_slot": Out(SLOT_BITS), "push_tokens": Out(TOKENS_PER_LINE), "token": Out(Token),
            "change": Out(1), "changed": Out(WidePointer), "changed_full": Out(1),
            "events": Out(AccessEvents), "set_base": Out(1), "set_mode": Out(1),
            "waits_for_line": Out(1), "waits_for_turn": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, view, step = self.request.payload, self.view, self.step
        window, pointer, operation, events = view.window, view.pointer, request.operation, self.events

        # Whose turn it is. A request waits while its warp is not idle, or while its push finds no line.
        follows = self.follow & ~self.turn & ~self.request.valid & ~self.outpaced
        pushes, unwinds, counts = Signal(), Signal(), Signal()
        with m.Switch(operation):
            with m.Case(*_PUSHES):
                m.d.comb += [pushes.eq(1), counts.eq(operation != StackOperation.PUSH)]
            with m.Case(*_UNWINDS):
                m.d.comb += unwinds.eq(1)
        idle = (window.state == WindowState.IDLE) & ~self.busy
        m.d.comb += [
            self.warp.eq(Mux(self.turn, self.turn_warp, Mux(self.request.valid, request.warp, self.follow_warp))),
            self.request.ready.eq(~self.turn & idle & ((window.pushable & ~self.installing) | ~pushes)),
            self.accepted.eq(self.request.valid & self.request.ready),
            self.wants_push.eq(self.request.valid & pushes),
            self.waits_for_line.eq(self.request.valid & ~self.turn & idle & pushes & ~window.pushable),
            self.waits_for_turn.eq(self.request.valid & self.turn)]
        serves = self.accepted & request.enable

        # Pushes. A call at the limit of calls and a token without room are refused.
        full = window.reached | (window.near & (window.last[1:].all() & (window.last[0] | request.pair)))
        refused = counts & view.calls_full
        lost = (window.last[:2] != 3) & ~window.cached[0]
        prepares = operation == StackOperation.PREPARE_CALL
        next_token = Signal.like(window.last)
        m.d.comb += [
            events.push.eq(serves & pushes & ~(refused | full | lost)),
            next_token.eq(window.last + 1), self.push_slot.eq(next_token[2:]),
            self.push_tokens.eq(events.push << next_token[:2]),
            self.token.pc.eq(request.operand), self.token.mask.eq(request.mask), self.token.kind.eq(request.kind),
            self.token.counted.eq(counts)]
        with m.If(serves & pushes):
            with m.If(refused):
                m.d.comb += self.error.eq(Mux(prepares, WarpError.NONE, WarpError.API_STACK_ERROR))
            with m.Elif(full):
                m.d.comb += self.error.eq(WarpError.STACK_OVERFLOW)
            with m.Elif(lost):
                m.d.comb += self.error.eq(WarpError.MMU_FAULT)
        calls = Signal(8)
        m.d.comb += [
            step.wraps.eq(events.push & window.last.all()), calls.eq(pointer.calls + 1),
            self.changed.high.eq(pointer.high + step.wraps),
            self.changed.calls.eq(Mux(events.push & counts, calls, pointer.calls)),
            self.changed.kill.eq(Mux(prepares, view.calls_full, pointer.kill)),
            self.changed_full.eq(view.calls_full | (counts & view.checks_calls & (calls >= API_CALL_LIMIT))),
            self.change.eq(events.push | (serves & prepares & refused))]

        # The line to look at: ``seen`` lines below the top.
        again = window.state == WindowState.AGAIN
        finishes = window.state == WindowState.WRITE_BACK
        faulty = window.fill == WindowFill.FAULTY
        new_walk = serves & unwinds
        m.d.comb += [
            self.top.eq(Cat(window.last[2:], pointer.high)),
            step.begins.eq(~self.turn & self.request.valid),
            step.seen.eq(Mux(self.turn, view.seen, Mux(self.request.valid, 0, self.follow_seen))),
            step.there.eq(Array(window.cached)[step.seen] & (step.seen != len(window.cached))),
            step.more.eq(Array(window.cached)[step.seen + 1] & (step.seen[:2] != len(window.cached) - 1)),
            step.lowest.eq(window.bottom & ~step.more),
            step.quad.eq(Mux(step.begins, operation == StackOperation.POP_QUAD, view.quad)),
            self.slot.eq(self.top - step.seen),
            self.tokens.eq(Mux(step.seen == 0, tokens_up_to(window.last), ~0) & step.there.replicate(TOKENS_PER_LINE)),
            self.reads.eq(self.turn | Mux(self.request.valid, unwinds, self.follow)),
            step.walk.eq(Mux(self.turn, again | (faulty & ~finishes), new_walk | follows)),
            step.sink.eq(self.turn & ~again & ~faulty & ~finishes), step.finish.eq(self.turn & finishes)]
        with m.If(self.turn & ~again & faulty & ~finishes):
            m.d.comb += self.error.eq(WarpError.MMU_FAULT)

        # What needs no line.
        aligned = (self.top + 1)[:LINE_BITS]
        m.d.comb += [
            step.set.eq(serves & (operation == StackOperation.SET_POINTER)),
            step.launch.eq(serves & (operation == StackOperation.LAUNCH)), step.sized.eq(self.sized),
            step.mode.eq(self.set_mode),
            self.set_mode.eq(serves & (operation == StackOperation.SET_MODE)),
            self.set_base.eq(serves & (operation == StackOperation.SET_BASE)),
            events.write_back.eq(serves & (operation == StackOperation.WRITE_BACK)),
            events.enter.eq(self.turn | new_walk),
            self.valid.eq((self.accepted & ~events.write_back) | follows | self.turn),
            self.value.eq(request.operand)]
        with m.Switch(operation):
            with m.Case(StackOperation.GET_POINTER):
                m.d.comb += self.value.eq(pointer_value(aligned, pointer.calls, pointer.kill))
            with m.Case(StackOperation.GET_BASE):
                m.d.comb += self.value.eq(view.base)
        with m.If(step.set & ~window.has_memory):
            m.d.comb += [self.error.eq(WarpError.STACK_ERROR), self.value[:DEPTH_BITS].eq(0)]
        return m
