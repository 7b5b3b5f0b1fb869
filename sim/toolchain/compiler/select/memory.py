"""Selection of loads, stores and prefetches."""

from typing import Any

from rtl.isa.kinds import CacheOperation, MemorySize
from sim.toolchain.assembly.program import BANK_BYTES
from sim.toolchain.compiler.ir import RZ, Source, Value, number
from sim.toolchain.compiler.layout import CONSTANT_BANK, PARAMETER_BANK, PARAMETER_BASE
from sim.toolchain.compiler.opcodes import FieldValue, value_of
from sim.toolchain.compiler.operands import offset_fits
from sim.toolchain.ptx.module import (
    Operand,
    PtxAddress,
    PtxInstruction,
    PtxRegister,
    PtxSpace,
    PtxVariable,
    Type,
)

from .builder import Builder, constant, handles

__all__ = ["address_words", "sum_with", "uniform_size"]

_WORD_BITS = 32
_WORD_BYTES = _WORD_BITS // 8
"""The bits of a register."""
_SIZES = {32: MemorySize.B32, 64: MemorySize.B64, 128: MemorySize.B128}
_UNIFORM_SIZES = {32: ".U.32", 64: ".U.64", 128: ".U.128"}
_NAMES = {
    PtxSpace.GLOBAL: ("LDG", "STG"),
    PtxSpace.LOCAL: ("LDL", "STL"),
    PtxSpace.SHARED: ("LDS", "STS"),
    None: ("LD", "ST"),
}
_BANKS = {PtxSpace.CONST: (CONSTANT_BANK, 0), PtxSpace.PARAM: (PARAMETER_BANK, PARAMETER_BASE)}
"""The spaces in constant banks: the bank, and the offset at which their addresses begin."""
_LOAD_CACHES = {"": "", "ca": "", "cg": ".CG", "cs": "", "lu": "", "cv": ".CV", "nc": ".CI"}
_STORE_CACHES = {"": "", "wb": "", "cg": ".CG", "cs": ".CS", "wt": ".WT"}
"""The spelling of the caching modifiers of stores in the instruction table."""


def address_words(b: Builder, address: Operand, name: str, wide: bool) -> tuple[list[Source], int]:
    """Returns the words of an address, and the offset that the instruction adds."""
    assert isinstance(address, PtxAddress)
    offset = address.offset
    count = 2 if wide else 1
    match address.base:
        case None:
            base = [number(offset), number(offset >> 32)][:count]
            offset = 0
        case PtxRegister():
            base = [*b.read(address.base, address.base.type.bits), RZ][:count]
        case PtxVariable():
            if address.base in b.locals:
                base, offset = [Source(b.stack)], offset + b.locals[address.base]
            else:
                base = b.address_of(address.base, offset)[:count]
                offset = 0
    if not offset_fits(name, offset):
        base = sum_with(b, base, offset)
        offset = 0
    if name in ("LDC", "LDS", "STS", "ATOMS", "LDL", "STL") and isinstance(base[0].operand, int):
        # Constants have absolute offsets up to the end of the bank, as sources of MOV.
        total = base[0].operand + offset
        if offset_fits(name, total) or (name == "LDC" and total in range(BANK_BYTES)):
            offset, base = total, [RZ]
    return base, offset


def sum_with(b: Builder, base: list[Source], offset: int) -> list[Source]:
    """Returns the sum of an address and an offset."""
    if len(base) == 1:
        return [b.compute("IADD", base[0], number(offset))]
    return b.compute_pair("ADD64", *base, number(offset), number(offset >> 32))


def _size(kind: Type, count: int, signed: bool = False) -> MemorySize:
    """Returns the size of an access; ``signed`` selects sign extension."""
    if kind.bits < _WORD_BITS:
        return MemorySize[f"{'S' if kind.signed and signed else 'U'}{kind.bits}"]
    return _SIZES[kind.bits * count]


def uniform_size(bits: int) -> FieldValue:
    """Returns the size of an LDS, as a field value of the uniform kind."""
    return value_of("LDS", "uniform_size", _UNIFORM_SIZES[bits])


def _results(b: Builder, operand: Operand, kind: Type) -> list[Value | None]:
    return [
        value
        for element in b.elements(operand)
        for value in b.write(element, 64 if kind.bits == 64 else 32)
    ]


