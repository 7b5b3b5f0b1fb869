"""Encodes operations with allocated registers as instruction words, by the fields of the
instruction table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rtl.isa.fields import FIELDS
from rtl.isa.syntax import (
    PLAIN,
    PT,
    RZ,
    Access,
    Address,
    Adjust,
    Constant,
    Field,
    Form,
    Immediate,
    Predicate,
    Register,
)
from sim.toolchain.assembly import statements
from sim.toolchain.assembly.encoding import legal_form
from sim.toolchain.assembly.operands import escaped
from sim.toolchain.assembly.program import Emitted, Line
from sim.toolchain.assembly.source import SassGuard, SassInstruction, SassOperand, SourceError
from sim.toolchain.compiler.ir import WORD, ConstantWord, Global, Op, RegisterPart, Source, Value
from sim.toolchain.compiler.opcodes import LOWEST, Opcode, OperandRole
from sim.toolchain.cubin.relocation import fit

__all__ = ["InstructionEncoder", "names_a_copy"]

_LONG_NUMBER = 1 << 19
"""The least magnitude of a number that needs a form with a 32-bit immediate."""
_GUARD, _GUARD_NOT = FIELDS["guard"], FIELDS["guard_not"]


def names_a_copy(op: Op) -> bool:
    """Whether an operation refers to a function or table, of which each kernel has a copy."""
    return op.name == "CAL" or (op.name == "LDC" and bool(op.symbol))


class InstructionEncoder:
    """Encodes operations as lines of the assembly program.

    An operation that refers to a function, table or variable becomes a statement, as the assembler
    resolves the address. Every other operation becomes an instruction word.

    Args:
        registers: The register number of each value.
        frame: The size of the function's frame in bytes.
        prefix: A prefix for the names of functions and tables.
    """

    def __init__(self, registers: Mapping[Value, int], frame: int, prefix: str) -> None:
        self.registers = registers
        self.frame = frame
        self.prefix = prefix

    def line(self, op: Op) -> Line:
        """Returns an operation as a line of the program.

        Raises:
            SourceError: No form of the table fits the operation, which is an error of the compiler.
        """
        named = self._named(op)
        if named is not None:
            return Line(named)
        try:
            word = self.word(op)
        except (AssertionError, KeyError, ValueError) as error:
            raise SourceError(op, f"{op}: {error}") from error
        return Line(Emitted(word, op.line or None, op.column or None))

    def guard(self, guard: Source | None) -> SassGuard | None:
        """Returns the guard operand of a guarded instruction, or None."""
        return statements.guard(*self._predicate(guard)) if guard is not None else None

    def _named(self, op: Op) -> SassInstruction | None:
        """Returns the statement for an operation that refers to a symbol, or None."""
        operands: list[SassOperand]
        if op.name == "CAL":
            mnemonic, operands = "CAL", [statements.name(f"{self.prefix}{op.symbol}")]
        elif op.name == "LDC" and op.symbol:
            base = op.sources[0].value
            register = "RZ" if base is None else f"R{self.registers[base]}"
            place = statements.constant(
                op.opcode.codes["bank"], register, f"{self.prefix}{op.symbol}", op.offset
            )
            mnemonic, operands = "LDC", [self._result(op), place]
        elif op.name == "MOV" and isinstance(op.sources[0].operand, Global):
            address = op.sources[0].operand
            mnemonic = "MOV32I"
            operands = [
                self._result(op),
                statements.half(escaped(address.name), address.addend, address.upper),
            ]
        else:
            return None
        return statements.instruction(
            mnemonic, operands, self.guard(op.guard), op.line or None, op.column or None
        )

    def _result(self, op: Op) -> SassOperand:
        value = op.results[0]
        return statements.register(RZ if value is None else self.registers[value], "")

    def _predicate(self, source: Source) -> tuple[int, bool]:
        """Returns the number of a predicate register, and whether it is negated."""
        if isinstance(source.operand, Value):
            return self.registers[source.operand], source.inverted
        return PT, bool(source.operand) == source.inverted

    def word(self, op: Op) -> int:
        """Returns the instruction word of an operation without symbols."""
        registers = self.registers
        plan = _plan(op)
        word = plan.word
        for index, shift, nothing in plan.results:
            value = op.results[index]
            word |= (nothing if value is None else registers[value]) << shift
        for field in plan.sources:
            source = op.sources[field.index]
            operand = source.operand
            if field.predicate:
                assert field.shift is not None
                number, opposite = self._predicate(source)
                word |= number << field.shift
                if opposite:
                    word |= field.bit(field.negate, source)
                continue
            if field.immediate is not None:
                word = field.immediate.put(word, _immediate(field, source))
                continue
            if isinstance(operand, ConstantWord):
                assert field.bank is not None and field.offset is not None
                word = field.bank.put(word, operand.bank)
                word = field.offset.put(word, fit(field.offset, operand.offset))
            else:
                assert field.shift is not None, f"{source} is in no register"
                word |= (registers[operand] if isinstance(operand, Value) else RZ) << field.shift
                if field.offset is not None:
                    offset = op.offset + (self.frame if op.in_caller else 0)
                    word = field.offset.put(word, fit(field.offset, offset))
            if not source.plain:
                word |= field.adjusted(source)
        if op.guard is not None:
            number, opposite = self._predicate(op.guard)
            word = _GUARD_NOT.put(_GUARD.put(word, number), opposite)
        assert legal_form(word) is plan.form, f"{op} is no instruction"
        return word


def _immediate(operand: "_Source", source: Source) -> int:
    """Returns an immediate as the value of its field."""
    value = source.number
    assert value is not None, f"{source} is no number"
    if not operand.unsigned:
        value -= value >> 31 << 32
    assert operand.immediate is not None
    return fit(operand.immediate, value)


@dataclass(frozen=True)
class _Source:
    """The fields of the instruction word that encode one source."""

    index: int
    predicate: bool = False
    shift: int | None = None
    negate: Field | None = None
    adjust: Adjust = PLAIN
    form: Form | None = None
    parts: Mapping[RegisterPart, int] | None = None
    immediate: Field | None = None
    unsigned: bool = False
    bank: Field | None = None
    offset: Field | None = None

    @staticmethod
    def bit(field: Field | None, source: Source) -> int:
        """Returns the bit of a flag field, which must exist."""
        assert field is not None, f"{source} cannot be changed so"
        return field.mask

    def adjusted(self, source: Source) -> int:
        """Returns the modifier bits of a register or constant."""
        bits = 0
        for wanted, name in (
            (source.negated, self.adjust.negate),
            (source.absolute, self.adjust.absolute),
            (source.inverted, self.adjust.invert),
        ):
            if wanted:
                assert name is not None and self.form is not None, f"{source} cannot be changed so"
                bits |= self.form.fields[name].mask
        if source.part:
            assert (
                self.parts is not None and self.form is not None and self.adjust.select is not None
            )
            bits |= self.form.fields[self.adjust.select].put(0, self.parts[source.part])
        return bits


class _Plan:
    """The encoding plan for operations of one opcode with given kinds of sources: the form, and the
    word without operands.
    """

    def __init__(
        self, code: Opcode, results: int, kinds: str, sets_carry: bool, takes_carry: bool
    ) -> None:
        self.code = code
        self.shape = code.shape(results, len(kinds))
        self.first = self._first_indices()
        form = next((form for form in code.forms if self._is(form, kinds)), None)
        assert form is not None, f"{code} has no form for {kinds}"
        self.form: Form = form
        self.word = code.word(form)
        self.results: list[tuple[int, int, int]] = []
        """For each result its index, the position of its register field, and the register number
        for an unused result.
        """
        at = 0
        for role in self.shape.results:
            self._add_result(role, at, sets_carry)
            at += role.count
        self.sources = [
            self._source(role, at) for role, at in zip(self.shape.sources, self.first, strict=True)
        ]
        self.sources = [source for source in self.sources if not self._repeats(source)]
        if takes_carry:
            self.word = form.fields["extended"].put(self.word, 1)

    def _first_indices(self) -> list[int]:
        found, at = [], 0
        for role in self.shape.sources:
            found.append(at)
            at += role.count
        return found

    def _is(self, form: Form, kinds: str) -> bool:
        long = form.name != self.code.name
        if long != ("L" in kinds):
            return False
        return all(
            isinstance(form.operands.get(role.key), _KINDS[kinds[at]])
            for role, at in zip(self.shape.sources, self.first, strict=True)
        )

    @cached_property
    def _values(self) -> Mapping[str, int]:
        return self.form.values(self.word)

    def _clear(self, field: Field) -> Field:
        self.word &= ~field.mask
        return field

    def _add_result(self, role: OperandRole, at: int, sets_carry: bool) -> None:
        operand = self.form.operands[role.key]
        assert isinstance(operand, Register | Predicate) and operand.access is not Access.READ
        field = self._clear(self.form.fields[operand.field])
        # Only the first register of a multi-word result is encoded.
        self.results.append((at, field.pieces[0][0], PT if role.predicate else RZ))
        if sets_carry and isinstance(operand, Register) and operand.set_cc is not None:
            self.word = self.form.fields[operand.set_cc].put(self.word, 1)

    def _repeats(self, source: _Source) -> bool:
        """Whether the source's register follows from an earlier source of the same field."""
        role = self.shape.roles[source.index]
        return any(
            other.field == role.field and other.key != role.key and at < source.index
            for other, at in zip(self.shape.sources, self.first, strict=True)
        )

    def _source(self, role: OperandRole, at: int) -> _Source:
        fields = self.form.fields
        operand = self.form.operands[role.key]
        match operand:
            case Predicate(field, _, negate):
                flag = self._clear(fields[negate]) if negate is not None else None
                return _Source(at, True, self._clear(fields[field]).pieces[0][0], flag)
            case Immediate(field):
                return _Source(at, immediate=fields[field], unsigned=operand.bits is not None)
            case Address(register, offset):
                return _Source(
                    at, shift=self._clear(fields[register]).pieces[0][0], offset=fields[offset]
                )
            case Constant(index, adjust, _, bank, offset):
                shift = self._clear(fields[index]).pieces[0][0] if index is not None else None
                return _Source(
                    at,
                    shift=shift,
                    adjust=adjust,
                    form=self.form,
                    parts=self._parts(adjust),
                    bank=fields[bank],
                    offset=fields[offset],
                )
            case Register(field):
                return _Source(
                    at,
                    shift=self._clear(fields[field]).pieces[0][0],
                    adjust=operand.adjust,
                    form=self.form,
                    parts=self._parts(operand.adjust),
                )
        raise AssertionError(f"{self.form.name} has no source {role.key}")

    def _parts(self, adjust: Adjust) -> Mapping[RegisterPart, int] | None:
        if adjust.select is None:
            return None
        texts = adjust.part_texts(self._values)
        return {
            part: code
            for code, text in texts.items()
            for part in RegisterPart
            if part.value == text
        }


