"""What a thread gets of an instruction of the lanes: one formula for each, of all its modes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from rtl.isa.condition import holds
from rtl.isa.kinds import Boolean, Compare, HalfSelect, Logic, MinMaxPart, PermuteMode, ProductAddend
from rtl.isa.kinds import FunnelWidth as Width
from rtl.isa.kinds import PredicateTest as Test
from rtl.isa.kinds import SumShift as Shift
from rtl.isa.kinds import VideoSecond as Second
from rtl.isa.syntax import PT
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from testbench.formulas.condition import meanings

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
_ONE = 0x3F80_0000
"""1.0, single precision."""


class Fields(dict[str, int]):
    """The fields of a word; 0 is what a form does not have."""

    def __missing__(self, name: str) -> int:
        return 0


@dataclass
class Thread:
    """Sources a, b and c, and x, y and z, predicates as the instruction sees them, inverted if it says so; all
    predicates, P0 in bit 0; the flags. All before the instruction.
    """

    a: int = 0
    b: int = 0
    c: int = 0
    x: int = 0
    y: int = 0
    z: int = 0
    predicates: int = 0
    zero: int = 0
    sign: int = 0
    carry: int = 0
    overflow: int = 0

    @property
    def pair(self) -> int:
        """Both words of the number whose high one is c."""
        return self.c << 32 | self.a


@dataclass
class Outcome:
    """A result of any size, its carry and overflow, its predicates; None is what is not there.

    ``flags`` are Z, S, C and O where they are not those of the value, ``predicates`` those that R2P names, by number.
    """

    value: int | None = None
    carry: int = 0
    overflow: int = 0
    p: int | None = None
    q: int | None = None
    flags: tuple[int, int, int, int] | None = None
    predicates: dict[int, int] = field(default_factory=dict)


_Formula = Callable[[Fields, Thread], Outcome]
FORMULAS: dict[str, _Formula] = {}
"""By mnemonic."""


def _of(*names: str) -> Callable[[Callable[[Fields, Thread], Outcome | int]], Callable]:
    """A formula of these instructions; a number is a result without carry and overflow."""
    def register(formula: Callable[[Fields, Thread], Outcome | int]) -> Callable:
        def made(fields: Fields, thread: Thread) -> Outcome:
            result = formula(fields, thread)
            return result if isinstance(result, Outcome) else Outcome(result)

        FORMULAS.update(dict.fromkeys(names, made))
        return formula

    return register


def outcome(name: str, values: Mapping[str, int], thread: Thread) -> Outcome:
    """What a thread gets: the value as a word, the flags only where CC is written, the predicates by number."""
    fields = Fields(values)
    found = FORMULAS[name](fields, thread)
    predicates = found.predicates | {fields[field]: bit & 1 for field, bit in (("Pd", found.p), ("Pd2", found.q))
                                     if bit is not None and values.get(field, PT) != PT}
    value = None if found.value is None else found.value & WORD
    flags = found.flags
    if flags is None and value is not None:
        flags = (int(value == 0), value >> 31, int(found.carry), int(found.overflow))
    return Outcome(value, flags=flags if fields["cc"] or name == "R2P" else None, predicates=predicates)


def signed(value: int, bits: int = 32) -> int:
    """The low bits of a number as one with a sign."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def _clamped(value: int, with_sign: bool = True, size: int = 32) -> int:
    lowest = -1 << size - 1 if with_sign else 0
    return max(lowest, min(lowest + (1 << size) - 1, value))


def _outside(address: int) -> int:
    return int(not any(base <= address < base + WINDOW_BYTES for base in (SHARED_WINDOW, LOCAL_WINDOW)))


# Sums. What is subtracted is its complement and one more; an extended sum takes the carry instead of all that is more.
def _total(fields: Fields, t: Thread, terms: Sequence[tuple[int, int]], more: int = 0) -> Outcome:
    """The sum of words, each with whether it is subtracted."""
    words = [(word ^ WORD if minus else word) & WORD for word, minus in terms]
    plus = t.carry if fields["extended"] else sum(minus for _, minus in terms) + more
    total, exact = sum(words) + plus, sum(map(signed, words)) + plus
    return Outcome(_clamped(exact) if fields["saturate"] else total, total > WORD, exact != signed(exact))


