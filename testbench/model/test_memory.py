"""Loads, stores and atomic operations of the warp model."""

import struct
from random import Random

import numpy as np
import pytest

from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation, AtomicType, FloatRounding
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, Buffer
from sim.model.thread.access import ATOMICS, atomic_change
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import MemoryWrite, Retirement
from sim.model.warp.state import Warp
from testbench.execute.singles import singles
from testbench.handmade import ALL, encode, machine, vector, warp_of
from testbench.model.test_single import expected

SIZES = {
    0: (1, False),
    1: (1, True),
    2: (2, False),
    3: (2, True),
    4: (4, False),
    5: (8, False),
    6: (16, False),
}
LANES = list(range(32))
PATTERN = bytes((37 * at + 129) % 256 for at in range(4096))


def prepared(word: int, content: bytes = PATTERN, **kind) -> tuple[WarpModel, Warp, int]:
    """Returns a warp model with a buffer, its warp, and the buffer's address, which every thread
    has in R2 and R3.
    """
    made = machine([word], arguments=[Buffer("data", content)], shared=1024, local=512, **kind)
    warp, base = warp_of(made), made.launch.buffers["data"][0]
    warp.registers[2], warp.registers[3] = base & 0xFFFFFFFF, base >> 32
    return made, warp, base


def expected_words(content: bytes, at: int, size: int, is_signed: bool) -> list[int]:
    piece = content[at : at + size]
    if size < 4:
        return [int.from_bytes(piece, "little", signed=is_signed) & 0xFFFFFFFF]
    return list(struct.unpack(f"<{size // 4}I", piece))


