"""What the error status registers hold: the first thing that went wrong, and which things ever did."""

from dataclasses import dataclass

from rtl.isa.control_code import next_address
from rtl.isa.errors import WarpError

__all__ = ["ErrorLog", "ErrorStatus"]

_PC = (1 << 32) - 1


@dataclass(frozen=True)
class ErrorStatus:
    """What went wrong: a warp error, or BPT.TRAP when ``error`` is NONE.

    ``warp`` is the slot, ``pc`` the instruction's, ``detail`` further details: the first thread
    that failed and its address. ``trap_reasons`` are the reasons of all BPT.TRAPs so far.
    """

    error: WarpError
    warp: int
    pc: int
    detail: str = ""
    trap_reasons: tuple[int, ...] = ()


class ErrorLog:
    """Keeps what the host's registers show.

    Attributes:
        first: The first error since the host cleared it, else the first BPT.TRAP; its reasons are not kept up to date.
        errors: All errors, which the registers do not tell.
        raised: Bits of the global error status, by name.
        trap_reasons: Reasons of BPT.TRAP.
        address: What HWW_WARP_ESR_PC shows: of an error the instruction, of a BPT.TRAP the one behind it. It stays when
            the host clears ``first`` (ours).
    """

    def __init__(self) -> None:
        self.first: ErrorStatus | None = None
        self.errors: list[ErrorStatus] = []
        self.raised: set[str] = set()
        self.trap_reasons: set[int] = set()
        self.address = 0

    def note_error(self, error: WarpError, warp: int, pc: int, detail: str = "") -> None:
        """A reported error of the warp in a slot."""
        status = ErrorStatus(error, warp, pc, detail)
        self.errors.append(status)
        if error is WarpError.STACK_OVERFLOW:
            self.raised.add("PHYSICAL_STACK_OVERFLOW")
        if self._failed:
            self.raised.add("MULTIPLE_WARP_ERRORS")
        else:
            self.first, self.address = status, pc

    def note_trap(self, reason: int, warp: int, pc: int) -> None:
        """A BPT.TRAP."""
        if not self._failed and not self.trap_reasons:
            self.first, self.address = ErrorStatus(WarpError.NONE, warp, pc), next_address(pc) & _PC
        self.trap_reasons.add(reason)

    @property
    def _failed(self) -> bool:
        """Whether an error was recorded; later ones do not replace it."""
        return self.first is not None and self.first.error is not WarpError.NONE
