"""A kernel launch: the module placed in memory, its constant bank 0, its buffers, its sizes.

A driver prepares this before it starts a grid. The models run a :class:`Launch` directly; for the
hardware it is converted to a launch descriptor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType

from rtl.isa.table import find
from rtl.isa.tokens import CRS_GRANULE
from rtl.launch.plan import ROW_GRANULE, SHARED_GRANULE
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES, SmParams
from sim.launch.memory import Memory, OutOfMemoryError
from sim.launch.parameters import Argument, parameter_block, place_buffers
from sim.launch.runtime import allot
from sim.support.alignment import round_up
from sim.toolchain.module import (
    BLOCK_LIMITS,
    BLOCK_THREADS,
    GRID_LIMITS,
    SHARED_BANK,
    EntryPoint,
    Module,
    PatchKind,
    ProgramError,
    SectionData,
)
from sim.toolchain.runtime.supply import supplied

PROGRAM_BASE = 0x1_0000_0000
"""Address of pc 0 (ours)."""
LOCAL_MEMORY = "local memory"
"""Name of the region of memory that holds the memory blocks of all warp slots."""
CRS_DEFAULT = 4096
"""Default size of a warp's call/return stack in bytes, unless the binary requires more."""
LOCAL_DEFAULT = 4096
"""Default size of a thread's local memory in bytes, unless the binary requires more."""
LOCAL_GRANULE = 16
"""Local memory of a thread is a multiple of this many bytes, as in drivers."""
CRS_LIMIT = 1 << 20
"""The largest call/return stack of a warp in bytes, which its 16-bit entry numbers can address."""
PROGRAM_ALIGNMENT = 256
"""Alignment in bytes of a program that is placed on the heap."""
BANK_ALIGNMENT = 256
"""Alignment in bytes of a constant bank in memory."""
BANK_GRANULE = 256
"""The size of a constant bank is a multiple of this many bytes, as in drivers for this class; its
content is padded with zeros.
"""
HANDLER_GAP = 256
"""Bytes behind a program, and alignment of the offset of a trap handler behind it. A program that
runs off its end shall fault there, and not enter the handler (ours).
"""
SHARED_LIMIT = 48 << 10
"""The largest shared memory of a CTA in bytes, on sm_50."""
DRIVER_WORDS: Mapping[str, int] = MappingProxyType(
    {
        "SHARED_BASE": 0x0,
        "LOCAL_BASE": 0x4,
        "BLOCK_X": 0x8,
        "BLOCK_Y": 0xC,
        "BLOCK_Z": 0x10,
        "GRID_X": 0x14,
        "GRID_Y": 0x18,
        "GRID_Z": 0x1C,
        "STACK_TOP": 0x20,
        "GRID_NUMBER": 0x28,
        "CONSTANTS_LOW": 0xD0,
        "CONSTANTS_HIGH": 0xD4,
        "DYNAMIC_SHARED": 0xFC,
    }
)
"""Offsets in constant bank 0 of the values that compiled code expects from the driver."""


_DATA_BYTES: Mapping[PatchKind, int] = {PatchKind.BYTE: 1, PatchKind.WORD: 4}
"""Bytes that a patch fills in, where they are not 8."""


