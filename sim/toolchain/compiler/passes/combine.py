"""Instruction combining (peephole optimisation): folds offsets into addresses, shifts into sums,
bit tests, and more.

Each pattern function changes an operation and returns True, or returns False if the pattern does
not match.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from rtl.isa.kinds import Boolean, Compare, FloatFlush, Logic, PredicateTest
from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.ir import PT, RZ, WORD, Function, Op, Source, Value, number
from sim.toolchain.compiler.opcodes import FieldValue, opcode
from sim.toolchain.compiler.operands import has_offset, offset_fits

__all__ = ["NOTHING", "combine", "pair_number"]

_AND = opcode("LOP", (("operation", Logic.AND),))
_SUM, _SUM_FLUSHED = opcode("FADD"), opcode("FADD", (("flush", FloatFlush.FTZ),))
_TESTS: Mapping[FieldValue, PredicateTest] = {
    Compare.EQ: PredicateTest.Z,
    Compare.NE: PredicateTest.NZ,
}


def _available(inner: Op, op: Op, known: Definitions, sources: list[Source]) -> bool:
    """Whether an operation may use the sources of another one instead of its result."""
    if inner.guard is not None or not known.dominators.dominates(inner, *known.dominators.at[op]):
        return False
    return all(known.same(source, inner, *known.dominators.at[op]) for source in sources)


def _made_by(op: Op, known: Definitions, *names: str) -> Iterator[tuple[int, Op, Source]]:
    """Yields which of the first two sources is the result of an operation with one of these names,
    that operation, and the other source.
    """
    for at in (0, 1):
        inner = known.operation(op.sources[at])
        if inner is not None and inner.name in names:
            yield at, inner, op.sources[1 - at]


def pair_number(low: Source, high: Source) -> int | None:
    """Returns the 64-bit number in two words, or None if they are not both numbers."""
    if (
        not isinstance(low.operand, int)
        or not isinstance(high.operand, int)
        or low.negated != high.negated
    ):
        return None
    value = low.operand | high.operand << 32
    return (-value if low.negated else value) & (1 << 64) - 1


def _near(number_of_bits: int, value: int) -> int:
    """Returns the low bits of a value as a signed number."""
    value &= (1 << number_of_bits) - 1
    return value - (1 << number_of_bits) if value >> number_of_bits - 1 else value


def _offset(op: Op, known: Definitions) -> bool:
    """Folds a number that is added to an address into the offset of the instruction."""
    first = 0
    wide = op.shape.wide
    source = op.sources[first]
    if not source.plain or source.value is None:
        return False
    inner = known.operation(source)
    if inner is None:
        return False
    if (
        wide
        and inner.name == "ADD64"
        and op.sources[1].value is inner.results[1]
        and source.value is inner.results[0]
    ):
        added = pair_number(*inner.sources[2:])
        if added is None or not all(part.plain and part.value for part in inner.sources[:2]):
            return False
        total = op.offset + _near(64, added)
        if offset_fits(op.name, total) and _available(inner, op, known, inner.sources[:2]):
            op.sources[0], op.sources[1] = inner.sources[:2]
            op.offset = total
            return True
    if not wide and inner.name == "MOV" and inner.sources[0].number is not None:
        total = op.offset + inner.sources[0].number
        if total >= 0 and offset_fits(op.name, total):
            op.sources[0], op.offset = RZ, total
            return True
    summed = inner.name == "ADD64" and source.value is inner.results[0]
    if not wide and (summed or (inner.name == "IADD" and _plain_sum(inner))):
        base, added = inner.sources[0], inner.sources[2 if summed else 1]
        if added.number is None:
            base, added = added, base
        if added.number is None or not base.plain or base.value is None:
            return False
        total = op.offset + _near(32, added.number)
        if offset_fits(op.name, total) and _available(inner, op, known, [base]):
            op.sources[0], op.offset = base, total
            return True
    return False


def _long_sum(op: Op, known: Definitions) -> bool:
    """Moves the number of a 64-bit sum last, and merges the numbers of nested sums."""
    x, y = op.sources[:2], op.sources[2:]
    if pair_number(*x) is not None and pair_number(*y) is None:
        op.sources = [*y, *x]
        return True
    added = pair_number(*y)
    if added is None:
        return False
    if y[0].negated:
        op.sources = [*x, number(added), number(added >> 32)]
        return True
    inner = known.operation(x[0])
    if (
        inner is None
        or inner.name != "ADD64"
        or not x[0].plain
        or not x[1].plain
        or inner.results != [x[0].value, x[1].value]
    ):
        return False
    more = pair_number(*inner.sources[2:])
    if more is None or not _available(inner, op, known, inner.sources[:2]):
        return False
    total = added + more
    op.sources = [*inner.sources[:2], number(total), number(total >> 32)]
    return True


def _plain_sum(op: Op) -> bool:
    return not op.sets_carry and not op.takes_carry and op.opcode.plain


def _shifted_sum(op: Op, known: Definitions) -> bool:
    """Combines (x << n) + y."""
    if op.takes_carry or not op.opcode.plain:
        return False
    for at, inner, other in _made_by(op, known, "SHL"):
        shifted, x, by = op.sources[at], inner.sources[0], inner.sources[1].number
        if by is None or other == RZ or not 0 < by < 32 or x.value is None or not x.plain:
            continue
        if not _available(inner, op, known, [x]):
            continue
        if (shifted.negated and other.negated) or (shifted.negated and op.sets_carry):
            continue
        if other.number is not None and not _short(other.number):
            continue
        op.opcode = opcode("ISCADD", (("shift", by),))
        op.sources = [replace(x, negated=shifted.negated), other]
        return True
    return False


def _upper_sum(op: Op, known: Definitions) -> bool:
    """Combines (x >> n) + y into the upper word of a pair that is shifted left."""
    if op.sets_carry or not op.opcode.plain:
        return False
    for at, inner, other in _made_by(op, known, "SHR"):
        if (
            inner.fields["signed"]
            or not op.sources[at].plain
            or not other.plain
            or known.used(inner) != 1
        ):
            continue
        x, by = inner.sources[0], inner.sources[1].number
        if (
            by is None
            or not 0 < by < 32
            or x.value is None
            or not x.plain
            or isinstance(other.operand, int)
        ):
            continue
        if _available(inner, op, known, [x]):
            op.opcode, op.sources = opcode("LEA.HI", (("shift", 32 - by),)), [x, other, RZ]
            return True
    return False


def _high_sum(op: Op, known: Definitions) -> bool:
    """Combines (x * y >> 32) + z of unsigned numbers."""
    if not _plain_sum(op):
        return False
    for at, inner, other in _made_by(op, known, "MULHI"):
        if (
            inner.fields["signed"]
            or len(inner.sources) > 2
            or known.used(inner) != 1
            or not op.sources[at].plain
            or not other.plain
            or other.value is None
        ):
            continue
        if _available(inner, op, known, inner.sources):
            op.opcode, op.sources = inner.opcode, [*inner.sources, other]
            return True
    return False


def _short(value: int) -> bool:
    """Whether a number fits a signed immediate of 20 bits."""
    return value < 1 << 19 or value > WORD - (1 << 19)


def _sum_of_sum(op: Op, known: Definitions) -> bool:
    """Combines (x + 3) + 4."""
    if not _plain_sum(op) or op.sources[1].number is None or op.sources[0].negated:
        return False
    inner = known.operation(op.sources[0])
    if (
        inner is None
        or inner.name != "IADD"
        or not _plain_sum(inner)
        or inner.sources[1].number is None
    ):
        return False
    if not _available(inner, op, known, inner.sources[:1]):
        return False
    op.sources = [inner.sources[0], number(inner.sources[1].number + op.sources[1].number)]
    return True


def _three(op: Op, known: Definitions) -> bool:
    """Combines (a + b) + c if a + b has no other use."""
    if not _plain_sum(op):
        return False
    for at, inner, other in _made_by(op, known, "IADD"):
        if (
            not _plain_sum(inner)
            or known.used(inner) != 1
            or op.sources[at].negated
            or not isinstance(inner.results[0], Value)
        ):
            continue
        terms = [*inner.sources, other]
        values = [term for term in terms if term.value is not None]
        rest = [term for term in terms if term.value is None]
        if len(values) < 2 or len(rest) > 1 or not _available(inner, op, known, inner.sources):
            continue
        if rest and rest[0].number is not None and rest[0].number >= 1 << 19:
            continue
        if sum(term.negated for term in terms) > 1:
            continue
        middle = rest[0] if rest else values[2]
        op.opcode, op.sources = opcode("IADD3"), [values[0], middle, values[1]]
        return True
    return False


def _shift_of_shift(op: Op, known: Definitions) -> bool:
    """Combines (x << 2) << 3."""
    inner = known.operation(op.sources[0])
    by = op.sources[1].number
    if inner is None or inner.name != "SHL" or by is None or inner.sources[1].number is None:
        return False
    total = by + inner.sources[1].number
    if total > 31 or not _available(inner, op, known, inner.sources[:1]):
        return False
    op.sources = [inner.sources[0], number(total)]
    return True


def _bit_test(op: Op, known: Definitions) -> bool:
    """Combines the comparison of masked bits with zero."""
    test = _TESTS.get(op.fields["compare"])
    if test is None or op.fields["combine"] is not Boolean.AND or op.takes_carry:
        return False
    x, y, third = op.sources
    if x == RZ:
        x, y = y, x
    inner = known.operation(x)
    if (
        y != RZ
        or third.operand != 1
        or third.inverted
        or op.results[1] is not None
        or inner is None
        or not x.plain
    ):
        return False
    if inner.opcode is not _AND or len(inner.results) > 1 or inner.sets_carry or inner.takes_carry:
        return False
    if known.used(inner) != 1 or not _available(inner, op, known, inner.sources):
        return False
    op.opcode = _AND.with_fields(predicate_test=test)
    op.results, op.sources = [op.results[0], None], list(inner.sources)
    return True


_OPPOSITE: Mapping[FieldValue, Compare] = {
    Compare.LT: Compare.GE,
    Compare.GE: Compare.LT,
    Compare.LE: Compare.GT,
    Compare.GT: Compare.LE,
    Compare.EQ: Compare.NE,
    Compare.NE: Compare.EQ,
}


def _combined_test(op: Op, known: Definitions) -> bool:
    """Combines a comparison and another predicate."""
    if op.results[1] is not None or op.fields["combine"] is not Boolean.AND or op.sources[2] != PT:
        return False
    for at, inner, other in _made_by(op, known, "ISETP"):
        if inner.fields["combine"] is not Boolean.AND or inner.takes_carry:
            continue
        if (
            inner.sources[2] != PT
            or inner.results[1] is not None
            or known.used(inner) != 1
            or other == PT
            or other.value is None
            or not _available(inner, op, known, inner.sources)
        ):
            continue
        relation = inner.fields["compare"]
        if op.sources[at].inverted:
            relation = _OPPOSITE[relation]
        op.opcode = inner.opcode.with_fields(compare=relation, combine=op.fields["combine_first"])
        op.sources = [*inner.sources[:2], other]
        return True
    return False


_TABLES: Mapping[FieldValue, Callable[[int, int], int]] = {
    Logic.AND: lambda x, y: x & y,
    Logic.OR: lambda x, y: x | y,
    Logic.XOR: lambda x, y: x ^ y,
    Logic.PASS_B: lambda x, y: y,
}
_COLUMNS = (0xF0, 0xCC, 0xAA)
"""The truth tables of LOP3's operands a, b and c."""


