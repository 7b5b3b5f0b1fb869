"""Selection of loads, stores, atomics and address conversions."""

from sim.toolchain.ptx.module import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Sink,
    Space,
    Type,
    Variable,
    VariableRef,
    Vector,
)

from .builder import Builder, constant, handles
from .ir import PT, RZ, Source, Value, number
from .layout import CONSTANT_BANK, PARAMETER_BASE, DriverWord
from .select_integer import extended

__all__ = ["entry_parameters"]

_OFFSET_BITS = {"LDG": 24, "STG": 24, "LDL": 24, "STL": 24, "LDS": 24, "STS": 24, "LD": 24, "ST": 24, "LDC": 16,
                "ATOM": 20, "ATOM.CAS": 20, "ATOMS": 22, "ATOMS.CAS": 22, "RED": 20, "CCTL": 24}
_SIZES = {32: "", 64: ".64", 128: ".128"}
_NAMES = {Space.GLOBAL: ("LDG", "STG"), Space.LOCAL: ("LDL", "STL"), Space.SHARED: ("LDS", "STS"), None: ("LD", "ST")}
_LOAD_CACHES = {"": "", "ca": "", "cg": ".CG", "cs": "", "lu": "", "cv": ".CV", "nc": ".CI"}
_STORE_CACHES = {"": "", "wb": "", "cg": ".CG", "cs": ".CS", "wt": ".WT"}
_WINDOW = 0xFF00_0000


def _address(b: Builder, address: Operand, name: str, wide: bool) -> tuple[list[Source], int]:
    """The registers of an address, and the number that the instruction adds."""
    assert isinstance(address, Address)
    offset = address.offset
    count = 2 if wide else 1
    match address.base:
        case None:
            base = [number(offset), number(offset >> 32)][:count]
            offset = 0
        case Register():
            base = (b.read(address.base, address.base.type.bits) + [RZ])[:count]
        case Variable():
            if address.base in b.locals:
                base, offset = [Source(b.stack)], offset + b.locals[address.base]
            else:
                base = b.address_of(address.base, offset)[:count]
                offset = 0
    limit = 1 << _OFFSET_BITS[name] - 1
    if not -limit <= offset < limit:
        base = _plus(b, base, offset)
        offset = 0
    if name in ("LDC", "LDS", "STS", "ATOMS", "ATOMS.CAS", "LDL", "STL") and isinstance(base[0].what, int):
        offset, base = base[0].what + offset, [RZ]
    return base, offset


def _plus(b: Builder, base: list[Source], offset: int) -> list[Source]:
    if len(base) == 1:
        return [b.compute("IADD", base[0], number(offset))]
    low, high = b.pair()
    b.op("ADD64", [low, high], *base, number(offset), number(offset >> 32))
    return [Source(low), Source(high)]


def entry_parameters(b: Builder, parameters: tuple, offsets: tuple[int, ...]) -> dict[Variable, int]:
    """Where the parameters of an entry are in bank 0."""
    return {variable: PARAMETER_BASE + offset for variable, offset in zip(parameters, offsets, strict=True)}


def _size(kind: Type, count: int) -> str:
    """The size of an access as a modifier."""
    if kind.bits < 32:
        return f".{'S' if kind.signed else 'U'}{kind.bits}"
    return _SIZES[kind.bits * count]


def _results(b: Builder, operand: Operand, kind: Type) -> list[Value | None]:
    return [value for element in b.elements(operand) for value in b.write(element, 64 if kind.bits == 64 else 32)]


@handles("ld", "ldu")
def _load(b: Builder, i: Instruction) -> None:
    address = i.operands[1]
    assert isinstance(address, Address)
    if i.space is Space.PARAM:
        _load_parameter(b, i, address)
        return
    if i.type.bits < 32 and i.vector > 1:
        _load_small_vector(b, i, address)
        return
    results = _results(b, i.operands[0], i.type)
    loaded = [None if value is None else b.temporary() for value in results]
    _load_words(b, i, address, loaded)
    _spread(b, i, results, loaded)


