"""Loads, stores, atomics, shuffles, and the orders and hints of the memory system."""

from .fields import bits, choice, define, flag
from .kinds import (
    AtomicOperation,
    AtomicType,
    CacheOperation,
    CompareAndSwapType,
    MembarScope,
    MemorySize,
    ShuffleMode,
    size_registers,
    texts,
)
from .syntax import (
    RZ,
    Access,
    Address,
    Constant,
    Field,
    Form,
    Immediate,
    Literal,
    Modifier,
    Pipe,
    Predicate,
    Register,
    Values,
)

__all__ = ["MEMORY"]

_SIZES = texts(MemorySize, B32="", B64=".64", B128=".128", U128=".U.128")
_STORE_SIZES = {code: text for code, text in _SIZES.items() if code != MemorySize.U128.value}
_LOAD_CACHE = {0: "", 1: ".CG", 2: ".CI", 3: ".CV"}
_LOCAL_CACHE = {0: "", 1: ".LU", 2: ".CI", 3: ".CV"}
_STORE_CACHE = {0: "", 1: ".CG", 2: ".CS", 3: ".WT"}


def _loaded(values: Values) -> int:
    """Registers that a load fills or a store reads."""
    return size_registers(values["size"])


_RESULT = Register("Rd", Access.WRITE, span=_loaded)
_DATA = Register("Rd", span=_loaded)
_POINTER = Address("Ra", "offset", wide="wide")
_OFFSET = Address("Ra", "offset")
_OFFSET24 = {"offset": bits(20, 24, signed=True)}
_IN_WINDOW = Predicate("Pc", optional=True)

_Modifier = tuple[dict[str, Field], Modifier]


def _size(lowest: int, spelled: dict[int, str]) -> _Modifier:
    return choice("size", bits(lowest, 3), spelled)


# An LDS of a whole word in the uniform kind is spelled ".U.32", so both fields together make the
# modifier.
_SHARED_SIZES = _STORE_SIZES | {
    8 | code: ".U" + (text or ".32") for code, text in _STORE_SIZES.items()}

LOADS_AND_STORES: list[Form] = [
    define(
        "LDG",
        0xEED0 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"d": _RESULT, "address": _POINTER},
        (flag("wide", 45, ".E"), choice("cache", bits(46, 2), _LOAD_CACHE), _size(48, _SIZES)),
        fields=_OFFSET24,
    ),
    define(
        "STG",
        0xEED8 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"address": _POINTER, "b": _DATA},
        (
            flag("wide", 45, ".E"),
            choice("cache", bits(46, 2), _STORE_CACHE),
            _size(48, _STORE_SIZES),
        ),
        fields=_OFFSET24,
    ),
    define(
        "LDL",
        0xEF40 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"d": _RESULT, "address": _OFFSET},
        (choice("cache", bits(44, 2), _LOCAL_CACHE), _size(48, _STORE_SIZES)),
        fields=_OFFSET24,
    ),
    define(
        "STL",
        0xEF50 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"address": _OFFSET, "b": _DATA},
        (choice("cache", bits(44, 2), _STORE_CACHE), _size(48, _STORE_SIZES)),
        fields=_OFFSET24,
    ),
    define(
        "LDS",
        0xEF48 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"d": _RESULT, "address": _OFFSET},
        (choice("uniform_size", Field(((48, 3), (44, 1))), _SHARED_SIZES),),
        fields=_OFFSET24 | {"size": bits(48, 3)},
    ),
    define(
        "STS",
        0xEF58 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"address": _OFFSET, "b": _DATA},
        (_size(48, _STORE_SIZES),),
        fields=_OFFSET24,
    ),
    define(
        "LDC",
        0xEF90 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"d": _RESULT, "a": Constant(index="Ra")},
        (
            _size(
                48, {code: text for code, text in _SIZES.items() if code < MemorySize.B128.value}
            ),
            choice("mode", bits(44, 2), {0: "", 1: ".IL", 2: ".IS", 3: ".ISL"}),
        ),
        fields={"offset": bits(20, 16, signed=True), "bank": bits(36, 5)},
    ),
    define(
        "LD",
        0x8000 << 48,
        0xE000 << 48,
        Pipe.MEMORY,
        {"d": _RESULT, "address": _POINTER, "x": _IN_WINDOW},
        (flag("wide", 52, ".E"), choice("cache", bits(56, 2), _LOAD_CACHE), _size(53, _SIZES)),
        fields={"offset": bits(20, 32, signed=True), "Pc": bits(58, 3)},
    ),
    define(
        "ST",
        0xA000 << 48,
        0xE000 << 48,
        Pipe.MEMORY,
        {"address": _POINTER, "b": _DATA, "x": _IN_WINDOW},
        (
            flag("wide", 52, ".E"),
            choice("cache", bits(56, 2), _STORE_CACHE),
            _size(53, _STORE_SIZES),
        ),
        fields={"offset": bits(20, 32, signed=True), "Pc": bits(58, 3)},
    ),
]

