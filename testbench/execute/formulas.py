"""What instructions compute, as formulas of whole numbers: they owe nothing to the reference machine."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

from rtl.isa.condition import Flags
from rtl.isa.kinds import Boolean, Compare, Logic, MinMaxPart, PermuteMode, PredicateTest, ProductAddend, VideoSecond
from rtl.isa.syntax import PT, RZ
from rtl.isa.table import BY_NAME
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from testbench.execute.driver import WORD, Beat, Expected, Threads
from testbench.execute.reference import number
from testbench.words import encode

__all__ = ["FORMULAS", "Formula", "Outcome", "Thread", "formula_beats"]

# Registers and predicates of the sources and results.
_A, _B, _C, _D = range(4)
_X, _Y, _Z, _P, _Q = 0, 1, 2, 5, 6
_OF_THREE = ("PSETP", "PSET")
"""Instructions whose last predicate source is their third; elsewhere it is the only one."""


@dataclass
class Thread:
    """Sources a, b and c, predicates x, y and z, and the flags, all before the instruction."""

    a: int
    b: int
    c: int
    x: int
    y: int
    z: int
    zero: int
    sign: int
    carry: int
    overflow: int


@dataclass
class Outcome:
    """A result, its flags as (Z, S, C, O), its predicates; None is what is not there. Numbers may have any size."""

    value: int | None = None
    flags: tuple[int, int, int, int] | None = None
    p: int | None = None
    q: int | None = None


@dataclass(frozen=True)
class Formula:
    """A word, and what it makes of a thread."""

    name: str
    word: int
    of: Callable[[Thread], Outcome]
    operands: Callable[[Random], tuple[int, int, int]] | None = None
    """a, b and c where any numbers would rarely do."""


FORMULAS: list[Formula] = []


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def _is(name: str, variant: str | None = None, operands: Callable | None = None, /, **fields: int) -> Callable:
    """Registers a formula: of a Thread, giving an Outcome or just a value."""
    last = _Z if name in _OF_THREE else _X
    sources = {"Rd": _D, "Ra": _A, "Rb": _B, "Rc": _C, "Pa": _X, "Pb": _Y, "Pc": last} | fields

    def register(of: Callable) -> Callable:
        def outcome(thread: Thread) -> Outcome:
            result = of(thread)
            return result if isinstance(result, Outcome) else Outcome(result)

        known = {field: value for field, value in sources.items() if _has(name, variant, field)}
        FORMULAS.append(Formula(name, encode(name, variant, **known), outcome, operands))
        return of

    return register


def _has(name: str, variant: str | None, field: str) -> bool:
    """Whether some form of the instruction has a field."""
    return any(field in form.fields for form in BY_NAME[name] if variant in (None, form.variant))


def _flagged(value: int, *terms: int) -> Outcome:
    """A sum of unsigned terms and its flags; the terms, signed, tell whether it overflows."""
    exact = sum(_signed(term) for term in terms[:2]) + sum(terms[2:])
    word = value & WORD
    return Outcome(word, (int(word == 0), word >> 31, int(sum(terms) > WORD), int(_signed(exact) != exact)))


def _moved(value: int) -> Outcome:
    """A value whose carry and overflow are clear."""
    return Outcome(value, (int(value & WORD == 0), value >> 31 & 1, 0, 0))


def _clamped(value: int, signed: bool = True) -> int:
    return max(-1 << 31, min((1 << 31) - 1, value)) if signed else max(0, min(WORD, value))


def _compared(code: Compare, a: int, b: int) -> int:
    return int({Compare.F: False, Compare.LT: a < b, Compare.EQ: a == b, Compare.LE: a <= b, Compare.GT: a > b,
                Compare.NE: a != b, Compare.GE: a >= b, Compare.T: True}[code])


def _combined(code: Boolean, first: int, second: int) -> int:
    return {Boolean.AND: first & second, Boolean.OR: first | second, Boolean.XOR: first ^ second}[code]


def _pair(t: Thread) -> int:
    return t.c << 32 | t.a


def _outside(address: int) -> int:
    return int(not any(base <= address < base + WINDOW_BYTES for base in (SHARED_WINDOW, LOCAL_WINDOW)))


# Sums.
_is("IADD", "r")(lambda t: t.a + t.b)
_is("IADD", "r", plus_one=1)(lambda t: t.a - t.b)
_is("IADD", "r", plus_one=2)(lambda t: t.b - t.a)
_is("IADD", "r", plus_one=3)(lambda t: t.a + t.b + 1)
_is("IADD", "r", saturate=1)(lambda t: _clamped(_signed(t.a) + _signed(t.b)))
_is("IADD", "r", saturate=1, plus_one=1)(lambda t: _clamped(_signed(t.a) - _signed(t.b)))
_is("IADD", "r", cc=1)(lambda t: _flagged(t.a + t.b, t.a, t.b))
_is("IADD", "r", cc=1, plus_one=1)(lambda t: _flagged(t.a - t.b, t.a, t.b ^ WORD, 1))
_is("IADD", "r", cc=1, extended=1)(lambda t: _flagged(t.a + t.b + t.carry, t.a, t.b, t.carry))
_is("IADD", "r", extended=1, plus_one=1)(lambda t: t.a - t.b - 1 + t.carry)
_is("IADD32I", imm32=-5)(lambda t: t.a - 5)
_is("IADD", "i", imm=-0x1234)(lambda t: t.a - 0x1234)
_is("ISCADD", "r", shift=7)(lambda t: (t.a << 7) + t.b)
_is("ISCADD", "r", shift=3, plus_one=2)(lambda t: t.b - (t.a << 3))
_is("ISCADD32I", shift=31, imm32=77)(lambda t: (t.a << 31) + 77)
_is("IADD3", "r")(lambda t: t.a + t.b + t.c)
_is("IADD3", "r", negate_a=1, negate_b=1, negate_c=1)(lambda t: -t.a - t.b - t.c)
_is("IADD3", "r", shift=1)(lambda t: (t.a + t.b >> 16) + t.c)
_is("IADD3", "r", lambda source: tuple(source.choice((0, number(source))) for _ in range(3)), shift=1, negate_a=1,
    negate_b=1)(lambda t: ((-t.a - t.b) % (1 << 33) >> 16) + t.c)
_is("IADD3", "r", shift=2)(lambda t: (t.a + t.b << 16) + t.c)
_is("IADD3", "r", half_a=1, half_b=2)(lambda t: (t.a & 0xFFFF) + (t.b >> 16) + t.c)
_is("IADD3", "r", extended=1)(lambda t: t.a + t.b + t.c + t.carry + t.overflow)


@_is("IADD3", "r", cc=1)
def _carries_of_three(t: Thread) -> Outcome:
    total = t.a + t.b + t.c
    return Outcome(total, (int(total & WORD == 0), total >> 31 & 1, int(total > WORD), int(total > 2 * WORD + 1)))


@_is("LEA", "r", shift=4, Pd=_P)
def _near_address(t: Thread) -> Outcome:
    address = (t.a << 4) + t.b & WORD
    return Outcome(address, p=_outside(address))


_FAR, _DOUBLE = 25, (1 << 64) - 1
"""A shift that leaves bits of a window's number in the low word; the mask of a pair."""


