"""Loads, stores, atomics and constants.

LDG, STG, ATOM and RED access global memory. LD and ST take generic addresses: an address in one of
the two windows accesses shared or local memory. Their predicate operand carries the same
information and is ignored. With ``.E`` the address is a register pair, else one register,
zero-extended. A load narrower than a register is extended according to its type. An atomic
operation is one step.
"""

from collections.abc import Callable
from functools import partial

from rtl.isa.errors import WarpError
from rtl.isa.kinds import (
    AtomicOperation,
    AtomicType,
    CompareAndSwapType,
    MemorySize,
    size_bytes,
    size_registers,
)
from rtl.isa.syntax import RZ, Literal, Register
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES

from .decode import ThreadInstruction, semantics
from .integers import WORD, signed
from .single import sum_flushed
from .state import FaultError, Operation, Thread

__all__ = ["ATOMICS", "atomic_change"]

_LONG = (1 << 64) - 1
_SIGNED_SIZES = (MemorySize.S8, MemorySize.S16)


def _local(thread: Thread) -> bytearray:
    """Returns the thread's local memory, which is allocated on first use."""
    if not thread.local:
        thread.local = bytearray(thread.cta.launch.local)
    return thread.local


def _content(thread: Thread, space: str, address: int, size: int) -> bytearray:
    """Returns the shared or local memory that holds the accessed bytes; FaultError beyond its end."""
    content = thread.cta.shared if space == "shared" else _local(thread)
    if address + size > len(content):
        raise FaultError(
            WarpError.OOR_ADDR,
            f"{address:#x} is beyond the {len(content):#x} bytes of {space} memory",
        )
    return content


def _read(thread: Thread, place: tuple[str, int], size: int) -> int:
    space, address = place
    if space == "global":
        return thread.memory.read_number(address, size)
    return int.from_bytes(
        _content(thread, space, address, size)[address : address + size], "little"
    )


def _write(thread: Thread, place: tuple[str, int], size: int, value: int) -> None:
    space, address = place
    if space == "global":
        thread.memory.write_number(address, size, value)
    else:
        octets = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        _content(thread, space, address, size)[address : address + size] = octets


def _in_windows(address: int) -> tuple[str, int]:
    """Maps a generic address to a space and the address in it."""
    for space, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
        if 0 <= address - window < WINDOW_BYTES:
            return space, address - window
    return "global", address


