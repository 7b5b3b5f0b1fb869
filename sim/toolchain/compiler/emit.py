"""Operations with registers as instructions of the assembler."""

from collections.abc import Mapping
from functools import cache

from rtl.isa.syntax import PT, RZ
from sim.toolchain import statements
from sim.toolchain.operands import escaped
from sim.toolchain.source import Guard, Instruction, Operand

from .instructions import LONG_FORMS, LOWEST, shape
from .ir import WORD, Constant, Global, Op, Source, Value

__all__ = ["InstructionWriter", "names_a_copy"]

_MNEMONICS = {"LEA.HI.SHIFT": "LEA.HI", "LOP.TEST": "LOP", "BAR.REG": "BAR", "BAR.COUNT": "BAR", "BAR.PACKED": "BAR",
              "BAR.RED.REG": "BAR.RED", "BAR.RED.COUNT": "BAR.RED", "BAR.RED.PACKED": "BAR.RED",
              "I2F.64": "I2F", "F2I.64": "F2I", "F2F.NARROW": "F2F", "F2F.HALF": "F2F", "F2F.WIDE": "F2F",
              "F2F.DOUBLE": "F2F", "F2I.DOUBLE": "F2I", "F2I.DOUBLE.64": "F2I", "I2F.DOUBLE": "I2F",
              "I2F.DOUBLE.64": "I2F", "ATOM.CAS": "ATOM.E.CAS"}
_LONG_NUMBER = 1 << 19


_NULL = statements.register(RZ, "")
_TRUE = statements.predicate(PT, False)


def names_a_copy(op: Op) -> bool:
    """Whether an operation names a function or a table, of which each kernel has a copy."""
    return op.name == "CAL" or (op.name == "LDC" and ":" in op.text)


