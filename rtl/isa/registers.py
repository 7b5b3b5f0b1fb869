"""The host's registers: the one table that hardware, tools and manual read.

Names, offsets and fields of the SM block are taken from NVIDIA's open drivers (gm20b). The blocks
of the work distributor and of the counters are this project's own, and so are bits that a meaning
here calls ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as with_default
from enum import Enum
from types import MappingProxyType

from amaranth.lib import enum

from .errors import REPORT_MASK_RESET
from .qmd import QMD
from .trap_status import TRAP_REASONS

__all__ = [
    "ALWAYS_INTERRUPT",
    "BLOCK_BYTES",
    "CONTROL_RESET",
    "COUNTERS",
    "COUNTER_BLOCK",
    "GLOBAL_ERROR_MASK_RESET",
    "REFERENCE_COUNTERS",
    "SM_BLOCK",
    "SM_REGISTERS",
    "WORK_BLOCK",
    "WORK_REGISTERS",
    "Access",
    "GlobalError",
    "HostRegister",
    "counters_of",
    "host_register",
    "trap_bit",
]

SM_BLOCK = 0x504600
"""The SM of GPC 0, TPC 0."""
WORK_BLOCK = 0x600000
"""The work distributor (ours)."""
COUNTER_BLOCK = 0x600200
"""The counters (ours): the low word of number n at 8 * n, the high word behind it."""
BLOCK_BYTES = 0x200
"""Size of each block."""
REFERENCE_COUNTERS = 1 << QMD["CWD_REFERENCE_COUNT_ID"].width
"""Reference counters of the work distributor."""
GLOBAL_ERROR_MASK_RESET = 0x7F
"""The global report mask that drivers write for sm_50."""
CONTROL_RESET = 0x1C02
"""What drivers write to DBGR_CONTROL0 for sm_50: STOP_ON_ANY_WARP, and three bits without a public
name."""


class Access(Enum):
    """What a host can do with a register."""

    READ = "read"
    WRITE = "write"
    BOTH = "read, write"
    CLEAR_ONES = "read; a 1 that is written clears the bit"
    CLEAR_ZEROS = "read; a 0 that is written clears the bit"
    CLEAR_ALL = "read; cleared by every write"


class GlobalError(enum.Enum, shape=5):
    """Bits of HWW_GLOBAL_ESR and of its report mask."""

    MULTIPLE_WARP_ERRORS = 2
    PHYSICAL_STACK_OVERFLOW = 3
    BPT_INT = 4
    BPT_PAUSE = 5
    SINGLE_STEP_COMPLETE = 6
    ERROR_IN_TRAP = 8
    TIMEOUT = 31


def trap_bit(reason: int) -> int:
    """The bit of HWW_GLOBAL_ESR for a BPT.TRAP with this reason (ours)."""
    return 16 + reason


_TRAP_BITS = sum(1 << trap_bit(reason) for reason in TRAP_REASONS)
ALWAYS_INTERRUPT = 1 << GlobalError.BPT_PAUSE.value | _TRAP_BITS
"""Bits of HWW_GLOBAL_ESR that interrupt the host independently of the report mask: BPT.PAUSE, by
its description, and BPT.TRAP (ours)."""


@dataclass(frozen=True)
class HostRegister:
    """A register of 32 bits, ``offset`` bytes into its block; of ``count`` equal ones the first.
    ``fields`` are name -> highest and lowest bit."""

    offset: int
    access: Access
    meaning: str
    fields: Mapping[str, tuple[int, int]] = with_default(default_factory=dict)
    reset: int = 0
    count: int = 1

    def get(self, name: str, word: int) -> int:
        """A field of the register's ``word``."""
        highest, lowest = self.fields[name]
        return word >> lowest & (1 << highest - lowest + 1) - 1

    def put(self, word: int = 0, **values: int) -> int:
        """The register's ``word`` with these fields changed; a value is cut to its field."""
        for name, value in values.items():
            highest, lowest = self.fields[name]
            mask = (1 << highest - lowest + 1) - 1
            word = word & ~(mask << lowest) | (value & mask) << lowest
        return word


