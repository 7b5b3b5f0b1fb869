"""Where the variables of a module are."""

from dataclasses import dataclass, field

from sim.toolchain.ptx.module import PtxModule, Space, Variable

from .abi import FRAME_ALIGNMENT

__all__ = ["CONSTANT_BANK", "FUNCTION_TABLE", "HANDLE_BYTES", "PARAMETER_BANK", "PARAMETER_BASE", "TABLE_BANK",
           "DriverWord", "Layout", "aligned"]

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


def aligned(place: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-place // alignment) * alignment


@dataclass
class Layout:
    """Places of constants in their bank, of entries' parameters in their block, of shared variables, in bytes. Shared
    variables whose size the launch decides are all behind the others. ``handles`` are places in the tables of
    functions, where the first is nobody's. ``locals`` are a module's variables in local space: offsets from
    ``local_bytes`` below the place where a thread's stack begins.
    """

    constants: list[Variable] = field(default_factory=list)
    shared: list[Variable] = field(default_factory=list)
    globals: list[Variable] = field(default_factory=list)
    places: dict[Variable, int] = field(default_factory=dict)
    shared_bytes: int = 0
    constant_bytes: int = 0
    handles: dict[str, int] = field(default_factory=dict)
    locals: dict[Variable, int] = field(default_factory=dict)
    local_bytes: int = 0

    @classmethod
    def of(cls, module: PtxModule) -> "Layout":
        """The layout of a module."""
        found = cls()
        everything = [*module.variables, *(variable for function in module.functions.values()
                                           for variable in function.variables)]
        kinds = {Space.CONST: found.constants, Space.SHARED: found.shared, Space.GLOBAL: found.globals}
        for variable in everything:
            if variable.space in kinds and variable not in kinds[variable.space]:
                kinds[variable.space].append(variable)
        end = 0
        for variable in found.constants:
            found.places[variable] = aligned(end, variable.alignment)
            end = found.places[variable] + variable.size
        found.constant_bytes, end = end, 0
        dynamic = [variable for variable in found.shared if variable.count is None]
        for variable in [variable for variable in found.shared if variable.count is not None]:
            found.places[variable] = aligned(end, variable.alignment)
            end = found.places[variable] + variable.size
        if dynamic:
            end = aligned(end, max(variable.alignment for variable in dynamic))
            found.places.update(dict.fromkeys(dynamic, end))
        found.shared_bytes = end
        end = 0
        for variable in module.variables:
            if variable.space is Space.LOCAL:
                found.locals[variable] = aligned(end, max(variable.alignment, 4))
                end = found.locals[variable] + variable.size
        found.local_bytes = aligned(end, FRAME_ALIGNMENT)
        named = [function.name for function in module.functions.values()
                 if not function.entry and function.body is not None]
        found.handles = {name: number * HANDLE_BYTES for number, name in enumerate(named, 1)}
        return found
