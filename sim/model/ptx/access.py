"""Loads, stores and atomic operations.

An access to an unmapped address, or to one that is not a multiple of the access size, is a fault.
"""

from collections.abc import Callable, Mapping

from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from sim.launch.memory import MemoryFaultError
from sim.toolchain.ptx.module import (
    PtxAddress,
    PtxImmediate,
    PtxRegister,
    PtxSpace,
    PtxVariable,
    PtxVector,
    Sink,
    Type,
)

from .floats import added
from .numbers import number_of
from .site import Maker, Site
from .state import Operation, PtxFaultError, PtxThread

__all__ = ["ACCESS"]

Locate = Callable[[PtxThread, list[int]], int]
"""A function that computes an address from a thread and its frame's values."""


def _locate(site: Site, address: PtxAddress) -> Locate:
    """Returns a function that computes the operand's address within the instruction's space."""
    base, offset = address.base, address.offset
    launch = site.program.launch
    match base:
        case None:
            return lambda thread, values: offset
        case PtxRegister():
            place, mask = site.slots.register(base), (1 << base.type.bits) - 1
            return lambda thread, values: values[place] + offset & mask
        case PtxVariable(space=PtxSpace.LOCAL) if base in launch.local_offsets[0]:
            at = launch.local_offsets[0][base] + offset
            return lambda thread, values: at
        case PtxVariable(space=PtxSpace.LOCAL):
            at = site.locals[base] + offset
            return lambda thread, values: thread.frame.base + at
        case PtxVariable(space=PtxSpace.PARAM):
            return lambda thread, values: offset
        case PtxVariable():
            at = launch.addresses[base.name] + offset
            return lambda thread, values: at


class _AccessedMemory:
    """The operand in memory of an instruction that accesses ``size`` bytes."""

    def __init__(self, site: Site, address: PtxAddress, size: int, *, atomic: bool = False) -> None:
        self.atomic = atomic
        self.space = site.instruction.space
        self.locate = _locate(site, address)
        self.size = size
        self.constants = site.program.launch.constants
        self.block = site.program.launch.parameter_block
        self.parameter = (
            site.slots.parameter(address.base)
            if (self.space is PtxSpace.PARAM and isinstance(address.base, PtxVariable))
            else None
        )

    def _bytes(self, thread: PtxThread, space: PtxSpace) -> bytes | bytearray:
        match space:
            case PtxSpace.SHARED:
                return thread.cta.shared
            case PtxSpace.LOCAL:
                return thread.local
            case PtxSpace.PARAM:
                return (
                    self.block
                    if self.parameter is None
                    else thread.frame.parameters[self.parameter]
                )
            case _:
                return self.constants

    def _size(self, thread: PtxThread, space: PtxSpace) -> int:
        """Returns the size of a space in bytes; of local memory, what the thread's functions
        declare.
        """
        return thread.top if space is PtxSpace.LOCAL else len(self._bytes(thread, space))

    def _resolve(self, thread: PtxThread, values: list[int]) -> tuple[PtxSpace, int]:
        """Returns the accessed space and the address in it.

        Raises:
            PtxFaultError: The address is misaligned or outside the space, or the access is an
                atomic operation on local memory.
        """
        address = self.locate(thread, values)
        space = self.space
        if space is None:
            space = PtxSpace.GLOBAL
            for window, other in ((SHARED_WINDOW, PtxSpace.SHARED), (LOCAL_WINDOW, PtxSpace.LOCAL)):
                if window <= address < window + WINDOW_BYTES:
                    space, address = other, address - window
        if address % self.size:
            raise PtxFaultError(f"{address:#x} is no multiple of {self.size}")
        if self.atomic and space is PtxSpace.LOCAL:
            raise PtxFaultError("an atomic operation on local memory")
        if (
            space is not PtxSpace.GLOBAL
            and not 0 <= address <= self._size(thread, space) - self.size
        ):
            raise PtxFaultError(f"{space.value} space has no {self.size} bytes at {address:#x}")
        return space, address

    def is_global(self, thread: PtxThread, values: list[int]) -> bool:
        """Whether the access is to global memory."""
        return self._resolve(thread, values)[0] is PtxSpace.GLOBAL

    def read(self, thread: PtxThread, values: list[int]) -> bytes:
        """Reads the accessed bytes; raises PtxFaultError where nothing is mapped."""
        space, address = self._resolve(thread, values)
        try:
            if space is PtxSpace.GLOBAL:
                return thread.cta.launch.memory.read(address, self.size)
        except MemoryFaultError as fault:
            raise PtxFaultError(str(fault)) from None
        return bytes(self._bytes(thread, space)[address : address + self.size])

    def write(self, thread: PtxThread, values: list[int], content: bytes) -> None:
        """Writes the accessed bytes; raises PtxFaultError where nothing is mapped or the space is
        constant.
        """
        space, address = self._resolve(thread, values)
        try:
            if space is PtxSpace.GLOBAL:
                thread.cta.launch.memory.write(address, content)
                return
        except MemoryFaultError as fault:
            raise PtxFaultError(str(fault)) from None
        memory = self._bytes(thread, space)
        if not isinstance(memory, bytearray):
            raise PtxFaultError(f"{space.value} space can't be changed")
        memory[address : address + self.size] = content