def _shifted_pair(t: Thread, negated: bool, complemented: bool = False) -> int:
    wide = _pair(t) << _FAR
    return (-wide if negated else ~wide if complemented else wide) & _DOUBLE


def _near_windows(negated: bool, complemented: bool = False) -> Callable[[Random], tuple[int, int, int]]:
    """Operands whose shifted pair is about a window's address, plus a b that mostly makes its high word 0."""
    def operands(source: Random) -> tuple[int, int, int]:
        wanted = source.choice((number(source), source.randrange(4) << 24, (source.randrange(4) << 24) + 0xFF_FFFF))
        wanted |= source.choice((0, number(source))) << 32
        pair = (-wanted if negated else ~wanted if complemented else wanted) >> _FAR & _DOUBLE
        thread = Thread(pair & WORD, 0, pair >> 32, 0, 0, 0, 0, 0, 0, 0)
        high = _shifted_pair(thread, negated, complemented) >> 32
        return thread.a, source.choice((0, -high & WORD, -high & WORD)), thread.c

    return operands


@_is("LEA.HI", "r", _near_windows(False), shift=_FAR, Pd=_P)
def _far_address(t: Thread) -> Outcome:
    wide = _shifted_pair(t, False)
    high = (wide >> 32) + t.b & WORD
    return Outcome(high, p=_outside(high << 32 | wide & WORD))