@handles("ld", "ldu")
def _load(b: Builder, i: PtxInstruction) -> None:
    address = i.operands[1]
    assert isinstance(address, PtxAddress)
    if isinstance(address.base, PtxVariable) and _is_held(b, address.base):
        _load_parameter(b, i, address)
        return
    if i.type.bits < _WORD_BITS and i.vector > 1:
        _load_small_vector(b, i, address)
        return
    results = _results(b, i.operands[0], i.type)
    loaded = [None if value is None else b.temporary() for value in results]
    _load_words(b, i, address, loaded)
    _spread(b, i, results, loaded)


def _load_words(
    b: Builder, i: PtxInstruction, address: PtxAddress, results: list[Value | None], shift: int = 0
) -> None:
    """Loads all results with one instruction."""
    address = PtxAddress(address.base, address.offset + shift)
    if i.space in _BANKS:
        bank, start = _BANKS[i.space]
        base, offset = address_words(
            b, PtxAddress(address.base, address.offset + start), "LDC", False
        )
        _load_constant(b, i, bank, base, offset, results)
        return
    name = _NAMES[i.space][0]
    wide = i.space in (PtxSpace.GLOBAL, None)
    base, offset = address_words(b, address, name, wide)
    fields: dict[str, Any] = {}
    if i.space is PtxSpace.SHARED and i.type.bits >= _WORD_BITS:
        fields["uniform_size"] = uniform_size(i.type.bits * i.vector)
    elif i.space is PtxSpace.SHARED:
        fields["uniform_size"] = value_of(
            "LDS", "uniform_size", f".{_size(i.type, i.vector, True).name}"
        )
    else:
        fields["size"] = _size(i.type, i.vector, True)
    if wide:
        cache = ".CV" if i.volatile else _LOAD_CACHES[i.cache]
        fields |= {"wide": True, "cache": value_of(name, "cache", cache)}
    extra = []
    if i.space is None:
        base, outside = _generic(b, base)
        extra = [outside]
    b.op(name, results, *base, *extra, offset=offset, **fields)


def _load_constant(
    b: Builder,
    i: PtxInstruction,
    bank: int,
    base: list[Source],
    offset: int,
    results: list[Value | None],
) -> None:
    words = len(results)
    if (
        base == [RZ]
        and i.type.bits >= _WORD_BITS
        and offset % 4 == 0
        and offset + 4 * words <= BANK_BYTES
    ):
        for at, value in enumerate(results):
            if value is not None:
                b.op("MOV", [value], constant(bank, offset + 4 * at))
        return
    step = min(words, 2)
    # A known address is entirely in the offset, up to the end of the bank.
    if base != [RZ] and not offset_fits("LDC", offset + 4 * (words - step)):
        base, offset = sum_with(b, base, offset), 0
    for at in range(0, words, step):
        size = _size(i.type, 1, True) if step == 1 else MemorySize.B64
        b.op("LDC", results[at : at + step], *base, offset=offset + 4 * at, size=size, bank=bank)


def _spread(
    b: Builder, i: PtxInstruction, results: list[Value | None], loaded: list[Value | None]
) -> None:
    """Copies loaded words to the destination registers, extended to 64 bits if these are wider."""
    b.move(results, [RZ if word is None else Source(word) for word in loaded])
    register = i.operands[0]
    if (
        isinstance(register, PtxRegister)
        and register.type.bits == 64
        and i.type.bits < 64
        and loaded[0] is not None
    ):
        top = b.compute("SHR", Source(loaded[0]), number(31)) if i.type.signed else RZ
        b.move([b.registers(register)[1]], [top])


def _load_small_vector(b: Builder, i: PtxInstruction, address: PtxAddress) -> None:
    """Loads a vector of bytes or halves, one element at a time."""
    loaded = []
    for at, _ in enumerate(b.elements(i.operands[0])):
        word = b.temporary()
        step = PtxInstruction(
            opcode="ld",
            line=i.line,
            column=i.column,
            types=i.types,
            space=i.space,
            volatile=i.volatile,
            cache=i.cache,
        )
        _load_words(b, step, address, [word], at * i.type.size)
        loaded.append(word)
    b.move(
        [b.write(element)[0] for element in b.elements(i.operands[0])],
        [Source(word) for word in loaded],
    )


@handles("st")
def _store(b: Builder, i: PtxInstruction) -> None:
    address = i.operands[0]
    assert isinstance(address, PtxAddress)
    if i.space is PtxSpace.PARAM:
        _store_parameter(b, i, address)
        return
    elements = b.elements(i.operands[1])
    if i.type.bits < _WORD_BITS and i.vector > 1:
        for at, element in enumerate(elements):
            _store_words(b, i, address, b.read(element), 1, at * i.type.size)
        return
    _store_words(
        b,
        i,
        address,
        [word for element in elements for word in b.read(element, i.type.bits)],
        i.vector,
    )


