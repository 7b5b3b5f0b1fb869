"""Branches and calls: labels, target lists, arguments by value."""

from collections.abc import Callable, Mapping

from lark import Token

from sim.toolchain.grammar import Place, SourceError

from . import syntax
from .module import (
    AddressOf,
    FunctionRef,
    Negated,
    PtxCall,
    PtxImmediate,
    PtxInstruction,
    PtxLabel,
    PtxRegister,
    PtxSpace,
    PtxVariable,
    Signature,
    Sink,
    Type,
)
from .names import BranchTable, CallTable, Declared, Prototype, RegisterVector, Scope
from .operand_kinds import BranchTarget, CallOperands, ControlOperands, IndexedBranchTargets
from .operands import SINK, OperandReader, describe

__all__ = ["CONTROL", "branch_table", "call_table", "find_label"]


def find_label(scope: Scope, name: Token) -> PtxLabel:
    """Returns the label with a name. It must be in the function and visible in this scope."""
    found = scope.find(name)
    if found is None:
        raise SourceError(name, f"{name} is no label of this function that is visible here")
    if not isinstance(found, PtxLabel):
        raise SourceError(name, f"expected a label: {name} is {describe(found)}")
    return found


def branch_table(scope: Scope, node: syntax.TableNode) -> BranchTable:
    """Reads a ``.branchtargets`` list."""
    return BranchTable(tuple(find_label(scope, name) for name in node.members))


def call_table(scope: Scope, node: syntax.TableNode) -> CallTable:
    """Reads a ``.calltargets`` list, whose functions must be declared before it."""
    return CallTable(tuple(_function(scope, name) for name in node.members))


def _function(scope: Scope, name: Token) -> Declared:
    found = scope.find(name)
    if found is None:
        raise SourceError(
            name, f"{name} is not declared: a function is declared before it is named"
        )
    if not isinstance(found, Declared) or found.entry:
        raise SourceError(name, f"expected a function: {name} is {describe(found)}")
    found.used = found.used or name
    return found


def _one_name(node: syntax.OperandNode, expected: str) -> Token:
    name = syntax.lone_name(node)
    if name is None or name.component is not None:
        raise SourceError(node.token, f"expected {expected}")
    return name.token


def _exactly(node: syntax.InstructionNode, count: int) -> list[syntax.OperandNode]:
    nodes = node.operands
    if len(nodes) != count:
        raise SourceError(
            node.opcode,
            f"{node.opcode} takes {count} operand{'s' if count > 1 else ''}, not {len(nodes)}",
        )
    return nodes


def _branch(reader: OperandReader, node: syntax.InstructionNode) -> PtxInstruction:
    (target,) = _exactly(node, 1)
    label = find_label(reader.scope, _one_name(target, "a label"))
    return reader.instruction.changed(operands=(label,))


def _indexed_branch(reader: OperandReader, node: syntax.InstructionNode) -> PtxInstruction:
    index, table = _exactly(node, 2)
    name = _one_name(table, "the label of a .branchtargets")
    found = reader.scope.find(name)
    if not isinstance(found, BranchTable):
        raise SourceError(
            name, f"{name} is no .branchtargets of this function, declared before it is used"
        )
    value = reader.source(index, Type.U32)
    if not isinstance(value, PtxRegister):
        raise SourceError(index.token, "the index of brx.idx is a register of type .u32")
    return reader.instruction.changed(operands=(value,), targets=found.labels)


# Calls


def _is_group(node: syntax.OperandNode) -> bool:
    return (
        isinstance(node, syntax.ExpressionNode)
        and len(node.items) == 1
        and isinstance(node.items[0], syntax.GroupNode)
    )


def _group(node: syntax.OperandNode) -> list[syntax.OperandNode]:
    assert isinstance(node, syntax.ExpressionNode)
    group = node.items[0]
    assert isinstance(group, syntax.GroupNode)
    return group.operands


def _parts(reader: OperandReader, node: syntax.OperandNode) -> list[syntax.OperandNode]:
    """Returns the elements of a vector of registers, each as a node of its own; of any other
    operand, the operand.
    """
    name = syntax.lone_name(node)
    found = reader.scope.find(name.token) if name is not None and name.component is None else None
    if name is None or not isinstance(found, RegisterVector):
        return [node]
    return [
        syntax.ExpressionNode([syntax.NameNode(name.token, Token("MODIFIER", f".{letter}"))])
        for letter in "xyzw"[: len(found.elements)]
    ]


