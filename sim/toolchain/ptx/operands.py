"""Operands of instructions: what their text stands for, and whether it may stand there.

What an operand can be is told by its pattern, see :mod:`~sim.toolchain.ptx.forms`. Sizes of registers must agree with
the instruction's types; signs need not.
"""

import re
from dataclasses import dataclass

from lark import Token

from rtl.isa.barriers import BARRIERS
from sim.toolchain.grammar import SourceError

from . import syntax
from .expressions import Amount, Symbol, evaluate
from .module import (
    Address,
    FunctionRef,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sink,
    Space,
    Type,
    Variable,
    VariableRef,
    Vector,
)
from .names import BranchTable, CallTable, Declared, Entity, Prototype, RegisterVector, Scope
from .special import VECTOR_REGISTERS, WARP_SIZE, special_register

__all__ = ["OperandReader", "describe", "number_bits"]

SINK = "_"
WARP_THREADS = WARP_SIZE
_VECTOR_LIMIT = 128
"""The most bits that one ld or st moves."""
_OFFSETS = range(-(1 << 31), 1 << 32)
_COMPONENTS = ("xyzw", "rgba")
_WIDE = {Type.U16: Type.U32, Type.S16: Type.S32, Type.U32: Type.U64, Type.S32: Type.S64}
_SHORT_SPACES = (Space.SHARED, Space.LOCAL, Space.CONST, Space.PARAM)
"""Spaces that 32 bits address."""


def describe(entity: Entity) -> str:
    """What something is, in a message."""
    match entity:
        case Register():
            return f"a register of type .{entity.type.value}"
        case Variable():
            return f"a variable in {entity.space.value} space"
        case Declared():
            return "an entry" if entity.entry else "a function"
        case _:
            return _KINDS.get(type(entity), "a label")


def number_bits(place: Token, amount: Amount, kind: Type) -> int:
    """The bits of a constant that stands for a value of a type."""
    real = amount.real
    if kind is Type.F16:
        raise SourceError(place, "there are no constants of type .f16")
    if real is None:
        if kind.floating:
            raise SourceError(place, "expected a floating-point number, such as 1.0 or 0f3f800000")
        return amount.value & (1 << kind.bits) - 1
    if kind.floating:
        return real.of(kind)
    if kind.value != f"b{real.type.bits}" or not isinstance(place, Token) or place[:2].lower() not in ("0f", "0d"):
        raise SourceError(place, "expected a whole number")
    return real.bits


_KINDS = {RegisterVector: "a vector of registers", BranchTable: "a list of branch targets",
          CallTable: "a list of call targets", Prototype: "a prototype"}


