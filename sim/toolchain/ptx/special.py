"""Special registers by their names in PTX."""

import re
from collections.abc import Mapping

from sim.toolchain.grammar import SourceError

from .machines import first_machine
from .module import PtxImmediate, PtxSpecialRegister
from .syntax import NameNode

__all__ = ["VECTOR_REGISTERS", "WARP_SIZE", "special_register", "special_vector", "special_widths"]

WARP_SIZE = 32
"""The value of WARP_SZ."""

VECTOR_REGISTERS = ("%tid", "%ntid", "%ctaid", "%nctaid")
"""Special registers with components."""
_WIDTHS: Mapping[str, int] = {
    **dict.fromkeys(
        (
            "laneid",
            "warpid",
            "nwarpid",
            "smid",
            "nsmid",
            "lanemask_eq",
            "lanemask_lt",
            "lanemask_le",
            "lanemask_gt",
            "lanemask_ge",
            "clock",
            "clock_hi",
            "globaltimer_lo",
            "globaltimer_hi",
            "total_smem_size",
            "dynamic_smem_size",
            *(f"pm{number}" for number in range(8)),
            *(f"envreg{number}" for number in range(32)),
        ),
        32,
    ),
    **dict.fromkeys(
        (
            "gridid",
            "clock64",
            "globaltimer",
            "current_graph_exec",
            *(f"pm{number}_64" for number in range(8)),
        ),
        64,
    ),
}
"""The width in bits of each special register without components."""


_OLD_WIDTHS = {**dict.fromkeys(("tid", "ntid", "ctaid", "nctaid"), (16,)), "gridid": (16, 32)}
"""Further widths in which mov reads special registers: those of PTX before 2.0, and of %gridid
before 3.0.
"""


def special_widths(name: str) -> tuple[int, ...]:
    """Returns the widths in bits in which mov reads a special register, named without the percent
    sign.
    """
    own = 32 if f"%{name}" in VECTOR_REGISTERS else _WIDTHS[name]
    return own, *_OLD_WIDTHS.get(name, ())


def special_vector(name: NameNode) -> tuple[PtxSpecialRegister | PtxImmediate, ...] | None:
    """Returns the four elements of a special register without a component in its name, or None."""
    if name.token not in VECTOR_REGISTERS or name.component is not None:
        return None
    spelled = name.token[1:]
    return *(PtxSpecialRegister(spelled, axis) for axis in "xyz"), PtxImmediate(0)


def special_register(name: NameNode) -> tuple[PtxSpecialRegister | PtxImmediate, int] | None:
    """Returns the special register with a name, and its width in bits; None for other names. The
    fourth component is 0.
    """
    if not re.fullmatch(r"%\w+", name.token):
        return None
    spelled = name.token[1:]
    if name.token in VECTOR_REGISTERS:
        if name.component not in (".x", ".y", ".z", ".w"):
            raise SourceError(name.token, f"expected {name.token}.x, .y, .z or .w")
        if name.component == ".w":
            return PtxImmediate(0), 32
        return PtxSpecialRegister(spelled, name.component[1:]), 32
    machine = first_machine(name.token)
    if machine is not None:
        raise SourceError(name.token, f"{name.token}: needs {machine}, and this machine is sm_50")
    if spelled not in _WIDTHS:
        return None
    if name.component is not None:
        raise SourceError(name.component, f"{name.token} has no {name.component}")
    return PtxSpecialRegister(spelled), _WIDTHS[spelled]
