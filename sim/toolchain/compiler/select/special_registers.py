"""Special registers: read from the machine, from constants that the driver writes, or computed."""

from collections.abc import Mapping

from rtl.isa.kinds import Compare
from rtl.isa.special_registers import SpecialRegister
from sim.toolchain.compiler.ir import RZ, Source, number
from sim.toolchain.compiler.layout import DriverWord
from sim.toolchain.compiler.opcodes import FieldValue, value_of
from sim.toolchain.ptx.module import Operand, PtxSpecialRegister, Type

from .builder import Builder, constant

__all__ = ["source_words", "special_words"]

_AXES = {"x": 0, "y": 4, "z": 8}
_COORDINATES = {
    ("tid", "x"): SpecialRegister.TID_X,
    ("tid", "y"): SpecialRegister.TID_Y,
    ("tid", "z"): SpecialRegister.TID_Z,
    ("ctaid", "x"): SpecialRegister.CTAID_X,
    ("ctaid", "y"): SpecialRegister.CTAID_Y,
    ("ctaid", "z"): SpecialRegister.CTAID_Z,
}
_STATE = {
    "laneid": SpecialRegister.LANEID,
    "lanemask_eq": SpecialRegister.EQMASK,
    "lanemask_lt": SpecialRegister.LTMASK,
    "lanemask_le": SpecialRegister.LEMASK,
    "lanemask_gt": SpecialRegister.GTMASK,
    "lanemask_ge": SpecialRegister.GEMASK,
    "total_smem_size": SpecialRegister.SMEMSZ,
}
_COUNTERS = [
    (value_of("CS2R", "special", f"SR_PM{at}"), value_of("CS2R", "special", f"SR_PM_HI{at}"))
    for at in range(8)
]
"""The lower and the upper word of each performance counter. This machine returns 0 for them."""
_CLOCKS: Mapping[str, FieldValue] = {
    "clock": SpecialRegister.CLOCKLO,
    "clock_hi": SpecialRegister.CLOCKHI,
    "globaltimer_lo": SpecialRegister.GLOBALTIMERLO,
    "globaltimer_hi": SpecialRegister.GLOBALTIMERHI,
    **{f"pm{at}": low for at, (low, _) in enumerate(_COUNTERS)},
}
_LONG_CLOCKS: Mapping[str, tuple[FieldValue, FieldValue]] = {
    "clock64": (SpecialRegister.CLOCKLO, SpecialRegister.CLOCKHI),
    "globaltimer": (SpecialRegister.GLOBALTIMERLO, SpecialRegister.GLOBALTIMERHI),
    **{f"pm{at}_64": both for at, both in enumerate(_COUNTERS)},
}
_FIELDS = {
    "warpid": (SpecialRegister.VIRTID, 0x608),
    "smid": (SpecialRegister.VIRTID, 0x914),
    "nsmid": (SpecialRegister.VIRTCFG, 0x914),
}
_WARPS_OF_SM = 64


def special_words(b: Builder, register: PtxSpecialRegister) -> list[Source]:
    """Returns the words of a special register."""
    name, axis = register.name, register.component
    if (name, axis) in _COORDINATES:
        return [b.compute("S2R", special=_COORDINATES[name, axis])]
    if name in ("ntid", "nctaid"):
        base = DriverWord.NTID if name == "ntid" else DriverWord.NCTAID
        return [constant(0, base + _AXES[axis])]
    if name in _STATE:
        return [b.compute("S2R", special=_STATE[name])]
    if name in _FIELDS:
        special, field = _FIELDS[name]
        whole = b.compute("S2R", special=special)
        return [b.compute("BFE", whole, number(field), signed=False)]
    if name in _CLOCKS:
        return [b.compute("CS2R", special=_CLOCKS[name])]
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


def _long_clock(b: Builder, lower: FieldValue, upper: FieldValue) -> list[Source]:
    """Returns a counter of two words.

    After a carry the lower word has a clear top bit. Only then the upper word, which is read first,
    may be stale, and is read again.
    """
    high = b.temporary()
    b.op("CS2R", [high], special=upper)
    low = b.compute("CS2R", special=lower)
    small = b.temporary(True)
    b.compare(small, Compare.LT, low, RZ)
    again = b.op("CS2R", [high], special=upper)
    again.guard = Source(small, inverted=True)
    return [low, Source(high)]


def source_words(b: Builder, source: Operand, kind: Type) -> list[Source]:
    """Returns the words of a conversion's source, read as this type; a special register is
    zero-extended or truncated.
    """
    if isinstance(source, PtxSpecialRegister):
        return [*special_words(b, source), RZ][: max(kind.bits // 32, 1)]
    return b.read(source, kind.bits)
