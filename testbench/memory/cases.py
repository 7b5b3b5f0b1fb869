"""Accesses with known patterns: the number of their lines and of the cycles of bank conflicts;
faults; shuffles.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from rtl.isa.kinds import (
    AtomicOperation,
    AtomicType,
    CompareAndSwapType,
    MemorySize,
    ShuffleMode,
    size_bytes,
    size_registers,
)
from rtl.isa.syntax import RZ
from rtl.isa.tokens import LINE_BYTES
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES
from testbench.execute.singles import singles
from testbench.handmade import encode
from testbench.memory.world import (
    BANKS,
    BUFFER,
    BUFFER_BYTES,
    LOCAL_BYTES,
    MemoryStep,
    MemoryWorld,
    buffer_of,
)

ALL_REPORTED = 0x00FF_FFFF
_EVERYBODY = (1 << WARP_THREADS) - 1
_ADDRESS, _DATA, _RESULT = 0, 64, 128
_SIZES = (MemorySize.U8, MemorySize.S16, MemorySize.B32, MemorySize.B64, MemorySize.B128)


@dataclass(frozen=True)
class Pattern:
    """The address of each thread, in units of the access size."""

    name: str
    unit: Callable[[int], int]


PATTERNS = (
    Pattern("one after the other", lambda thread: thread),
    Pattern("backwards", lambda thread: 31 - thread),
    Pattern("every second", lambda thread: 2 * thread),
    Pattern("every eighth", lambda thread: 8 * thread),
    Pattern("every ninth", lambda thread: 9 * thread),
    Pattern("the same", lambda thread: 5),
    Pattern("two in turns", lambda thread: 40 * (thread & 1)),
    Pattern("shuffled", lambda thread: 37 * thread % 64),
)


@dataclass(frozen=True)
class Counted:
    """An instruction with its expected number of lines, or of cycles in shared memory."""

    what: str
    step: MemoryStep
    count: int


def lines_of(addresses: dict[int, int], size: int) -> int:
    """The number of lines that hold a byte of an access. ``addresses`` maps threads to addresses,
    ``size`` is in bytes.
    """
    return len(
        {
            byte // LINE_BYTES
            for address in addresses.values()
            for byte in range(address, address + size)
        }
    )


def conflicts(addresses: dict[int, int], size: int, lanes: int, *, loads: bool) -> int:
    """The number of cycles of an access in shared memory.

    It is the sum, over each half of a beat and each word of the access, of the most words accessed
    in one bank. In one pass ``loads`` access different words for as many groups of lanes as a
    thread has words. The upper half of a beat takes no cycle of its own if each of its threads has
    the address of the corresponding thread of the lower half.
    """
    cycles, words, half = 0, max(1, size // 4), max(2, lanes // 2)
    for first in range(0, WARP_THREADS, half):
        upper = first % lanes >= half
        threads = [thread for thread in range(first, first + half) if thread in addresses]
        if (
            upper
            and loads
            and all(addresses[thread] == addresses.get(thread - half) for thread in threads)
        ):
            continue
        for word in range(words):
            wanted = {
                addresses[thread] // 4
                + (word ^ (thread % lanes) * min(words, lanes) // lanes if loads else word)
                for thread in threads
            }
            banks = [number % lanes for number in wanted]
            cycles += max((banks.count(bank) for bank in banks), default=0)
    return cycles


def counted(world: MemoryWorld) -> list[Counted]:
    """Loads and stores of global and local memory with their expected number of lines."""
    cases = []
    for number, (pattern, size) in enumerate(
        (pattern, size) for pattern in PATTERNS for size in _SIZES
    ):
        count = size_bytes(size.value)
        threads = (_EVERYBODY, 0x0F0F_F00F, 1 << 31)[number % 3]
        addresses = {
            thread: BUFFER + pattern.unit(thread) * count for thread in range(WARP_THREADS)
        }
        slot = number % len(world.warps)
        register = _ADDRESS + 2 * (number // len(world.warps) % 32)
        world.set_pair(slot, register, addresses.values())
        chosen = {thread: address for thread, address in addresses.items() if threads >> thread & 1}
        for name, data in (("LDG", _RESULT), ("STG", _DATA)):
            word = encode(name, Ra=register, Rd=data, wide=1, size=size.value)
            cases.append(
                Counted(
                    f"{name}.{size.name}, {pattern.name}",
                    MemoryStep(slot, word, threads),
                    lines_of(chosen, count),
                )
            )
    for size in _SIZES:  # spilled registers: a line holds a word of half of the threads
        offset = 16
        for name, data in (("LDL", _RESULT), ("STL", _DATA)):
            word = encode(name, Ra=RZ, Rd=data, size=size.value, offset=offset)
            cases.append(
                Counted(f"{name}.{size.name}", MemoryStep(1, word), 2 * size_registers(size.value))
            )
        assert offset + size_bytes(size.value) <= LOCAL_BYTES
    return cases


def fills(world: MemoryWorld) -> Iterator[MemoryStep]:
    """Stores of all warps that compete for operands or for lines.

    In the first part each instruction has lines of its own, one for even and one for odd threads.
    They fill slowly, since neighbours in a line are 8 words apart. In the first beat only one half
    has threads of the second line, so that this line begins while the last words of the other one
    wait. In the second part each warp stores a few words twice in a row to one line, which are sent
    soon.
    """
    for slot in range(len(world.warps)):
        world.set_pair(
            slot,
            POINTER,
            [
                buffer_of(slot)
                + LINE_BYTES * (thread & 1)
                + 4 * (thread >> 2)
                + 32 * (thread >> 1 & 1)
                for thread in range(WARP_THREADS)
            ],
        )
        world.set_pair(slot, _FEW, [buffer_of(slot) + 4 * thread for thread in range(WARP_THREADS)])
    for number in range(_FILLS):
        for slot in range(len(world.warps)):
            yield MemoryStep(
                slot,
                encode(
                    "STG",
                    Ra=POINTER,
                    Rd=_DATA + number,
                    wide=1,
                    size=MemorySize.B32.value,
                    offset=2 * LINE_BYTES * number,
                ),
                _EVERYBODY & ~0xA0,
            )
    for number in range(_FILLS):
        for slot in range(len(world.warps)):
            for again in range(2):
                yield MemoryStep(
                    slot,
                    encode(
                        "STG",
                        Ra=_FEW,
                        Rd=_DATA + again,
                        wide=1,
                        size=MemorySize.B32.value,
                        offset=LINE_BYTES * number,
                    ),
                    0xF,
                )


def shared_counted(world: MemoryWorld, lanes: int) -> list[Counted]:
    """Accesses to shared memory with their expected number of cycles. Atomic operations take a
    cycle per thread.
    """
    cases = []
    for number, (pattern, size) in enumerate(
        (pattern, size) for pattern in PATTERNS for size in _SIZES
    ):
        count = size_bytes(size.value)
        limit = world.machine.launch.shared
        addresses = {thread: pattern.unit(thread) * count % limit for thread in range(WARP_THREADS)}
        slot = number % len(world.warps)
        register = _ADDRESS + number // len(world.warps)
        world.set_register(slot, register, addresses.values())
        threads = (_EVERYBODY, 0x0F0F_F00F, 1 << 31)[number % 3]
        chosen = {thread: address for thread, address in addresses.items() if threads >> thread & 1}
        cases += [
            Counted(
                f"{name}.{size.name}, {pattern.name}",
                MemoryStep(slot, word, threads),
                conflicts(chosen, count, lanes, loads=name == "LDS"),
            )
            for name, word in (
                ("STS", encode("STS", Ra=register, Rd=_DATA, size=size.value)),
                ("LDS", encode("LDS", Ra=register, Rd=_RESULT, uniform_size=size.value)),
            )
        ]
        if size is MemorySize.B32:
            add = encode(
                "ATOMS",
                "",
                Ra=register,
                Rb=_DATA,
                Rd=_RESULT,
                type=0,
                operation=AtomicOperation.ADD.value,
            )
            cases.append(
                Counted(f"ATOMS.ADD, {pattern.name}", MemoryStep(slot, add, threads), len(chosen))
            )
    return cases


POINTER = 0
"""The register pair with the address of a word of global memory for each thread, in ascending
order. The next register has an address of shared memory.
"""
_FEW = 4
_ROUNDS, _FILLS = 6, 8


def rates() -> Iterator[tuple[str, list[list[int]], float]]:
    """Independent instructions: name, the instructions of each round, and the maximum number of
    cycles per instruction on 8 lanes.
    """
    add = AtomicOperation.ADD.value
    for name, word, most in (
        ("LDG", encode("LDG", Ra=POINTER, Rd=_RESULT, wide=1, size=MemorySize.B32.value), 13),
        ("STG", encode("STG", Ra=POINTER, Rd=_DATA, wide=1, size=MemorySize.B32.value), 13),
        ("LDS", encode("LDS", Ra=POINTER + 2, Rd=_RESULT, uniform_size=MemorySize.B32.value), 12),
        ("STS", encode("STS", Ra=POINTER + 2, Rd=_DATA, size=MemorySize.B32.value), 12),
        (
            "SHFL",
            encode(
                "SHFL",
                "ii",
                Rd=_RESULT,
                Ra=_DATA,
                Pd=3,
                mode=ShuffleMode.BFLY.value,
                lane=9,
                clamp=31,
            ),
            12,
        ),
        (
            "ATOMS",
            encode("ATOMS", "", Ra=POINTER + 2, Rb=_DATA, Rd=_RESULT, type=0, operation=add),
            40,
        ),
        ("RED", encode("RED", "", Ra=POINTER, Rd=_DATA, wide=1, type=0, operation=add), 48),
        (
            "RED of floats",
            encode(
                "RED", "", Ra=POINTER, Rd=_DATA, wide=1, type=AtomicType.F32.value, operation=add
            ),
            175,
        ),
    ):
        yield name, [[word]] * _ROUNDS, most
        if name == "STG":
            yield f"{name} to a line twice in a row", [[word] * 2] * _ROUNDS, most


_PLACES: tuple[Callable[[int], int], ...] = (
    lambda thread: 0,
    lambda thread: thread,
    lambda thread: thread // 2,
    lambda thread: thread % 2,
    lambda thread: thread % 3,
    lambda thread: 17 * thread % 32,
)
"""The word that each thread's atomic operation accesses: one for all, one each, one for neighbours,
or words shared with one or two other threads in between.
"""
_FLOATS, _SWAPPED = 64, 24
"""The first register with operands, and the first one with addresses of compare and swap. There is
one of each per pattern of places.
"""


def float_sums(world: MemoryWorld, random: Random) -> Iterator[MemoryStep]:
    """Sums of floats, with and without result, beside sums of integers and in lines with other
    atomic operations.
    """
    for slot in range(len(world.warps)):
        for number, place in enumerate(_PLACES):
            world.set_pair(
                slot,
                _ADDRESS + 2 * number,
                [buffer_of(slot) + 4 * place(thread) for thread in range(WARP_THREADS)],
            )
            world.set_register(slot, _FLOATS + number, singles(random, WARP_THREADS)[0])
    fields = {"wide": 1, "operation": AtomicOperation.ADD.value, "type": AtomicType.F32.value}
    for number in range(4 * len(_PLACES)):
        for slot in range(len(world.warps)):
            threads = random.choice(
                [_EVERYBODY, _EVERYBODY, random.getrandbits(32), 1 << random.randrange(32)]
            )
            address, operand = (
                _ADDRESS + 2 * (number % len(_PLACES)),
                _FLOATS + random.randrange(len(_PLACES)),
            )
            kind = fields | {"offset": 64 * random.randrange(2)}
            words = (
                encode("ATOM", "", Ra=address, Rb=operand, Rd=_RESULT, **kind),
                encode("RED", "", Ra=address, Rd=operand, **kind),
                encode("RED", "", Ra=address, Rd=operand, **kind | {"type": 0}),
                encode("LDG", Ra=address, Rd=_RESULT, wide=1, size=MemorySize.B32.value),
            )
            yield MemoryStep(slot, random.choice(words[:2] * 3 + words), threads)


def swaps(world: MemoryWorld, random: Random, rounds: int) -> Iterator[MemoryStep]:
    """Every kind of compare and swap of shared memory, ``rounds`` times each, on numbers that are
    often equal.
    """
    registers = range(_FLOATS, _FLOATS + 16)
    for slot in range(len(world.warps)):
        for number, place in enumerate(_PLACES):
            world.set_register(
                slot, _SWAPPED + number, [8 * place(thread) for thread in range(WARP_THREADS)]
            )
        for register in registers:
            world.set_register(slot, register, random.choices((0, 1, 1 << 31), k=WARP_THREADS))
    for slot, register in itertools.product(range(len(world.warps)), registers[::2]):
        yield MemoryStep(
            slot, encode("STS", Ra=_SWAPPED + 1, Rd=register, size=MemorySize.B64.value)
        )
    for _ in range(rounds):
        for kind in CompareAndSwapType:
            yield MemoryStep(
                random.randrange(len(world.warps)),
                encode(
                    "ATOMS",
                    random.choice(("bb", "bb", "bz", "zb")),
                    Ra=_SWAPPED + random.randrange(len(_PLACES)),
                    Rb=random.choice(registers[::4]),
                    Rd=_RESULT,
                    compare_and_swap=kind.value,
                ),
                random.choice((_EVERYBODY, random.getrandbits(32))),
            )


def atomics(world: MemoryWorld, random: Random) -> Iterator[MemoryStep]:
    """Every atomic operation of shared memory, on numbers of every type; threads access few
    different words.
    """
    world.set_register(0, _SWAPPED, [8 * (thread % 3) for thread in range(WARP_THREADS)])
    for number in range(16):
        world.set_register(
            0,
            _FLOATS + number,
            random.choices((0, 1, 5, 0x7FFF_FFFF, 1 << 31, 0xFFFF_FFFF), k=WARP_THREADS),
        )
    for operation in AtomicOperation:
        for kind in range(4):
            if operation is not AtomicOperation.SAFEADD:
                yield MemoryStep(
                    0,
                    encode(
                        "ATOMS",
                        "",
                        Ra=_SWAPPED,
                        Rb=_FLOATS + 2 * random.randrange(8),
                        Rd=_RESULT,
                        type=kind,
                        operation=operation.value,
                    ),
                    0x8000_0F00,
                )


def edges(world: MemoryWorld) -> Iterator[MemoryStep]:
    """Loads of every size at both sides of the end of every space, of the windows and of constant
    banks.
    """
    for size in _SIZES:
        count = size_bytes(size.value)
        for name, field, end in (
            ("LDS", "uniform_size", world.machine.launch.shared),
            ("LDL", "size", LOCAL_BYTES),
        ):
            for address in (end - count, end - 1, end, end - end % 16, end + 16 - end % 16):
                yield MemoryStep(
                    0, encode(name, Ra=RZ, Rd=_RESULT, offset=address, **{field: size.value})
                )
        for window, inside in (
            (SHARED_WINDOW, world.machine.launch.shared),
            (LOCAL_WINDOW, LOCAL_BYTES),
        ):
            end = window + inside
            for address in (
                window - 16,
                window,
                end - count,
                end - inside % 16,
                end,
                window + WINDOW_BYTES,
            ):
                yield MemoryStep(
                    1, encode("LD", Ra=RZ, Rd=_RESULT, offset=address, size=size.value)
                )
        if size is not MemorySize.B128:
            for bank, length in BANKS.items():
                end = length + -length % 4
                for address in (end - count, end - 1, end):
                    yield MemoryStep(
                        2,
                        encode(
                            "LDC", Ra=RZ, Rd=_RESULT, bank=bank, offset=address, size=size.value
                        ),
                    )
            yield MemoryStep(2, encode("LDC", Ra=RZ, Rd=_RESULT, bank=7, offset=0, size=size.value))
            yield MemoryStep(
                2, encode("LDC", Ra=RZ, Rd=_RESULT, bank=20, offset=0, size=size.value)
            )


def faults(world: MemoryWorld) -> Iterator[MemoryStep]:
    """Instructions of which one thread's address is not mapped, before or after an access of
    another thread.
    """
    gone = BUFFER + BUFFER_BYTES
    odd = BUFFER + 2
    for number, wrong in enumerate(
        ({3: gone}, {0: gone}, {31: gone}, {2: gone, 5: odd}, {2: odd, 5: gone})
    ):
        register = _ADDRESS + 2 * number
        world.set_pair(
            0,
            register,
            [
                wrong.get(thread, BUFFER + 1024 * number + 16 * thread)
                for thread in range(WARP_THREADS)
            ],
        )
        for word in (
            encode("LDG", Ra=register, Rd=_RESULT, wide=1, size=MemorySize.B32.value),
            encode("STG", Ra=register, Rd=_DATA, wide=1, size=MemorySize.B32.value),
            encode(
                "ATOM",
                "",
                Ra=register,
                Rb=_DATA,
                Rd=_RESULT,
                wide=1,
                type=0,
                operation=AtomicOperation.ADD.value,
            ),
        ):
            yield MemoryStep(0, word)


SHUFFLES = ((1, 0x1F), (1, 0), (3, 0x181F), (16, 0x100F), (31, 0x1F), (0, 0x1F), (5, 0x1C03))
"""Operands b and c of shuffles."""


@dataclass(frozen=True)
class Shuffled:
    """A shuffle with the expected value of each thread, and the mask of the expected predicate."""

    step: MemoryStep
    values: dict[int, int]
    inside: int


def shuffled(
    mode: ShuffleMode, values: Sequence[int], b: int, c: int, threads: int
) -> tuple[dict[int, int], int]:
    """The expected values and predicates of ``threads`` that offer ``values``, from the PTX manual.

    A thread that reads from one that does not execute the shuffle gets 0.
    """
    segment, clamp = c >> 8 & 31, c & 31
    results, inside = {}, 0
    for lane in (lane for lane in range(WARP_THREADS) if threads >> lane & 1):
        lowest = lane & segment
        last = lowest | clamp & ~segment
        source = {
            ShuffleMode.IDX: lowest | b & 31 & ~segment,
            ShuffleMode.UP: lane - (b & 31),
            ShuffleMode.DOWN: lane + (b & 31),
            ShuffleMode.BFLY: lane ^ b & 31,
        }[mode]
        found = source >= last if mode is ShuffleMode.UP else source <= last
        source = source if found else lane
        results[lane] = values[source] if threads >> source & 1 else 0
        inside |= found << lane
    return results, inside


def shuffles(world: MemoryWorld) -> Iterator[Shuffled]:
    """Every mode, with immediate and register operands, by all threads and by some."""
    at_step, at_clamp = _ADDRESS, _ADDRESS + 1
    for number, (b, c) in enumerate(SHUFFLES):
        slot = number % len(world.warps)
        world.set_register(slot, at_step + 2 * number, [b] * WARP_THREADS)
        world.set_register(slot, at_clamp + 2 * number, [c] * WARP_THREADS)
        values = world.warps[slot].registers[_DATA].tolist()
        for mode in ShuffleMode:
            for threads in (_EVERYBODY, 0x7FFF_FFFF, 0x0F0F_F00F, 1 << 31):
                for word in (
                    encode(
                        "SHFL", "ii", Rd=_RESULT, Ra=_DATA, Pd=3, mode=mode.value, lane=b, clamp=c
                    ),
                    encode(
                        "SHFL",
                        "rr",
                        Rd=_RESULT,
                        Ra=_DATA,
                        Pd=3,
                        mode=mode.value,
                        Rb=at_step + 2 * number,
                        Rc=at_clamp + 2 * number,
                    ),
                ):
                    yield Shuffled(
                        MemoryStep(slot, word, threads), *shuffled(mode, values, b, c, threads)
                    )
