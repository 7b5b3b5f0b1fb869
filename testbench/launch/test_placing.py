"""A module in memory: its addresses are patched, its banks and variables have addresses; a failure
leaves no allocation.
"""

from dataclasses import replace

import pytest

from rtl.isa.tokens import CRS_GRANULE
from sim.launch import Buffer, Scalar, Structure, bank_name, place, prepare
from sim.launch.arguments import ArgumentError, parse_argument
from sim.launch.memory import Memory, OutOfMemoryError, SharedMemory
from sim.launch.parameters import Argument, argument_bytes, parameter_block, place_buffers
from sim.launch.runtime import (
    HEAP_DEFAULT,
    HEAP_MEMORY,
    OUTPUT_DEFAULT,
    OUTPUT_MEMORY,
    allot,
    empty_output,
    output_range,
)
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import (
    SHARED_BANK,
    EntryParameter,
    Patch,
    PatchKind,
    ProgramError,
    SectionData,
)
from sim.toolchain.runtime import HEAP, OUTPUT
from testbench.words import encode

KERNEL = load(assemble(".kernel k\nNOP\nEXIT\n", "k.sass"))
WORD = 0x1122_3344_5566_7788


def with_data(content, *patches, **symbols):
    """The kernel with global variables, and with a bank that all kernels share."""
    return replace(
        KERNEL,
        data=SectionData(content, 8, symbols, patches),
        constants={SHARED_BANK: SectionData(bytes(range(20)), 8, {"constant": 4})},
    )


@pytest.mark.parametrize(
    ("kind", "shift", "completed"),
    [
        (PatchKind.BYTE, 0, lambda value: [value & 0xFF]),
        (PatchKind.BYTE, 32, lambda value: [value >> 32 & 0xFF]),
        (PatchKind.WORD, 0, lambda value: (value & 0xFFFF_FFFF).to_bytes(4, "little")),
        (PatchKind.WORD, 8, lambda value: (value >> 8 & 0xFFFF_FFFF).to_bytes(4, "little")),
        (PatchKind.DOUBLE_WORD, 0, lambda value: value.to_bytes(8, "little")),
        (PatchKind.TEXTURE, 0, lambda value: []),
    ],
)
@pytest.mark.parametrize("generic", [False, True])
def test_an_address_is_put_into_data_by_the_kind_of_its_place(kind, shift, completed, generic):
    """The address of a variable, or with ``generic`` of a constant in global memory; adjacent bytes
    do not change.
    """
    symbol = "constant" if generic else "variable"
    content = bytes([0xEE]) * 24
    patch = Patch(8, kind, symbol, 3, generic, shift)
    placed = place(with_data(content, patch, variable=16), Memory())
    (address, size) = placed.variables[symbol]
    assert size == (16 if generic else 8)
    expected = bytes(completed(address + 3))
    base = placed.variables["variable"][0] - 16
    data = placed.memory.read(base, 24)
    assert data == content[:8] + expected + content[8 + len(expected) :]


@pytest.mark.parametrize(
    ("kind", "half"), [(PatchKind.IMMEDIATE_LOW, 0), (PatchKind.IMMEDIATE_HIGH, 32)]
)
def test_half_of_an_address_is_put_into_an_instructions_immediate(kind, half):
    word = encode("MOV32I", Rd=5, imm32=-1)
    code = SectionData(word.to_bytes(8, "little"), patches=(Patch(0, kind, "variable", 1),))
    module = replace(with_data(bytes(8), variable=0), code=code)
    placed = place(module, Memory(heap=0xAB_8000_0000))
    value = placed.variables["variable"][0] + 1
    left = int.from_bytes(placed.memory.read(placed.program_base, 8), "little")
    assert left == word & ~(0xFFFF_FFFF << 20) | (value >> half & 0xFFFF_FFFF) << 20


def test_an_offset_in_a_bank_is_added_to_that_of_an_instruction():
    word = encode("MOV", "c", Rd=5, bank=3, offset=8)
    patch = Patch(0, PatchKind.CONSTANT_OFFSET, "constant", 4)
    code = SectionData(word.to_bytes(8, "little"), patches=(patch,))
    placed = place(replace(with_data(b""), code=code), Memory())
    left = int.from_bytes(placed.memory.read(placed.program_base, 8), "little")
    assert left == encode("MOV", "c", Rd=5, bank=3, offset=8 + 4 + 4)


