"""Copies of parameters and module registers in local space, and the instructions that copy them.

A parameter or result whose address is taken is in the thread's local space while the function runs,
as the description of mov requires. Registers of a module, which PTX had before version 3.0, belong
to a thread and are shared by all its functions: each function has registers of its own for them,
which are saved to local space while another function runs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from .module import (
    Comparison,
    Operand,
    PtxAddress,
    PtxImmediate,
    PtxInstruction,
    PtxLabel,
    PtxRegister,
    PtxSpace,
    PtxVariable,
    Sink,
    Type,
    VariableRef,
)
from .names import Namer, Scope

__all__ = ["in_memory", "memory_of", "with_module_registers"]

Item = PtxLabel | PtxInstruction
_WORD_BYTES = 8
"""The most bytes that one instruction copies."""
_made = partial(PtxInstruction, line=1, column=1)
"""Creates an instruction without a place in the text."""


def _addressed(items: Iterable[Item]) -> set[PtxVariable]:
    """Returns the variables whose addresses a body takes."""
    return {
        operand.variable
        for item in items
        if isinstance(item, PtxInstruction)
        for operand in item.operands
        if isinstance(operand, VariableRef)
    }


def in_memory(
    items: Sequence[Item],
    parameters: Sequence[PtxRegister | PtxVariable],
    results: Sequence[PtxRegister | PtxVariable],
    scope: Scope,
) -> tuple[list[Item], list[PtxVariable]]:
    """Moves parameters and results whose address is taken to local space.

    Returns:
        The body, and the new variables.
    """
    taken = _addressed(items)
    places: dict[PtxVariable, PtxVariable] = {}
    for item in (*parameters, *results):
        if isinstance(item, PtxVariable) and item in taken:
            places[item] = PtxVariable(
                scope.namer.unique(item.name), PtxSpace.LOCAL, item.type, item.count, item.alignment
            )
    if not places:
        return list(items), []
    given = [item for item in parameters if isinstance(item, PtxVariable) and item in places]
    taken_back = [item for item in results if isinstance(item, PtxVariable) and item in places]
    found: list[Item] = []
    for variable in given:
        found += _copied(variable, places[variable], scope)
    for item in items:
        if isinstance(item, PtxInstruction):
            found += _around(item, places, taken_back, scope)
        else:
            found.append(item)
    return found, [*places.values()]


def _around(
    item: PtxInstruction,
    places: Mapping[PtxVariable, PtxVariable],
    results: Sequence[PtxVariable],
    scope: Scope,
) -> Iterator[PtxInstruction]:
    """Yields an instruction with the copies in local space, and the instructions that copy before
    and after a call or ret.
    """
    if item.opcode == "ret":
        for variable in results:
            yield from _copied(places[variable], variable, scope)
    arguments = item.call.arguments if item.call is not None else ()
    received = item.call.results if item.call is not None else ()
    for argument in arguments:
        if isinstance(argument, PtxVariable) and argument in places:
            yield from _copied(places[argument], argument, scope)
    yield _placed(item, places)
    for result in received:
        if isinstance(result, PtxVariable) and result in places:
            yield from _copied(result, places[result], scope)


def _placed(item: PtxInstruction, places: Mapping[PtxVariable, PtxVariable]) -> PtxInstruction:
    """Returns the instruction with its variables replaced by those in ``places``."""

    def placed(operand: Operand) -> Operand:
        match operand:
            case PtxAddress(base=PtxVariable() as base) if base in places:
                return replace(operand, base=places[base])
            case VariableRef(variable) if variable in places:
                return replace(operand, variable=places[variable])
            case _:
                return operand

    moved = any(
        isinstance(operand, PtxAddress)
        and isinstance(operand.base, PtxVariable)
        and operand.base in places
        for operand in item.operands
    )
    return replace(
        item,
        operands=tuple(map(placed, item.operands)),
        space=PtxSpace.LOCAL if moved else item.space,
    )


def _copied(source: PtxVariable, target: PtxVariable, scope: Scope) -> list[PtxInstruction]:
    """Returns the loads and stores that copy a variable to another one of the same size."""
    found, at = [], 0
    while at < source.size:
        step = min(source.alignment, _WORD_BYTES)
        while at + step > source.size:
            step //= 2
        kind = Type(f"b{8 * step}")
        register = scope.new_register("copy", kind)
        found.append(_load(register, PtxAddress(source, at), source.space))
        found.append(_store(register, PtxAddress(target, at), target.space))
        at += step
    return found


def _load(register: PtxRegister, address: PtxAddress, space: PtxSpace) -> PtxInstruction:
    return _made(
        opcode="ld",
        types=(register.type,),
        operands=(register, address),
        space=space,
    )


def _store(register: PtxRegister, address: PtxAddress, space: PtxSpace) -> PtxInstruction:
    return _made(
        opcode="st",
        types=(register.type,),
        operands=(address, register),
        space=space,
    )


# Registers of a module


def memory_of(register: PtxRegister, names: Namer) -> PtxVariable:
    """Returns a new variable in local space, where a thread saves a module register while another
    function uses it.
    """
    kind = Type.U32 if register.type is Type.PRED else register.type
    return PtxVariable(names.unique(register.name), PtxSpace.LOCAL, kind, 1, kind.size)


def with_module_registers(
    items: Sequence[Item], memory: Mapping[PtxRegister, PtxVariable], entry: bool, scope: Scope
) -> list[Item]:
    """Returns a function's body with the loads and stores of the module registers in ``memory``."""
    pairs = [
        (own, memory[register]) for register, own in scope.copies.items() if register in memory
    ]
    loads = [item for own, variable in pairs for item in _from_memory(own, variable, scope)]
    stores = [item for own, variable in pairs for item in _to_memory(own, variable, scope)]
    found: list[Item] = [] if entry else [*loads]
    for item in items:
        if isinstance(item, PtxInstruction) and item.opcode == "call":
            found += [*stores, item, *loads]
        elif isinstance(item, PtxInstruction) and item.opcode == "ret" and not entry:
            found += [*stores, item]
        else:
            found.append(item)
    return found


def _from_memory(
    register: PtxRegister, variable: PtxVariable, scope: Scope
) -> list[PtxInstruction]:
    if register.type is not Type.PRED:
        return [_load(register, PtxAddress(variable), PtxSpace.LOCAL)]
    word = scope.new_register("word", Type.U32)
    return [
        _load(word, PtxAddress(variable), PtxSpace.LOCAL),
        _made(
            opcode="setp",
            types=(Type.U32,),
            compare=Comparison.NE,
            operands=(register, Sink(), word, PtxImmediate(0)),
        ),
    ]


def _to_memory(register: PtxRegister, variable: PtxVariable, scope: Scope) -> list[PtxInstruction]:
    if register.type is not Type.PRED:
        return [_store(register, PtxAddress(variable), PtxSpace.LOCAL)]
    word = scope.new_register("word", Type.U32)
    return [
        _made(
            opcode="selp",
            types=(Type.U32,),
            operands=(word, PtxImmediate(1), PtxImmediate(0), register),
        ),
        _store(word, PtxAddress(variable), PtxSpace.LOCAL),
    ]
