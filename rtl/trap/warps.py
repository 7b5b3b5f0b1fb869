"""The trap unit's state of each warp, a bit a warp for each condition."""

from functools import partial, reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import (
    ErrorEvents,
    Event,
    TrapCommand,
    errors_by_source,
    flow_result,
    warp_launch,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.wires import KEEP

from .forms import MANY_IN_FLIGHT, TrapForm
from .operations import TrapOperation
from .states import (
    SmTrapLink,
    WarpTrapEvents,
    WarpTrapView,
    executed_operation,
)

__all__ = ["WarpTraps"]


_HOLDING_SOURCES = ("barrier", "trap")
"""Sources of errors whose instructions hold their warp until ``resume``."""


class WarpTraps(Component):
    """The trap state of all warps, as one register bit a warp for each condition: many warps can
    change state in the same cycle.

    A warp is inside from the dispatch of its ENTER until the result of its LEAVE, else outside.
    ``view.state`` has each flag of it. ::

                      ENTER                          RTT                 release
        OUTSIDE ----------------> INSIDE: handler ---------> waits at RTT ------> leaving
           ^  |                    |      ^     |                                    | ^
           |  | ENTER_PAUSED       | fail,|wake | RTT.TERMINATE                      | |
           |  |   or no frame      | pause|     +------------------------------------|-+
           |  v                    v      |                                          |
           | bare, paused         paused -+                                          |
           |  | wake                                                                 |
           |  v                                  LEAVE's result                      |
           +- bare: counts as waiting <-- release        ^---------------------------+

    A warp that is bare has no trap frame and runs no handler. Its release takes no LEAVE.

    Simultaneous events of one warp: each flag has its own If/Elif chain, in which clearing the flag
    has priority over setting it. The begin (its warp_launch) or end of a warp clears all flags but
    two: ``waits`` is cleared by the release alone, ``leaving`` by the warp's next flow result. A
    warp at RTT neither starts nor ends, see the asserts.

    Members
    -------
    launch, live, taken, drained, result, errors, command, hold, resume
        See TrapUnit.
    dispatched : In(Event of executed_operation)
        An instruction, ENTER or LEAVE.
    clears_status : In(Event of a warp)
        The reasons why this warp traps are cleared.
    machine : Out(SmTrapLink)
    view : Out(WarpTrapView)
    events : Out(WarpTrapEvents)

    Attributes
    ----------
    entry_tracker : EntryTracker
        Whether a flow result belongs to an ENTER.
    """

    def __init__(self, params: SmParams, form: TrapForm = MANY_IN_FLIGHT) -> None:
        self._count = params.warps
        warps = params.warps
        super().__init__({
            "launch": In(Event(warp_launch(params))),
            "result": In(Event(flow_result(params))),
            "dispatched": In(Event(executed_operation(params))),
            "clears_status": In(Event(params.warp_bits)),
            "errors": In(ErrorEvents(params)),
            "command": In(TrapCommand(params)),
            "live": In(warps),
            "taken": In(warps),
            "drained": In(warps),
            "machine": Out(SmTrapLink()),
            "view": Out(WarpTrapView(params)),
            "events": Out(WarpTrapEvents),
            "hold": Out(warps),
            "resume": Out(warps),
        })
        self._failing_events = form.failing_events
        self.entry_tracker = form.entry_tracker(params)

        # The events of this cycle, a bit a warp. Synthesis keeps these wires: otherwise it would
        # duplicate their logic for each use.
        mask = partial(Signal, warps, attrs=form.kept_masks)
        self._dispatched = mask(name="dispatched_warp")
        """An instruction, ENTER or LEAVE is dispatched."""
        self._dispatched_inside = mask(name="dispatched_inside")
        """The same, and it is inside."""
        self._answered = mask(name="answered")
        """It has a flow result."""
        self._bare_released = mask(name="bare_released")
        """It is bare, and released."""
        self._returned = mask(name="returned")
        """It is outside again."""
        self._place_cleared = mask(name="place_cleared")
        """It is outside again, or begins, or ends."""
        self._causes_cleared = mask(name="causes_cleared")
        """Why it traps does not count any more."""
        self._failing = mask(name="failing")
        """It has an error."""
        self._failing_inside = mask(name="failing_inside")
        self._newly_failed = mask(name="newly_failed")
        """It has an error outside: a cause."""
        self._pausing = mask(name="pausing")
        self._halting = mask(name="halting")
        self._woken = mask(name="woken")
        self._executes = self._bit_for_each("executes")
        """An instruction that does this is dispatched."""
        self._executes_outside = self._bit_for_each("executes_outside")
        self._executes_inside = self._bit_for_each("executes_inside")
        """It does this if its warp is outside, or inside."""
        self._resumes = Signal(name="resumes", attrs=KEEP)
        """It releases its warp at once."""
        self._is_refused = Signal(name="is_refused")
        """The flow result has an error."""
        self._lacks_frame = Signal(name="lacks_frame")
        """The flow result belongs to an ENTER whose frame had no room."""

    def _bit_for_each(self, name: str) -> dict[TrapOperation, Signal]:
        """A wire for each operation, which synthesis keeps."""
        return {
            kind: Signal(name=f"{name}_{kind.name.lower()}", attrs=KEEP) for kind in TrapOperation}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._find_operations(m)
        self._find_results(m)
        self._find_errors(m)
        self._find_pauses(m)
        self._keep_place(m)
        self._keep_pauses(m)
        self._keep_causes(m)
        self._find_causes(m)
        self._select_entries(m)
        self._report(m)
        self._promise(m)
        return m

    # What happens in this cycle.

    def _find_operations(self, m: Module) -> None:
        """The dispatched operation, and its warp."""
        state = self.view.state
        changes = self.view.changes
        dispatched = self.dispatched
        payload = dispatched.payload
        is_inside = Signal()
        m.d.comb += is_inside.eq(state.inside.bit_select(payload.warp, 1))
        m.d.comb += self._dispatched.eq(one_hot(payload.warp, self._count))
        m.d.comb += self._dispatched_inside.eq(self._dispatched & state.inside)
        for kind in TrapOperation:
            outside = self._executes_outside[kind]
            inside = self._executes_inside[kind]
            m.d.comb += outside.eq(dispatched.valid & (payload.outside == kind))
            m.d.comb += inside.eq(dispatched.valid & (payload.inside == kind))
            m.d.comb += self._executes[kind].eq(Mux(is_inside, inside, outside))
        m.d.comb += changes.entered.eq(
            self._warp_executing(TrapOperation.ENTER, TrapOperation.ENTER_PAUSED))

    def _warp_executing(self, *operations: TrapOperation) -> Value:
        """The warp for which one of these is dispatched, one-hot; 0 if none is. Where the warp is
        decides last, since the path from a dispatch to the flags of a warp is among the longest."""
        outside = Cat(self._executes_outside[each] for each in operations).any()
        inside = Cat(self._executes_inside[each] for each in operations).any()
        return Mux(outside, self._dispatched & ~self._dispatched_inside, 0) | Mux(
            inside, self._dispatched_inside, 0)

    def _find_results(self, m: Module) -> None:
        """Flow results and warp_launch: which warps leave, start or end."""
        state = self.view.state
        changes = self.view.changes
        launch = self.launch
        result = self.result.payload
        tracker = self.entry_tracker
        count = self._count
        m.submodules.entry_tracker = tracker
        m.d.comb += tracker.entered.valid.eq(self._executes[TrapOperation.ENTER])
        m.d.comb += tracker.entered.payload.eq(self.dispatched.payload.warp)
        connect(m, flipped(self.result), tracker.result)
        m.d.comb += tracker.is_inside.eq(state.inside.bit_select(result.warp, 1))

        m.d.comb += self._is_refused.eq(result.error != WarpError.NONE)
        m.d.comb += self._lacks_frame.eq(
            self.result.valid & self._is_refused & tracker.is_entry)
        m.d.comb += self._answered.eq(one_hot(result.warp, count, when=self.result.valid))
        begins = one_hot(launch.payload.warp, count, when=launch.valid)
        terminates = one_hot(result.warp, count, when=self.result.valid & result.terminated)
        m.d.comb += changes.ended.eq(begins | terminates)
        m.d.comb += self._bare_released.eq(Mux(self.machine.release, state.bare & ~state.paused, 0))
        has_left = Mux(self._is_refused, 0, self._answered & state.leaving)
        m.d.comb += self._returned.eq(has_left | self._bare_released)
        m.d.comb += self._place_cleared.eq(self._returned | changes.ended)
        cleared = one_hot(self.clears_status.payload, count, when=self.clears_status.valid)
        m.d.comb += self._causes_cleared.eq(self._place_cleared | cleared)

    def _find_errors(self, m: Module) -> None:
        """Which warps have an error, inside and outside."""
        state = self.view.state
        failing = self._warps_of(self._failing_events(m, self.errors))
        m.d.comb += self._failing.eq(failing)
        m.d.comb += self._failing_inside.eq(self._failing & state.inside)
        m.d.comb += self._newly_failed.eq(self._failing & self.live & ~state.inside)

    def _warps_of(self, events: Any) -> Value:
        """The warps of error events."""
        masks = (
            one_hot(event.payload.warp, self._count, when=event.valid) for event in events)
        return reduce(or_, masks)

    def _find_pauses(self, m: Module) -> None:
        """Which warps are paused, by what, and which are woken."""
        state = self.view.state
        holding = [
            event for source, event in errors_by_source(self.errors).items()
            if source in _HOLDING_SOURCES]
        pausing = self._warp_executing(
            TrapOperation.FAIL, TrapOperation.PAUSE, TrapOperation.PAUSE_QUIET)
        pausing_or_bare = self._warp_executing(
            TrapOperation.FAIL, TrapOperation.PAUSE, TrapOperation.PAUSE_QUIET,
            TrapOperation.ENTER_PAUSED)
        m.d.comb += self._pausing.eq(self._failing_inside | pausing_or_bare)
        m.d.comb += self._halting.eq(pausing | (state.inside & self._warps_of(holding)))
        m.d.comb += self._woken.eq(state.paused & Mux(self.machine.trapping, self.command.wake, 0))

    # What is kept of each warp.

    def _keep(self, m: Module, flag: Any, *, clears: Any, sets: Any) -> None:
        """A flag a warp. Clearing has priority over setting."""
        for warp in range(self._count):
            with m.If(clears[warp]):
                m.d.sync += flag[warp].eq(0)
            with m.Elif(sets[warp]):
                m.d.sync += flag[warp].eq(1)

    def _keep_place(self, m: Module) -> None:
        """Where each warp is: outside or inside, without a frame, at RTT, leaving."""
        state = self.view.state
        changes = self.view.changes
        machine = self.machine
        release = machine.release.replicate(self._count)
        released = Mux(machine.release, state.waits, 0)
        lacks_frame = one_hot(self.result.payload.warp, self._count, when=self._lacks_frame)
        self._keep(m, state.inside, clears=self._place_cleared, sets=changes.entered)
        self._keep(
            m, state.bare, clears=self._place_cleared,
            sets=self._warp_executing(TrapOperation.ENTER_PAUSED) | lacks_frame)
        self._keep(
            m, state.waits, clears=release, sets=self._warp_executing(TrapOperation.WAIT))
        self._keep(
            m, state.leaving, clears=self._answered,
            sets=self._warp_executing(TrapOperation.TERMINATE) | released)

    def _keep_pauses(self, m: Module) -> None:
        """Which warps are paused, and how: quietly, and whether ``resume`` has to release them."""
        state = self.view.state
        changes = self.view.changes
        quietly = self._warp_executing(TrapOperation.PAUSE_QUIET) & ~self._failing_inside
        self._keep(m, state.paused, clears=changes.ended | self._woken, sets=self._pausing)
        self._keep(m, state.halted, clears=changes.ended | self._woken, sets=self._halting)
        self._keep(
            m, state.quiet, clears=changes.ended | (self._pausing & ~quietly), sets=quietly)

    def _keep_causes(self, m: Module) -> None:
        """Why each warp traps. A step begins when the warp leaves the trap; it is done when the
        warp has issued an instruction."""
        state = self.view.state
        changes = self.view.changes
        steps = self.command.step.replicate(self._count)
        self._keep(
            m, state.masked,
            clears=changes.ended | self._warp_executing(TrapOperation.UNMASK),
            sets=self._warp_executing(TrapOperation.MASK))
        self._keep(m, state.failed, clears=self._causes_cleared, sets=self._newly_failed)
        self._keep(
            m, state.trapped, clears=self._causes_cleared,
            sets=self._warp_executing(TrapOperation.TRAP, TrapOperation.URGENT_TRAP))
        self._keep(
            m, state.stepped,
            clears=self._causes_cleared | (changes.entered & ~state.done),
            sets=changes.entered & state.done)
        self._keep(
            m, state.stepping,
            clears=self.taken | changes.entered | changes.ended | (self._returned & ~steps),
            sets=self._returned & steps)
        self._keep(
            m, state.done, clears=changes.ended | changes.entered, sets=state.stepping & self.taken)

    # What follows from it.

    def _find_causes(self, m: Module) -> None:
        """Causes of a trap. Those inside are none: they pause. A step is done when no other warp
        has one to do: a BAR completes the barrier of others that step before they are taken from
        it."""
        state = self.view.state
        machine = self.machine
        warp = self.dispatched.payload.warp
        is_masked = state.masked.bit_select(warp, 1)
        traps_unmasked = self._executes[TrapOperation.TRAP] & ~is_masked
        has_trapped_outside = (
            state.trapped.bit_select(warp, 1) & ~state.inside.bit_select(warp, 1))
        unmasks_trap = self._executes[TrapOperation.UNMASK] & has_trapped_outside
        has_cause = Signal()
        m.d.sync += has_cause.eq(self.events.error_in_trap | traps_unmasked | unmasks_trap)
        m.d.sync += machine.insisting.eq(
            self._newly_failed.any() | self._executes[TrapOperation.URGENT_TRAP])

        step_causes = self._step_causes
        steps_are_unfinished = Signal()
        m.d.comb += steps_are_unfinished.eq(
            (state.stepping | (step_causes & ~self.drained)).any())
        steps_are_done = step_causes.any() & ~steps_are_unfinished
        m.d.comb += machine.cause.eq(machine.insisting | has_cause | steps_are_done)

    @property
    def _step_causes(self) -> Value:
        """Warps that have done their step, which is a cause."""
        state = self.view.state
        return state.done & ~state.masked

    def _select_entries(self, m: Module) -> None:
        """Which warps enter, which may not issue, and which continue. From an error on everybody
        enters."""
        state = self.view.state
        changes = self.view.changes
        machine = self.machine
        everybody = Signal()
        m.d.comb += everybody.eq((machine.trapping & machine.urgent) | machine.insisting)
        with m.If(everybody):
            m.d.comb += changes.enters.eq(~state.inside)
        with m.Elif(machine.trapping):
            m.d.comb += changes.enters.eq(~state.inside & ~state.masked)
        is_stopped = state.paused | state.waits | state.bare
        m.d.comb += self.hold.eq(changes.enters | self._step_causes | is_stopped)

        is_masked = state.masked.bit_select(self.dispatched.payload.warp, 1)
        executes = self._executes
        goes_on = executes[TrapOperation.GO_ON] & ~self.dispatched.payload.is_refused
        masks = executes[TrapOperation.MASK] | executes[TrapOperation.UNMASK]
        traps_masked = executes[TrapOperation.TRAP] & is_masked
        m.d.comb += self._resumes.eq(goes_on | masks | traps_masked)
        resumed = Mux(self._resumes, self._dispatched, 0)
        m.d.sync += self.resume.eq(resumed | (self._woken & (state.halted | self._halting)))

    def _report(self, m: Module) -> None:
        """Events for the error status."""
        state = self.view.state
        events = self.events
        executes = self._executes
        enters_paused = executes[TrapOperation.ENTER_PAUSED]
        enters = executes[TrapOperation.ENTER] | enters_paused
        has_stepped = state.done.bit_select(self.dispatched.payload.warp, 1)
        m.d.comb += events.error_in_trap.eq(
            self._failing_inside.any() | executes[TrapOperation.FAIL])
        m.d.comb += events.pause.eq(
            events.error_in_trap | executes[TrapOperation.PAUSE] | enters_paused)
        m.d.comb += events.step.eq(enters & has_stepped)

    def _promise(self, m: Module) -> None:
        """What issue and the flow unit promise."""
        state = self.view.state
        changes = self.view.changes
        waiting_dispatched = self.dispatched.valid & (self._dispatched & state.waits).any()
        m.d.sync += Assert(~(changes.entered & state.inside).any(), "a warp enters that is inside")
        m.d.sync += Assert(
            ~(self._warp_executing(TrapOperation.LEAVE) & ~state.leaving).any(),
            "a warp leaves without a request")
        m.d.sync += Assert(
            ~(changes.ended & state.waits).any(), "a warp begins or ends that waits in the trap")
        m.d.sync += Assert(~(self.taken & self._returned).any(), "a warp issues when it leaves")
        m.d.sync += Assert(
            ~waiting_dispatched, "a warp that waits at RTT executes an instruction")
