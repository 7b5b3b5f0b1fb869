"""The memory behind the machine: its ranges and their bytes, against a reference model."""

import os
from random import Random

import pytest

from rtl.isa.tokens import LINE_BYTES
from rtl.params import ADDRESS_BITS
from sim.launch.memory import Memory, MemoryFaultError, OutOfMemoryError, SharedMemory

HEAP, PAGE, SIZE = 0x2_0000_0000, 4096, 1 << 21


@pytest.fixture(params=["memory", "shared"])
def memory(request):
    """A memory of each kind, whose heap has room for 2 MiB."""
    if request.param == "memory":
        yield Memory(HEAP, PAGE, HEAP + SIZE)
    else:
        made = SharedMemory(SIZE, HEAP, PAGE)
        yield made
        made.close()


def check_all(memory: Memory, account: dict[str, tuple[int, bytearray]]) -> None:
    """Checks that a memory has exactly these ranges with these bytes, and a gap after each."""
    assert {
        name: (base, len(content)) for name, (base, content) in account.items()
    } == memory.regions
    ends = 0
    for base, content in sorted(account.values()):
        assert base >= ends
        ends = base + len(content) + PAGE
        assert memory.read(base, len(content)) == content
        behind = base + len(content) + -(base + len(content)) % LINE_BYTES
        assert memory.end >= behind
        for outside in (base - base % LINE_BYTES - 1, behind):
            with pytest.raises(MemoryFaultError) as fault:
                memory.read(outside, 1)
            assert fault.value.address == outside
            assert not memory.is_mapped(outside, 1)


@pytest.mark.parametrize("seed", range(4))
def test_random_ranges_hold_what_was_written_until_they_are_freed(memory, seed):
    source, account = Random(seed), {}
    for step in range(150):
        if len(account) < 3 or (len(account) < 8 and source.random() < 0.3):
            size = source.choice([1, source.randint(1, 3 * PAGE), source.randint(70_000, 150_000)])
            alignment = source.choice([64, 256, PAGE])
            base = memory.allocate(f"range {step}", size, alignment)
            assert base % alignment == 0
            account[f"range {step}"] = base, bytearray(size)
        name = source.choice(list(account))
        base, content = account[name]
        at = source.randrange(len(content))
        size = min(source.choice([1, 8, 5000, 100_000]), len(content) - at)
        match source.randrange(5):
            case 0:
                memory.write(base + at, new := source.randbytes(size))
                content[at : at + size] = new
            case 1:
                memory.fill(base + at, size, step % 256)
                content[at : at + size] = bytes([step % 256]) * size
            case 2:
                other, there = account[source.choice(list(account))]
                size = min(size, len(there))
                memory.copy_range(base + at, other, size)
                content[at : at + size] = bytes(there[:size])
            case 3:
                memory.free(base)
                del account[name]
            case _:
                found = memory.range_of(base + at, size)
                assert found == (base, len(content))
                assert memory.range_of(base + at, len(content) + 1) is None
                assert memory.is_mapped(base + at, size)
                assert not memory.is_mapped(base + at, len(content) - at + 64)
        if step % 10 == 0:
            check_all(memory, account)
            check_all(memory.copy(), account)
    assert len(account) > 1


def test_a_copy_is_another_memory(memory):
    base = memory.allocate("a", 100)
    other = memory.copy()
    memory.fill(base, 100, 7)
    second = memory.allocate("b", 100)
    assert other.read(base, 100) == bytes(100)
    assert other.allocate("c", 100) == second
    assert other.regions.keys() == {"a", "c"}


def test_freed_ranges_that_touch_make_room_for_a_larger_one(memory):
    places = [memory.allocate(name, PAGE, PAGE) for name in "abcde"]
    assert [place - places[0] for place in places] == [2 * PAGE * number for number in range(5)]
    for name in "bdc":
        memory.free(places["abcde".index(name)])
    assert memory.allocate("too large", 5 * PAGE + 1, PAGE) == places[4] + 2 * PAGE
    assert memory.allocate("whole hole", 5 * PAGE, PAGE) == places[1]
    memory.free(places[4])
    memory.free(places[4] + 2 * PAGE)
    assert memory.allocate("last", 1, PAGE) == places[4]


def test_the_rest_of_a_hole_is_allocated_next(memory):
    first, _ = memory.allocate("first", 6 * PAGE, PAGE), memory.allocate("behind", 1)
    memory.free(first)
    assert [memory.allocate(name, PAGE, PAGE) for name in "abc"] == [
        first,
        first + 2 * PAGE,
        first + 4 * PAGE,
    ]


def test_all_of_the_heap_can_be_allocated_and_no_more(memory):
    assert memory.room() == SIZE
    memory.allocate("first", 100, 64)
    assert memory.room(64) == SIZE - 128 - PAGE
    assert memory.room() == SIZE - 256 - PAGE
    with pytest.raises(OutOfMemoryError, match=r"^rest: no room for \d+ bytes$"):
        memory.allocate("rest", memory.room() + 1)
    memory.allocate("rest", memory.room())
    assert memory.room() == 0