def _load_words(b: Builder, i: Instruction, address: Address, results: list[Value | None], shift: int = 0) -> None:
    """One load of all results."""
    address = Address(address.base, address.offset + shift)
    if i.space is Space.CONST:
        base, offset = _address(b, address, "LDC", False)
        _load_constant(b, i, base, offset, results)
        return
    name = _NAMES[i.space][0]
    wide = i.space in (Space.GLOBAL, None)
    base, offset = _address(b, address, name, wide)
    cache = ".CV" if i.volatile and wide else _LOAD_CACHES[i.cache] if wide else ""
    if i.space is Space.SHARED and i.type.bits >= 32:
        cache = ".U"
        size = _size(i.type, i.vector) or ".32"
    else:
        size = _size(i.type, i.vector)
    extra = []
    if i.space is None:
        base, outside = _generic(b, base)
        extra = [outside]
    b.op(name, results, *base, *extra, mods=f"{'.E' if wide else ''}{cache}{size}", offset=offset)


def _load_constant(b: Builder, i: Instruction, base: list[Source], offset: int, results: list[Value | None]) -> None:
    words = len(results)
    if base == [RZ] and i.type.bits >= 32:
        for at, value in enumerate(results):
            if value is not None:
                b.op("MOV", [value], constant(CONSTANT_BANK, offset + 4 * at))
        return
    step = min(words, 2)
    for at in range(0, words, step):
        size = _size(i.type, 1) if step == 1 else ".64"
        b.op("LDC", results[at:at + step], *base, mods=size, offset=offset + 4 * at, text=str(CONSTANT_BANK))


def _spread(b: Builder, i: Instruction, results: list[Value | None], loaded: list[Value | None]) -> None:
    """Loaded words into the registers, extended where these are longer than what is loaded."""
    b.move(results, [RZ if word is None else Source(word) for word in loaded])
    register = i.operands[0]
    if isinstance(register, Register) and register.type.bits == 64 and i.type.bits < 64 and loaded[0] is not None:
        top = b.compute("SHR", Source(loaded[0]), number(31)) if i.type.signed else RZ
        b.move([b.registers(register)[1]], [top])


def _load_small_vector(b: Builder, i: Instruction, address: Address) -> None:
    """Vectors of bytes and halves, an element at a time."""
    loaded = []
    for at, _ in enumerate(b.elements(i.operands[0])):
        word = b.temporary()
        step = Instruction(opcode="ld", line=i.line, column=i.column, types=i.types, space=i.space, volatile=i.volatile,
                           cache=i.cache)
        _load_words(b, step, address, [word], at * i.type.size)
        loaded.append(word)
    b.move([b.write(element)[0] for element in b.elements(i.operands[0])], [Source(word) for word in loaded])


@handles("st")
def _store(b: Builder, i: Instruction) -> None:
    address = i.operands[0]
    assert isinstance(address, Address)
    if i.space is Space.PARAM:
        _store_parameter(b, i, address)
        return
    elements = b.elements(i.operands[1])
    if i.type.bits < 32 and i.vector > 1:
        for at, element in enumerate(elements):
            _store_words(b, i, address, b.read(element), 1, at * i.type.size)
        return
    _store_words(b, i, address, [word for element in elements for word in b.read(element, i.type.bits)], i.vector)


def _store_words(b: Builder, i: Instruction, address: Address, words: list[Source], count: int, shift: int = 0) -> None:
    name = _NAMES[i.space][1]
    wide = i.space in (Space.GLOBAL, None)
    base, offset = _address(b, Address(address.base, address.offset + shift), name, wide)
    cache = ".WT" if i.volatile and wide else _STORE_CACHES[i.cache] if wide else ""
    size = _size(i.type, count).replace(".S", ".U")
    extra = []
    if i.space is None:
        base, outside = _generic(b, base)
        extra = [outside]
    b.op(name, [], *base, *extra, *words, mods=f"{'.E' if wide else ''}{cache}{size}", offset=offset)