def _three_bits(op: Op, known: Definitions) -> bool:
    """Combines two bitwise operations with three operands in total, if the result of the inner one
    has no other use.
    """
    if op.sets_carry or op.takes_carry or len(op.results) > 1:
        return False
    for at, inner, other in _made_by(op, known, "LOP", "LOP3.LUT"):
        if (
            inner.sets_carry
            or inner.takes_carry
            or len(inner.results) > 1
            or known.used(inner) != 1
            or not _available(inner, op, known, inner.sources)
        ):
            continue
        operands: list[Source] = []
        for source in (*inner.sources, other):
            bare = replace(source, inverted=False)
            if bare not in operands:
                operands.append(bare)
        if len(operands) > 3 or sum(source.value is None for source in operands) > 1:
            continue
        if any(source.number is not None and not _short(source.number) for source in operands):
            continue
        if RZ in operands and Logic.PASS_B not in (
            op.fields["operation"],
            inner.fields.get("operation"),
        ):
            continue
        _make_lookup(op, inner, at, operands)
        return True
    return False


def _make_lookup(op: Op, inner: Op, at: int, operands: list[Source]) -> None:
    """Replaces the operation by a lookup of its operands. An operand that is no register becomes
    the second one.
    """
    operands = [
        source for source in operands if source.value is not None or source != RZ
    ] or operands
    fixed = [source for source in operands if source.value is None]
    values = [source for source in operands if source.value is not None]
    order = (values[:1] + fixed + values[1:] if fixed else values) if values else operands
    order = (order + [RZ] * 3)[:3]

    def column(source: Source) -> int:
        bare = replace(source, inverted=False)
        table = 0 if bare == RZ else _COLUMNS[order.index(bare)]
        return table ^ 0xFF * source.inverted

    if inner.name == "LOP":
        inner_table = _TABLES[inner.fields["operation"]](
            *(column(source) for source in inner.sources)
        )
    else:
        inner_table = _composed(
            inner.opcode.codes["lut"], [column(source) for source in inner.sources]
        )
    inner_table ^= 0xFF * op.sources[at].inverted
    pair = [inner_table, column(op.sources[1 - at])]
    if at == 1:
        pair.reverse()
    table = _TABLES[op.fields["operation"]](*pair) & 0xFF
    op.opcode, op.sources = opcode("LOP3.LUT", (("lut", table),)), order