def _sum_of_two(fields: Fields, t: Thread, a: int, b: int) -> Outcome:
    both = fields["plus_one"] == 3
    negated = (0, 0) if both else (fields["plus_one"] >> 1, fields["plus_one"] & 1)
    return _total(fields, t, list(zip((a, b), negated, strict=True)), int(both))


@_of("IADD", "IADD32I")
def _(f: Fields, t: Thread) -> Outcome:
    return _sum_of_two(f, t, t.a, t.b)


@_of("ISCADD", "ISCADD32I")
def _(f: Fields, t: Thread) -> Outcome:
    return _sum_of_two(f, t, t.a << f["shift"], t.b)


@_of("IADD3")
def _(f: Fields, t: Thread) -> Outcome:
    """C tells at least one carry, O a second."""
    words, minus = [], [f[f"negate_{name}"] for name in "abc"]
    for word, negate, name in zip((t.a, t.b, t.c), minus, "abc", strict=True):
        half = HalfSelect(f[f"half_{name}"])
        part = word if half is HalfSelect.WORD else word >> 16 if half is HalfSelect.H1 else word & 0xFFFF
        words.append(part ^ WORD * negate)
    more = [0] * 3 if f["extended"] else minus
    first = words[0] + words[1] + more[0] + more[1]
    match Shift(f["shift"]):
        case Shift.RS:
            first = first % (1 << 33) >> 16
        case Shift.LS:
            first = first << 16 & WORD
    total = first + words[2] + more[2] + (t.carry + t.overflow if f["extended"] else 0)
    return Outcome(total, total > WORD, total > 2 * WORD + 1)


@_of("LEA")
def _(f: Fields, t: Thread) -> Outcome:
    result = _total(f, t, [(t.a << f["shift"], f["negate_a"]), (t.b, 0)])
    result.p = _outside((result.value or 0) & WORD)
    return result


@_of("LEA.HI")
def _(f: Fields, t: Thread) -> Outcome:
    """Whether the address is outside the windows is told of its high word, the result, and the low word of the pair."""
    wide = t.pair << f["shift"]
    wide = wide if not f["negate_a"] else ~wide if f["extended"] else -wide
    result = _total(f, t, [(wide >> 32, 0), (t.b, 0)])
    result.p = _outside(((result.value or 0) & WORD) << 32 | wide & WORD)
    return result


# Products.
@_of("XMAD")
def _(f: Fields, t: Thread) -> Outcome:
    halves = [word >> 16 * f[f"high_{name}"] & 0xFFFF for word, name in ((t.a, "a"), (t.b, "b"))]
    first, second = (signed(half, 16) if f["signs"] >> place & 1 else half for place, half in enumerate(halves))
    match ProductAddend(f["addend"]):
        case ProductAddend.C:
            addend = t.c
        case ProductAddend.CLO:
            addend = t.c & 0xFFFF
        case ProductAddend.CHI:
            addend = t.c >> 16
        case ProductAddend.CBCC:
            addend = t.c + (t.b << 16)
        case _:     # CSFU: what two middle products without signs have carried too many
            addend = t.c - ((first < 0 and t.b & 0xFFFF != 0) + (second < 0 and t.a & 0xFFFF != 0) << 16)
    result = _total(f, t, [(first * second << 16 * f["product_high"], 0), (addend, 0)])
    if f["merge"]:
        result.value = (result.value or 0) & 0xFFFF | t.b << 16
    return result


def _product(f: Fields, t: Thread) -> int:
    return (signed(t.a) if f["signs"] & 1 else t.a) * (signed(t.b) if f["signs"] & 2 else t.b)


@_of("IMUL", "IMUL32I")
def _(f: Fields, t: Thread) -> int:
    return _product(f, t) >> 32 * f["high"]


@_of("IMAD", "IMAD32I")
def _(f: Fields, t: Thread) -> Outcome:
    """Both negations at once are one more; a negative product is the complement of both its words, and one more."""
    product, both = _product(f, t), f["plus_one"] == 3
    minus, minus_c = (0, 0) if both else (f["negate_ab"], f["negate_c"])
    reaches = minus and (not f["high"] or product & WORD == 0)
    part = (~product if minus else product) >> 32 * f["high"]
    return _total(f, t, [(part, 0), (t.c, minus_c)], both + reaches)


