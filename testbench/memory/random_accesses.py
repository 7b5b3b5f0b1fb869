"""Random instructions of the memory unit. Their registers make most addresses valid and some
not.
"""

from collections.abc import Callable
from random import Random

from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error
from rtl.isa.syntax import PT, RZ, Form
from rtl.memory import MEMORY_FORMS
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES
from testbench.memory.world import (
    BUFFER_BYTES,
    LOCAL_BYTES,
    REGISTERS,
    SHARED_BYTES,
    WARPS,
    MemoryStep,
    MemoryWorld,
    buffer_of,
)

_POINTERS = range(0, 64, 2)
"""Register pairs with addresses; no instruction writes them."""
_SOURCES = range(64, 96)
"""Registers with data; no instruction writes them."""
_SHORT = range(96, 112)
"""Registers with small numbers; no instruction writes them."""
_RESULTS = range(128, 160)
_EVERYBODY = (1 << WARP_THREADS) - 1
_FLOATS = (
    0x3F80_0000,
    0xBF80_0001,
    0x3380_0000,
    0x0080_0000,
    0x8080_0001,
    0x7F7F_FFFF,
    0x7F80_0000,
    0xFF80_0000,
)
"""1 and nearly -1, half of its last bit, numbers whose difference is subnormal, the largest number,
infinities.
"""

_WEIGHTS = {
    "LDG": 8,
    "STG": 8,
    "LDL": 5,
    "STL": 5,
    "LDS": 7,
    "STS": 7,
    "LDC": 8,
    "LD": 8,
    "ST": 8,
    "ATOM": 12,
    "ATOMS": 10,
    "RED": 6,
    "SHFL": 10,
    "MEMBAR": 1,
    "CCTL": 1,
    "CCTLL": 1,
}
"""The relative frequency of each instruction."""


def _spread(random: Random) -> Callable[[int], int]:
    """The random distance of each thread's address from the first one's."""
    step = random.choice([0, 0, 1, 2, 4, 4, 4, 8, 8, 16, 16, 32, 64, 128, 132, -4, -16])
    scattered = [
        random.randrange(0, 2048, random.choice([4, 8, 16, 16])) for _ in range(WARP_THREADS)
    ]
    few = random.sample(range(0, 512, 16), 3)
    chosen = [random.choice(few) for _ in range(WARP_THREADS)]
    return random.choice(
        [
            lambda thread: step * thread,
            lambda thread: step * thread,
            lambda thread: scattered[thread],
            lambda thread: chosen[thread],
        ]
    )


def _pointers(random: Random, slot: int, number: int) -> list[int]:
    """An address for each thread of a warp. The kinds alternate: buffer, small, shared window,
    local window, mixed.
    """
    spread = _spread(random)
    kind, buffer = number % 6, buffer_of(slot)
    start = {0: buffer, 1: 0, 2: SHARED_WINDOW, 3: LOCAL_WINDOW, 4: buffer, 5: 0}[kind]
    size = {
        0: BUFFER_BYTES,
        1: SHARED_BYTES,
        2: SHARED_BYTES,
        3: LOCAL_BYTES,
        4: BUFFER_BYTES,
        5: LOCAL_BYTES,
    }[kind]
    first = random.randrange(0, size, 16)
    addresses = [start + (first + spread(thread)) % size for thread in range(WARP_THREADS)]
    if kind == 4:
        starts = (
            (buffer, BUFFER_BYTES),
            (SHARED_WINDOW, SHARED_BYTES),
            (LOCAL_WINDOW, LOCAL_BYTES),
        )
        for thread in range(WARP_THREADS):
            base, length = random.choice(starts)
            addresses[thread] = base + random.randrange(0, length, 16)
    if random.random() < 0.15:
        wrong = [
            random.randrange(1 << 40, 1 << 64, 16),
            16,
            SHARED_WINDOW + SHARED_BYTES,
            LOCAL_WINDOW + LOCAL_BYTES,
            LOCAL_WINDOW + WINDOW_BYTES,
            addresses[0] + random.randrange(16),
            buffer + BUFFER_BYTES,
        ]
        for _ in range(random.randint(1, 3)):
            addresses[random.randrange(WARP_THREADS)] = random.choice(wrong)
    return addresses


