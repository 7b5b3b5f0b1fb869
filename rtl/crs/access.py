"""The first stage: whose turn it is, what is pushed, which line is read."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import TOKENS_PER_LINE, Token
from rtl.layouts import BLOCK_ADDRESS_BITS, StackOperation, stack_request
from rtl.params import SmParams

from .lines import SLOT_BITS
from .pointers import HIGH_BITS, WidePointer
from .stages import StackRefusal, Step, turn_stage
from .turns import tokens_up_to
from .window import AccessEvents
from .windows import WindowView

__all__ = ["AccessView", "StackAccess"]

_PUSHES = (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL)
_UNWINDS = (StackOperation.UNWIND, StackOperation.POP_QUAD, StackOperation.RESTORE, StackOperation.CLEAR)


class AccessView(data.Struct):
    """What is known of the warp that requests."""

    window: WindowView
    calls_full: unsigned(1)
    """It has reached the limit of calls."""
    pointer: WidePointer
    checks_calls: unsigned(1)
    has_memory: unsigned(1)
    base: unsigned(BLOCK_ADDRESS_BITS)


class StackAccess(Component):
    """Serves, in this order: a step of the stack's own (``turn``), a request, the next line of the walk that is
    one stage ahead (``follow``). A push is done here, so that the next cycle sees it; all else is decided here
    and done by the last stage.

    Members
    -------
    request : In(stream of stack_request)
    turn_valid, turn : In(1), In(turn_stage)
    follow_valid, follow : In(1), In(turn_stage)
    outpaced : In(1)
        The unwind to follow ends with the line before; known late.
    sized : In(1)
        A stack launched now has a region in memory.
    installing : In(1)
        A line is written into the cache or the top lines, so that no token can be.
    warp, view : Out, In(AccessView)
        Whose turn it is.
    accepted : Out(1)
        The request is served.
    wants_push : Out(1)
        A token may be written; known early.
    reads, below : Out(1), Out
        The slot of the line that a walk needs next, if it goes on.
    valid, step, refusal, value : Out
        What the next stages do.
    slot, tokens, top : Out
        The line to read, which of its tokens are on the stack, and the number of the warp's top line.
    push_slot, push_tokens, token : Out, Out(4), Out(Token)
        The token to write, and where.
    change, changed : Out(1), Out(WidePointer)
        The pointer to write.
    events : Out(AccessEvents)
        What is to happen to the window of the warp that requests, or whose turn it is.
    launch, set_base, set_mode, waits_for_line, waits_for_turn : Out(1)
    trap : Out(1)
        The mode to set is the trap handler's.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(stream.Signature(stack_request(params))),
            "turn_valid": In(1), "turn": In(turn_stage(params)),
            "follow_valid": In(1), "follow": In(turn_stage(params)), "outpaced": In(1),
            "sized": In(1), "installing": In(1),
            "warp": Out(params.warp_bits), "view": In(AccessView),
            "accepted": Out(1), "wants_push": Out(1), "reads": Out(1), "below": Out(SLOT_BITS),
            "valid": Out(1), "step": Out(Step), "refusal": Out(StackRefusal), "value": Out(32),
            "slot": Out(SLOT_BITS), "tokens": Out(TOKENS_PER_LINE), "top": Out(SLOT_BITS),
            "push_slot": Out(SLOT_BITS), "push_tokens": Out(TOKENS_PER_LINE), "token": Out(Token),
            "change": Out(1), "changed": Out(WidePointer),
            "events": Out(AccessEvents), "launch": Out(1), "set_base": Out(1), "set_mode": Out(1),
            "trap": Out(1),
            "waits_for_line": Out(1), "waits_for_turn": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, view, turn, follow = self.request.payload, self.view, self.turn, self.follow
        window, pointer, operation, events = view.window, view.pointer, request.operation, self.events

        # Whose turn it is. A request waits while its warp is not idle, or while its push finds no line.
        pushes, unwinds, counts = Signal(), Signal(), Signal()
        with m.Switch(operation):
            with m.Case(*_PUSHES):
                m.d.comb += [pushes.eq(1), counts.eq(operation != StackOperation.PUSH)]
            with m.Case(*_UNWINDS):
                m.d.comb += unwinds.eq(1)
        asks = self.request.valid & ~self.turn_valid
        m.d.comb += [
            self.warp.eq(Mux(self.turn_valid, turn.warp, Mux(self.request.valid, request.warp, follow.warp))),
            self.request.ready.eq(~self.turn_valid & Mux(pushes, window.fits & ~self.installing, window.serves)),
            self.accepted.eq(self.request.valid & self.request.ready),
            self.wants_push.eq(self.request.valid & pushes),
            self.reads.eq(Mux(self.turn_valid, turn.step.walk, Mux(self.request.valid, unwinds, self.follow_valid))),
            self.below.eq(Mux(self.turn_valid, turn.slot, Mux(self.request.valid, window.last[2:], follow.slot)) - 1),
            self.waits_for_line.eq(self.request.valid & ~self.turn_valid & pushes & window.serves & ~window.fits),
            self.waits_for_turn.eq(self.request.valid & self.turn_valid)]

        # Pushes. A call at the limit of calls and a token without room are refused.
        prepares = operation == StackOperation.PREPARE_CALL
        takes = Mux(request.pair, window.takes_pair, window.takes)
        refused = counts & view.calls_full
        push, next_token = Signal(), Signal.like(window.last)
        m.d.comb += [
            events.push.eq(asks & ~self.installing & pushes & request.enable & ~refused),
            events.pair.eq(request.pair), push.eq(events.push & takes),
            next_token.eq(window.last + 1), self.push_slot.eq(next_token[2:]),
            self.push_tokens.eq(push << next_token[:2]),
            self.token.pc.eq(request.operand), self.token.mask.eq(request.mask), self.token.kind.eq(request.kind),
            self.token.counted.eq(counts)]
        on_chip = (window.last[:2] == 3) | window.cached[0]
        fails = pushes & request.enable & ~refused & ~takes
        m.d.comb += [
            self.refusal.calls.eq(counts & ~prepares & request.enable & refused),
            self.refusal.room.eq(fails & on_chip), self.refusal.line.eq(fails & ~on_chip),
            self.refusal.region.eq((operation == StackOperation.SET_POINTER) & ~view.has_memory)]
        step: Any = Signal(Step)
        calls, wraps = Signal(8), Signal()
        m.d.comb += [
            wraps.eq(push & window.last.all()), calls.eq(pointer.calls + 1),
            self.changed.high.eq(Mux(wraps, (pointer.high + 1)[:HIGH_BITS], pointer.high)),
            self.changed.calls.eq(Mux(push & counts, calls, pointer.calls)),
            self.changed.kill.eq(Mux(self.accepted & prepares, view.calls_full, pointer.kill)),
            step.counts.eq(push & counts & view.checks_calls),
            self.change.eq(push | (self.accepted & request.enable & prepares & refused))]

        # The step: of the stack's own, of the request, of the walk one stage ahead.
        clears, restores = operation == StackOperation.CLEAR, operation == StackOperation.RESTORE
        sees = window.top & ~clears
        m.d.comb += [
            step.walk.eq(unwinds & request.enable), step.quad.eq(operation == StackOperation.POP_QUAD),
            step.frame.eq(restores), step.begins.eq(1),
            step.cached.eq(window.cached & sees.replicate(len(window.cached))),
            step.bottom.eq((window.bottom & (window.top | ~window.cached[0])) | clears), step.wraps.eq(wraps),
            step.get.eq(operation == StackOperation.GET_POINTER),
            step.set.eq(operation == StackOperation.SET_POINTER),
            step.launch.eq(operation == StackOperation.LAUNCH), step.sized.eq(self.sized),
            step.mode.eq((operation == StackOperation.SET_MODE) | restores), step.ends.eq(~pushes),
            self.top.eq(window.last[2:]), self.slot.eq(window.last[2:]),
            self.tokens.eq(tokens_up_to(window.last) & step.cached[0].replicate(TOKENS_PER_LINE)),
            self.step.eq(step), self.valid.eq(self.accepted & ~events.write_back)]
        with m.If(self.turn_valid):
            m.d.comb += [self.step.eq(turn.step), self.top.eq(turn.top), self.slot.eq(turn.slot),
                         self.tokens.eq(turn.tokens), self.refusal.eq(0), self.refusal.line.eq(turn.faulty),
                         self.valid.eq(1)]
        with m.Elif(~self.request.valid):
            m.d.comb += [self.step.eq(follow.step), self.top.eq(follow.top), self.slot.eq(follow.slot),
                         self.tokens.eq(follow.tokens), self.refusal.eq(0),
                         self.valid.eq(self.follow_valid & ~self.outpaced)]

        # What needs no line.
        m.d.comb += [
            # Done again while the request waits, which does no harm.
            self.launch.eq(asks & (operation == StackOperation.LAUNCH)),
            self.set_mode.eq(asks & step.mode), self.trap.eq(request.operand[0] & ~restores),
            self.set_base.eq(asks & (operation == StackOperation.SET_BASE)),
            events.request.eq(asks & ~pushes),
            events.write_back.eq(operation == StackOperation.WRITE_BACK),
            self.value.eq(Mux(operation == StackOperation.GET_BASE, view.base, request.operand))]
        return m
