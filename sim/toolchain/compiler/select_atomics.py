"""Selection of atomic operations."""

from sim.toolchain.ptx.module import Instruction, Sink, Space, Type

from .builder import Builder, handles
from .ir import PT, Source, Value, number
from .layout import DriverWord
from .select_long import comparison
from .select_memory import address_words, sum_with
from .select_spaces import WINDOW_MASK, in_window

__all__: list[str] = []

_OPERATIONS = {"add": "ADD", "min": "MIN", "max": "MAX", "and": "AND", "or": "OR", "xor": "XOR", "exch": "EXCH",
               "inc": "INC", "dec": "DEC", "cas": "CAS"}


def _kind(i: Instruction) -> str:
    """The type of an atomic operation as a modifier."""
    if i.operation == "cas":
        return ".64" if i.type.bits == 64 else ""
    if i.type is Type.F32:
        return ".F32.FTZ.RN"
    signed = i.type.signed and i.operation in ("min", "max")
    if i.type.bits == 64:
        return ".S64" if signed else ".U64"
    return ".S32" if signed else ""


@handles("atom", "red")
def _atomic(b: Builder, i: Instruction) -> None:
    returns = i.opcode == "atom"
    results = b.write(i.operands[0] if returns else Sink(), i.type.bits)
    address = i.operands[1 if returns else 0]
    data = [word for operand in i.operands[2 if returns else 1:] for word in b.read(operand, i.type.bits)]
    if i.space is Space.SHARED:
        _atomic_shared(b, i, results, *address_words(b, address, "ATOMS", False), data)
    elif i.space is Space.GLOBAL:
        _atomic_global(b, i, results, *address_words(b, address, "ATOM", True), data)
    else:
        _atomic_generic(b, i, results, *address_words(b, address, "ATOM", True), data)


def _atomic_global(b: Builder, i: Instruction, results: list[Value | None], base: list[Source], offset: int,
                   data: list[Source]) -> None:
    nobody = all(value is None for value in results)
    operation = _OPERATIONS[i.operation]
    if operation == "CAS":
        b.op("ATOM.CAS", results, *base, *data, mods=_kind(i), offset=offset)
    elif nobody and operation != "EXCH" and not (i.type.bits == 64 and operation in ("MIN", "MAX")):
        b.op("RED", [], *base, *data, mods=f".E.{operation}{_kind(i)}", offset=offset)
    else:
        b.op("ATOM", results, *base, *data, mods=f".E.{operation}{_kind(i)}", offset=offset)


def _atomic_shared(b: Builder, i: Instruction, results: list[Value | None], base: list[Source], offset: int,
                   data: list[Source]) -> None:
    """Shared memory has all operations on words, on double words EXCH and CAS: others try until nobody was faster."""
    operation = _OPERATIONS[i.operation]
    if operation == "CAS":
        b.op("ATOMS.CAS", results, *base, *data, mods=_kind(i), offset=offset)
    elif operation == "EXCH" or (i.type.bits == 32 and not i.type.floating):
        b.op("ATOMS", results, *base, *data, mods=f".{operation}{_kind(i)}", offset=offset)
    else:
        _atomic_loop(b, i, results, base, offset, data)


def _atomic_loop(b: Builder, i: Instruction, results: list[Value | None], base: list[Source], offset: int,
                 data: list[Source]) -> None:
    """Compare-and-swap in shared memory until nobody was faster."""
    behind = b.guarded_block()
    size = ".64" if i.type.bits == 64 else ""
    old, held = ([b.temporary() for _ in data] for _ in range(2))
    b.op("LDS", list(old), *base, mods=f".U{size or '.32'}", offset=offset)
    loop, done = b.new_block("again"), b.new_block("done")
    b.end("goto", loop)
    b.begin(loop)
    before = [Source(word) for word in old]
    new = _updated(b, i, before, data)
    b.op("ATOMS.CAS", list(held), *base, *before, *new, mods=size, offset=offset)
    found = [Source(word) for word in held]
    same = PT
    for word, earlier in zip(found, before, strict=True):
        same = b.test(".EQ.U32.AND", word, earlier, with_=same)
    b.move(list(old), found)
    b.end("branch", done, loop, condition=same)
    b.begin(done)
    b.move(results, [Source(word) for word in old])
    b.leave_guarded_block(behind)


def _updated(b: Builder, i: Instruction, old: list[Source], data: list[Source]) -> list[Source]:
    """What a word or double word becomes."""
    if i.type is Type.F32:
        return [b.compute("FADD", old[0], data[0])]
    if i.operation in ("and", "or", "xor"):
        return [b.compute("LOP", x, y, mods=f".{i.operation.upper()}") for x, y in zip(old, data, strict=True)]
    if i.operation == "add":
        return b.compute_pair("ADD64", *old, *data)
    chosen = comparison(b, "LT" if i.operation == "min" else "GT", i.type.signed, old, data)
    return [b.compute("SEL", x, y, chosen) for x, y in zip(old, data, strict=True)]


def _atomic_generic(b: Builder, i: Instruction, results: list[Value | None], base: list[Source], offset: int,
                    data: list[Source]) -> None:
    """In shared memory by its own instruction, elsewhere by the one of global memory."""
    if offset:
        base = sum_with(b, base, offset)
    behind = b.guarded_block()
    inside = in_window(b, base, DriverWord.SHARED_WINDOW)
    shared, elsewhere, done = b.new_block("shared"), b.new_block("global"), b.new_block("done")
    b.end("branch", shared, elsewhere, condition=inside)
    b.begin(shared)
    _atomic_shared(b, i, results, [b.compute("LOP", base[0], number(~WINDOW_MASK), mods=".AND")], 0, data)
    b.end("goto", done)
    b.begin(elsewhere)
    _atomic_global(b, i, results, base, 0, data)
    b.end("goto", done)
    b.begin(done)
    b.leave_guarded_block(behind)
