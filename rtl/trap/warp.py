"""A warp's part of the trap unit."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus

from .records import TrapOperation

__all__ = ["WarpTrap"]

_UNMASKABLE = TRAP_REASONS.stop - 1


class WarpTrap(wiring.Component):
    """Why a warp traps, and where it is in the trap.

    It is outside, or inside: there it runs the handler, waits at RTT, or is paused. ``framed``: it has a trap frame on
    its stack and runs a handler; without one it can only be paused or wait.

    Members
    -------
    launched, live : In(1)
    taken, drained : In(1)
        It issues an instruction; none of its instructions is in flight.
    waiting, withdrawn : In(1)
        It waits at a barrier; its arrival has just been taken back.
    moves, result, refused : In(1)
        Its ENTER or LEAVE is dispatched; its flow result comes, and is an error.
    asked, operation, reason, mode : In
        An instruction of the warp, one of no error.
    failed, error : In(1), In(WarpError)
        A reported error of it.
    forget : In(1)
        Its status has been read by what clears it.
    trapping, urgent, stepped : In(1)
        The multiprocessor traps; for a cause that nobody can mask; no warp has a step to do.
    installed, step, wake, release : In(1)
        There is a handler; the host steps; wakes the warp, if it is paused; those who wait at RTT leave.
    hold, enter, leave, resume, withdraw : Out(1)
        For issue and barrier unit; see IssueUnit, BarrierUnit.
    status : Out(WarpStatus)
    masked, inside, framed, paused, quiet, returning, rolled_back, stepping, steps : Out(1)
        ``returning``: it waits at RTT. ``rolled_back``: to its BAR. ``stepping``: one instruction is left to it;
        ``steps``: or has not completed. A BAR completes the barrier of others that step before they are taken from it.
    return_mode : Out(ReturnFromTrapMode)
    causes, insists : Out(1)
        It wants the multiprocessor to trap; for something that nobody can mask.
    pauses, fails, completes, left : Out(1)
        For one cycle: it is paused, not quietly; by an error or BPT.TRAP inside; it is inside after a step; it is
        outside again.
    """

    launched: In(1)
    live: In(1)
    taken: In(1)
    drained: In(1)
    waiting: In(1)
    withdrawn: In(1)
    moves: In(1)
    result: In(1)
    refused: In(1)
    asked: In(1)
    operation: In(TrapOperation)
    reason: In(range(TRAP_REASONS.stop))
    mode: In(ReturnFromTrapMode)
    failed: In(1)
    error: In(WarpError)
    forget: In(1)
    trapping: In(1)
    urgent: In(1)
    stepped: In(1)
    installed: In(1)
    step: In(1)
    wake: In(1)
    release: In(1)
    hold: Out(1)
    enter: Out(1)
    leave: Out(1)
    resume: Out(1)
    withdraw: Out(1)
    status: Out(WarpStatus)
    masked: Out(1)
    inside: Out(1)
    framed: Out(1)
    paused: Out(1)
    quiet: Out(1)
    returning: Out(1)
    rolled_back: Out(1)
    stepping: Out(1)
    steps: Out(1)
    return_mode: Out(ReturnFromTrapMode)
    causes: Out(1)
    insists: Out(1)
    pauses: Out(1)
    fails: Out(1)
    completes: Out(1)
    left: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        status = self.status
        moving, leaving, enters = Signal(), Signal(), Signal()
        done = Signal()     # a step, which is a cause
        outside = self.live & ~self.inside & ~moving

        # Causes, and entry.
        can_mask = status.reasons[:_UNMASKABLE - 1].any() | (done & self.stepped)
        m.d.comb += [
            self.insists.eq(outside & (status.failed | status.reasons[_UNMASKABLE - 1])),
            self.causes.eq(self.insists | (outside & ~self.masked & can_mask)),
            enters.eq(self.live & ~self.inside & self.trapping & (self.urgent | ~self.masked)),
            self.steps.eq(self.stepping | (done & ~self.masked & ~self.drained)),
            self.hold.eq(enters | self.insists | done & ~self.masked | self.paused | self.returning | leaving),
            self.enter.eq(enters & ~self.waiting), self.leave.eq(leaving), self.withdraw.eq(enters & self.waiting)]

        # What instructions ask for.
        operation = self.operation
        traps = self.asked & (operation == TrapOperation.TRAP)
        quietly = self.asked & (operation == TrapOperation.PAUSE_QUIET)
        returns = self.asked & (operation == TrapOperation.RETURN)
        pends = traps & ~self.inside & self.masked & (self.reason != _UNMASKABLE)
        on = self.asked & ((operation == TrapOperation.GO_ON) | (operation == TrapOperation.MASK)
                           | (operation == TrapOperation.UNMASK))
        with m.If(self.asked & (operation == TrapOperation.MASK)):
            m.d.sync += self.masked.eq(1)
        with m.If(self.asked & (operation == TrapOperation.UNMASK)):
            m.d.sync += self.masked.eq(0)
        with m.If(traps & ~self.inside):
            m.d.sync += status.reasons.eq(status.reasons | 1 << (self.reason - 1)[:3])
        with m.If(returns):
            m.d.sync += [
                self.return_mode.eq(self.mode), leaving.eq(self.mode == ReturnFromTrapMode.TERMINATE),
                self.returning.eq(self.mode != ReturnFromTrapMode.TERMINATE)]

        # Errors: outside they are a cause, inside and on the way in they pause.
        entered = self.result & moving & ~self.inside
        fails_inside = (self.failed | traps) & (self.inside | moving)
        with m.If(self.failed & ~self.inside & ~moving & ~status.failed):
            m.d.sync += [status.failed.eq(1), status.error.eq(self.error)]
        m.d.comb += [
            self.fails.eq(fails_inside), self.completes.eq(entered & done),
            self.pauses.eq(fails_inside | (self.asked & (operation == TrapOperation.PAUSE))
                           | (entered & ~self.framed))]
        with m.If(self.pauses | quietly):
            m.d.sync += [self.paused.eq(1), self.quiet.eq(~self.pauses)]

        # In and out.
        with m.If(self.withdrawn):
            m.d.sync += self.rolled_back.eq(1)
        with m.If(self.moves):
            m.d.sync += moving.eq(1)
            with m.If(~self.inside):
                m.d.sync += self.framed.eq(self.installed)
        with m.If(self.result):
            m.d.sync += moving.eq(0)
        with m.If(entered):
            m.d.sync += [self.inside.eq(1), self.framed.eq(self.framed & ~self.refused), self.rolled_back.eq(0),
                         self.stepping.eq(0), status.stepped.eq(done), done.eq(0)]
        with m.If(self.result & moving):
            m.d.sync += leaving.eq(0)

        # Wake-up and release. Without a handler to go on with, a warp that is woken waits to be released.
        wakes = self.paused & self.wake
        m.d.sync += self.resume.eq(on | pends | (wakes & self.framed))
        with m.If(wakes):
            m.d.sync += [self.paused.eq(0), self.returning.eq(self.returning | ~self.framed)]
        released = self.returning & self.release
        with m.If(released):
            m.d.sync += [self.returning.eq(0), leaving.eq(self.framed)]

        # A step: one instruction, of which the warp is told when it traps again.
        m.d.comb += self.left.eq(self.result & moving & self.inside & ~self.refused | released & ~self.framed)
        with m.If(self.left):
            m.d.sync += [self.inside.eq(0), self.framed.eq(0), status.eq(0), self.stepping.eq(self.step)]
        with m.Elif(self.stepping & self.taken):
            m.d.sync += [self.stepping.eq(0), done.eq(1)]
        with m.If(self.forget):
            m.d.sync += status.eq(0)
        with m.If(self.launched):
            m.d.sync += [
                status.eq(0), self.masked.eq(0), self.inside.eq(0), self.framed.eq(0), self.paused.eq(0),
                self.returning.eq(0), self.rolled_back.eq(0), self.stepping.eq(0), done.eq(0), moving.eq(0),
                leaving.eq(0)]
        return m
