"""A reference model of the error status registers, event by event, after the manual's rules."""

from collections.abc import Mapping, Sequence

from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import GLOBAL_ERROR_MASK_RESET, GlobalError

EVENTS = {
    "interrupt": GlobalError.BPT_INT,
    "pause": GlobalError.BPT_PAUSE,
    "step": GlobalError.SINGLE_STEP_COMPLETE,
    "error_in_trap": GlobalError.ERROR_IN_TRAP,
    "timeout": GlobalError.TIMEOUT,
}
"""Events without a warp error, and their bits."""
_TRAPS_AT = 17
_TRAPS = 0x7F << _TRAPS_AT


class Status:
    """The state of the registers, initially that after reset."""

    def __init__(self) -> None:
        self.error = self.warp = self.pc = self.bits = 0
        self.mask, self.global_mask = REPORT_MASK_RESET, GLOBAL_ERROR_MASK_RESET

    def cycle(
        self,
        errors: Sequence[tuple[int, int, WarpError]],
        trap: tuple[str, int, int, int],
        written: tuple[str, int],
    ) -> None:
        """Applies one cycle: a write (register, word), then errors (warp, pc, code), and one of
        EVENTS or ``trap`` (warp, address after it, reason).
        """
        name, value = written
        if name == "HWW_WARP_ESR":
            self.error = self.warp = 0  # the address is unchanged
        cleared = value if name == "HWW_GLOBAL_ESR" else 0
        stopped = self.bits & _TRAPS
        if name == "HWW_WARP_ESR_REPORT_MASK":
            self.mask = value
        if name == "HWW_GLOBAL_ESR_REPORT_MASK":
            self.global_mask = value
        self.bits &= ~cleared
        for warp, pc, error in errors:
            if error is WarpError.STACK_OVERFLOW:
                self.bits |= 1 << GlobalError.PHYSICAL_STACK_OVERFLOW.value
            if self.error:
                self.bits |= 1 << GlobalError.MULTIPLE_WARP_ERRORS.value
            else:
                self.error, self.warp, self.pc = error.value, warp, pc
        kind, warp, pc, reason = trap
        if kind in EVENTS:
            self.bits |= 1 << EVENTS[kind].value
        if kind == "trap":
            if not errors and not self.error and not stopped:
                self.warp, self.pc = warp, pc
            self.bits |= 1 << _TRAPS_AT + reason - 1

    @property
    def interrupt(self) -> bool:
        """Returns whether the host is interrupted: BPT_PAUSE and traps do so with any mask."""
        return bool(
            self.error or self.bits & (self.global_mask | _TRAPS | 1 << GlobalError.BPT_PAUSE.value)
        )

    @property
    def registers(self) -> Mapping[str, int]:
        """Returns the values that the host reads."""
        return {
            "HWW_WARP_ESR": self.error | self.warp << 16,
            "HWW_WARP_ESR_PC": self.pc,
            "HWW_GLOBAL_ESR": self.bits,
            "HWW_WARP_ESR_REPORT_MASK": self.mask,
            "HWW_GLOBAL_ESR_REPORT_MASK": self.global_mask,
        }