_ATOMIC_TYPES = texts(AtomicType, U32="", F32=".F32.FTZ.RN")
_SHARED_TYPES = {0: "", 1: ".S32", 2: ".U64", 3: ".S64"}
_OPERATIONS = texts(AtomicOperation)
_SHARED_OPERATIONS = {
    code: text for code, text in _OPERATIONS.items() if code <= AtomicOperation.EXCH.value}
_REDUCTIONS = {
    code: text for code, text in _OPERATIONS.items() if code <= AtomicOperation.XOR.value}
_CAS_TYPES = texts(
    CompareAndSwapType,
    CAST_64=".CAST.64",
    CAST_SPIN=".CAST.SPIN",
    CAST_SPIN_64=".CAST.SPIN.64",
    CAS_64=".CAS.64",
)
_WIDE_TYPES = (AtomicType.U64.value, AtomicType.S64.value)


def _atomic(values: Values) -> int:
    """Registers of a global atomic's operand."""
    if values["type"] == AtomicType.U128.value:
        return 4
    return 2 if values["type"] in _WIDE_TYPES else 1


def _shared_atomic(values: Values) -> int:
    """Registers of a shared atomic's operand."""
    return 2 if values["type"] in (2, 3) else 1


def _global_cas(values: Values) -> int:
    """Registers of a global compare and swap's operands."""
    return 1 + values["wide_data"]


def _shared_cas(values: Values) -> int:
    """Registers of a shared compare and swap's operands."""
    return 1 + values["compare_and_swap"] % 2


_OFFSET20 = {"offset": bits(28, 20, signed=True)}
_OFFSET22 = {"offset": bits(30, 22, signed=True, scale=4)}


def _compare_and_swap(
    name: str,
    match: int,
    mask: int,
    layout_at: int,
    address: Address,
    span,  # noqa: ANN001
    modifiers: tuple[_Modifier, ...],
    fields: dict[str, Field],
) -> list[Form]:
    """Compare value and new value follow each other from Rb on, or one of them is zero."""
    compare, swap = Register("Rb", span=span), Register("Rb", span=span, offset=span)
    zero = Literal("RZ")
    layouts = {"bb": (compare, swap), "bz": (compare, zero), "zb": (zero, compare)}
    return [
        define(
            name,
            match | code << layout_at,
            mask | 3 << layout_at,
            Pipe.MEMORY,
            {
                "d": Register("Rd", Access.WRITE, span=span),
                "address": address,
                "b": first,
                "c": second,
            },
            modifiers,
            variant=variant,
            fields=fields,
        )
        for code, (variant, (first, second)) in enumerate(layouts.items())
    ]


ATOMICS: list[Form] = [
    define(
        "ATOM",
        0xED00 << 48,
        0xFF00 << 48,
        Pipe.MEMORY,
        {
            "d": Register("Rd", Access.WRITE, span=_atomic),
            "address": _POINTER,
            "b": Register("Rb", span=_atomic),
        },
        (
            flag("wide", 48, ".E"),
            choice("operation", bits(52, 4), texts(AtomicOperation)),
            choice("type", bits(49, 3), _ATOMIC_TYPES),
        ),
        fields=_OFFSET20,
    ),
    *_compare_and_swap(
        "ATOM",
        0xEEF0 << 48,
        0xFFF0 << 48,
        50,
        _POINTER,
        _global_cas,
        (
            flag("wide", 48, ".E"),
            choice("compare_and_swap", Field(((52, 4),)), {15: ".CAS"}),
            flag("wide_data", 49, ".64"),
        ),
        _OFFSET20,
    ),
    define(
        "ATOMS",
        0xEC00 << 48,
        0xFF00 << 48,
        Pipe.MEMORY,
        {
            "d": Register("Rd", Access.WRITE, span=_shared_atomic),
            "address": _OFFSET,
            "b": Register("Rb", span=_shared_atomic),
        },
        (
            choice("operation", bits(52, 4), _SHARED_OPERATIONS),
            choice("type", bits(28, 2), _SHARED_TYPES),
        ),
        fields=_OFFSET22,
    ),
    *_compare_and_swap(
        "ATOMS",
        0xEE00 << 48,
        0xFF80 << 48,
        28,
        _OFFSET,
        _shared_cas,
        (choice("compare_and_swap", bits(52, 3), _CAS_TYPES),),
        _OFFSET22,
    ),
    define(
        "RED",
        0xEBF8 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"address": _POINTER, "b": Register("Rd", span=_atomic)},
        (
            flag("wide", 48, ".E"),
            choice("operation", bits(23, 3), _REDUCTIONS),
            choice("type", bits(20, 3), _ATOMIC_TYPES),
        ),
        fields=_OFFSET20,
    ),
]

_SHUFFLE_MODE = choice("mode", bits(30, 2), texts(ShuffleMode))
_SHUFFLE_P = Predicate("Pd", Access.WRITE)
_SHUFFLE_FIELDS = {"Pd": bits(48, 3)}
_LANE, _CLAMP = Immediate("lane", 5), Immediate("clamp", 13)
_NO_REUSE_A = Register("Ra")
_NO_REUSE_B = Register("Rb")
_NO_REUSE_C = Register("Rc")

