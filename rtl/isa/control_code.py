"""The control word that leads each group of three instructions.

It holds one 21-bit control code per instruction; instruction i's is at bit 21*i. Bit 63 is unused.
"""

from dataclasses import dataclass

__all__ = [
    "CODE_BITS",
    "GROUP_BYTES",
    "GROUP_INSTRUCTIONS",
    "INSTRUCTION_BYTES",
    "NO_BARRIER",
    "SCOREBOARDS",
    "ControlCode",
    "instruction_address",
    "next_address",
    "pack",
    "unpack",
]

CODE_BITS = 21
"""Bits of one instruction's control code."""
GROUP_BYTES = 32
"""Bytes of a control word and its instructions."""
GROUP_INSTRUCTIONS = 3
"""Instructions behind one control word."""
INSTRUCTION_BYTES = 8
"""Bytes of an instruction word."""
SCOREBOARDS = 6
"""Scoreboard counters of a warp."""
NO_BARRIER = 7
"""A barrier field that names no scoreboard."""


@dataclass(frozen=True)
class ControlCode:
    """The scheduling information of one instruction.

    ``stall``: cycles before the warp's next instruction may issue. ``no_yield``: 1 unless the warp
    offers its turn. ``write_barrier``, ``read_barrier``: scoreboard that counts until the result is
    written, or the sources are read; NO_BARRIER for none. ``wait``: scoreboards that must be zero
    before this instruction. ``reuse``: sources kept for the next instruction (a hint).
    """

    stall: int = 0
    no_yield: int = 1
    write_barrier: int = NO_BARRIER
    read_barrier: int = NO_BARRIER
    wait: int = 0
    reuse: int = 0

    @classmethod
    def decode(cls, bits: int) -> "ControlCode":
        """The control code in the low 21 bits."""
        return cls(
            bits & 15,
            bits >> 4 & 1,
            bits >> 5 & 7,
            bits >> 8 & 7,
            bits >> 11 & 63,
            bits >> 17 & 15,
        )

    def encode(self) -> int:
        """The 21 bits of the code."""
        return (self.stall | self.no_yield << 4 | self.write_barrier << 5 | self.read_barrier << 8
                | self.wait << 11 | self.reuse << 17)


def unpack(control_word: int) -> list[ControlCode]:
    """The three control codes of a control word."""
    return [
        ControlCode.decode(control_word >> CODE_BITS * slot)
        for slot in range(GROUP_INSTRUCTIONS)
    ]


def pack(codes: list[ControlCode]) -> int:
    """The control word of three control codes."""
    return sum(code.encode() << CODE_BITS * slot for slot, code in enumerate(codes))


def instruction_address(pc: int) -> int:
    """The address of the instruction at ``pc``: a group's address stands for its first
    instruction."""
    return pc + INSTRUCTION_BYTES if pc % GROUP_BYTES == 0 else pc


def next_address(address: int) -> int:
    """The pc after the instruction at ``address``; behind a group's last one it is the next group's
    address."""
    return address + INSTRUCTION_BYTES