@dataclass
class OperandReader:
    """Reads the operands of one instruction in its scope. ``readonly`` are variables that nothing may be stored to: the
    function's parameters, which have addresses in an ``entry``.
    """

    scope: Scope
    instruction: Instruction
    readonly: frozenset[Variable]
    entry: bool

    # What names stand for

    def entity(self, name: Token) -> Entity:
        """What a name means."""
        found = self.scope.find(name)
        if found is None:
            special = special_register(syntax.Name(name, None)) if name not in VECTOR_REGISTERS else name
            raise SourceError(name, f"{name} is a special register: mov reads it" if special else
                              f"{name} is not declared here")
        return found

    def register(self, name: syntax.Name) -> Register:
        """The register of a name."""
        found = self.entity(name.token)
        if name.component is not None:
            return self._element(name, found)
        if not isinstance(found, Register):
            raise SourceError(name.token, f"expected a register: {name.token} is {describe(found)}")
        return found

    def _element(self, name: syntax.Name, found: Entity) -> Register:
        """``v.x``"""
        assert name.component is not None
        if not isinstance(found, RegisterVector):
            raise SourceError(name.component, f"{name.token} is {describe(found)}: it has no {name.component}")
        letters = [letters.find(name.component[1:]) for letters in _COMPONENTS if len(name.component) == 2]
        at = max(letters, default=-1)
        if not 0 <= at < len(found.elements):
            raise SourceError(name.component, f"{name.token} has {len(found.elements)} elements, and no "
                                              f"{name.component}")
        return found.elements[at]

    def _symbol(self, name: syntax.Name) -> Symbol | int:
        """What a name stands for in an expression."""
        found = self.scope.find(name.token)
        if found is None and name.token == "WARP_SZ":
            return WARP_SIZE
        if found is None or isinstance(found, Register | RegisterVector):
            return self.register(name)
        if isinstance(found, Variable):
            return found
        if isinstance(found, Declared) and not found.entry:
            found.used = found.used or name.token
            return found.reference
        raise SourceError(name.token, f"{name.token} is {describe(found)}, which can't stand here")

    def _amount(self, node: syntax.OperandNode, expected: str) -> Amount:
        if not isinstance(node, syntax.Expression):
            raise SourceError(node.token, f"expected {expected}, not {_shape(node)}")
        return evaluate(node, self._symbol)

    # Values

    def _fits(self, place: Token, register: Register, kind: Type, wider: bool = False) -> Register:
        """The register, if it can hold a value of the type. ``place`` is its name in the text."""
        if Type.PRED in (register.type, kind):
            agree = register.type is kind
        else:
            agree = register.type.bits >= kind.bits if wider else register.type.bits == kind.bits
        if not agree:
            what = "a predicate" if kind is Type.PRED else f"{kind.bits} bits{' or more' if wider else ''}"
            raise SourceError(place, f"{place} has type .{register.type.value}: expected {what}")
        if not register.type.agrees(kind):
            raise SourceError(place, f"{place} has type .{register.type.value}: expected .{kind.value} or bits")
        return register

    def source(self, node: syntax.OperandNode, kind: Type, *, wider: bool = False,
               negated: bool = False) -> Register | Immediate | Negated:
        """A register or number of a type; ``wider``: or a wider register; ``negated``: or ``!p``."""
        if kind is Type.PRED and isinstance(node, syntax.Expression) and len(node.items) == 1:
            signed = node.items[0]
            if isinstance(signed, syntax.Signed) and signed.token == "!" and isinstance(signed.operand, syntax.Name):
                if not negated:
                    raise SourceError(signed.token, f"{self.instruction.opcode} takes no negated predicate here")
                return Negated(self._fits(signed.operand.token, self.register(signed.operand), kind))
        amount = self._amount(node, "a register or a number")
        match amount.symbol:
            case None:
                bits = number_bits(node.token, amount, kind)
                return Immediate(int(bool(amount.value)) if kind is Type.PRED else bits)
            case Register():
                self._alone(node, amount)
                return self._fits(amount.name or node.token, amount.symbol, kind, wider)
            case Variable() | FunctionRef():
                raise SourceError(node.token, f"{self.instruction.opcode} takes no address here: mov gives a register "
                                              "the address")

    @staticmethod
    def _alone(node: syntax.OperandNode, amount: Amount) -> None:
        if amount.value:
            raise SourceError(node.token, "a number is added to a register only in an address")

    def destination(self, node: syntax.OperandNode, kind: Type, *, wider: bool = False,
                    sink: bool = False) -> Register | Sink:
        """A register for a result; ``sink``: or ``_``."""
        name = syntax.lone_name(node)
        if name is None:
            raise SourceError(node.token, f"expected a register for the result, not {_shape(node)}")
        if name.token == SINK:
            if not sink:
                raise SourceError(node.token, f"{self.instruction.opcode} needs a register for its result, not _")
            return Sink()
        return self._fits(node.token, self.register(name), kind, wider)

    def _pair(self, node: syntax.OperandNode, kind: Type) -> tuple[Operand, Operand]:
        """``p|q``, or p alone."""
        match node:
            case syntax.Expression(items=[syntax.Name() as first, Token(value="|"), syntax.Name() as second]):
                both = (syntax.Expression([first]), syntax.Expression([second]))
                found = self.destination(both[0], kind, sink=True), self.destination(both[1], Type.PRED, sink=True)
                if found == (Sink(), Sink()):
                    raise SourceError(node.token, "one of both results needs a register")
                return found
            case _:
                return self.destination(node, kind), Sink()

    # Memory

    def address(self, node: syntax.OperandNode, store: bool) -> tuple[Address, Space | None]:
        """An address, and the space it is in: that of a variable where the instruction does not say."""
        if not isinstance(node, syntax.Address):
            if not isinstance(node, syntax.Expression) or not isinstance(node.items[0], syntax.Element):
                raise SourceError(node.token, f"expected an address in brackets, not {_shape(node)}")
            inner = node
        else:
            inner = node.inner
        amount = evaluate(inner, self._symbol)
        base, space, name = amount.symbol, self.instruction.space, amount.name or node.token
        if isinstance(base, FunctionRef):
            raise SourceError(name, f"{name} is a function: it has no place in memory")
        if isinstance(base, Variable):
            if space not in (None, base.space):
                raise SourceError(name, f"{name} is in {base.space.value} space, not in {space.value} space")
            space = base.space
        self._check_space(name, base, space, store)
        if self.instruction.opcode in ("atom", "red") and space not in (None, Space.GLOBAL, Space.SHARED):
            raise SourceError(name, f"{name} is in {space.value} space: atomic operations are in global and shared "
                                    "space")
        if amount.real is not None:
            raise SourceError(node.token, "an address is a whole number")
        if amount.value not in _OFFSETS:
            raise SourceError(node.token, f"an offset of {amount.value:#x} does not fit 32 bits")
        return Address(base, amount.value), space

    def _check_space(self, place: Token, base: Register | Variable | None, space: Space | None, store: bool) -> None:
        """Refuses bases and stores that a space does not allow."""
        if space is Space.PARAM and not isinstance(base, Variable):
            if base is None or not self.entry:
                raise SourceError(place, "a parameter is accessed by its name")
            if store:
                raise SourceError(place, "an entry's parameters can't be changed")
        if isinstance(base, Register) and base.type.bits != 64 and not (
                base.type.bits == 32 and space in _SHORT_SPACES):
            where = "a generic address" if space is None else f"an address in {space.value} space"
            bits = "32 or 64" if space in _SHORT_SPACES else "64"
            raise SourceError(place, f"{place} has type .{base.type.value}: {where} has {bits} bits")
        if store and space is Space.CONST:
            raise SourceError(place, "const space can't be changed")
        if store and base in self.readonly:
            raise SourceError(place, f"{place} is a parameter that the function is given: it can't be changed")

    def moved(self, node: syntax.OperandNode, kind: Type, count: int,
              result: bool) -> Register | Immediate | Sink | Vector:
        """What ld gives or st takes: ``count`` registers of at least the type's width, in braces when it is not 1."""
        if kind.bits * count > _VECTOR_LIMIT:
            raise SourceError(node.token, f"{count} times {kind.bits} bits are more than {_VECTOR_LIMIT}")
        if count == 1:
            return self._moved_one(node, kind, result, sink=False)
        elements = self._elements(node)
        if elements is None or len(elements) != count:
            raise SourceError(node.token, f"expected a vector of {count} elements, such as {{a, b}}")
        return Vector(tuple(element if isinstance(element, Register) else
                            self._moved_one(element, kind, result, sink=True) for element in elements))

    def _moved_one(self, node: syntax.OperandNode, kind: Type, result: bool,
                   sink: bool) -> Register | Immediate | Sink:
        if result:
            return self.destination(node, kind, wider=True, sink=sink)
        found = self.source(node, kind, wider=True)
        assert not isinstance(found, Negated)
        return found

    def _elements(self, node: syntax.OperandNode) -> list[syntax.OperandNode] | tuple[Register, ...] | None:
        """The elements of a vector; None where it is none."""
        if isinstance(node, syntax.Vector):
            return node.items
        name = syntax.lone_name(node)
        found = self.scope.find(name.token) if name is not None and name.component is None else None
        return found.elements if isinstance(found, RegisterVector) else None

    # mov

    def move(self, nodes: list[syntax.OperandNode], kind: Type) -> tuple[Operand, Operand]:
        """Both operands of mov: a value, or a vector on one side."""
        target, value = nodes
        packed, unpacked = self._elements(value), self._elements(target)
        if packed is not None and unpacked is not None:
            raise SourceError(value.token, "mov takes a vector on one side only")
        if unpacked is not None:
            found = self.source(value, kind)
            return self._packed(target, unpacked, kind, result=True), found
        if packed is not None:
            return self.destination(target, kind), self._packed(value, packed, kind, result=False)
        return self.destination(target, kind), self.value(value, kind)

    def _packed(self, node: syntax.OperandNode, elements: list[syntax.OperandNode] | tuple[Register, ...], kind: Type,
                result: bool) -> Vector:
        part = f"b{kind.bits // len(elements)}"
        if kind.value[0] != "b" or part not in ("b8", "b16", "b32"):
            raise SourceError(node.token, f"mov.{kind.value} moves no vector of {len(elements)}: expected .b16, .b32 "
                                          "or .b64, in 2 parts or 4")
        found: list[Register | Immediate | Sink] = []
        for element in elements:
            if isinstance(element, Register):
                found.append(self._fits(node.token, element, Type(part)))
            elif result:
                found.append(self.destination(element, Type(part), sink=True))
            else:
                value = self.source(element, Type(part))
                assert not isinstance(value, Negated)
                found.append(value)
        return Vector(tuple(found))

    def value(self, node: syntax.OperandNode, kind: Type) -> Operand:
        """What mov, cvt and cvta can read: a register, a number, a special register, an address."""
        name = syntax.lone_name(node)
        if name is not None and self.scope.find(name.token) is None:
            special = special_register(name)
            if special is not None:
                register, bits = special
                if kind.bits != bits:
                    raise SourceError(name.token, f"{name.token} has {bits} bits, not {kind.bits}")
                return register
        if kind is Type.PRED:
            return self.source(node, kind, negated=True)
        amount = self._amount(node, "a register, a number or an address")
        match amount.symbol:
            case Variable():
                return self._variable_address(node, amount, kind)
            case FunctionRef():
                if kind.bits < 32 or amount.value:
                    raise SourceError(node.token, f"the address of {amount.symbol.name} has 32 or 64 bits, and nothing "
                                                  "is added to it")
                return amount.symbol
            case _:
                return self.source(node, kind)

    def _variable_address(self, node: syntax.OperandNode, amount: Amount, kind: Type) -> VariableRef:
        variable, name = amount.symbol, amount.name
        assert isinstance(variable, Variable)
        if amount.generic and variable.space is not Space.GLOBAL:
            raise SourceError(node.token, f"generic() of a variable in {variable.space.value} space: use cvta")
        if variable.space is Space.PARAM and not (self.entry and variable in self.readonly):
            raise SourceError(node.token, f"{name} is no parameter of an entry, and has no address: ld.param reads it")
        if kind.bits != 64 and not (kind.bits == 32 and variable.space in _SHORT_SPACES):
            raise SourceError(node.token, f"the address of {name} does not fit {kind.bits} bits")
        return VariableRef(variable, amount.value)

    # Patterns

    def read(self, pattern: str, node: syntax.OperandNode) -> tuple[Operand, ...]:
        """The operands that one place in the text gives."""
        instruction = self.instruction
        match pattern:
            case "[]":
                store = instruction.opcode in ("st", "atom", "red")
                address, _ = self.address(node, store)
                return (address,)
            case ">*":
                return (self.moved(node, instruction.type, instruction.vector, result=True),)
            case "<*":
                return (self.moved(node, instruction.type, instruction.vector, result=False),)
            case "barrier":
                return (self._number(node, range(BARRIERS), 1),)
            case "threads?" | "threads":
                return (self._number(node, range(WARP_THREADS, 1024 + 1), WARP_THREADS),)
        if pattern.startswith("#"):
            return (self._constant(node, range(int(pattern[1:]))),)
        return self._typed(pattern, node)

    def _typed(self, pattern: str, node: syntax.OperandNode) -> tuple[Operand, ...]:
        match = re.fullmatch(r"(>\||<=|[<>&])([a-z0-9]+)([~!_]?)\??", pattern)
        assert match is not None
        kind = self._type(match[2])
        match match[1]:
            case ">|":
                return self._pair(node, kind)
            case ">":
                return (self.destination(node, kind, wider=match[3] == "~", sink=match[3] == "_"),)
            case "&":
                return (self._address_value(node, kind),)
            case "<=":
                found = self.source(node, kind)
                if not isinstance(found, Register):
                    raise SourceError(node.token, "expected a register")
                return (found,)
            case _:
                if match[3] == "~" and self._is_special(node):
                    return (self.value(node, kind),)
                return (self.source(node, kind, wider=match[3] == "~", negated=match[3] == "!"),)

    def _is_special(self, node: syntax.OperandNode) -> bool:
        name = syntax.lone_name(node)
        return name is not None and self.scope.find(name.token) is None and special_register(name) is not None

    def _address_value(self, node: syntax.OperandNode, kind: Type) -> Operand:
        """What cvta converts."""
        found = self.value(node, kind)
        if isinstance(found, VariableRef) and (found.variable.space is not self.instruction.space
                                               or self.instruction.to):
            raise SourceError(node.token, f"{node.token} is in {found.variable.space.value} space")
        if not isinstance(found, VariableRef | Register | Immediate):
            raise SourceError(node.token, "expected an address")
        return found

    def _type(self, name: str) -> Type:
        types = self.instruction.types
        match name:
            case "0" | "1" | "2":
                return types[int(name)]
            case "w":
                return _WIDE[types[0]]
            case _:
                return Type(name)

    def _number(self, node: syntax.OperandNode, values: range, step: int) -> Register | Immediate:
        """A register of 32 bits, or a number out of a range and a multiple of ``step``."""
        found = self.source(node, Type.U32)
        assert not isinstance(found, Negated)
        if isinstance(found, Immediate) and (found.value not in values or found.value % step):
            of = f"a multiple of {step} " if step > 1 else ""
            raise SourceError(node.token, f"{found.value} is not {of}from {values[0]} to {values[-1]}")
        return found

    def _constant(self, node: syntax.OperandNode, values: range) -> Immediate:
        amount = self._amount(node, "a number")
        if amount.symbol is not None or amount.real is not None or amount.value not in values:
            raise SourceError(node.token, f"expected a number from {values[0]} to {values[-1]}")
        return Immediate(amount.value)


def _shape(node: syntax.OperandNode) -> str:
    """What an operand looks like, in a message."""
    match node:
        case syntax.Address():
            return "an address in brackets"
        case syntax.Vector():
            return "a vector"
        case _:
            return "an expression"