def _call(reader: OperandReader, node: syntax.InstructionNode) -> PtxInstruction:
    nodes = list(node.operands)
    results = _group(nodes.pop(0)) if nodes and _is_group(nodes[0]) else []
    if not nodes:
        raise SourceError(node.opcode, "call needs a function to call")
    target = _one_name(nodes.pop(0), "a function, or a register with a function's address")
    arguments = _group(nodes.pop(0)) if nodes and _is_group(nodes[0]) else []
    results, arguments = (
        [part for item in group for part in _parts(reader, item)] for group in (results, arguments)
    )
    table = (
        _one_name(nodes.pop(0), "a call table, or the label of a .calltargets or .callprototype")
        if nodes
        else None
    )
    if nodes:
        raise SourceError(nodes[0].token, "call has no operand behind this: expected ;")
    found = reader.entity(target)
    if isinstance(found, PtxRegister):
        called, signatures, candidates = _indirect(reader, target, found, table)
    else:
        called, signatures, candidates = _direct(reader, target, table)
    for name, signature in signatures:
        _check_count(node.opcode, name, "result", signature.results, results)
        _check_count(node.opcode, name, "argument", signature.parameters, arguments)
    first, signature = signatures[0]
    call = PtxCall(
        called,
        tuple(
            _result(reader, item, [other.results[at] for _, other in signatures])
            for at, item in enumerate(results)
        ),
        tuple(
            _argument(reader, item, [other.parameters[at] for _, other in signatures])
            for at, item in enumerate(arguments)
        ),
        signature,
        candidates,
    )
    # Numbers and _ fit parameters of several sizes, which have different locations.
    for name, other in signatures:
        if _sizes(other.parameters) != _sizes(signature.parameters) or _sizes(
            other.results
        ) != _sizes(signature.results):
            raise SourceError(
                node.opcode, f"{first} and {name}, of one list, take or give something else"
            )
    return reader.instruction.changed(call=call)


_Signatures = list[tuple[str, Signature]]


def _direct(
    reader: OperandReader, target: Token, table: Token | None
) -> tuple[FunctionRef, _Signatures, tuple[str, ...]]:
    function = _function(reader.scope, target)
    if table is not None:
        raise SourceError(table, f"{target} is a function: a call of it takes no list of targets")
    return function.reference, [(target, function.signature)], (function.reference.name,)


def _indirect(
    reader: OperandReader, target: Token, register: PtxRegister, table: Token | None
) -> tuple[PtxRegister, _Signatures, tuple[str, ...] | None]:
    if register.type.bits not in (32, 64):
        raise SourceError(
            target,
            f"{target} has type .{register.type.value}: a function's address has 32 or 64 bits",
        )
    if table is None:
        raise SourceError(
            target,
            f"a call through register {target} needs a call table, .calltargets or .callprototype",
        )
    match reader.entity(table):
        case Prototype(signature):
            return register, [(table, signature)], None
        case CallTable(functions):
            pass
        case PtxVariable() as variable:
            functions = _listed(reader, table, variable)
        case other:
            raise SourceError(
                table,
                f"expected a call table, .calltargets or .callprototype: {table} is "
                f"{describe(other)}",
            )
    return (
        register,
        [(f.reference.name, f.signature) for f in functions],
        tuple(f.reference.name for f in functions),
    )


def _listed(reader: OperandReader, table: Token, variable: PtxVariable) -> list[Declared]:
    """Returns the functions in a call table."""
    module = reader.scope.outermost
    found = [
        module.find(Token("WORD", item.symbol))
        for item in variable.initial
        if isinstance(item, AddressOf)
    ]
    functions = [item for item in found if isinstance(item, Declared)]
    if (
        variable.space not in (PtxSpace.CONST, PtxSpace.GLOBAL)
        or not functions
        or len(functions) < len(variable.initial)
    ):
        raise SourceError(
            table,
            f"{table} is no call table: an array in const or global space that starts with names "
            "of functions",
        )
    return functions