def _composed(table: int, columns: list[int]) -> int:
    """Returns the truth table of a lookup whose operands have the truth tables ``columns``."""
    found = 0
    for row in range(8):
        index = sum((columns[at] >> row & 1) << 2 - at for at in range(3))
        found |= (table >> index & 1) << row
    return found


_SIGNED = {
    "FADD": 2,
    "FMUL": 2,
    "FFMA": 3,
    "FMNMX": 2,
    "FSETP": 2,
    "FSET": 2,
    "FCHK": 2,
    "MUFU": 1,
    "RRO": 1,
    "F2F": 1,
}
"""Operations in single precision, and how many of their sources may be negated. These may also be
absolute values, except in products.
"""
NOTHING = Source(0, negated=True)
"""The neutral number of additions in single precision: -0."""


def _signs(op: Op, known: Definitions) -> bool:
    """Folds a sign change into the operation that reads its result."""
    for at, source in enumerate(op.sources[: _SIGNED[op.name]]):
        inner = known.operation(source)
        if inner is None or inner.opcode not in (_SUM, _SUM_FLUSHED) or inner.sources[1] != NOTHING:
            continue
        if inner.opcode is _SUM_FLUSHED and op.fields.get("flush") is not FloatFlush.FTZ:
            continue
        if inner.sources[0].value is None:
            continue
        signed = inner.sources[0]
        if signed.absolute and op.name in ("FMUL", "FFMA"):
            continue
        if _available(inner, op, known, [signed]):
            op.sources[at] = replace(
                signed,
                absolute=signed.absolute or source.absolute,
                negated=source.negated != (signed.negated and not source.absolute),
            )
            return True
    return False


_PATTERNS: dict[str, tuple[Callable[[Op, Definitions], bool], ...]] = {
    "ADD64": (_long_sum,),
    "IADD": (_high_sum, _upper_sum, _shifted_sum, _sum_of_sum, _three),
    "ISETP": (_bit_test,),
    "PSETP": (_combined_test,),
    "LOP": (_three_bits,),
    "SHL": (_shift_of_shift,),
    **dict.fromkeys(_SIGNED, (_signs,)),
}
"""The patterns for each operation. The first that matches is applied."""


def combine(function: Function, known: Definitions) -> bool:
    """Tries the patterns once for each operation. Returns whether any was applied."""
    known.count_uses()
    changed = False
    for op in function.ops():
        name = op.opcode.name
        for pattern in (_offset,) if has_offset(name) else _PATTERNS.get(name, ()):
            if pattern(op, known):
                changed = True
                break
    return changed
