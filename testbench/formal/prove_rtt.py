"""No warp leaves a trap before all live warps are at RTT or paused, and all warps that wait at RTT
leave together.

Warps begin, enter the trap, execute any instructions there and outside, pause, are woken, fail, and
end, in any order and at any time; the host stops, steps and wakes. The theorem tracks each warp's
state in its protocol with issue and the flow unit; that protocol is all that is assumed. (A warp
that is paused inside executes nothing there: an instruction of the trap unit issues when all before
it are complete, so their errors were reported.)

1. A warp that waits at RTT is requested to leave only if, in the previous cycle, every live warp
   waited there, was paused, or had entered without a handler, and no warp was about to begin.
2. Then all warps that wait there are requested to leave, in the same cycle.
3. No other warp is, except one whose RTT terminates it.
4. Every live warp is then inside the trap or paused: all of them have entered.
5. A warp is inside from its entry until its return, as the protocol defines.
"""

from typing import Any

from amaranth.hdl import Assume, Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import enum
from amaranth.lib.wiring import connect

from rtl.layouts import errors_by_source
from rtl.params import PRESETS
from rtl.trap.machine import SmTrap
from rtl.trap.operations import TrapOperation
from rtl.trap.warps import WarpTraps
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_ANYWHERE = (TrapOperation.GO_ON, TrapOperation.MASK, TrapOperation.UNMASK)
_OUTSIDE = (*_ANYWHERE, TrapOperation.TRAP, TrapOperation.URGENT_TRAP)
_INSIDE = (*_ANYWHERE, TrapOperation.FAIL, TrapOperation.PAUSE, TrapOperation.PAUSE_QUIET)


class _Place(enum.Enum, shape=4):
    """State of a warp in its protocol. WAITS_...: an instruction of the trap unit holds it until
    ``resume``.
    """

    DEAD = 0
    OUTSIDE = 1
    WAITS_OUTSIDE = 2
    ENTERS = 3
    INSIDE = 4
    WAITS_INSIDE = 5
    BARE = 6
    AT_RTT = 7
    ASKED = 8
    LEAVES = 9


