"""The trap state of a warp: its causes for a trap, and its progress in the trap."""

from dataclasses import dataclass, field

from rtl.isa.errors import WarpError
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus

__all__ = ["UNMASKABLE", "TrapState"]

UNMASKABLE = TRAP_REASONS.stop - 1
"""The reason of BPT.TRAP that IDE.DI does not mask."""
_LAYOUT = WarpStatus.as_shape()
_AT = {name: _LAYOUT[name].offset for name in ("failed", "reasons", "stepped", "error")}


@dataclass
class TrapState:
    """The trap state of one warp, besides ``traps_masked`` and ``in_trap``.

    Attributes:
        error: The first error reported since the warp last left the trap, else NONE.
        reasons: Reasons of BPT.TRAP since then.
        stepping: A single step is still to execute.
        done: The single step has executed, which is a cause for a trap.
        stepped: The warp has entered the trap after a single step.
        saved_pc: Return address, None for the next instruction.
        last_pc: Address of the instruction executed last.
        framed: The trap handler runs, with a frame on the stack. Without a frame a warp in the trap
            can only be paused, or wait to be released.
        paused: The warp is paused.
        quiet: It was paused by BPT.PAUSE_QUIET.
        returning: The mode of the RTT at which the warp waits, else None.
    """

    error: WarpError = WarpError.NONE
    reasons: set[int] = field(default_factory=set)
    stepping: bool = False
    done: bool = False
    stepped: bool = False
    saved_pc: int | None = None
    last_pc: int = 0
    framed: bool = False
    paused: bool = False
    quiet: bool = False
    returning: ReturnFromTrapMode | None = None

    @property
    def status(self) -> int:
        """The value that S2R reads from SR66."""
        flags = (
            int(self.error is not WarpError.NONE) << _AT["failed"]
            | int(self.stepped) << _AT["stepped"]
        )
        reasons = sum(1 << _AT["reasons"] + reason - TRAP_REASONS.start for reason in self.reasons)
        return flags | reasons | self.error.value << _AT["error"]

    @property
    def is_idle(self) -> bool:
        """Whether the warp has no cause for a trap and is not held by one."""
        return not (
            self.reasons
            or self.stepping
            or self.done
            or self.paused
            or self.returning is not None
            or self.error is not WarpError.NONE
        )

    def forget(self) -> None:
        """Clears :attr:`status`."""
        self.error = WarpError.NONE
        self.reasons.clear()
        self.stepped = False

    @property
    def stands(self) -> bool:
        """Whether the warp is paused or waits at RTT."""
        return self.paused or self.returning is not None

    def wake(self) -> None:
        """Wakes the warp for the host. Without a handler it then waits to be released."""
        self.paused = self.quiet = False
        if not self.framed:
            self.returning = ReturnFromTrapMode.FALLTHROUGH
