"""Reads and writes of the thread model: memory of every space, atomics, constants, special
registers.
"""

from functools import partial
from random import Random

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation, AtomicType, CompareAndSwapType, FloatRounding, MemorySize
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import RZ
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, Buffer, Launch
from sim.model.thread.access import ATOMICS
from sim.model.thread.run import run, step
from sim.model.thread.state import FaultError
from testbench import words
from testbench.execute.singles import singles
from testbench.model import test_single
from testbench.words import FINISH, START, contents, encode, launch, move

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
results = partial(words.results, run)
BYTES = bytes(range(0x80, 0x90))


def pointed_at(content: bytes) -> tuple[Launch, int, dict[int, int]]:
    """Returns a launch with these bytes in global memory, their address, and R2 and R3 with this
    address.
    """
    made = launch([encode("EXIT")], [Buffer("o", content)])
    base, _ = made.buffers["o"]
    return made, base, {2: base & WORD, 3: base >> 32}


def loaded(name: str, size: MemorySize, place: int, **fields: int) -> tuple[int, ...]:
    """Returns R4 to R7 after a load from this offset of BYTES in global memory."""
    made, _, pointer = pointed_at(BYTES)
    content = encode(name, Rd=4, Ra=2, wide=1, size=size.value, offset=place, **fields)
    return step(content, pointer, launch=made).registers[4:8]


@pytest.mark.parametrize(
    ("size", "place", "expected"),
    [
        (MemorySize.U8, 3, (0x83, 0, 0, 0)),
        (MemorySize.S8, 3, (0xFFFFFF83, 0, 0, 0)),
        (MemorySize.U16, 6, (0x8786, 0, 0, 0)),
        (MemorySize.S16, 6, (0xFFFF8786, 0, 0, 0)),
        (MemorySize.B32, 4, (0x87868584, 0, 0, 0)),
        (MemorySize.B64, 8, (0x8B8A8988, 0x8F8E8D8C, 0, 0)),
        (MemorySize.B128, 0, (0x83828180, 0x87868584, 0x8B8A8988, 0x8F8E8D8C)),
        (MemorySize.U128, 0, (0x83828180, 0x87868584, 0x8B8A8988, 0x8F8E8D8C)),
    ],
)
@pytest.mark.parametrize("name", ["LDG", "LD"])
def test_loads_of_every_size(name, size, place, expected):
    assert loaded(name, size, place) == expected


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (MemorySize.U8, 1),
        (MemorySize.U16, 2),
        (MemorySize.B32, 4),
        (MemorySize.B64, 8),
        (MemorySize.B128, 16),
    ],
)
@pytest.mark.parametrize("name", ["STG", "ST"])
def test_stores_of_every_size(name, size, count):
    made, base, pointer = pointed_at(BYTES)
    values = {4: 0x03020100, 5: 0x07060504, 6: 0x0B0A0908, 7: 0x0F0E0D0C}
    step(encode(name, Rd=4, Ra=2, wide=1, size=size.value), pointer | values, launch=made)
    assert made.memory.read(base, 16) == bytes(range(count)) + BYTES[count:]


def test_the_zero_register_stores_zeros_of_any_size():
    made, base, pointer = pointed_at(BYTES)
    step(encode("STG", Rd=RZ, Ra=2, wide=1, size=MemorySize.B64.value), pointer, launch=made)
    assert made.memory.read(base, 16) == bytes(8) + BYTES[8:]


@pytest.mark.parametrize(
    ("store", "load", "fields"),
    [
        ("STS", "LDS", {"uniform_size": MemorySize.B64.value}),
        ("STL", "LDL", {"size": MemorySize.B64.value}),
    ],
)
def test_shared_and_local_memory_keep_what_is_stored(store, load, fields):
    body = [
        move(6, 0x11),
        move(7, 0x22),
        encode(store, Rd=6, Ra=RZ, offset=24, size=MemorySize.B64.value),
        encode(load, Rd=4, Ra=RZ, offset=24, **fields),
        encode("ISCADD", "r", Rd=0, Ra=5, Rb=4, shift=8),
    ]
    assert results(body, shared=64) == [0x2211]


