"""Sizes of the machine: what is fixed by the architecture, and the parameters of
:class:`SmParams`."""

from dataclasses import dataclass

from amaranth.utils import ceil_log2

from rtl.isa.tokens import CACHED_TOKENS, LINE_BYTES, TOKENS_PER_LINE

__all__ = [
    "ADDRESS_BITS",
    "LINE_ADDRESS_BITS",
    "LOCAL_WINDOW",
    "PRESETS",
    "QUAD",
    "QUARTERS",
    "SHARED_WINDOW",
    "WARP_THREADS",
    "WINDOW_BYTES",
    "SmParams",
]

WARP_THREADS = 32
"""Threads of a warp."""
ADDRESS_BITS = 40
"""Width of a byte address in memory."""
LINE_ADDRESS_BITS = ADDRESS_BITS - ceil_log2(LINE_BYTES)
"""Width of the address of a line, the unit of the memory port."""
QUAD = 4
"""Threads of a quad: the first of a warp, those behind them, and so on."""
QUARTERS = 4
"""One lane in so many is full."""
_WRITE_CYCLES = 5
"""Cycles after the lanes are free again, until all that an instruction has written can be read."""
_COMPILED_STALL = 13
"""Stall count of compiled code between an instruction that writes a predicate and one that reads it
for all threads."""
SHARED_WINDOW = 0x0100_0000
"""Generic address of shared memory's first byte (ours: a driver chooses it)."""
LOCAL_WINDOW = 0x0200_0000
"""Generic address of local memory's first byte (ours)."""
WINDOW_BYTES = 0x0100_0000
"""Size of both windows, which are aligned to it."""


_BOUNDS = {
    "registers": (64, 4096),
    "shared_bytes": (1 << 12, 1 << 16),
    "instruction_groups": (16, 1 << 16),
    "constant_words": (64, 1 << 16),
    "stack_tokens": (8, 64),
}
"""Least and most of parameters that are powers of two."""


@dataclass(frozen=True)
class SmParams:
    """The parameters of a streaming multiprocessor.

    Parameters
    ----------
    warps : int
        Warp slots: a power of two from 1 to 64.
    lanes : int
        Threads of a warp that compute in one cycle: a power of two from 1 to 32. A machine of one
        lane is ``serial``.
    registers : int
        Rows of the register file: a row is one register of the 32 threads of a warp. A power of two
        from 64 to 4096; from 256 on one warp can have all registers that an instruction can name.
    shared_bytes : int
        Shared memory: a power of two from 4 KiB to 64 KiB.
    instruction_groups : int
        Groups of three instructions in the instruction cache: a power of two from 16 on.
    constant_words : int
        32-bit words in the constant cache: a power of two from 64 on.
    floats : bool
        Whether the lanes have single precision; without it its instructions raise
        ILLEGAL_INSTR_ENCODING.
    doubles : bool
        Whether there is a unit for double precision, beside single precision; the same.
    counters : bool
        Whether all counters are there; without them only cycles and instructions are counted, and
        the other counters read as 0.
    stack_tokens : int
        Tokens of its call/return stack that a warp has on chip: a power of two from 8 to 64.

    Raises
    ------
    ValueError
        A parameter is out of its range.
    """

    warps: int = 8
    lanes: int = 8
    registers: int = 512
    shared_bytes: int = 16384
    instruction_groups: int = 256
    constant_words: int = 1024
    floats: bool = True
    doubles: bool = True
    counters: bool = True
    stack_tokens: int = CACHED_TOKENS

    def __post_init__(self) -> None:
        if self.warps not in (1, 2, 4, 8, 16, 32, 64):
            raise ValueError(f"warps must be a power of two from 1 to 64, not {self.warps!r}")
        if self.lanes not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"lanes must be a power of two from 1 to 32, not {self.lanes!r}")
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if not (isinstance(value, int) and least <= value <= most and value & value - 1 == 0):
                raise ValueError(
                    f"{name} must be a power of two from {least} to {most}, not {value!r}")
        if self.doubles and not self.floats:
            raise ValueError("doubles need floats")
        if self.serial and self.floats:
            raise ValueError(
                "floats need at least 2 lanes; preset least has 1 lane, and no floats")

    @property
    def serial(self) -> bool:
        """Whether the whole machine has one instruction under way at a time: units have no queues,
        keep the state of that instruction only, and access memory in beats of 64 bits. It is the
        smallest form of the machine, and the slowest."""
        return self.lanes == 1

    @property
    def warp_bits(self) -> int:
        """Width of a warp number."""
        return ceil_log2(self.warps)

    @property
    def beats(self) -> int:
        """Cycles in which the 32 threads of a warp pass the lanes."""
        return WARP_THREADS // self.lanes

    @property
    def parts(self) -> int:
        """Parts in which a beat passes the full lanes: each full lane has the threads of so many
        lanes."""
        return min(QUARTERS, self.lanes)

    @property
    def quarter_cycles(self) -> int:
        """Cycles in which an instruction of the full lanes occupies the lanes: its parts, and one
        in which results are passed to the other lanes."""
        return self.parts * self.beats + 1

    @property
    def quarter_stall(self) -> int:
        """Cycles from such an instruction to the warp's next one, at least, with any stall
        count."""
        return self.quarter_cycles + _WRITE_CYCLES

    @property
    def lanes_stall(self) -> int:
        """Cycles from any other instruction of the lanes to the warp's next one, at least; 0 where
        the stall counts of compiled code are enough."""
        stall = self.beats + _WRITE_CYCLES
        return stall if stall > _COMPILED_STALL else 0

    @property
    def row_bits(self) -> int:
        """Width of the number of a row of the register file."""
        return ceil_log2(self.registers)

    @property
    def stack_lines(self) -> int:
        """Lines of a warp's call/return stack on chip."""
        return self.stack_tokens // TOKENS_PER_LINE

    @property
    def stack_slot_bits(self) -> int:
        """Width of such a line's slot: its number modulo the lines on chip."""
        return ceil_log2(self.stack_lines)

    @property
    def stack_count_bits(self) -> int:
        """Width of a count of lines on chip, from none to all."""
        return self.stack_slot_bits + 1

    @property
    def shared_bits(self) -> int:
        """Width of a byte address in shared memory."""
        return ceil_log2(self.shared_bytes)


PRESETS: dict[str, SmParams] = {
    "tiny": SmParams(
        warps=2, lanes=4, registers=256, shared_bytes=8192, instruction_groups=64,
        constant_words=256, floats=False, doubles=False),
    "least": SmParams(
        warps=8, lanes=1, registers=256, shared_bytes=8192, instruction_groups=32,
        constant_words=128, floats=False, doubles=False, counters=False),
    "small": SmParams(
        warps=4, lanes=8, registers=256, shared_bytes=8192, instruction_groups=128,
        constant_words=512, doubles=False),
    "default": SmParams(warps=8, lanes=8),
    "compact": SmParams(warps=8, lanes=4, floats=False, doubles=False),
    "integer": SmParams(warps=8, lanes=8, floats=False, doubles=False),
    "programs": SmParams(warps=32, lanes=8, registers=2048, shared_bytes=65536),
    "full": SmParams(warps=64, lanes=32, registers=2048, shared_bytes=65536),
}
"""Named machines: for proofs and tests of parts, the smallest one, for tests of all, for boards,
for whole CUDA programs with blocks of up to 1,024 threads, and the real one's size."""
