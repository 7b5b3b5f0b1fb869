"""Operations with registers as assembly text."""

from collections.abc import Mapping

from .instructions import LONG_FORMS, LOWEST, shape
from .ir import WORD, Constant, Global, Op, Source, Value

__all__ = ["Printer"]

_MNEMONICS = {"LEA.HI.SHIFT": "LEA.HI", "LOP.TEST": "LOP", "BAR.REG": "BAR", "BAR.COUNT": "BAR", "BAR.PACKED": "BAR",
              "BAR.RED.REG": "BAR.RED", "BAR.RED.COUNT": "BAR.RED", "BAR.RED.PACKED": "BAR.RED",
              "I2F.64": "I2F", "F2I.64": "F2I", "F2F.NARROW": "F2F", "F2F.HALF": "F2F", "F2F.WIDE": "F2F",
              "F2F.DOUBLE": "F2F", "F2I.DOUBLE": "F2I", "F2I.DOUBLE.64": "F2I", "I2F.DOUBLE": "I2F",
              "I2F.DOUBLE.64": "I2F", "ATOM.CAS": "ATOM.E.CAS"}
_LONG_NUMBER = 1 << 19


class Printer:
    """Prints operations. ``registers`` has the number of each value's register, ``frame`` is the function's, in bytes.
    ``prefix`` stands before the names of functions and tables.
    """

    def __init__(self, registers: Mapping[Value, int], frame: int, prefix: str) -> None:
        self.registers = registers
        self.frame = frame
        self.prefix = prefix

    def register(self, value: Value | None) -> str:
        """The name of a register."""
        return "RZ" if value is None else f"R{self.registers[value]}"

    def predicate(self, source: Source) -> str:
        """A predicate that is read."""
        if isinstance(source.what, Value):
            return f"{'!' * source.inverted}P{self.registers[source.what]}"
        return "PT" if bool(source.what) != source.inverted else "!PT"

    def source(self, source: Source, wide: bool = False) -> str:
        """A register, constant or number that is read; ``wide``: whose bits are counted without sign."""
        value = source.number
        if value is not None:
            if value == 0:
                return f"{'-' * source.negated}RZ"
            return f"{value:#x}" if wide or not value >> 31 else f"-{(WORD + 1 - value):#x}"
        match source.what:
            case Constant(bank, offset):
                text = f"c[{bank:#x}][{offset:#x}]"
            case Global(name, addend, upper):
                place = name + (f"+{addend:#x}" if addend > 0 else f"-{-addend:#x}" if addend else "")
                text = f"32@{'hi' if upper else 'lo'}({place})"
            case int(number):
                text = f"{number:#x}" if number else "RZ"
            case _:
                text = self.register(source.value)
        text += source.part
        if source.absolute:
            text = f"|{text}|"
        return f"{'-' * source.negated}{'~' * source.inverted}{text}"

    def guard(self, guard: Source | None) -> str:
        """What stands before a guarded instruction."""
        return f"@{self.predicate(guard)} " if guard is not None else ""

    def line(self, op: Op) -> str:
        """An operation as a line of assembly text."""
        operands = ", ".join(self._operands(op))
        return f"{self.guard(op.guard)}{self._mnemonic(op)} {operands}".rstrip()

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

    def _operands(self, op: Op) -> list[str]:
        found: list[str] = []
        written = read = 0
        for letter in shape(op).format.split(", ") if shape(op).format else []:
            match letter:
                case "d":
                    found.append(self.register(op.results[written]) + ".CC" * op.sets_carry)
                    written += 1
                case "p":
                    value = op.results[written]
                    found.append("PT" if value is None else f"P{self.registers[value]}")
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
                    found.append(self._first(op, read))
                case "a" | "l" | "k":
                    found.append(self._address(op, read, letter))
                    read += 2 if letter == "a" else 1
                case "t":
                    found.append(op.text)
        return self._arranged(op, found)

    def _first(self, op: Op, read: int) -> str:
        """The first of neighbours; compare-and-swap names the second half, too."""
        first = self.source(op.sources[read])
        if op.name.endswith(".CAS"):
            half = (len(op.sources) - read) // 2
            return f"{first}, {self.source(op.sources[read + half])}"
        return first

    def _address(self, op: Op, read: int, letter: str) -> str:
        base = self.source(op.sources[read])
        if letter == "k" and ":" in op.text:
            bank, table = op.text.split(":")
            return f"c[{int(bank):#x}][{base}+{self.prefix}{table}{f'{op.offset:+#x}' * bool(op.offset)}]"
        offset = op.offset + (self.frame if op.text == "caller" else 0)
        if base == "RZ":
            inner = f"{offset:#x}" if offset else "RZ"
        else:
            inner = base + (f"+{offset:#x}" if offset > 0 else f"-{-offset:#x}" if offset else "")
        return f"c[{int(op.text):#x}][{inner}]" if letter == "k" else f"[{inner}]"

    @staticmethod
    def _arranged(op: Op, found: list[str]) -> list[str]:
        """The operands as they are printed: what is not there is left out where the text leaves it out."""
        if op.name == "VOTE":
            register, predicate, source = found
            return [*([register] if register != "RZ" else []), predicate, source]
        if op.name == "B2R" and found[1] == "PT":
            return found[:1]
        if op.name == "ST":
            found = [found[0], found[2], found[1]]
        if op.name in ("LD", "ST") and found[2] == "PT":
            return found[:2]
        if op.name == "LEA.HI":
            return found[1:] if found[0] == "PT" else found
        if op.name in ("BAR.REG", "BAR.RED.REG") and not op.text:
            return [found[0], *found[2:]]
        if op.name in ("BAR.PACKED", "BAR.RED.PACKED"):
            return [found[0], *found]
        return found
