"""The memory layout of a module: offsets of its variables, parameters and tables."""

from dataclasses import dataclass, field, replace

from sim.support.alignment import round_up
from sim.toolchain.ptx.call_graph import CallGraph
from sim.toolchain.ptx.module import PtxInstruction, PtxModule, PtxSpace, PtxVariable

from .abi import FRAME_ALIGNMENT

__all__ = [
    "CONSTANT_BANK",
    "FAR_TABLE",
    "FUNCTION_TABLE",
    "HANDLE_BYTES",
    "PARAMETER_BANK",
    "PARAMETER_BASE",
    "TABLE_BANK",
    "DriverWord",
    "MemoryLayout",
    "SharedLayout",
]

CONSTANT_BANK = 3
"""The constant bank of the module's constants."""
TABLE_BANK = 2
"""The constant bank of a kernel's tables."""
FUNCTION_TABLE = ".functions"
"""The name of a kernel's function table. Names in PTX have no dots."""
HANDLE_BYTES = 8
"""The size of an entry of the function table. As in NVIDIA's files, a function pointer in memory or
a register is the offset of the entry: each kernel has its own copies of functions, but the offset
is the same in all tables.
"""
FAR_TABLE = 1 << 15
"""The limit of the table offset that an instruction can add to the index of a branch."""
_DYNAMIC_ALIGNMENT = 16
"""The least alignment in bytes of a kernel's dynamic shared memory, as in NVIDIA's files."""
PARAMETER_BANK = 0
PARAMETER_BASE = 0x140
"""The offset of a kernel's parameters in their constant bank."""


class DriverWord:
    """Offsets in bank 0 of the words that the driver writes."""

    SHARED_WINDOW = 0x0
    LOCAL_WINDOW = 0x4
    NTID = 0x8
    NCTAID = 0x14
    STACK = 0x20
    GRID_ID = 0x28
    ENVIRONMENT = 0x30
    CONSTANTS = 0xD0
    DYNAMIC_SHARED = 0xFC


@dataclass(frozen=True)
class SharedLayout:
    """A kernel's shared memory: offsets of the variables that it uses, total size, and alignment,
    in bytes.

    All variables of dynamic size are at the same offset, after the others.
    """

    offsets: dict[PtxVariable, int]
    size: int = 0
    alignment: int = 1

    @classmethod
    def of(cls, variables: list[PtxVariable]) -> "SharedLayout":
        """Returns a layout with the variables in order."""
        offsets = {}
        end = 0
        dynamic = [variable for variable in variables if variable.count is None]
        for variable in variables:
            if variable.count is not None:
                offsets[variable] = round_up(end, variable.alignment)
                end = offsets[variable] + variable.size
        alignment = max((variable.alignment for variable in variables), default=1)
        if dynamic:
            alignment = max(alignment, _DYNAMIC_ALIGNMENT)
            end = round_up(
                end, max(_DYNAMIC_ALIGNMENT, *(variable.alignment for variable in dynamic))
            )
            offsets.update(dict.fromkeys(dynamic, end))
        return cls(offsets, end, alignment)

    def offset(self, variable: PtxVariable) -> int:
        """Returns the offset of a variable; the end of all variables if the kernel does not
        use it.
        """
        return self.offsets.get(variable, self.size)


@dataclass
class MemoryLayout:
    """The layout of a module's variables. Offsets and sizes are in bytes.

    Attributes:
        constants: The constants.
        globals: The variables in global memory.
        offsets: Offsets of constants in their bank, of kernel parameters in their block, and of
            shared variables in the layout of one function.
        constant_bytes: The size of all constants.
        handles: Offsets of functions in the function tables, whose first entry has no function.
        shared: The shared memory of each kernel.
        far_tables: Whether tables of branch targets may reach beyond FAR_TABLE.
        shared_used: The shared variables that each function names.
        kernels: The kernels that may call each function.
        locals: Offsets of the module's variables in local space, from ``local_bytes`` below the
            start of a thread's stack.
        local_bytes: The size of these variables.
    """

    constants: list[PtxVariable] = field(default_factory=list)
    globals: list[PtxVariable] = field(default_factory=list)
    offsets: dict[PtxVariable, int] = field(default_factory=dict)
    constant_bytes: int = 0
    handles: dict[str, int] = field(default_factory=dict)
    shared: dict[str, SharedLayout] = field(default_factory=dict)
    far_tables: bool = False
    shared_used: dict[str, list[PtxVariable]] = field(default_factory=dict)
    kernels: dict[str, list[str]] = field(default_factory=dict)
    locals: dict[PtxVariable, int] = field(default_factory=dict)
    local_bytes: int = 0

    @classmethod
    def of(cls, module: PtxModule) -> "MemoryLayout":
        """Returns the layout of a module."""
        found = cls()
        everything = [
            *module.variables,
            *(
                variable
                for function in module.functions.values()
                for variable in function.variables
            ),
        ]
        kinds = {PtxSpace.CONST: found.constants, PtxSpace.GLOBAL: found.globals}
        for variable in everything:
            if variable.space in kinds:
                kinds[variable.space].append(variable)
        end = 0
        for variable in found.constants:
            found.offsets[variable] = round_up(end, variable.alignment)
            end = found.offsets[variable] + variable.size
        found.constant_bytes = end
        found._lay_out_shared(module)
        end = 0
        for variable in module.variables:
            if variable.space is PtxSpace.LOCAL:
                found.locals[variable] = round_up(end, max(variable.alignment, 4))
                end = found.locals[variable] + variable.size
        found.local_bytes = round_up(end, FRAME_ALIGNMENT)
        named = [
            function.name
            for function in module.functions.values()
            if not function.entry and function.body is not None
        ]
        found.handles = {name: number * HANDLE_BYTES for number, name in enumerate(named, 1)}
        targets = [
            len(item.targets)
            for function in module.functions.values()
            for item in function.body or ()
            if isinstance(item, PtxInstruction)
        ]
        found.far_tables = 4 * sum(targets) + HANDLE_BYTES * (len(named) + 1) > FAR_TABLE
        return found

    def _lay_out_shared(self, module: PtxModule) -> None:
        """Lays out the shared memory of each kernel: the variables that it and its callees use,
        from offset 0.
        """
        calls = CallGraph(module)
        for function in module.functions.values():
            used = [
                variable
                for variable in calls.used_variables(function.name)
                if variable.space is PtxSpace.SHARED
            ]
            self.shared_used[function.name] = sorted(used, key=lambda variable: variable.name)
            self.kernels[function.name] = []
        for entry in module.functions.values():
            if entry.entry and entry.body is not None:
                self.shared[entry.name] = SharedLayout.of(calls.shared_variables(entry.name))
                for function in calls.functions(entry.name):
                    self.kernels[function.name].append(entry.name)

    def versions(self, function: str) -> "list[tuple[list[str], MemoryLayout]]":
        """Returns the layouts for which a function is compiled: one for each set of offsets of its
        shared variables, with the kernels in which they have these offsets.
        """
        used = self.shared_used[function]
        found: dict[tuple[int, ...], list[str]] = {}
        for kernel in self.kernels[function]:
            found.setdefault(tuple(map(self.shared[kernel].offset, used)), []).append(kernel)
        if not found:
            found[(0,) * len(used)] = []
        if not used:
            return [(kernels, self) for kernels in found.values()]
        return [
            (
                kernels,
                replace(self, offsets={**self.offsets, **dict(zip(used, offsets, strict=True))}),
            )
            for offsets, kernels in found.items()
        ]
