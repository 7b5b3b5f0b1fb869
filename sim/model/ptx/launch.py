"""A PTX program placed in memory, ready to run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from sim.launch import LOCAL_DEFAULT, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES, Argument
from sim.launch.memory import Memory
from sim.launch.parameters import parameter_block, place_buffers
from sim.launch.runtime import allot
from sim.support.alignment import round_up
from sim.toolchain.module import EntryParameter, ProgramError
from sim.toolchain.ptx.call_graph import CallGraph
from sim.toolchain.ptx.module import (
    AddressOf,
    PtxFunction,
    PtxModule,
    PtxRegister,
    PtxSpace,
    PtxVariable,
    parameter_offsets,
)

__all__ = ["PtxLaunch", "place"]

_CONSTANT_ALIGNMENT = 256
_DYNAMIC_ALIGNMENT = 16
"""Least alignment in bytes of shared memory whose size the launch decides (ours: as in NVIDIA's
files).
"""
_FUNCTION_BYTES = 32
"""Distance between the addresses of functions (ours: no code is stored there)."""


@dataclass(frozen=True)
class PtxLaunch:
    """A grid to run. Sizes are in bytes.

    Attributes:
        parameters: The entry's arguments, each as bytes.
        addresses: Address by name, of functions, and of const, global and shared variables within
            their space.
        shared: Shared memory of a CTA.
        dynamic: The part of ``shared`` whose size the launch decides.
        local: Local memory of a thread.
        buffers: Address and size by name, as in :class:`~sim.launch.Launch`.
        constants: The const space. It is also mapped in global memory, from ``constant_base`` on.
        undefined: Initial content of registers, cut to their width; its lowest byte fills shared
            and local memory. A program whose result depends on it reads uninitialised storage.
    """

    module: PtxModule
    entry: PtxFunction
    parameters: tuple[bytes, ...]
    memory: Memory
    constants: bytes
    constant_base: int
    addresses: Mapping[str, int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    dynamic: int
    local: int
    buffers: Mapping[str, tuple[int, int]]
    undefined: int = 0

    @cached_property
    def parameter_offsets(self) -> Mapping[PtxRegister | PtxVariable, int]:
        """Offsets of the entry's parameters in :attr:`parameter_block`."""
        return dict(
            zip(self.entry.parameters, parameter_offsets(self.entry.parameters)[0], strict=True)
        )

    @cached_property
    def local_offsets(self) -> tuple[Mapping[PtxVariable, int], int]:
        """Offsets of the module's local variables in each thread's local memory, and their total
        size.
        """
        offsets: dict[PtxVariable, int] = {}
        end = 0
        for variable in self.module.variables:
            if variable.space is PtxSpace.LOCAL:
                offsets[variable] = round_up(end, variable.alignment)
                end = offsets[variable] + variable.size
        return offsets, end

    @cached_property
    def parameter_block(self) -> bytes:
        """The arguments as one block, laid out as the entry's parameter space."""
        _, size = parameter_offsets(self.entry.parameters)
        block = bytearray(size)
        for at, content in zip(self.parameter_offsets.values(), self.parameters, strict=True):
            block[at : at + len(content)] = content
        return bytes(block)

    @cached_property
    def windows(self) -> Mapping[PtxSpace, range]:
        """Ranges of generic addresses of the shared, local and const windows; all other addresses
        are global.
        """
        return {
            PtxSpace.SHARED: range(SHARED_WINDOW, SHARED_WINDOW + WINDOW_BYTES),
            PtxSpace.LOCAL: range(LOCAL_WINDOW, LOCAL_WINDOW + WINDOW_BYTES),
            PtxSpace.CONST: range(self.constant_base, self.constant_base + len(self.constants)),
        }

    @property
    def threads(self) -> int:
        """Number of threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]


def _entry(module: PtxModule, name: str | None) -> PtxFunction:
    entries = {
        function.name: function
        for function in module.functions.values()
        if function.entry and function.body is not None
    }
    if name is None and len(entries) + len(module.refused) == 1:
        name = next(iter([*entries, *module.refused]))
    if name is not None and name in module.refused:
        raise ProgramError(module.refused[name])
    if name not in entries:
        known = ", ".join(sorted({*entries, *module.refused})) or "none"
        raise ProgramError(
            f"{module.name}: no entry {name}; it has {known}"
            if name
            else f"{module.name}: which entry? It has {known}"
        )
    return entries[name]


def _static(module: PtxModule) -> dict[PtxSpace, list[PtxVariable]]:
    """Groups the variables of the module and its functions by space."""
    found: dict[PtxSpace, list[PtxVariable]] = {space: [] for space in PtxSpace}
    for variable in (
        *module.variables,
        *(v for f in module.functions.values() for v in f.variables),
    ):
        found[variable.space].append(variable)
    return found


def _lay_out(variables: list[PtxVariable], addresses: dict[str, int], base: int = 0) -> int:
    """Assigns consecutive addresses to variables, with unsized arrays last; returns the size in
    bytes.
    """
    end = 0
    open_arrays = [variable for variable in variables if variable.count is None]
    for variable in variables:
        if variable.count is not None:
            end = round_up(end, variable.alignment)
            addresses[variable.name] = base + end
            end += variable.size
    if open_arrays:
        alignment = max(_DYNAMIC_ALIGNMENT, *(variable.alignment for variable in open_arrays))
        end = round_up(end, alignment)
        addresses.update({variable.name: base + end for variable in open_arrays})
    return end


def _content(
    variables: list[PtxVariable],
    size: int,
    base: int,
    addresses: Mapping[str, int],
    generic: Mapping[str, int],
) -> bytes:
    """Returns the initial values of variables as bytes.

    ``generic`` gives, by name, the difference between a variable's generic address and its address
    in its space.
    """
    content = bytearray(size)
    for variable in variables:
        at, width = addresses[variable.name] - base, variable.type.size
        for number, value in enumerate(variable.initial):
            if isinstance(value, AddressOf):
                byte = value.byte
                value = (
                    addresses[value.symbol]
                    + value.offset
                    + (generic.get(value.symbol, 0) if value.generic else 0)
                )
                value = value if byte is None else value >> byte & 0xFF
            place = at + number * width
            content[place : place + width] = (value & (1 << 8 * width) - 1).to_bytes(
                width, "little"
            )
    return bytes(content)


def _arguments(
    module: PtxModule,
    entry: PtxFunction,
    arguments: list[Argument],
    buffers: Mapping[str, tuple[int, int]],
) -> tuple[bytes, ...]:
    """Encodes the arguments; returns the bytes of each parameter."""
    offsets, _ = parameter_offsets(entry.parameters)
    parameters = []
    for number, (variable, offset) in enumerate(zip(entry.parameters, offsets, strict=True)):
        assert isinstance(variable, PtxVariable)
        kind = variable.type.value if variable.count == 1 else None
        parameters.append(EntryParameter(number, offset, variable.size, kind, str(variable.name)))
    addresses = {name: base for name, (base, _) in buffers.items()}
    block = parameter_block(arguments, parameters, addresses, f"{module.name}: entry {entry.name}")
    return tuple(block[one.offset : one.offset + one.size] for one in parameters)


def place(
    module: PtxModule,
    arguments: Iterable[Argument] = (),
    *,
    entry: str | None = None,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    local: int = LOCAL_DEFAULT,
    dynamic_shared: int = 0,
    undefined: int = 0,
) -> PtxLaunch:
    """Places a program and the buffers of its arguments in a new memory.

    Raises ProgramError if the arguments do not match the entry's parameters.
    """
    function = _entry(module, entry)
    arguments = list(arguments)
    if (why := function.bounds.refusal(block)) is not None:
        raise ProgramError(f"{module.name}: entry {function.name} {why}")
    variables = _static(module)
    addresses = {
        name: (number + 1) * _FUNCTION_BYTES for number, name in enumerate(module.functions)
    }
    own = CallGraph(module).shared_variables(function.name)
    shared = _lay_out(own, addresses)
    # Shared variables of other kernels get no address here: an access to one is out of range.
    addresses.update(
        {variable.name: shared for variable in variables[PtxSpace.SHARED] if variable not in own}
    )
    constants = _lay_out(variables[PtxSpace.CONST], addresses)
    memory = Memory()
    data = variables[PtxSpace.GLOBAL]
    alignment = max((variable.alignment for variable in data), default=1)
    base = memory.allocate(
        "globals", sum(variable.size + variable.alignment for variable in data), max(alignment, 256)
    )
    size = _lay_out(data, addresses, base)
    placed = place_buffers(arguments, memory, module.name)
    buffers = {
        name: (memory.regions[name][0], len(buffer.content)) for name, buffer in placed.items()
    }
    constant_base = memory.allocate("constants", constants, _CONSTANT_ALIGNMENT)
    generic = {variable.name: constant_base for variable in variables[PtxSpace.CONST]}
    memory.write(base, _content(data, size, base, addresses, generic))
    constant_bank = _content(variables[PtxSpace.CONST], constants, 0, addresses, generic)
    memory.write(constant_base, constant_bank)
    allot(memory, {variable.name: addresses[variable.name] for variable in data}, None, None)
    return PtxLaunch(
        module,
        function,
        _arguments(module, function, arguments, buffers),
        memory,
        constant_bank,
        constant_base,
        MappingProxyType(addresses),
        grid,
        block,
        shared + dynamic_shared,
        dynamic_shared,
        local,
        MappingProxyType(buffers),
        undefined,
    )