@pytest.mark.parametrize("code", SIZES)
@pytest.mark.parametrize("stride", [0, 1, 3, 100])
def test_global_loads_extend_each_threads_value(code, stride):
    size, is_signed = SIZES[code]
    word = encode("LDG", Rd=4, Ra=2, offset=16, wide=1, size=code)
    made, warp, _ = prepared(word)
    offsets = [stride * lane * size % 4000 // size * size for lane in LANES]
    warp.registers[2] += np.array(offsets, np.uint32)
    record = made.retire(0)
    columns = zip(
        *(expected_words(PATTERN, offset + 16, size, is_signed) for offset in offsets), strict=True
    )
    for number, column in enumerate(columns, start=4):
        assert vector(warp, number) == list(column)
        assert record.registers[number] == (ALL, tuple(column))
    assert record.memory == ()


@pytest.mark.parametrize("code", [0, 2, 4, 5, 6])
@pytest.mark.parametrize("stride", [1, 5])
def test_global_stores_write_each_threads_bytes_and_no_others(code, stride):
    size, _ = SIZES[code]
    made, warp, base = prepared(encode("STG", Rd=4, Ra=2, offset=-16, wide=1, size=code))
    offsets = [16 + stride * lane * size for lane in LANES]
    warp.registers[2] += np.array(offsets, np.uint32)
    for number in range(4, 8):
        warp.registers[number] = [0x01020304 * number + lane for lane in LANES]
    record = made.retire(0)
    content = bytearray(PATTERN)
    for lane, offset in enumerate(offsets):
        stored = b"".join(
            (0x01020304 * number + lane).to_bytes(4, "little") for number in range(4, 8)
        )[:size]
        content[offset - 16 : offset - 16 + size] = stored
        assert record.memory[lane] == MemoryWrite(lane, "global", base + offset - 16, stored)
    assert made.memory.read(base, 4096) == bytes(content)


def test_where_threads_store_to_one_place_the_highest_stays():
    for spread in (0, 1 << 12):  # close to each other, and far apart
        made, warp, base = prepared(encode("STG", Rd=4, Ra=2, wide=1, size=4), bytes(1 << 13))
        warp.registers[2][16:] += np.uint32(spread)
        warp.registers[4] = LANES
        made.retire(0)
        assert made.memory.read_number(base, 4) == (31 if spread == 0 else 15)
        assert made.memory.read_number(base + 4096, 4) == (0 if spread == 0 else 31)


def test_an_access_reaches_addresses_that_are_far_apart():
    content = bytes(range(256)) * 512
    made, warp, _ = prepared(encode("LDG", Rd=4, Ra=2, wide=1, size=4), content)
    warp.registers[2] += np.array([4000 * lane for lane in LANES], np.uint32)
    made.retire(0)
    assert vector(warp, 4) == [
        int.from_bytes(content[4000 * lane : 4000 * lane + 4], "little") for lane in LANES
    ]


def test_only_executing_threads_access():
    made, warp, _ = prepared(encode("LDG", Rd=4, Ra=2, wide=1, size=4, guard=0))
    warp.predicates[0] = 0b1010
    warp.registers[2][0] = warp.registers[2][2] = 3  # would be misaligned and unmapped
    warp.registers[4] = 5
    record = made.retire(0)
    assert record.error is WarpError.NONE
    assert vector(warp, 4)[:4] == [5, expected_words(PATTERN, 0, 4, False)[0]] * 2
    warp.predicates[0] = 0


@pytest.mark.parametrize("name", ["LDG", "STG"])
def test_addresses_without_a_register_are_not_signed(name):
    made, warp, _ = prepared(encode(name, Rd=4, Ra=255, offset=-0x10, size=4))
    made.memory.map("low", 0xFFFF00, 256)
    made.memory.write_number(0xFFFFF0, 4, 77)
    warp.registers[4] = 88
    assert made.retire(0).error is WarpError.NONE
    found, stored = vector(warp, 4)[0], made.memory.read_number(0xFFFFF0, 4)
    assert (found, stored) == ((77, 77) if name == "LDG" else (88, 88))


def test_narrow_addresses_are_one_register():
    made, warp, _ = prepared(encode("LDG", Rd=4, Ra=2, offset=8, size=4))
    made.memory.map("low", 0x4000, 256)
    made.memory.write_number(0x4008, 4, 99)
    warp.registers[2] = 0x4000
    made.retire(0)
    assert vector(warp, 4) == [99] * 32


@pytest.mark.parametrize(
    "name,space,limit",
    [
        ("LDL", "local", 512),
        ("STL", "local", 512),
        ("LDS", "shared", 1024),
        ("STS", "shared", 1024),
    ],
)
@pytest.mark.parametrize("code", [0, 2, 4, 5, 6])
def test_local_and_shared_memory(name, space, limit, code):
    size, _ = SIZES[code]
    fields = {"uniform_size": code} if name == "LDS" else {"size": code}
    made, warp, _ = prepared(encode(name, Rd=4, Ra=1, offset=0, **fields))
    offsets = [(lane * 16) % limit for lane in LANES]
    warp.registers[1] = offsets
    own = {}
    for lane, offset in enumerate(offsets):
        stored = struct.pack("<4I", *(0x11111111 * number + lane for number in range(4)))
        own[lane] = stored[:size]
        for at in range(16):
            if name == "LDS":
                warp.cta.shared[offset + at] = stored[at]
            elif name == "LDL":
                address = warp.local_base + ((offset + at) // 4 * 32 + lane) * 4 + (offset + at) % 4
                made.memory.write(address, stored[at : at + 1])
        for number in range(4):
            warp.registers[4 + number][lane] = 0x11111111 * number + lane if name[0] == "S" else 0
    record = made.retire(0)
    if name[0] == "L":
        for lane in LANES:
            found = [vector(warp, 4 + at)[lane] for at in range(max(1, size // 4))]
            assert found == expected_words(own[lane], 0, size, False)
    else:
        assert record.memory == tuple(
            MemoryWrite(lane, space, offsets[lane], own[lane]) for lane in LANES
        )
        for lane, offset in enumerate(offsets):
            found = bytes(
                warp.cta.shared[offset + at]
                if space == "shared"
                else made.memory.read_number(
                    warp.local_base + ((offset + at) // 4 * 32 + lane) * 4 + (offset + at) % 4, 1
                )
                for at in range(size)
            )
            assert found == own[lane]


def test_generic_addresses_reach_all_three_spaces_at_once():
    for name in ("LD", "ST"):
        made, warp, base = prepared(encode(name, Rd=4, Ra=2, offset=4, wide=1, size=4, Pc=7))
        warp.registers[3][:20] = 0
        warp.registers[2][:10] = SHARED_WINDOW + 8 * np.arange(10)
        warp.registers[2][10:20] = LOCAL_WINDOW + 8 * np.arange(10)
        warp.registers[4] = [100 + lane for lane in LANES]
        warp.cta.shared[4:8] = b"\x01\x02\x03\x04"
        made.memory.write_number(warp.local_base + (1 * 32 + 10) * 4, 4, 1234)
        record = made.retire(0)
        assert record.error is WarpError.NONE
        if name == "LD":
            assert vector(warp, 4)[0] == 0x04030201
            assert vector(warp, 4)[10] == 1234
            assert vector(warp, 4)[20:] == expected_words(PATTERN, 4, 4, False) * 12
        else:
            assert struct.unpack_from("<I", warp.cta.shared, 4 + 8 * 3)[0] == 103
            assert (
                made.memory.read_number(warp.local_base + ((8 * 5 + 4) // 4 * 32 + 15) * 4, 4)
                == 115
            )
            assert made.memory.read_number(base + 4, 4) == 131
            assert sorted(write.thread for write in record.memory) == LANES
            assert {write.space for write in record.memory[:12]} == {"global"}


def failing(word: int, addresses: dict[int, int], **kind) -> tuple[WarpModel, Warp, Retirement]:
    """Retires an access where some threads have their own (narrow) address and the others 0x4000."""
    made, warp, _ = prepared(word, **kind)
    made.memory.map("low", 0x4000, 256)
    warp.registers[1] = 0x4000
    for lane, address in addresses.items():
        warp.registers[1][lane] = address
    warp.registers[4] = 5
    return made, warp, made.retire(0)


LOAD, STORE = encode("LDG", Rd=4, Ra=1, size=4), encode("STG", Rd=4, Ra=1, size=4)


@pytest.mark.parametrize(
    "addresses,error,thread",
    [
        ({5: 0x4002}, WarpError.MISALIGNED_ADDR, 5),
        ({5: 0x8000}, WarpError.MMU_FAULT, 5),
        ({5: 0x4100}, WarpError.MMU_FAULT, 5),
        ({7: 0x8000, 9: 0x4002}, WarpError.MMU_FAULT, 7),
        ({7: 0x4002, 9: 0x8000}, WarpError.MISALIGNED_ADDR, 7),
        ({7: 0x8002}, WarpError.MISALIGNED_ADDR, 7),
    ],
)
def test_the_first_failing_thread_decides(addresses, error, thread):
    for word in (LOAD, STORE):
        made, warp, record = failing(word, addresses)
        assert (record.error, record.memory, record.registers, vector(warp, 4)) == (
            error,
            (),
            {},
            [5] * 32,
        )
        assert made.memory.read_number(0x4000, 4) == 0
        assert made.error_status is not None
        assert made.error_status.detail == (
            f"block [0,0,0], thread [{thread},0,0], address {addresses[thread]:#x}"
        )


@pytest.mark.parametrize(
    "name,fields,limit",
    [
        ("LDL", {"size": 4}, 512),
        ("STL", {"size": 4}, 512),
        ("LDS", {"uniform_size": 4}, 1024),
        ("STS", {"size": 4}, 1024),
        ("ATOMS", {"operation": 0}, 1024),
        ("LDL", {"size": 6}, 512),
    ],
)
def test_local_and_shared_memory_end(name, fields, limit):
    word = encode(name, Rd=4, Ra=1, **fields)
    size = 16 if fields.get("size") == 6 else 4
    for address, error in (
        (limit - size, WarpError.NONE),
        (limit, WarpError.OOR_ADDR),
        (0xFFFFFFF0, WarpError.OOR_ADDR),
        (2, WarpError.MISALIGNED_ADDR),
    ):
        made, warp, _ = prepared(word)
        warp.registers[1] = address
        assert made.retire(0).error is error, hex(address)


def test_a_generic_access_reports_the_first_failing_thread_of_all_spaces():
    made, warp, _ = prepared(encode("LD", Rd=4, Ra=2, wide=1, size=4))
    warp.registers[3] = 0
    warp.registers[2] = SHARED_WINDOW
    warp.registers[2][9] = 0x10  # not mapped
    warp.registers[2][6] = SHARED_WINDOW + 1024
    warp.registers[2][8] = LOCAL_WINDOW + 2
    record = made.retire(0)
    assert record.error is WarpError.OOR_ADDR


def test_an_atomic_operation_through_a_window_is_an_error():
    for window in (SHARED_WINDOW, LOCAL_WINDOW):
        for name in ("ATOM", "RED"):
            made, warp, _ = prepared(encode(name, Rd=4, Ra=2, wide=1, operation=0))
            warp.registers[2][3], warp.registers[3][3] = window, 0
            assert made.retire(0).error is WarpError.INVALID_ADDR_SPACE


@pytest.mark.parametrize("operation", ATOMICS, ids=lambda operation: operation.value)
@pytest.mark.parametrize("kind", [0, 1, 2, 5])
@pytest.mark.parametrize("name", ["ATOM", "ATOMS", "RED"])
def test_an_atomic_operation_of_each_type_leaves_its_result_and_returns_what_was_there(
    operation, kind, name
):
    bits, is_signed = {0: (32, False), 1: (32, True), 2: (64, False), 5: (64, True)}[kind]
    if name == "RED" and operation is AtomicOperation.EXCH:
        return
    code = {5: 3}.get(kind, kind) if name == "ATOMS" else kind
    fields = {"Rd": 6, "Ra": 1, "type": code, "operation": operation.value, "offset": 8}
    fields |= {"Rb": 4} if name != "RED" else {"Rd": 4}
    made, warp, _ = prepared(encode(name, **fields))
    made.memory.map("low", 0x100, 256)
    first = 0x8000000000000005 if bits == 64 else 0x80000005
    warp.registers[1] = 0x100
    operands = [
        0x9000000080000000 >> lane * 2 if bits == 64 else 0x90000000 >> lane for lane in LANES
    ]
    warp.registers[4] = [value & 0xFFFFFFFF for value in operands]
    warp.registers[5] = [value >> 32 for value in operands]

    def memory() -> int:
        if name == "ATOMS":
            return int.from_bytes(warp.cta.shared[0x108 : 0x108 + bits // 8], "little")
        return made.memory.read_number(0x108, bits // 8)

    warp.cta.shared[0x108:0x110] = first.to_bytes(8, "little")
    made.memory.write_number(0x108, 8, first)
    record = made.retire(0)
    value = first
    for lane in LANES:
        if name != "RED":
            assert vector(warp, 6)[lane] == value & 0xFFFFFFFF
            assert bits == 32 or vector(warp, 7)[lane] == value >> 32
        value = atomic_change(operation, bits, is_signed)(
            value, operands[lane] & (1 << bits) - 1
        ) % (1 << bits)
        write = record.memory[lane]
        assert (write.thread, write.address, write.content) == (
            lane,
            0x108,
            value.to_bytes(bits // 8, "little"),
        )
    assert memory() == value
    assert set(record.registers) == (set() if name == "RED" else {6} if bits == 32 else {6, 7})


@pytest.mark.parametrize("name", ["ATOM", "RED"])
def test_an_atomic_sum_of_floats_is_the_one_of_mpfr(name):
    """MPFR adds the threads' values in order."""
    operands = {"Rd": 6, "Rb": 4} if name == "ATOM" else {"Rd": 4}
    made, warp, _ = prepared(encode(name, Ra=1, type=AtomicType.F32.value, operation=0, **operands))
    made.memory.map("low", 0x100, 256)
    source = Random(name)
    warp.registers[1] = [0x100 + 4 * (lane % 5) for lane in LANES]
    numbers, _, _ = singles(source, 32)
    warp.registers[4] = numbers
    values = [0x3F80_0001, 0x0000_0001, 0x8000_0000, 0x7F7F_FFFF, 0xBF80_0000]
    for number, value in enumerate(values):
        made.memory.write_number(0x100 + 4 * number, 4, value)
    made.retire(0)
    for lane in LANES:
        if name == "ATOM":
            assert vector(warp, 6)[lane] == values[lane % 5]
        values[lane % 5] = expected(
            values[lane % 5], 0x3F80_0000, numbers[lane], FloatRounding.RN, True
        )
    assert [made.memory.read_number(0x100 + 4 * number, 4) for number in range(5)] == values


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("variant", ["bb", "bz", "zb"])
@pytest.mark.parametrize("name", ["ATOM", "ATOMS", "CAST", "CAST.SPIN"])
def test_compare_and_swap_writes_if_the_memory_holds_the_compared_value(bits, variant, name):
    kind = {"ATOMS": 4, "CAST": 0, "CAST.SPIN": 2}.get(name, 0)
    tells, name = name.startswith("CAST"), "ATOM" if name == "ATOM" else "ATOMS"
    fields = (
        {"compare_and_swap": kind + bits // 64} if name == "ATOMS" else {"wide_data": bits // 64}
    )
    made, warp, _ = prepared(encode(name, variant, Rd=12, Ra=1, Rb=4, **fields))
    made.memory.map("low", 0x100, 256)
    warp.masks = type(warp.masks)(active=0b111)
    warp.registers[1] = 0x100
    step = bits // 32
    compare, swap = [10, 20, 99], [20, 30, 40]
    registers = {4: compare if variant != "zb" else swap, 4 + step: swap}
    for number, values in registers.items():
        warp.registers[number][:3] = values
    first = 10 if variant == "bb" else 10 if variant == "bz" else 0
    for target in ("shared", "global"):
        if target == "shared":
            warp.cta.shared[0x100:0x108] = first.to_bytes(8, "little")
        else:
            made.memory.write_number(0x100, 8, first)
    made.retire(0)
    value, olds = first, []
    for lane in range(3):
        before = value
        old, new = {
            "bb": (compare[lane], swap[lane]),
            "bz": (compare[lane], 0),
            "zb": (0, swap[lane]),
        }[variant]
        value = new if value == old else value
        olds.append(int(before == old) if tells else before)
    assert vector(warp, 12)[:3] == olds
    found = warp.cta.shared[0x100] if name == "ATOMS" else made.memory.read_number(0x100, 1)
    assert found == value


@pytest.mark.parametrize(
    "word",
    [
        encode("ATOM", Rd=4, Ra=1, type=3, operation=1),
        encode("RED", Rd=4, Ra=1, type=3, operation=2),
        encode("ATOM", Rd=4, Ra=1, type=4),
        encode("RED", Rd=4, Ra=1, type=4),
        encode("ATOM", Rd=4, Ra=1, operation=10),
        encode("LDC", Rd=4, Ra=1, size=4, mode=1),
    ],
)
def test_operations_that_are_not_in_this_machine(word):
    made, _, _ = prepared(word)
    assert made.retire(0).error is WarpError.ILLEGAL_INSTR_ENCODING


BANK = bytes(range(64))


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
def test_each_thread_loads_the_constant_at_its_own_index(code):
    size, is_signed = SIZES[code]
    made, warp, _ = prepared(
        encode("LDC", Rd=4, Ra=1, bank=3, offset=-8, size=code), constants={3: BANK}
    )
    offsets = [8 + lane * size % 64 for lane in LANES]
    warp.registers[1] = offsets
    record = made.retire(0)
    assert record.error is WarpError.NONE
    for lane, offset in enumerate(offsets):
        found = [vector(warp, 4 + at)[lane] for at in range(max(1, size // 4))]
        assert found == expected_words(BANK, offset - 8, size, is_signed)


def test_the_sum_of_a_constant_address_has_32_bits():
    made, warp, _ = prepared(
        encode("LDC", Rd=4, Ra=1, bank=3, offset=12, size=4), constants={3: BANK}
    )
    warp.registers[1] = 0xFFFFFFFC
    made.retire(0)
    assert vector(warp, 4) == [0x0B0A0908] * 32


@pytest.mark.parametrize(
    "index,error",
    [
        (64, WarpError.INVALID_CONST_ADDR_LDC),
        (2, WarpError.MISALIGNED_ADDR),
        (0xFFFFFFFC, WarpError.INVALID_CONST_ADDR_LDC),
    ],
)
def test_a_constant_behind_the_bank_is_zero_and_an_error_if_reported(index, error):
    word = encode("LDC", Rd=4, Ra=1, bank=3, size=4)
    for report_mask in (ALL, 1 << WarpError.MISALIGNED_ADDR.value):
        made, warp, _ = prepared(word, constants={3: BANK}, report_mask=report_mask)
        warp.registers[1][4] = index
        warp.registers[4] = 5
        record = made.retire(0)
        unreported = report_mask != ALL and error is WarpError.INVALID_CONST_ADDR_LDC
        assert record.error is (WarpError.NONE if unreported else error)
        zeros = [0 if lane == 4 else 0x03020100 for lane in LANES]
        assert vector(warp, 4) == (zeros if unreported else [5] * 32)


def test_a_constant_operand_beyond_the_end():
    word = encode("IADD", "c", Rd=4, Ra=1, bank=3, offset=64)
    for report_mask, error, value in (
        (ALL, WarpError.INVALID_CONST_ADDR, 5),
        (0, WarpError.NONE, 7),
    ):
        made, warp, _ = prepared(word, constants={3: BANK}, report_mask=report_mask)
        warp.registers[1], warp.registers[4] = 7, 5
        assert (made.retire(0).error, vector(warp, 4)) == (error, [value] * 32)


@pytest.mark.parametrize(
    "word",
    [
        encode("MOV", "c", Rd=4, bank=3, offset=-4),
        encode("IADD", "c", Rd=4, Ra=9, bank=3, offset=-4),
        encode("LDC", Rd=4, Ra=255, bank=3, offset=-4, size=4),
    ],
)
def test_constant_offsets_have_16_bits(word):
    made, warp, _ = prepared(word, constants={3: bytes(0xFFFC) + b"\x05\0\0\0"})
    assert made.retire(0).error is WarpError.NONE
    assert vector(warp, 4) == [5] * 32


def test_the_last_word_of_a_bank_is_whole():
    made, warp, _ = prepared(
        encode("MOV", "c", Rd=4, bank=3, offset=4), constants={3: b"\1\2\3\4\5"}
    )
    made.retire(0)
    assert vector(warp, 4) == [5] * 32


def test_stores_of_rz_and_loads_to_rz():
    made, warp, base = prepared(encode("STG", Rd=255, Ra=2, wide=1, size=5))
    made.retire(0)
    assert made.memory.read(base, 8) == bytes(8)
    made, warp, base = prepared(encode("LDG", Rd=255, Ra=2, wide=1, size=6))
    assert made.retire(0).registers == {}
    assert vector(warp, 255) == [0] * 32