# Shifts and fields.
def _turned(f: Fields, word: int) -> int:
    return int(f"{word:032b}"[::-1], 2) if f["reverse"] else word


def _count(f: Fields, count: int, most: int) -> int:
    return count % most if f["wrap"] else min(count, most)


@_of("SHL")
def _(f: Fields, t: Thread) -> int:
    return t.a << _count(f, t.b, 32)


@_of("SHR")
def _(f: Fields, t: Thread) -> int:
    word = _turned(f, t.a)
    return (signed(word) if f["signed"] else word) >> _count(f, t.b, 32)


@_of("SHF.L")
def _(f: Fields, t: Thread) -> int:
    return t.pair << _count(f, t.b, 32 if Width(f["width"]) is Width.B32 else 64) >> 32


@_of("SHF.R")
def _(f: Fields, t: Thread) -> int:
    pair = signed(t.pair, 64) if Width(f["width"]) is Width.S64 else t.pair
    return pair >> _count(f, t.b, 32 if Width(f["width"]) is Width.B32 else 64)


@_of("BFE")
def _(f: Fields, t: Thread) -> int:
    word, place, length = _turned(f, t.a), t.b & 255, t.b >> 8 & 255
    if not length:
        return 0
    found = (signed(word) if f["signed"] else word) >> place & (1 << length) - 1
    return signed(found, length) if f["signed"] else found


@_of("BFI")
def _(f: Fields, t: Thread) -> int:
    place, length = t.b & 255, t.b >> 8 & 255
    mask = (1 << length) - 1 << place
    return t.c & ~mask | t.a << place & mask


# Logic and bytes.
def _tested(f: Fields, value: int) -> int:
    return {Test.NONE: 0, Test.T: 1, Test.Z: int(value == 0), Test.NZ: int(value != 0)}[Test(f["predicate_test"])]


@_of("LOP", "LOP32I")
def _(f: Fields, t: Thread) -> Outcome:
    """Extended, it is the top word of a number of whose other words Z tells whether they are 0."""
    a, b = t.a ^ WORD * f["invert_a"], t.b ^ WORD * f["invert_b"]
    value = {Logic.AND: a & b, Logic.OR: a | b, Logic.XOR: a ^ b, Logic.PASS_B: b}[Logic(f["operation"])]
    whole = value if t.zero or not f["extended"] else value | 1
    return Outcome(value, p=_tested(f, whole), flags=(int(whole == 0), value >> 31, 0, 0))


@_of("LOP3.LUT")
def _(f: Fields, t: Thread) -> Outcome:
    value = sum((f["lut"] >> ((t.a >> at & 1) << 2 | (t.b >> at & 1) << 1 | t.c >> at & 1) & 1) << at
                for at in range(32))
    return Outcome(value, p=_tested(f, value))


@_of("MOV", "MOV32I")
def _(f: Fields, t: Thread) -> int:
    return t.b


_PICKED = {PermuteMode.F4E: ("3210", "4321", "5432", "6543"), PermuteMode.B4E: ("5670", "6701", "7012", "0123"),
           PermuteMode.RC8: ("0000", "1111", "2222", "3333"), PermuteMode.ECL: ("3210", "3211", "3222", "3333"),
           PermuteMode.ECR: ("0000", "1110", "2210", "3210"), PermuteMode.RC16: ("1010", "3232", "1010", "3232")}
"""The bytes that PTX's manual lists for each selector 0 to 3, the result's highest byte first."""


@_of("PRMT")
def _(f: Fields, t: Thread) -> int:
    octets, mode = t.pair.to_bytes(8, "little"), PermuteMode(f["mode"])
    if mode is not PermuteMode.INDEX:
        return int.from_bytes([octets[int(place)] for place in _PICKED[mode][t.b & 3]], "big")
    picks = [t.b >> 4 * place & 15 for place in range(4)]
    return int.from_bytes([0xFF * (octets[pick & 7] >> 7) if pick & 8 else octets[pick] for pick in picks], "little")