def test_local_memory_is_a_threads_own_and_shared_memory_its_ctas():
    body = [
        encode("STL", Rd=1, Ra=RZ, size=4),
        encode("STS", Rd=1, Ra=RZ, size=4),
        encode("BAR", "ii", mode=0),
        encode("LDL", Rd=4, Ra=RZ, size=4),
        encode("LDS", Rd=5, Ra=RZ, uniform_size=4),
        encode("BAR", "ii", mode=0),
        encode("ISCADD", "r", Rd=0, Ra=5, Rb=4, shift=8),
    ]
    found = results(body, 5, shared=16)
    assert [value & 0xFF for value in found] == list(range(5))
    assert len({value >> 8 for value in found}) == 1


@pytest.mark.parametrize(
    ("window", "load", "fields"),
    [(SHARED_WINDOW, "LDS", {"uniform_size": 4}), (LOCAL_WINDOW, "LDL", {"size": 4})],
)
def test_generic_addresses_reach_shared_and_local_memory(window, load, fields):
    body = [
        move(4, window + 8),
        move(5, 0),
        move(6, 99),
        encode("ST", Rd=6, Ra=4, wide=1, size=4, offset=4),
        encode(load, Rd=7, Ra=RZ, offset=12, **fields),
        encode("LD", Rd=8, Ra=4, wide=1, size=4, offset=4),
        encode("IADD", "r", Rd=0, Ra=7, Rb=8),
    ]
    assert results(body, shared=64) == [198]


def test_addresses_of_32_bits_wrap():
    body = [
        move(4, -8 & WORD),
        move(5, 33),
        encode("STS", Rd=5, Ra=4, size=4, offset=16),
        encode("LDS", Rd=0, Ra=RZ, uniform_size=4, offset=8),
    ]
    assert results(body, shared=16) == [33]


@pytest.mark.parametrize(
    ("content", "error", "cause"),
    [
        (
            encode("LDS", Ra=1, uniform_size=4),
            WarpError.OOR_ADDR,
            "0x400 is beyond the 0x400 bytes of shared memory",
        ),
        (
            encode("STS", Ra=1, size=5, offset=-4),
            WarpError.MISALIGNED_ADDR,
            "0x3fc is no multiple of the access's 8 bytes",
        ),
        (
            encode("LDL", Ra=1, size=4),
            WarpError.OOR_ADDR,
            "0x400 is beyond the 0x400 bytes of local memory",
        ),
        (
            encode("LDG", Ra=2, wide=1, size=6, offset=8),
            WarpError.MISALIGNED_ADDR,
            "no multiple of the access's 16 bytes",
        ),
        (
            encode("LDG", Ra=3, wide=1, size=4),
            WarpError.MISALIGNED_REG,
            "does not begin at a multiple of its size",
        ),
        (
            encode("LDG", Rd=5, Ra=2, wide=1, size=5),
            WarpError.MISALIGNED_REG,
            "does not begin at a multiple of its size",
        ),
        (
            encode("LDG", Rd=252, Ra=2, wide=1, size=6),
            WarpError.OOR_REG,
            "a thread has 255 registers",
        ),
        (
            encode("ATOMS", Ra=1, operation=0),
            WarpError.OOR_ADDR,
            "beyond the 0x400 bytes of shared memory",
        ),
        (
            encode("LDC", Ra=2, size=4, offset=2),
            WarpError.MISALIGNED_ADDR,
            "0x2 is no multiple of the access's 4 bytes",
        ),
    ],
)
def test_accesses_that_fault(content, error, cause):
    with pytest.raises(FaultError, match=cause) as caught:
        step(content, {1: 0x400})
    assert caught.value.error is error


# Atomics