@pytest.mark.parametrize(
    "word", [0, encode("EXIT", ""), encode("LDG", "", Rd=1, Ra=2, offset=8), (1 << 64) - 1]
)
def test_an_instruction_without_a_constant_gets_no_offset(word):
    patch = Patch(0, PatchKind.CONSTANT_OFFSET, "constant")
    code = SectionData(word.to_bytes(8, "little"), patches=(patch,))
    with pytest.raises(
        ProgramError,
        match=rf"^k\.sass: a constant's address belongs into {word:#018x}, which has none$",
    ):
        place(replace(with_data(b""), code=code), Memory())


def test_a_failure_leaves_nothing_in_memory():
    memory = Memory()
    memory.allocate("mine", 10)
    missing = Patch(0, PatchKind.WORD, "nowhere")
    with pytest.raises(ProgramError, match=r"^k\.sass: symbol nowhere is not defined$"):
        place(with_data(bytes(8), missing), memory)
    assert memory.regions.keys() == {"mine"}
    small = Memory(0x2_0000_0000, 4096, 0x2_0000_2000)
    with pytest.raises(OutOfMemoryError):
        place(with_data(bytes(8192)), small)
    assert not small.regions and small.room() == 0x2000


def test_a_module_is_placed_again_and_released():
    memory = Memory()
    placed = [place(with_data(bytes(8), variable=0), memory) for _ in range(2)]
    names = ("program", "globals", bank_name(SHARED_BANK))
    assert memory.regions.keys() == {*names, *(f"{name} {n}" for n, name in enumerate(names, 2))}
    assert not set(placed[0].regions) & set(placed[1].regions)
    assert {memory.regions[name][0] for name in names} == set(placed[0].regions)
    assert memory.constant == memory.regions.keys() - {"globals", "globals 3"}
    assert placed[0].variables["variable"][0] % 256 == 0
    placed[0].release()
    assert {memory.regions[name][0] for name in memory.regions} == set(placed[1].regions)


def test_a_variable_reaches_to_the_next_one_or_is_as_large_as_the_file_says():
    module = with_data(bytes(24), a=0, b=8, c=20, same=8)
    module = replace(module, data=replace(module.data, sizes={"a": 6}))
    sizes = {name: size for name, (_, size) in place(module, Memory()).variables.items()}
    assert sizes == {"a": 6, "b": 12, "same": 12, "c": 4, "constant": 16}


def test_a_launch_is_of_one_block_of_a_warp_if_nothing_else_is_said():
    launch = prepare(KERNEL)
    assert (launch.grid, launch.block, launch.threads, launch.warps) == (
        (1, 1, 1),
        (32, 1, 1),
        32,
        1,
    )
    placed = place(KERNEL, Memory())
    other = placed.launch(placed.module.kernel(), b"")
    assert (other.grid, other.block) == (launch.grid, launch.block)
    assert (other.local, other.crs, other.shared) == (4096, 4096, 0)
    assert launch.check_api_calls is False and launch.trap_handler is None
    assert launch.floats is True and launch.doubles is True
    for block, warps in (((33, 1, 1), 2), ((8, 4, 2), 2), ((1, 1, 1), 1), ((32, 8, 4), 32)):
        assert prepare(KERNEL, block=block).warps == warps


@pytest.mark.parametrize(
    ("local", "crs", "warp_block"),
    [(16, 512, 1024), (16, 1, 1024), (0, 0, 0), (32, 513, 2048), (8, 512, 1024)],
)
def test_the_block_of_a_warp_has_32_threads_local_memory_and_a_stack(local, crs, warp_block):
    launch = prepare(KERNEL, local=local, crs=crs)
    assert launch.warp_block == warp_block and warp_block % CRS_GRANULE == 0
    memory = Memory()
    before = memory.end
    base = launch.allocate_local(3, memory) if warp_block else 0
    assert base % CRS_GRANULE == 0
    assert memory.end - max(before, base) == 3 * warp_block


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"crs": (1 << 20) + 1}, r"1049088 bytes of call/return stack; there can be 1048576"),
        ({"local": (1 << 24) + 1}, r"16777232 bytes of local memory; there can be 16777216"),
        (
            {"dynamic_shared": (48 << 10) + 1},
            r"49153 bytes of shared memory; there can be 49152",
        ),
    ],
)
def test_sizes_end_at_the_limits_of_the_architecture(sizes, message):
    ((name, size),) = sizes.items()
    with pytest.raises(ProgramError, match=rf"^k\.sass: {message}$"):
        prepare(KERNEL, **sizes)
    assert prepare(KERNEL, **{name: size - 1})


