"""Every warp's part of the trap unit: whether it enters, where it is in the trap, when it goes on."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.isa.trap_status import TRAP_REASONS
from rtl.layouts import Event
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .records import TrapOperation

__all__ = ["WarpTraps", "change", "trap_request"]


def change(m: Module, bits: Signal, *steps: tuple[Any, Any]) -> None:
    """Changes the bits of these warps to that value, or each to its own, one step after the other: later ones win."""
    new: Any = bits
    for warps, value in steps:
        if isinstance(value, int):
            new = new | warps if value else new & ~warps
        else:
            new = (new & ~warps) | (value & warps)
    m.d.sync += bits.eq(new)


def trap_request(params: SmParams) -> data.StructLayout:
    """An instruction of a warp, one of no error: BPT.TRAP has a ``reason``, RTT a ``mode``."""
    return data.StructLayout({
        "warp": params.warp_bits, "operation": TrapOperation, "reason": range(TRAP_REASONS.stop),
        "mode": ReturnFromTrapMode})


class WarpTraps(Component):
    """Where warps are in the trap: a bit a warp of everything, since much happens to many of them at once.

    A warp is outside, or inside: there it runs the handler, waits at RTT, or is paused. It is framed if it has a trap
    frame on its stack and runs a handler; without one it can only be paused or wait.

    Members
    -------
    launch : In(Event of a warp)
    live, taken, drained, waiting : In(warps)
        It has begun and not ended; it issues an instruction; none of its instructions is in flight; it waits at a
        barrier.
    withdrawn : In(Event of a warp)
        Its arrival has just been taken back.
    move : In(Event of a warp)
        Its ENTER or LEAVE is dispatched.
    result, refused : In(Event of a warp), In(1)
        Its flow result comes, and is an error.
    asked : In(Event of trap_request)
    failing : In(warps)
        A reported error of it comes.
    wants, insists : In(warps)
        It has a reason to trap that can be masked; one that nobody can mask.
    trapping, urgent : In(1)
        The multiprocessor traps; for a cause that nobody can mask.
    installed, step, wake, release : In(1), In(1), In(warps), In(1)
        There is a handler; the host steps; wakes these warps, if they are paused; those who wait at RTT leave.
    hold, enter, leave, resume, withdraw : Out(warps)
        For issue and barrier unit; see IssueUnit, BarrierUnit.
    masked, inside, outside, paused, quiet, returning, rolled_back : Out(warps)
        ``masked``: its causes that can be masked wait. ``outside``: and not on the way in. ``returning``: it waits at
        RTT. ``rolled_back``: to its BAR.
    causes : Out(warps)
        It wants the multiprocessor to trap.
    traps, pauses, fails, entered, stepped, left : Out(warps)
        For one cycle: it executes a BPT.TRAP outside; it is paused, not quietly; by an error or BPT.TRAP inside; it is
        inside now, and after a step; it is outside again.
    mode : Out(ReturnFromTrapMode)
        How the warp of ``move`` leaves.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        flags = ("hold", "enter", "leave", "resume", "withdraw", "masked", "inside", "outside", "paused", "quiet",
                 "returning", "rolled_back", "causes", "traps", "pauses", "fails", "entered", "stepped", "left")
        super().__init__({
            "launch": In(Event(bits)), "live": In(warps), "taken": In(warps), "drained": In(warps),
            "waiting": In(warps), "withdrawn": In(Event(bits)), "move": In(Event(bits)), "result": In(Event(bits)),
            "refused": In(1), "asked": In(Event(trap_request(params))), "failing": In(warps), "wants": In(warps),
            "insists": In(warps), "trapping": In(1), "urgent": In(1), "installed": In(1), "step": In(1),
            "wake": In(warps), "release": In(1), "mode": Out(ReturnFromTrapMode),
            **{name: Out(warps) for name in flags}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, inside = self._params.warps, self.inside
        masked, framed, moving, leaving = self.masked, Signal(warps), Signal(warps), Signal(warps)
        # One instruction is left to it; it has issued that one, which is a cause.
        stepping, done = Signal(warps), Signal(warps)

        # What happens, to whom.
        request, operation = self.asked.payload, self.asked.payload.operation
        begins, comes, result = (Signal(warps, name=name) for name in ("begins", "comes", "result_of"))
        of = Signal(warps)

        def asks(*kinds: TrapOperation) -> Any:
            return Mux(operation.as_value().matches(*kinds), of, 0)

        m.d.comb += [
            of.eq(one_hot(request.warp, warps, self.asked.valid)),
            begins.eq(one_hot(self.launch.payload, warps, self.launch.valid)),
            comes.eq(one_hot(self.move.payload, warps, self.move.valid)),
            result.eq(one_hot(self.result.payload, warps, self.result.valid)),
            self.outside.eq(self.live & ~inside & ~moving), self.entered.eq(result & moving & ~inside),
            self.stepped.eq(self.entered & done), self.traps.eq(asks(TrapOperation.TRAP) & ~inside)]

        # Causes, and entry. A step is done when nobody has one to do: a BAR completes the barrier of others that step
        # before they are taken from it.
        steps, enters, stops = stepping | (done & ~masked & ~self.drained), Signal(warps), done & ~masked
        m.d.comb += [
            self.causes.eq(self.outside & (self.insists | ~masked & (self.wants | Mux(
                (self.live & steps).any(), 0, done)))),
            enters.eq(self.live & ~inside & Mux(self.trapping, ~masked | self.urgent.replicate(warps), 0)),
            self.hold.eq(enters | (self.outside & self.insists) | stops | self.paused | self.returning | leaving),
            self.enter.eq(enters & ~self.waiting), self.leave.eq(leaving), self.withdraw.eq(enters & self.waiting)]

        # Pauses. Errors and BPT.TRAP outside are causes; inside and on the way in they pause.
        m.d.comb += [
            self.fails.eq((self.failing | asks(TrapOperation.TRAP)) & (inside | moving)),
            self.pauses.eq(self.fails | asks(TrapOperation.PAUSE) | (self.entered & ~framed))]
        wakes = self.paused & Mux(self.trapping, self.wake, 0)
        change(m, self.paused, (self.pauses | asks(TrapOperation.PAUSE_QUIET), 1), (wakes, 0), (begins, 0))
        change(m, self.quiet, (asks(TrapOperation.PAUSE_QUIET), 1), (self.pauses, 0))

        # In and out. Without a handler to go on with, a warp that is woken waits to be released.
        m.submodules.modes = modes = memory.Memory(shape=ReturnFromTrapMode, depth=warps, init=[])
        write, read = modes.write_port(), modes.read_port(domain="comb")
        ends, released = request.mode == ReturnFromTrapMode.TERMINATE, Mux(self.release, self.returning, 0)
        returns, refused = asks(TrapOperation.RETURN), self.refused.replicate(warps)
        m.d.comb += [
            write.en.eq(self.asked.valid & (operation == TrapOperation.RETURN)), write.addr.eq(request.warp),
            write.data.eq(request.mode), read.addr.eq(self.move.payload), self.mode.eq(read.data),
            self.left.eq((result & moving & inside & ~refused) | (released & ~framed))]
        change(m, moving, (comes, 1), (result, 0), (begins, 0))
        change(m, leaving, (Mux(ends, returns, 0), 1), (result & moving, 0), (released, framed), (begins, 0))
        change(m, self.returning, (Mux(ends, 0, returns), 1), (wakes & ~framed, 1), (released | begins, 0))
        change(m, framed, (comes & ~inside, self.installed.replicate(warps)), (self.entered & refused, 0),
               (self.left | begins, 0))
        change(m, inside, (self.entered, 1), (self.left | begins, 0))
        change(m, self.rolled_back, (one_hot(self.withdrawn.payload, warps, self.withdrawn.valid), 1),
               (self.entered | begins, 0))

        # Masks, steps, and who goes on.
        change(m, masked, (asks(TrapOperation.MASK), 1), (asks(TrapOperation.UNMASK) | begins, 0))
        change(m, stepping, (self.taken | self.entered | begins, 0), (self.left, self.step.replicate(warps)))
        change(m, done, (stepping & self.taken & ~self.left, 1), (self.entered | begins, 0))
        pends = Mux(request.reason == TRAP_REASONS.stop - 1, 0, self.traps & masked)
        m.d.sync += self.resume.eq(
            asks(TrapOperation.GO_ON, TrapOperation.MASK, TrapOperation.UNMASK) | pends | (wakes & framed))
        return m
