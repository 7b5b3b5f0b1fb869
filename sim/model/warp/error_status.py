"""The content of the error status registers: the first error, and the events since the host cleared
them.
"""

from dataclasses import dataclass

from rtl.isa.control_code import next_address
from rtl.isa.errors import WarpError

__all__ = ["ErrorLog", "ErrorStatus"]

_PC = (1 << 32) - 1


@dataclass(frozen=True)
class ErrorStatus:
    """A warp error, or a BPT.TRAP if ``error`` is NONE.

    Attributes:
        error: The warp error.
        warp: Slot of the warp.
        pc: Address of the instruction.
        detail: The first thread that failed, and its address.
        trap_reasons: Reasons of all BPT.TRAPs so far.
    """

    error: WarpError
    warp: int
    pc: int
    detail: str = ""
    trap_reasons: tuple[int, ...] = ()


class ErrorLog:
    """Records what the host's error registers show.

    Attributes:
        first: The first error since the host cleared it, else the first BPT.TRAP. Its trap reasons
            are not updated.
        errors: All errors; the registers show only the first.
        raised: Bits of the global error status, by name.
        trap_reasons: Reasons of BPT.TRAP.
        address: The value of HWW_WARP_ESR_PC: for an error, the address of the instruction; for a
            BPT.TRAP, that of the next one. It is kept when the host clears ``first`` (ours).
    """

    def __init__(self) -> None:
        self.first: ErrorStatus | None = None
        self.errors: list[ErrorStatus] = []
        self.raised: set[str] = set()
        self.trap_reasons: set[int] = set()
        self.address = 0

    def note_error(self, error: WarpError, warp: int, pc: int, detail: str = "") -> None:
        """Records a reported error of the warp in a slot."""
        status = ErrorStatus(error, warp, pc, detail)
        self.errors.append(status)
        if error is WarpError.STACK_OVERFLOW:
            self.raised.add("PHYSICAL_STACK_OVERFLOW")
        if self._failed:
            self.raised.add("MULTIPLE_WARP_ERRORS")
        else:
            self.first, self.address = status, pc

    def note_trap(self, reason: int, warp: int, pc: int) -> None:
        """Records a BPT.TRAP."""
        if not self._failed and not self.trap_reasons:
            self.first, self.address = ErrorStatus(WarpError.NONE, warp, pc), next_address(pc) & _PC
        self.trap_reasons.add(reason)

    @property
    def _failed(self) -> bool:
        """Whether an error was recorded; later errors do not replace it."""
        return self.first is not None and self.first.error is not WarpError.NONE