class _Spec(Elaboratable):
    """The states of the trap unit, with a machine around them that obeys the protocol and is
    otherwise unconstrained.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.warps, m.submodules.machine = warps, machine = (
            WarpTraps(_PARAMS),
            SmTrap(_PARAMS),
        )
        no_reset(m)
        starting = Signal()
        free(
            m,
            starting,
            warps.launch,
            warps.taken,
            warps.drained,
            warps.result,
            warps.dispatched,
            warps.clears_status,
            warps.errors,
            warps.command,
        )
        connect(m, warps.machine, machine.link)
        connect(m, warps.view, machine.warps)
        m.d.comb += [
            machine.starting.eq(starting),
            machine.stop.eq(warps.command.stop),
            machine.live.eq(warps.live),
        ]
        self.restored = ~warps.entry_tracker.sweep.active
        m.d.comb += Assume(
            self.restored | ~(warps.dispatched.valid | warps.result.valid),
            "nothing happens in the sweep after a reset",
        )
        places = [Signal(_Place, name=f"place_{warp}") for warp in range(_PARAMS.warps)]
        for warp, place in enumerate(places):
            self._follow(m, warps, machine, warp, place)
        m.d.comb += warps.live.eq(Cat(place != _Place.DEAD for place in places))

        state, release = warps.view.state, machine.link.release
        stands = (
            Cat(
                (place == _Place.DEAD) | (place == _Place.AT_RTT) | bare | paused
                for place, bare, paused in zip(places, state.bare, state.paused, strict=True)
            ).all()
            & ~starting
        )
        inside = Cat(
            (place == _Place.DEAD) | inside | paused
            for place, inside, paused in zip(places, state.inside, state.paused, strict=True)
        ).all()
        claim(m, stands, "a warp that leaves has waited for all", when=release)
        claim(m, inside, "all have entered", when=release)
        claim(m, ~state.waits.any(), "no warp is left behind", when=Past(m)(release))
        can_happen(m, release & state.waits.all(), "all leave together")
        can_happen(m, release & state.waits.any() & state.paused.any(), "one leaves, one is paused")
        can_happen(m, release & state.bare.all(), "all leave without a handler")
        return m

    def _follow(self, m: Module, warps: WarpTraps, machine: SmTrap, warp: int, place: Any) -> None:
        """Tracks a warp in its protocol; events that would violate the protocol are assumed not to
        happen.
        """
        past, step, result = Past(m), warps.dispatched.payload, warps.result.payload
        state, release = warps.view.state, machine.link.release
        inside, leaving = state.inside[warp], state.leaving[warp]
        begins = warps.launch.valid & (warps.launch.payload.warp == warp)
        does = warps.dispatched.valid & (step.warp == warp)
        operation = Mux(inside, step.inside.as_value(), step.outside.as_value())
        has_result = warps.result.valid & (result.warp == warp)
        fails = Cat(
            event.valid & (event.payload.warp == warp)
            for event in errors_by_source(warps.errors).values()
        ).any()

        def at(*where: _Place) -> Value:
            return Cat(place == each for each in where).any()

        def allowed(*operations: TrapOperation) -> Value:
            return Cat(operation == each for each in operations).any()

        enters = (
            allowed(TrapOperation.ENTER, TrapOperation.ENTER_PAUSED)
            & warps.view.changes.enters[warp]
        )
        m.d.comb += [
            Assume(~begins | at(_Place.DEAD), "a warp begins once"),
            Assume(~fails | ~at(_Place.DEAD), "who is dead does not fail"),
            Assume(
                ~warps.taken[warp] | (at(_Place.OUTSIDE, _Place.INSIDE) & ~warps.hold[warp]),
                "who is held waits",
            ),
            Assume(
                ~does
                | (at(_Place.OUTSIDE) & (allowed(*_OUTSIDE) | enters))
                | (at(_Place.ASKED) & allowed(TrapOperation.LEAVE))
                | (
                    at(_Place.INSIDE)
                    & ~state.paused[warp]
                    & allowed(*_INSIDE, TrapOperation.WAIT, TrapOperation.TERMINATE)
                ),
                "what may be executed where",
            ),
            Assume(
                ~has_result | at(_Place.OUTSIDE, _Place.INSIDE, _Place.ENTERS, _Place.LEAVES),
                "who awaits a result",
            ),
            Assume(~(has_result & does), "an instruction of the trap waits for results"),
            Assume(~(has_result & at(_Place.ENTERS) & result.terminated), "an entry ends no warp"),
        ]

        with m.If(begins):
            m.d.sync += place.eq(_Place.OUTSIDE)
        with m.Elif(has_result & result.terminated):
            m.d.sync += place.eq(_Place.DEAD)
        with m.Elif(release & state.bare[warp] & ~state.paused[warp]):
            m.d.sync += place.eq(_Place.OUTSIDE)
        with m.Else(), m.Switch(place):
            with m.Case(_Place.OUTSIDE), m.If(does):
                m.d.sync += place.eq(Mux(enters, _Place.ENTERS, _Place.WAITS_OUTSIDE))
            with m.Case(_Place.WAITS_OUTSIDE), m.If(warps.resume[warp]):
                m.d.sync += place.eq(_Place.OUTSIDE)
            with m.Case(_Place.ENTERS), m.If(has_result):
                bare = state.bare[warp] | (result.error.as_value() != 0)
                m.d.sync += place.eq(Mux(bare, _Place.BARE, _Place.INSIDE))
            with m.Case(_Place.INSIDE), m.If(does):
                m.d.sync += place.eq(
                    Mux(
                        allowed(TrapOperation.WAIT),
                        _Place.AT_RTT,
                        Mux(
                            allowed(TrapOperation.TERMINATE),
                            _Place.ASKED,
                            _Place.WAITS_INSIDE,
                        ),
                    )
                )
            with m.Case(_Place.WAITS_INSIDE), m.If(warps.resume[warp]):
                m.d.sync += place.eq(_Place.INSIDE)
            with m.Case(_Place.AT_RTT), m.If(release):
                m.d.sync += place.eq(_Place.ASKED)
            with m.Case(_Place.ASKED), m.If(does):
                m.d.sync += place.eq(_Place.LEAVES)
            with m.Case(_Place.LEAVES), m.If(has_result):
                m.d.sync += place.eq(
                    Mux(result.error.as_value() == 0, _Place.OUTSIDE, _Place.INSIDE)
                )

        claim(m, leaving == at(_Place.ASKED, _Place.LEAVES), f"who leaves, {warp}")
        claim(m, state.waits[warp] == at(_Place.AT_RTT), f"who waits at RTT, {warp}")
        claim(
            m,
            past((at(_Place.AT_RTT) & release) | (does & allowed(TrapOperation.TERMINATE))),
            f"who is asked to leave, {warp}",
            when=past.valid & leaving & ~past(leaving),
        )
        claim(
            m,
            inside
            == at(
                _Place.ENTERS,
                _Place.INSIDE,
                _Place.WAITS_INSIDE,
                _Place.BARE,
                _Place.AT_RTT,
                _Place.ASKED,
                _Place.LEAVES,
            ),
            f"who is inside, {warp}",
        )
        claim(
            m,
            warps.entry_tracker.pending.read(m, warp) == (at(_Place.ENTERS) & ~state.bare[warp]),
            f"whose result is that of its entry, {warp}",
            when=self.restored,
        )
        claim(
            m, at(_Place.ENTERS, _Place.BARE), f"who has no handler, {warp}", when=state.bare[warp]
        )
        claim(
            m,
            past(at(_Place.AT_RTT) & release) & leaving,
            f"all who wait leave, {warp}",
            when=past(at(_Place.AT_RTT)) & ~at(_Place.AT_RTT),
        )


THEOREM = Theorem(
    _Spec,
    depth=4,
    cover_depth=12,
    faults=(
        Fault(
            "rtl.trap.machine",
            "is_at_rest.eq(~self.starting & ~running.any())",
            "is_at_rest.eq(~running.any())",
        ),
        Fault(
            "rtl.trap.machine",
            "is_at_rest.eq(~self.starting & ~running.any())",
            "is_at_rest.eq(~self.starting & ~running.all())",
        ),
        Fault(
            "rtl.trap.warps",
            "released = Mux(machine.release, state.waits, 0)",
            "released = Mux(machine.release, state.waits & -state.waits, 0)",
        ),
    ),
)
