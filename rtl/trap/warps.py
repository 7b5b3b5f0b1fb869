"""Every warp's part of the trap unit: why it traps, whether it enters, where it is in the trap, when it goes on."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, enum
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import ERROR_SOURCES, Event, EventLayout, TrapCommand, error_event, flow_result, warp_launch
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.wires import KEEP
from rtl.words import Words

__all__ = ["TrapOperation", "WarpTraps", "trap_step"]


class TrapOperation(enum.Enum, shape=4):
    """What an instruction does to its warp."""

    GO_ON = 0
    """Nothing: the warp goes on."""
    TRAP = 1
    """BPT.TRAP, a cause."""
    FAIL = 2
    """BPT.TRAP in the trap: the warp is paused."""
    PAUSE = 3
    PAUSE_QUIET = 4
    MASK = 5
    UNMASK = 6
    WAIT = 7
    """RTT: the warp waits for its release."""
    TERMINATE = 8
    """RTT.TERMINATE: the warp leaves at once."""
    URGENT_TRAP = 9
    """BPT.TRAP, a cause that nobody can mask."""


def trap_step(params: SmParams) -> data.StructLayout:
    """What is dispatched to the trap unit does to its warp: an instruction without an error (``asks``) its
    ``operation``; or the warp ``enters`` the trap, or ``leaves`` it."""
    return data.StructLayout({
        "warp": params.warp_bits, "asks": 1, "operation": TrapOperation, "enters": 1, "leaves": 1})


class WarpTraps(Component):
    """A bit a warp of everything, since much happens to many of them at once.

    A warp is outside, on its way in (entering), or inside: there it runs the handler, waits at RTT (returning), is on
    its way out (leaving), or is paused. It is framed if it has a trap frame on its stack and runs a handler; without
    one it can only be paused or wait.

    Members
    -------
    live, taken, drained, waiting : In(warps)
        It has begun and not ended; it issues an instruction; none of its instructions is in flight; it waits at a
        barrier.
    launch, result, step : In(EventLayout of warp_launch), In(Event of flow_result), In(trap_step)
        Of one warp each: it begins; a flow result of it comes; something of it is dispatched.
    errors : In(array of error_event)
        All reported errors.
    clears_status : In(EventLayout of a warp)
        Why it traps is forgotten.
    trapping, urgent, release : In(1)
        The multiprocessor traps; for a cause that nobody can mask; those who wait at RTT leave.
    command : In(TrapCommand)
        It wakes warps that are paused.
    hold, enter, leaving, resume, withdraw : Out(warps)
        For issue and barrier unit; see IssueUnit, BarrierUnit.
    masked, inside, outside, paused, quiet, returning : Out(warps)
        ``masked``: its causes that can be masked wait.
    failed, trapped, stepped : Out(warps)
        Since it was outside last: it had an error there; it has executed a BPT.TRAP there; it is inside after a step.
    cause, insisting : Out(1)
        A warp wants the multiprocessor to trap; for a cause that nobody can mask.
    pauses, fails, steps : Out(1)
        For one cycle: a warp is paused, not quietly; by an error or BPT.TRAP inside; a step is done.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        ports = (
            (In(params.warps), "live taken drained waiting"), (In(1), "trapping urgent release"),
            (Out(params.warps), "hold enter leaving resume withdraw masked inside outside paused quiet returning"),
            (Out(params.warps), "failed trapped stepped"), (Out(1), "cause insisting pauses fails steps"))
        super().__init__({
            "launch": In(EventLayout(warp_launch(params))), "result": In(Event(flow_result(params))),
            "step": In(trap_step(params)), "clears_status": In(EventLayout(params.warp_bits)),
            "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))),
            "command": In(TrapCommand(params)), **{name: member for member, names in ports for name in names.split()}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step, command, inside, outside, masked = self.step, self.command, self.inside, self.outside, self.masked
        paused, returning, leaving, failed = self.paused, self.returning, self.leaving, self.failed
        here, begins, result, entered, woken, left, clear, fails, loud, stops, insists, enters = (
            Signal(self._params.warps, name=name) for name in (
                "here", "begins", "of_result", "entered", "woken", "left", "clear", "failing_inside", "loud", "stops",
                "insists", "enters"))
        # A BPT.TRAP that can be masked, or not; one instruction is left to it; it has issued that one, a cause.
        asking, insisting, stepping, done, framed, entering = (
            Signal(self._params.warps, name=name)
            for name in ("asking", "insisting", "stepping", "done", "framed", "entering"))

        # What is known late: errors, and what one warp is asked to do, a bit for all.
        failing, refused, goes_on = Signal(self._params.warps, attrs=KEEP), Signal(), Signal(attrs=KEEP)
        asks = {kind: Signal(name=f"asks_{kind.name.lower()}", attrs=KEEP) for kind in TrapOperation}
        m.d.comb += [asked.eq(step.asks & (step.operation == kind)) for kind, asked in asks.items()]

        def one(warp: Any, when: Any = 1) -> Any:
            return one_hot(warp, self._params.warps, when)

        def does(*kinds: TrapOperation) -> Any:
            return Mux(Cat(asks[kind] for kind in kinds).any(), here, 0)

        # What happens, to whom. A flow result of a warp on its way in or out is that of entering or leaving.
        m.d.comb += [
            here.eq(one(step.warp)), begins.eq(one(self.launch.payload.warp, self.launch.valid)),
            result.eq(one(self.result.payload.warp, self.result.valid)),
            refused.eq(self.result.payload.error != WarpError.NONE),
            failing.eq(reduce(or_, (one(event.warp, event.valid) for event in self.errors))),
            entered.eq(result & entering), woken.eq(paused & Mux(self.trapping, command.wake, 0)),
            left.eq(Mux(refused, 0, result & leaving) | Mux(self.release, returning & ~framed, 0)),
            clear.eq(left | begins | one(self.clears_status.payload, self.clears_status.valid)),
            outside.eq(self.live & ~inside & ~entering), fails.eq(failing & (inside | entering))]

        # Where it is. It runs the handler if there is one, and it had room for the frame; else it is paused.
        m.submodules.installed = installed = Words(1, self._params.warps)
        installed.write(m, step.enters, step.warp, command.installed)
        frames = installed.read(m, self.result.payload.warp) & ~refused
        bare = Mux(frames, 0, entered)
        m.d.comb += loud.eq(fails | bare | does(TrapOperation.FAIL, TrapOperation.PAUSE))
        m.d.sync += [
            entering.eq((entering & ~(result | begins)) | Mux(step.enters, here, 0)),
            inside.eq((inside | entered) & ~(left | begins)),
            framed.eq(Mux(frames, framed | entered, framed & ~entered)),
            returning.eq(Mux(self.release, 0, returning) | does(TrapOperation.WAIT) | (woken & ~framed)),
            leaving.eq((leaving & ~result) | does(TrapOperation.TERMINATE) | Mux(self.release, returning & framed, 0)),
            paused.eq((paused | loud | does(TrapOperation.PAUSE_QUIET)) & ~(woken | begins)),
            self.quiet.eq((self.quiet | does(TrapOperation.PAUSE_QUIET)) & ~loud)]

        # Why it traps.
        m.d.sync += [
            failed.eq((failed | (failing & outside)) & ~clear),
            self.stepped.eq((self.stepped | (entered & done)) & ~clear),
            asking.eq((asking | does(TrapOperation.TRAP)) & ~clear),
            insisting.eq((insisting | does(TrapOperation.URGENT_TRAP)) & ~clear),
            masked.eq((masked | does(TrapOperation.MASK)) & ~(begins | does(TrapOperation.UNMASK))),
            stepping.eq((stepping & ~(self.taken | entered | begins | left)) | Mux(command.step, left, 0)),
            done.eq((done | (stepping & self.taken)) & ~(entered | begins))]

        # Causes, and entry. Those inside are none: they pause. A step is done when nobody has one to do: a BAR
        # completes the barrier of others that step before they are taken from it.
        unfinished = (self.live & (stepping | (stops & ~self.drained))).any()
        m.d.comb += [
            stops.eq(done & ~masked), insists.eq(outside & (failed | insisting)),
            enters.eq(~inside & Mux(self.trapping, ~masked | self.urgent.replicate(len(masked)), 0)),
            self.trapped.eq(asking | insisting), self.steps.eq((entered & done).any()),
            self.fails.eq(fails.any() | asks[TrapOperation.FAIL]),
            self.pauses.eq(self.fails | asks[TrapOperation.PAUSE] | bare.any()),
            self.insisting.eq(insists.any()),
            self.cause.eq((insists | (outside & ~masked & (asking | Mux(unfinished, 0, done)))).any() | self.fails),
            self.hold.eq(enters | insists | stops | paused | returning), self.enter.eq(enters & ~self.waiting),
            self.withdraw.eq(enters & self.waiting),
            goes_on.eq(asks[TrapOperation.GO_ON] | asks[TrapOperation.MASK] | asks[TrapOperation.UNMASK]
                       | (asks[TrapOperation.TRAP] & masked.bit_select(step.warp, 1)))]
        m.d.sync += self.resume.eq(Mux(goes_on, here, 0) | (woken & framed))

        m.d.sync += [
            Assert(~(step.enters & (here & (inside | entering)).any()), "a warp enters that is on its way or inside"),
            Assert(~(step.leaves & (here & ~leaving).any()), "a warp leaves that was not asked to"),
            Assert(~(begins & (leaving | returning)).any(), "a warp begins that leaves the trap or waits in it"),
            Assert(~(step.asks & (here & returning).any()), "a warp that waits at RTT executes an instruction")]
        return m
