"""Selection of branches and calls, and of whole functions."""

from rtl.isa.kinds import Compare
from sim.toolchain.compiler.abi import STACK_POINTER, STANDARD_CLOBBERS, Places
from sim.toolchain.compiler.ir import RZ, Block, Function, JumpTable, Source, Value, number
from sim.toolchain.compiler.layout import FAR_TABLE, FUNCTION_TABLE, TABLE_BANK, Layout, aligned
from sim.toolchain.compiler.passes.simplify_cfg import drop_unreachable
from sim.toolchain.ptx.module import (
    Function as PtxFunction,
)
from sim.toolchain.ptx.module import (
    FunctionRef,
    Immediate,
    Instruction,
    Label,
    Register,
    Sink,
    Space,
    Type,
    Variable,
    parameter_offsets,
)

from . import (
    atomics,
    compare,
    convert,
    double,
    double_division,
    half,
    integer,
    long,
    long_division,
    memory,
    single,
    single_division,
    spaces,
    system,
    video,
)
from .builder import Builder, CompileError, handler_of, handles

__all__ = ["select_function"]

_MODULES = (
    atomics,
    compare,
    convert,
    double,
    double_division,
    half,
    integer,
    long,
    long_division,
    memory,
    single,
    single_division,
    spaces,
    system,
    video,
)
"""Where the other handlers are."""
_LARGEST_FRAME = 1 << 24
"""Bytes of the window of local memory."""


@handles("bra")
def _branch(b: Builder, i: Instruction) -> None:
    label = i.operands[0]
    assert isinstance(label, Label)
    target, behind = b.label(label), b.new_block("next")
    if b.guard is None:
        b.end("goto", target)
    else:
        b.end("branch", target, behind, condition=b.guard, uniform=i.uniform)
    b.begin(behind)


@handles("brx")
def _branch_by_index(b: Builder, i: Instruction) -> None:
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
    b.end("switch", *table.targets, condition=Source(place), uniform=i.uniform)
    b.block.table = table
    b.begin(behind or b.new_block("next"))


@handles("exit")
def _exit(b: Builder, i: Instruction) -> None:
    b.guarded_end("exit")


@handles("ret")
def _return(b: Builder, i: Instruction) -> None:
    b.guarded_end("exit" if b.function.entry else "ret")


@handles("call")
def _call(b: Builder, i: Instruction) -> None:
    assert i.call is not None
    behind = b.guarded_block()
    call = i.call
    places = Places.of(call.signature)
    arguments = []
    for argument, (_, registers) in zip(
        call.arguments, places.arguments(call.signature), strict=True
    ):
        arguments += zip(registers, _argument_words(b, argument, len(registers)), strict=True)
    inputs, stores = [], []
    place = []
    if not isinstance(call.target, FunctionRef):
        place = [b.compute("LDC", *b.read(call.target, 32), symbol=FUNCTION_TABLE, bank=TABLE_BANK)]
    for register, source in arguments:
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
    given = [register for _, registers in places.results(call.signature) for register in registers]
    results = [b.temporary(fixed=register) for register in given if register >= 0]
    if isinstance(call.target, FunctionRef):
        b.op("CAL", list(results), *fixed, symbol=call.target.name, clobbers=STANDARD_CLOBBERS)
        b.function.calls.append(call.target.name)
    else:
        b.op("ICAL", list(results), *place, *fixed, clobbers=STANDARD_CLOBBERS)
        b.function.indirect = True
    copies = {value.fixed: b.compute("MOV", Source(value)) for value in results}
    for register in given:
        if register < 0:
            word = b.temporary()
            b.op("LDL", [word], Source(b.stack), offset=4 * ~register)
            copies[register] = Source(word)
    for result, (_, registers) in zip(call.results, places.results(call.signature), strict=True):
        _receive(b, result, [copies[register] for register in registers])
    b.leave_guarded_block(behind)


def _argument_words(
    b: Builder, argument: Register | Immediate | Variable, count: int
) -> list[Source]:
    if isinstance(argument, Variable):
        return [Source(word) for word in b.variable_words(argument)]
    if isinstance(argument, Register) and argument.type is Type.PRED:
        return [_word_of_predicate(b, Source(b.registers(argument)[0]))]
    return b.read(argument, 64 if count == 2 else 32)


def _word_of_predicate(b: Builder, predicate: Source) -> Source:
    """What calls pass of a predicate: 1 or 0."""
    return b.compute("SEL", number(1), RZ, predicate)


