"""Special registers: which the machine has, which the driver has written to constants, which are computed."""

from rtl.isa.kinds import Compare
from sim.toolchain.compiler.ir import RZ, Source, number
from sim.toolchain.compiler.layout import DriverWord
from sim.toolchain.compiler.opcodes import value_of
from sim.toolchain.ptx.module import PtxSpecialRegister

from .builder import Builder, constant

__all__ = ["special_words"]

_AXES = {"x": 0, "y": 4, "z": 8}
_STATE = {
    "laneid": "SR_LANEID",
    "lanemask_eq": "SR_EQMASK",
    "lanemask_lt": "SR_LTMASK",
    "lanemask_le": "SR_LEMASK",
    "lanemask_gt": "SR_GTMASK",
    "lanemask_ge": "SR_GEMASK",
    "total_smem_size": "SR_SMEMSZ",
}
_CLOCKS = {
    "clock": "SR_CLOCKLO",
    "clock_hi": "SR_CLOCKHI",
    "globaltimer_lo": "SR_GLOBALTIMERLO",
    "globaltimer_hi": "SR_GLOBALTIMERHI",
    **{f"pm{at}": f"SR_PM{at}" for at in range(8)},
}
_LONG_CLOCKS = {
    "clock64": ("SR_CLOCKLO", "SR_CLOCKHI"),
    "globaltimer": ("SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI"),
    **{f"pm{at}_64": (f"SR_PM{at}", f"SR_PM_HI{at}") for at in range(8)},
}
_FIELDS = {
    "warpid": ("SR_VIRTID", 0x608),
    "smid": ("SR_VIRTID", 0x914),
    "nsmid": ("SR_VIRTCFG", 0x914),
}
_WARPS_OF_SM = 64


def special_words(b: Builder, register: PtxSpecialRegister) -> list[Source]:
    """The words of a special register."""
    name, axis = register.name, register.component
    if name in ("tid", "ctaid"):
        return [
            b.compute(
                "S2R", special=value_of("S2R", "special", f"SR_{name.upper()}.{axis.upper()}")
            )
        ]
    if name in ("ntid", "nctaid"):
        base = DriverWord.NTID if name == "ntid" else DriverWord.NCTAID
        return [constant(0, base + _AXES[axis])]
    if name in _STATE:
        return [b.compute("S2R", special=value_of("S2R", "special", _STATE[name]))]
    if name in _FIELDS:
        text, field = _FIELDS[name]
        whole = b.compute("S2R", special=value_of("S2R", "special", text))
        return [b.compute("BFE", whole, number(field), signed=False)]
    if name in _CLOCKS:
        return [b.compute("CS2R", special=value_of("CS2R", "special", _CLOCKS[name]))]
    if name in _LONG_CLOCKS:
        return _long_clock(b, *_LONG_CLOCKS[name])
    if name == "nwarpid":
        return [number(_WARPS_OF_SM)]
    if name == "current_graph_exec":
        return [RZ, RZ]
    if name == "gridid":
        return [constant(0, DriverWord.GRID_ID), constant(0, DriverWord.GRID_ID + 4)]
    if name == "dynamic_smem_size":
        return [constant(0, DriverWord.DYNAMIC_SHARED)]
    if name.startswith("envreg"):
        return [constant(0, DriverWord.ENVIRONMENT + 4 * int(name.removeprefix("envreg")))]
    raise b.failure(f"%{name} is not translated")


def _long_clock(b: Builder, low_name: str, high_name: str) -> list[Source]:
    """A counter of two words. One that has just carried shows a lower word without its top bit: only if that is set the
    upper word, read before, may be old, and is read again.
    """
    high, above = b.temporary(), value_of("CS2R", "special", high_name)
    b.op("CS2R", [high], special=above)
    low = b.compute("CS2R", special=value_of("CS2R", "special", low_name))
    small = b.temporary(True)
    b.compare(small, Compare.LT, low, RZ)
    again = b.op("CS2R", [high], special=above)
    again.guard = Source(small, inverted=True)
    return [low, Source(high)]
