"""The lanes' control signals for each instruction, from the fields of its word.

The function of an operation takes a reader of fields, by name: the field, or 0 where the
instruction's form has no such field. It returns the control signals that are not 0.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Mux, Value
from amaranth.lib import enum

from rtl.isa.condition import TRUTH
from rtl.isa.kinds import (
    Boolean,
    Compare,
    FunnelWidth,
    HalfSelect,
    Logic,
    MinMaxPart,
    PredicateTest,
    ProductAddend,
    SumShift,
    VideoSecond,
)

from .control import FirstTerm, Part, PredicateResult, ProductPart, ResultBits, ShiftCount, Truth

__all__ = ["OPERATIONS", "WITHOUT_EFFECT_UNLESS", "Fields", "Signals"]

Fields = Callable[[str], Value]
Signals = Mapping[str, Value | enum.Enum | int]

# Truth tables of three bits, a the most significant one.
_A = 0xF0
_B = 0xCC
_AND = _A & _B
_OR = _A | _B
_XOR = _A ^ _B
_ONES = 0xFF
_LOGIC = {
    Logic.AND: _AND,
    Logic.OR: _OR,
    Logic.XOR: _XOR,
    Logic.PASS_B: _B,
}

_SAME_CODES = (
    (Part.WORD, HalfSelect.WORD),
    (Part.LOW, HalfSelect.H0),
    (Part.HIGH, HalfSelect.H1),
    (Part.WORD, ProductAddend.C),
    (Part.LOW, ProductAddend.CLO),
    (Part.HIGH, ProductAddend.CHI),
    (PredicateResult.FALSE, PredicateTest.NONE),
    (PredicateResult.TRUE, PredicateTest.T),
    (PredicateResult.ZERO, PredicateTest.Z),
    (PredicateResult.NONZERO, PredicateTest.NZ),
)
assert all(signal.value == code.value for signal, code in _SAME_CODES), (
    "a field of the word is the control signal unchanged")


def _always(table: Value | int) -> Signals:
    """A logic function."""
    return {
        "table": table,
        "table_otherwise": table,
    }


def _either(table: int, otherwise: int) -> Signals:
    """A logic function if the decision holds, another one if not."""
    return {
        "table": table,
        "table_otherwise": otherwise,
    }


def _sum_signals(extended: Value, ones: Value) -> Signals:
    """The signals of every sum: its flags, and a carry in, from CC or one for a negation."""
    return {
        "carries": 1,
        "add_carry": extended,
        "plus_one": ones & ~extended,
    }


class _Negations(NamedTuple):
    """The two bits of the field ``plus_one``. If both are set, nothing is negated and one is
    added."""

    first: Value
    """a, or the product, is negated."""
    second: Value
    """b, or c, is negated."""
    some: Value
    """One is added, for a negation or by itself."""
    both: Value
    """One is added by itself."""


def _negations(field: Fields) -> _Negations:
    flags = field("plus_one")
    both = flags[0] & flags[1]
    return _Negations(flags[1] & ~both, flags[0] & ~both, flags[0] | flags[1], both)


def _iadd(field: Fields) -> Signals:
    negations = _negations(field)
    return {
        **_sum_signals(field("extended"), negations.some),
        **_always(_A),
        "negate_a": negations.first,
        "negate_b": negations.second,
        "add_b": 1,
        "saturate": field("saturate"),
    }


def _scaled(field: Fields) -> Signals:
    return {
        "first": FirstTerm.SHIFT,
        "left": 1,
        "shift": field("shift"),
        "add_b": 1,
    }


def _iscadd(field: Fields) -> Signals:
    negations = _negations(field)
    return {
        **_scaled(field),
        **_sum_signals(Const(0, 1), negations.some),
        "negate_a": negations.first,
        "negate_b": negations.second,
    }


def _lea(field: Fields) -> Signals:
    negate = field("negate_a")
    return {
        **_scaled(field),
        **_sum_signals(field("extended"), negate),
        "negate_a": negate,
        "predicate": PredicateResult.OUTSIDE,
    }


def _lea_high(field: Fields) -> Signals:
    """The pair is negated before it is shifted."""
    extended = field("extended")
    negate = field("negate_a")
    completes = negate & ~extended
    return {
        **_scaled(field),
        **_sum_signals(extended, Const(0, 1)),
        "pair": 1,
        "negate_a": negate,
        "negate_c": negate,
        "one_a": completes,
        "pair_negative": completes,
        "predicate": PredicateResult.OUTSIDE_HIGH,
    }


def _iadd3(field: Fields) -> Signals:
    """The one of each negation is added to its term, so that each sum of two terms has at most one
    carry in."""
    extended = field("extended")
    return {
        **_sum_signals(extended, Const(0, 1)),
        "three": 1,
        "first": FirstTerm.SUM,
        "sum_shift": field("shift"),
        "result_high": field("shift") == SumShift.LS.value,
        "add_c": 1,
        **{f"part_{term}": field(f"half_{term}") for term in "abc"},
        **{f"negate_{term}": field(f"negate_{term}") for term in "abc"},
        **{f"one_{term}": field(f"negate_{term}") & ~extended for term in "abc"},
    }


def _xmad(field: Fields) -> Signals:
    signs = field("signs")
    addend = field("addend")
    corrected = addend == ProductAddend.CSFU.value
    return {
        **_sum_signals(field("extended"), Const(0, 1)),
        "first": FirstTerm.PRODUCT,
        "product": ProductPart.HALVES,
        "result_high": field("product_high"),
        "halves": 1,
        **{f"part_{factor}": Mux(field(f"high_{factor}"), Part.HIGH, Part.LOW) for factor in "ab"},
        "signed_a": signs[0],
        "signed_b": signs[1],
        "part_c": Mux(corrected, Part.WORD, addend[:2]),
        "correct": corrected,
        "add_high_b": addend == ProductAddend.CBCC.value,
        "add_c": 1,
        "merge": field("merge"),
    }


def _imul(field: Fields) -> Signals:
    signs = field("signs")
    return {
        "first": FirstTerm.PRODUCT,
        "product": Mux(field("high"), ProductPart.HIGH, ProductPart.LOW),
        "signed_a": signs[0],
        "signed_b": signs[1],
    }


def _imad(field: Fields) -> Signals:
    """A negated product is complemented, and one is added. In the high word that one counts only if
    the low word of the product is 0 (``complete``)."""
    negations = _negations(field)
    extended = field("extended")
    high = field("high")
    one = negations.both | negations.second | (negations.first & ~high)
    return {
        **_imul(field),
        **_sum_signals(extended, one),
        "add_c": 1,
        "negate_c": negations.second,
        "complement": negations.first,
        "complete": negations.first & high & ~extended,
        "saturate": field("saturate"),
    }


def _shift(field: Fields, left: bool) -> Signals:
    return {
        "first": FirstTerm.SHIFT,
        "count": ShiftCount.WORD,
        "left": int(left),
        "wrap": field("wrap"),
        "signed_a": field("signed"),
        "part_a": Mux(field("reverse"), Part.REVERSED, Part.WORD),
    }


def _funnel_shift(field: Fields, left: bool) -> Signals:
    width = field("width")
    return {
        "first": FirstTerm.SHIFT,
        "count": ShiftCount.WORD,
        "left": int(left),
        "wrap": field("wrap"),
        "pair": 1,
        "wide": width != FunnelWidth.B32.value,
        "signed_a": width == FunnelWidth.S64.value,
    }


def _bfe(field: Fields) -> Signals:
    return {
        "first": FirstTerm.SHIFT,
        "count": ShiftCount.BYTE,
        "field": 1,
        "signed_a": field("signed"),
        "part_a": Mux(field("reverse"), Part.REVERSED, Part.WORD),
    }


def _bfi(_field: Fields) -> Signals:
    return {
        "first": FirstTerm.SHIFT,
        "count": ShiftCount.BYTE,
        "left": 1,
        "field": 1,
        "insert": 1,
    }


def _lop(field: Fields) -> Signals:
    tables = Array(Const(_LOGIC[kind], 8) for kind in Logic)
    return {
        **_always(tables[field("operation")]),
        "negate_a": field("invert_a"),
        "negate_b": field("invert_b"),
        "chain_zero": field("extended"),
        "predicate": field("predicate_test"),
    }


def _lop3(field: Fields) -> Signals:
    return {
        **_always(field("lut")),
        "predicate": field("predicate_test"),
    }


def _relation(field: Fields) -> Signals:
    signed = field("signed")
    return {
        "truth": Truth.RELATION,
        "compare": field("compare"),
        "signed_a": signed,
        "signed_b": signed,
        "extended": field("extended"),
        "combine": field("combine"),
    }


_DECISION: Signals = {
    "predicate": PredicateResult.DECISION,
}


def _truth_word(field: Fields) -> Signals:
    return {
        **_either(_ONES, 0),
        "as_one": field("one"),
    }


def _isetp(field: Fields) -> Signals:
    return {
        **_relation(field),
        **_DECISION,
    }


def _iset(field: Fields) -> Signals:
    return {
        **_relation(field),
        **_truth_word(field),
    }


def _icmp(field: Fields) -> Signals:
    return {
        **_either(_A, _B),
        "truth": Truth.SIGN,
        "compare": field("compare"),
        "signed_a": field("signed"),
    }


def _imnmx(field: Fields) -> Signals:
    """The decision selects b: if a is less than b and the larger one is requested, or if not and
    the smaller one is."""
    part = field("part")
    return {
        **_relation(field),
        **_either(_B, _A),
        "compare": Compare.LT,
        "combine": Boolean.XOR,
        "continues": (part == MinMaxPart.XMED.value) | (part == MinMaxPart.XLO.value),
        "verdict": part != MinMaxPart.WHOLE.value,
    }


def _sel(_field: Fields) -> Signals:
    return _either(_A, _B)


def _part(code: Value) -> Value:
    """The Part of a field's code: bytes are 0 to 3, halves 4 and 5, the word 6 and 7."""
    return Mux(
        code[2],
        Mux(code[1], Part.WORD, Mux(code[0], Part.HIGH, Part.LOW)),
        code[:2] | Part.BYTE_0.value,
    )


