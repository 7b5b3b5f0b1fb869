"""The states of the trap unit: every warp's, and the whole multiprocessor's."""

from collections.abc import Mapping
from functools import partial, reduce
from operator import or_
from typing import Any, ClassVar

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import (
    ERROR_SOURCES,
    Event,
    EventLayout,
    TrapCommand,
    error_event,
    flow_result,
    warp_launch,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.wires import KEEP
from rtl.words import Words

__all__ = ["SmTrap", "TrapOperation", "WarpTraps"]


_KEEPING = ("barrier", "trap")
"""Sources of errors whose instructions keep their warp until it is let go, by them or when it is woken."""


class TrapOperation(enum.Enum, shape=4):
    """What is dispatched to the trap unit does to its warp. GO_ON: nothing. BPT.TRAP is a cause outside, which nobody
    can mask if it is urgent, and pauses a warp inside (FAIL). RTT waits for the release, or terminates the warp.
    ENTER_PAUSED: it enters where there is no handler."""

    GO_ON = 0
    TRAP = 1
    URGENT_TRAP = 2
    FAIL = 3
    PAUSE = 4
    PAUSE_QUIET = 5
    MASK = 6
    UNMASK = 7
    WAIT = 8
    TERMINATE = 9
    ENTER = 10
    ENTER_PAUSED = 11
    LEAVE = 12


class WarpTraps(Component):
    """A bit a warp of everything, since much happens to many of them at once.

    A warp is inside from the dispatch of its ENTER until the result of its LEAVE, else outside. Inside it runs the
    handler, waits at RTT, is on its way out (leaving), or is paused. It is bare if it has no trap frame and runs no
    handler: it is paused, and counts as waiting at RTT when it is woken.

    Members
    -------
    launch, live, taken, drained, result, errors, command, hold, inside, resume
        See TrapUnit.
    dispatched : In(EventLayout of warp and operation)
        An instruction without a reported error, ENTER or LEAVE.
    clears_status : In(EventLayout of a warp)
        Why it traps is forgotten.
    trapping, urgent, release, paused, quiet, returning, cause, insisting
        See SmTrap.
    enters, leaving : Out(warps)
        For issue; who waits at a barrier does not enter yet.
    masked, failed, trapped, stepped : Out(warps)
        Its causes that can be masked wait. Since it was outside last: it had an error there; it has executed a BPT.TRAP
        there; it is inside after a step.
    pause, error_in_trap, step : Out(1)
        See TrapEvents.
    entered, ended : Out(warps)
        Who enters; who begins, or ends.

    Attributes
    ----------
    waits, bare, halted : Signal(warps)
        It waits at RTT; it has no trap frame and runs no handler; it is paused by an instruction that keeps it until it
        is let go, as others that fail do not.
    entries, results : Words
        By turns they tell whether a flow result is that of an ENTER: they differ from its dispatch to its result.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        ports = (
            (In(params.warps), "live taken drained"), (In(1), "trapping urgent release"),
            (Out(params.warps), "hold enters leaving resume masked inside paused quiet returning"),
            (Out(params.warps), "failed trapped stepped entered ended"),
            (Out(1), "cause insisting pause error_in_trap step"))
        super().__init__({
            "launch": In(EventLayout(warp_launch(params))), "result": In(Event(flow_result(params))),
            "dispatched": In(EventLayout(data.StructLayout({"warp": params.warp_bits, "operation": TrapOperation}))),
            "clears_status": In(EventLayout(params.warp_bits)),
            "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))),
            "command": In(TrapCommand(params)), **{name: member for member, names in ports for name in names.split()}})

        self.waits, self.bare, self.halted = (
            Signal(params.warps, name=name) for name in ("waits", "bare", "halted"))
        self.make_turns(params)

    def make_turns(self, params: SmParams) -> None:
        """The memories that tell which flow result is that of an ENTER."""
        self.sweep = sweep = Sweep(params.warps)
        self.entries, self.results = Words(1, params.warps, sweep), Words(1, params.warps, sweep)

    kept: ClassVar[Mapping[str, Any]] = KEEP
    """Attributes of the wires between what happens to whom and what becomes of it."""

    def simultaneous(self) -> list[Any]:
        """The errors that can come in one cycle."""
        return list(self.errors)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, step, result, command = self._params.warps, self.dispatched.payload, self.result.payload, self.command
        inside, paused, masked, leaving = self.inside, self.paused, self.masked, self.leaving
        # One instruction is left to it; it has issued that one, a cause.
        waits, bare, halted, stepping, done = self.waits, self.bare, self.halted, Signal(count), Signal(count)
        # What happens to whom, and what one warp is asked to do, a bit for all.
        ended, entered, keeps = self.ended, self.entered, dict(self.kept)
        here, answered, left, gone, clear, failing, fails, newly, pauses, halts, woken, freed = (
            Signal(count, name=name, attrs=keeps) for name in (
                "here", "answered", "left", "gone", "clear", "failing", "failing_inside",
                "newly_failed", "pausing", "halting", "woken", "freed"))
        goes_on, refused, asked = Signal(attrs=KEEP), Signal(), Signal()
        does = {kind: Signal(name=f"does_{kind.name.lower()}", attrs=KEEP) for kind in TrapOperation}
        m.d.comb += [wire.eq(self.dispatched.valid & (step.operation == kind)) for kind, wire in does.items()]

        one = partial(one_hot, count=count)

        def asks(*kinds: TrapOperation) -> Any:
            return Mux(Cat(does[kind] for kind in kinds).any(), here, 0)

        no_frame = self.result.valid & refused & self.answers_entry(m, does[TrapOperation.ENTER])
        errors = self.simultaneous()
        keeping = [event for event, name in zip(self.errors, ERROR_SOURCES, strict=True) if name in _KEEPING]

        # What happens, to whom.
        m.d.comb += [
            here.eq(one(step.warp)), answered.eq(one(result.warp, when=self.result.valid)),
            refused.eq(result.error != WarpError.NONE),
            ended.eq(one(self.launch.payload.warp, when=self.launch.valid)
                     | one(result.warp, when=self.result.valid & result.terminated)),
            failing.eq(reduce(or_, (one(event.warp, when=event.valid) for event in errors))),
            fails.eq(failing & inside), newly.eq(failing & self.live & ~inside),
            freed.eq(Mux(self.release, bare & ~paused, 0)), left.eq(Mux(refused, 0, answered & leaving) | freed),
            gone.eq(left | ended),
            clear.eq(gone | one(self.clears_status.payload, when=self.clears_status.valid)),
            entered.eq(asks(TrapOperation.ENTER, TrapOperation.ENTER_PAUSED)),
            woken.eq(paused & Mux(self.trapping, command.wake, 0)),
            halts.eq(asks(TrapOperation.FAIL, TrapOperation.PAUSE, TrapOperation.PAUSE_QUIET) | (
                inside & reduce(or_, (one(event.warp, when=event.valid) for event in keeping)))),
            pauses.eq(fails | asks(TrapOperation.FAIL, TrapOperation.PAUSE, TrapOperation.PAUSE_QUIET,
                                   TrapOperation.ENTER_PAUSED))]

        # What becomes of each: what resets a flag, what sets it, and to what.
        always = ones = Const(-1, count)
        for flag, resets, sets, values in (
                (inside, gone, entered, ones),
                (bare, gone, asks(TrapOperation.ENTER_PAUSED) | one(result.warp, when=no_frame), ones),
                (paused, ended, always, (paused | pauses) & ~woken),
                (halted, ended, always, (halted | halts) & ~woken),
                (self.quiet, ended, pauses, asks(TrapOperation.PAUSE_QUIET) & ~fails),
                (waits, self.release.replicate(count), asks(TrapOperation.WAIT), ones),
                (leaving, answered, asks(TrapOperation.TERMINATE) | Mux(self.release, waits, 0), ones),
                (masked, ended, asks(TrapOperation.MASK, TrapOperation.UNMASK),
                 does[TrapOperation.MASK].replicate(count)),
                (self.failed, clear, newly, ones),
                (self.trapped, clear, asks(TrapOperation.TRAP, TrapOperation.URGENT_TRAP), ones),
                (self.stepped, clear, entered, done),
                (stepping, self.taken | entered | ended, left, command.step.replicate(count)),
                (done, ended, always, (done | (stepping & self.taken)) & ~entered)):
            for warp in range(count):
                with m.If(resets[warp]):
                    m.d.sync += flag[warp].eq(0)
                with m.Elif(sets[warp]):
                    m.d.sync += flag[warp].eq(values[warp])

        # Causes, and entry. Those inside are none: they pause. A step is done when nobody has one to do: a BAR
        # completes the barrier of others that step before they are taken from it. From an error on everybody enters.
        stops, everybody, is_masked, unfinished = done & ~masked, Signal(), masked.bit_select(step.warp, 1), Signal()
        m.d.sync += [
            self.insisting.eq(newly.any() | does[TrapOperation.URGENT_TRAP]),
            asked.eq(self.error_in_trap | (does[TrapOperation.TRAP] & ~is_masked)
                     | (does[TrapOperation.UNMASK] & self.trapped.bit_select(step.warp, 1)
                        & ~inside.bit_select(step.warp, 1))),
            self.resume.eq(Mux(goes_on, here, 0) | (woken & (halted | halts)))]
        m.d.comb += [
            unfinished.eq((stepping | (stops & ~self.drained)).any()),
            self.cause.eq(self.insisting | asked | (stops.any() & ~unfinished)),
            everybody.eq((self.trapping & self.urgent) | self.insisting),
            self.enters.eq(~inside & (everybody.replicate(count) | Mux(self.trapping, ~masked, 0))),
            self.returning.eq(waits | bare), self.hold.eq(self.enters | stops | paused | self.returning),
            self.error_in_trap.eq(fails.any() | does[TrapOperation.FAIL]),
            self.pause.eq(self.error_in_trap | does[TrapOperation.PAUSE] | does[TrapOperation.ENTER_PAUSED]),
            self.step.eq((does[TrapOperation.ENTER] | does[TrapOperation.ENTER_PAUSED])
                          & done.bit_select(step.warp, 1)),
            goes_on.eq(does[TrapOperation.GO_ON] | does[TrapOperation.MASK] | does[TrapOperation.UNMASK]
                       | (does[TrapOperation.TRAP] & is_masked))]

        m.d.sync += [
            Assert(~(entered & inside).any(), "a warp enters that is inside"),
            Assert(~(asks(TrapOperation.LEAVE) & ~leaving).any(), "a warp leaves that was not asked to"),
            Assert(~(ended & waits).any(), "a warp begins or ends that waits in the trap"),
            Assert(~(self.taken & left).any(), "a warp issues when it leaves"),
            Assert(~(self.dispatched.valid & (here & waits).any()), "a warp that waits at RTT executes an instruction")]
        return m


    def answers_entry(self, m: Module, enters: Value) -> Value:
        """Whether a flow result is that of an ENTER."""
        step, result = self.dispatched.payload, self.result.payload
        m.submodules.sweep = self.sweep
        m.submodules.entries, m.submodules.results = entries, results = self.entries, self.results
        last = entries.read(m, result.warp)
        entries.write(m, enters, step.warp, ~results.read(m, step.warp))
        results.write(m, self.result.valid, result.warp, last)
        return last ^ results.read(m, result.warp)


class SmTrap(Component):
    """When a trap begins and when it is over.

    Members
    -------
    live, paused, quiet, returning : In(warps)
        A warp that is paused may be returning, too: it is so when it is woken.
    starting, cause, insisting, stop : In(1)
        More warps will live soon; a warp wants a trap; one that nobody can mask; the host's stop trigger.
    trapping, urgent, release, locked_down : Out(1)
        From the cycle after the cause on. For one cycle: who is returning and not paused leaves. Trapped, and nothing
        goes on: every live warp is paused, or returning and kept by the stop trigger.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            **dict.fromkeys(("live", "paused", "quiet", "returning"), In(params.warps)),
            **dict.fromkeys(("starting", "cause", "insisting", "stop"), In(1)),
            **dict.fromkeys(("trapping", "urgent", "release", "locked_down"), Out(1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stands, leaves, over = Signal(), Signal(), Signal()
        m.d.comb += [
            stands.eq(~(self.starting | (self.live & ~(self.paused | self.returning)).any())),
            leaves.eq((self.live & ~self.paused).any()), self.release.eq(self.trapping & ~self.stop & stands & leaves),
            over.eq(~self.stop & stands & (leaves | ~(self.live & ~self.quiet).any())),
            self.locked_down.eq(self.trapping & ~over & stands)]
        m.d.sync += [
            self.trapping.eq((self.trapping & ~over) | self.stop | self.cause),
            self.urgent.eq((self.urgent & ~over) | self.insisting)]
        return m
