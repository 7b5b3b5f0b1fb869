"""Every warp's part of the trap unit: whether it enters, where it is in the trap, when it goes on."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import enum
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import TrapCommand
from rtl.one_hot import one_hot
from rtl.params import SmParams

__all__ = ["TrapOperation", "WarpTraps", "shared"]


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


def _change(m: Module, bits: Signal, *steps: tuple[Any, Any]) -> None:
    """Changes the bits of these warps to that value, or each to its own, one step after the other: later ones win."""
    new: Any = bits
    for warps, value in steps:
        if isinstance(value, int):
            new = new | warps if value else new & ~warps
        else:
            new = (new & ~warps) | (value & warps)
    m.d.sync += bits.eq(new)


def shared(m: Module, name: str, value: Any) -> Signal:
    """Bits that are wanted in many places: synthesis does not rearrange logic across such a wire, which else becomes
    larger by making each of them anew wherever it is wanted."""
    signal = Signal(len(value), name=name, attrs={"keep": 1})
    m.d.comb += signal.eq(value)
    return signal


class WarpTraps(Component):
    """Where warps are in the trap: a bit a warp of everything, since much happens to many of them at once.

    A warp is outside, or inside: there it runs the handler, waits at RTT, or is paused. It is framed if it has a trap
    frame on its stack and runs a handler; without one it can only be paused or wait.

    Members
    -------
    live, taken, drained, waiting, begins : In(warps)
        It has begun and not ended; it issues an instruction; none of its instructions is in flight; it waits at a
        barrier; it is launched.
    here : In(warps)
        Of this one something is dispatched.
    moves, asks, operation, pends : In(1), In(1), In(TrapOperation), In(1)
        ENTER or LEAVE; or an instruction of no error. ``pends``: a BPT.TRAP that is masked.
    result_valid, result_warp, refused : In(1), In, In(1)
        A flow result of this warp comes, and is an error.
    failing, wants, insists : In(warps)
        A reported error of it comes; it has a reason to trap that can be masked; one that nobody can mask.
    trapping, urgent, release : In(1)
        The multiprocessor traps; for a cause that nobody can mask; those who wait at RTT leave.
    command : In(TrapCommand)
        It wakes warps that are paused.
    hold, enter, leave, resume, withdraw : Out(warps)
        For issue and barrier unit; see IssueUnit, BarrierUnit.
    masked, inside, outside, paused, quiet, returning : Out(warps)
        ``masked``: its causes that can be masked wait. ``outside``: and not on the way in. ``returning``: it waits at
        RTT.
    cause, insisting : Out(1)
        A warp wants the multiprocessor to trap; for a cause that nobody can mask.
    traps, stepped, left : Out(warps)
        For one cycle: it executes a BPT.TRAP outside; it is inside now after a step; it is outside again.
    pauses, fails : Out(1)
        For one cycle: a warp is paused, not quietly; by an error or BPT.TRAP inside.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        ports = (
            (In(params.warps), "live taken drained waiting begins here failing wants insists"),
            (In(1), "moves asks pends result_valid refused trapping urgent release"),
            (Out(params.warps), "hold enter leave resume withdraw masked inside outside paused quiet returning"),
            (Out(params.warps), "traps stepped left"), (Out(1), "cause insisting pauses fails"))
        super().__init__({
            "operation": In(TrapOperation), "result_warp": In(params.warp_bits), "command": In(TrapCommand(params)),
            **{name: member for member, names in ports for name in names.split()}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, live, inside, begins = self._params.warps, self.live, self.inside, self.begins
        masked, paused, returning = self.masked, self.paused, self.returning
        framed, moving, leaving = Signal(warps), Signal(warps), Signal(warps)
        # One instruction is left to it; it has issued that one, which is a cause.
        stepping, done = Signal(warps), Signal(warps)

        # What happens, to whom.
        refused = shared(m, "refused_now", self.refused)
        comes, released = Mux(self.moves, self.here, 0), Mux(self.release, returning, 0)
        result = shared(m, "result_of", one_hot(self.result_warp, warps, self.result_valid))
        entered = shared(m, "entered", result & moving & ~inside)
        wakes = shared(m, "wakes", paused & Mux(self.trapping, self.command.wake, 0))
        left = shared(m, "gone", (result & moving & inside & ~refused.replicate(warps)) | (released & ~framed))
        stops, outside = shared(m, "stops", done & ~masked), shared(m, "outside", live & ~inside & ~moving)

        def told(*kinds: TrapOperation) -> Any:
            return self.asks & self.operation.as_value().matches(*kinds)

        def asks(*kinds: TrapOperation) -> Any:
            return Mux(shared(m, f"asks_{kinds[0].name.lower()}", told(*kinds)), self.here, 0)

        m.d.comb += [
            self.outside.eq(outside), self.stepped.eq(entered & done),
            self.traps.eq(shared(m, "traps_now", asks(TrapOperation.TRAP))),
            self.left.eq(left)]

        # Causes, and entry. A step is done when nobody has one to do: a BAR completes the barrier of others that step
        # before they are taken from it.
        failing, fails = self.failing & ~inside, shared(m, "failing_inside", self.failing & (inside | moving))
        insists = shared(m, "holds", outside & self.insists)
        enters = shared(m, "enters", live & ~inside & Mux(self.trapping, ~masked | self.urgent.replicate(warps), 0))
        steps = (live & (stepping | (stops & ~self.drained))).any()
        m.d.comb += [
            self.fails.eq(fails.any() | told(TrapOperation.FAIL)),
            self.insisting.eq((failing | insists).any()),
            self.cause.eq((failing | insists | (outside & ~masked & (self.wants | Mux(steps, 0, done)))).any()
                           | self.fails),
            self.hold.eq(enters | insists | stops | paused | returning | leaving),
            self.enter.eq(enters & ~self.waiting), self.leave.eq(leaving), self.withdraw.eq(enters & self.waiting)]

        # Pauses. Errors and BPT.TRAP outside are causes; inside and on the way in they pause.
        bare = entered & ~framed
        loud = shared(m, "loud", fails | asks(TrapOperation.FAIL, TrapOperation.PAUSE) | bare)
        m.d.comb += self.pauses.eq(self.fails | told(TrapOperation.PAUSE) | bare.any())
        _change(m, paused, (loud | asks(TrapOperation.PAUSE_QUIET), 1), (wakes, 0), (begins, 0))
        _change(m, self.quiet, (asks(TrapOperation.PAUSE_QUIET), 1), (loud, 0))

        # In and out. Without a handler to go on with, a warp that is woken waits to be released.
        _change(m, moving, (comes, 1), (result | begins, 0))
        _change(m, leaving, (asks(TrapOperation.TERMINATE), 1), (result & moving, 0), (released, framed))
        _change(m, returning, (asks(TrapOperation.WAIT) | (wakes & ~framed), 1), (released, 0))
        _change(m, framed, (comes & ~inside, self.command.installed.replicate(warps)), (Mux(refused, entered, 0), 0))
        _change(m, inside, (entered, 1), (left | begins, 0))
        m.d.sync += [
            Assert(~(comes & moving).any(), "a warp moves that is on its way"),
            Assert(~(comes & inside & ~leaving).any(), "a warp leaves that was not asked to"),
            Assert(~(begins & (leaving | returning)).any(), "a warp begins that leaves the trap or waits in it"),
            Assert(~(self.asks & (self.here & returning).any()), "a warp that waits at RTT executes an instruction")]

        # Masks, steps, and who goes on.
        _change(m, masked, (asks(TrapOperation.MASK), 1), (asks(TrapOperation.UNMASK) | begins, 0))
        _change(m, stepping, (self.taken | entered | begins, 0), (left, self.command.step.replicate(warps)))
        _change(m, done, (stepping & self.taken, 1), (entered | begins, 0))
        m.d.sync += self.resume.eq(
            asks(TrapOperation.GO_ON, TrapOperation.MASK, TrapOperation.UNMASK)
            | Mux(self.pends, self.here, 0) | (wakes & framed))
        return m
