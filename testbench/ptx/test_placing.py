"""Memory layout of a program in the PTX interpreter: variables, arguments, functions; and values of
special registers.
"""

import pytest

from sim.launch import Buffer, Scalar
from sim.model.ptx.launch import place
from sim.model.ptx.run import run
from sim.toolchain.module import ProgramError
from testbench.ptx.text import END, KERNEL, kernel, module_of, words_left


def test_variables_lie_at_multiples_of_their_alignment():
    variables = """.const .u8 c0; .const .u32 c1; .const .u8 c2; .const .align 16 .u8 c3;
        .global .u8 g0; .global .align 64 .u32 g1; .global .u16 g2;"""
    launch = place(module_of(f"{variables} .visible .entry k() {{ ret; }}"))
    at = launch.addresses
    assert [at[f"c{number}"] for number in range(4)] == [0, 4, 8, 16]
    assert len(launch.constants) == 17
    assert at["g1"] - at["g0"] == 64
    assert at["g2"] - at["g1"] == 4
    assert at["g0"] % 256 == launch.constant_base % 256 == 0


def test_shared_variables_of_a_kernel_come_first_and_those_without_a_size_last():
    body = """.extern .shared .b8 d[]; .shared .u8 s0; .shared .align 8 .b8 s1[12];
        .visible .entry k() { .reg .u32 r; st.shared.u8 [s0], r; st.shared.u8 [s1], r; st.shared.u8 [d], r; ret; }
        .shared .b8 other[100]; .visible .entry l() { .reg .u32 r; st.shared.u8 [other], r; ret; }"""
    launch = place(module_of(body), entry="k", dynamic_shared=40)
    at = launch.addresses
    assert [at["s0"], at["s1"], at["d"]] == [0, 8, 32]
    assert (launch.shared, launch.dynamic) == (72, 40)
    assert at["other"] == 32  # has no address
    other = place(module_of(body), entry="l")
    assert (other.addresses["other"], other.shared) == (0, 100)


def test_local_variables_of_the_module_are_in_each_threads():
    header = ".version 2.3\n.target sm_20\n.address_size 64\n"
    launch = place(module_of(".local .u8 l0; .local .u32 l1[3]; .entry k() { ret; }", header))
    offsets, size = launch.local_offsets
    assert {variable.name: offset for variable, offset in offsets.items()} == {"l0": 0, "l1": 4}
    assert size == 16


def test_arguments_have_places_in_a_block():
    text = ".visible .entry k(.param .u8 a, .param .u64 b, .param .u16 c, .param .align 16 .b8 d[20]) { ret; }"
    arguments = [Scalar(0x12, 1), Scalar(0x1122334455667788, 8), Scalar(0x3456, 2), Scalar(7, 20)]
    launch = place(module_of(text), arguments)
    assert list(launch.parameter_offsets.values()) == [0, 8, 16, 32]
    assert launch.parameters == (
        b"\x12",
        bytes.fromhex("8877665544332211"),
        b"\x56\x34",
        b"\7" + bytes(19),
    )
    block = launch.parameter_block
    assert len(block) == 52
    assert (block[0], block[8], block[16:18], block[32]) == (0x12, 0x88, b"\x56\x34", 7)


def test_functions_have_addresses_32_apart():
    launch = place(module_of(".func f() { ret; } .func g() { ret; } .entry k() { ret; }"))
    assert [launch.addresses[name] for name in "fgk"] == [32, 64, 96]


def test_first_values_are_addresses_and_parts_of_them():
    text = """.const .u32 c = 5; .global .u32 v[4] = {1, 2, -3}; .global .u64 p[2] = {v+4, generic(c)+4};
        .global .u8 b[3] = {0xff(v), 0xff00(v), 0xff0000000000(v)}; .entry k() { ret; }"""
    launch = place(module_of(text))
    at, memory = launch.addresses, launch.memory
    numbers = [memory.read_number(at["v"] + 4 * index, 4) for index in range(4)]
    assert numbers == [1, 2, 0xFFFF_FFFD, 0]
    assert memory.read_number(at["p"], 8) == at["v"] + 4
    assert memory.read_number(at["p"] + 8, 8) == launch.constant_base + 4
    assert memory.read(at["b"], 3) == bytes(at["v"] >> shift & 0xFF for shift in (0, 8, 40))
    assert memory.read_number(launch.constant_base, 4) == 5
    assert launch.constants == b"\5\0\0\0"


def test_buffers_are_in_memory_with_their_content():
    launch = place(module_of(KERNEL + END), [Buffer("o", b"abcdefgh")])
    base, size = launch.buffers["o"]
    assert launch.memory.read(base, size) == b"abcdefgh"
    assert launch.parameters == (base.to_bytes(8, "little"),)