PAIRS = [
    (0, 0),
    (5, 3),
    (3, 5),
    (5, 5),
    (0, 7),
    (WORD, 1),
    (0x80000000, 0x7FFFFFFF),
    (0x12345678, 0xF0F0F0F0),
]


LEFT = {
    AtomicOperation.ADD: (0, 8, 8, 10, 7, 0, WORD, 0x03254768),
    AtomicOperation.MIN: (0, 3, 3, 5, 0, 1, 0x7FFFFFFF, 0x12345678),
    AtomicOperation.MAX: (0, 5, 5, 5, 7, WORD, 0x80000000, 0xF0F0F0F0),
    AtomicOperation.INC: (0, 0, 4, 0, 1, 0, 0, 0x12345679),
    AtomicOperation.DEC: (0, 3, 2, 4, 7, 1, 0x7FFFFFFF, 0x12345677),
    AtomicOperation.AND: (0, 1, 1, 5, 0, 1, 0, 0x10305070),
    AtomicOperation.OR: (0, 7, 7, 5, 7, WORD, WORD, 0xF2F4F6F8),
    AtomicOperation.XOR: (0, 6, 6, 0, 7, 0xFFFFFFFE, WORD, 0xE2C4A688),
    AtomicOperation.EXCH: (0, 3, 5, 5, 7, 1, 0x7FFFFFFF, 0xF0F0F0F0),
}
"""Memory after an operation on each of PAIRS, as PTX defines atom."""


def test_every_atomic_operation_has_its_results():
    assert LEFT.keys() == set(ATOMICS)


@pytest.mark.parametrize(
    ("operation", "old", "new", "expected"),
    [
        (operation, *pair, expected)
        for operation, results in LEFT.items()
        for pair, expected in zip(PAIRS, results, strict=True)
    ],
)
def test_atomics_on_global_and_shared_words(operation, old, new, expected):
    made, _, pointer = pointed_at(old.to_bytes(4, "little"))
    done = step(
        encode(
            "ATOM", Rd=5, Ra=2, Rb=4, wide=1, operation=operation.value, type=AtomicType.U32.value
        ),
        {**pointer, 4: new},
        launch=made,
    )
    assert (done.registers[5], contents(made, "o")) == (old, [expected])
    body = [
        move(4, old),
        move(5, new),
        encode("STS", Rd=4, Ra=RZ, size=4, offset=8),
        encode("ATOMS", Rd=6, Ra=RZ, Rb=5, offset=8, operation=operation.value, type=0),
        encode("LDS", Rd=7, Ra=RZ, uniform_size=4, offset=8),
        encode("LOP", "r", Rd=0, Ra=6, Rb=7, operation=2),
    ]
    assert results(body, shared=16) == [old ^ expected]