@_is("LEA.HI", "r", _near_windows(True), shift=_FAR, negate_a=1, Pd=_P)
def _far_negated_address(t: Thread) -> Outcome:
    wide = _shifted_pair(t, True)
    high = (wide >> 32) + t.b & WORD
    return Outcome(high, p=_outside(high << 32 | wide & WORD))


@_is("LEA.HI", "r", _near_windows(False, True), shift=_FAR, negate_a=1, extended=1, Pd=_P)
def _far_complemented_address(t: Thread) -> Outcome:
    wide = _shifted_pair(t, False, True)
    high = (wide >> 32) + t.b + t.carry & WORD
    return Outcome(high, p=_outside(high << 32 | wide & WORD))


@_is("LEA.HI", "r", shift=5, negate_a=1, cc=1)
def _far_difference(t: Thread) -> Outcome:
    high = -(_pair(t) << 5) >> 32 & WORD
    return _flagged(high + t.b, high, t.b)


# Products.
def _half_product(t: Thread, signs: int) -> int:
    return (_signed(t.a, 16) if signs & 1 else t.a & 0xFFFF) * (_signed(t.b, 16) if signs & 2 else t.b & 0xFFFF)


_is("XMAD", "r")(lambda t: _half_product(t, 0) + t.c)
_is("XMAD", "r", high_a=1, high_b=1)(lambda t: (t.a >> 16) * (t.b >> 16) + t.c)
_is("XMAD", "r", signs=1)(lambda t: _half_product(t, 1) + t.c)
_is("XMAD", "r", signs=3)(lambda t: _half_product(t, 3) + t.c)
_is("XMAD", "r", cc=1)(lambda t: _flagged(_half_product(t, 0) + t.c, _half_product(t, 0), t.c))
_is("XMAD", "r", merge=1)(lambda t: (_half_product(t, 0) + t.c & 0xFFFF) | t.b << 16)
_is("XMAD", "r", high_a=1, high_b=1, product_high=1, addend=ProductAddend.CBCC.value)(
    lambda t: ((t.a >> 16) * (t.b >> 16) << 16) + t.c + (t.b << 16))
_is("XMAD", "r", addend=ProductAddend.CLO.value)(lambda t: _half_product(t, 0) + (t.c & 0xFFFF))
_is("XMAD", "r", addend=ProductAddend.CHI.value)(lambda t: _half_product(t, 0) + (t.c >> 16))
_is("XMAD", "r", signs=3, addend=ProductAddend.CSFU.value)(lambda t: _half_product(t, 3) + t.c - (
    (t.a >> 15 & 1 and t.b & 0xFFFF != 0) + (t.b >> 15 & 1 and t.a & 0xFFFF != 0) << 16))
_is("IMUL", "r", signs=3)(lambda t: t.a * t.b)
_is("IMUL", "r", signs=0, high=1)(lambda t: t.a * t.b >> 32)
_is("IMUL", "r", signs=3, high=1)(lambda t: _signed(t.a) * _signed(t.b) >> 32)
_is("IMUL", "r", signs=2, high=1, cc=1)(lambda t: _moved(t.a * _signed(t.b) >> 32))
_is("IMAD", "r", signs=0)(lambda t: t.a * t.b + t.c)
_is("IMAD", "r", signs=3, plus_one=2)(lambda t: t.c - t.a * t.b)
_is("IMAD", "r", signs=0, plus_one=1)(lambda t: t.a * t.b - t.c)
_is("IMAD", "r", signs=3, high=1)(lambda t: (_signed(t.a) * _signed(t.b) >> 32) + t.c)
_is("IMAD", "r", signs=0, high=1, plus_one=2)(lambda t: (-t.a * t.b >> 32) + t.c)
_is("IMAD", "r", lambda source: (1 << source.randrange(32), 1 << source.randrange(32), number(source)), signs=0, high=1,
    plus_one=2, extended=1)(lambda t: (~(t.a * t.b) >> 32) + t.c + t.carry)
_is("IMAD", "r", signs=3, high=1, saturate=1)(
    lambda t: _clamped((_signed(t.a) * _signed(t.b) >> 32) + _signed(t.c)))


# Shifts and fields.
def _reversed(word: int) -> int:
    return int(f"{word:032b}"[::-1], 2)


