"""A program as the toolchain hands it over: kernels, code, constants and data, not yet placed in memory.

The cubin reader and the assembler make a :class:`Module`; :mod:`sim.launch` places one in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import prod

from sim.support.command import CommandError

__all__ = [
    "BLOCK_LIMITS",
    "BLOCK_THREADS",
    "GRID_LIMITS",
    "SHARED_BANK",
    "EntryParameter",
    "EntryPoint",
    "LaunchBounds",
    "Module",
    "Patch",
    "PatchKind",
    "ProgramError",
    "SectionData",
]


SHARED_BANK = 3
"""The constant bank that all kernels share: users' constants."""


class ProgramError(CommandError):
    """A program that can't be used: one line that names the file and what is wrong with it."""


@dataclass(frozen=True)
class EntryParameter:
    """A kernel parameter: where it is in constant bank 0 behind the parameter base, and its size in bytes. ``type`` is
    that of its number (u32, f64, b16) and ``name`` its name if the program says them; binaries do not.
    """

    ordinal: int
    offset: int
    size: int
    type: str | None = None
    name: str | None = None


class PatchKind(Enum):
    """What is put where, once the symbol's address is known (a global's address, a function's pc)."""

    IMMEDIATE_LOW = "bits 31:0 into the 32-bit immediate of an instruction"
    IMMEDIATE_HIGH = "bits 63:32 into the 32-bit immediate of an instruction"
    CONSTANT_OFFSET = "bits 15:0 into the offset of an instruction's c[bank][offset]"
    BYTE = "bits 7:0 into a byte of data"
    WORD = "bits 31:0 into 4 bytes of data"
    DOUBLE_WORD = "bits 63:0 into 8 bytes of data"
    TEXTURE = "nothing: a driver puts there what it knows of a texture, of which there are none"


@dataclass(frozen=True)
class Patch:
    """A place to complete: ``offset`` bytes into the section that carries the patch.

    Into data goes the value shifted right by ``shift``. With ``generic`` the symbol is one of SHARED_BANK, and its
    address in global memory is meant.
    """

    offset: int
    kind: PatchKind
    symbol: str
    addend: int = 0
    generic: bool = False
    shift: int = 0


@dataclass(frozen=True)
class SectionData:
    """Initialised or zeroed bytes, and the patches in them. ``symbols`` are offsets into it by name, ``sizes`` are the
    bytes of those whose size the file tells."""

    content: bytes
    alignment: int = 8
    symbols: Mapping[str, int] = field(default_factory=dict)
    patches: tuple[Patch, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)


BLOCK_LIMITS = (1024, 1024, 64)
"""The most threads of a block in each dimension, on sm_50."""
BLOCK_THREADS = 1024
"""The most threads of a block, on sm_50."""
GRID_LIMITS = (0x7FFF_FFFF, 0xFFFF, 0xFFFF)
"""The most blocks of a grid in each dimension, on sm_50."""


@dataclass(frozen=True)
class LaunchBounds:
    """What an entry says of the blocks that it is launched with: ``largest`` is what their dimensions have at most in
    threads, multiplied (.maxntid), ``exact`` what they are (.reqntid). None: nothing.
    """

    largest: tuple[int, int, int] | None = None
    exact: tuple[int, int, int] | None = None

    def refusal(self, block: tuple[int, int, int]) -> str | None:
        """Why a driver does not launch such blocks; None when it does."""
        if self.exact is not None and block != self.exact:
            return f"needs blocks of {_times(self.exact)} threads (.reqntid), not {_times(block)}"
        if self.largest is not None and prod(block) > prod(self.largest):
            return f"takes blocks of at most {prod(self.largest)} threads (.maxntid), not {prod(block)}"
        return None


def _times(sizes: tuple[int, int, int]) -> str:
    return " x ".join(map(str, sizes))


@dataclass(frozen=True)
class EntryPoint:
    """A kernel of a module, and what a launch of it needs.

    ``entry`` is in the module's code. ``constants`` holds the kernel's banks (2 and so on) as the file has
    them; bank 0 is built at launch. Sizes are in bytes: ``shared`` per CTA, ``local`` per thread (its stack
    with all it calls), ``crs`` per warp, the file's hint, 0 where it has none. ``textures`` are the names of texture,
    sampler and surface references that it uses.
    """

    name: str
    entry: int
    registers: int
    barriers: int
    shared: int
    local: int
    crs: int
    parameter_base: int
    parameters: tuple[EntryParameter, ...]
    constants: Mapping[int, SectionData] = field(default_factory=dict)
    textures: tuple[str, ...] = ()
    bounds: LaunchBounds = field(default_factory=LaunchBounds)


@dataclass(frozen=True)
class Module:
    """A whole program.

    ``code`` is one block; ``code.symbols`` are the pcs of its functions. ``constants`` are banks that all
    kernels share (3), ``data`` the global variables. ``sections`` are the extents in the code of kernels, each with the
    functions that are its own, and of functions that all may call. ``refused`` are kernels that its source has and
    that can't run, and the line that says why.
    """

    name: str
    code: SectionData
    kernels: Mapping[str, EntryPoint]
    constants: Mapping[int, SectionData] = field(default_factory=dict)
    data: SectionData = field(default_factory=lambda: SectionData(b""))
    sections: tuple[range, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def kernel(self, name: str | None = None) -> EntryPoint:
        """The kernel called ``name``, or the only one."""
        if name is None and len(self.kernels) == 1 and not self.refused:
            return next(iter(self.kernels.values()))
        if name is not None and name in self.refused:
            raise ProgramError(self.refused[name])
        known = ", ".join(sorted({*self.kernels, *self.refused})) or "none"
        if name is None:
            raise ProgramError(f"{self.name}: which kernel? It has {known}; name one with --entry")
        if name not in self.kernels:
            raise ProgramError(f"{self.name}: no kernel {name}; it has {known}")
        return self.kernels[name]