def _parts(field: Fields) -> Signals:
    """The parts of a video instruction's sources; an immediate is a low half."""
    signs = field("signs")
    return {
        "part_a": _part(field("part_a")),
        "part_b": Mux(field("register_b"), _part(field("part_b")), Part.LOW),
        "signed_a": signs[0],
        "signed_b": signs[1] if len(signs) > 1 else 0,
    }


def _video(field: Fields) -> Signals:
    """The bounds and the second operation of a video instruction."""
    then = field("then")
    smaller = then == VideoSecond.MIN.value
    larger = then == VideoSecond.MAX.value
    half = (then == VideoSecond.MRG_16H.value) | (then == VideoSecond.MRG_16L.value)
    byte = (then == VideoSecond.MRG_8B0.value) | (then == VideoSecond.MRG_8B2.value)
    return {
        **_parts(field),
        "bound": field("saturate"),
        "signed_result": field("signed_d"),
        "add_c": then != VideoSecond.NONE.value,
        "negate_c": smaller | larger,
        "plus_one": smaller | larger,
        "smaller": smaller,
        "larger": larger,
        "result_bits": Mux(half, ResultBits.HALF, Mux(byte, ResultBits.BYTE, ResultBits.WORD)),
        "result_high": (then == VideoSecond.MRG_16H.value) | (then == VideoSecond.MRG_8B2.value),
    }


