"""Selection of atomic operations."""

from rtl.isa.kinds import AtomicOperation, AtomicType, Compare, CompareAndSwapType, Logic
from sim.toolchain.compiler.ir import PT, Source, Terminator, Value, number
from sim.toolchain.compiler.layout import DriverWord
from sim.toolchain.compiler.opcodes import value_of
from sim.toolchain.ptx.module import PtxInstruction, PtxSpace, Sink, Type

from .builder import Builder, handles
from .long import comparison
from .memory import address_words, sum_with, uniform_size
from .spaces import WINDOW_MASK, in_window

__all__: list[str] = []

_COMPARE_AND_SWAP = "cas"
_OPERATIONS = {operation.name.lower(): operation for operation in AtomicOperation}
_SHARED_TYPES = {AtomicType.U32: 0, AtomicType.S32: 1, AtomicType.U64: 2, AtomicType.S64: 3}
"""The type codes of atomic instructions in shared memory."""


def _kind(i: PtxInstruction) -> AtomicType:
    """Returns the type of an atomic operation."""
    if i.type is Type.F32:
        return AtomicType.F32
    signed = i.type.signed and i.operation in ("min", "max")
    if i.type.bits == 64:
        return AtomicType.S64 if signed else AtomicType.U64
    return AtomicType.S32 if signed else AtomicType.U32


def _swap(i: PtxInstruction) -> CompareAndSwapType:
    """Returns the type of a compare-and-swap in shared memory."""
    return CompareAndSwapType.CAS_64 if i.type.bits == 64 else CompareAndSwapType.CAS


@handles("atom", "red")
def _atomic(b: Builder, i: PtxInstruction) -> None:
    returns = i.opcode == "atom"
    results = b.write(i.operands[0] if returns else Sink(), i.type.bits)
    address = i.operands[1 if returns else 0]
    data = [
        word
        for operand in i.operands[2 if returns else 1 :]
        for word in b.read(operand, i.type.bits)
    ]
    if i.space is PtxSpace.SHARED:
        _atomic_shared(b, i, results, *address_words(b, address, "ATOMS", False), data)
    elif i.space is PtxSpace.GLOBAL:
        _atomic_global(b, i, results, *address_words(b, address, "ATOM", True), data)
    else:
        _atomic_generic(b, i, results, *address_words(b, address, "ATOM", True), data)


def _atomic_global(
    b: Builder,
    i: PtxInstruction,
    results: list[Value | None],
    base: list[Source],
    offset: int,
    data: list[Source],
) -> None:
    no_result = all(value is None for value in results)
    if i.operation == _COMPARE_AND_SWAP:
        b.op(
            "ATOM",
            results,
            *base,
            *data,
            offset=offset,
            wide=True,
            wide_data=i.type.bits == 64,
            compare_and_swap=value_of("ATOM", "compare_and_swap", ".CAS"),
        )
        return
    reduces = (
        no_result
        and i.operation != "exch"
        and not (i.type.bits == 64 and i.operation in ("min", "max"))
    )
    b.op(
        "RED" if reduces else "ATOM",
        [] if reduces else results,
        *base,
        *data,
        offset=offset,
        wide=True,
        operation=_OPERATIONS[i.operation],
        type=_kind(i),
    )


def _atomic_shared(
    b: Builder,
    i: PtxInstruction,
    results: list[Value | None],
    base: list[Source],
    offset: int,
    data: list[Source],
) -> None:
    """Adds an atomic operation in shared memory.

    Shared memory has instructions for integer words, and EXCH and CAS for double words. All other
    operations are a compare-and-swap loop.
    """
    if i.operation == _COMPARE_AND_SWAP:
        b.op("ATOMS", results, *base, *data, offset=offset, compare_and_swap=_swap(i))
    elif i.operation == "exch" or (i.type.bits == 32 and not i.type.floating):
        b.op(
            "ATOMS",
            results,
            *base,
            *data,
            offset=offset,
            operation=_OPERATIONS[i.operation],
            type=_SHARED_TYPES[_kind(i)],
        )
    else:
        _atomic_loop(b, i, results, base, offset, data)


def _atomic_loop(
    b: Builder,
    i: PtxInstruction,
    results: list[Value | None],
    base: list[Source],
    offset: int,
    data: list[Source],
) -> None:
    """Adds a loop that retries compare-and-swap in shared memory until the old value is
    unchanged.
    """
    behind = b.guarded_block()
    old, held = ([b.temporary() for _ in data] for _ in range(2))
    b.op("LDS", list(old), *base, offset=offset, uniform_size=uniform_size(i.type.bits))
    loop, done = b.new_block("again"), b.new_block("done")
    b.end(Terminator.GOTO, loop)
    b.begin(loop)
    before = [Source(word) for word in old]
    new = _updated(b, i, before, data)
    b.op("ATOMS", list(held), *base, *before, *new, offset=offset, compare_and_swap=_swap(i))
    found = [Source(word) for word in held]
    same = PT
    for word, earlier in zip(found, before, strict=True):
        same = b.test_unsigned(Compare.EQ, word, earlier, with_=same)
    b.move(list(old), found)
    b.end(Terminator.BRANCH, done, loop, condition=same)
    b.begin(done)
    b.move(results, [Source(word) for word in old])
    b.leave_guarded_block(behind)


def _updated(b: Builder, i: PtxInstruction, old: list[Source], data: list[Source]) -> list[Source]:
    """Returns the new value of a word or double word."""
    if i.type is Type.F32:
        return [b.compute("FADD", old[0], data[0])]
    if i.operation in ("and", "or", "xor"):
        return [
            b.compute("LOP", x, y, operation=Logic[i.operation.upper()])
            for x, y in zip(old, data, strict=True)
        ]
    if i.operation == "add":
        return b.compute_pair("ADD64", *old, *data)
    chosen = comparison(
        b, Compare.LT if i.operation == "min" else Compare.GT, i.type.signed, old, data
    )
    return [b.compute("SEL", x, y, chosen) for x, y in zip(old, data, strict=True)]


def _atomic_generic(
    b: Builder,
    i: PtxInstruction,
    results: list[Value | None],
    base: list[Source],
    offset: int,
    data: list[Source],
) -> None:
    """Adds an atomic operation on a generic address: a branch selects the instruction for shared or
    for global memory.
    """
    if offset:
        base = sum_with(b, base, offset)
    behind = b.guarded_block()
    inside = in_window(b, base, DriverWord.SHARED_WINDOW)
    shared, elsewhere, done = b.new_block("shared"), b.new_block("global"), b.new_block("done")
    b.end(Terminator.BRANCH, shared, elsewhere, condition=inside)
    b.begin(shared)
    _atomic_shared(
        b,
        i,
        results,
        [b.compute("LOP", base[0], number(~WINDOW_MASK), operation=Logic.AND)],
        0,
        data,
    )
    b.end(Terminator.GOTO, done)
    b.begin(elsewhere)
    _atomic_global(b, i, results, base, 0, data)
    b.end(Terminator.GOTO, done)
    b.begin(done)
    b.leave_guarded_block(behind)
