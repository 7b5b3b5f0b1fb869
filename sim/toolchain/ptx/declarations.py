"""Declarations of registers, variables and parameters: types, sizes, alignments and initial
values.
"""

import re
from dataclasses import dataclass

from lark import Token

from sim.toolchain.grammar import Place, SourceError

from . import syntax
from .expressions import evaluate
from .forms import FIRST_BANK, reason_refused
from .module import (
    AddressOf,
    FunctionRef,
    Linkage,
    PtxRegister,
    PtxSpace,
    PtxVariable,
    Signature,
    Type,
)
from .names import Declared, Namer, Opaque, RegisterVector, Scope, TextureError
from .operands import describe, number_bits

__all__ = ["TEXTURE_TYPES", "declare", "linkage", "parameters", "signature"]

_TYPES = {kind.value: kind for kind in Type}
_VECTORS = {"v2": 2, "v4": 4}
_MOST_ELEMENTS = 1 << 32
"""The largest dimension of an array (ours: larger numbers are taken for errors)."""
_LARGEST = 1 << 28
"""The largest size of a variable in bytes (ours)."""
_LARGEST_PARAMETER = 1 << 15
"""The largest size of a function's parameter or result in bytes (ours: each word of it is a
register of the compiler).
"""
TEXTURE_TYPES = {"texref": "a texture", "samplerref": "a sampler", "surfref": "a surface"}
"""Opaque types, to which a driver binds an image."""
_STATIC = (PtxSpace.CONST, PtxSpace.GLOBAL, PtxSpace.SHARED)


@dataclass(frozen=True)
class _Shape:
    """The traits of a declaration: a type, the number of values in an element, an alignment in
    bytes.
    """

    type: Type
    vector: int
    alignment: int

    @property
    def register_names(self) -> str:
        """The component letters of a vector register."""
        return "xyzw"[: self.vector]


def _opaque_kind(traits: list[Token | syntax.AlignNode]) -> Token | None:
    """Returns the trait that declares a texture, sampler or surface, or None."""
    return next(
        (item for item in traits if isinstance(item, Token) and item[1:] in TEXTURE_TYPES), None
    )


def linkage(token: Token | None) -> Linkage:
    """Returns the linkage that a directive gives."""
    return Linkage(token[1:]) if token is not None else Linkage.INTERNAL


def _shape(traits: list[Token | syntax.AlignNode], place: Place) -> _Shape:
    kind: Type | None = None
    vector, alignment = 1, 0
    # The words after .ptr describe the memory that a pointer points to.
    own = next((at for at, item in enumerate(traits) if item == ".ptr"), len(traits))
    for item in traits[:own]:
        if isinstance(item, syntax.AlignNode):
            if int(item.bytes) not in (1, 2, 4, 8, 16, 32, 64, 128, 256):
                raise SourceError(
                    item.bytes, f"an alignment of {item.bytes}: expected a power of 2 up to 256"
                )
            alignment = max(alignment, int(item.bytes))
        elif item.type == "ATTRIBUTE":
            _check_attribute(item, place)
        elif item[1:] in _VECTORS and vector == 1:
            vector = _VECTORS[item[1:]]
        elif item[1:] in _TYPES and kind is None:
            kind = _TYPES[item[1:]]
        else:
            reason = reason_refused(item[1:]) or "expected one type of numbers or predicates"
            raise SourceError(item, f"{item}: {reason}")
    if kind is None:
        raise SourceError(place, "the declaration has no type")
    return _Shape(kind, vector, max(alignment, kind.size * vector))


def _check_attribute(item: Token, place: Place) -> None:
    """Accepts ``.attribute(.managed)``, which has no effect: the host can access all global
    memory.
    """
    inner = "".join(item.split()).removeprefix(".attribute(").removesuffix(")")
    if not re.fullmatch(
        r"\.(managed|unified\([^,()]+,[^,()]+\))(,\.(managed|unified\([^,()]+,[^,()]+\)))*", inner
    ):
        raise SourceError(item, f"{item}: expected .managed or .unified(uuid1, uuid2)")
    if place != ".global":
        raise SourceError(item, f"{item} is for variables in global space")