def _elements(operand: object) -> tuple[object, ...]:
    return operand.elements if isinstance(operand, PtxVector) else (operand,)


def _load(site: Site) -> Operation:
    target, address = site.instruction.operands
    assert isinstance(address, PtxAddress)
    kind = site.instruction.type
    place = _AccessedMemory(site, address, kind.size * site.instruction.vector)
    # A wider register is sign-extended if the loaded type is signed, else zero-extended.
    results = [
        (site.slots.register(element), (1 << element.type.bits) - 1, number * kind.size)
        for number, element in enumerate(_elements(target))
        if isinstance(element, PtxRegister)
    ]

    def run(thread: PtxThread, values: list[int]) -> None:
        content = place.read(thread, values)
        for register, mask, at in results:
            values[register] = (
                number_of(int.from_bytes(content[at : at + kind.size], "little"), kind) & mask
            )

    return run


def _store(site: Site) -> Operation:
    address, source = site.instruction.operands
    assert isinstance(address, PtxAddress)
    kind = site.instruction.type
    place = _AccessedMemory(site, address, kind.size * site.instruction.vector)
    mask = (1 << kind.bits) - 1
    sources = [
        site.slots.of_operand(element)
        for element in _elements(source)
        if isinstance(element, PtxRegister | PtxImmediate | Sink)
    ]

    def run(thread: PtxThread, values: list[int]) -> None:
        place.write(
            thread,
            values,
            b"".join(
                (values[register] & mask).to_bytes(kind.size, "little") for register in sources
            ),
        )

    return run


# Atomic operations: the new value as a function of the old value and the operands.

_CHANGES: Mapping[str, Callable[..., int]] = {
    "add": lambda kind, old, b: old + b,
    "min": lambda kind, old, b: min(old, b, key=lambda value: number_of(value, kind)),
    "max": lambda kind, old, b: max(old, b, key=lambda value: number_of(value, kind)),
    "and": lambda kind, old, b: old & b,
    "or": lambda kind, old, b: old | b,
    "xor": lambda kind, old, b: old ^ b,
    "exch": lambda kind, old, b: b,
    "inc": lambda kind, old, b: 0 if old >= b else old + 1,
    "dec": lambda kind, old, b: b if old == 0 or old > b else old - 1,
    "cas": lambda kind, old, b, c: c if old == b else old,
}


def _atomic(site: Site) -> Operation:
    target, address, *sources = site.instruction.operands
    return _change(site, site.slots.of_operand(target), address, sources)


def _reduction(site: Site) -> Operation:
    address, *sources = site.instruction.operands
    return _change(site, site.slots.of_operand(Sink()), address, sources)


def _change(site: Site, d: int, address: object, sources: list) -> Operation:
    assert isinstance(address, PtxAddress)
    kind: Type = site.instruction.type
    place = _AccessedMemory(site, address, kind.size, atomic=True)
    change = _CHANGES[site.instruction.operation]
    places = [site.slots.of_operand(operand) for operand in sources]
    sums = kind.floating and site.instruction.operation == "add"

    def run(thread: PtxThread, values: list[int]) -> None:
        old = int.from_bytes(place.read(thread, values), "little")
        operands = [values[operand] for operand in places]
        # Atomic additions on global memory flush subnormal numbers, those on shared memory do not.
        new = (
            added(kind, old, *operands, flush=place.is_global(thread, values))
            if sums
            else change(kind, old, *operands)
        )
        new &= (1 << kind.bits) - 1
        place.write(thread, values, new.to_bytes(kind.size, "little"))
        values[d] = old

    return run


def _space_test(site: Site) -> Operation:
    """isspacep: tests whether a generic address lies in the given space."""
    p, a = site.operand_slots
    windows, queried_space = site.program.launch.windows, site.instruction.space

    def run(thread: PtxThread, values: list[int]) -> None:
        found = next(
            (space for space, window in windows.items() if values[a] in window), PtxSpace.GLOBAL
        )
        values[p] = int(found is queried_space)

    return run


ACCESS: Mapping[str, Maker] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _reduction,
    "isspacep": _space_test,
}
"""Makers of operations, by opcode."""
