"""Loads, stores and atomic operations."""

import operator
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation, AtomicType, CompareAndSwapType, MemorySize, size_bytes
from rtl.isa.syntax import RZ, Address, Constant, Form, Literal, Values

from .action import Action, Core, Maker, constant_address
from .faults import WarpFaultError
from .retirement import MemoryWrite, Retirement
from .spaces import Access, Accesses, PlacedAccess, place_access, place_generic
from .state import Warp
from .vector.lanes import ALL_THREADS, pair, threads_of
from .vector.single import float_sum

__all__ = ["TESTING_SWAPS", "TRANSFERS", "WIDE_SWAPS", "thread_addresses"]

_SIGNED_SIZES = {MemorySize.S8.value: np.int8, MemorySize.S16.value: np.int16}
_WORD = 4

_PlaceOf = Callable[[Core, Warp, Access], Accesses]


_SPACES = {
    "LDG": "global",
    "STG": "global",
    "LDL": "local",
    "STL": "local",
    "LDS": "shared",
    "STS": "shared",
    "ATOMS": "shared",
}


def _place_of(form: Form) -> _PlaceOf:
    """Returns the function that resolves an instruction's addresses."""
    space = _SPACES.get(form.name)
    windows = form.name in ("LD", "ST")  # An atomic operation through a window is an error.

    def resolved(core: Core, warp: Warp, access: Access) -> Accesses:
        if space is not None:
            parts = place_access(space, core.memory, warp, access)
        else:
            parts = place_generic(core.memory, warp, access, windows=windows)
        if core.bounds is not None:
            core.bounds.note(warp, parts)
        return parts

    return resolved


def thread_addresses(form: Form, values: Values) -> Callable[[Warp], NDArray[np.uint64]]:
    """Returns the function that computes every thread's address: a register or register pair plus a
    signed offset, modulo its width.

    Without a register the offset is the address and unsigned, as NVIDIA's assembler uses it.
    """
    operand = form.operands["address"]
    assert isinstance(operand, Address)
    number, offset = values[operand.register], values[operand.offset]
    wide = operand.wide is not None and values[operand.wide]
    modulus = 1 << (64 if wide else 32)
    if number == RZ:
        field = form.fields[operand.offset]
        fixed = np.full(32, offset % (field.scale << field.width), np.uint64)
        return lambda warp: fixed
    addend, mask = np.uint64(offset % modulus), np.uint64(modulus - 1)
    if wide:
        return lambda warp: pair(warp.rows[number], warp.rows[number + 1]) + addend
    return lambda warp: (warp.rows[number] + addend) & mask


def _access(
    warp: Warp, addresses: Callable[[Warp], NDArray[np.uint64]], threads: int, size: int
) -> Access:
    chosen, every = threads_of(threads), addresses(warp)
    return Access(chosen, every if threads == ALL_THREADS else every[chosen], size)


def _to_words(content: NDArray[np.uint8], size: int) -> NDArray[np.uint32]:
    """Converts loaded bytes to registers, one row for each thread; narrow values are extended."""
    count = size_bytes(size)
    if count >= _WORD:
        return content.view("<u4")
    if size in _SIGNED_SIZES:
        return content.view(_SIGNED_SIZES[size]).astype(np.int32).view(np.uint32)
    return content.view(f"<u{count}").astype(np.uint32)