def _field(word: int, b: int, signed: bool) -> int:
    place, length = b & 255, b >> 8 & 255
    if not length:
        return 0
    found = (_signed(word) if signed else word) >> place & (1 << length) - 1
    return _signed(found, length) if signed else found


_is("SHL", "r")(lambda t: t.a << min(t.b, 32))
_is("SHL", "r", wrap=1)(lambda t: t.a << t.b % 32)
_is("SHL", "i", imm=5, cc=1)(lambda t: _moved(t.a << 5))
_is("SHR", "r", signed=0)(lambda t: t.a >> min(t.b, 32))
_is("SHR", "r", signed=1)(lambda t: _signed(t.a) >> min(t.b, 32))
_is("SHR", "r", signed=1, wrap=1)(lambda t: _signed(t.a) >> t.b % 32)
_is("SHR", "r", signed=0, reverse=1)(lambda t: _reversed(t.a) >> min(t.b, 32))
_is("SHF.L", "r")(lambda t: _pair(t) << min(t.b, 32) >> 32)
_is("SHF.L", "r", width=2)(lambda t: _pair(t) << min(t.b, 64) >> 32)
_is("SHF.R", "r", wrap=1)(lambda t: _pair(t) >> t.b % 32)
_is("SHF.R", "r", width=2, wrap=1)(lambda t: _pair(t) >> t.b % 64)
_is("SHF.R", "r", width=3)(lambda t: _signed(_pair(t), 64) >> min(t.b, 64))
_is("BFE", "r", signed=0)(lambda t: _field(t.a, t.b, False))
_is("BFE", "r", signed=1)(lambda t: _field(t.a, t.b, True))
_is("BFE", "r", signed=0, reverse=1)(lambda t: _field(_reversed(t.a), t.b, False))


@_is("BFI", "r")
def _inserted(t: Thread) -> int:
    place, length = t.b & 255, t.b >> 8 & 255
    mask = (1 << length) - 1 << place
    return t.c & ~mask | t.a << place & mask


# Logic and bytes.
def _tested(test: PredicateTest, t: Thread) -> Outcome:
    """A test of a result of several words, of which CC knows the lower ones."""
    value = t.a & t.b
    zero = int(value == 0 and t.zero)
    return Outcome(value, (zero, value >> 31, 0, 0), p=zero ^ (test is PredicateTest.NZ))


_is("LOP", "r", operation=Logic.AND.value)(lambda t: t.a & t.b)
_is("LOP", "r", operation=Logic.OR.value, invert_a=1)(lambda t: t.a ^ WORD | t.b)
_is("LOP", "r", operation=Logic.XOR.value, cc=1)(lambda t: _moved(t.a ^ t.b))
_is("LOP", "r", operation=Logic.PASS_B.value, invert_b=1)(lambda t: ~t.b)
_is("LOP", "r", operation=Logic.AND.value, predicate_test=PredicateTest.NZ.value, Pd=_P)(
    lambda t: Outcome(t.a & t.b, p=int(t.a & t.b != 0)))
_is("LOP", "r", operation=Logic.AND.value, predicate_test=PredicateTest.Z.value, Pd=_P)(
    lambda t: Outcome(t.a & t.b, p=int(t.a & t.b == 0)))
for _test in (PredicateTest.NZ, PredicateTest.Z):
    _is("LOP", "r", operation=Logic.AND.value, predicate_test=_test.value, Pd=_P, extended=1, cc=1)(
        partial(_tested, _test))
_is("LOP3.LUT", "r", lut=0x96)(lambda t: t.a ^ t.b ^ t.c)
_is("LOP3.LUT", "r", lut=0xE8)(lambda t: t.a & t.b | t.a & t.c | t.b & t.c)
_is("LOP3.LUT", "r", lut=0x2A)(lambda t: t.c & ~(t.a & t.b))
_is("MOV", "r")(lambda t: t.b)
_is("MOV32I", imm32=0x1234_5678)(lambda t: 0x1234_5678)


@_is("PRMT", "r")
def _permuted(t: Thread) -> int:
    octets, result = _pair(t).to_bytes(8, "little"), 0
    for place in range(4):
        pick = t.b >> 4 * place & 15
        octet = octets[pick & 7]
        result |= (0xFF * (octet >> 7) if pick & 8 else octet) << 8 * place
    return result


