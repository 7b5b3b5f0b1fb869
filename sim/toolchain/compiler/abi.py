"""The calling convention (ours, modelled on that of NVIDIA's assembler).

Arguments are passed in R4 to R15, double words in pairs that begin at an even register. Arguments
that do not fit there are passed on the stack, the first at the caller's stack pointer. Results are
returned in R4 to R15 likewise; those that do not fit are on the stack above the arguments. A
predicate is passed as a word, 1 for true and 0 for false. R1 is the stack pointer and points to the
function's frame; the stack grows down. A function that is called by address, from other files, or
recursively preserves R2 and R16 and up. Other functions preserve no register: their callers know
which registers they change.
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
"""Registers that a call of a function with the standard convention may change. It preserves all
others.
"""
ARGUMENT_REGISTERS = range(4, 16)
FRAME_ALIGNMENT = 16
"""The alignment of frame sizes in bytes: the width of the widest access."""


def _words(parameter: PtxRegister | PtxVariable) -> tuple[int, int]:
    """Returns the number of registers that a parameter takes, and the alignment of the first one's
    number.
    """
    if isinstance(parameter, PtxRegister):
        return (2, 2) if parameter.type.bits == 64 else (1, 1)
    return -(-parameter.size // 4), 2 if parameter.alignment >= 8 else 1


@dataclass(frozen=True)
class ArgumentLocations:
    """Locations of the words of arguments and results, by position.

    A location is a register number, or the bitwise complement (a negative number) of the index of a
    word on the stack.
    """

    argument_words: tuple[tuple[int, ...], ...]
    result_words: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, signature: Signature) -> "ArgumentLocations":
        """Returns the locations for a signature."""
        arguments = _allot(signature.parameters, 0)
        return cls(arguments, _allot(signature.results, _stack_words(arguments)))

    def arguments(
        self, signature: Signature
    ) -> list[tuple[PtxRegister | PtxVariable, tuple[int, ...]]]:
        """Returns the parameters with their locations."""
        return list(zip(signature.parameters, self.argument_words, strict=True))

    def results(
        self, signature: Signature
    ) -> list[tuple[PtxRegister | PtxVariable, tuple[int, ...]]]:
        """Returns the results with their locations."""
        return list(zip(signature.results, self.result_words, strict=True))

    @property
    def stack_bytes(self) -> int:
        """The size in bytes of all arguments and results on the stack."""
        return 4 * _stack_words(self.argument_words + self.result_words)


def _stack_words(locations: tuple[tuple[int, ...], ...]) -> int:
    """Returns the number of stack words up to the last one in use."""
    return max((~word + 1 for words in locations for word in words if word < 0), default=0)


def _allot(
    parameters: tuple[PtxRegister | PtxVariable, ...], word: int
) -> tuple[tuple[int, ...], ...]:
    """Returns the locations of parameters; ``word`` is the index of the first free word on the
    stack.
    """
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