@pytest.mark.parametrize(
    ("kind", "bits"), [(AtomicType.S32, 32), (AtomicType.S64, 64), (AtomicType.U64, 64)]
)
@pytest.mark.parametrize(
    "operation", [AtomicOperation.MIN, AtomicOperation.MAX, AtomicOperation.ADD]
)
def test_a_minimum_is_negative_only_in_signed_types(kind, bits, operation):
    old, new = 1 << bits - 1 | 5, 7
    made, base, pointer = pointed_at(old.to_bytes(8, "little"))
    step(
        encode("RED", Rd=4, Ra=2, wide=1, operation=operation.value, type=kind.value),
        {**pointer, 4: new, 5: 0},
        launch=made,
    )
    lesser, greater = (new, old) if kind is AtomicType.U64 else (old, new)
    expected = {
        AtomicOperation.MIN: lesser,
        AtomicOperation.MAX: greater,
        AtomicOperation.ADD: old + new,
    }[operation]
    assert made.memory.read_number(base, bits // 8) == expected


@pytest.mark.parametrize("name", ["ATOM", "RED"])
def test_sums_of_floats(name):
    """MPFR adds the values in order."""
    first, second, _ = singles(Random(name), 200)
    for old, new in zip(first, second, strict=True):
        made, base, pointer = pointed_at(old.to_bytes(4, "little"))
        operands = {"Rd": 5, "Rb": 4} if name == "ATOM" else {"Rd": 4}
        done = step(
            encode(name, Ra=2, wide=1, operation=0, type=AtomicType.F32.value, **operands),
            {**pointer, 4: new},
            launch=made,
        )
        assert made.memory.read_number(base, 4) == test_single.expected(
            old, 0x3F80_0000, new, FloatRounding.RN, True
        )
        assert name == "RED" or done.registers[5] == old


@pytest.mark.parametrize(
    ("variant", "old", "left"),
    [("bb", 8, 9), ("bb", 7, 7), ("bz", 8, 0), ("bz", 9, 9), ("zb", 0, 8), ("zb", 8, 8)],
)
def test_compare_and_swap_by_layout(variant, old, left):
    for wide in (0, 1):
        made, _, pointer = pointed_at(old.to_bytes(8, "little"))
        swap = {4: 8, 5: 9} if not wide else {4: 8, 5: 0, 6: 9, 7: 0}
        done = step(
            encode("ATOM", variant, Rd=8, Ra=2, Rb=4, wide=1, wide_data=wide, compare_and_swap=15),
            pointer | swap,
            launch=made,
        )
        assert (done.registers[8], contents(made, "o")) == (old, [left, 0])


@pytest.mark.parametrize("kind", CompareAndSwapType)
@pytest.mark.parametrize(("old", "left"), [(8, 9), (3, 3)])
def test_compare_and_swap_of_shared_memory(old, left, kind):
    wide = kind.name.endswith("64")
    body = [
        move(6, old),
        move(4, 8),
        move(6 if wide else 5, 9),
        move(5 if wide else 10, 0),
        move(7, 0),
        move(8, old),
        move(9, 0),
        encode("STS", Rd=8, Ra=RZ, size=5),
        encode("ATOMS", "bb", Rd=12, Ra=RZ, Rb=4, compare_and_swap=kind.value),
        encode("LDS", Rd=8, Ra=RZ, uniform_size=4),
        encode("ISCADD", "r", Rd=0, Ra=12, Rb=8, shift=8),
    ]
    returned = old if kind in (CompareAndSwapType.CAS, CompareAndSwapType.CAS_64) else int(old == 8)
    assert results(body, shared=16) == [returned << 8 | left]


@pytest.mark.parametrize(
    "content",
    [
        encode("ATOM", operation=1, type=AtomicType.F32.value),
        encode("RED", operation=2, type=AtomicType.F32.value),
        encode("ATOM", operation=AtomicOperation.SAFEADD.value),
        encode("ATOM", operation=8, type=AtomicType.U128.value),
        encode("LDC", size=4, mode=2),
    ],
)
def test_what_has_no_meaning_here_is_not_of_this_machine(content):
    with pytest.raises(FaultError, match="not an instruction of this machine"):
        step(content)


# Constants and special registers

BANK = {3: bytes(range(32))}


def test_constants_are_operands_and_are_loaded_by_index():
    assert step(encode("MOV", "c", Rd=0, bank=3, offset=4), banks=BANK).registers[0] == 0x07060504
    assert step(encode("LDC", Rd=4, Ra=1, bank=3, offset=8, size=5), {1: 8}, banks=BANK).registers[
        4:6
    ] == (0x13121110, 0x17161514)
    assert (
        step(encode("LDC", Rd=0, Ra=1, bank=3, offset=-4, size=0), {1: 9}, banks=BANK).registers[0]
        == 5
    )
    far = {3: bytes(0x8000) + b"\7"}
    assert (
        step(encode("LDC", Rd=0, Ra=RZ, bank=3, offset=-0x8000, size=0), banks=far).registers[0]
        == 7
    )
    for place, expected in ((0x8000, 7), (0x18000, 0)):
        assert (
            step(encode("LDC", Rd=0, Ra=1, bank=3, size=0), {1: place, 0: 9}, banks=far).registers[
                0
            ]
            == expected
        )


def test_an_offset_alone_is_not_signed():
    made = launch([encode("EXIT")])
    made.memory.map("far", 0xFFFFF0, 256)
    made.memory.write_number(0xFFFFF8, 4, 0x1234)
    content = encode("LDG", Rd=0, Ra=RZ, wide=1, offset=-8, size=4)
    assert step(content, launch=made).registers[0] == 0x1234


@pytest.mark.parametrize(("bank", "place"), [(3, 32), (3, -4), (5, 0)])
def test_beyond_a_constant_bank_there_are_zeros(bank, place):
    assert (
        step(encode("MOV", "c", Rd=0, bank=bank, offset=place), {0: 9}, banks=BANK).registers[0]
        == 0
    )


@pytest.mark.parametrize(
    ("register", "expected"),
    [
        (SpecialRegister.LANEID, 1),
        (SpecialRegister.TID_X, 1),
        (SpecialRegister.TID_Y, 2),
        (SpecialRegister.TID_Z, 3),
        (SpecialRegister.TID, 1 | 2 << 16 | 3 << 26),
        (SpecialRegister.NTID, 4 | 3 << 16 | 4 << 26),
        (SpecialRegister.CTAID_X, 1),
        (SpecialRegister.CTAID_Y, 0),
        (SpecialRegister.SMEMSZ, 48),
        (SpecialRegister.EQMASK, 0x2000),
        (SpecialRegister.LTMASK, 0x1FFF),
        (SpecialRegister.LEMASK, 0x3FFF),
        (SpecialRegister.GTMASK, 0xFFFFC000),
        (SpecialRegister.GEMASK, 0xFFFFE000),
        (SpecialRegister.LMEMHIOFF, 0),
        (SpecialRegister.SWINLO, SHARED_WINDOW),
        (SpecialRegister.LWINLO, LOCAL_WINDOW),
        (SpecialRegister.SWINSZ, 1 << 24),
        (SpecialRegister.LWINSZ, 1 << 24),
        (SpecialRegister.SMEMBANKS, 32),
        (SpecialRegister.CTAID_Z, 0),
        (SpecialRegister.VIRTCFG, 1 << 20),
        (SpecialRegister.VIRTID, 1 << 8),
        (SpecialRegister.CLOCK, 1),
        (255, 0),
    ],
)
def test_a_special_register_holds_what_the_launch_says_of_one_thread(register, expected):
    # One thread of many stores: number 45 of its CTA, number 13 of its warp.
    body = [
        encode("S2R", Rd=4, special=SpecialRegister.TID),
        move(5, 1 | 2 << 16 | 3 << 26),
        encode("ISETP", "r", Pd=0, Ra=4, Rb=5, compare=5),
        encode("S2R", Rd=6, special=SpecialRegister.CTAID_X),
        encode("ISETP", "i", Pd=1, Ra=6, imm=1, compare=5),
        encode("EXIT", guard=0),
        encode("EXIT", guard=1),
        encode("S2R", Rd=0, special=register),
        encode("ISCADD", "r", Rd=2, Ra=1, Rb=2, shift=2, negate_a=1),
    ]
    made = launch(
        [*START, *body, *FINISH],
        [Buffer("o", bytes(4))],
        grid=(2, 1, 1),
        block=(4, 3, 4),
        shared=48,
    )
    run(made)
    assert contents(made, "o") == [13 if register == SpecialRegister.LANEID else expected]


def test_a_clock_never_stops():
    body = [
        *(encode("CS2R", Rd=register, special=SpecialRegister.CLOCKLO) for register in (4, 5)),
        encode("IADD", "r", Rd=0, Ra=5, Rb=4, negate_b=1),
    ]
    assert 0 < results(body)[0] < 1000


def test_an_instruction_knows_the_pc_of_the_next_one():
    assert [step(encode("LEPC", Rd=0), pc=pc).registers[0] for pc in (0x48, 0x58)] == [0x50, 0x60]
