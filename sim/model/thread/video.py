"""Video instructions: subword operands, an exact first operation, saturation, and a second
operation.

The bounds of saturation are those of the written subword: a byte or a half if the result is merged
into the third operand. Left shifts are exact, so that saturation sees the bits that are shifted
out; a second operation takes the low 32 bits of the first result (ours). VMAD's third operand is
signed if a factor is signed or a term is negated.
"""

from collections.abc import Callable

from rtl.isa.kinds import Compare, VideoScale, VideoSecond
from rtl.isa.syntax import Register
from rtl.isa.video import IMMEDIATE_PART, WORD_PART

from .comparison import RELATION, writes_predicates
from .decode import Result, ThreadInstruction, result_of, semantics
from .integers import WORD, signed
from .state import Operation, Thread

_First = Callable[[int, int], int]
_SCALES = {VideoScale.NONE: 0, VideoScale.SHR_7: 7, VideoScale.SHR_15: 15}
_PLACES = {
    VideoSecond.MRG_16H: (16, 16),
    VideoSecond.MRG_16L: (0, 16),
    VideoSecond.MRG_8B0: (0, 8),
    VideoSecond.MRG_8B2: (16, 8),
}
"""Lowest bit and width of the part of the third operand that the first result replaces."""


def _part(i: ThreadInstruction, role: str) -> Result:
    """Returns a function that reads a subword of a source, sign-extended if its type is signed."""
    at, sign = i.source(role), i["signs"] >> "ab".index(role) & 1
    part = i[f"part_{role}"] if isinstance(i.form.operands[role], Register) else IMMEDIATE_PART
    low, size = (
        (0, 32) if part == WORD_PART else (16 * (part & 1), 16) if part & 4 else (8 * part, 8)
    )
    if sign:
        return lambda thread: signed(thread.values[at] >> low, size)
    return lambda thread: thread.values[at] >> low & (1 << size) - 1


def _bounds(to_signed: int, size: int) -> tuple[int, int]:
    return (-1 << size - 1, (1 << size - 1) - 1) if to_signed else (0, (1 << size) - 1)


def _negated(i: ThreadInstruction, first: str, second: str) -> tuple[int, int, int]:
    """Returns whether each of two terms is negated, and the addend 1 that both flags together
    encode.
    """
    if i[first] and i[second]:
        return 0, 0, 1
    return i[first], i[second], 0


def _sum(i: ThreadInstruction) -> _First:
    minus_a, minus_b, more = _negated(i, "negate_a", "negate_b")
    return lambda a, b: (-a if minus_a else a) + (-b if minus_b else b) + more


def _lesser_or_greater(i: ThreadInstruction) -> _First:
    return max if i["larger"] else min


def _distance(_: ThreadInstruction) -> _First:
    return lambda a, b: abs(a - b)


def _relation(i: ThreadInstruction) -> _First:
    relation = RELATION[Compare(i["compare"])]
    return lambda a, b: int(relation(a < b, a == b))


def _shift(i: ThreadInstruction) -> _First:
    wrap, left = i["wrap"], i.name == "VSHL"

    def shifted(a: int, b: int) -> int:
        count = b & 31 if wrap else min(b, 32)
        return a << count if left else a >> count

    return shifted


_FIRST: dict[str, Callable[[ThreadInstruction], _First]] = {
    "VADD": _sum,
    "VMNMX": _lesser_or_greater,
    "VABSDIFF": _distance,
    "VSHL": _shift,
    "VSHR": _shift,
    "VSET": _relation,
}


@result_of(*_FIRST)
def _video(i: ThreadInstruction) -> Result:
    a, b, c = _part(i, "a"), _part(i, "b"), i.source("c")
    first, to_signed, then = _FIRST[i.name](i), i["signed_d"], VideoSecond(i["then"])
    place, size = _PLACES.get(then, (0, 32))
    lowest, highest = _bounds(to_signed, size)
    taken, saturate = (1 << size) - 1, i["saturate"]

    def compute(thread: Thread) -> int:
        value, third = first(a(thread), b(thread)), thread.values[c]
        if saturate:
            value = min(max(value, lowest), highest)
        if size < 32:
            return third & ~(taken << place) | (value & taken) << place
        value &= WORD
        match then:
            case VideoSecond.ACC:
                return value + third & WORD
            case VideoSecond.MIN | VideoSecond.MAX:
                lesser = value < third if not to_signed else signed(value) < signed(third)
                return value if lesser == (then is VideoSecond.MIN) else third
            case _:
                return value

    return compute


@result_of("VABSDIFF4")
def _distances(i: ThreadInstruction) -> Result:
    """The absolute differences of four bytes: their low 8 bits packed, or their sum added to c."""
    at_a, at_b, c, adds = i.source("a"), i.source("b"), i.source("c"), i["reduce"]
    sign_a, sign_b = i["signs"] & 1, i["signs"] >> 1

    def byte(word: int, place: int, has_sign: int) -> int:
        return signed(word >> place, 8) if has_sign else word >> place & 0xFF

    def compute(thread: Thread) -> int:
        a, b = thread.values[at_a], thread.values[at_b]
        found = [
            (abs(byte(a, place, sign_a) - byte(b, place, sign_b)), place)
            for place in range(0, 32, 8)
        ]
        if adds:
            return thread.values[c] + sum(distance for distance, _ in found) & WORD
        return sum((distance & 0xFF) << place for distance, place in found)

    return compute


@result_of("VMAD")
def _product_sum(i: ThreadInstruction) -> Result:
    a, b, c = _part(i, "a"), _part(i, "b"), i.source("c")
    minus, minus_c, more = _negated(i, "negate_ab", "negate_c")
    has_sign = bool(i["signs"] or minus or minus_c)
    lowest, highest = _bounds(has_sign, 32)
    scale, saturate = _SCALES[VideoScale(i["scale"])], i["saturate"]

    def compute(thread: Thread) -> int:
        product, third = a(thread) * b(thread), thread.values[c]
        if has_sign:
            third = signed(third)
        value = (-product if minus else product) + (-third if minus_c else third) + more >> scale
        return (min(max(value, lowest), highest) if saturate else value) & WORD

    return compute


@semantics("VSETP")
def _predicates(i: ThreadInstruction) -> Operation:
    a, b, relation = _part(i, "a"), _part(i, "b"), _relation(i)
    return writes_predicates(i, lambda thread: relation(a(thread), b(thread)))
