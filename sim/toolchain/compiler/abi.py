"""How functions are called (ours, after what NVIDIA's assembler does).

Arguments are in R4 and up, double words in even registers, at most up to R15; those that find no place there are on
the stack, the first at the caller's stack pointer. Results are in R4 and up likewise, and on the stack behind the
arguments. A predicate is a word: 1 where it holds, else 0. R1 is the stack pointer, which points to the function's
frame; the stack grows down. A function called by its address, by other files, or by itself keeps R2, R16 and up.
Others keep nothing that they do not know to be needed: their callers know which registers they use.
"""

from dataclasses import dataclass

from sim.support.alignment import round_up
from sim.toolchain.ptx.module import PtxRegister, PtxVariable, Signature

__all__ = [
    "ARGUMENT_REGISTERS",
    "FRAME_ALIGNMENT",
    "STACK_POINTER",
    "STANDARD_CLOBBERS",
    "ArgumentLocations",
]

STACK_POINTER = 1
STANDARD_CLOBBERS = frozenset({0, *range(3, 16)})
"""What a call of a function of the standard kind may change. It keeps all others."""
ARGUMENT_REGISTERS = range(4, 16)
FRAME_ALIGNMENT = 16
"""Frames are multiples of the widest access, in bytes."""


def _words(parameter: PtxRegister | PtxVariable) -> tuple[int, int]:
    """Registers that a parameter takes, and what the first one's number is a multiple of."""
    if isinstance(parameter, PtxRegister):
        return (2, 2) if parameter.type.bits == 64 else (1, 1)
    return -(-parameter.size // 4), 2 if parameter.alignment >= 8 else 1


@dataclass(frozen=True)
class ArgumentLocations:
    """Registers of arguments and results by position. A negative number is the complement of a word on the stack."""

    argument_words: tuple[tuple[int, ...], ...]
    result_words: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, signature: Signature) -> "ArgumentLocations":
        """The locations that a signature gives."""
        arguments = _allot(signature.parameters, 0)
        return cls(arguments, _allot(signature.results, _stack_words(arguments)))

    def arguments(
        self, signature: Signature
    ) -> list[tuple[PtxRegister | PtxVariable, tuple[int, ...]]]:
        """The parameters with their registers."""
        return list(zip(signature.parameters, self.argument_words, strict=True))

    def results(
        self, signature: Signature
    ) -> list[tuple[PtxRegister | PtxVariable, tuple[int, ...]]]:
        """The results with their registers."""
        return list(zip(signature.results, self.result_words, strict=True))

    @property
    def stack_bytes(self) -> int:
        """Bytes of all arguments and results on the stack."""
        return 4 * _stack_words(self.argument_words + self.result_words)


def _stack_words(locations: tuple[tuple[int, ...], ...]) -> int:
    """Words of the stack up to the last that is in use."""
    return max((~word + 1 for words in locations for word in words if word < 0), default=0)


def _allot(
    parameters: tuple[PtxRegister | PtxVariable, ...], word: int
) -> tuple[tuple[int, ...], ...]:
    """Locations of parameters; ``word`` is the first of the stack that is free."""
    register = ARGUMENT_REGISTERS.start
    locations: list[tuple[int, ...]] = []
    for parameter in parameters:
        count, alignment = _words(parameter)
        first = round_up(register, alignment)
        if first + count <= ARGUMENT_REGISTERS.stop:
            locations.append(tuple(range(first, first + count)))
            register = first + count
        else:
            word = round_up(word, alignment)
            locations.append(tuple(~at for at in range(word, word + count)))
            word += count
    return tuple(locations)
