"""Loads, stores, atomics and constants.

LDG, STG, ATOM and RED address global memory; LD and ST are generic: an address in one of the two windows is one of
shared or local memory, and their predicate operand, which tells the same, is not looked at. ``.E`` makes the address
a pair of registers, else it is one, extended with zeros. A load that is shorter than a register is extended as its
type says. Atomics happen at once.
"""

from collections.abc import Callable

from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation, AtomicType, MemorySize, size_bytes, size_registers
from rtl.isa.syntax import RZ, Literal, Register
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES

from .decode import Instruction, semantics
from .integers import WORD, signed
from .state import FaultError, Operation, Thread

__all__: list[str] = []

_LONG = (1 << 64) - 1
_SIGNED_SIZES = (MemorySize.S8, MemorySize.S16)

_Read = Callable[[Thread, int, int], int]
_Write = Callable[[Thread, int, int, int], None]


def _inside(space: str, content: bytearray, address: int, size: int) -> None:
    if address + size > len(content):
        raise FaultError(WarpError.OOR_ADDR, f"{address:#x} is beyond the {len(content):#x} bytes of {space} memory")


def _local(thread: Thread) -> bytearray:
    """The thread's local memory, made when it is first used."""
    if not thread.local:
        thread.local = bytearray(thread.cta.launch.local)
    return thread.local


def _read_global(thread: Thread, address: int, size: int) -> int:
    return thread.memory.read_number(address, size)


def _write_global(thread: Thread, address: int, size: int, value: int) -> None:
    thread.memory.write_number(address, size, value)


def _read_shared(thread: Thread, address: int, size: int) -> int:
    content = thread.cta.shared
    _inside("shared", content, address, size)
    return int.from_bytes(content[address:address + size], "little")