def _check_count(
    place: Place,
    name: str,
    what: str,
    wanted: tuple[PtxRegister | PtxVariable, ...],
    given: list[syntax.OperandNode],
) -> None:
    if len(wanted) != len(given):
        plural = "s" if len(wanted) != 1 else ""
        raise SourceError(
            place, f"{name} has {len(wanted)} {what}{plural}, and the call {len(given)}"
        )


def _sizes(items: tuple[PtxRegister | PtxVariable, ...]) -> list[tuple[int, int]]:
    """Returns the bits, and the alignment in bytes, of parameters or results."""
    return [
        (item.type.bits, item.type.size)
        if isinstance(item, PtxRegister)
        else (8 * item.size, item.alignment)
        for item in items
    ]


def _argument(
    reader: OperandReader, node: syntax.OperandNode, formals: list[PtxRegister | PtxVariable]
) -> PtxRegister | PtxImmediate | PtxVariable:
    """Returns an argument of a call: a variable in param space, or a register or number of the
    parameter's type.
    """
    variable = _parameter_variable(reader, node)
    for formal in formals:
        if variable is not None:
            _agree(node.token, variable, formal, "parameter")
        elif isinstance(formal, PtxVariable) and formal.count != 1:
            raise SourceError(
                node.token, f"expected a variable in param space of {formal.size} bytes"
            )
    if variable is not None:
        return variable
    values = [reader.source(node, formal.type) for formal in formals]
    assert not isinstance(values[0], Negated)
    return values[0]


def _result(
    reader: OperandReader, node: syntax.OperandNode, formals: list[PtxRegister | PtxVariable]
) -> PtxRegister | PtxVariable | Sink:
    """Returns the destination of a result: a variable in param space, a register, or ``_``."""
    variable = _parameter_variable(reader, node)
    name = syntax.lone_name(node)
    if variable is None and name is not None and name.token == SINK:
        return Sink()
    for formal in formals:
        if variable is not None:
            if variable in reader.readonly:
                raise SourceError(
                    node.token,
                    f"{node.token} is a parameter that the function is given: it can't be changed",
                )
            _agree(node.token, variable, formal, "result")
        elif isinstance(formal, PtxVariable) and formal.count != 1:
            raise SourceError(
                node.token, f"expected a variable in param space of {formal.size} bytes"
            )
    if variable is not None:
        return variable
    registers = [reader.destination(node, formal.type) for formal in formals]
    return registers[0]


def _parameter_variable(reader: OperandReader, node: syntax.OperandNode) -> PtxVariable | None:
    name = syntax.lone_name(node)
    found = reader.scope.find(name.token) if name is not None else None
    if not isinstance(found, PtxVariable):
        return None
    if found.space is not PtxSpace.PARAM:
        raise SourceError(
            node.token,
            f"{node.token} is in {found.space.value} space: expected a register, or a "
            "variable in param space",
        )
    return found


def _agree(
    place: Token, variable: PtxVariable, formal: PtxRegister | PtxVariable, what: str
) -> None:
    """Checks that a variable and a formal parameter have the same size and alignment; signedness
    may differ.
    """
    count, alignment = (
        (1, formal.type.size)
        if isinstance(formal, PtxRegister)
        else (formal.count, formal.alignment)
    )
    if formal.type is Type.PRED:
        raise SourceError(place, f"the {what} is a predicate: expected a register of type .pred")
    scalars = variable.count == count == 1
    same = (
        variable.type.size == formal.type.size
        if scalars
        else variable.count != 1 and count != 1 and variable.size == formal.type.size * (count or 0)
    )
    if not same or variable.alignment != alignment:
        raise SourceError(
            place,
            f"{place} has {variable.size} bytes, aligned to {variable.alignment}, and the "
            f"{what} {formal.type.size * (count or 0)} bytes, aligned to {alignment}",
        )


_Reader = Callable[[OperandReader, syntax.InstructionNode], PtxInstruction]

CONTROL: Mapping[type[ControlOperands], _Reader] = {
    BranchTarget: _branch,
    IndexedBranchTargets: _indexed_branch,
    CallOperands: _call,
}
"""Readers of the instructions whose operands are not values."""