class InstructionWriter:
    """Writes operations. ``registers`` has the number of each value's register, ``frame`` is the function's, in bytes.
    ``prefix`` stands before the names of functions and tables.
    """

    def __init__(self, registers: Mapping[Value, int], frame: int, prefix: str) -> None:
        self.registers = registers
        self.frame = frame
        self.prefix = prefix

    def register(self, value: Value | None, suffix: str = "") -> Operand:
        """A register."""
        return statements.register(RZ if value is None else self.registers[value], suffix)

    def predicate(self, source: Source) -> Operand:
        """A predicate that is read."""
        return statements.predicate(*self._predicate(source))

    def _predicate(self, source: Source) -> tuple[int, bool]:
        """The number of a predicate, and whether the opposite is meant."""
        if isinstance(source.what, Value):
            return self.registers[source.what], source.inverted
        return PT, bool(source.what) == source.inverted

    def source(self, source: Source, wide: bool = False) -> Operand:
        """A register, constant or number that is read; ``wide``: whose bits are counted without sign."""
        what = source.what
        if isinstance(what, Value):
            found = self.register(what, source.part)
            return _adjusted(source, found)
        value = source.number
        if value is not None:
            if value == 0:
                return statements.signed("-", _NULL) if source.negated else _NULL
            return statements.number(value if wide or not value >> 31 else value - WORD - 1)
        match what:
            case Constant(bank, offset):
                found = statements.with_suffix(statements.constant(bank, offset), source.part)
            case Global(name, addend, upper):
                found = statements.half(escaped(name), addend, upper)
            case 0:
                found = statements.register(RZ, source.part)
            case int(number):
                found = statements.with_suffix(statements.number(number), source.part)
        return _adjusted(source, found)

    def guard(self, guard: Source | None) -> Guard | None:
        """What stands before a guarded instruction."""
        return statements.guard(*self._predicate(guard)) if guard is not None else None

    def instruction(self, op: Op) -> Instruction:
        """An operation as an instruction."""
        operands = [statements.name(f"{self.prefix}{op.text}")] if op.name == "CAL" else self._operands(op)
        return statements.instruction(self._mnemonic(op), operands, self.guard(op.guard), op.line or None,
                                      op.column or None)

    def _mnemonic(self, op: Op) -> str:
        name = _MNEMONICS.get(op.name, op.name)
        if op.name in LONG_FORMS and self._needs_long_form(op):
            name = LONG_FORMS[op.name]
        mods = op.mods
        if op.takes_carry and ".X" not in mods:
            mods += ".X"
        return name + mods

    @staticmethod
    def _needs_long_form(op: Op) -> bool:
        if op.name == "MOV":
            what = op.sources[0]
            return isinstance(what.what, Global) or bool(what.number)
        value = op.sources[1].number
        if shape(op).real:
            return value is not None and bool(value & LOWEST)
        return value is not None and _LONG_NUMBER <= value <= WORD - _LONG_NUMBER

    def _operands(self, op: Op) -> list[Operand]:
        found: list[Operand] = []
        written = read = 0
        for letter in shape(op).letters:
            match letter:
                case "d":
                    found.append(self.register(op.results[written], ".CC" if op.sets_carry else ""))
                    written += 1
                case "p":
                    value = op.results[written]
                    found.append(_TRUE if value is None else statements.predicate(self.registers[value], False))
                    written += 1
                case "D":
                    found.append(self.register(op.results[written]))
                case "s":
                    found.append(self.source(op.sources[read], op.name == "MOV" or shape(op).real))
                    read += 1
                case "q":
                    found.append(self.predicate(op.sources[read]))
                    read += 1
                case "w":
                    found.append(self.source(op.sources[read]))
                    read += 2
                case "S":
                    found += self._neighbours(op, read)
                case "a" | "l" | "k":
                    found.append(self._address(op, read, letter))
                    read += 2 if letter == "a" else 1
                case "t":
                    found += _named(op.text)
        return self._arranged(op, found)

    def _neighbours(self, op: Op, read: int) -> list[Operand]:
        """The first of neighbours; compare-and-swap names the second half, too."""
        first = self.source(op.sources[read])
        if op.name.endswith(".CAS"):
            half = (len(op.sources) - read) // 2
            return [first, self.source(op.sources[read + half])]
        return [first]

    def _address(self, op: Op, read: int, letter: str) -> Operand:
        source = op.sources[read]
        base = RZ if source.value is None else self.registers[source.value]
        if letter == "k" and ":" in op.text:
            bank, table = op.text.split(":")
            return statements.constant(int(bank), *_register_term(base, True), f"{self.prefix}{table}", op.offset)
        offset = op.offset + (self.frame if op.text == "caller" else 0)
        if letter == "k":
            return statements.constant(int(op.text), *_register_term(base, not offset), offset)
        return statements.memory(base, offset)

    @staticmethod
    def _arranged(op: Op, found: list[Operand]) -> list[Operand]:
        """The operands as they are written: what is not there is left out where the text leaves it out."""
        if op.name == "VOTE":
            return found[1:] if found[0] == _NULL else found
        if op.name == "B2R" and found[1] == _TRUE:
            return found[:1]
        if op.name == "ST":
            found = [found[0], found[2], found[1]]
        if op.name in ("LD", "ST") and found[2] == _TRUE:
            return found[:2]
        if op.name == "LEA.HI":
            return found[1:] if found[0] == _TRUE else found
        if op.name in ("BAR.PACKED", "BAR.RED.PACKED"):
            return [found[0], *found]
        return found


def _register_term(base: int, always: bool) -> tuple[str, ...]:
    """A register in a sum; RZ is left out unless it ``always`` stands there."""
    if base == RZ:
        return ("RZ",) if always else ()
    return (f"R{base}",)


def _adjusted(source: Source, operand: Operand) -> Operand:
    """What is done to an operand before it is used."""
    if source.absolute:
        operand = statements.absolute(operand)
    if source.negated or source.inverted:
        operand = statements.signed("-" * source.negated + "~" * source.inverted, operand)
    return operand


@cache
def _named(text: str) -> list[Operand]:
    """Operands that an operation names: numbers and words."""
    return [statements.number(int(part, 0)) if part[0].isdigit() else statements.name(part)
            for part in text.split(", ")] if text else []
