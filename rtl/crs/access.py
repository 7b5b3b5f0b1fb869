"""The first stage: whose turn it is, what is pushed, which line is read."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE, Token
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LINE_BITS, StackOperation, StackPointer, stack_request
from rtl.params import SmParams

from .lines import CACHED_LINES
from .mover import tokens_on_top
from .setting import pointer_value
from .stages import Step
from .window import LINE_COUNT_BITS, AccessEvents

__all__ = ["AccessView", "StackAccess"]

_SLOT_BITS = (CACHED_LINES - 1).bit_length()
_PUSHES = (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL)


class AccessView(data.Struct):
    """What the access sees of its warp."""

    cached: unsigned(LINE_COUNT_BITS)
    seen: unsigned(LINE_COUNT_BITS)
    idle: unsigned(1)
    writing_back: unsigned(1)
    pushable: unsigned(1)
    faulty: unsigned(1)
    quad: unsigned(1)
    has_memory: unsigned(1)
    full: unsigned(1)
    nearly_full: unsigned(1)
    calls_full: unsigned(1)
    base: unsigned(BLOCK_ADDRESS_BITS)


class StackAccess(wiring.Component):
    """Serves, in this order: a step of the stack's own (``turn``), a request, the next line of the walk that is
    one stage ahead (``follow``). All of a push happens here, so that the next cycle sees it.

    Members
    -------
    request : In(stream of stack_request)
    turn, turn_warp : In
    follow, follow_warp, follow_seen : In
    sized : In(1)
        A stack launched now has a region in memory.
    busy, busy_warp : In
        A warp whose last operation is just being committed.
    warp, trap : Out
        Whose turn it is.
    pointer, view : In(StackPointer), In(AccessView)
        Of that warp.
    accepted : Out(1)
        The request is served.
    valid, step, error, value : Out
        What the next stages do.
    reads, slot, tokens : Out
        Whether a line is read, which, and which of its tokens are on the stack.
    may_push : Out(1)
        A token may be written; known early in the cycle.
    top : Out
        Number of the top line.
    change, changed : Out(1), Out(StackPointer)
        The pointer to write.
    push_slot, push_token, token : Out, Out(4), Out(Token)
        The token to write, and where.
    events : Out(AccessEvents)
        What happens to the warp's window.
    set_base, waits_for_line, waits_for_turn : Out(1)
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "request": In(stream.Signature(stack_request(params))),
            "turn": In(1), "turn_warp": In(bits),
            "follow": In(1), "follow_warp": In(bits), "follow_seen": In(LINE_COUNT_BITS),
            "sized": In(1), "busy": In(1), "busy_warp": In(bits),
            "warp": Out(bits), "pointer": In(StackPointer), "view": In(AccessView),
            "accepted": Out(1), "valid": Out(1), "step": Out(Step), "error": Out(WarpError), "value": Out(32),
            "reads": Out(1), "may_push": Out(1), "slot": Out(_SLOT_BITS), "tokens": Out(TOKENS_PER_LINE),
            "top": Out(LINE_BITS),
            "change": Out(1), "changed": Out(StackPointer),
            "push_slot": Out(_SLOT_BITS), "push_token": Out(TOKENS_PER_LINE), "token": Out(Token),
            "events": Out(AccessEvents), "set_base": Out(1), "waits_for_line": Out(1), "waits_for_turn": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, view, pointer, step = self.request.payload, self.view, self.pointer, self.step
        operation, events = request.operation, self.events

        # Whose turn it is.
        follows = self.follow & ~self.turn & ~self.request.valid
        m.d.comb += self.warp.eq(
            Mux(self.turn, self.turn_warp, Mux(self.request.valid, request.warp, self.follow_warp)))

        # A request waits while its warp is not idle, or while its push finds no line.
        pushes = Signal()
        with m.Switch(operation), m.Case(*_PUSHES):
            m.d.comb += pushes.eq(1)
        m.d.comb += events.new_line.eq(pointer.depth[:2] == 0)
        on_chip = events.new_line | (view.cached != 0)
        fits = Mux(events.new_line, view.pushable, (view.cached != 0) | view.faulty)
        ready = view.idle & ~(self.busy & (self.busy_warp == request.warp))
        m.d.comb += [
            self.request.ready.eq(~self.turn & ready & (fits | ~pushes)),
            self.accepted.eq(self.request.valid & self.request.ready),
            self.waits_for_line.eq(self.request.valid & ~self.turn & ready & pushes & ~fits),
            self.waits_for_turn.eq(self.request.valid & self.turn)]
        serves = self.accepted & request.enable

        # Pushes. A call at the limit of calls and a token without room are refused.
        counts = pushes & (operation != StackOperation.PUSH)
        room = ~Mux(request.pair, view.nearly_full, view.full)
        counted = counts & ~view.calls_full
        allowed = pushes & (counted | ~counts)
        prepares = operation == StackOperation.PREPARE_CALL
        m.d.comb += [
            events.push.eq(serves & allowed & room & on_chip),
            self.push_slot.eq(pointer.depth[2:]),
            self.push_token.eq(events.push << pointer.depth[:2]),
            self.token.pc.eq(request.operand), self.token.mask.eq(request.mask), self.token.kind.eq(request.kind),
            self.token.counted.eq(counts)]
        with m.If(serves & pushes):
            with m.If(~allowed), m.If(~prepares):
                m.d.comb += self.error.eq(WarpError.API_STACK_ERROR)
            with m.Elif(~room):
                m.d.comb += self.error.eq(WarpError.STACK_OVERFLOW)
            with m.Elif(~on_chip):
                m.d.comb += self.error.eq(WarpError.MMU_FAULT)

        # The pointer: raised by a push, lowered by a walk that leaves dead lines behind, cleared by a launch.
        m.d.comb += [
            events.launch.eq(serves & (operation == StackOperation.LAUNCH)), events.sized.eq(self.sized),
            self.change.eq(events.push | events.launch | events.sink | (serves & prepares & ~allowed)),
            self.changed.depth.eq(pointer.depth + events.push), self.changed.calls.eq(pointer.calls + counted),
            self.changed.kill.eq(Mux(prepares & serves, view.calls_full, pointer.kill))]
        with m.If(events.sink):
            m.d.comb += [self.changed.depth.eq(Cat(Const(0, 2), self.top - (CACHED_LINES - 1))),
                         self.changed.calls.eq(pointer.calls)]
        with m.If(events.launch):
            m.d.comb += self.changed.eq(0)

        # The line to look at: ``seen`` lines below the top.
        last = (pointer.depth - 1)[:len(pointer.depth)]
        empty = pointer.depth == 0
        unwinds = (operation == StackOperation.UNWIND) | (operation == StackOperation.POP_QUAD)
        looks = self.turn & ~view.writing_back & (step.there | view.faulty)
        m.d.comb += [
            self.top.eq(last[2:]),
            step.begins.eq(~self.turn & ~follows),
            step.seen.eq(Mux(self.turn, view.seen, Mux(follows, self.follow_seen, 0))),
            step.there.eq(view.cached > step.seen),
            step.lowest.eq(((self.top == step.seen) & step.there) | empty),
            step.more.eq(view.cached > step.seen + 1),
            step.quad.eq(Mux(step.begins, operation == StackOperation.POP_QUAD, view.quad)),
            self.slot.eq(self.top - step.seen),
            self.tokens.eq(Mux(step.seen == 0, tokens_on_top(last), ~0) & (step.there & ~empty).replicate(4)),
            self.may_push.eq(self.request.valid & ~self.turn & pushes & fits),
            self.reads.eq(self.turn | follows | (self.request.valid & unwinds)),
            step.walk.eq(looks | follows | (serves & unwinds))]
        with m.If(looks & ~step.there):
            m.d.comb += self.error.eq(WarpError.MMU_FAULT)

        # What needs no line.
        m.d.comb += [
            step.set.eq(serves & (operation == StackOperation.SET_POINTER)),
            step.finish.eq(self.turn & view.writing_back), events.enter.eq(step.walk | step.finish),
            events.sink.eq(self.turn & ~view.writing_back & ~looks),
            events.write_back.eq(serves & (operation == StackOperation.WRITE_BACK)),
            self.set_base.eq(serves & (operation == StackOperation.SET_BASE)),
            self.valid.eq((self.accepted & ~events.write_back) | follows | (self.turn & ~events.sink)),
            self.value.eq(request.operand)]
        with m.Switch(operation):
            with m.Case(StackOperation.GET_POINTER):
                m.d.comb += self.value.eq(pointer_value(pointer))
            with m.Case(StackOperation.GET_BASE):
                m.d.comb += self.value.eq(view.base)
        with m.If(step.set & ~view.has_memory):
            m.d.comb += [self.error.eq(WarpError.STACK_ERROR), self.value[:DEPTH_BITS].eq(0)]
        return m