def _store_words(
    b: Builder,
    i: PtxInstruction,
    address: PtxAddress,
    words: list[Source],
    count: int,
    shift: int = 0,
) -> None:
    name = _NAMES[i.space][1]
    wide = i.space in (PtxSpace.GLOBAL, None)
    base, offset = address_words(b, PtxAddress(address.base, address.offset + shift), name, wide)
    fields: dict[str, Any] = {"size": _size(i.type, count)}
    if wide:
        cache = ".WT" if i.volatile else _STORE_CACHES[i.cache]
        fields |= {"wide": True, "cache": value_of(name, "cache", cache)}
    extra = []
    if i.space is None:
        base, outside = _generic(b, base)
        extra = [outside]
    b.op(name, [], *base, *extra, *words, offset=offset, **fields)


def _generic(b: Builder, base: list[Source]) -> tuple[list[Source], Source]:
    """Returns a generic address as LD and ST read it, and the predicate that it is in no window."""
    low, high, outside = b.temporary(), b.temporary(), b.temporary(True)
    b.op("LEA", [low], base[0], RZ, sets_carry=True)
    b.op("LEA.HI", [outside, high], base[0], RZ, base[1], takes_carry=True)
    return [Source(low), Source(high)], Source(outside)


# Parameters


def _is_held(b: Builder, variable: PtxVariable) -> bool:
    """Whether a variable is a parameter in registers, as all are except those of kernels."""
    return variable.space is PtxSpace.PARAM and b.layout.offsets.get(variable) is None


def _parameter_words(b: Builder, i: PtxInstruction, address: PtxAddress) -> tuple[list[Value], int]:
    """Returns the registers of a function's parameter, and the offset into them in bytes."""
    variable = address.base
    if not isinstance(variable, PtxVariable) or variable.space is not PtxSpace.PARAM:
        raise b.failure("the address of a parameter must be its name and a number")
    words = b.variable_words(variable)
    end = address.offset + i.type.size * i.vector
    if address.offset < 0 or end > max(variable.size, len(words) * _WORD_BYTES):
        raise b.failure(f"{address.offset} lies outside of {variable.name}")
    if address.offset % i.type.size:
        raise b.failure(f"{address.offset} is no multiple of {i.type.size}, the bytes of an access")
    return words, address.offset


def _load_parameter(b: Builder, i: PtxInstruction, address: PtxAddress) -> None:
    words, offset = _parameter_words(b, i, address)
    sources = []
    for at in range(i.vector):
        place = offset + at * i.type.size
        for word in range(max(i.type.bits // 32, 1)):
            source = Source(words[place // _WORD_BYTES + word])
            if i.type.bits < _WORD_BITS:
                field = number(place % _WORD_BYTES * 8 | i.type.bits << 8)
                source = b.compute("BFE", source, field, signed=i.type.signed)
            sources.append(source)
    results = _results(b, i.operands[0], i.type)
    held = [None if value is None else b.temporary() for value in results]
    b.move(held, sources)
    _spread(b, i, results, held)


def _store_parameter(b: Builder, i: PtxInstruction, address: PtxAddress) -> None:
    words, offset = _parameter_words(b, i, address)
    for at, element in enumerate(b.elements(i.operands[1])):
        place = offset + at * i.type.size
        if i.type.bits < _WORD_BITS:
            variable = address.base
            assert isinstance(variable, PtxVariable)
            is_whole = variable.count == 1 and variable.type.bits == i.type.bits
            if is_whole:
                b.move([words[place // _WORD_BYTES]], b.read(element))
            else:
                target = words[place // _WORD_BYTES]
                b.op(
                    "BFI",
                    [target],
                    b.read(element)[0],
                    number(place % _WORD_BYTES * 8 | i.type.bits << 8),
                    Source(target),
                )
        else:
            source = b.read(element, i.type.bits)
            b.move([*words[place // _WORD_BYTES : place // _WORD_BYTES + len(source)]], source)


@handles("prefetch", "prefetchu")
def _prefetch(b: Builder, i: PtxInstruction) -> None:
    local = i.space is PtxSpace.LOCAL
    name = "CCTLL" if local else "CCTL"
    base, offset = address_words(b, i.operands[0], name, not local)
    fields: dict[str, Any] = {} if local else {"wide": True}
    b.op(name, [], *base, offset=offset, operation=CacheOperation[f"PF{i.operation[1]}"], **fields)
