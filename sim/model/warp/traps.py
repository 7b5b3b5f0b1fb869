"""Traps: why warps enter the trap handler, how they synchronise in it, and how they continue.

Warps enter between two instructions, all at once except those that mask the trap; a warp that waits
at a barrier returns to its BAR. Without a handler a warp that traps is paused at its pc.

Choices of this project: a warp that the host wakes without a handler waits as at RTT, so that all
warps continue together. An RTT.POPCRS that finds no frame is an error in the trap; the warp is
paused before the next instruction, in the handler, as if it had not executed the RTT. A trap
cancels the single step of a warp that has not executed it.
"""

from collections.abc import Callable, Sequence

from rtl.isa.control_code import instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.isa.trap_status import STOP_AT

from .barriers import withdraw
from .error_status import ErrorLog
from .faults import WarpFaultError
from .retirement import Retirement
from .state import Warp
from .trap_frame import leave_frame, push_frame, restore_frame, terminate
from .trap_state import UNMASKABLE

__all__ = ["Traps"]


class Traps:
    """The traps of a machine.

    Parameters:
        slots: The machine's warps.
        log: Receives errors, traps and events.
        reports: Whether an error is reported.
        end: Frees the slot of a warp that has ended.
        handler: Pc of the trap handler.

    Attributes:
        handler: Pc of the trap handler, None without one. May be set.
        single_step: Whether warps that leave the trap execute one instruction and trap again. May
            be set.
        stop: The host's stop trigger: warps trap as long as it is set. May be set.
        trapping: Whether the machine is in a trap.
        urgent: Whether the cause of the trap is one that warps cannot mask.
    """

    def __init__(
        self,
        slots: Sequence[Warp | None],
        log: ErrorLog,
        reports: Callable[[WarpError], bool],
        end: Callable[[Warp], None],
        handler: int | None,
    ) -> None:
        self._slots = slots
        self._log = log
        self._reports = reports
        self._end = end
        self.handler = handler
        self.single_step = self.stop = self.trapping = self.urgent = False
        self._is_quiet = False
        """Whether no warp had a cause for a trap after the last instruction."""

    @property
    def _live(self) -> list[Warp]:
        return [warp for warp in self._slots if warp is not None]

    @property
    def locked_down(self) -> bool:
        """Whether the machine is in a trap in which no warp runs: all are paused, or held by the
        stop trigger.
        """
        live = self._live
        return (
            self.trapping
            and all(warp.trap.stands for warp in live)
            and (self.stop or all(warp.trap.paused for warp in live))
        )

    @property
    def status(self) -> int:
        """The value that S2R reads from SR64: the status of all warps."""
        together = 0
        for warp in self._live:
            together |= warp.trap.status & (1 << STOP_AT) - 1
        return together | self.stop << STOP_AT

    def ready(self, warp: Warp) -> bool:
        """Whether no trap keeps the warp from its next instruction."""
        return not warp.trap.stands and (warp.in_trap or warp.traps_masked or not warp.trap.done)

    # Events of instructions.

    def breakpoint(self, warp: Warp, reason: int, pc: int) -> None:
        """Records a BPT.TRAP at ``pc``."""
        self._log.note_trap(reason, warp.slot, pc)
        if warp.in_trap:
            self._fail_inside(warp)
        else:
            warp.trap.reasons.add(reason)

    def pause(self, warp: Warp, *, quiet: bool = False) -> None:
        """Executes BPT.PAUSE or BPT.PAUSE_QUIET, in the trap."""
        warp.trap.paused, warp.trap.quiet = True, quiet
        if not quiet:
            self._log.raised.add("BPT_PAUSE")

    def _fail_inside(self, warp: Warp) -> None:
        self._log.raised.add("ERROR_IN_TRAP")
        self.trapping = True
        self.pause(warp)

    def fail(self, warp: Warp, error: WarpError, pc: int, detail: str = "") -> None:
        """Records a reported error of the instruction at ``pc``."""
        self._log.note_error(error, warp.slot, pc, detail)
        if warp.in_trap:
            self._fail_inside(warp)
            return
        self.trapping = self.urgent = True
        if warp.trap.error is WarpError.NONE:
            warp.trap.error, warp.trap.saved_pc = error, pc

    def note_executed(self, warp: Warp, pc: int) -> None:
        """Records that the warp has executed the instruction at ``pc``."""
        warp.trap.last_pc = pc
        if warp.trap.stepping:
            warp.trap.stepping, warp.trap.done = False, True

    # Entry and exit.

    def enter(self, warp: Warp) -> Retirement:
        """Makes the warp enter the trap. Without a handler, or without room for its frame, it is
        paused there.
        """
        trap = warp.trap
        pc = head = instruction_address(warp.pc)
        if warp.barrier is not None:
            withdraw(warp)
            pc = trap.last_pc
        if trap.saved_pc is not None:
            pc = trap.saved_pc
        record = self._record(warp, head)
        warp.in_trap, trap.stepping, trap.saved_pc = True, False, None
        trap.framed = self.handler is not None
        if pc != head:
            warp.pc = pc
        trap.stepped, trap.done = trap.done, False
        if trap.stepped:
            self._log.raised.add("SINGLE_STEP_COMPLETE")
        if self.handler is None:
            self.pause(warp)
            return self._done(warp, record)
        try:
            push_frame(warp, pc)
            warp.pc = self.handler
        except WarpFaultError as fault:
            trap.framed, record.error = False, fault.error
            self.fail(warp, fault.error, pc, fault.detail)
        return self._done(warp, record)

    def leave(self, warp: Warp) -> Retirement:
        """Makes the warp, which waits at RTT or to be released, leave the trap; RTT.TERMINATE ends
        it.
        """
        trap, record = warp.trap, self._record(warp, instruction_address(warp.pc))
        mode, trap.returning = trap.returning, None
        if trap.framed:
            try:
                self._restore(warp, mode)
            except WarpFaultError as fault:
                if self._reports(fault.error):
                    record.error = fault.error
                    self.fail(warp, fault.error, record.pc, fault.detail)
                    return self._done(warp, record)
        warp.in_trap = trap.framed = False
        trap.forget()
        trap.stepping = self.single_step
        if warp.terminated:
            self._end(warp)
        return self._done(warp, record)

    def _restore(self, warp: Warp, mode: ReturnFromTrapMode | None) -> None:
        match mode:
            case ReturnFromTrapMode.TERMINATE:
                terminate(warp)
            case ReturnFromTrapMode.FALLTHROUGH:
                leave_frame(warp)
            case _:
                warp.pc = restore_frame(warp)

    def _record(self, warp: Warp, pc: int) -> Retirement:
        masks, depth = warp.masks, warp.stack.depth
        return Retirement(warp.slot, pc, 0, masks, masks, warp.pc, depth, depth)

    def _done(self, warp: Warp, record: Retirement) -> Retirement:
        record.after, record.depth_after, record.next_pc = warp.masks, warp.stack.depth, warp.pc
        record.api_call_depth, record.kill_future_branch = (
            warp.api_call_depth,
            warp.kill_future_branch,
        )
        record.pushed = tuple(
            warp.stack.token(index) for index in range(record.depth_before, record.depth_after)
        )
        record.terminated = warp.terminated
        return record

    # Effects between two instructions.

    def settle(self, warp: Warp | None = None) -> None:
        """Makes warps enter, leave and end until nothing more changes, between two instructions.

        If ``warp`` is given, only it has executed an instruction since the last call: nothing is
        done if it has no cause for a trap, and no warp had one before.
        """
        if (
            warp is not None
            and self._is_quiet
            and not self.trapping
            and not self.stop
            and warp.is_outside_traps
        ):
            return
        self._settle()
        self._is_quiet = not self.trapping and all(other.is_outside_traps for other in self._live)

    def _settle(self) -> None:
        going = True
        while going:
            going = False
            self._begin()
            for warp in self._live:
                if self._enters(warp):
                    self.enter(warp)
                    going = True
                elif warp.trap.returning is ReturnFromTrapMode.TERMINATE:
                    self.leave(warp)
                    going = True
            if self._releases():
                self.trapping, self.urgent, going = False, False, True
                for warp in self._live:
                    if warp.trap.returning is not None:
                        self.leave(warp)
            elif self._parks():
                self.trapping = self.urgent = False

    def _begin(self) -> None:
        """Starts a trap if there is a cause."""
        outside = [warp for warp in self._live if not warp.in_trap]
        insists = any(
            warp.trap.error is not WarpError.NONE or UNMASKABLE in warp.trap.reasons
            for warp in outside
        )
        stepped = not any(warp.trap.stepping for warp in self._live)
        wants = any(
            not warp.traps_masked and (warp.trap.reasons or (stepped and warp.trap.done))
            for warp in outside
        )
        self.urgent |= insists
        self.trapping |= insists or wants or self.stop

    def _enters(self, warp: Warp) -> bool:
        return self.trapping and not warp.in_trap and (self.urgent or not warp.traps_masked)

    def _releases(self) -> bool:
        """Whether the warps that wait at RTT can continue: all live warps are paused or wait there."""
        live = self._live
        return (
            self.trapping
            and not self.stop
            and all(warp.trap.stands for warp in live)
            and any(warp.trap.returning is not None for warp in live)
        )

    def _parks(self) -> bool:
        """Whether the trap ends without a warp leaving it: all live warps are paused quietly."""
        return (
            self.trapping
            and not self.stop
            and all(warp.trap.paused and warp.trap.quiet for warp in self._live)
        )

    # Operations of the host.

    def wake(self, slots: int) -> None:
        """Wakes the paused warps of a mask of slots; outside a trap it has no effect."""
        for warp in self._live if self.trapping else ():
            if warp.trap.paused and slots >> warp.slot & 1:
                warp.trap.wake()