# Comparisons and selections.
def _compared(code: int, a: int, b: int) -> int:
    return int({Compare.F: False, Compare.LT: a < b, Compare.EQ: a == b, Compare.LE: a <= b, Compare.GT: a > b,
                Compare.NE: a != b, Compare.GE: a >= b, Compare.T: True}[Compare(code)])


def _joined(code: int, first: int, second: int) -> int:
    return {Boolean.AND: first & second, Boolean.OR: first | second, Boolean.XOR: first ^ second}[Boolean(code)]


def _relation(f: Fields, t: Thread) -> int:
    """Extended, the difference of the lower words is in CC: its borrow, and whether it is 0."""
    a, b = (signed(t.a), signed(t.b)) if f["signed"] else (t.a, t.b)
    if not f["extended"]:
        return _compared(f["compare"], a, b)
    difference = a - b - 1 + t.carry
    return _compared(f["compare"], difference if difference or t.zero else 1, 0)


def _truth(f: Fields, held: int) -> int:
    return (_ONE if f["one"] else WORD) if held else 0


@_of("ISETP")
def _(f: Fields, t: Thread) -> Outcome:
    held = _relation(f, t)
    return Outcome(p=_joined(f["combine"], held, t.x), q=_joined(f["combine"], 1 - held, t.x))


@_of("ISET")
def _(f: Fields, t: Thread) -> int:
    return _truth(f, _joined(f["combine"], _relation(f, t), t.x))


@_of("ICMP")
def _(f: Fields, t: Thread) -> int:
    return t.a if _compared(f["compare"], signed(t.c) if f["signed"] else t.c, 0) else t.b


@_of("SEL")
def _(f: Fields, t: Thread) -> int:
    return t.a if t.x else t.b


@_of("IMNMX")
def _(f: Fields, t: Thread) -> Outcome:
    """Of several words the top ones come first. Z: all were equal; C: a is not below b. Lower ones follow that."""
    key, part = signed if f["signed"] else int, MinMaxPart(f["part"])
    below, equal = key(t.a) < key(t.b), t.a == t.b
    if part in (MinMaxPart.XMED, MinMaxPart.XLO):
        below, equal = (below, equal) if t.zero else (not t.carry, False)
    value = t.a if below == bool(t.x) else t.b
    return Outcome(value, flags=None if part is MinMaxPart.WHOLE else (int(equal), value >> 31, int(not below), 0))


# Video instructions, as the pseudo code of PTX's manual has them.
def _selected(f: Fields, t: Thread, place: int) -> int:
    """The part of a or b: of an immediate the low half."""
    word, part = (t.a, t.b)[place], f.get(f"part_{'ab'[place]}", 4)
    octets = word.to_bytes(4, "little")
    chosen = octets if part == 6 else octets[2 * (part - 4):][:2] if part > 3 else octets[part:part + 1]
    return int.from_bytes(chosen, "little", signed=bool(f["signs"] >> place & 1))


_MERGES = {Second.MRG_16H: (16, 2), Second.MRG_16L: (16, 0), Second.MRG_8B0: (8, 0), Second.MRG_8B2: (8, 2)}