SHUFFLES: list[Form] = [
    define(
        "SHFL",
        0xEF10 << 48 | lane_immediate << 28 | clamp_immediate << 29,
        0xFFF8 << 48 | 3 << 28,
        Pipe.MEMORY,
        {
            "p": _SHUFFLE_P,
            "d": Register("Rd", Access.WRITE),
            "a": _NO_REUSE_A,
            "b": _LANE if lane_immediate else _NO_REUSE_B,
            "c": _CLAMP if clamp_immediate else _NO_REUSE_C,
        },
        (_SHUFFLE_MODE,),
        variant="ri"[lane_immediate] + "ri"[clamp_immediate],
        fields=_SHUFFLE_FIELDS
        | ({"lane": bits(20, 5)} if lane_immediate else {})
        | ({"clamp": bits(34, 13)} if clamp_immediate else {}),
    )
    for lane_immediate in (0, 1)
    for clamp_immediate in (0, 1)
]

_CACHE_OPERATIONS = texts(CacheOperation, PF1_5=".PF1.5")
_CACHES = {0: "", 1: ".U", 2: ".C", 3: ".I", 4: ".CRS"}
_INVALIDATE = {0: "", 1: ".IVALLD", 2: ".IVALLT", 3: ".IVALLTD"}
_ALL = CacheOperation.IVALL.value


def _without(*operations: CacheOperation) -> dict[int, str]:
    excluded = {operation.value for operation in operations}
    return {code: text for code, text in _CACHE_OPERATIONS.items() if code not in excluded}


_CCTL_FIELDS = {"offset": bits(22, 30, signed=True, scale=4)}
_CCTLL_FIELDS = {"offset": bits(22, 22, signed=True, scale=4)}
_CCTL_CACHE = choice("cache", bits(4, 3), _CACHES)
_CCTL_WIDE = flag("wide", 52, ".E")

HINTS_AND_ORDERS: list[Form] = [
    define(
        "MEMBAR",
        0xEF98 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {},
        (
            choice("scope", bits(8, 2), texts(MembarScope)),
            choice("invalidate", bits(0, 2), _INVALIDATE),
        ),
    ),
    define(
        "CCTL",
        0xEF60 << 48,
        0xFFE0 << 48 | 15,
        Pipe.MEMORY,
        {"address": Address("Ra", "offset", wide="wide", glued=True)},
        (_CCTL_WIDE, _CCTL_CACHE, choice("operation", bits(0, 4), {0: ".QRY1"})),
        variant="query",
        fields=_CCTL_FIELDS,
    ),
    define(
        "CCTL",
        0xEF60 << 48 | RZ << 8 | _ALL,
        0xFFE0 << 48 | ((1 << 30) - 1) << 22 | RZ << 8 | 15,
        Pipe.MEMORY,
        {},
        (_CCTL_WIDE, _CCTL_CACHE, choice("operation", bits(0, 4), {_ALL: ".IVALL"})),
        variant="all",
    ),
    define(
        "CCTL",
        0xEF60 << 48,
        0xFFE0 << 48,
        Pipe.MEMORY,
        {"address": Address("Ra", "offset", wide="wide")},
        (
            _CCTL_WIDE,
            _CCTL_CACHE,
            choice(
                "operation",
                bits(0, 4),
                _without(CacheOperation.QRY1, CacheOperation.IVALL, CacheOperation.WBALL),
            ),
        ),
        variant="address",
        fields=_CCTL_FIELDS,
    ),
    define(
        "CCTLL",
        0xEF80 << 48 | RZ << 8 | 0x18,
        0xFFF8 << 48 | ((1 << 22) - 1) << 22 | RZ << 8 | 0x3F,
        Pipe.FLOW,
        {},
        (
            choice("cache", bits(4, 2), {1: ".CRS"}),
            choice("operation", bits(0, 4), {CacheOperation.WBALL.value: ".WBALL"}),
        ),
        variant="stack",
    ),
    define(
        "CCTLL",
        0xEF80 << 48 | RZ << 8 | _ALL,
        0xFFF8 << 48 | ((1 << 22) - 1) << 22 | RZ << 8 | 0x3F,
        Pipe.MEMORY,
        {},
        (choice("operation", bits(0, 4), {_ALL: ".IVALL"}),),
        variant="all",
    ),
    define(
        "CCTLL",
        0xEF80 << 48,
        0xFFF8 << 48,
        Pipe.MEMORY,
        {"address": _OFFSET},
        (
            choice("cache", bits(4, 2), {0: ""}),
            choice(
                "operation",
                bits(0, 4),
                _without(CacheOperation.QRY1, CacheOperation.IVALL, CacheOperation.WBALL),
            ),
        ),
        variant="address",
        fields=_CCTLL_FIELDS,
    ),
]

MEMORY: list[Form] = [*LOADS_AND_STORES, *ATOMICS, *SHUFFLES, *HINTS_AND_ORDERS]
"""All forms of this module."""
