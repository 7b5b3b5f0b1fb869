"""The structures of core.h and core.cc in ctypes; :class:`NativeWarp` is ``Warp`` there."""

import ctypes
from ctypes import (
    POINTER,
    Structure,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

__all__ = [
    "BANKS",
    "BARRIER_COUNT",
    "DISABLED",
    "LANES",
    "ROWS",
    "SLOTS",
    "NativeArrival",
    "NativeBarrier",
    "NativeCta",
    "NativeMachine",
    "NativeOp",
    "NativeRegion",
    "NativeToken",
    "NativeWarp",
    "check_sizes",
]

LANES, ROWS, SLOTS, BANKS, BARRIER_COUNT = 32, 257, 64, 18, 17
DISABLED = ("broken", "continued", "returned", "exited", "longjumped", "killed")
"""The disabled masks, in the order of the structure."""
Address = c_void_p


class NativeOp(Structure):
    """A decoded instruction."""

    _fields_ = (
        ("function", Address),
        ("uniform", Address),
        ("number", c_int64),
        ("helper", Address),
        ("target", c_uint32),
        ("fallbacks", c_uint32),
        ("rows", c_uint16 * 8),
        ("predicates", c_uint8 * 8),
        ("truth", c_uint16),
        ("guard", c_uint8),
        ("guard_flip", c_uint8),
        ("has_test", c_uint8),
        ("a", c_uint8),
        ("b", c_uint8),
        ("c", c_uint8),
        ("d", c_uint8),
        ("e", c_uint8),
    )


class NativeToken(Structure):
    """A token on chip."""

    _fields_ = (("pc", c_uint32), ("mask", c_uint32), ("kind", c_uint32), ("counted", c_uint32))


class NativeWarp(Structure):
    """A warp."""

    _fields_ = (
        ("registers", Address),
        ("tokens", POINTER(NativeToken)),
        ("local_base", c_uint64),
        ("pc", c_uint32),
        ("next", c_uint32),
        ("address", c_uint32),
        ("last_pc", c_uint32),
        ("active", c_uint32),
        ("disabled", c_uint32 * len(DISABLED)),
        ("predicates", c_uint32 * 9),
        ("condition", c_uint32 * 4),
        ("depth", c_int32),
        ("first", c_int32),
        ("dirty", c_uint64),
        ("api_call_depth", c_int32),
        ("kill_future_branch", c_int32),
        ("barrier", c_int32),
        ("reduction", c_uint32),
        ("slot", c_int32),
        ("number", c_int32),
        ("cta", c_int32),
    )


class NativeRegion(Structure):
    """A range of memory."""

    _fields_ = (
        ("start", c_uint64),
        ("size", c_uint64),
        ("flat", Address),
        ("pages", Address),
        ("first_page", c_uint64),
        ("is_code", c_uint64),
    )


class NativeArrival(Structure):
    """A warp that waits at a barrier."""

    _fields_ = (
        ("slot", c_int32),
        ("reduction", c_int32),
        ("population", c_uint32),
        ("some_false", c_uint32),
        ("some_true", c_uint32),
    )


class NativeBarrier(Structure):
    """A barrier."""

    _fields_ = (
        ("arrived", c_uint32),
        ("expected", c_uint32),
        ("population", c_uint32),
        ("some_false", c_uint32),
        ("some_true", c_uint32),
        ("waiting", c_int32),
        ("arrivals", NativeArrival * SLOTS),
    )


class NativeCta(Structure):
    """A CTA."""

    _fields_ = (
        ("index", c_uint32 * 3),
        ("live", c_int32),
        ("serial", c_uint64),
        ("shared", Address),
        ("keeps_reference", c_uint32),
        ("unused", c_uint32),
        ("barriers", NativeBarrier * BARRIER_COUNT),
    )


class NativeMachine(Structure):
    """The machine: all state of the core."""

    _fields_ = (
        ("warps", POINTER(NativeWarp)),
        ("ctas", POINTER(NativeCta)),
        ("ops", POINTER(NativeOp)),
        ("op_count", c_uint64),
        ("regions", POINTER(NativeRegion)),
        ("region_count", c_uint64),
        ("recent", POINTER(NativeRegion)),
        ("missing_page", c_uint64),
        ("zeros", Address),
        ("left", c_uint64),
        ("clock", c_uint64),
        ("ready", c_uint64),
        ("occupied", c_uint64),
        ("slot_mask", c_uint64),
        ("free_ctas", c_uint64),
        ("next_cta", c_uint64),
        ("cta_count", c_uint64),
        ("grid", c_uint32 * 3),
        ("slots", c_int32),
        ("last", c_int32),
        ("slot", c_int32),
        ("may_start", c_int32),
        ("cta_warps", c_int32),
        ("entry", c_uint32),
        ("register_rows", c_uint32),
        ("local_memory", c_uint64),
        ("warp_block", c_uint64),
        ("local_bytes", c_uint64),
        ("shared_bytes", c_uint64),
        ("stack_limit", c_int32),
        ("on_chip", c_int32),
        ("check_api_calls", c_int32),
        ("barriers", c_int32),
        ("created", Address),
        ("banks", Address * BANKS),
        ("bank_bytes", c_uint64 * BANKS),
    )


def check_sizes(library: ctypes.CDLL) -> None:
    """Raises AssertionError if the sizes of the structures differ from the library's."""
    sizes = (c_uint64 * 6).in_dll(library, "sizes")
    own = [
        ctypes.sizeof(structure)
        for structure in (NativeMachine, NativeWarp, NativeOp, NativeCta, NativeRegion, NativeToken)
    ]
    assert list(sizes) == own, f"structures of {list(sizes)} bytes, here of {own}"
