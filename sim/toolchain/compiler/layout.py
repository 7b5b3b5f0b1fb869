"""Where the variables of a module are."""

from dataclasses import dataclass, field

from sim.toolchain.ptx.module import PtxModule, Space, Variable

__all__ = ["CONSTANT_BANK", "PARAMETER_BASE", "DriverWord", "Layout", "aligned"]

CONSTANT_BANK = 3
"""The bank of users' constants."""
PARAMETER_BASE = 0x140
"""Where a kernel's parameters begin in bank 0."""


class DriverWord:
    """Offsets in bank 0 of what the driver writes there."""

    SHARED_WINDOW = 0x0
    LOCAL_WINDOW = 0x4
    NTID = 0x8
    NCTAID = 0x14
    STACK = 0x20
    GRID_ID = 0x28
    ENVIRONMENT = 0x30
    DYNAMIC_SHARED = 0xFC


def aligned(place: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-place // alignment) * alignment


@dataclass
class Layout:
    """Places of constants in their bank and of shared variables, in bytes. Shared variables whose size the launch
    decides are all behind the others.
    """

    constants: list[Variable] = field(default_factory=list)
    shared: list[Variable] = field(default_factory=list)
    globals: list[Variable] = field(default_factory=list)
    places: dict[Variable, int] = field(default_factory=dict)
    shared_bytes: int = 0

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
        end = 0
        dynamic = [variable for variable in found.shared if variable.count is None]
        for variable in [variable for variable in found.shared if variable.count is not None]:
            found.places[variable] = aligned(end, variable.alignment)
            end = found.places[variable] + variable.size
        if dynamic:
            end = aligned(end, max(variable.alignment for variable in dynamic))
            found.places.update(dict.fromkeys(dynamic, end))
        found.shared_bytes = end
        return found

    def place(self, variable: Variable) -> int | None:
        """Where a constant or shared variable is; None for a global one."""
        return self.places.get(variable)