def _set_predicate(b: Builder, predicate: Value, word: Source) -> None:
    """The predicate of such a word."""
    b.compare(predicate, Compare.NE, word, RZ)


def _receive(b: Builder, result: Register | Variable | Sink, words: list[Source]) -> None:
    if isinstance(result, Sink):
        return
    if isinstance(result, Register) and result.type is Type.PRED:
        _set_predicate(b, b.registers(result)[0], words[0])
        return
    to = b.variable_words(result) if isinstance(result, Variable) else b.registers(result)
    b.move(list(to), words)


def select_function(ptx: PtxFunction, layout: Layout) -> Function:
    """A function as operations; CompileError for what is not translated."""
    assert ptx.body is not None
    function = Function(ptx.name, ptx.entry, [])
    stack = Value("stack", fixed=STACK_POINTER)
    function.stack = stack
    b = Builder(function, layout, _frame(function, ptx, layout), stack)
    b.begin(b.block)
    if ptx.entry:
        offsets, _ = parameter_offsets(ptx.parameters)
        for parameter, offset in zip(ptx.parameters, offsets, strict=True):
            assert isinstance(parameter, Variable)
            layout.places[parameter] = offset
    else:
        _receive_parameters(b, ptx)
    for element in ptx.body:
        if isinstance(element, Label):
            block = b.label(element)
            if b.block.ending == "goto" and not b.block.successors:
                b.end("goto", block)
            b.begin(block)
        else:
            _select(b, element)
    if b.block.ending == "goto" and not b.block.successors:
        b.end("exit" if ptx.entry else "ret")
    if not ptx.entry:
        _give_results(b, ptx)
    drop_unreachable(function)
    return function


def _select(b: Builder, i: Instruction) -> None:
    b.here = i
    b.guard = b.predicate(i.guard) if i.guard is not None else None
    handler = handler_of(i)
    if handler is None:
        raise CompileError(i.line, i.column, f"{i.opcode} is not translated")
    handler(b, i)
    b.guard = None


def _frame(function: Function, ptx: PtxFunction, layout: Layout) -> dict[Variable, int]:
    """Places of the local variables in the frame. What calls pass on the stack is below them, and in an entry the
    module's local variables are above.
    """
    below = 0
    for element in ptx.body or ():
        if isinstance(element, Instruction) and element.call is not None:
            below = max(below, Places.of(element.call.signature).stack_bytes)
    places = {}
    end = below
    for variable in ptx.variables:
        if variable.space is Space.LOCAL:
            places[variable] = end = aligned(end, max(variable.alignment, 4))
            end += variable.size
    function.frame = end
    function.reserved = layout.local_bytes if ptx.entry else 0
    if (size := function.frame + function.reserved) > _LARGEST_FRAME:
        raise CompileError(
            ptx.line,
            ptx.column,
            f"{ptx.name} has {size} bytes of local variables: {_LARGEST_FRAME} at most",
        )
    return places


def _receive_parameters(b: Builder, ptx: PtxFunction) -> None:
    """Copies the arguments out of the registers that they come in."""
    places = Places.of(ptx.signature)
    pending = []
    for parameter, registers in places.arguments(ptx.signature):
        words = (
            b.variable_words(parameter)
            if isinstance(parameter, Variable)
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
            _set_predicate(b, word, source)
        else:
            b.op("MOV", [word], source)
    for result in ptx.results:
        if isinstance(result, Variable):
            b.variable_words(result)


def _give_results(b: Builder, ptx: PtxFunction) -> None:
    """Moves the results to where they go, before every ret."""
    places = Places.of(ptx.signature)
    pairs: list[tuple[Value, int]] = []
    for result, registers in places.results(ptx.signature):
        words = b.variable_words(result) if isinstance(result, Variable) else b.registers(result)
        pairs += zip(words, registers, strict=True)
    b.function.results = [b.temporary(fixed=register) for _, register in pairs if register >= 0]
    b.here = None
    returning = [block for block in b.function.blocks if block.ending == "ret"]
    if len(returning) > 1 and (b.function.calls or b.function.indirect):
        last = Block("return", ending="ret")
        for block in returning:
            block.ending, block.successors = "goto", [last]
        b.function.blocks.append(last)
        returning = [last]
    for block in returning:
        b.block = block
        given = []
        for value, register in pairs:
            word = _word_of_predicate(b, Source(value)) if value.predicate else Source(value)
            if register < 0:
                b.op("STL", [], Source(b.stack), word, offset=4 * ~register, in_caller=True)
            else:
                given.append(word)
        for result, word in zip(b.function.results, given, strict=True):
            b.op("MOV", [result], word)