def _video(of_two: Callable[[Fields, int, int], int], f: Fields, t: Thread) -> int:
    """A first operation of a and b, saturated to the type of the result, and a second with c."""
    value, key, then = of_two(f, _selected(f, t, 0), _selected(f, t, 1)), signed if f["signed_d"] else int, f["then"]
    size, place = _MERGES.get(Second(then), (32, 0))
    value = _clamped(value, bool(f["signed_d"]), size) if f["saturate"] else value
    if size < 32:
        octets = bytearray(t.c.to_bytes(4, "little"))
        octets[place:place + size // 8] = (value & (1 << size) - 1).to_bytes(size // 8, "little")
        return int.from_bytes(octets, "little")
    value &= WORD
    return {Second.ACC: value + t.c, Second.MIN: min(value, t.c, key=key), Second.MAX: max(value, t.c, key=key),
            Second.NONE: value}[Second(then)]


def _video_sum(f: Fields, a: int, b: int) -> int:
    return {0: a + b, 1: a - b, 2: b - a, 3: a + b + 1}[f["negate_b"] | f["negate_a"] << 1]


_of("VADD")(partial(_video, _video_sum))
_of("VMNMX")(partial(_video, lambda f, a, b: (max if f["larger"] else min)(a, b)))
_of("VABSDIFF")(partial(_video, lambda f, a, b: abs(a - b)))
_of("VSET")(partial(_video, lambda f, a, b: int(_compared(f["compare"], a, b))))
_of("VSHL")(partial(_video, lambda f, a, b: a * 2 ** _count(f, b, 32)))
_of("VSHR")(partial(_video, lambda f, a, b: a // 2 ** _count(f, b, 32)))


@_of("VABSDIFF4")
def _(f: Fields, t: Thread) -> int:
    a, b = ([int.from_bytes([octet], signed=bool(f["signs"] >> place & 1)) for octet in word.to_bytes(4, "little")]
            for place, word in enumerate((t.a, t.b)))
    differences = [max(x, y) - min(x, y) for x, y in zip(a, b, strict=True)]
    return t.c + sum(differences) if f["reduce"] else sum(d % 256 * 256 ** place for place, d in enumerate(differences))


@_of("VSETP")
def _(f: Fields, t: Thread) -> Outcome:
    holds = int(_compared(f["compare"], _selected(f, t, 0), _selected(f, t, 1)))
    return Outcome(p=_joined(f["combine"], holds, t.x), q=_joined(f["combine"], 1 - holds, t.x))


@_of("VMAD")
def _(f: Fields, t: Thread) -> int:
    """The sum is signed if a factor is, or if something is negated."""
    product, both = _selected(f, t, 0) * _selected(f, t, 1), f["plus_one"] == 3
    minus, minus_c = (0, 0) if both else (f["negate_ab"], f["negate_c"])
    with_sign = bool(f["signs"] or minus or minus_c)
    c = signed(t.c) if with_sign else t.c
    value = product * (1 - 2 * minus) + c * (1 - 2 * minus_c) + both >> (0, 7, 15)[f["scale"]]
    return _clamped(value, with_sign) if f["saturate"] else value


# CC and predicates.
_TOLD = {(flags, test.value): is_so for flags, test, is_so in meanings()}


def _test(f: Fields, t: Thread) -> int:
    """What a test says of numbers; of flags that no numbers leave only its own definition tells."""
    flags = t.zero | t.sign << 1 | t.carry << 2 | t.overflow << 3
    return int(_TOLD.get((flags, f["test"]), holds(f["test"], flags)))


@_of("PSETP")
def _(f: Fields, t: Thread) -> Outcome:
    both = _joined(f["combine_first"], t.x, t.y)
    return Outcome(p=_joined(f["combine"], both, t.z), q=_joined(f["combine"], 1 - both, t.z))


@_of("PSET")
def _(f: Fields, t: Thread) -> int:
    return _truth(f, _joined(f["combine"], _joined(f["combine_first"], t.x, t.y), t.z))


@_of("CSETP")
def _(f: Fields, t: Thread) -> Outcome:
    return Outcome(p=_joined(f["combine"], _test(f, t), t.x), q=_joined(f["combine"], 1 - _test(f, t), t.x))


@_of("CSET")
def _(f: Fields, t: Thread) -> int:
    return _truth(f, _joined(f["combine"], _test(f, t), t.x))


def _packed(f: Fields, t: Thread) -> int:
    return (t.zero | t.sign << 1 | t.carry << 2 | t.overflow << 3) if f["which"] else t.predicates | 1 << PT


@_of("P2R")
def _(f: Fields, t: Thread) -> int:
    mask, shift = t.b & 255, 8 * f["byte"]
    return t.a & ~(mask << shift) | (_packed(f, t) & mask) << shift


@_of("R2P")
def _(f: Fields, t: Thread) -> Outcome:
    given, mask, old = t.a >> 8 * f["byte"], t.b & 255, _packed(f, t)
    bits = [(given if mask >> place & 1 else old) >> place & 1 for place in range(PT)]
    if f["which"]:
        return Outcome(flags=(bits[0], bits[1], bits[2], bits[3]))
    return Outcome(predicates={place: bit for place, bit in enumerate(bits) if mask >> place & 1})