@pytest.mark.parametrize(
    ("text", "entry", "message"),
    [
        (".func f() { ret; }", None, "t.ptx: which entry? It has none"),
        (".entry b() { ret; } .entry a() { ret; }", None, "t.ptx: which entry? It has a, b"),
        (".entry a() { ret; } .func f() { ret; }", "f", "t.ptx: no entry f; it has a"),
    ],
)
def test_an_entry_that_is_not_there_is_refused(text, entry, message):
    with pytest.raises(ProgramError) as caught:
        place(module_of(text), entry=entry)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("bounds", "block", "message"),
    [
        (".maxntid 32, 2, 1", (64, 1, 1), None),
        (".maxntid 32, 2, 1", (65, 1, 1), "at most 64 threads"),
        (".reqntid 32, 2, 1", (32, 2, 1), None),
        (".reqntid 32, 2, 1", (64, 1, 1), "(32, 2, 1)"),
    ],
)
def test_blocks_that_an_entry_does_not_take_are_refused(bounds, block, message):
    module = module_of(f".entry k() {bounds} {{ ret; }}")
    if message is None:
        assert place(module, block=block).block == block
        assert place(module, block=block).threads == 64
        return
    with pytest.raises(ProgramError) as caught:
        place(module, block=block)
    assert str(caught.value).startswith("t.ptx: entry k ")


# Special registers


@pytest.mark.parametrize(
    ("register", "expected"),
    [
        ("%laneid", lambda t: t % 32),
        ("%warpid", lambda t: t // 32),
        ("%nwarpid", lambda t: 64),
        ("%smid", lambda t: 0),
        ("%nsmid", lambda t: 1),
        ("%lanemask_eq", lambda t: 1 << t % 32),
        ("%lanemask_lt", lambda t: (1 << t % 32) - 1),
        ("%lanemask_le", lambda t: (2 << t % 32) - 1),
        ("%lanemask_gt", lambda t: 0xFFFF_FFFF & ~((2 << t % 32) - 1)),
        ("%lanemask_ge", lambda t: 0xFFFF_FFFF & ~((1 << t % 32) - 1)),
        ("%envreg3", lambda t: 0),
        ("%pm0", lambda t: 0),
        ("%dynamic_smem_size", lambda t: 0),
    ],
)
def test_a_special_register_of_each_thread(register, expected):
    found = kernel(f"mov.u32 r0, {register};", block=40, words=40)
    assert found == [expected(t) for t in range(40)]


def test_a_grid_has_a_number():
    assert kernel("mov.u64 d2, %gridid; cvt.u32.u64 r0, d2;", block=1) == [1]


def test_sizes_of_shared_memory_are_those_of_the_launch():
    body = ".shared .b8 s[5]; st.shared.u8 [s], 1; mov.u32 r0, %total_smem_size; mov.u32 r1, %dynamic_smem_size; "
    body += "mad.lo.u32 r0, r1, 100000, r0;"
    launch = place(
        module_of(KERNEL + body + END), [Buffer("o", bytes(4))], block=(1, 1, 1), dynamic_shared=300
    )
    run(launch)
    assert launch.memory.read_number(launch.buffers["o"][0], 4) == 300 * 100000 + 512


def test_clocks_count_instructions():
    text = f"{KERNEL} mov.u32 r1, %clock; mov.u32 r2, %clock; mov.u64 d2, %clock64; mov.u32 r4, %globaltimer_lo; "
    text += "cvt.u32.u64 r3, d2; st.global.v4.u32 [d0], {r1, r2, r3, r4}; ret; }"
    first, second, third, fourth = words_left(text, block=1)[:4]
    assert 0 < first < second < third < fourth <= first + 4


def test_positions_in_a_block_and_a_grid():
    names = [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    stores = "".join(
        f"mov.u32 r1, {name}; st.global.u32 [d1+{4 * at}], r1; " for at, name in enumerate(names)
    )
    text = f"""{KERNEL} mov.u32 r2, %tid.y; mov.u32 r3, %tid.z; mad.lo.u32 r2, r3, 3, r2; mad.lo.u32 r2, r2, 2, t;
        mov.u32 r4, %ctaid.x; mov.u32 r5, %ctaid.z; mad.lo.u32 r4, r5, 2, r4; mad.lo.u32 r2, r4, 24, r2;
        mul.wide.u32 d1, r2, 48; add.u64 d1, d0, d1; {stores} ret; }}"""
    launch = place(
        module_of(text), [Buffer("o", bytes(48 * 24 * 4))], block=(2, 3, 4), grid=(2, 1, 2)
    )
    run(launch)
    base = launch.buffers["o"][0]
    number = 0
    for cz in range(2):
        for cx in range(2):
            for z in range(4):
                for y in range(3):
                    for x in range(2):
                        found = [
                            launch.memory.read_number(base + 48 * number + 4 * at, 4)
                            for at in range(12)
                        ]
                        assert found == [x, y, z, 2, 3, 4, cx, 0, cz, 2, 1, 2]
                        number += 1