def test_banks_are_multiples_of_256_bytes_and_known_by_their_address():
    launch = prepare(with_data(b""))
    base = launch.bank_addresses[SHARED_BANK]
    assert launch.bank(SHARED_BANK) == launch.memory.read(base, 256)
    assert launch.bank(SHARED_BANK) == bytes(range(20)) + bytes(236)
    launch.memory.fill(base, 2, 7)
    assert launch.bank(SHARED_BANK)[:3] == b"\7\7\2"
    assert len(launch.bank(0)) % 256 == 0 and base % 256 == 0


# Memory


def test_a_copy_gives_the_same_names_and_counts_alone():
    memory = Memory()
    memory.allocate("a", 1)
    assert memory.free_name("a") == "a 2"
    other = memory.copy()
    assert other.free_name("a") == memory.free_name("a") == "a 3"


def test_a_version_counts_what_is_mapped_and_freed():
    memory = Memory()
    base = memory.allocate("a", 1)
    memory.write(base, b"\1")
    assert memory.version == 1
    memory.allocate("b", 1)
    memory.free(base)
    assert memory.version == 3


def test_bytes_of_shared_memory_are_where_other_code_of_this_process_finds_them():
    import ctypes

    memory = SharedMemory(1 << 16)
    base = memory.allocate("a", 8)
    memory.write(base, b"in place")
    assert ctypes.string_at(memory.process_address + base - memory.first, 8) == b"in place"
    memory.close()


# Output and allocations of kernels


def test_the_runtime_finds_its_memories_by_its_variables():
    memory = Memory()
    at = memory.allocate("variables", 64)
    variables = {OUTPUT: at, HEAP: at + 32}
    assert allot(memory, variables, None, None) == at
    output, heap = memory.regions[OUTPUT_MEMORY], memory.regions[HEAP_MEMORY]
    assert (output[1], heap[1]) == (OUTPUT_DEFAULT, HEAP_DEFAULT) == (1 << 20, 8 << 20)
    words = [memory.read_number(at + 8 * index, 8) for index in range(8)]
    assert words == [*output, 0, 0, *heap, 0, 0]
    assert output_range(memory, at) == (output[0], 0)
    memory.write_number(at + 16, 8, 100)
    assert output_range(memory, at) == (output[0], 100)
    memory.write_number(at + 16, 8, 1 << 30)
    assert output_range(memory, at) == (output[0], 1 << 20)
    memory.write_number(at + 24, 8, 5)
    empty_output(memory, at)
    assert [memory.read_number(at + 8 * index, 8) for index in range(8)] == words


@pytest.mark.parametrize(("name", "output", "heap"), [(OUTPUT, 64, None), (HEAP, None, 128)])
def test_a_program_has_only_the_memories_that_it_uses_and_of_the_size_that_is_asked_for(
    name, output, heap
):
    memory = Memory()
    at = memory.allocate("variables", 32)
    assert allot(memory, {name: at}, output, heap, lambda region: f"my {region}") == (
        at if name == OUTPUT else None
    )
    (made,) = memory.regions.keys() - {"variables"}
    assert made == f"my {OUTPUT_MEMORY if name == OUTPUT else HEAP_MEMORY}"
    assert memory.regions[made][1] == sum(filter(None, (output, heap)))


# Arguments


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["u", "s", "b"])
def test_a_whole_number_has_the_range_of_its_type(kind, size):
    name, bits = f"{kind}{8 * size}", 8 * size
    lowest = -(1 << bits - 1) if kind == "s" else 0
    highest = lowest + (1 << bits) - 1
    for value in (lowest, highest, 0):
        assert parse_argument(f"{name}:{value}") == Scalar(value, size, name)
        sign = "-" if value < 0 else ""
        assert parse_argument(f"{name}:{sign}{abs(value):#x}") == Scalar(value, size, name)
    for value in (lowest - 1, highest + 1):
        with pytest.raises(ArgumentError, match=rf": {name} holds {lowest} to {highest}$"):
            parse_argument(f"{name}:{value}")


