"""Special registers by the names that PTX gives them."""

import re
from collections.abc import Mapping

from sim.toolchain.grammar import SourceError

from .module import SpecialRegister
from .syntax import Name

__all__ = ["VECTOR_REGISTERS", "WARP_SIZE", "special_register"]

WARP_SIZE = 32
"""What WARP_SZ stands for."""

VECTOR_REGISTERS = ("%tid", "%ntid", "%ctaid", "%nctaid")
"""Those with components."""
_WIDTHS: Mapping[str, int] = {
    **dict.fromkeys(("laneid", "warpid", "nwarpid", "smid", "nsmid", "lanemask_eq", "lanemask_lt", "lanemask_le",
                     "lanemask_gt", "lanemask_ge", "clock", "clock_hi", "globaltimer_lo", "globaltimer_hi",
                     "total_smem_size", "dynamic_smem_size", *(f"pm{number}" for number in range(8)),
                     *(f"envreg{number}" for number in range(32))), 32),
    **dict.fromkeys(("gridid", "clock64", "globaltimer", *(f"pm{number}_64" for number in range(8))), 64),
}
"""Width in bits of those without components."""


def special_register(name: Name) -> tuple[SpecialRegister, int] | None:
    """The special register of a name, and its width in bits; None where it is none."""
    if not re.fullmatch(r"%\w+", name.token):
        return None
    spelled = name.token[1:]
    if name.token in VECTOR_REGISTERS:
        if name.component not in (".x", ".y", ".z"):
            raise SourceError(name.token, f"expected {name.token}.x, .y or .z")
        return SpecialRegister(spelled, name.component[1:]), 32
    if spelled not in _WIDTHS:
        return None
    if name.component is not None:
        raise SourceError(name.component, f"{name.token} has no {name.component}")
    return SpecialRegister(spelled), _WIDTHS[spelled]
