"""Operands of instructions: evaluates their text and checks it against the instruction.

An operand's kind (:mod:`~sim.toolchain.ptx.operand_kinds`) defines what is allowed. Register sizes
must agree with the instruction's types; signedness may differ.
"""

from collections.abc import Set
from dataclasses import dataclass, field

from lark import Token

from rtl.isa.barriers import BARRIERS
from sim.toolchain.grammar import SourceError

from . import syntax
from .expressions import Amount, Symbol, evaluate
from .module import (
    FunctionRef,
    Negated,
    Operand,
    PtxAddress,
    PtxImmediate,
    PtxInstruction,
    PtxRegister,
    PtxSpace,
    PtxSpecialRegister,
    PtxVariable,
    PtxVector,
    Sink,
    Type,
    VariableRef,
)
from .names import (
    BranchTable,
    CallTable,
    Declared,
    Entity,
    Opaque,
    Prototype,
    RegisterVector,
    Scope,
    TextureError,
)
from .operand_kinds import (
    AddressOperand,
    AddressRegister,
    BarrierNumber,
    LoadResult,
    NumberBelow,
    OperandKind,
    PointerSource,
    ResultAndPredicate,
    ResultOperand,
    SourceOperand,
    SourceRegister,
    StoreSource,
    ThreadCount,
    type_of,
)
from .special import VECTOR_REGISTERS, WARP_SIZE, special_register, special_vector, special_widths

__all__ = ["OperandReader", "describe", "number_bits"]

SINK = "_"
WARP_THREADS = WARP_SIZE
_VECTOR_LIMIT = 128
"""The most bits that one ld or st moves."""
_OFFSETS = range(-(1 << 31), 1 << 32)
_COMPONENTS = ("xyzw", "rgba")
_WHOLE = {16: Type.U16, 32: Type.U32, 64: Type.U64}
_SHORT_SPACES = (PtxSpace.SHARED, PtxSpace.LOCAL, PtxSpace.CONST, PtxSpace.PARAM)
"""Spaces with addresses of 32 bits."""


def describe(entity: Entity) -> str:
    """Returns a description of an entity for messages."""
    match entity:
        case PtxRegister():
            return f"a register of type .{entity.type.value}"
        case PtxVariable():
            return f"a variable in {entity.space.value} space"
        case Declared():
            return "an entry" if entity.entry else "a function"
        case Opaque():
            return entity.kind
        case _:
            return _KINDS.get(type(entity), "a label")


def number_bits(token: Token, amount: Amount, kind: Type) -> int:
    """Returns the bits of a constant as a value of a type."""
    real = amount.real
    if kind is Type.F16:
        raise SourceError(token, "there are no constants of type .f16")
    if real is None:
        if kind.floating:
            raise SourceError(token, "expected a floating-point number, such as 1.0 or 0f3f800000")
        return amount.value & (1 << kind.bits) - 1
    if kind.floating:
        return real.of(kind)
    written = isinstance(token, Token) and token[:2].lower() in ("0f", "0d")
    if kind.value != f"b{real.type.bits}" or not (written or kind is Type.B64):
        raise SourceError(token, "expected a whole number")
    return real.bits


_KINDS = {
    RegisterVector: "a vector of registers",
    BranchTable: "a list of branch targets",
    CallTable: "a list of call targets",
    Prototype: "a prototype",
}


