"""Listings of a function's operations, for tests and for debugging the compiler."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rtl.isa.special_registers import SPECIAL_REGISTER_TEXTS

from .ir import Block, ConstantWord, Function, Global, Op, Source, Value

__all__ = ["function_listing"]


def function_listing(function: Function, registers: Mapping[Value, int] | None = None) -> str:
    """Returns a line for each block, operation and terminator.

    Values have the names of their registers if ``registers`` is given. Otherwise they are numbered
    in the order of appearance, predicates separately.
    """
    listing = _Listing(function)
    for value, number in (registers or {}).items():
        listing.names[value] = f"{'P' if value.predicate else 'R'}{number}"
    return listing.text()


@dataclass
class _Listing:
    function: Function
    names: dict[Value, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        blocks = {block: f"B{number}" for number, block in enumerate(self.function.blocks)}
        return "\n".join(
            line for block in self.function.blocks for line in self._block(block, blocks)
        )

    def _block(self, block: Block, blocks: dict[Block, str]) -> list[str]:
        lines = [f"{blocks[block]}:", *(f"  {self._op(op)}" for op in block.ops)]
        targets = [blocks.get(successor, "?") for successor in block.successors]
        condition = self._source(block.condition) if block.condition is not None else ""
        return [
            *lines,
            f"  {' '.join([block.terminator.value, *([condition] if condition else []), *targets])}",
        ]

    def _value(self, value: Value | None) -> str:
        if value is None:
            return "_"
        if value not in self.names:
            letter = "p" if value.predicate else "v"
            number = self.counts[letter] = self.counts.get(letter, 0) + 1
            self.names[value] = (
                f"R{value.fixed}" if value.fixed is not None else f"%{letter}{number}"
            )
        return self.names[value]

    def _source(self, source: Source) -> str:
        match source.operand:
            case Value():
                text = self._value(source.operand)
            case ConstantWord(bank, offset):
                text = f"c[{bank:#x}][{offset:#x}]"
            case Global(name, addend, upper):
                text = f"{name}+{addend:#x}{'.hi' if upper else ''}"
            case int(number):
                text = f"{number:#x}"
        text += str(source.part or "")
        text = f"|{text}|" if source.absolute else text
        return f"{'-' * source.negated}{'~' * source.inverted}{text}"

    def _op(self, op: Op) -> str:
        guard = f"@{self._source(op.guard)} " if op.guard is not None else ""
        carry = ".X" * op.takes_carry + ".CC" * op.sets_carry
        operands = [self._source(source) for source in op.sources]
        operands += [
            f"{name}={_value_text(name, value)}" for name, value in op.opcode.operand_fields.items()
        ]
        operands += [f"+{op.offset:#x}"] if op.offset else []
        operands += [op.symbol] if op.symbol else []
        results = ", ".join(map(self._value, op.results))
        return f"{guard}{results + ' = ' if results else ''}{op.opcode}{carry} {', '.join(operands)}".rstrip()


def _value_text(name: str, value: int) -> str:
    """Returns the text of an operand field: a special register's name, or a number."""
    return SPECIAL_REGISTER_TEXTS[value] if name == "special" else f"{value:#x}"