@dataclass(frozen=True)
class Launch:
    """A grid to run, with its program, memory and sizes. All sizes are in bytes.

    Sizes are rounded up as a driver does (docs/choices.md).

    Attributes:
        entry: Pc of the kernel, an offset from ``program_base``.
        shared: Shared memory of a CTA, static and dynamic.
        local: Local memory of a thread.
        crs: Call/return stack of a warp.
        banks: The constant banks by number.
        bank_addresses: Addresses of the banks that are already in memory.
        buffers: Address and size of the launch's buffers, by name.
        buffer_types: Types of the elements of buffers whose type is known.
        trap_handler: Pc of a trap handler, None without one.
        floats: Whether the machine has floating point.
        doubles: Whether it has double precision, too.
        output: Address of the variable that describes the kernel's output, None if it prints
            nothing.
    """

    kernel: EntryPoint
    memory: Memory
    program_base: int
    program_size: int
    entry: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    banks: Mapping[int, bytes]
    registers: int
    barriers: int
    shared: int
    local: int
    crs: int
    buffers: Mapping[str, tuple[int, int]]
    check_api_calls: bool = False
    trap_handler: int | None = None
    bank_addresses: Mapping[int, int] = field(default_factory=dict)
    floats: bool = True
    doubles: bool = True
    output: int | None = None
    buffer_types: Mapping[str, str] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Number of threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Number of warps of a CTA."""
        return -(-self.threads // 32)

    @property
    def warp_block(self) -> int:
        """Size of a warp's memory block in bytes: the local memory of 32 threads and the
        call/return stack, rounded up to the CRS granule.

        The blocks of the warp slots are consecutive.
        """
        return round_up(self.local * 32 + self.crs, CRS_GRANULE)

    def on(self, params: SmParams) -> "Launch":
        """Returns the launch adapted to a machine with or without floating point and double
        precision.
        """
        return replace(self, floats=params.floats, doubles=params.doubles)

    def bank(self, number: int) -> bytes:
        """Returns the content of a constant bank, from memory if it is there already."""
        content = self.banks[number]
        if number in self.bank_addresses:
            return self.memory.read(self.bank_addresses[number], len(content))
        return content

    def allocate_local(self, slots: int, memory: Memory) -> int:
        """Maps the memory blocks of this many warp slots; returns their address. A memory serves
        one machine.
        """
        return memory.allocate(LOCAL_MEMORY, slots * self.warp_block, CRS_GRANULE)


def bank_name(number: int) -> str:
    """Returns the name of the region of memory that holds a constant bank."""
    return f"constant bank {number}"


def _patched(
    name: str,
    data: SectionData,
    addresses: Mapping[str, int],
    constants: Mapping[str, int] = MappingProxyType({}),
) -> bytes:
    """Returns the data with its patches filled in. ``constants`` are the generic addresses of
    constants.
    """
    content = bytearray(data.content)
    for patch in data.patches:
        if patch.kind is PatchKind.TEXTURE:
            continue
        known = constants if patch.generic else addresses
        if patch.symbol not in known:
            raise ProgramError(f"{name}: symbol {patch.symbol} is not defined")
        value = known[patch.symbol] + patch.addend
        size = _DATA_BYTES.get(patch.kind, 8)
        place = slice(patch.offset, patch.offset + size)
        match patch.kind:
            case PatchKind.BYTE | PatchKind.WORD | PatchKind.DOUBLE_WORD:
                content[place] = (value >> patch.shift & (1 << 8 * size) - 1).to_bytes(
                    size, "little"
                )
            case PatchKind.CONSTANT_OFFSET:
                content[place] = _with_constant_offset(name, bytes(content[place]), value)
            case PatchKind.IMMEDIATE_LOW | PatchKind.IMMEDIATE_HIGH:
                word = int.from_bytes(content[place], "little") & ~(0xFFFF_FFFF << 20)
                half = value >> (32 if patch.kind is PatchKind.IMMEDIATE_HIGH else 0)
                content[place] = (word | (half & 0xFFFF_FFFF) << 20).to_bytes(8, "little")
    return bytes(content)


def _with_constant_offset(name: str, place: bytes, value: int) -> bytes:
    """Returns an instruction whose constant offset is increased by ``value``."""
    word = int.from_bytes(place, "little")
    form = find(word)
    if form is None or "offset" not in form.fields or "bank" not in form.fields:
        raise ProgramError(
            f"{name}: a constant's address belongs into {word:#018x}, which has none"
        )
    field = form.fields["offset"]
    return field.put(word, field.get(word) + value).to_bytes(8, "little")


def _driver_words(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    local: int,
    dynamic: int,
    base: int,
    constants: int,
) -> bytes:
    """Returns constant bank 0 below the parameters. ``constants`` is the address of SHARED_BANK, 0
    without one.
    """
    bank = bytearray(base)
    words = {
        "SHARED_BASE": SHARED_WINDOW,
        "LOCAL_BASE": LOCAL_WINDOW,
        "BLOCK_X": block[0],
        "BLOCK_Y": block[1],
        "BLOCK_Z": block[2],
        "GRID_X": grid[0],
        "GRID_Y": grid[1],
        "GRID_Z": grid[2],
        "STACK_TOP": local,
        "GRID_NUMBER": 1,
        "CONSTANTS_LOW": constants & 0xFFFF_FFFF,
        "CONSTANTS_HIGH": constants >> 32,
        "DYNAMIC_SHARED": dynamic,
    }
    for name, value in words.items():
        offset = DRIVER_WORDS[name]
        bank[offset : offset + 4] = value.to_bytes(4, "little")
    return bytes(bank)


@dataclass(frozen=True)
class Placement:
    """A module in a memory, from which its kernels are launched any number of times.

    Attributes:
        program_base: Address of pc 0.
        variables: Address and size, by name, of global variables and of constants in SHARED_BANK.
        banks: The banks that all kernels share, with their content when the module was placed.
        kernel_banks: The banks of each kernel, likewise.
        bank_addresses: Addresses of the shared banks.
        output: Address of the variable that describes kernel output, None if the kernels print
            nothing.
        regions: First addresses of the regions that the module occupies.
    """

    module: Module
    memory: Memory
    program_base: int
    variables: Mapping[str, tuple[int, int]]
    banks: Mapping[int, bytes]
    kernel_banks: Mapping[str, Mapping[int, bytes]]
    bank_addresses: Mapping[int, int]
    output: int | None
    regions: tuple[int, ...]

    def release(self) -> None:
        """Frees the regions that the module occupies."""
        self.memory.free_all(self.regions)

    def launch(
        self,
        kernel: EntryPoint,
        parameters: bytes,
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (32, 1, 1),
        local: int | None = None,
        crs: int | None = None,
        dynamic_shared: int = 0,
        buffers: Mapping[str, tuple[int, int]] = MappingProxyType({}),
        types: Mapping[str, str] = MappingProxyType({}),
    ) -> Launch:
        """Returns the launch of one grid.

        Args:
            kernel: The kernel.
            parameters: Its parameter block.
            grid: CTAs in x, y and z.
            block: Threads of a CTA in x, y and z.
            local: Bytes of local memory of a thread; default: the larger of the binary's
                requirement and LOCAL_DEFAULT.
            crs: Bytes of stack of a warp; default: the larger of the binary's requirement and
                CRS_DEFAULT.
            dynamic_shared: Bytes of dynamic shared memory of a CTA.
            buffers: Address and size of the launch's buffers, by name.
            types: Types of their elements.

        Raises:
            ProgramError: A size is out of range.
        """
        local, crs, shared = _sizes(self.module, kernel, grid, block, local, crs, dynamic_shared)
        words = _driver_words(
            grid,
            block,
            local,
            dynamic_shared,
            kernel.parameter_base,
            self.bank_addresses.get(SHARED_BANK, 0),
        )
        banks = {0: _whole_bank(words + parameters), **self.banks, **self.kernel_banks[kernel.name]}
        return Launch(
            kernel,
            self.memory,
            self.program_base,
            len(self.module.code.content),
            kernel.entry,
            grid,
            block,
            MappingProxyType(banks),
            kernel.registers,
            kernel.barriers,
            round_up(shared, SHARED_GRANULE),
            local,
            crs,
            MappingProxyType(dict(buffers)),
            bank_addresses=self.bank_addresses,
            output=self.output,
            buffer_types=MappingProxyType(dict(types)),
        )


def place(
    module: Module,
    memory: Memory,
    *,
    program_base: int | None = None,
    output: int | None = None,
    heap: int | None = None,
) -> Placement:
    """Places a module: its code, its variables, the constant bank that all kernels share, and
    kernel output and heap.

    Args:
        module: The program.
        memory: The memory.
        program_base: Address of pc 0; by default on the heap.
        output: Bytes for what kernels print; by default as in CUDA.
        heap: Bytes for what kernels allocate; by default as in CUDA.

    Raises:
        ProgramError: A symbol is not defined.
        OutOfMemoryError: There is no room; then nothing has been placed.
    """
    taken = set(memory.regions)
    try:
        placed = _place(supplied(module), memory, program_base, output, heap)
    except (ProgramError, OutOfMemoryError):
        memory.free_new(taken)
        raise
    return replace(placed, regions=memory.new_bases(taken))


def _place(
    module: Module, memory: Memory, program_base: int | None, output: int | None, heap: int | None
) -> Placement:
    """Places a module as :func:`place` does, without recording the regions that it occupies."""
    region = memory.free_name
    code_bytes = max(len(module.code.content), 1)
    if program_base is None:
        program_base = memory.allocate(region("program"), code_bytes, PROGRAM_ALIGNMENT)
    else:
        memory.map("program", program_base, code_bytes)
    memory.mark_constant(program_base)
    data_base = memory.allocate(
        region("globals"), len(module.data.content), max(module.data.alignment, 256)
    )
    addresses = _symbol_addresses(module, data_base)
    variables = {
        name: (data_base + offset, _size_of(module.data, name))
        for name, offset in module.data.symbols.items()
    }
    bank_addresses: dict[int, int] = {}
    constants: dict[str, int] = {}
    if (shared_bank := module.constants.get(SHARED_BANK)) is not None:
        size = round_up(len(shared_bank.content), BANK_GRANULE)
        base = memory.allocate(region(bank_name(SHARED_BANK)), size, BANK_ALIGNMENT)
        memory.mark_constant(base)
        bank_addresses = {SHARED_BANK: base}
        constants = {name: base + offset for name, offset in shared_bank.symbols.items()}
        variables |= {
            name: (address, _size_of(shared_bank, name)) for name, address in constants.items()
        }
    memory.write(program_base, _patched(module.name, module.code, addresses, constants))
    memory.write(data_base, _patched(module.name, module.data, addresses, constants))
    banks = _whole_banks(module.name, module.constants, addresses, constants)
    kernel_banks = {
        kernel.name: _whole_banks(module.name, kernel.constants, addresses, constants)
        for kernel in module.kernels.values()
    }
    for bank, base in bank_addresses.items():
        memory.write(base, banks[bank])
    output_variable = allot(
        memory, {name: addresses[name] for name in module.data.symbols}, output, heap, region
    )
    return Placement(
        module,
        memory,
        program_base,
        variables,
        banks,
        kernel_banks,
        MappingProxyType(bank_addresses),
        output_variable,
        (),
    )


def _size_of(data: SectionData, name: str) -> int:
    """Returns the size of a symbol in bytes: the file's, else the distance to the next symbol or
    the end.
    """
    if name in data.sizes:
        return data.sizes[name]
    start = data.symbols[name]
    return (
        min(
            (offset for offset in data.symbols.values() if offset > start),
            default=len(data.content),
        )
        - start
    )


def _symbol_addresses(module: Module, data_base: int) -> dict[str, int]:
    """What symbols stand for: pcs of the code, addresses of variables, offsets in constant banks."""
    addresses = dict(module.code.symbols)
    addresses |= {name: data_base + offset for name, offset in module.data.symbols.items()}
    for bank in (
        *module.constants.values(),
        *(bank for kernel in module.kernels.values() for bank in kernel.constants.values()),
    ):
        addresses |= bank.symbols
    return addresses


def _whole_banks(
    name: str,
    banks: Mapping[int, SectionData],
    addresses: Mapping[str, int],
    constants: Mapping[str, int],
) -> dict[int, bytes]:
    """Constant banks of the module ``name`` with their symbols resolved, and with the zeros that drivers append."""
    return {
        bank: _whole_bank(_patched(name, data, addresses, constants))
        for bank, data in banks.items()
    }


def _whole_bank(content: bytes) -> bytes:
    """Returns a constant bank, padded with zeros as drivers do."""
    return content.ljust(round_up(len(content), BANK_GRANULE), b"\0")


def _check_dimensions(
    module: Module, kernel: EntryPoint, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    """Raises ProgramError for dimensions that a driver does not launch."""
    if min(*grid, *block) < 1:
        raise ProgramError(
            f"{module.name}: grid {grid} and block {block} must be at least 1 in every dimension"
        )
    for what, sizes, limits in (("grid", grid, GRID_LIMITS), ("block", block, BLOCK_LIMITS)):
        for dimension, size, limit in zip("xyz", sizes, limits, strict=True):
            if size > limit:
                raise ProgramError(
                    f"{module.name}: a {what} of {size} in {dimension}; there can be {limit}"
                )
    if prod(block) > BLOCK_THREADS:
        raise ProgramError(
            f"{module.name}: a block of {prod(block)} threads; there can be {BLOCK_THREADS}"
        )
    if (why := kernel.bounds.refusal(block)) is not None:
        raise ProgramError(f"{module.name}: kernel {kernel.name} {why}")


def _sizes(
    module: Module,
    kernel: EntryPoint,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    local: int | None,
    crs: int | None,
    dynamic_shared: int,
) -> tuple[int, int, int]:
    """Returns the bytes of local memory of a thread, of stack of a warp, and of shared memory of a
    CTA; ProgramError if one is out of range.
    """
    _check_dimensions(module, kernel, grid, block)
    local = round_up(max(kernel.local, LOCAL_DEFAULT) if local is None else local, LOCAL_GRANULE)
    crs = round_up(max(kernel.crs, CRS_DEFAULT) if crs is None else crs, CRS_GRANULE)
    shared = kernel.shared + dynamic_shared
    for what, size, limit in (
        ("call/return stack", crs, CRS_LIMIT),
        ("local memory", local, WINDOW_BYTES),
        ("shared memory", shared, SHARED_LIMIT),
    ):
        if size > limit:
            raise ProgramError(f"{module.name}: {size} bytes of {what}; there can be {limit}")
    return local, crs, shared


def prepare(
    module: Module,
    arguments: Iterable[Argument] = (),
    *,
    entry: str | None = None,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    local: int | None = None,
    crs: int | None = None,
    dynamic_shared: int = 0,
    memory: Memory | None = None,
    output: int | None = None,
    heap: int | None = None,
) -> Launch:
    """Places ``module`` and the arguments' buffers in a memory and returns the launch of one grid.

    The memory is a new one, or a given empty one; sizes are as in :meth:`Placement.launch` and
    :func:`place`. Raises ProgramError if the arguments do not match the kernel's parameters, or a
    size is out of range.
    """
    module = supplied(module)
    _sizes(module, module.kernel(entry), grid, block, local, crs, dynamic_shared)
    memory = Memory() if memory is None else memory
    placed = place(module, memory, program_base=PROGRAM_BASE, output=output, heap=heap)
    kernel = placed.module.kernel(entry)
    arguments = list(arguments)
    found = place_buffers(arguments, memory, module.name)
    buffers = {
        name: (memory.regions[name][0], len(buffer.content)) for name, buffer in found.items()
    }
    types = {name: buffer.type for name, buffer in found.items() if buffer.type is not None}
    parameters = parameter_block(
        arguments,
        kernel.parameters,
        {name: base for name, (base, _) in buffers.items()},
        f"{module.name}: kernel {kernel.name}",
    )
    return placed.launch(
        kernel,
        parameters,
        grid=grid,
        block=block,
        local=local,
        crs=crs,
        dynamic_shared=dynamic_shared,
        buffers=buffers,
        types=types,
    )


def lacking(launch: Launch, params: SmParams) -> tuple[str, int] | None:
    """Returns the resource of which a CTA needs more than a machine has, in words, and how much the
    machine has; None if the CTA fits.
    """
    rows = round_up(max(launch.registers, 1), ROW_GRANULE) * launch.warps
    shared = round_up(launch.shared, SHARED_GRANULE)
    if launch.warps > params.warps:
        return f"a block of {launch.threads} threads needs {launch.warps} warps", params.warps
    if rows > params.registers:
        return (
            f"a block of {launch.warps} warps with {launch.registers} registers a thread needs {rows} warp "
            "registers",
            params.registers,
        )
    if shared > params.shared_bytes:
        return f"a block needs {shared} bytes of shared memory", params.shared_bytes
    return None


def with_trap_handler(launch: Launch, handler: Module, entry: str | None = None) -> Launch:
    """Returns the launch with a trap handler, a kernel without parameters, in its memory behind the
    program.

    Threads get at least as many registers as the handler needs. A memory serves one handler. The
    handler is relocated, so its branches are relative; its calls of functions may be absolute.

    Raises:
        ProgramError: The handler has constants, variables or parameters, for which there is no
            place.
    """
    kernel = handler.kernel(entry)
    if handler.constants or kernel.constants or handler.data.content or kernel.parameters:
        raise ProgramError(
            f"{handler.name}: a trap handler has no constants, variables or parameters"
        )
    offset = round_up(launch.program_size + HANDLER_GAP, HANDLER_GAP)
    symbols = {name: offset + pc for name, pc in handler.code.symbols.items()}
    content = _patched(handler.name, handler.code, symbols)
    launch.memory.map("trap handler", launch.program_base + offset, len(content))
    launch.memory.write(launch.program_base + offset, content)
    return replace(
        launch,
        trap_handler=offset + kernel.entry,
        registers=max(launch.registers, kernel.registers),
    )
