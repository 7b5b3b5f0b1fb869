"""PTX's roundings, and the instructions' fields for them."""

from rtl.isa.kinds import FloatRounding
from sim.toolchain.compiler.opcodes import WholeRounding

__all__ = ["ROUNDINGS", "TO_WHOLE", "WHOLE"]

ROUNDINGS = {
    "": FloatRounding.RN,
    **{rounding.name.lower(): rounding for rounding in FloatRounding},
}
"""Of results; none is to the nearest."""
TO_WHOLE = {
    "rni": FloatRounding.RN,
    "rmi": FloatRounding.RM,
    "rpi": FloatRounding.RP,
    "rzi": FloatRounding.RZ,
}
"""Of numbers that become integers."""
WHOLE = {
    "rni": WholeRounding.ROUND,
    "rmi": WholeRounding.FLOOR,
    "rpi": WholeRounding.CEIL,
    "rzi": WholeRounding.TRUNC,
}
"""Of numbers that become whole ones of their format."""
