"""Traps: why warps enter the trap handler, which wait for which in it, and how they continue.

Warps enter between two instructions, all at once as far as nothing masks the trap; a warp that
waits at a barrier returns to its BAR. Without a handler a warp that traps is paused where it is.

Everything not specified elsewhere is ours: a warp that the host wakes without there being a handler
waits as at RTT, so all continue together. A RTT.POPCRS that finds no frame is an error in the trap;
the warp is paused in front of the next instruction, in the handler, as if it had not executed the
RTT. A trap cancels the single step of a warp that has not done it.
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
        log: What happens is noted there.
        reports: Whether an error is reported.
        end: Frees the slot of a warp that has ended.
        handler: Pc of the trap handler.

    Attributes:
        handler: May be set.
        single_step: Warps that leave the trap do one instruction and trap again. May be set.
        stop: The host's stop trigger: warps trap as long as it is set. May be set. trapping,
        urgent: The machine is in a trap; for a cause that warps cannot mask.
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
        """After the last instruction no warp had anything to do with a trap."""

    @property
    def _live(self) -> list[Warp]:
        return [warp for warp in self._slots if warp is not None]

    @property
    def locked_down(self) -> bool:
        """In a trap, and no warp runs: all are paused, or held by the stop trigger."""
        live = self._live
        return (
            self.trapping
            and all(warp.trap.stands for warp in live)
            and (self.stop or all(warp.trap.paused for warp in live))
        )

    @property
    def status(self) -> int:
        """What S2R reads of all warps (SR64)."""
        together = 0
        for warp in self._live:
            together |= warp.trap.status & (1 << STOP_AT) - 1
        return together | self.stop << STOP_AT

    def ready(self, warp: Warp) -> bool:
        """Whether nothing of the trap keeps a warp from its next instruction."""
        return not warp.trap.stands and (warp.in_trap or warp.traps_masked or not warp.trap.done)

    # What instructions do.

    def breakpoint(self, warp: Warp, reason: int, pc: int) -> None:
        """BPT.TRAP at ``pc``."""
        self._log.note_trap(reason, warp.slot, pc)
        if warp.in_trap:
            self._fail_inside(warp)
        else:
            warp.trap.reasons.add(reason)

    def pause(self, warp: Warp, *, quiet: bool = False) -> None:
        """BPT.PAUSE and BPT.PAUSE_QUIET, in the trap."""
        warp.trap.paused, warp.trap.quiet = True, quiet
        if not quiet:
            self._log.raised.add("BPT_PAUSE")

    def _fail_inside(self, warp: Warp) -> None:
        self._log.raised.add("ERROR_IN_TRAP")
        self.trapping = True
        self.pause(warp)

    def fail(self, warp: Warp, error: WarpError, pc: int, detail: str = "") -> None:
        """A reported error of the instruction at ``pc``."""
        self._log.note_error(error, warp.slot, pc, detail)
        if warp.in_trap:
            self._fail_inside(warp)
            return
        self.trapping = self.urgent = True
        if warp.trap.error is WarpError.NONE:
            warp.trap.error, warp.trap.saved_pc = error, pc

    def note_executed(self, warp: Warp, pc: int) -> None:
        """The warp has executed the instruction at ``pc``."""
        warp.trap.last_pc = pc
        if warp.trap.stepping:
            warp.trap.stepping, warp.trap.done = False, True

    # In and out.

    def enter(self, warp: Warp) -> Retirement:
        """The warp enters the trap. With no handler, or no room for its frame, it is paused in it."""
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
        """The warp, which waits at RTT or to be released, leaves the trap; of RTT.TERMINATE it has ended."""
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

    # What happens by itself.

    def settle(self, warp: Warp | None = None) -> None:
        """Does what happens between two instructions: warps enter, leave and end, until nothing more comes of it.

        ``warp`` has executed an instruction, and nothing else has happened: where it has nothing to do with a trap, and
        no warp had before, there is nothing to do.
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
        """Looks for a cause."""
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
        """Whether the warps that wait at RTT continue."""
        live = self._live
        return (
            self.trapping
            and not self.stop
            and all(warp.trap.stands for warp in live)
            and any(warp.trap.returning is not None for warp in live)
        )

    def _parks(self) -> bool:
        """Whether the trap is over without a warp leaving it: all are paused quietly, or have
        ended."""
        return (
            self.trapping
            and not self.stop
            and all(warp.trap.paused and warp.trap.quiet for warp in self._live)
        )

    # What the host does.

    def wake(self, slots: int) -> None:
        """Wakes the paused warps in these slots, a bit each; without a trap it is ignored."""
        for warp in self._live if self.trapping else ():
            if warp.trap.paused and slots >> warp.slot & 1:
                warp.trap.wake()