SM_REGISTERS: Mapping[str, HostRegister] = MappingProxyType({
    "DBGR_STATUS0": HostRegister(
        0x0C,
        Access.READ,
        "SM_IN_TRAP_MODE: warps enter the trap or are in it; LOCKED_DOWN: and none of them"
        " runs",
        {"SM_IN_TRAP_MODE": (0, 0), "LOCKED_DOWN": (4, 4)},
    ),
    "DBGR_CONTROL0": HostRegister(
        0x10,
        Access.BOTH,
        "STOP_TRIGGER: all warps trap, while it is 1; a 1 written to RUN_TRIGGER resumes all"
        " paused warps, it reads 0; SINGLE_STEP_MODE: warps that leave the trap execute one"
        " instruction and trap again;"
        " the others have no effect here",
        {
            "DEBUGGER_MODE": (0, 0),
            "STOP_ON_ANY_WARP": (1, 1),
            "STOP_ON_ANY_SM": (2, 2),
            "SINGLE_STEP_MODE": (3, 3),
            "RUN_TRIGGER": (30, 30),
            "STOP_TRIGGER": (31, 31),
        },
        reset=CONTROL_RESET,
    ),
    "WARP_VALID_MASK": HostRegister(
        0x14, Access.READ, "warp slots 0 to 31 with a warp that has not ended"
    ),
    "WARP_VALID_MASK_1": HostRegister(0x18, Access.READ, "warp slots 32 to 63"),
    "BPT_PAUSE_MASK": HostRegister(
        0x24,
        Access.CLEAR_ZEROS,
        "warp slots 0 to 31 with a paused warp; a 0 that is written resumes it, while trapped",
    ),
    "BPT_PAUSE_MASK_1": HostRegister(0x28, Access.CLEAR_ZEROS, "warp slots 32 to 63"),
    "BPT_TRAP_MASK": HostRegister(
        0x34,
        Access.READ,
        "warp slots 0 to 31 with a warp that has executed BPT.TRAP since it last left the trap",
    ),
    "BPT_TRAP_MASK_1": HostRegister(0x38, Access.READ, "warp slots 32 to 63"),
    "HWW_WARP_ESR_REPORT_MASK": HostRegister(
        0x44, Access.BOTH, "bit n: warp errors of code n are reported", reset=REPORT_MASK_RESET
    ),
    "HWW_WARP_ESR": HostRegister(
        0x48,
        Access.CLEAR_ALL,
        "the first warp error since it was cleared; of a BPT.TRAP only the warp (ours)",
        {"ERROR": (15, 0), "WARP_ID": (23, 16)},
    ),
    "HWW_GLOBAL_ESR_REPORT_MASK": HostRegister(
        0x4C,
        Access.BOTH,
        "bits of HWW_GLOBAL_ESR that interrupt the host, beside BPT_PAUSE and TRAP_REASONS,"
        " which always do",
        reset=GLOBAL_ERROR_MASK_RESET,
    ),
    "HWW_GLOBAL_ESR": HostRegister(
        0x50,
        Access.CLEAR_ONES,
        "what has happened",
        {
            **{error.name: (error.value, error.value) for error in GlobalError},
            "TRAP_REASONS": (23, 17),
        },
    ),
    "HWW_WARP_ESR_PC": HostRegister(
        0x54,
        Access.READ,
        "address of the instruction with that error; of the one after BPT.TRAP. It stays when"
        " HWW_WARP_ESR is cleared (ours)",
    ),
    "CACHE_CONTROL": HostRegister(
        0xA4,
        Access.WRITE,
        "a 1 written to INVALIDATE empties the caches of instructions and constants; a warp still"
        " executes the instructions that it has fetched, until it branches or leaves the trap",
        {"INVALIDATE": (0, 0)},
    ),
})
"""Registers of the SM block."""