def _from_registers(
    warp: Warp, number: int, threads: NDArray[np.intp], size: int
) -> NDArray[np.uint8]:
    """Returns the bytes that the threads store, from as many registers as needed; RZ stores zeros."""
    rows = [
        warp.rows[RZ if number == RZ else number + index] for index in range(max(1, size // _WORD))
    ]
    whole = np.stack([row[threads] for row in rows], axis=1)
    return np.ascontiguousarray(whole).view(np.uint8)[:, :size]


def _write_words(
    warp: Warp, record: Retirement, number: int, threads: int, found: NDArray[np.uint32]
) -> None:
    """Writes loaded words to the registers from ``number`` on."""
    if number == RZ:
        return
    chosen = threads_of(threads)
    for index in range(found.shape[1]):
        if threads == ALL_THREADS:
            row = found[:, index]
        else:
            row = warp.rows[number + index].copy()
            row[chosen] = found[:, index]
        warp.write_register(record, number + index, row, threads)


def _note(record: Retirement, placed: PlacedAccess, content: NDArray[np.uint8]) -> None:
    """Records the written bytes."""
    access = placed.access
    record.memory += tuple(
        MemoryWrite(thread, placed.space, address, octets.tobytes())
        for thread, address, octets in zip(
            access.threads.tolist(), access.addresses.tolist(), content, strict=True
        )
    )


def _rows_of(whole: Access, part: PlacedAccess) -> NDArray[np.intp] | slice:
    """Returns the rows of a part's threads among those of the whole access."""
    if part.access is whole:
        return slice(None)
    return np.searchsorted(whole.threads, part.access.threads)


def _load(form: Form, values: Values) -> Action:
    """LDG, LDL, LDS and LD. The predicate operand of LD is a hint, which the model ignores (ours)."""
    addresses, place_of = thread_addresses(form, values), _place_of(form)
    kind, number = values["size"], values["Rd"]
    size = size_bytes(kind)

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads:
            return
        access = _access(warp, addresses, threads, size)
        parts = place_of(core, warp, access)
        if len(parts) == 1:
            content = parts[0].load()
        else:
            content = np.empty((len(access.threads), size), np.uint8)
            for part in parts:
                content[_rows_of(access, part)] = part.load()
        _write_words(warp, record, number, threads, _to_words(content, kind))

    return run


def _store(form: Form, values: Values) -> Action:
    """STG, STL, STS and ST. The predicate operand of ST is ignored, as that of LD."""
    addresses, place_of = thread_addresses(form, values), _place_of(form)
    size, number = size_bytes(values["size"]), values["Rd"]

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads:
            return
        access = _access(warp, addresses, threads, size)
        content = _from_registers(warp, number, access.threads, size)
        for part in place_of(core, warp, access):
            octets = content[_rows_of(access, part)]
            part.store(octets)
            _note(record, part, octets)

    return run


def _load_constant(form: Form, values: Values) -> Action:
    """LDC from c[bank][register + offset]. MISALIGNED_ADDR for a misaligned address,
    INVALID_CONST_ADDR_LDC beyond the end.
    """
    operand = form.operands["a"]
    assert isinstance(operand, Constant)
    kind, bank = values["size"], values[operand.bank]
    size = size_bytes(kind)

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads:
            return
        octets = bytearray()
        for index in warp.rows[values["Ra"]][threads_of(threads)].tolist():
            address = constant_address(values, operand, index)
            if address % size:
                raise WarpFaultError(WarpError.MISALIGNED_ADDR)
            octets += core.constant(bank, address, size, WarpError.INVALID_CONST_ADDR_LDC).to_bytes(
                size, "little"
            )
        _write_words(
            warp,
            record,
            values["Rd"],
            threads,
            _to_words(np.frombuffer(octets, np.uint8).reshape(-1, size), kind),
        )

    return run


_MODIFIED: Mapping[AtomicOperation, Callable[[int, int], int]] = {
    AtomicOperation.ADD: operator.add,
    AtomicOperation.AND: operator.and_,
    AtomicOperation.OR: operator.or_,
    AtomicOperation.XOR: operator.xor,
    AtomicOperation.EXCH: lambda old, operand: operand,
    AtomicOperation.INC: lambda old, operand: 0 if old >= operand else old + 1,
    AtomicOperation.DEC: lambda old, operand: operand if old == 0 or old > operand else old - 1,
}
"""The new value in memory for most atomic operations, before it is cut to its width."""


def _modified(kind: AtomicOperation, old: int, operand: int, bits: int, signed: bool) -> int:
    """Returns the new value in memory. All numbers are unsigned patterns of ``bits`` bits."""
    if kind in (AtomicOperation.MIN, AtomicOperation.MAX):
        flip = 1 << bits - 1 if signed else 0
        return (min if kind is AtomicOperation.MIN else max)(
            old, operand, key=lambda pattern: pattern ^ flip
        )
    return _MODIFIED[kind](old, operand) % (1 << bits)


_SHARED_TYPES = (AtomicType.U32, AtomicType.S32, AtomicType.U64, AtomicType.S64)
_SIGNED_TYPES = (AtomicType.S32, AtomicType.S64)
_BYTES_OF_TYPE = {
    AtomicType.U32: 4,
    AtomicType.S32: 4,
    AtomicType.F32: 4,
    AtomicType.U64: 8,
    AtomicType.S64: 8,
}

WIDE_SWAPS = (
    CompareAndSwapType.CAST_64,
    CompareAndSwapType.CAST_SPIN_64,
    CompareAndSwapType.CAS_64,
)
TESTING_SWAPS = (
    CompareAndSwapType.CAST,
    CompareAndSwapType.CAST_64,
    CompareAndSwapType.CAST_SPIN,
    CompareAndSwapType.CAST_SPIN_64,
)

_Change = Callable[[int, tuple[int, ...]], int]
"""Computes the new value, or the result, from the old value and a thread's operands."""


def _operands(
    warp: Warp, numbers: tuple[int, ...], size: int, threads: NDArray[np.intp]
) -> list[tuple[int, ...]]:
    """Returns every thread's operands as numbers of ``size`` bytes, each from the registers from
    its number on.
    """
    columns = [
        [
            int.from_bytes(row.tobytes(), "little")
            for row in _from_registers(warp, number, threads, size)
        ]
        for number in numbers
    ]
    return list(zip(*columns, strict=True))


def _atomic_action(
    form: Form,
    values: Values,
    size: int,
    sources: tuple[int, ...],
    result: int,
    change: _Change,
    found: _Change | None = None,
) -> Action:
    """Reads, changes and writes memory, thread by thread in ascending order (ours).

    The old value, or ``found`` of it, is written to the registers from ``result`` on.
    """
    addresses, place_of = thread_addresses(form, values), _place_of(form)

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads:
            return
        access = _access(warp, addresses, threads, size)
        operands = _operands(warp, sources, size, access.threads)
        results = bytearray()
        for part in place_of(core, warp, access):
            for row in range(len(part.access.threads)):
                single = part.single(row)
                old = int.from_bytes(single.load().tobytes(), "little")
                new = change(old, operands[row]).to_bytes(size, "little")
                content = np.frombuffer(new, np.uint8).reshape(1, size)
                single.store(content)
                _note(record, single, content)
                results += (old if found is None else found(old, operands[row])).to_bytes(
                    size, "little"
                )
        _write_words(
            warp, record, result, threads, np.frombuffer(results, "<u4").reshape(-1, size // _WORD)
        )

    return run


def _atomic(form: Form, values: Values, result: str | None, shared: bool = False) -> Action:
    """ATOM, ATOMS and RED on 32-bit and 64-bit integers; float sums are those of FADD.FTZ."""
    if "c" in form.operands:
        return _compare_and_swap(form, values, shared)
    kind = _SHARED_TYPES[values["type"]] if shared else AtomicType(values["type"])
    operation = AtomicOperation(values["operation"])
    size, signed = _BYTES_OF_TYPE[kind], kind in _SIGNED_TYPES
    operand = values["Rd" if result is None else "Rb"]

    def change(old: int, operands: tuple[int, ...]) -> int:
        if kind is AtomicType.F32:
            return float_sum(old, operands[0])
        return _modified(operation, old, operands[0], 8 * size, signed)

    return _atomic_action(
        form, values, size, (operand,), RZ if result is None else values[result], change
    )


def _compare_and_swap(form: Form, values: Values, shared: bool) -> Action:
    """ATOM.CAS and ATOMS.CAS: the second operand replaces a value equal to the first.

    ATOMS.CAST returns 1 or 0 for whether it stored, instead of the old value.
    """
    kind = CompareAndSwapType(values["compare_and_swap"]) if shared else None
    size = 8 if (kind in WIDE_SWAPS if shared else values["wide_data"]) else 4
    first = values["Rb"]
    second = RZ if first == RZ else first + size // _WORD
    compare, swap = form.operands["b"], form.operands["c"]
    sources = (
        RZ if isinstance(compare, Literal) else first,
        RZ if isinstance(swap, Literal) else first if isinstance(compare, Literal) else second,
    )
    return _atomic_action(
        form,
        values,
        size,
        sources,
        values["Rd"],
        lambda old, operands: operands[1] if old == operands[0] else old,
        (lambda old, operands: int(old == operands[0])) if kind in TESTING_SWAPS else None,
    )


TRANSFERS: Mapping[str, Maker] = {
    **dict.fromkeys(("LDG", "LDL", "LDS", "LD"), _load),
    **dict.fromkeys(("STG", "STL", "STS", "ST"), _store),
    "LDC": _load_constant,
    "ATOM": partial(_atomic, result="Rd"),
    "ATOMS": partial(_atomic, result="Rd", shared=True),
    "RED": partial(_atomic, result=None),
}
"""Makers of loads, stores and atomic operations."""