def test_an_access_that_leaves_a_range_faults_there_and_writes_nothing(memory):
    base = memory.allocate("a", 100)
    for access in (
        lambda at, size: memory.read(at, size),
        lambda at, size: memory.fill(at, size, 1),
    ):
        for at, size, where in (
            (base + 120, 10, base + 128),
            (base, 129, base + 128),
            (base - 1, 2, base - 1),
            (base + 128, 1, base + 128),
            (HEAP + SIZE - 1, 1, HEAP + SIZE - 1),
        ):
            with pytest.raises(
                MemoryFaultError, match=f"^nothing is mapped at {where:#x}$"
            ) as fault:
                access(at, size)
            assert fault.value.address == where
    assert memory.read(base, 128) == bytes(128)


@pytest.mark.parametrize(
    ("name", "base", "size"),
    [
        ("b", HEAP, 1),
        ("b", HEAP + 64, 64),
        ("b", HEAP - 64, 65),
        ("b", HEAP + 127, 1000),
        ("b", HEAP, 1000),
        ("b", -64, 10),
        ("b", (1 << ADDRESS_BITS) - 64, 65),
        ("b", HEAP + PAGE, 0),
        ("a", HEAP + PAGE, 64),
    ],
)
def test_what_is_mapped_is_not_mapped_again(name, base, size):
    memory = Memory(HEAP, PAGE)
    memory.map("a", HEAP, 100)
    with pytest.raises(ValueError, match=f"^{name}"):
        memory.map(name, base, size)
    assert memory.regions == {"a": (HEAP, 100)}
    memory.map("before", HEAP - 64, 64)
    memory.map("behind", HEAP + 128, 64)
    memory.map("top", (1 << ADDRESS_BITS) - 64, 64)


def test_a_shared_memory_is_a_file_until_it_is_closed():
    memory = SharedMemory(SIZE, HEAP, PAGE)
    with pytest.raises(ValueError, match="do not lie on the heap"):
        memory.map("low", HEAP - 64, 64)
    base = memory.allocate("a", 100)
    memory.fill(base + 5, 10, 9)
    assert os.fstat(memory.file).st_size == SIZE
    assert os.pread(memory.file, 128, base - memory.first)[4:16] == bytes([0, *[9] * 10, 0])
    before = os.fstat(memory.file).st_blocks
    large = memory.allocate("large", SIZE // 2)
    memory.fill(large, SIZE // 2, 1)
    assert os.fstat(memory.file).st_blocks > before
    memory.free(large)  # its pages are returned to the operating system
    assert os.fstat(memory.file).st_blocks <= before + 2 * PAGE // 512
    file = memory.file
    memory.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_a_name_that_is_taken_gets_a_number_that_none_has(memory):
    assert memory.free_name("a") == "a"
    memory.allocate("a", 1)
    names = [memory.free_name("a"), memory.free_name("a")]
    assert names == ["a 2", "a 3"]


def test_only_what_begins_a_range_can_be_freed(memory):
    base = memory.allocate("a", 100)
    for wrong in (base + 64, base - 64, base + PAGE):
        with pytest.raises(ValueError, match=f"^no range begins at {wrong:#x}$"):
            memory.free(wrong)
    before = set(memory.regions)
    more = [memory.allocate(name, 10) for name in "bc"]
    assert memory.new_bases(before) == tuple(more)
    memory.free_new(before)
    assert memory.regions.keys() == before


def test_numbers_are_little_endian_and_lines_are_written_by_their_mask(memory):
    base = memory.allocate("a", 64, 64)
    for value, left in (
        (0x0102, b"\2\1\0\0"),
        (-2, b"\xfe\xff\xff\xff"),
        (0x1_0000_0003, b"\3\0\0\0"),
    ):
        memory.write_number(base, 4, value)
        assert memory.read(base, 5) == left + b"\0"
        assert memory.read_number(base, 4) == value & 0xFFFF_FFFF
    memory.fill(base, 64, 1)
    memory.write_line(base, bytes(range(64)), 1 << 63 | 0b101)
    assert memory.read(base, 64) == bytes([0, 1, 2]) + bytes([1]) * 60 + bytes([63])
    memory.write_line(base, bytes(range(64)), (1 << 64) - 1)
    assert memory.read(base, 64) == bytes(range(64))


def test_ranges_that_launches_only_read_are_known_until_they_are_freed(memory):
    base, other = memory.allocate("a", 10), memory.allocate("b", 10)
    memory.mark_constant(base)
    memory.mark_constant(other + 4)
    assert memory.constant == {"a"}
    memory.free(base)
    assert memory.constant == set()