def _vmnmx(field: Fields) -> Signals:
    return {
        **_video(field),
        **_either(_A, _B),
        "truth": Truth.RELATION,
        "compare": Mux(field("larger"), Compare.GE, Compare.LT),
    }


def _vabsdiff(field: Fields) -> Signals:
    return {
        **_video(field),
        "first": FirstTerm.SUM,
        "differs": 1,
        "distance": 1,
    }


def _vabsdiff4(field: Fields) -> Signals:
    """Differences of bytes. Those below zero are complemented, to the others one is added."""
    signs = field("signs")
    adds = field("reduce")[0]
    return {
        "signed_a": signs[0],
        "signed_b": signs[1],
        "differs": 1,
        "bytes": 1,
        "first": Mux(adds, FirstTerm.DISTANCES, FirstTerm.SUM),
        "add_c": adds,
    }


def _vadd(field: Fields) -> Signals:
    """One of a + b, a + b + 1, a - b, or b - a, which is computed as ~(a - b) + 1."""
    negations = _negations(field)
    is_sum = ~(negations.first | negations.second)
    return {
        **_video(field),
        "first": FirstTerm.SUM,
        "differs": 1,
        "adds": is_sum,
        "opposite": negations.first,
        "one_b": negations.first | (negations.some & ~negations.second),
    }


