"""PTX's rounding modifiers, and the field values for them."""

from rtl.isa.kinds import FloatRounding
from sim.toolchain.compiler.opcodes import WholeRounding

__all__ = ["ROUNDINGS", "TO_WHOLE", "WHOLE"]

ROUNDINGS = {
    "": FloatRounding.RN,
    **{rounding.name.lower(): rounding for rounding in FloatRounding},
}
"""Roundings of results; the default is to nearest."""
TO_WHOLE = {
    "rni": FloatRounding.RN,
    "rmi": FloatRounding.RM,
    "rpi": FloatRounding.RP,
    "rzi": FloatRounding.RZ,
}
"""Roundings of conversions to integers."""
WHOLE = {
    "rni": WholeRounding.ROUND,
    "rmi": WholeRounding.FLOOR,
    "rpi": WholeRounding.CEIL,
    "rzi": WholeRounding.TRUNC,
}
"""Roundings to integral values of the same format."""
