"""What a function keeps in memory besides what its text says: instructions that copy.

A parameter or result whose address is taken lies in the thread's local space while the function runs, as the
description of mov has it. Registers of a module, which PTX had before version 3.0, belong to a thread and are the same
to all functions: each function has registers of its own for them, and copies of both are in local space wherever
another function runs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .module import (
    Address,
    Comparison,
    Immediate,
    Instruction,
    Label,
    Operand,
    Register,
    Sink,
    Space,
    Type,
    Variable,
    VariableRef,
)
from .names import Namer, Scope

__all__ = ["in_memory", "memory_of", "with_module_registers"]

Item = Label | Instruction
_WORD_BYTES = 8
"""Bytes that are copied at once, at most."""


def _addressed(items: Iterable[Item]) -> set[Variable]:
    """The variables whose addresses a body takes."""
    return {
        operand.variable
        for item in items
        if isinstance(item, Instruction)
        for operand in item.operands
        if isinstance(operand, VariableRef)
    }


def in_memory(
    items: Sequence[Item],
    parameters: Sequence[Register | Variable],
    results: Sequence[Register | Variable],
    scope: Scope,
) -> tuple[list[Item], list[Variable]]:
    """A function's body with the parameters and results in local space whose addresses it takes, and the variables
    there."""
    taken = _addressed(items)
    places: dict[Variable, Variable] = {}
    for item in (*parameters, *results):
        if isinstance(item, Variable) and item in taken:
            places[item] = Variable(
                scope.namer.unique(item.name), Space.LOCAL, item.type, item.count, item.alignment
            )
    if not places:
        return list(items), []
    given = [item for item in parameters if isinstance(item, Variable) and item in places]
    taken_back = [item for item in results if isinstance(item, Variable) and item in places]
    found: list[Item] = []
    for variable in given:
        found += _copied(variable, places[variable], scope)
    for item in items:
        if isinstance(item, Instruction):
            found += _around(item, places, taken_back, scope)
        else:
            found.append(item)
    return found, [*places.values()]


def _around(
    item: Instruction,
    places: Mapping[Variable, Variable],
    results: Sequence[Variable],
    scope: Scope,
) -> Iterator[Instruction]:
    """An instruction on the places of parameters, between the copies that a call or ret needs."""
    if item.opcode == "ret":
        for variable in results:
            yield from _copied(places[variable], variable, scope)
    arguments = item.call.arguments if item.call is not None else ()
    received = item.call.results if item.call is not None else ()
    for argument in arguments:
        if isinstance(argument, Variable) and argument in places:
            yield from _copied(places[argument], argument, scope)
    yield _placed(item, places)
    for result in received:
        if isinstance(result, Variable) and result in places:
            yield from _copied(result, places[result], scope)


def _placed(item: Instruction, places: Mapping[Variable, Variable]) -> Instruction:
    """The instruction with the places of variables instead of these."""

    def placed(operand: Operand) -> Operand:
        match operand:
            case Address(base=Variable() as base) if base in places:
                return replace(operand, base=places[base])
            case VariableRef(variable) if variable in places:
                return replace(operand, variable=places[variable])
            case _:
                return operand

    moved = any(
        isinstance(operand, Address)
        and isinstance(operand.base, Variable)
        and operand.base in places
        for operand in item.operands
    )
    return replace(
        item, operands=tuple(map(placed, item.operands)), space=Space.LOCAL if moved else item.space
    )


def _copied(source: Variable, target: Variable, scope: Scope) -> list[Instruction]:
    """Loads and stores that copy a variable to another one of its size."""
    found, at = [], 0
    while at < source.size:
        step = min(source.alignment, _WORD_BYTES)
        while at + step > source.size:
            step //= 2
        kind = Type(f"b{8 * step}")
        register = scope.new_register("copy", kind)
        found.append(_load(register, Address(source, at), source.space))
        found.append(_store(register, Address(target, at), target.space))
        at += step
    return found


def _load(register: Register, address: Address, space: Space) -> Instruction:
    return Instruction(
        opcode="ld",
        line=1,
        column=1,
        types=(register.type,),
        operands=(register, address),
        space=space,
    )


def _store(register: Register, address: Address, space: Space) -> Instruction:
    return Instruction(
        opcode="st",
        line=1,
        column=1,
        types=(register.type,),
        operands=(address, register),
        space=space,
    )


# Registers of a module


def memory_of(register: Register, names: Namer) -> Variable:
    """Where a thread keeps a module's register while another function works with it."""
    kind = Type.U32 if register.type is Type.PRED else register.type
    return Variable(names.unique(register.name), Space.LOCAL, kind, 1, kind.size)


def with_module_registers(
    items: Sequence[Item], memory: Mapping[Register, Variable], entry: bool, scope: Scope
) -> list[Item]:
    """A function's body with the loads and stores of the module's registers for which there is ``memory``."""
    pairs = [
        (own, memory[register]) for register, own in scope.copies.items() if register in memory
    ]
    loads = [item for own, variable in pairs for item in _from_memory(own, variable, scope)]
    stores = [item for own, variable in pairs for item in _to_memory(own, variable, scope)]
    found: list[Item] = [] if entry else [*loads]
    for item in items:
        if isinstance(item, Instruction) and item.opcode == "call":
            found += [*stores, item, *loads]
        elif isinstance(item, Instruction) and item.opcode == "ret" and not entry:
            found += [*stores, item]
        else:
            found.append(item)
    return found


def _from_memory(register: Register, variable: Variable, scope: Scope) -> list[Instruction]:
    if register.type is not Type.PRED:
        return [_load(register, Address(variable), Space.LOCAL)]
    word = scope.new_register("word", Type.U32)
    return [
        _load(word, Address(variable), Space.LOCAL),
        Instruction(
            opcode="setp",
            line=1,
            column=1,
            types=(Type.U32,),
            compare=Comparison.NE,
            operands=(register, Sink(), word, Immediate(0)),
        ),
    ]


def _to_memory(register: Register, variable: Variable, scope: Scope) -> list[Instruction]:
    if register.type is not Type.PRED:
        return [_store(register, Address(variable), Space.LOCAL)]
    word = scope.new_register("word", Type.U32)
    return [
        Instruction(
            opcode="selp",
            line=1,
            column=1,
            types=(Type.U32,),
            operands=(word, Immediate(1), Immediate(0), register),
        ),
        _store(word, Address(variable), Space.LOCAL),
    ]