def _vset(field: Fields) -> Signals:
    return {
        **_video(field),
        **_either(_ONES, 0),
        "as_bit": 1,
        "truth": Truth.RELATION,
        "compare": field("compare"),
    }


def _vsetp(field: Fields) -> Signals:
    return {
        **_parts(field),
        **_DECISION,
        "truth": Truth.RELATION,
        "compare": field("compare"),
        "combine": field("combine"),
    }


def _video_shift(field: Fields, left: bool) -> Signals:
    return {
        **_video(field),
        "first": FirstTerm.SHIFT,
        "count": ShiftCount.WORD,
        "left": int(left),
        "wrap": field("wrap"),
    }


def _vmad(field: Fields) -> Signals:
    """A negated product: c - product is computed as ~(product + ~c). Operand c is signed if a
    factor is, or if a negation is requested."""
    negations = _negations(field)
    minus = negations.first
    signs = field("signs")
    scale = Array(
        Const(part.value, 3)
        for part in (ProductPart.LOW, ProductPart.SCALED_7, ProductPart.SCALED_15, ProductPart.LOW)
    )[field("scale")]
    return {
        **_parts(field),
        "first": FirstTerm.PRODUCT,
        "product": scale,
        "add_to_product": 1,
        "complement": minus,
        "negate_c": minus | negations.second,
        "one_b": negations.some & ~minus,
        "bound": field("saturate"),
        "signed_result": signs.any() | minus | negations.second,
    }


def _prmt(field: Fields) -> Signals:
    return {
        "first": FirstTerm.PERMUTATION,
        "permute": field("mode"),
    }


def _mov(_field: Fields) -> Signals:
    return _always(_B)


def _predicates(field: Fields) -> Signals:
    return {
        "truth": Truth.PREDICATES,
        "combine_first": field("combine_first"),
        "combine": field("combine"),
    }


def _condition(field: Fields) -> Signals:
    return {
        "truth": Truth.CONDITION,
        "condition": Array(Const(truth, 16) for truth in TRUTH)[field("test")],
        "combine": field("combine"),
    }


def _psetp(field: Fields) -> Signals:
    return {
        **_predicates(field),
        **_DECISION,
    }


def _pset(field: Fields) -> Signals:
    return {
        **_predicates(field),
        **_truth_word(field),
    }


def _csetp(field: Fields) -> Signals:
    return {
        **_condition(field),
        **_DECISION,
    }


def _cset(field: Fields) -> Signals:
    return {
        **_condition(field),
        **_truth_word(field),
    }


def _p2r(field: Fields) -> Signals:
    return {
        "first": FirstTerm.SHIFT,
        "pack": 1,
        "of_condition": field("which"),
        "which_byte": field("byte"),
    }


def _r2p(field: Fields) -> Signals:
    return {
        "first": FirstTerm.SHIFT,
        "unpack": 1,
        "of_condition": field("which"),
        "shift": Cat(Const(0, 3), field("byte")),
    }