WORK_REGISTERS: Mapping[str, HostRegister] = MappingProxyType({
    "PROGRAM_REGION_A": HostRegister(
        0x00, Access.BOTH, "address of pc 0, bits 39:32", {"UPPER": (7, 0)}
    ),
    "PROGRAM_REGION_B": HostRegister(0x04, Access.BOTH, "address of pc 0, bits 31:0"),
    "LOCAL_MEMORY_A": HostRegister(
        0x08, Access.BOTH, "local memory of all warp slots, bits 39:32", {"UPPER": (7, 0)}
    ),
    "LOCAL_MEMORY_B": HostRegister(0x0C, Access.BOTH, "its bits 31:0; a multiple of 512"),
    "QMD_ADDRESS_A": HostRegister(
        0x10, Access.BOTH, "address of the launch descriptor, bits 39:32", {"UPPER": (7, 0)}
    ),
    "QMD_ADDRESS_B": HostRegister(0x14, Access.BOTH, "its bits 31:0; a multiple of 256"),
    "LAUNCH": HostRegister(
        0x18, Access.WRITE, "a write starts a grid, as soon as no other runs; ignored while PENDING"
    ),
    "STATUS": HostRegister(
        0x1C,
        Access.READ,
        "BUSY: a grid runs; DONE: a grid has ended since the last write of LAUNCH, and REJECTION"
        " says why it did not run, or 0; PENDING: one waits for its start",
        {"BUSY": (0, 0), "DONE": (1, 1), "PENDING": (2, 2), "REJECTION": (11, 8)},
    ),
    "TRAP_HANDLER": HostRegister(
        0x20,
        Access.BOTH,
        "pc of the trap handler, in the program region, a "
        "multiple of 8: the last three bits are 0",
    ),
    "TRAP_CONTROL": HostRegister(
        0x24,
        Access.BOTH,
        "HANDLER_VALID: there is a trap handler; without one warps that trap are paused",
        {"HANDLER_VALID": (0, 0)},
    ),
    "SM_TIMEOUT_INTERVAL": HostRegister(
        0x28,
        Access.BOTH,
        "COUNTER_BIT n: TIMEOUT after 2**n cycles in which warps live, are not locked down, and"
        " issue nothing; 0: never",
        {"COUNTER_BIT": (5, 0)},
    ),
    "REFERENCE_COUNT": HostRegister(
        0x100, Access.BOTH, "reference counters", {"COUNT": (15, 0)}, count=REFERENCE_COUNTERS
    ),
})
"""Registers of the work distributor."""

COUNTERS: Mapping[str, str] = MappingProxyType({
    "cycles": "cycles in which a grid runs",
    "instructions": "instructions issued",
    "lane_operations": "passes of the lanes that operations of units took",
    "idle":
        "cycles, while a grid runs, in which neither an instruction nor an operation was selected",
    "wait_stall": "such cycles in which a warp waits for its stall count",
    "wait_scoreboard": "... for a scoreboard",
    "wait_lanes": "... for the lanes",
    "wait_unit": "... for room in a unit",
    "wait_fetch": "... for its instructions",
    "wait_held": "... for the outcome of its last instruction",
    "ctas": "CTAs started",
    "warps": "warps started",
    "divergences": "branches that diverged",
    "pushes": "tokens pushed",
    "hits": "unwinds that ended in the stack cache",
    "misses": "unwinds that found a line not in the stack cache",
    "spills": "lines of stacks written to memory",
    "fills": "lines of stacks read from memory",
    "memory_lines": "lines that loads, stores and atomic operations asked memory for",
    "memory_writes": "those of them that were written",
    "shared_accesses": "accesses to shared memory, each of some threads' words",
    "atomics": "atomic operations of single threads",
})
"""The counters in their order, 64 bits each: name -> what one counts. Every write clears a counter.
Reading the low word keeps the high word until that is read."""
_ALWAYS = ("cycles", "instructions")
"""The counters that every machine has: the first ones."""


def counters_of(everything: bool) -> tuple[str, ...]:
    """The counters of a machine that has all of them, or of one with only the required ones."""
    return tuple(COUNTERS) if everything else _ALWAYS


def host_register(name: str) -> HostRegister:
    """A register of the SM's or of the work distributor's block."""
    return SM_REGISTERS[name] if name in SM_REGISTERS else WORK_REGISTERS[name]