@dataclass
class OperandReader:
    """Reads the operands of one instruction in its scope.

    Attributes:
        scope: The scope of the instruction.
        instruction: The instruction with its modifiers.
        readonly: Variables that cannot be stored to: the function's parameters.
        results: The function's results.
        entry: Whether the function is an entry. The addresses of an entry's parameters are in its
            parameter block; those of other functions' parameters and results are in local space.
        bare: Whether addresses may be without brackets.
        before: Instructions that compute operands; they precede this one.
        space: The space of the last address.
    """

    scope: Scope
    instruction: PtxInstruction
    readonly: Set[PtxVariable]
    results: Set[PtxVariable]
    entry: bool
    bare: bool
    before: list[PtxInstruction] = field(default_factory=list)
    space: PtxSpace | None = None

    # Names

    def entity(self, name: Token) -> Entity:
        """Returns the entity that a name denotes."""
        found = self.scope.find(name)
        if isinstance(found, Opaque):
            raise TextureError(name, f"{name} is {found.kind}")
        if found is None:
            special = (
                special_register(syntax.NameNode(name, None))
                if name not in VECTOR_REGISTERS
                else name
            )
            raise SourceError(
                name,
                f"{name} is a special register: mov reads it"
                if special
                else f"{name} is not declared here",
            )
        return found

    def register(self, name: syntax.NameNode) -> PtxRegister:
        """Returns the register that a name denotes."""
        found = self.entity(name.token)
        if name.component is not None:
            return self._element(name, found)
        if not isinstance(found, PtxRegister):
            raise SourceError(name.token, f"expected a register: {name.token} is {describe(found)}")
        return found

    def _element(self, name: syntax.NameNode, found: Entity) -> PtxRegister:
        """Returns the element ``v.x`` of a vector register."""
        assert name.component is not None
        if not isinstance(found, RegisterVector):
            raise SourceError(
                name.component, f"{name.token} is {describe(found)}: it has no {name.component}"
            )
        letters = [
            letters.find(name.component[1:]) for letters in _COMPONENTS if len(name.component) == 2
        ]
        at = max(letters, default=-1)
        if not 0 <= at < len(found.elements):
            raise SourceError(
                name.component,
                f"{name.token} has {len(found.elements)} elements, and no {name.component}",
            )
        return found.elements[at]

    def _symbol(self, name: syntax.NameNode) -> Symbol | int:
        """Returns the meaning of a name in an expression."""
        found = self.scope.find(name.token)
        if found is None and name.token == "WARP_SZ":
            return WARP_SIZE
        if found is None or isinstance(found, PtxRegister | RegisterVector | Opaque):
            return self.register(name)
        if isinstance(found, PtxVariable):
            return found
        if isinstance(found, Declared) and not found.entry:
            found.used = found.used or name.token
            return found.reference
        raise SourceError(name.token, f"{name.token} is {describe(found)}, which can't stand here")

    def _amount(self, node: syntax.OperandNode, expected: str) -> Amount:
        if not isinstance(node, syntax.ExpressionNode):
            raise SourceError(node.token, f"expected {expected}, not {_shape(node)}")
        amount = evaluate(node, self._symbol)
        if amount.byte is not None:
            raise SourceError(
                node.token, "a byte of an address is a first value of a variable, and nothing else"
            )
        return amount

    # Values

    def _fits(
        self, place: Token, register: PtxRegister, kind: Type, wider: bool = False
    ) -> PtxRegister:
        """Returns the register if it can hold a value of the type. ``place`` is its name in the
        text.
        """
        if Type.PRED in (register.type, kind):
            agree = register.type is kind
        else:
            agree = register.type.bits >= kind.bits if wider else register.type.bits == kind.bits
        if not agree:
            what = (
                "a predicate"
                if kind is Type.PRED
                else f"{kind.bits} bits{' or more' if wider else ''}"
            )
            raise SourceError(place, f"{place} has type .{register.type.value}: expected {what}")
        if not register.type.agrees(kind):
            raise SourceError(
                place, f"{place} has type .{register.type.value}: expected .{kind.value} or bits"
            )
        return register

    def source(
        self, node: syntax.OperandNode, kind: Type, *, wider: bool = False, negated: bool = False
    ) -> PtxRegister | PtxImmediate | Negated:
        """Reads a register or number of a type. ``wider`` also allows a wider register, ``negated``
        also ``!p``.
        """
        if kind is Type.PRED and isinstance(node, syntax.ExpressionNode) and len(node.items) == 1:
            signed = node.items[0]
            if (
                isinstance(signed, syntax.SignedNode)
                and signed.token == "!"
                and isinstance(signed.operand, syntax.NameNode)
            ):
                if not negated:
                    raise SourceError(
                        signed.token, f"{self.instruction.opcode} takes no negated predicate here"
                    )
                return Negated(
                    self._fits(signed.operand.token, self.register(signed.operand), kind)
                )
        amount = self._amount(node, "a register or a number")
        match amount.symbol:
            case None:
                bits = number_bits(node.token, amount, kind)
                return PtxImmediate(int(bool(amount.value)) if kind is Type.PRED else bits)
            case PtxRegister():
                register = self._fits(amount.name or node.token, amount.symbol, kind, wider)
                return self._sum(node.token, register, amount.value) if amount.value else register
            case PtxVariable() if amount.value and not kind.floating:
                return self._held(self._variable_address(node, amount, kind), kind)
            case PtxVariable() | FunctionRef():
                raise SourceError(
                    node.token,
                    f"{self.instruction.opcode} takes no address here: mov gives a register "
                    "the address",
                )

    # Operands that need instructions of their own

    def _before(
        self, opcode: str, kind: Type, result: PtxRegister, *sources: Operand
    ) -> PtxRegister:
        """Adds an instruction that computes an operand before this one, and returns its result."""
        self.before.append(
            PtxInstruction(
                opcode=opcode,
                line=self.instruction.line,
                column=self.instruction.column,
                types=(kind,),
                operands=(result, *sources),
            )
        )
        return result

    def _sum(self, place: Token, register: PtxRegister, number: int) -> PtxRegister:
        """Returns a register with the sum of another register and a number."""
        kind = _WHOLE.get(register.type.bits)
        if kind is None or register.type.floating:
            raise SourceError(
                place,
                f"{place} has type .{register.type.value}: a number is added to a register of 16, "
                "32 or 64 bits, of integers or bits",
            )
        result = self.scope.new_register("sum", kind)
        return self._before(
            "add", kind, result, register, PtxImmediate(number & (1 << kind.bits) - 1)
        )

    def _held(self, value: Operand, kind: Type) -> PtxRegister:
        """Returns a register with an address or the value of a special register."""
        plain = Type(f"b{kind.bits}")
        return self._before("mov", plain, self.scope.new_register("held", plain), value)

    def destination(
        self, node: syntax.OperandNode, kind: Type, *, wider: bool = False, sink: bool = False
    ) -> PtxRegister | Sink:
        """Reads a register for a result. ``sink`` also allows ``_``."""
        name = syntax.lone_name(node)
        if name is None:
            raise SourceError(node.token, f"expected a register for the result, not {_shape(node)}")
        if name.token == SINK:
            if not sink:
                raise SourceError(
                    node.token, f"{self.instruction.opcode} needs a register for its result, not _"
                )
            return Sink()
        return self._fits(node.token, self.register(name), kind, wider)

    def _pair(self, node: syntax.OperandNode, kind: Type) -> tuple[Operand, Operand]:
        """Reads ``p|q``, or p only."""
        match node:
            case syntax.ExpressionNode(
                items=[syntax.NameNode() as first, Token(value="|"), syntax.NameNode() as second]
            ):
                both = (syntax.ExpressionNode([first]), syntax.ExpressionNode([second]))
                found = (
                    self.destination(both[0], kind, sink=True),
                    self.destination(both[1], Type.PRED, sink=True),
                )
                if found == (Sink(), Sink()):
                    raise SourceError(node.token, "one of both results needs a register")
                return found
            case _:
                return self.destination(node, kind), Sink()

    # Memory

    def address(self, node: syntax.OperandNode, store: bool) -> PtxAddress:
        """Reads an address, and sets ``space``: from the instruction, or else from the variable."""
        if not isinstance(node, syntax.AddressNode):
            if not isinstance(node, syntax.ExpressionNode) or not (
                self.bare or isinstance(node.items[0], syntax.ElementNode)
            ):
                raise SourceError(
                    node.token, f"expected an address in brackets, not {_shape(node)}"
                )
            inner = node
        else:
            inner = node.inner
        if isinstance(node, syntax.AddressNode) and node.coordinates:
            raise SourceError(node.coordinates[0].token, "an address is one sum")
        amount = evaluate(inner, self._symbol)
        base, space, name = amount.symbol, self.instruction.space, amount.name or node.token
        if isinstance(base, FunctionRef):
            raise SourceError(name, f"{name} is a function: it has no place in memory")
        if isinstance(base, PtxVariable):
            if space not in (None, base.space):
                raise SourceError(
                    name, f"{name} is in {base.space.value} space, not in {space.value} space"
                )
            space = base.space
        self._check_space(name, base, space, store)
        if space is PtxSpace.PARAM and isinstance(base, PtxRegister) and not self.entry:
            space = PtxSpace.LOCAL  # the location of parameters whose addresses are taken
        if self.instruction.opcode in ("atom", "red") and space not in (
            None,
            PtxSpace.GLOBAL,
            PtxSpace.SHARED,
        ):
            raise SourceError(
                name,
                f"{name} is in {space.value} space: atomic operations are in global and shared "
                "space",
            )
        if amount.real is not None:
            raise SourceError(node.token, "an address is a whole number")
        if amount.value not in _OFFSETS:
            raise SourceError(node.token, f"an offset of {amount.value:#x} does not fit 32 bits")
        self.space = space
        return PtxAddress(base, amount.value)

    def _check_space(
        self,
        place: Token,
        base: PtxRegister | PtxVariable | None,
        space: PtxSpace | None,
        store: bool,
    ) -> None:
        """Raises SourceError for a base or store that the space does not allow."""
        if space is PtxSpace.PARAM and not isinstance(base, PtxVariable):
            if base is None:
                raise SourceError(place, "a parameter is accessed by its name")
            if store and self.entry:
                raise SourceError(place, "an entry's parameters can't be changed")
        if (
            isinstance(base, PtxRegister)
            and base.type.bits != 64
            and not (base.type.bits == 32 and space in _SHORT_SPACES)
        ):
            where = "a generic address" if space is None else f"an address in {space.value} space"
            bits = "32 or 64" if space in _SHORT_SPACES else "64"
            raise SourceError(
                place, f"{place} has type .{base.type.value}: {where} has {bits} bits"
            )
        if store and space is PtxSpace.CONST:
            raise SourceError(place, "const space can't be changed")
        if store and base in self.readonly:
            raise SourceError(
                place, f"{place} is a parameter that the function is given: it can't be changed"
            )

    def moved(
        self, node: syntax.OperandNode, kind: Type, count: int, result: bool
    ) -> PtxRegister | PtxImmediate | Sink | PtxVector:
        """Reads the destination of ld or the source of st: ``count`` registers of at least the
        type's width, in braces unless it is 1.
        """
        if kind.bits * count > _VECTOR_LIMIT:
            raise SourceError(
                node.token, f"{count} times {kind.bits} bits are more than {_VECTOR_LIMIT}"
            )
        if count == 1:
            return self._moved_one(node, kind, result, sink=False)
        return PtxVector(
            tuple(
                element
                if isinstance(element, PtxRegister)
                else self._moved_one(element, kind, result, sink=True)
                for element in self._exactly(node, count)
            )
        )

    def _moved_one(
        self, node: syntax.OperandNode, kind: Type, result: bool, sink: bool
    ) -> PtxRegister | PtxImmediate | Sink:
        if result:
            return self.destination(node, kind, wider=True, sink=sink)
        found = self.source(node, kind, wider=True)
        assert not isinstance(found, Negated)
        return found

    def _elements(
        self, node: syntax.OperandNode
    ) -> list[syntax.OperandNode] | tuple[PtxRegister, ...] | None:
        """Returns the elements of a vector, or None for other operands."""
        if isinstance(node, syntax.VectorNode):
            return node.items
        name = syntax.lone_name(node)
        found = self.scope.find(name.token) if name is not None and name.component is None else None
        return found.elements if isinstance(found, RegisterVector) else None

    # mov

    def move(self, nodes: list[syntax.OperandNode], kind: Type) -> tuple[Operand, Operand]:
        """Reads both operands of mov: values, or a vector on one side."""
        target, value = nodes
        packed, unpacked = self._elements(value), self._elements(target)
        if packed is not None and unpacked is not None:
            raise SourceError(value.token, "mov takes vectors on both sides only with .v2 or .v4")
        if unpacked is not None:
            found = self.value(value, kind)
            if not isinstance(found, PtxRegister | PtxImmediate):
                found = self._held(found, kind)
            return self._packed(target, unpacked, kind, result=True), found
        if packed is not None:
            return self.destination(target, kind), self._packed(value, packed, kind, result=False)
        return self.destination(target, kind), self.value(value, kind)

    def move_vector(
        self, nodes: list[syntax.OperandNode], kind: Type, count: int
    ) -> list[PtxInstruction]:
        """Returns the instructions that move the elements of a vector to those of another one."""
        if kind.bits * count > _VECTOR_LIMIT:
            raise SourceError(
                nodes[0].token, f"{count} times {kind.bits} bits are more than {_VECTOR_LIMIT}"
            )
        target, value = nodes
        plain = Type(f"b{kind.bits}")  # only the sizes of the registers must agree, not the types
        results = [
            self._element_of(element, target, plain, result=True)
            for element in self._exactly(target, count)
        ]
        name = syntax.lone_name(value)
        special = (
            special_vector(name)
            if name is not None and self.scope.find(name.token) is None
            else None
        )
        if special is not None:
            if count != len(special) or kind.bits not in (16, 32):
                raise SourceError(
                    value.token,
                    f"{value.token} has four elements of 32 bits: expected .v4 and .u32 or .u16",
                )
            sources: list[Operand] = [*special]
        else:
            sources = [
                self._element_of(element, value, plain if _is_name(element) else kind, result=False)
                for element in self._exactly(value, count)
            ]
            if set(sources) & set(results):
                sources = [
                    source if isinstance(source, PtxImmediate) else self._held(source, kind)
                    for source in sources
                ]
        return [
            self.instruction.changed(vector=1, types=(plain,), operands=(result, source))
            for result, source in zip(results, sources, strict=True)
            if not isinstance(result, Sink)
        ]

    def _exactly(
        self, node: syntax.OperandNode, count: int
    ) -> list[syntax.OperandNode] | tuple[PtxRegister, ...]:
        elements = self._elements(node)
        if elements is None or len(elements) != count:
            raise SourceError(
                node.token, f"expected a vector of {count} elements, such as {{a, b}}"
            )
        return elements

    def _element_of(
        self,
        element: syntax.OperandNode | PtxRegister,
        node: syntax.OperandNode,
        kind: Type,
        *,
        result: bool,
    ) -> PtxRegister | PtxImmediate | Sink:
        """Reads an element of a vector whose elements have exactly this type."""
        if isinstance(element, PtxRegister):
            return self._fits(node.token, element, kind)
        if result:
            return self.destination(element, kind, sink=True)
        value = self.source(element, kind)
        assert not isinstance(value, Negated)
        return value

    def _packed(
        self,
        node: syntax.OperandNode,
        elements: list[syntax.OperandNode] | tuple[PtxRegister, ...],
        kind: Type,
        result: bool,
    ) -> PtxVector:
        part = f"b{kind.bits // len(elements)}"
        if kind.value[0] != "b" or part not in ("b8", "b16", "b32"):
            raise SourceError(
                node.token,
                f"mov.{kind.value} moves no vector of {len(elements)}: expected .b16, .b32 "
                "or .b64, in 2 parts or 4",
            )
        return PtxVector(
            tuple(
                self._element_of(element, node, Type(part), result=result) for element in elements
            )
        )

    def value(self, node: syntax.OperandNode, kind: Type) -> Operand:
        """Reads a source of mov, cvt or cvta: a register, a number, a special register, or an
        address.
        """
        name = syntax.lone_name(node)
        if name is not None and self.scope.find(name.token) is None:
            special = special_register(name)
            if special is not None:
                register, bits = special
                if kind.bits not in self._special_widths(register, bits):
                    raise SourceError(name.token, f"{name.token} has {bits} bits, not {kind.bits}")
                return register
        if kind is Type.PRED:
            return self.source(node, kind, negated=True)
        amount = self._amount(node, "a register, a number or an address")
        match amount.symbol:
            case PtxVariable():
                return self._variable_address(node, amount, kind)
            case FunctionRef():
                if kind.bits < 32 or amount.value:
                    raise SourceError(
                        node.token,
                        f"the address of {amount.symbol.name} has 32 or 64 bits, and nothing "
                        "is added to it",
                    )
                return amount.symbol
            case _:
                return self.source(node, kind)

    def _special_widths(
        self, register: PtxSpecialRegister | PtxImmediate, bits: int
    ) -> tuple[int, ...]:
        """Returns the widths in bits in which the instruction reads a special register of ``bits``
        bits. cvt also reads narrower ones.
        """
        own = (16, 32) if isinstance(register, PtxImmediate) else special_widths(register.name)
        return (
            own
            if self.instruction.opcode != "cvt"
            else (*own, *(width for width in (8, 16, 32) if width < bits))
        )

    def _variable_address(
        self, node: syntax.OperandNode, amount: Amount, kind: Type
    ) -> VariableRef:
        variable, name = amount.symbol, amount.name
        assert isinstance(variable, PtxVariable)
        if amount.generic and variable.space is not PtxSpace.GLOBAL:
            raise SourceError(
                node.token, f"generic() of a variable in {variable.space.value} space: use cvta"
            )
        if (
            variable.space is PtxSpace.PARAM
            and variable not in self.readonly
            and variable not in self.results
        ):
            raise SourceError(
                node.token,
                f"{name} is no parameter of the function, and has no address: ld.param reads it",
            )
        short = variable.space in _SHORT_SPACES or self.instruction.opcode == "cvta"
        if kind.bits != 64 and not (kind.bits == 32 and short):
            raise SourceError(node.token, f"the address of {name} does not fit {kind.bits} bits")
        return VariableRef(variable, amount.value)

    # Kinds of operands

    def read(self, kind: OperandKind, node: syntax.OperandNode) -> tuple[Operand, ...]:
        """Reads the operands at one place of the text."""
        instruction = self.instruction
        types = instruction.types
        match kind:
            case ResultOperand():
                found = self.destination(
                    node, type_of(kind.type, types), wider=kind.wider, sink=kind.sink
                )
            case SourceOperand():
                found = self._source_of(kind, node)
            case ResultAndPredicate():
                return self._pair(node, type_of(kind.type, types))
            case SourceRegister():
                found = self.source(node, type_of(kind.type, types))
                if not isinstance(found, PtxRegister):
                    raise SourceError(node.token, "expected a register")
            case AddressOperand():
                found = self.address(node, store=instruction.opcode in ("st", "atom", "red"))
            case LoadResult():
                found = self.moved(node, instruction.type, instruction.vector, result=True)
            case StoreSource():
                found = self.moved(node, instruction.type, instruction.vector, result=False)
            case PointerSource():
                found = self._address_value(node, type_of(kind.type, types))
            case AddressRegister():
                found = self._address_register(node)
            case NumberBelow():
                found = self._constant(node, range(kind.limit))
            case BarrierNumber():
                found = self._number(node, range(BARRIERS), 1)
            case ThreadCount():
                found = self._number(node, range(WARP_THREADS, 1024 + 1), WARP_THREADS)
            case _:
                raise AssertionError(f"{kind} is not one operand")
        return (found,)

    def _source_of(self, kind: SourceOperand, node: syntax.OperandNode) -> Operand:
        """Reads a source. A special register is allowed if a wider register is."""
        type_ = type_of(kind.type, self.instruction.types)
        if kind.wider and self._is_special(node):
            return self.value(node, type_)
        return self.source(node, type_, wider=kind.wider, negated=kind.complement)

    def _address_register(self, node: syntax.OperandNode) -> PtxRegister:
        """Reads a register of 32 or 64 bits."""
        name = syntax.lone_name(node)
        if name is None or not isinstance(self.entity(name.token), PtxRegister | RegisterVector):
            raise SourceError(node.token, "expected a register")
        register = self.register(name)
        return self._fits(
            name.token, register, Type.U32 if register.type.bits == Type.U32.bits else Type.U64
        )

    def _is_special(self, node: syntax.OperandNode) -> bool:
        name = syntax.lone_name(node)
        return (
            name is not None
            and self.scope.find(name.token) is None
            and special_register(name) is not None
        )

    def _address_value(self, node: syntax.OperandNode, kind: Type) -> Operand:
        """Reads the source of cvta."""
        found = self.value(node, kind)
        if isinstance(found, VariableRef) and (
            found.variable.space is not self.instruction.space or self.instruction.to
        ):
            raise SourceError(node.token, f"{node.token} is in {found.variable.space.value} space")
        if not isinstance(found, VariableRef | PtxRegister | PtxImmediate):
            raise SourceError(node.token, "expected an address")
        return found

    def _number(
        self, node: syntax.OperandNode, values: range, step: int
    ) -> PtxRegister | PtxImmediate:
        """Reads a register of 32 bits, or a number in a range that is a multiple of ``step``."""
        found = self.source(node, Type.U32)
        assert not isinstance(found, Negated)
        if isinstance(found, PtxImmediate) and (found.value not in values or found.value % step):
            of = f"a multiple of {step} " if step > 1 else ""
            raise SourceError(
                node.token, f"{found.value} is not {of}from {values[0]} to {values[-1]}"
            )
        return found

    def _constant(self, node: syntax.OperandNode, values: range) -> PtxImmediate:
        amount = self._amount(node, "a number")
        if amount.symbol is not None or amount.real is not None or amount.value not in values:
            raise SourceError(node.token, f"expected a number from {values[0]} to {values[-1]}")
        return PtxImmediate(amount.value)


def _is_name(element: syntax.OperandNode | PtxRegister) -> bool:
    """Whether an element of a vector is a register."""
    return isinstance(element, PtxRegister) or syntax.lone_name(element) is not None


def _shape(node: syntax.OperandNode) -> str:
    """Returns a description of an operand's syntax for messages."""
    match node:
        case syntax.AddressNode():
            return "an address in brackets"
        case syntax.VectorNode():
            return "a vector"
        case _:
            return "an expression"
