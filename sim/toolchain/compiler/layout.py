"""Where the variables of a module are."""

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
"""The bank of users' constants."""
TABLE_BANK = 2
"""The bank of a kernel's tables."""
FUNCTION_TABLE = ".functions"
"""What a kernel calls its table of functions; no name in PTX has a dot."""
HANDLE_BYTES = 8
"""Of a function in that table. As in NVIDIA's files the place there is what memory and registers hold of a function:
every kernel has its own copies of functions, and the place is the same in all tables.
"""
FAR_TABLE = 1 << 15
"""What an instruction that reads a table of branch targets can add to the index."""
_DYNAMIC_ALIGNMENT = 16
"""Where a kernel's shared memory of the launch's size begins, at least, as in NVIDIA's files."""
PARAMETER_BANK = 0
PARAMETER_BASE = 0x140
"""Where a kernel's parameters begin in their bank."""


class DriverWord:
    """Offsets in bank 0 of what the driver writes there."""

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
    """A kernel's shared memory: offsets of the variables that it uses, its bytes, and its alignment.

    Variables whose size the launch decides are all behind the others, at the same place.
    """

    offsets: dict[PtxVariable, int]
    size: int = 0
    alignment: int = 1

    @classmethod
    def of(cls, variables: list[PtxVariable]) -> "SharedLayout":
        """The variables behind one another."""
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
        """Where a variable is; behind all others if the kernel does not use it."""
        return self.offsets.get(variable, self.size)


@dataclass
class MemoryLayout:
    """Offsets of constants in their bank, of entries' parameters in their block, in bytes, and of shared variables in
    the layout of one function. ``handles`` are offsets in the tables of functions, where the first is nobody's.
    ``shared`` has the kernels' shared memories, ``shared_used`` the shared variables that each function names,
    ``kernels`` the kernels that may call each function. ``far_tables``: tables of branch targets may be beyond
    FAR_TABLE. ``locals`` are a module's variables in local space: offsets from ``local_bytes`` below the place where a
    thread's stack begins.
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
        """The layout of a module."""
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
        """Every kernel has the shared variables that it and the functions it calls use, from its own first byte on."""
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
        """The layouts that a function is compiled with: one for each choice of offsets that its shared variables have,
        and the kernels in which they have these.
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
