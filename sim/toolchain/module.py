"""A program in the toolchain's output format: kernels, code, constants and data, not yet placed in
memory.

The cubin loader and the assembler build a :class:`Module`; :mod:`sim.launch` places it in memory.
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
"""The constant bank common to all kernels, for the module's constants."""


class ProgramError(CommandError):
    """A program cannot be used. The message is one line with the file and the reason."""


@dataclass(frozen=True)
class EntryParameter:
    """A kernel parameter: its offset from the parameter base in constant bank 0, and its size in
    bytes.

    ``type`` is the type of its number (u32, f64, b16) and ``name`` its name, if the source has
    them; binaries do not.
    """

    ordinal: int
    offset: int
    size: int
    type: str | None = None
    name: str | None = None


class PatchKind(Enum):
    """The place of a patch, and the part of the symbol's address (of a global variable or function)
    that it takes.
    """

    IMMEDIATE_LOW = "bits 31:0 into the 32-bit immediate of an instruction"
    IMMEDIATE_HIGH = "bits 63:32 into the 32-bit immediate of an instruction"
    CONSTANT_OFFSET = "bits 15:0 into the offset of an instruction's c[bank][offset]"
    BYTE = "bits 7:0 into a byte of data"
    WORD = "bits 31:0 into 4 bytes of data"
    DOUBLE_WORD = "bits 63:0 into 8 bytes of data"
    TEXTURE = "nothing: a driver puts there what it knows of a texture, of which there are none"


@dataclass(frozen=True)
class Patch:
    """A place to be completed, ``offset`` bytes into the section with the patch.

    In data, the value is shifted right by ``shift``. With ``generic`` the symbol is a constant in
    SHARED_BANK, and the value is its address in global memory.
    """

    offset: int
    kind: PatchKind
    symbol: str
    addend: int = 0
    generic: bool = False
    shift: int = 0


@dataclass(frozen=True)
class SectionData:
    """Initialised or zeroed bytes, and their patches. ``symbols`` maps names to offsets, ``sizes``
    names to sizes in bytes, if the file has them.
    """

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
    """The launch bounds of an entry. The product of the dimensions in ``largest`` is the most
    threads of a block (.maxntid); ``exact`` are the required dimensions (.reqntid). None: no bound.
    """

    largest: tuple[int, int, int] | None = None
    exact: tuple[int, int, int] | None = None

    def refusal(self, block: tuple[int, int, int]) -> str | None:
        """Returns the reason why a driver refuses blocks of this shape, or None if it accepts
        them.
        """
        if self.exact is not None and block != self.exact:
            return f"needs blocks of {_times(self.exact)} threads (.reqntid), not {_times(block)}"
        if self.largest is not None and prod(block) > prod(self.largest):
            return f"takes blocks of at most {prod(self.largest)} threads (.maxntid), not {prod(block)}"
        return None


def _times(sizes: tuple[int, int, int]) -> str:
    return " x ".join(map(str, sizes))


@dataclass(frozen=True)
class EntryPoint:
    """A kernel of a module, and the requirements of its launch. Sizes are in bytes.

    Attributes:
        name: Its name.
        entry: Its entry point, an offset in the module's code.
        registers: Registers for each thread.
        barriers: The number of CTA barriers.
        shared: Shared memory for each CTA.
        local: Stack for each thread, with all functions that it calls.
        crs: Call/return stack for each warp: the file's hint, or 0.
        parameter_base: The offset of the parameters in constant bank 0.
        parameters: The parameters in order.
        constants: The kernel's constant banks from 2 on, as in the file; bank 0 is built at launch.
        textures: The names of texture, sampler and surface references that it uses.
        bounds: The launch bounds.
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

    Attributes:
        name: The name for messages.
        code: The code of all functions; ``code.symbols`` are their pcs.
        kernels: The kernels by name.
        constants: Banks common to all kernels (3).
        data: The global variables.
        sections: The ranges in the code of kernels, each with its own functions, and of functions
            that all kernels may call.
        refused: Kernels of the source that cannot run, with a message for each.
    """

    name: str
    code: SectionData
    kernels: Mapping[str, EntryPoint]
    constants: Mapping[int, SectionData] = field(default_factory=dict)
    data: SectionData = field(default_factory=lambda: SectionData(b""))
    sections: tuple[range, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def kernel(self, name: str | None = None) -> EntryPoint:
        """Returns the kernel called ``name``, or the only one."""
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
