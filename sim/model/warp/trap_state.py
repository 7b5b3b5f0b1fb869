"""Where a warp is in a trap, and what brought it there."""

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
    """Of one warp, beside ``traps_masked`` and ``in_trap``.

    Attributes:
        error: The first that was reported since the warp last left the trap; NONE when there was none.
        reasons: Of BPT.TRAP, since then.
        stepping, done, stepped: A single step is to do; it is done, which is a cause; the warp has entered the trap
            behind it.
        saved_pc: Where to come back to, unless that is the next instruction.
        last_pc: Of the instruction executed last.
        framed: The trap handler runs, with a frame on the stack. Without, a warp that is in the trap can only be
            paused, or wait to be released.
        paused, quiet: It is paused; by BPT.PAUSE_QUIET.
        returning: It waits at RTT.
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
        """What S2R reads (SR66)."""
        flags = (
            int(self.error is not WarpError.NONE) << _AT["failed"]
            | int(self.stepped) << _AT["stepped"]
        )
        reasons = sum(1 << _AT["reasons"] + reason - TRAP_REASONS.start for reason in self.reasons)
        return flags | reasons | self.error.value << _AT["error"]

    @property
    def is_idle(self) -> bool:
        """Nothing makes the warp enter the trap, and nothing holds it."""
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
        """It is paused or waits at RTT."""
        return self.paused or self.returning is not None

    def wake(self) -> None:
        """The host wakes it. Without a handler it waits to be released."""
        self.paused = self.quiet = False
        if not self.framed:
            self.returning = ReturnFromTrapMode.FALLTHROUGH