def _value(_field: Fields) -> Signals:
    return _always(_A)


def _vote(_field: Fields) -> Signals:
    return {
        **_always(_A),
        **_DECISION,
    }


def _real(_field: Fields) -> Signals:
    """The floating-point unit's result."""
    return {}


def _fmnmx(_field: Fields) -> Signals:
    return {"truth": Truth.CONDITION, "combine": Boolean.XOR, **_either(_A, _B)}


def _fsetp(field: Fields) -> Signals:
    return {
        "truth": Truth.CONDITION,
        "combine": field("combine"),
        **_DECISION,
    }


def _fset(field: Fields) -> Signals:
    return {
        "truth": Truth.CONDITION,
        "combine": field("combine"),
        **_truth_word(field),
    }


def _fcmp(_field: Fields) -> Signals:
    return {
        "truth": Truth.CONDITION,
        **_either(_A, _B),
    }


_FLOATS_OF_THE_UNIT = ("FADD", "FADD32I", "FSWZADD", "FMUL", "FMUL32I", "RRO", "FFMA", "FFMA32I")

OPERATIONS: Mapping[str, Callable[[Fields], Signals]] = MappingProxyType(
    {
        "IADD": _iadd,
        "IADD32I": _iadd,
        "ISCADD": _iscadd,
        "ISCADD32I": _iscadd,
        "IADD3": _iadd3,
        "LEA": _lea,
        "LEA.HI": _lea_high,
        "XMAD": _xmad,
        "IMUL": _imul,
        "IMUL32I": _imul,
        "IMAD": _imad,
        "IMAD32I": _imad,
        "SHL": partial(_shift, left=True),
        "SHR": partial(_shift, left=False),
        "SHF.L": partial(_funnel_shift, left=True),
        "SHF.R": partial(_funnel_shift, left=False),
        "BFE": _bfe,
        "BFI": _bfi,
        "LOP": _lop,
        "LOP32I": _lop,
        "LOP3.LUT": _lop3,
        "ISETP": _isetp,
        "ISET": _iset,
        "ICMP": _icmp,
        "IMNMX": _imnmx,
        "SEL": _sel,
        "VADD": _vadd,
        "VMAD": _vmad,
        "VMNMX": _vmnmx,
        "VABSDIFF": _vabsdiff,
        "VABSDIFF4": _vabsdiff4,
        "VSET": _vset,
        "VSETP": _vsetp,
        "VSHL": partial(_video_shift, left=True),
        "VSHR": partial(_video_shift, left=False),
        "PRMT": _prmt,
        "MOV": _mov,
        "MOV32I": _mov,
        "PSETP": _psetp,
        "PSET": _pset,
        "CSETP": _csetp,
        "CSET": _cset,
        "P2R": _p2r,
        "R2P": _r2p,
        **dict.fromkeys(_FLOATS_OF_THE_UNIT, _real),
        "FMNMX": _fmnmx,
        "FSETP": _fsetp,
        "FSET": _fset,
        "FCMP": _fcmp,
        "FCHK": _fsetp,
        "S2R": _value,
        "CS2R": _value,
        "LEPC": _value,
        "VOTE": _vote,
    }
)
"""By instruction name."""

WITHOUT_EFFECT_UNLESS: Mapping[str, tuple[str, tuple[enum.Enum | int, ...]]] = MappingProxyType(
    {
        "condition": ("truth", (Truth.CONDITION,)),
        "compare": ("truth", (Truth.RELATION, Truth.SIGN)),
        "permute": ("first", (FirstTerm.PERMUTATION,)),
        "sum_shift": ("first", (FirstTerm.SUM,)),
        "which_byte": ("pack", (1,)),
        **dict.fromkeys(
            ("shift", "count", "wide", "wrap", "field", "insert", "pair"),
            ("first", (FirstTerm.SHIFT,)),
        ),
    }
)
"""Control signals that have an effect only if another one has one of these values, none of which is
0."""
