"""Special registers, by the number that S2R and CS2R carry."""

from enum import IntEnum
from typing import Any

__all__ = [
    "COORDINATES_AT",
    "OF_THREADS",
    "SHARED_BANKS",
    "SPECIAL_REGISTER_TEXTS",
    "VIRTUAL_SM_AT",
    "VIRTUAL_WARP_AT",
    "SpecialRegister",
    "packed_coordinates",
]

COORDINATES_AT = (0, 16, 26)
"""Where x, y and z begin in TID and NTID (ours)."""
VIRTUAL_WARP_AT = 8
"""Where compiled code expects the warp slot in VIRTID, and the number of slots in VIRTCFG."""
VIRTUAL_SM_AT = 20
"""Where compiled code expects the number of multiprocessors in VIRTCFG."""
SHARED_BANKS = 32
"""Banks of shared memory: the value of SMEMBANKS."""


class SpecialRegister(IntEnum):
    """The special registers that this machine answers with more than 0."""

    LANEID = 0
    CLOCK = 1
    VIRTCFG = 2
    VIRTID = 3
    TID = 32
    TID_X = 33
    TID_Y = 34
    TID_Z = 35
    CTAID_X = 37
    CTAID_Y = 38
    CTAID_Z = 39
    NTID = 40
    SWINLO = 48
    SWINSZ = 49
    SMEMSZ = 50
    SMEMBANKS = 51
    LWINLO = 52
    LWINSZ = 53
    LMEMLOSZ = 54
    LMEMHIOFF = 55
    EQMASK = 56
    LTMASK = 57
    LEMASK = 58
    GTMASK = 59
    GEMASK = 60
    REGALLOC = 61
    GLOBALERRORSTATUS = 64
    WARPERRORSTATUS = 66
    WARPERRORSTATUSCLEAR = 67
    CLOCKLO = 80
    CLOCKHI = 81
    GLOBALTIMERLO = 82
    GLOBALTIMERHI = 83


OF_THREADS = (
    SpecialRegister.LANEID, SpecialRegister.EQMASK, SpecialRegister.LTMASK, SpecialRegister.LEMASK,
    SpecialRegister.GTMASK, SpecialRegister.GEMASK, SpecialRegister.TID_X, SpecialRegister.TID_Y,
    SpecialRegister.TID_Z, SpecialRegister.TID)
"""The registers that differ from thread to thread."""

_NAMED = {register.value: f"SR_{register.name}" for register in SpecialRegister} | {
    4: "SR_PM0",
    5: "SR_PM1",
    6: "SR_PM2",
    7: "SR_PM3",
    8: "SR_PM4",
    9: "SR_PM5",
    10: "SR_PM6",
    11: "SR_PM7",
    16: "SR_PRIM_TYPE",
    17: "SR_INVOCATION_ID",
    18: "SR_Y_DIRECTION",
    19: "SR_THREAD_KILL",
    20: "SM_SHADER_TYPE",
    21: "SR_DIRECTCBEWRITEADDRESSLOW",
    22: "SR_DIRECTCBEWRITEADDRESSHIGH",
    23: "SR_DIRECTCBEWRITEENABLED",
    24: "SR_MACHINE_ID_0",
    25: "SR_MACHINE_ID_1",
    26: "SR_MACHINE_ID_2",
    27: "SR_MACHINE_ID_3",
    28: "SR_AFFINITY",
    29: "SR_INVOCATION_INFO",
    30: "SR_WSCALEFACTOR_XY",
    31: "SR_WSCALEFACTOR_Z",
    33: "SR_TID.X",
    34: "SR_TID.Y",
    35: "SR_TID.Z",
    36: "SR_CTA_PARAM",
    37: "SR_CTAID.X",
    38: "SR_CTAID.Y",
    39: "SR_CTAID.Z",
    41: "SR_CirQueueIncrMinusOne",
    42: "SR_NLATC",
    62: "SR_CTXADDR",
    72: "SR_PM_HI0",
    73: "SR_PM_HI1",
    74: "SR_PM_HI2",
    75: "SR_PM_HI3",
    76: "SR_PM_HI4",
    77: "SR_PM_HI5",
    78: "SR_PM_HI6",
    79: "SR_PM_HI7",
    96: "SR_HWTASKID",
    97: "SR_CIRCULARQUEUEENTRYINDEX",
    98: "SR_CIRCULARQUEUEENTRYADDRESSLOW",
    99: "SR_CIRCULARQUEUEENTRYADDRESSHIGH",
}

SPECIAL_REGISTER_TEXTS: dict[int, str] = {
    number: _NAMED.get(number, f"SR{number}") for number in range(256)}
"""Spelling of every special register number."""


def packed_coordinates(x: Any, y: Any, z: Any) -> Any:
    """Three coordinates in one register, as in TID and NTID; they overlap where one is too large.
    Hardware values, numbers or arrays of numbers."""
    return x << COORDINATES_AT[0] | y << COORDINATES_AT[1] | z << COORDINATES_AT[2]
