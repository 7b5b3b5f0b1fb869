"""The last stage: pointer and window after an operation that went through the pipeline."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.layouts import DEPTH_BITS, StackPointer
from rtl.params import SmParams

from .stages import commit_stage
from .window import CommitEvents

__all__ = ["StackCommit"]


class StackCommit(wiring.Component):
    """Writes what an operation comes to.

    Members
    -------
    valid, stage : In(1), In(commit_stage)
    origin : In
        Depth of the warp's stack when its unwind began.
    write, written : Out(1), Out(StackPointer)
        The pointer of the stage's warp.
    events : Out(CommitEvents)
        What happens to its window.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "valid": In(1), "stage": In(commit_stage(params)), "origin": In(DEPTH_BITS),
            "write": Out(1), "written": Out(StackPointer),
            "events": Out(CommitEvents)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, step, events = self.stage, self.stage.step, self.events

        # Calls whose tokens the unwind has popped, line by line.
        m.submodules.totals = totals = memory.Memory(shape=8, depth=self._warps, init=[])
        before, after = totals.read_port(domain="comb"), totals.write_port()
        popped = Cat(stage.calls[index] & ~stage.stops[index + 1:].any() for index in range(TOKENS_PER_LINE))
        total = Signal(8)
        m.d.comb += [
            before.addr.eq(stage.warp), after.addr.eq(stage.warp), after.en.eq(self.valid & step.walk),
            total.eq(Mux(step.begins, 0, before.data) + sum(popped)), after.data.eq(total)]

        # The token that stopped the unwind is popped too: what lies below it is the stack.
        below = Cat(stage.stops[1] | stage.stops[3], stage.stops[2] | stage.stops[3])
        m.d.comb += [
            self.write.eq(self.valid & (stage.found | stage.failed | stage.ends | step.set)),
            self.written.eq(stage.pointer)]
        with m.If(stage.found):
            m.d.comb += [self.written.depth.eq(Cat(below, stage.number)),
                         self.written.calls.eq(stage.pointer.calls - total)]
        with m.Elif(stage.ends):
            m.d.comb += self.written.depth.eq(0)
        with m.Elif(stage.failed):
            m.d.comb += self.written.depth.eq(self.origin)

        m.d.comb += [
            events.done.eq(self.valid & (stage.found | stage.failed | stage.ends | step.finish)),
            events.failed.eq(stage.failed),
            events.pop.eq(self.valid & stage.found), events.partial.eq(below != 0),
            events.dropped.eq(step.seen + (below == 0)),
            events.set.eq(self.valid & (step.set | stage.ends)), events.first.eq(self.written.depth == 0),
            events.wait.eq(self.valid & stage.waits), events.seen.eq(step.seen + step.there)]
        return m