def _sizes(
    dimensions: list[syntax.ExpressionNode | None], scope: Scope, place: Token
) -> list[int | None]:
    """Returns the lengths of the dimensions, None for a first one that is open."""
    found: list[int | None] = []
    for at, length in enumerate(dimensions):
        if length is None:
            if at:
                raise SourceError(place, f"only the first dimension of {place} may be open")
            found.append(None)
            continue
        amount = evaluate(length, lambda name: _no_name(name.token))
        if amount.real is not None or amount.value < 0 or amount.value > _MOST_ELEMENTS:
            raise SourceError(length.token, f"{place} has no {amount.value} elements")
        found.append(amount.value)
    return found


def _no_name(name: Token) -> int:
    raise SourceError(name, f"{name} is no constant")


def declare(
    node: syntax.VariableNode,
    scope: Scope,
    names: Namer,
    owner: str | None,
    *,
    old: bool = False,
    banks: bool = False,
) -> list[PtxVariable]:
    """Adds the entities of a declaration to a scope.

    Args:
        node: The declaration.
        scope: The scope.
        names: The namer of the module, for unique names.
        owner: The function around the declaration, None for the module.
        old: Whether a module may have registers and variables in local space, as before PTX 3.0.
        banks: Whether const space may be called ``.const[0]``, as before PTX 2.2.

    Returns:
        The declared variables.
    """
    found = _opaque_kind(node.traits)
    opaque = found[1:] if found is not None else "texref" if node.space == ".tex" else None
    if opaque is not None:
        if node.space not in (".global", ".tex", ".param") or owner is not None:
            raise SourceError(
                node.space,
                f"{TEXTURE_TYPES[opaque]} is declared in global space, outside of functions",
            )
        for declarator in node.declarators:
            scope.declare(declarator.name, Opaque(TEXTURE_TYPES[opaque]))
        return []
    if node.attribute is not None:
        _check_attribute(node.attribute, node.space)
    shape = _shape(node.traits, node.space)
    if node.space == ".reg":
        for declarator in node.declarators:
            _declare_registers(node, declarator, shape, scope, old)
        return []
    if "[" in node.space and not (banks and node.space[1:] == FIRST_BANK):
        raise SourceError(
            node.space,
            f"{node.space}: only before PTX 2.2 there was .const[0], and other banks are a "
            "driver's",
        )
    space = PtxSpace(node.space[1:].partition("[")[0])
    if shape.type is Type.PRED:
        raise SourceError(node.space, f"a predicate has no place in {space.value} space")
    if owner is None and (space is PtxSpace.PARAM or (space is PtxSpace.LOCAL and not old)):
        raise SourceError(
            node.space, f"a variable in {space.value} space is declared in a function"
        )
    found = []
    for declarator in node.declarators:
        variables = _variables(declarator, node, shape, space, scope, names, owner)
        found += variables
    return found


def _declare_registers(
    node: syntax.VariableNode,
    declarator: syntax.DeclaratorNode,
    shape: _Shape,
    scope: Scope,
    old: bool,
) -> None:
    name = declarator.name
    if scope.outer is None and not old:
        raise SourceError(
            name, f"{name} is declared outside of any function: registers are a function's own"
        )
    if declarator.dimensions or declarator.initial is not None or node.linkage is not None:
        raise SourceError(
            name, f"{name} is a register: it has neither dimensions nor a first value nor a linkage"
        )
    if name == "_":
        raise SourceError(name, "_ can't be declared")
    if declarator.range is not None:
        if shape.vector != 1:
            raise SourceError(
                name, f"{name} is a range of vectors: expected registers of one element"
            )
        scope.declare_range(name, int(declarator.range), shape.type)
    elif shape.vector == 1:
        scope.declare(name, scope.new_register(str(name), shape.type))
    else:
        elements = tuple(
            scope.new_register(f"{name}.{letter}", shape.type) for letter in shape.register_names
        )
        scope.declare(name, RegisterVector(elements))


