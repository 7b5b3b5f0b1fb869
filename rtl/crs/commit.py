"""The fourth stage, beside the answer: what an operation makes of pointer and window, which change a cycle later."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.layouts import LINE_BITS
from rtl.params import SmParams

from .lines import CACHED_LINES, SLOT_BITS
from .setting import calls_of, kill_of
from .stages import SEEN_BITS, Progress, Unwind, apply_stage, commit_stage
from .window import WindowState
from .windows import WindowView

__all__ = ["StackCommit"]


class StackCommit(Component):
    """Says what an operation comes to, and keeps how far each unwind has come.

    Members
    -------
    valid, stage : In(1), In(commit_stage)
    window, unwind : In(WindowView), In(Unwind)
        Of the stage's warp.
    apply : Out(apply_stage)
        What changes in the next cycle.
    read, slot : Out(1), Out
        The line that is to be the copy of the top line.
    warp, progress : In, Out(Progress)
        How far the unwind of another warp has come.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "valid": In(1), "stage": In(commit_stage(params)), "window": In(WindowView), "unwind": In(Unwind),
            "apply": Out(apply_stage(params)), "read": Out(1), "slot": Out(SLOT_BITS),
            "warp": In(params.warp_bits), "progress": Out(Progress)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.progress = known = memory.Memory(shape=Progress, depth=self._warps, init=[])
        stage, step, window, apply = self.stage, self.stage.step, self.window, self.apply
        events, written = apply.events, apply.pointer
        before, elsewhere, after = known.read_port(domain="comb"), known.read_port(domain="comb"), known.write_port()

        # How far the unwind has come: lines seen, and the calls whose tokens it has popped.
        popped = [stage.calls[index] & ~stage.stops[index + 1:].any() for index in range(TOKENS_PER_LINE)]
        calls, seen = Signal(8), Signal(SEEN_BITS)
        m.d.comb += [
            before.addr.eq(stage.warp), elsewhere.addr.eq(self.warp), self.progress.eq(elsewhere.data),
            calls.eq(Mux(step.begins, 0, before.data.calls) + sum(popped)),
            seen.eq(Mux(step.sink, 0, step.seen + step.cached[0])),
            after.addr.eq(stage.warp), after.en.eq(self.valid & (step.walk | step.sink)),
            after.data.seen.eq(seen), after.data.sunk.eq(step.sink | (before.data.sunk & ~step.begins)),
            after.data.calls.eq(calls)]

        # The stack without the token that stopped the unwind: its topmost token, and its lines on chip.
        index = Cat(stage.stops[1] | stage.stops[3], stage.stops[2] | stage.stops[3])
        partial = index != 0
        dropped = step.seen + ~partial
        top, kept, lost = Signal(LINE_BITS), Signal(), Signal()
        restores = stage.failed & before.data.sunk & ~step.begins
        m.d.comb += [
            written.eq(stage.pointer),
            top.eq(Mux(partial, stage.number, stage.below)),
            events.last.eq(Cat((index - 1 - Mux(stage.found, stage.holes, 0))[:2], top)),
            # The next token goes into the line below, on chip or not. In memory there may be anything for the holes.
            kept.eq(stage.found & stage.holes.any() & events.cached[0]),
            lost.eq(stage.found & stage.holes.any() & ~events.cached[0])]
        with m.If(stage.found | step.set | step.sink):
            m.d.comb += written.high.eq(top[2:])
        with m.If(stage.found):
            m.d.comb += [written.calls.eq(stage.pointer.calls - calls),
                         events.cached.eq(window.cached >> dropped),
                         events.dirty.eq((window.dirty >> dropped) | partial | kept)]
        with m.Elif(step.set):
            m.d.comb += [top.eq(stage.lines - 1), events.last.eq(Cat(Const(3, 2), top)),
                         written.calls.eq(calls_of(stage.value)), written.kill.eq(kill_of(stage.value))]
        with m.Elif(step.sink):
            m.d.comb += [top.eq(stage.number), events.last.eq(Cat(Const(3, 2), top))]
        with m.Elif(restores):
            m.d.comb += Cat(events.last, written.high).eq(self.unwind.origin)
        with m.Elif(step.launch | stage.ends):
            m.d.comb += [written.high.eq(~0), events.last.eq(~0), written.calls.eq(0), written.kill.eq(0)]
        m.d.comb += [
            events.oldest.eq(Mux((window.dirty >> dropped)[0], window.oldest, top)),
            events.soils.eq(self.valid & step.restore & window.cached[0])]

        # What happens to pointer and window.
        forget = step.set | step.launch | stage.ends | step.sink | restores
        m.d.comb += [
            apply.warp.eq(stage.warp), apply.write.eq(self.valid & (stage.found | forget)),
            apply.check.eq(apply.write | (self.valid & (step.mode | step.wraps))), apply.check_calls.eq(apply.write),
            apply.restores.eq(self.read), self.read.eq(self.valid & stage.restores),
            self.slot.eq(Mux(step.restore, window.last[2:], top[:SLOT_BITS])),
            events.load.eq(apply.write), events.top_known.eq((apply.write & forget) | self.read),
            events.top.eq(stage.restores & Mux(step.restore, window.cached[0], events.cached[0])),
            events.forget.eq(self.valid & forget & ~step.sink),
            events.bottom.eq(step.launch | stage.ends | (step.set & (stage.lines == 0))),
            events.heal.eq(self.valid & stage.done),
            events.launch.eq(self.valid & step.launch), events.sized.eq(step.sized),
            events.state.eq(self.valid & (stage.done | stage.waits | step.sink))]
        with m.If(restores | lost):
            m.d.comb += events.next_state.eq(WindowState.RESTORE)
        with m.Elif(~stage.done):
            more = Array(window.cached)[seen] & (seen != CACHED_LINES) & ~step.sink
            m.d.comb += events.next_state.eq(Mux(more, WindowState.AGAIN, WindowState.WAIT))
        return m