def test_a_structure_is_laid_out_as_in_c():
    """Members are aligned to their size, nested structures to their largest member, and the size of
    a structure likewise.
    """
    spelled = (
        "struct:u8=1,u32=2,u16=3,struct(u8=4,u64=5),u8=6,buf:a=u8[3],struct(u16=7,buf:b=u8[1]),u8=8"
    )
    argument = parse_argument(spelled)
    expected = bytearray(72)
    for at, value in ((0, 1), (4, 2), (8, 3), (16, 4), (24, 5), (32, 6), (48, 7), (64, 8)):
        expected[at] = value
    assert argument == Structure(
        bytes(expected), ((40, Buffer("a", bytes(3), "u8")), (56, Buffer("b", bytes(1), "u8")))
    )
    placed = argument_bytes(argument, {"a": 0x1_0203_0405, "b": 9})
    expected[40:48] = 0x1_0203_0405.to_bytes(8, "little")
    expected[56] = 9
    assert placed == expected


@pytest.mark.parametrize(
    "text", ["struct:(u8=1", "struct:u8=1)", "struct:struct(u8=1", "struct:u8=1,)"]
)
def test_parentheses_of_a_structure_match(text):
    with pytest.raises(ArgumentError):
        parse_argument(text)


@pytest.mark.parametrize(
    ("expected", "argument", "fits"),
    [
        ("u32", Scalar(1, 4, "s32"), True),
        ("u32", Scalar(1, 4, "f32"), False),
        ("f32", Scalar(1, 4, "f32"), True),
        ("f32", Scalar(1, 4, "u32"), False),
        ("f32", Scalar(1, 4, "b32"), True),
        ("b32", Scalar(1, 4, "f32"), True),
        ("f32", Scalar(1, 4), True),
        (None, Scalar(1, 4, "f32"), True),
        ("u64", Buffer("a", b"1"), True),
        ("b64", Buffer("a", b"1"), True),
        ("f64", Buffer("a", b"1"), False),
        ("f64", Structure(bytes(8)), True),
    ],
)
def test_a_floating_point_number_is_no_integer_and_bits_are_both(expected, argument, fits):
    size = len(argument_bytes(argument, {"a": 1}))
    parameters = [EntryParameter(0, 0, size, expected)]
    if fits:
        assert parameter_block([argument], parameters, {"a": 1}, "k")
    else:
        with pytest.raises(ProgramError, match=rf"^k, argument 1: expected {expected}, got "):
            parameter_block([argument], parameters, {"a": 1}, "k")


def test_parameters_are_where_the_kernel_says_in_the_order_of_their_numbers():
    parameters = [EntryParameter(1, 0, 4), EntryParameter(0, 8, 2), EntryParameter(2, 16, 1)]
    arguments: list[Argument] = [Scalar(0x201, 2), Scalar(3, 4), Scalar(4, 1)]
    block = parameter_block(arguments, parameters, {}, "k")
    assert block == bytes([3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 4])
    assert parameter_block([], [], {}, "k") == b""
    wrong_sizes: list[Argument] = [Scalar(1, 2), Scalar(3, 8), Scalar(4, 1)]
    for given, message in (
        (arguments[:2], r"k takes 3 arguments \(2, 4, 1 bytes\), not 2"),
        (wrong_sizes, r"k, argument 2: expected 4 bytes, got 8"),
    ):
        with pytest.raises(ProgramError, match=f"^{message}$"):
            parameter_block(given, parameters, {}, "k")
    for size, told in ((1, "1 byte"), (2, "2 bytes")):
        with pytest.raises(ProgramError, match=rf"^k takes 1 argument \({told}\), not 0$"):
            parameter_block([], [EntryParameter(0, 0, size)], {}, "k")


def test_two_buffers_do_not_have_one_name():
    with pytest.raises(ProgramError, match=r"^k\.sass: two buffers are called a$"):
        place_buffers(
            [Buffer("a", b"1"), Structure(bytes(8), ((0, Buffer("a", b"2")),))],
            Memory(),
            "k.sass",
        )
