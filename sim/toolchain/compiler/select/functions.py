"""Selection of branches, and of whole functions."""

from collections.abc import Mapping

from sim.support.alignment import round_up
from sim.toolchain.compiler.abi import STACK_POINTER, ArgumentLocations
from sim.toolchain.compiler.ir import Block, Function, JumpTable, Source, Terminator, Value, number
from sim.toolchain.compiler.layout import FAR_TABLE, TABLE_BANK, MemoryLayout
from sim.toolchain.compiler.passes.simplify_cfg import drop_unreachable
from sim.toolchain.ptx.module import (
    PtxFunction,
    PtxInstruction,
    PtxLabel,
    PtxSpace,
    PtxVariable,
    parameter_offsets,
)

from . import (
    atomics,
    calls,
    compare,
    convert,
    division,
    double,
    half,
    integer,
    long,
    memory,
    single,
    spaces,
    system,
    video,
)
from .builder import Builder, CompileError, handles, select
from .calls import set_predicate, word_of_predicate

__all__ = ["select_function"]

_MODULES = (
    atomics,
    calls,
    compare,
    convert,
    division,
    double,
    half,
    integer,
    long,
    memory,
    single,
    spaces,
    system,
    video,
)
"""Modules that register handlers when they are imported."""
_LARGEST_FRAME = 1 << 24
"""The size of the local memory window in bytes."""


@handles("bra")
def _branch(b: Builder, i: PtxInstruction) -> None:
    label = i.operands[0]
    assert isinstance(label, PtxLabel)
    target, behind = b.label(label), b.new_block("next")
    if b.guard is None:
        b.end(Terminator.GOTO, target)
    else:
        b.end(Terminator.BRANCH, target, behind, condition=b.guard, uniform=i.uniform)
    b.begin(behind)


@handles("brx")
def _branch_by_index(b: Builder, i: PtxInstruction) -> None:
    behind = b.guarded_block()
    scaled = b.compute("SHL", b.word(i.operands[0]), number(2))
    table = JumpTable(
        f"{b.function.name}.table{b.temporaries}", [b.label(label) for label in i.targets]
    )
    place = b.temporary()
    offset = 0
    if b.layout.far_tables:
        scaled = b.compute("IADD", scaled, number(FAR_TABLE))
        offset = -FAR_TABLE
    b.op("LDC", [place], scaled, symbol=table.name, offset=offset, bank=TABLE_BANK)
    b.end(Terminator.SWITCH, *table.targets, condition=Source(place), uniform=i.uniform)
    b.block.table = table
    b.begin(behind or b.new_block("next"))


@handles("exit")
def _exit(b: Builder, i: PtxInstruction) -> None:
    b.guarded_end(Terminator.EXIT)


@handles("ret")
def _return(b: Builder, i: PtxInstruction) -> None:
    b.guarded_end(Terminator.EXIT if b.function.entry else Terminator.RETURN)


def select_function(
    ptx: PtxFunction, layout: MemoryLayout, library: Mapping[str, PtxFunction] | None = None
) -> Function:
    """Selects a whole function.

    Args:
        ptx: The function.
        layout: The memory layout of its module.
        library: The other functions if it is one of the runtime library.

    Returns:
        The function as operations.

    Raises:
        CompileError: A construct is not supported.
    """
    assert ptx.body is not None
    function = Function(ptx.name, ptx.entry, [])
    stack = Value("stack", fixed=STACK_POINTER)
    function.stack = stack
    b = Builder(function, layout, _frame(function, ptx, layout), stack, library=library or {})
    b.begin(b.block)
    if ptx.entry:
        offsets, _ = parameter_offsets(ptx.parameters)
        for parameter, offset in zip(ptx.parameters, offsets, strict=True):
            assert isinstance(parameter, PtxVariable)
            layout.offsets[parameter] = offset
    else:
        _receive_parameters(b, ptx)
    for element in ptx.body:
        if isinstance(element, PtxInstruction):
            b.current = element
        select(b, element)
    if b.block.terminator is Terminator.GOTO and not b.block.successors:
        b.end(Terminator.EXIT if ptx.entry else Terminator.RETURN)
    if not ptx.entry:
        _give_results(b, ptx)
    drop_unreachable(function)
    return function


def _frame(function: Function, ptx: PtxFunction, layout: MemoryLayout) -> dict[PtxVariable, int]:
    """Returns offsets of the local variables in the frame, in bytes. Below them are the words that
    calls pass on the stack; in a kernel, the module's local variables are above them.
    """
    below = 0
    for element in ptx.body or ():
        if isinstance(element, PtxInstruction) and element.call is not None:
            below = max(below, ArgumentLocations.of(element.call.signature).stack_bytes)
    offsets = {}
    end = below
    for variable in ptx.variables:
        if variable.space is PtxSpace.LOCAL:
            offsets[variable] = end = round_up(end, max(variable.alignment, 4))
            end += variable.size
    function.frame = end
    function.reserved = layout.local_bytes if ptx.entry else 0
    if (size := function.frame + function.reserved) > _LARGEST_FRAME:
        raise CompileError(
            ptx.line,
            ptx.column,
            f"{ptx.name} has {size} bytes of local variables: {_LARGEST_FRAME} at most",
        )
    return offsets


def _receive_parameters(b: Builder, ptx: PtxFunction) -> None:
    """Copies the arguments out of their registers."""
    locations = ArgumentLocations.of(ptx.signature)
    pending = []
    for parameter, registers in locations.arguments(ptx.signature):
        words = (
            b.variable_words(parameter)
            if isinstance(parameter, PtxVariable)
            else b.registers(parameter)
        )
        for word, register in zip(words, registers, strict=True):
            if register < 0:
                value = b.temporary()
                b.op("LDL", [value], Source(b.stack), offset=4 * ~register, in_caller=True)
            else:
                value = b.temporary(fixed=register)
                b.function.parameters.append(value)
            pending.append((word, Source(value)))
    for word, source in pending:
        if word.predicate:
            set_predicate(b, word, source)
        else:
            b.op("MOV", [word], source)
    for result in ptx.results:
        if isinstance(result, PtxVariable):
            b.variable_words(result)


def _give_results(b: Builder, ptx: PtxFunction) -> None:
    """Moves the results to their locations before every ret."""
    locations = ArgumentLocations.of(ptx.signature)
    pairs: list[tuple[Value, int]] = []
    for result, registers in locations.results(ptx.signature):
        words = b.variable_words(result) if isinstance(result, PtxVariable) else b.registers(result)
        pairs += zip(words, registers, strict=True)
    b.function.results = [b.temporary(fixed=register) for _, register in pairs if register >= 0]
    b.current = None
    returning = [block for block in b.function.blocks if block.terminator is Terminator.RETURN]
    if len(returning) > 1 and (b.function.calls or b.function.indirect):
        last = Block("return", terminator=Terminator.RETURN)
        for block in returning:
            block.terminator, block.successors = Terminator.GOTO, [last]
        b.function.blocks.append(last)
        returning = [last]
    for block in returning:
        b.block = block
        given = []
        for value, register in pairs:
            word = word_of_predicate(b, Source(value)) if value.predicate else Source(value)
            if register < 0:
                b.op("STL", [], Source(b.stack), word, offset=4 * ~register, in_caller=True)
            else:
                given.append(word)
        for result, word in zip(b.function.results, given, strict=True):
            b.op("MOV", [result], word)
