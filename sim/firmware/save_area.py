"""The state that handlers save: threads in their local memory, warps in records in global memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES, TOKENS_PER_LINE
from rtl.layouts import DEPTH_BITS, TRAP_FRAME
from rtl.params import WARP_THREADS
from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.warp_state import MASK_OF
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.model.warp.stack import decode_token
from sim.model.warp.trap_frame import HOLES
from sim.support.alignment import round_up
from sim.toolchain.module import ProgramError

__all__ = ["RECORD", "RECORD_BYTES", "SavedWarp", "ThreadArea"]

_WORD_BYTES = 4
_FLAGS_BYTES = 16
_MOST_REGISTERS = 255
_REGISTER_STEP = 8
_PREDICATES, _CONDITION_AT = 0x7F, 8
RECORD_BYTES = 64
"""Size of a warp's record in bytes."""
RECORD: Mapping[str, int] = MappingProxyType(
    {
        "STACK": 0x00,
        "BLOCK": 0x04,
        "STATUS": 0x08,
        "LIVE": 0x0C,
        "PLACE": 0x10,
        "COMMAND": 0x20,
        "STATE": 0x24,
        "RESULT": 0x28,
    }
)
"""Words of a warp's record, by name, with their offsets:

- STACK: the result of GETCRSPTR;
- BLOCK: the result of GETLMEMBASE;
- STATUS: SR66;
- LIVE: the threads that neither exited nor were killed;
- PLACE: x, y and z of its CTA and its number in the CTA, four words;
- COMMAND: the host's command;
- STATE: whether the record is valid;
- RESULT: the result of the last BAR.RED.
"""


@dataclass(frozen=True)
class ThreadArea:
    """The part of each thread's local memory that is reserved for handlers (ours), above the
    kernel's part.

    The first word has the predicates in bits 6:0 and CC in bits 11:8; the registers begin at byte
    16.

    Attributes:
        at: Offset in the thread's local memory.
        size: Size in bytes.
    """

    at: int
    registers: int

    @staticmethod
    def reserved(launch: Launch, registers: int) -> tuple[Launch, "ThreadArea"]:
        """Returns the launch with room for the area, for a handler that needs this many registers,
        and the area.

        The registers of a thread are rounded up to a multiple of eight, as the hardware allocates
        them. Raises ProgramError for a launch without stacks in memory, where handlers save them.
        """
        if not launch.crs:
            raise ProgramError(
                f"kernel {launch.kernel.name}: to save call/return stacks they must be in memory"
            )
        rounded = round_up(max(launch.registers, registers), _REGISTER_STEP)
        area = ThreadArea(launch.local, min(rounded, _MOST_REGISTERS))
        return replace(launch, local=launch.local + area.size, registers=area.registers), area

    @property
    def size(self) -> int:
        """Size of a thread's area in bytes."""
        return _FLAGS_BYTES + round_up(self.registers, _REGISTER_STEP) * _WORD_BYTES

    @property
    def numbers(self) -> dict[str, int]:
        """Returns the numbers that the texts of handlers refer to, by name."""
        return {
            "REGISTERS": self.registers,
            "SAVED_FLAGS": self.at,
            "SAVED_R0": self.at + _FLAGS_BYTES,
        }

    def register_at(self, number: int) -> int:
        """Returns the offset of a register in the thread's local memory; IndexError if it does not
        exist.
        """
        if not 0 <= number < self.registers:
            raise IndexError(f"R{number}: threads have {self.registers} registers")
        return self.at + _FLAGS_BYTES + number * _WORD_BYTES