def _fitting(random: Random, form: Form) -> int:
    """The pointer register for an instruction, mostly one with a suitable address."""
    kinds = {
        "LD": (0, 2, 3, 4),
        "ST": (0, 2, 3, 4),
        "LDC": (1, 5),
        "ATOMS": (1,),
        "LDS": (1,),
        "STS": (1,),
        "LDL": (5,),
        "STL": (5,),
    }
    fits = kinds.get(form.name, (0,))
    good = [register for register in _POINTERS if register // 2 % 6 in fits]
    return random.choice(good if random.random() < 0.95 else [*_POINTERS, RZ])


def random_word(random: Random, slot: int, form: Form, floats: bool = True) -> int | None:
    """A random word of a form for a warp; None if the word is not legal on a machine with or
    without ``floats``.
    """
    word = form.default | form.match
    for name, field in form.fields.items():
        if field.mask & form.mask:
            continue
        texts = next(
            (modifier.texts for modifier in form.modifiers if modifier.field == name), None
        )
        value = random.choice(list(texts) if texts is not None else field.bounds)
        if name in ("offset", "imm"):
            value = random.choice([0, 0, 0, 16, -16, 32, 64, value if random.random() < 0.2 else 0])
        elif name == "bank":
            value = random.choice([0, 3, 3, 4, 4, value])
        elif name == "Ra":
            value = (
                _fitting(random, form)
                if form.name != "SHFL"
                else random.choice([*_SOURCES, *_POINTERS, RZ])
            )
        elif name in ("Rb", "Rc"):
            value = random.choice(
                [*_SOURCES, *_SHORT, RZ] if form.name != "SHFL" else [*_SHORT, *_SHORT, RZ]
            )
        elif name == "Rd":
            value = random.choice([*(_RESULTS if "d" in form.operands else _SOURCES), RZ])
        elif name == "guard":
            value = PT
        elif name == "guard_not":
            value = 0
        if value not in field.bounds:
            value = 0
        word = field.put(word, value)
    if "address" in form.operands or form.name == "LDC":
        word = _absolute(random, slot, form, word)
    return word if encoding_error(word, REGISTERS, floats) is WarpError.NONE else None


def _absolute(random: Random, slot: int, form: Form, word: int) -> int:
    """Sets the offset of a word without an address register to an absolute address, mostly a mapped
    one.
    """
    if form.values(word)["Ra"] != RZ or random.random() < 0.2:
        return word
    field = form.fields["offset"]
    base = buffer_of(slot) if form.name not in ("LDS", "STS", "LDL", "STL", "ATOMS", "LDC") else 0
    value = base + random.randrange(0, 128, 16)
    limit = field.scale << field.width - 1
    return field.put(
        word, value if value < limit else value - 2 * limit if value < 2 * limit else 0
    )


def random_world(random: Random, count: int, report_mask: int, floats: bool = True) -> MemoryWorld:
    """A world that has executed ``count`` instructions, for a machine with or without
    ``floats``.
    """
    world = MemoryWorld(report_mask, seed=random.getrandbits(32))
    for slot in range(WARPS):
        for register in _POINTERS:
            world.set_pair(slot, register, _pointers(random, slot, register // 2))
        for register in _SHORT:
            numbers = [0, 1, 2, 16, 31, 0x181F, 0x1C03, random.getrandbits(13)]
            world.set_register(slot, register, random.choices(numbers, k=WARP_THREADS))
        for register in random.sample(_SOURCES, 12):
            numbers = [0, 1, 2, 5, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, *_FLOATS]
            world.set_register(slot, register, random.choices(numbers, k=WARP_THREADS))
    while len(world.steps) < count:
        (name,) = random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        form = random.choice([form for form in MEMORY_FORMS if form.name == name])
        slot, word = random.randrange(WARPS), None
        while word is None:
            word = random_word(random, slot, form, floats)
        threads = random.choice(
            [_EVERYBODY] * 5
            + [random.getrandbits(32), random.getrandbits(32), 1 << random.randrange(32), 0]
        )
        step = MemoryStep(slot, word, threads, random.randrange(8), random.randrange(8))
        world.execute(step)
        if step.fault is WarpError.MMU_FAULT and not _precise(form, step):
            world.steps.pop()
    world.read_shared()
    return world


def _precise(form: Form, step: MemoryStep) -> bool:
    """Whether an instruction has no effect if memory reports a fault: it only reads, or detects the
    fault before.
    """
    assert step.failing is not None
    return form.name.startswith("LD") or step.failing >= 1 << 40