def _write_shared(thread: Thread, address: int, size: int, value: int) -> None:
    content = thread.cta.shared
    _inside("shared", content, address, size)
    content[address:address + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def _read_local(thread: Thread, address: int, size: int) -> int:
    content = _local(thread)
    _inside("local", content, address, size)
    return int.from_bytes(content[address:address + size], "little")


def _write_local(thread: Thread, address: int, size: int, value: int) -> None:
    content = _local(thread)
    _inside("local", content, address, size)
    content[address:address + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def _read_generic(thread: Thread, address: int, size: int) -> int:
    if 0 <= address - SHARED_WINDOW < WINDOW_BYTES:
        return _read_shared(thread, address - SHARED_WINDOW, size)
    if 0 <= address - LOCAL_WINDOW < WINDOW_BYTES:
        return _read_local(thread, address - LOCAL_WINDOW, size)
    return _read_global(thread, address, size)


def _write_generic(thread: Thread, address: int, size: int, value: int) -> None:
    if 0 <= address - SHARED_WINDOW < WINDOW_BYTES:
        _write_shared(thread, address - SHARED_WINDOW, size, value)
    elif 0 <= address - LOCAL_WINDOW < WINDOW_BYTES:
        _write_local(thread, address - LOCAL_WINDOW, size, value)
    else:
        _write_global(thread, address, size, value)


def _address(i: Instruction, size: int) -> Callable[[Thread], int]:
    """The address of an access, which must be a multiple of its size. Without a register the offset is the address,
    and not signed: so does compiled code.
    """
    base, offset = i["Ra"], i["offset"]
    if base == RZ:
        field = i.form.fields["offset"]
        offset %= field.scale << field.width
    high = base + 1 if i["wide"] and base != RZ else RZ
    wrap = _LONG if i["wide"] else WORD

    def address(thread: Thread) -> int:
        values = thread.values
        place = (values[base] + (values[high] << 32) + offset) & wrap
        if place & size - 1:
            raise FaultError(WarpError.MISALIGNED_ADDR, f"{place:#x} is no multiple of the access's {size} bytes")
        return place
    return address


_SPACES: dict[str, tuple[_Read, _Write]] = {
    "LDG": (_read_global, _write_global), "LDL": (_read_local, _write_local), "LDS": (_read_shared, _write_shared),
    "LD": (_read_generic, _write_generic),
}


def _load(i: Instruction, address: Callable[[Thread], int], read: _Read) -> Operation:
    size = size_bytes(i["size"])
    places = i.destinations(size_registers(i["size"]))
    sign = MemorySize(i["size"]) in _SIGNED_SIZES
    first = places[0]

    def short(thread: Thread) -> None:
        value = read(thread, address(thread), size)
        thread.values[first] = signed(value, 8 * size) & WORD if sign else value

    def long(thread: Thread) -> None:
        value = read(thread, address(thread), size)
        for number, at in enumerate(places):
            thread.values[at] = value >> 32 * number & WORD
    return short if len(places) == 1 else long


@semantics("LDG", "LDL", "LDS", "LD")
def _load_memory(i: Instruction) -> Operation:
    return _load(i, _address(i, size_bytes(i["size"])), _SPACES[i.name][0])


@semantics("LDC")
def _load_constant(i: Instruction) -> Operation:
    bank, constant = i["bank"], i.program.indexed_constant
    return _load(i, _address(i, size_bytes(i["size"])), lambda _, address, size: constant(bank, address, size))


@semantics("STG", "STL", "STS", "ST")
def _store_memory(i: Instruction) -> Operation:
    size = size_bytes(i["size"])
    address, write = _address(i, size), _SPACES[i.name.replace("ST", "LD")][1]
    places = i.sources("b", size_registers(i["size"]))
    first = places[0]

    def short(thread: Thread) -> None:
        write(thread, address(thread), size, thread.values[first])

    def long(thread: Thread) -> None:
        write(thread, address(thread), size, _joined(thread, places))
    return short if len(places) == 1 else long


def _joined(thread: Thread, places: list[int]) -> int:
    """The number in several registers, lowest first."""
    return sum(thread.values[at] << 32 * number for number, at in enumerate(places))


def _updated(kind: AtomicOperation, old: int, operand: int, bits: int, is_signed: bool) -> int:
    """What an atomic leaves in memory; INC and DEC wrap around at the operand."""
    match kind:
        case AtomicOperation.ADD:
            return old + operand
        case AtomicOperation.MIN | AtomicOperation.MAX:
            order = (lambda value: signed(value, bits)) if is_signed else None
            return min(old, operand, key=order) if kind is AtomicOperation.MIN else max(old, operand, key=order)
        case AtomicOperation.INC:
            return 0 if old >= operand else old + 1
        case AtomicOperation.DEC:
            return operand if old == 0 or old > operand else old - 1
        case AtomicOperation.AND:
            return old & operand
        case AtomicOperation.OR:
            return old | operand
        case AtomicOperation.XOR:
            return old ^ operand
        case _:
            return operand


_GLOBAL_TYPES = {AtomicType.U32.value: (32, False), AtomicType.S32.value: (32, True),
                 AtomicType.U64.value: (64, False), AtomicType.S64.value: (64, True)}
_SHARED_TYPES = dict(enumerate(_GLOBAL_TYPES.values()))


@semantics("ATOM", "RED", "ATOMS")
def _atomic(i: Instruction) -> Operation:
    if i.form.variant:
        return _compare_and_swap(i)
    shared, kind = i.name == "ATOMS", AtomicOperation(i["operation"])
    bits, is_signed = (_SHARED_TYPES if shared else _GLOBAL_TYPES)[i["type"]]
    read, write = _SPACES["LDS" if shared else "LDG"]
    address = _address(i, bits // 8)
    operands = i.sources("b", bits // 32)
    results = i.destinations(bits // 32) if "d" in i.form.operands else []

    def operation(thread: Thread) -> None:
        place, operand = address(thread), _joined(thread, operands)
        old = read(thread, place, bits // 8)
        write(thread, place, bits // 8, _updated(kind, old, operand, bits, is_signed))
        for number, at in enumerate(results):
            thread.values[at] = old >> 32 * number & WORD
    return operation


def _swap_operand(i: Instruction, role: str, count: int) -> list[int]:
    """Registers of the value to compare with or to store, RZ where the form says so."""
    return [RZ] * count if isinstance(i.form.operands[role], Literal) else i.sources(role, count)


def _compare_and_swap(i: Instruction) -> Operation:
    """Stores c where memory holds b, and returns what it held."""
    operand = i.form.operands["d"]
    assert isinstance(operand, Register)
    count = operand.span(i.values) if callable(operand.span) else operand.span
    size = 4 * count
    shared = i.name == "ATOMS"
    read, write = _SPACES["LDS" if shared else "LDG"]
    address, results = _address(i, size), i.destinations(count)
    compare, swap = _swap_operand(i, "b", count), _swap_operand(i, "c", count)

    def operation(thread: Thread) -> None:
        place, new = address(thread), _joined(thread, swap)
        old = read(thread, place, size)
        if old == _joined(thread, compare):
            write(thread, place, size, new)
        for number, at in enumerate(results):
            thread.values[at] = old >> 32 * number & WORD
    return operation


@semantics("CCTL", "CCTLL", "MEMBAR")
def _order_or_hint(_: Instruction) -> Operation:
    """Nothing: memory is one, accessed in order, and has no caches."""
    return lambda _: None
