"""Selection of calls."""

from rtl.isa.kinds import Compare
from sim.toolchain.compiler.abi import STANDARD_CLOBBERS, ArgumentLocations
from sim.toolchain.compiler.ir import RZ, Source, Value, number
from sim.toolchain.compiler.layout import FUNCTION_TABLE, TABLE_BANK
from sim.toolchain.ptx.module import (
    FunctionRef,
    PtxCall,
    PtxImmediate,
    PtxInstruction,
    PtxRegister,
    PtxVariable,
    Signature,
    Sink,
    Type,
)

from .builder import Builder, handles
from .inlining import copy_words, inlined, is_inlined

__all__ = ["called", "set_predicate", "word_of_predicate"]


@handles("call")
def _call(b: Builder, i: PtxInstruction) -> None:
    assert i.call is not None
    behind = b.guarded_block()
    call = i.call
    if isinstance(call.target, FunctionRef) and is_inlined(b, call.target.name):
        arguments = [_inlined_argument(b, argument) for argument in call.arguments]
        found = inlined(b, b.library[call.target.name], arguments)
        for result, words in zip(call.results, found, strict=True):
            assert isinstance(result, PtxRegister)
            copy_words(b, b.registers(result), words)
    else:
        _call_by_registers(b, call)
    b.leave_guarded_block(behind)


def _inlined_argument(
    b: Builder, argument: PtxRegister | PtxImmediate | PtxVariable
) -> list[Source]:
    """Returns the two words of an argument. An inlined function uses as many as its parameter
    has.
    """
    if isinstance(argument, PtxRegister) and argument.type is Type.PRED:
        return [Source(b.registers(argument)[0])]
    assert isinstance(argument, PtxRegister | PtxImmediate)
    return b.read(argument, 64)


def _call_by_registers(b: Builder, call: PtxCall) -> None:
    locations = ArgumentLocations.of(call.signature)
    arguments = [
        _argument_words(b, argument, len(registers))
        for argument, (_, registers) in zip(
            call.arguments, locations.arguments(call.signature), strict=True
        )
    ]
    found = called(b, call.target, call.signature, arguments)
    for result, words in zip(call.results, found, strict=True):
        _receive(b, result, words)


def called(
    b: Builder,
    target: FunctionRef | PtxRegister,
    signature: Signature,
    arguments: list[list[Source]],
) -> list[list[Source]]:
    """Adds a call.

    Args:
        b: The builder.
        target: The function, or the register with its handle.
        signature: The signature.
        arguments: The words of each argument.

    Returns:
        The words of each result.
    """
    locations = ArgumentLocations.of(signature)
    inputs, stores = [], []
    place = []
    if not isinstance(target, FunctionRef):
        place = [b.compute("LDC", b.word(target), symbol=FUNCTION_TABLE, bank=TABLE_BANK)]
    words = [word for argument in arguments for word in argument]
    registers = [
        register for _, registers in locations.arguments(signature) for register in registers
    ]
    for register, source in zip(registers, words, strict=True):
        if register < 0:
            stores.append((register, source))
        else:
            inputs.append((register, b.compute("MOV", source)))
    for register, source in stores:
        b.op("STL", [], Source(b.stack), source, offset=~register * 4)
        b.function.frame = max(b.function.frame, 4 * ~register + 4)
    fixed = []
    for register, source in inputs:
        value = b.temporary(fixed=register)
        b.op("MOV", [value], source)
        fixed.append(Source(value))
    result_registers = [
        register for _, registers in locations.results(signature) for register in registers
    ]
    results = [b.temporary(fixed=register) for register in result_registers if register >= 0]
    if isinstance(target, FunctionRef):
        b.op("CAL", list(results), *fixed, symbol=target.name, clobbers=STANDARD_CLOBBERS)
        b.function.calls.append(target.name)
        if target.name in b.library:
            b.function.library_calls.add(target.name)
    else:
        b.op("ICAL", list(results), *place, *fixed, clobbers=STANDARD_CLOBBERS)
        b.function.indirect = True
    copies = {value.fixed: b.compute("MOV", Source(value)) for value in results}
    for register in result_registers:
        if register < 0:
            word = b.temporary()
            b.op("LDL", [word], Source(b.stack), offset=4 * ~register)
            copies[register] = Source(word)
    return [
        [copies[register] for register in registers]
        for _, registers in locations.results(signature)
    ]


def _argument_words(
    b: Builder, argument: PtxRegister | PtxImmediate | PtxVariable, count: int
) -> list[Source]:
    if isinstance(argument, PtxVariable):
        return [Source(word) for word in b.variable_words(argument)]
    if isinstance(argument, PtxRegister) and argument.type is Type.PRED:
        return [word_of_predicate(b, Source(b.registers(argument)[0]))]
    return b.read(argument, 64 if count == 2 else 32)


def word_of_predicate(b: Builder, predicate: Source) -> Source:
    """Returns a predicate as calls pass it: the word 1 or 0."""
    return b.compute("SEL", number(1), RZ, predicate)


def set_predicate(b: Builder, predicate: Value, word: Source) -> None:
    """Sets a predicate from the word that a call passes."""
    b.compare(predicate, Compare.NE, word, RZ)


def _receive(b: Builder, result: PtxRegister | PtxVariable | Sink, words: list[Source]) -> None:
    if isinstance(result, Sink):
        return
    if isinstance(result, PtxRegister) and result.type is Type.PRED:
        set_predicate(b, b.registers(result)[0], words[0])
        return
    to = b.variable_words(result) if isinstance(result, PtxVariable) else b.registers(result)
    b.move(list(to), words)