def _variables(
    declarator: syntax.DeclaratorNode,
    node: syntax.VariableNode,
    shape: _Shape,
    space: PtxSpace,
    scope: Scope,
    names: Namer,
    owner: str | None,
) -> list[PtxVariable]:
    name = declarator.name
    if name == "_":
        raise SourceError(name, "_ can't be declared")
    seen = linkage(node.linkage)
    sizes = _sizes(declarator.dimensions, scope, name)
    initial = _initial(declarator, shape, space, sizes, scope)
    if sizes and sizes[0] is None and initial:
        sizes[0] = -(-len(initial) // (_product(sizes[1:]) * shape.vector))
    open_array = bool(sizes) and sizes[0] is None
    if seen is Linkage.COMMON and space is not PtxSpace.GLOBAL:
        raise SourceError(
            name, f"{name} is in {space.value} space: a common variable is in global space"
        )
    if open_array and not (space is PtxSpace.SHARED and seen is Linkage.EXTERN):
        raise SourceError(
            name, f"{name} has no size: only an extern array in shared space may be open"
        )
    if seen is Linkage.EXTERN and initial:
        raise SourceError(name, f"{name} is extern: it has no first value")
    count = None if open_array else _product(sizes) * shape.vector
    if count is not None and count * shape.type.size > _LARGEST:
        raise SourceError(name, f"{name} has {count * shape.type.size} bytes: {_LARGEST} at most")
    copies = 1
    spelled = [name]
    if declarator.range is not None:
        copies = int(declarator.range)
        if copies > 1 << 12 or initial:
            raise SourceError(
                name,
                f"{name}<{copies}>: expected at most {1 << 12} variables, without first values",
            )
        spelled = [
            Token("WORD", f"{name}{number}", line=name.line, column=name.column)
            for number in range(copies)
        ]
    found = []
    for token in spelled:
        # A variable that outlives its function gets a unique name in the module.
        outlives = space in _STATIC or owner is None
        unique = (
            names.unique(str(token) if owner is None else f"{owner}.{token}")
            if outlives
            else scope.namer.unique(str(token))
        )
        variable = PtxVariable(unique, space, shape.type, count, shape.alignment, seen, initial)
        scope.declare(token, variable)
        found.append(variable)
    return found


def _product(sizes: list[int | None]) -> int:
    count = 1
    for size in sizes:
        count *= size or 0
    return count


# Initial values


def _initial(
    declarator: syntax.DeclaratorNode,
    shape: _Shape,
    space: PtxSpace,
    sizes: list[int | None],
    scope: Scope,
) -> tuple[int | AddressOf, ...]:
    """Returns the initial values of a variable in order."""
    node, name = declarator.initial, declarator.name
    if node is None:
        return ()
    if space not in (PtxSpace.CONST, PtxSpace.GLOBAL):
        raise SourceError(
            name,
            f"{name} is in {space.value} space: only const and global variables have first values",
        )
    levels = [*sizes, *([shape.vector] if shape.vector > 1 else [])]
    if not levels:
        if isinstance(node, syntax.BracesNode):
            raise SourceError(name, f"{name} is no array: it has one first value")
        return (_first_value(node, shape.type, scope),)
    if not isinstance(node, syntax.BracesNode):
        raise SourceError(node.token, f"{name} is an array: its first values stand in braces")
    return tuple(_flat(node, levels, shape.type, scope, name))


def _flat(
    node: syntax.BracesNode, levels: list[int | None], kind: Type, scope: Scope, name: Token
) -> list[int | AddressOf]:
    """Returns the values in braces. An inner list shorter than its dimension is padded with
    zeros.
    """
    found: list[int | AddressOf] = []
    inner = _product(levels[1:])
    for item in node.items:
        if isinstance(item, syntax.BracesNode):
            if len(levels) < 2:
                raise SourceError(name, f"{name} has fewer dimensions than its first values")
            found += [0] * (-len(found) % max(inner, 1))
            part = _flat(item, levels[1:], kind, scope, name)
            found += part + [0] * (inner - len(part))
        elif isinstance(item, syntax.PropertyNode):
            raise SourceError(item.token, f"{name} is no sampler: it has no {item.token}")
        else:
            found.append(_first_value(item, kind, scope))
    # An open dimension has as many parts as there are values, unless these have no elements.
    most = (levels[0] or 0) * inner
    if len(found) > most and (levels[0] is not None or not inner):
        raise SourceError(name, f"{name} has {most} elements and {len(found)} first values")
    return found


def _first_value(node: syntax.ExpressionNode, kind: Type, scope: Scope) -> int | AddressOf:
    """Returns a number, or the address of a function or variable."""

    def symbol(name: syntax.NameNode) -> PtxVariable | FunctionRef:
        found = scope.find(name.token)
        if found is None:
            raise SourceError(
                name.token, f"{name.token} is not declared: it is declared before it is named"
            )
        if isinstance(found, Declared) and not found.entry:
            found.used = found.used or name.token
            return found.reference
        if isinstance(found, PtxVariable) and found.space in _STATIC:
            return found
        if isinstance(found, Opaque):
            raise SourceError(
                name.token, f"{name.token} is {found.kind}: there are no textures and surfaces"
            )
        raise SourceError(
            name.token,
            f"expected a number, a function or a variable: {name.token} is {describe(found)}",
        )

    amount = evaluate(node, symbol)
    if amount.symbol is None:
        return number_bits(node.token, amount, kind)
    assert not isinstance(amount.symbol, PtxRegister)
    if kind.floating or (amount.byte is None and kind.bits not in (32, 64)):
        raise SourceError(node.token, f"the address of {amount.name} does not fit {kind.bits} bits")
    if isinstance(amount.symbol, PtxVariable) and amount.symbol.space is PtxSpace.SHARED:
        raise SourceError(
            node.token,
            f"{amount.name} is in shared space, which has no addresses before a kernel runs: "
            "every kernel has its own",
        )
    return AddressOf(amount.symbol.name, amount.value, amount.generic, amount.byte)


# Parameters


def parameters(
    nodes: list[syntax.ParameterNode] | None, scope: Scope, entry: bool
) -> list[tuple[syntax.ParameterNode, PtxRegister | RegisterVector | PtxVariable]]:
    """Returns parameters or results with their nodes. Their names are unique in the scope's namer;
    nothing is declared.
    """
    return [(node, _parameter(node, scope, entry)) for node in nodes or ()]


def _parameter(
    node: syntax.ParameterNode, scope: Scope, entry: bool
) -> PtxRegister | RegisterVector | PtxVariable:
    opaque = _opaque_kind(node.traits)
    if opaque is not None:
        raise TextureError(opaque, f"{node.name} is {TEXTURE_TYPES[opaque[1:]]}")
    shape = _shape(node.traits, node.space)
    sizes = _sizes(node.dimensions, scope, node.name)
    if node.space == ".reg":
        if entry:
            raise SourceError(
                node.name, f"{node.name} is a register: parameters of an entry are in param space"
            )
        if sizes:
            raise SourceError(node.name, f"{node.name} is a register: it has no dimensions")
        if shape.vector == 1:
            return PtxRegister(scope.namer.unique(str(node.name)), shape.type)
        return RegisterVector(
            tuple(
                PtxRegister(scope.namer.unique(f"{node.name}.{letter}"), shape.type)
                for letter in shape.register_names
            )
        )
    if node.space != ".param":
        raise SourceError(
            node.space, f"{node.name} is in {node.space[1:]} space: expected .param or .reg"
        )
    if shape.type is Type.PRED:
        raise SourceError(node.space, "a predicate has no place in param space")
    if None in sizes:
        raise SourceError(node.name, f"{node.name} has no size")
    count = _product(sizes) * shape.vector
    if count * shape.type.size > _LARGEST_PARAMETER:
        raise SourceError(
            node.name,
            f"{node.name} has {count * shape.type.size} bytes: {_LARGEST_PARAMETER} at most",
        )
    if not count and not entry:
        raise SourceError(node.name, f"{node.name} has no size")
    return PtxVariable(
        scope.namer.unique(str(node.name)), PtxSpace.PARAM, shape.type, count, shape.alignment
    )


def signature(
    results: list[tuple[syntax.ParameterNode, PtxRegister | RegisterVector | PtxVariable]],
    parameters: list[tuple[syntax.ParameterNode, PtxRegister | RegisterVector | PtxVariable]],
) -> Signature:
    """Returns the signature of a function or prototype, with vectors split into their elements."""
    return Signature(_each(results), _each(parameters))


def _each(
    items: list[tuple[syntax.ParameterNode, PtxRegister | RegisterVector | PtxVariable]],
) -> tuple[PtxRegister | PtxVariable, ...]:
    return tuple(
        part
        for _, item in items
        for part in (item.elements if isinstance(item, RegisterVector) else (item,))
    )