_KINDS: Mapping[str, tuple[type, ...]] = {
    "r": (Register, Address, Constant),
    "c": (Constant,),
    "i": (Immediate,),
    "L": (Immediate,),
    "p": (Predicate,),
}
"""The operand types of a form that accept each kind of source. A register may also be in an address
or an index.
"""
_plans: dict[tuple[Opcode, int, str, bool, bool], _Plan] = {}


def _plan(op: Op) -> _Plan:
    shape = op.shape
    predicates = shape.predicates
    kinds = "".join(
        [
            "p"
            if at in predicates
            else "r"
            if isinstance(source.operand, Value)
            else _kind(op, source)
            for at, source in enumerate(op.sources)
        ]
    )
    key = op.opcode, len(op.results), kinds, op.sets_carry, op.takes_carry
    found = _plans.get(key)
    if found is None:
        found = _plans[key] = _Plan(*key)
    return found


def _kind(op: Op, source: Source) -> str:
    """Returns the kind of a source that is no virtual register: ``c`` for a constant, ``i`` for an
    immediate, ``L`` for a 32-bit immediate, ``r`` for 0, which is RZ.
    """
    if isinstance(source.operand, ConstantWord):
        return "c"
    value = source.number
    if value is None:
        return "i" if source.operand else "r"
    if not value:
        return "r"
    code = op.opcode
    if code.long_form is None:
        return "i"
    if code.name == "MOV" or (
        value & LOWEST if code.single else _LONG_NUMBER <= value <= WORD - _LONG_NUMBER
    ):
        return "L"
    return "i"