class SavedWarp:
    """A warp that a handler has saved. Its state is read and changed in memory.

    Parameters:
        memory: The machine's memory.
        launch: The launch that runs.
        record: Address of the warp's record.
    """

    def __init__(self, memory: Memory, launch: Launch, threads: ThreadArea, record: int) -> None:
        self._memory, self._launch, self._threads, self._record = memory, launch, threads, record

    def word(self, name: str) -> int:
        """Returns a word of the record."""
        return self._memory.read_number(self._record + RECORD[name], _WORD_BYTES)

    def set_word(self, name: str, value: int) -> None:
        """Writes a word of the record."""
        self._memory.write_number(self._record + RECORD[name], _WORD_BYTES, value)

    @property
    def position(self) -> tuple[tuple[int, int, int], int]:
        """The CTA's position in the grid, and the warp's number in the CTA."""
        x, y, z, number = (
            self._memory.read_number(
                self._record + RECORD["PLACE"] + _WORD_BYTES * part, _WORD_BYTES
            )
            for part in range(4)
        )
        return (x, y, z), number

    @property
    def live(self) -> int:
        """The threads with saved state: those that have neither exited nor been killed."""
        return self.word("LIVE")

    # Threads.

    @property
    def block(self) -> int:
        """Address of the warp's memory block."""
        return self.word("BLOCK") * CRS_GRANULE

    def _local(self, thread: int, at: int) -> int:
        """Returns the address of a word of a thread's local memory."""
        return self.block + (at // _WORD_BYTES * WARP_THREADS + thread) * _WORD_BYTES

    def register(self, thread: int, number: int) -> int:
        """Returns a register of a thread; IndexError if it does not exist."""
        return self._memory.read_number(
            self._local(thread, self._threads.register_at(number)), _WORD_BYTES
        )

    def set_register(self, thread: int, number: int, value: int) -> None:
        """Sets a register of the thread, for when the warp continues; IndexError if it does not
        exist.
        """
        self._memory.write_number(
            self._local(thread, self._threads.register_at(number)), _WORD_BYTES, value
        )

    def _flags(self, thread: int) -> int:
        return self._memory.read_number(self._local(thread, self._threads.at), _WORD_BYTES)

    def predicates(self, thread: int) -> int:
        """Returns the predicates of a thread; bit n is Pn."""
        return self._flags(thread) & _PREDICATES

    def condition(self, thread: int) -> int:
        """Returns CC of a thread: zero, sign, carry and overflow, from bit 0 on."""
        return self._flags(thread) >> _CONDITION_AT & 0xF

    # The stack.

    @property
    def depth(self) -> int:
        """Tokens on the stack, up to and including the trap frame."""
        return self.word("STACK") & (1 << DEPTH_BITS) - 1

    def _token_at(self, index: int) -> int:
        return self.block + self._launch.local * WARP_THREADS + index * TOKEN_BYTES

    def token(self, index: int) -> StackToken:
        """Returns a token of the stack, 0 being the lowest."""
        return decode_token(self._memory.read(self._token_at(index), TOKEN_BYTES))

    @property
    def stack(self) -> list[StackToken]:
        """Returns the kernel's tokens, lowest first."""
        return [self.token(index) for index in range(self._frame - self._holes)]

    @property
    def _frame(self) -> int:
        """Returns the index of the frame's lowest token, the TRAP token."""
        return self.depth - TOKENS_PER_LINE

    @property
    def _holes(self) -> int:
        """Returns the number of holes below the frame, which begins a line."""
        return self.token(self._frame).pc & HOLES

    @property
    def pc(self) -> int:
        """The pc at which the warp continues."""
        return self.token(self._frame).pc & ~HOLES

    @pc.setter
    def pc(self, pc: int) -> None:
        self._memory.write_number(self._token_at(self._frame), _WORD_BYTES, pc | self._holes)

    @property
    def masks(self) -> WarpMasks:
        """The masks with which the warp continues."""
        trap, *saved = (
            self.token(index) for index in range(self.depth - TOKENS_PER_LINE, self.depth)
        )
        disabled = {
            MASK_OF[code]: mask
            for codes, token in zip(TRAP_FRAME, saved, strict=True)
            for code, mask in zip(codes, (token.mask, token.pc), strict=True)
        }
        return WarpMasks(trap.mask, **disabled)