def _generic(b: Builder, base: list[Source]) -> tuple[list[Source], Source]:
    """A generic address as LD and ST want it, and the predicate that it lies in no window."""
    low, high, outside = b.temporary(), b.temporary(), b.temporary(True)
    b.op("LEA", [low], base[0], RZ, sets_carry=True)
    b.op("LEA.HI", [outside, high], base[0], RZ, base[1], takes_carry=True)
    return [Source(low), Source(high)], Source(outside)


# Parameters

def _parameter_words(b: Builder, i: Instruction, address: Address) -> tuple[list[Value], int]:
    """The registers of a parameter of a function, and the offset into them."""
    variable = address.base
    if not isinstance(variable, Variable) or variable.space is not Space.PARAM:
        b.fail("the address of a parameter must be its name and a number")
    if address.offset < 0 or address.offset + i.type.size * i.vector > max(variable.size, i.type.size * i.vector):
        b.fail(f"{address.offset} lies outside of {variable.name}")
    return b.variable_words(variable), address.offset


def _load_parameter(b: Builder, i: Instruction, address: Address) -> None:
    if isinstance(address.base, Variable) and address.base in b.layout.places:
        _load_entry_parameter(b, i, b.layout.places[address.base] + address.offset)
        return
    words, offset = _parameter_words(b, i, address)
    sources = []
    for at in range(i.vector):
        place = offset + at * i.type.size
        for word in range(max(i.type.bits // 32, 1)):
            source = Source(words[place // 4 + word])
            if i.type.bits < 32:
                field = number(place % 4 * 8 | i.type.bits << 8)
                source = b.compute("BFE", source, field, mods="" if i.type.signed else ".U32")
            sources.append(source)
    results = _results(b, i.operands[0], i.type)
    held = [None if value is None else b.temporary() for value in results]
    b.move(held, sources)
    _spread(b, i, results, held)


def _load_entry_parameter(b: Builder, i: Instruction, place: int) -> None:
    results = _results(b, i.operands[0], i.type)
    held: list[Value | None] = [b.temporary() for _ in results]
    for at, value in enumerate(held):
        if i.type.bits < 32:
            b.op("LDC", [value], RZ, mods=_size(i.type, 1), offset=place + at * i.type.size, text="0")
        else:
            b.op("MOV", [value], constant(0, place + 4 * at))
    _spread(b, i, results, held)


def _store_parameter(b: Builder, i: Instruction, address: Address) -> None:
    words, offset = _parameter_words(b, i, address)
    for at, element in enumerate(b.elements(i.operands[1])):
        place = offset + at * i.type.size
        if i.type.bits < 32:
            variable = address.base
            assert isinstance(variable, Variable)
            if variable.count == 1:
                b.move([words[place // 4]], b.read(element))
            else:
                target = words[place // 4]
                b.op("BFI", [target], b.read(element)[0], number(place % 4 * 8 | i.type.bits << 8), Source(target))
        else:
            source = b.read(element, i.type.bits)
            b.move(words[place // 4:place // 4 + len(source)], source)


# Atomics

_OPERATIONS = {"add": "ADD", "min": "MIN", "max": "MAX", "and": "AND", "or": "OR", "xor": "XOR", "exch": "EXCH",
               "inc": "INC", "dec": "DEC", "cas": "CAS"}


def _kind(i: Instruction) -> str:
    """The type of an atomic operation as a modifier."""
    if i.operation == "cas":
        return ".64" if i.type.bits == 64 else ""
    signed = i.type.signed and i.operation in ("min", "max")
    if i.type.bits == 64:
        return ".S64" if signed else ".U64"
    return ".S32" if signed else ""


@handles("atom", "red")
def _atomic(b: Builder, i: Instruction) -> None:
    if i.type.bits < 32:
        b.fail(f"{i.opcode} of {i.type.bits} bits is not translated")
    returns = i.opcode == "atom"
    results = b.write(i.operands[0], i.type.bits) if returns else [None] * (i.type.bits // 32)
    address = i.operands[1 if returns else 0]
    data = [word for operand in i.operands[2 if returns else 1:] for word in b.read(operand, i.type.bits)]
    if i.space is Space.SHARED:
        _atomic_shared(b, i, results, *_address(b, address, "ATOMS", False), data)
    elif i.space is Space.GLOBAL:
        _atomic_global(b, i, results, *_address(b, address, "ATOM", True), data)
    else:
        _atomic_generic(b, i, results, *_address(b, address, "ATOM", True), data)


def _atomic_global(b: Builder, i: Instruction, results: list[Value | None], base: list[Source], offset: int,
                   data: list[Source]) -> None:
    nobody = all(value is None for value in results) or isinstance(i.operands[0], Sink)
    operation = _OPERATIONS[i.operation]
    if operation == "CAS":
        b.op("ATOM.CAS", results, *base, *data, mods=_kind(i), offset=offset)
    elif nobody and operation != "EXCH" and not (i.type.bits == 64 and operation in ("MIN", "MAX")):
        b.op("RED", [], *base, *data, mods=f".E.{operation}{_kind(i)}", offset=offset)
    else:
        b.op("ATOM", results, *base, *data, mods=f".E.{operation}{_kind(i)}", offset=offset)


_LOOPED = frozenset({"ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"})


def _atomic_shared(b: Builder, i: Instruction, results: list[Value | None], base: list[Source], offset: int,
                   data: list[Source]) -> None:
    """Shared memory has all operations on words, on double words EXCH and CAS: others try until nobody was faster."""
    operation = _OPERATIONS[i.operation]
    if operation == "CAS":
        b.op("ATOMS.CAS", results, *base, *data, mods=_kind(i), offset=offset)
    elif i.type.bits == 32 or operation == "EXCH":
        b.op("ATOMS", results, *base, *data, mods=f".{operation}{_kind(i)}", offset=offset)
    else:
        _atomic_loop(b, i, results, base, offset, data)


def _atomic_loop(b: Builder, i: Instruction, results: list[Value | None], base: list[Source], offset: int,
                 data: list[Source]) -> None:
    behind = b.guarded_block()
    old, held = b.pair(), b.pair()
    b.op("LDS", list(old), *base, mods=".U.64", offset=offset)
    loop, done = b.new_block("again"), b.new_block("done")
    b.end("goto", loop)
    b.begin(loop)
    before = [Source(word) for word in old]
    new = _updated(b, i, before, data)
    b.op("ATOMS.CAS", list(held), *base, *before, *new, mods=".64", offset=offset)
    same, now = b.temporary(True), b.temporary(True)
    found = [Source(word) for word in held]
    b.compare(same, ".EQ.U32.AND", found[0], before[0])
    b.compare(now, ".EQ.U32.AND", found[1], before[1], with_=Source(same))
    b.move(list(old), found)
    b.end("branch", done, loop, condition=Source(now))
    b.begin(done)
    b.move(results, [Source(word) for word in old])
    b.leave_guarded_block(behind)


def _updated(b: Builder, i: Instruction, old: list[Source], data: list[Source]) -> list[Source]:
    """What a double word becomes."""
    if i.operation in ("and", "or", "xor"):
        return [b.compute("LOP", x, y, mods=f".{i.operation.upper()}") for x, y in zip(old, data, strict=True)]
    if i.operation == "add":
        low, high = b.pair()
        b.op("ADD64", [low, high], *old, *data)
        return [Source(low), Source(high)]
    if i.operation in ("min", "max"):
        from .select_long import comparison
        chosen = comparison(b, "LT" if i.operation == "min" else "GT", i.type.signed, old, data)
        return [b.compute("SEL", x, y, chosen) for x, y in zip(old, data, strict=True)]
    b.fail(f"atom.{i.operation} of 64 bits is not translated")


def _atomic_generic(b: Builder, i: Instruction, results: list[Value | None], base: list[Source], offset: int,
                    data: list[Source]) -> None:
    """In shared memory by its own instruction, elsewhere by the one of global memory."""
    if i.type.bits == 64 and i.operation not in ("exch", "cas"):
        b.fail(f"{i.opcode} of 64 bits at a generic address is not translated: convert it by cvta.to")
    if offset:
        base = _plus(b, base, offset)
    behind = b.guarded_block()
    inside = _in_window(b, base, DriverWord.SHARED_WINDOW)
    shared, elsewhere, done = b.new_block("shared"), b.new_block("global"), b.new_block("done")
    b.end("branch", shared, elsewhere, condition=inside)
    b.begin(shared)
    _atomic_shared(b, i, results, [b.compute("LOP", base[0], number(~_WINDOW), mods=".AND")], 0, data)
    b.end("goto", done)
    b.begin(elsewhere)
    _atomic_global(b, i, results, base, 0, data)
    b.end("goto", done)
    b.begin(done)
    b.leave_guarded_block(behind)


# Address spaces

def _in_window(b: Builder, address: list[Source], window: int) -> Source:
    """Whether a generic address lies in a window of 16 MiB."""
    upper = b.compute("LOP", address[0], number(_WINDOW), mods=".AND")
    same, inside = b.temporary(True), b.temporary(True)
    b.compare(same, ".EQ.U32.AND", upper, constant(0, window))
    b.compare(inside, ".EQ.U32.AND", address[1], RZ, with_=Source(same))
    return Source(inside)


_WINDOWS = {Space.SHARED: DriverWord.SHARED_WINDOW, Space.LOCAL: DriverWord.LOCAL_WINDOW}


@handles("cvta")
def _convert_address(b: Builder, i: Instruction) -> None:
    source = b.read(i.operands[1], i.type.bits)
    results = b.write(i.operands[0], i.type.bits)
    if i.space is Space.GLOBAL:
        b.move(results, source)
        return
    if i.space not in _WINDOWS:
        b.fail(f"cvta of {i.space.value if i.space else 'no space'} is not translated")
    window = constant(0, _WINDOWS[i.space])
    if i.to:
        low = b.compute("LOP", source[0], number(~_WINDOW), mods=".AND")
    else:
        low = b.compute("IADD", source[0], window)
    b.move(results, [low, RZ][:len(results)])


@handles("isspacep")
def _is_in_space(b: Builder, i: Instruction) -> None:
    operand = i.operands[1]
    address = b.read(operand, operand.type.bits if isinstance(operand, Register) else 64)
    address = (address + [RZ])[:2]
    result = b.write(i.operands[0])[0]
    if i.space in _WINDOWS:
        inside = _in_window(b, address, _WINDOWS[i.space])
        b.op("PSETP", [result, None], inside, PT, PT, mods=".AND.AND")
    elif i.space is Space.GLOBAL:
        one, other = (_in_window(b, address, window) for window in _WINDOWS.values())
        b.op("PSETP", [result, None], one.invert(), other.invert(), PT, mods=".AND.AND")
    else:
        b.fail("isspacep of this space is not translated")


@handles("prefetch", "prefetchu")
def _prefetch(b: Builder, i: Instruction) -> None:
    if i.space is Space.LOCAL:
        b.fail("prefetch.local is not translated")
    base, offset = _address(b, i.operands[0], "CCTL", True)
    b.op("CCTL", [], *base, mods=".E.PF2" if i.operation == "L2" else ".E.PF1", offset=offset)