_is("PRMT", "r", mode=PermuteMode.F4E.value)(lambda t: _pair(t) >> 8 * (t.b & 3))
_is("PRMT", "r", mode=PermuteMode.B4E.value)(
    lambda t: sum((_pair(t) >> 8 * (((t.b & 3) - place) % 8) & 255) << 8 * place for place in range(4)))
_is("PRMT", "r", mode=PermuteMode.RC16.value)(lambda t: (t.a >> 16 * (t.b & 1) & 0xFFFF) * 0x10001)

# Comparisons and selections.
for _code in Compare:
    _is("ISETP", "r", Pd=_P, Pd2=_Q, compare=_code.value, signed=1)(
        lambda t, code=_code: Outcome(p=(holds := _compared(code, _signed(t.a), _signed(t.b))) & t.x,
                                      q=(1 - holds) & t.x))
    _is("ISETP", "r", Pd=_P, compare=_code.value, signed=0, combine=Boolean.XOR.value)(
        lambda t, code=_code: Outcome(p=_compared(code, t.a, t.b) ^ t.x))
    _is("ICMP", "r", compare=_code.value, signed=1)(
        lambda t, code=_code: t.a if _compared(code, _signed(t.c), 0) else t.b)
for _code in Boolean:
    _is("PSETP", Pd=_P, Pd2=_Q, combine_first=_code.value, combine=Boolean.OR.value)(
        lambda t, code=_code: Outcome(p=_combined(code, t.x, t.y) | t.z, q=1 - _combined(code, t.x, t.y) | t.z))
    _is("PSET", combine=_code.value)(lambda t, code=_code: -_combined(code, t.x & t.y, t.z))


@_is("ISETP", "r", Pd=_P, compare=Compare.LT.value, signed=1, extended=1)
def _less_far(t: Thread) -> Outcome:
    return Outcome(p=int(_signed(t.a) - _signed(t.b) - 1 + t.carry < 0) & t.x)


@_is("ISETP", "r", Pd=_P, compare=Compare.EQ.value, signed=0, extended=1)
def _equal_far(t: Thread) -> Outcome:
    return Outcome(p=int(t.a - t.b - 1 + t.carry == 0) & t.zero & t.x)


_is("ISET", "r", compare=Compare.GE.value, signed=0, one=1)(lambda t: 0x3F80_0000 if t.a >= t.b and t.x else 0)
_is("ISET", "r", compare=Compare.GE.value, signed=0, cc=1)(lambda t: _moved(WORD if t.a >= t.b and t.x else 0))
_is("SEL", "r")(lambda t: t.a if t.x else t.b)
_is("IMNMX", "r", signed=0)(lambda t: min(t.a, t.b) if t.x else max(t.a, t.b))
_is("IMNMX", "r", signed=1)(
    lambda t: (min if t.x else max)(_signed(t.a), _signed(t.b)))


@_is("IMNMX", "r", signed=1, part=MinMaxPart.XHI.value, cc=1)
def _top_minimum(t: Thread) -> Outcome:
    value = (min if t.x else max)(_signed(t.a), _signed(t.b))
    return Outcome(value, (int(t.a == t.b), int(value < 0), int(_signed(t.a) >= _signed(t.b)), 0))


@_is("IMNMX", "r", signed=0, part=MinMaxPart.XLO.value)
def _low_minimum(t: Thread) -> int:
    below = t.a < t.b if t.zero else not t.carry
    return t.a if below == bool(t.x) else t.b


_NO_SECOND = VideoSecond.NONE.value
_is("VMNMX", signs=3, signed_d=1, then=_NO_SECOND)(lambda t: min(_signed(t.a), _signed(t.b)))
_is("VMNMX", signs=1, signed_d=0, larger=1, saturate=1, then=_NO_SECOND)(
    lambda t: _clamped(max(_signed(t.a), t.b), False))
_is("VMNMX", signs=0, signed_d=1, saturate=1, then=VideoSecond.MAX.value)(
    lambda t: max(_clamped(min(t.a, t.b)), _signed(t.c)))
_is("VABSDIFF", signs=3, signed_d=1, saturate=1, then=_NO_SECOND)(
    lambda t: _clamped(abs(_signed(t.a) - _signed(t.b))))