def _address(i: ThreadInstruction, size: int) -> Callable[[Thread], int]:
    """Returns a function that computes the address of an access; FaultError if it is misaligned.

    Without a base register the offset is the address, and unsigned, as compiled code uses it.
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
            raise FaultError(
                WarpError.MISALIGNED_ADDR, f"{place:#x} is no multiple of the access's {size} bytes"
            )
        return place

    return address


_SPACES = {
    "LDG": "global",
    "STG": "global",
    "ATOM": "global",
    "RED": "global",
    "LDL": "local",
    "STL": "local",
    "LDS": "shared",
    "STS": "shared",
    "ATOMS": "shared",
}
"""The space of the instructions whose addresses are not generic."""


def _place(i: ThreadInstruction, size: int) -> Callable[[Thread], tuple[str, int]]:
    """Returns a function that computes the accessed space and the address in it."""
    address, space = _address(i, size), _SPACES.get(i.name)
    return lambda thread: (
        _in_windows(address(thread)) if space is None else (space, address(thread))
    )


def _joined(thread: Thread, places: list[int]) -> int:
    """Reads a number from several registers, the lowest word first."""
    return sum(thread.values[at] << 32 * number for number, at in enumerate(places))


def _spread(thread: Thread, places: list[int], value: int) -> None:
    """Writes a number to several registers, the lowest word first."""
    for number, at in enumerate(places):
        thread.values[at] = value >> 32 * number & WORD


def _loaded(i: ThreadInstruction, read: Callable[[Thread], int]) -> Operation:
    bits, places = 8 * size_bytes(i["size"]), i.destinations(size_registers(i["size"]))
    if MemorySize(i["size"]) in _SIGNED_SIZES:
        return lambda thread: _spread(thread, places, signed(read(thread), bits))
    return lambda thread: _spread(thread, places, read(thread))


@semantics("LDG", "LDL", "LDS", "LD")
def _load_memory(i: ThreadInstruction) -> Operation:
    size = size_bytes(i["size"])
    place = _place(i, size)
    return _loaded(i, lambda thread: _read(thread, place(thread), size))


@semantics("LDC")
def _load_constant(i: ThreadInstruction) -> Operation:
    bank, constant, size = i["bank"], i.program.indexed_constant, size_bytes(i["size"])
    address = _address(i, size)
    return _loaded(i, lambda thread: constant(bank, address(thread), size))


@semantics("STG", "STL", "STS", "ST")
def _store_memory(i: ThreadInstruction) -> Operation:
    size = size_bytes(i["size"])
    place, places = _place(i, size), i.sources("b", size_registers(i["size"]))
    return lambda thread: _write(thread, place(thread), size, _joined(thread, places))


_UPDATED: dict[AtomicOperation, Callable[[int, int], int]] = {
    AtomicOperation.ADD: lambda old, operand: old + operand,
    AtomicOperation.INC: lambda old, operand: 0 if old >= operand else old + 1,
    AtomicOperation.DEC: lambda old, operand: operand if old == 0 or old > operand else old - 1,
    AtomicOperation.AND: lambda old, operand: old & operand,
    AtomicOperation.OR: lambda old, operand: old | operand,
    AtomicOperation.XOR: lambda old, operand: old ^ operand,
    AtomicOperation.EXCH: lambda old, operand: operand,
}
"""The new value in memory, for operations other than MIN and MAX; INC and DEC wrap around at the
operand.
"""
ATOMICS = (*_UPDATED, AtomicOperation.MIN, AtomicOperation.MAX)
"""Operations of ATOM, RED and ATOMS."""


def atomic_change(kind: AtomicOperation, bits: int, is_signed: bool) -> Callable[[int, int], int]:
    """Returns the function that computes an atomic's new value from the old one and the operand.

    Only the lowest ``bits`` bits of its result are significant.
    """
    if kind not in (AtomicOperation.MIN, AtomicOperation.MAX):
        return _UPDATED[kind]
    choose, order = (
        min if kind is AtomicOperation.MIN else max,
        partial(signed, bits=bits) if is_signed else None,
    )
    return lambda old, operand: choose(old, operand, key=order)


_GLOBAL_TYPES = {
    AtomicType.U32.value: (32, False),
    AtomicType.S32.value: (32, True),
    AtomicType.U64.value: (64, False),
    AtomicType.S64.value: (64, True),
}
_SHARED_TYPES = dict(enumerate(_GLOBAL_TYPES.values()))
_TELLS = {
    CompareAndSwapType[name].value for name in ("CAST", "CAST_64", "CAST_SPIN", "CAST_SPIN_64")
}
"""Kinds of compare-and-swap that return 1 if they stored, else 0. They never fail spuriously."""


def _as_it_was(old: int, *_: int) -> int:
    """Returns the old value, which is the result of most atomics."""
    return old


@semantics("ATOM", "RED", "ATOMS")
def _atomic(i: ThreadInstruction) -> Operation:
    if i.form.variant:
        return _compare_and_swap(i)
    if i.name != "ATOMS" and i["type"] == AtomicType.F32.value:
        return _exchange(
            i, 4, i.destinations(1) if i.name == "ATOM" else [], sum_flushed, i.sources("b", 1)
        )
    bits, is_signed = (_SHARED_TYPES if i.name == "ATOMS" else _GLOBAL_TYPES)[i["type"]]
    results = i.destinations(bits // 32) if "d" in i.form.operands else []
    change = atomic_change(AtomicOperation(i["operation"]), bits, is_signed)
    return _exchange(i, bits // 8, results, change, i.sources("b", bits // 32))


def _swap_operand(i: ThreadInstruction, role: str, count: int) -> list[int]:
    """Returns the registers of the value to compare or to store, RZ where the form has none."""
    return [RZ] * count if isinstance(i.form.operands[role], Literal) else i.sources(role, count)


def _compare_and_swap(i: ThreadInstruction) -> Operation:
    """Stores c if memory equals b; returns the old value, or 1 or 0 for whether it stored."""
    operand = i.form.operands["d"]
    assert isinstance(operand, Register)
    count = operand.span(i.values) if callable(operand.span) else operand.span
    tells = i.name == "ATOMS" and i["compare_and_swap"] in _TELLS
    return _exchange(
        i,
        4 * count,
        i.destinations(count),
        lambda old, compare, new: new if old == compare else old,
        _swap_operand(i, "b", count),
        _swap_operand(i, "c", count),
        result_of=(lambda old, compare, _: int(old == compare)) if tells else _as_it_was,
    )


def _exchange(
    i: ThreadInstruction,
    size: int,
    results: list[int],
    change: Callable[..., int],
    *operands: list[int],
    result_of: Callable[..., int] = _as_it_was,
) -> Operation:
    """Replaces the value in memory with ``change`` of it and the operands, and writes ``result_of``
    the same arguments to the destination.
    """
    place_of = _place(i, size)

    def operation(thread: Thread) -> None:
        place = place_of(thread)
        old, given = _read(thread, place, size), [_joined(thread, places) for places in operands]
        _write(thread, place, size, change(old, *given))
        _spread(thread, results, result_of(old, *given))

    return operation


@semantics("CCTL", "CCTLL", "MEMBAR")
def _order_or_hint(_: ThreadInstruction) -> Operation:
    """Fences and cache hints have no effect: memory accesses are executed in order, without caches."""
    return lambda _: None
