"""Names of errors that users know: the texts of driver logs, and CUDA's exceptions.

Driver logs print error codes in words. The ones seen in logs (``Out Of Range Address``,
``Misaligned Address``, ``Illegal Instruction Encoding``, ``Illegal Instruction Parameter``,
``Invalid Address Space``, ``Multiple Warp Errors``) are the names of the codes with the
abbreviations expanded. All others are formed in the same way (ours). CUDA_EXCEPTION_n is cuda-gdb's
name of exception n; which error causes which exception is not published (ours).
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType

from rtl.isa.errors import WarpError
from rtl.isa.registers import GlobalError

__all__ = ["CudaException", "cuda_exception", "text_of"]

_WORDS = {
    "ADDR": "Address",
    "CONST": "Constant",
    "IMMC": "Immediate Constant",
    "INSTR": "Instruction",
    "OOR": "Out Of Range",
    "PARAM": "Parameter",
    "PARAM2": "Parameter 2",
    "REG": "Register",
    "RET": "Return",
}
_AS_THEY_ARE = frozenset({"API", "BPT", "LDC", "MMU", "PC", "SM", "SPH"})


def text_of(error: WarpError | GlobalError) -> str:
    """Returns an error's text in a driver's log."""
    return " ".join(
        word if word in _AS_THEY_ARE else _WORDS.get(word, word.capitalize())
        for word in error.name.split("_")
    )


class CudaException(IntEnum):
    """CUDA_EXCEPTION_n, with cuda-gdb's numbers."""

    LANE_ILLEGAL_ADDRESS = 1
    LANE_USER_STACK_OVERFLOW = 2
    DEVICE_HARDWARE_STACK_OVERFLOW = 3
    WARP_ILLEGAL_INSTRUCTION = 4
    WARP_OUT_OF_RANGE_ADDRESS = 5
    WARP_MISALIGNED_ADDRESS = 6
    WARP_INVALID_ADDRESS_SPACE = 7
    WARP_INVALID_PC = 8
    WARP_HARDWARE_STACK_OVERFLOW = 9
    DEVICE_ILLEGAL_ADDRESS = 10
    LANE_MISALIGNED_ADDRESS = 11
    WARP_ASSERT = 12
    LANE_SYSCALL_ERROR = 13
    WARP_ILLEGAL_ADDRESS = 14

    @property
    def symbol(self) -> str:
        """The symbol that a debugger prints."""
        return f"CUDA_EXCEPTION_{self.value}"

    @property
    def meaning(self) -> str:
        """The exception's name in words."""
        return (
            self.name.replace("_", " ")
            .title()
            .replace("Pc", "PC")
            .replace("Out Of Range", "Out-of-range")
        )


_OF_WARP: Mapping[WarpError, CudaException] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                WarpError.STACK_ERROR,
                WarpError.API_STACK_ERROR,
                WarpError.RET_EMPTY_STACK_ERROR,
                WarpError.STACK_OVERFLOW,
            ),
            CudaException.WARP_HARDWARE_STACK_OVERFLOW,
        ),
        **dict.fromkeys(
            (WarpError.PC_WRAP, WarpError.MISALIGNED_PC, WarpError.PC_OVERFLOW),
            CudaException.WARP_INVALID_PC,
        ),
        **dict.fromkeys(
            (
                WarpError.MISALIGNED_IMMC_ADDR,
                WarpError.MISALIGNED_REG,
                WarpError.ILLEGAL_INSTR_ENCODING,
                WarpError.ILLEGAL_SPH_INSTR_COMBO,
                WarpError.ILLEGAL_INSTR_PARAM,
                WarpError.OOR_REG,
                WarpError.ILLEGAL_INSTR_PARAM2,
            ),
            CudaException.WARP_ILLEGAL_INSTRUCTION,
        ),
        WarpError.OOR_ADDR: CudaException.WARP_OUT_OF_RANGE_ADDRESS,
        WarpError.MISALIGNED_ADDR: CudaException.WARP_MISALIGNED_ADDRESS,
        WarpError.INVALID_ADDR_SPACE: CudaException.WARP_INVALID_ADDRESS_SPACE,
        WarpError.MMU_FAULT: CudaException.WARP_ILLEGAL_ADDRESS,
    }
)
"""Errors without an exception: debuggers show the errors' own names."""
_OF_DEVICE: Mapping[str, CudaException] = MappingProxyType(
    {
        "PHYSICAL_STACK_OVERFLOW": CudaException.DEVICE_HARDWARE_STACK_OVERFLOW,
    }
)
"""Exceptions by the name of a bit of the global error status."""


def cuda_exception(error: WarpError, events: Iterable[str] = ()) -> CudaException | None:
    """Returns the exception of a warp error; without a warp error, the first exception among the
    global ``events``.

    None if CUDA has no name for it.
    """
    if error is not WarpError.NONE:
        return _OF_WARP.get(error)
    return next((_OF_DEVICE[name] for name in events if name in _OF_DEVICE), None)