_is("VABSDIFF", signs=2, signed_d=0, saturate=1, then=VideoSecond.MIN.value)(
    lambda t: min(_clamped(abs(t.a - _signed(t.b)), False), t.c))
_is("VABSDIFF", signs=0, signed_d=0, then=VideoSecond.ACC.value, cc=1)(lambda t: _moved(abs(t.a - t.b) + t.c & WORD))
_is("VMNMX", "i", signs=1, imm16=0xFFF0, signed_d=1, then=VideoSecond.MAX.value)(
    lambda t: max(min(_signed(t.a), 0xFFF0), _signed(t.c)))
_is("VMNMX", "is", signs=3, imm16=-0x10, larger=1, signed_d=1, then=VideoSecond.MIN.value)(
    lambda t: min(max(_signed(t.a), -0x10), _signed(t.c)))
_is("VABSDIFF", "i", signs=0, imm16=0x8005, signed_d=0, then=VideoSecond.ACC.value)(
    lambda t: abs(t.a - 0x8005) + t.c)
_is("VABSDIFF", "is", signs=3, imm16=-0x7FFB, signed_d=0, then=VideoSecond.ACC.value)(
    lambda t: abs(_signed(t.a) + 0x7FFB) + t.c)

# CC and predicates.
_is("CSETP", Pd=_P, Pd2=_Q, test=2)(
    lambda t: Outcome(p=t.zero & ~t.sign & t.x & 1, q=(1 - (t.zero & ~t.sign & 1)) & t.x))
_is("CSET", test=0x14)(lambda t: WORD if not t.zero and t.carry and t.x else 0)
_is("P2R", "i", which=1, byte=2, imm=0x0F)(
    lambda t: t.a & 0xFFF0_FFFF | (t.zero | t.sign << 1 | t.carry << 2 | t.overflow << 3) << 16)
_is("P2R", "i", which=0, byte=0, imm=0x83)(lambda t: t.a & ~0x83 | t.x | t.y << 1 | 0x80)
_is("R2P", "i", which=0, byte=1, imm=1 << _P | 1 << _Q)(
    lambda t: Outcome(p=t.a >> 8 + _P & 1, q=t.a >> 8 + _Q & 1))
_is("R2P", "i", which=1, byte=3, imm=0x05)(
    lambda t: Outcome(flags=(t.a >> 24 & 1, t.sign, t.a >> 26 & 1, t.overflow)))


def formula_beats(source: Random, lanes: int, count: int) -> Iterator[Beat]:
    """``count`` beats of each formula, in random order."""
    order = FORMULAS * count
    source.shuffle(order)
    for formula in order:
        yield _beat(source, lanes, formula)


def _beat(source: Random, lanes: int, formula: Formula) -> Beat:
    registers = {register: [number(source) for _ in range(lanes)] for register in (_A, _B, _C, _D)}
    if formula.operands is not None:
        drawn = [formula.operands(source) for _ in range(lanes)]
        registers |= dict(zip((_A, _B, _C), map(list, zip(*drawn, strict=True)), strict=True))
    elif source.random() < 0.25:
        registers[_B] = registers[_A]
    predicates = [source.getrandbits(PT) for _ in range(lanes)]
    conditions = [source.getrandbits(Flags.as_shape().size) for _ in range(lanes)]
    outcomes = [formula.of(_thread(thread, registers, predicates, conditions))
                for thread in range(lanes)]
    written = {name: [getattr(outcome, name) for outcome in outcomes] for name in ("value", "p", "q", "flags")}
    expected = Expected(range(lanes))
    if written["value"][0] is not None:
        expected.destination, expected.values = _D, [value & WORD for value in written["value"]]
    expected.predicates = {index: written[name] for name, index in (("p", _P), ("q", _Q))
                           if written[name][0] is not None}
    if written["flags"][0] is not None:
        expected.conditions = [sum(bit << place for place, bit in enumerate(flags)) for flags in written["flags"]]
    return Beat(formula.name, formula.word, Threads(registers | {RZ: [0] * lanes}, predicates, conditions), expected)


def _thread(index: int, registers: dict[int, list[int]], predicates: list[int], conditions: list[int]) -> Thread:
    held, flags = predicates[index], conditions[index]
    return Thread(*(registers[source][index] for source in (_A, _B, _C)),
                  *(held >> place & 1 for place in (_X, _Y, _Z)), *(flags >> place & 1 for place in range(4)))
