"""Selection of instructions without a result in memory to compare: special registers, and addresses
of spaces.

Offsets in bank 0 and fields of registers are those that NVIDIA's assembler reads.
"""

import pytest

from sim.toolchain.compiler.ir import Function, Value
from sim.toolchain.compiler.layout import MemoryLayout
from sim.toolchain.compiler.select.builder import Builder
from sim.toolchain.compiler.select.special_registers import source_words
from sim.toolchain.ptx.module import PtxSpecialRegister, Type
from testbench.compiler.passes import after


def selected(body: str) -> list[str]:
    """Returns the operations selected for a body."""
    first, *lines, last = after(body).strip().splitlines()
    assert (first, last) == ("B0:", "  exit")
    return [line.strip() for line in lines]


_AXES = "xyz"
CONSTANT_REGISTERS = {
    **{f"%ntid.{axis}": 0x08 + 4 * at for at, axis in enumerate(_AXES)},
    **{f"%nctaid.{axis}": 0x14 + 4 * at for at, axis in enumerate(_AXES)},
    **{f"%envreg{at}": 0x30 + 4 * at for at in (0, 1, 3, 31)},
    "%dynamic_smem_size": 0xFC,
}


@pytest.mark.parametrize("register", CONSTANT_REGISTERS)
def test_what_the_driver_knows_is_read_of_its_constants(register):
    assert selected(f"mov.u32 a, {register};") == [
        f"%v1 = MOV c[0x0][{CONSTANT_REGISTERS[register]:#x}]"
    ]


MACHINE_REGISTERS = {
    **{
        f"%{name}.{axis}": f"SR_{name.upper()}.{axis.upper()}"
        for name in ("tid", "ctaid")
        for axis in _AXES
    },
    "%laneid": "SR_LANEID",
    "%lanemask_eq": "SR_EQMASK",
    "%lanemask_lt": "SR_LTMASK",
    "%lanemask_le": "SR_LEMASK",
    "%lanemask_gt": "SR_GTMASK",
    "%lanemask_ge": "SR_GEMASK",
    "%total_smem_size": "SR_SMEMSZ",
}


@pytest.mark.parametrize("register", MACHINE_REGISTERS)
def test_what_the_machine_knows_is_a_special_register(register):
    assert selected(f"mov.u32 a, {register};") == [
        f"%v1 = S2R special={MACHINE_REGISTERS[register]}",
        "%v2 = MOV %v1",
    ]


@pytest.mark.parametrize(
    ("register", "special", "field"),
    [
        ("%warpid", "SR_VIRTID", 0x608),
        ("%smid", "SR_VIRTID", 0x914),
        ("%nsmid", "SR_VIRTCFG", 0x914),
    ],
)
def test_a_number_of_a_place_is_a_field_of_a_register(register, special, field):
    assert selected(f"mov.u32 a, {register};") == [
        f"%v1 = S2R special={special}",
        f"%v2 = BFE.U32 %v1, {field:#x}",
        "%v3 = MOV %v2",
    ]


COUNTERS = {
    "%clock": "SR_CLOCKLO",
    "%clock_hi": "SR_CLOCKHI",
    "%globaltimer_lo": "SR_GLOBALTIMERLO",
    "%globaltimer_hi": "SR_GLOBALTIMERHI",
    "%pm0": "SR_PM0",
    "%pm7": "SR_PM7",
}


@pytest.mark.parametrize("register", COUNTERS)
def test_a_counter_of_one_word_is_read_once(register):
    assert selected(f"mov.u32 a, {register};") == [
        f"%v1 = CS2R special={COUNTERS[register]}",
        "%v2 = MOV %v1",
    ]


@pytest.mark.parametrize(
    ("register", "lower", "upper"),
    [
        ("%clock64", "SR_CLOCKLO", "SR_CLOCKHI"),
        ("%globaltimer", "SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI"),
        ("%pm0_64", "SR_PM0", "SR_PM_HI0"),
        ("%pm5_64", "SR_PM5", "SR_PM_HI5"),
    ],
)
def test_the_upper_word_of_a_counter_is_read_again_unless_the_lower_one_is_large(
    register, lower, upper
):
    """A lower word that has just wrapped around is small: then the upper word, which was read
    before, is stale.
    """
    assert selected(f"mov.u64 e, {register};") == [
        f"%v1 = CS2R special={upper}",
        f"%v2 = CS2R special={lower}",
        "%p1, _ = ISETP.LT.AND %v2, 0x0, 0x1",
        f"@~%p1 %v1 = CS2R special={upper}",
        "%v3 = MOV %v2",
        "%v4 = MOV %v1",
    ]


def test_numbers_that_are_known():
    assert selected("mov.u32 a, %nwarpid;") == ["%v1 = MOV 0x40"]
    assert selected("mov.u64 e, %current_graph_exec;") == ["%v1 = MOV 0x0", "%v2 = MOV 0x0"]
    assert selected("mov.u64 e, %gridid;") == ["%v1 = MOV c[0x0][0x28]", "%v2 = MOV c[0x0][0x2c]"]


# Addresses


@pytest.mark.parametrize(("space", "window"), [("shared", 0x0), ("local", 0x4)])
def test_a_window_is_added_to_an_address_and_cut_off_it(space, window):
    assert selected(f"cvta.{space}.u64 e, f;") == [
        f"%v2 = IADD %v1, c[0x0][{window:#x}]",
        "%v3 = MOV %v2",
        "%v4 = MOV 0x0",
    ]
    assert selected(f"cvta.to.{space}.u32 a, b;") == [
        "%v2 = LOP.AND %v1, 0xffffff",
        "%v3 = MOV %v2",
    ]


def test_addresses_of_constants_count_from_where_the_driver_has_put_them():
    assert selected("cvta.const.u32 a, b;") == ["%v2 = IADD %v1, c[0x0][0xd0]", "%v3 = MOV %v2"]
    assert selected("cvta.to.const.u32 a, b;") == ["%v2 = IADD %v1, -c[0x0][0xd0]", "%v3 = MOV %v2"]
    assert selected("cvta.const.u64 e, f;") == [
        "%v3, %v4 = ADD64 %v1, %v2, c[0x0][0xd0], c[0x0][0xd4]"
    ]
    assert selected("cvta.to.const.u64 e, f;") == [
        "%v3, %v4 = ADD64 %v1, %v2, -c[0x0][0xd0], -c[0x0][0xd4]",
        "%v5 = MOV %v3",
        "%v6 = MOV %v4",
    ]


def test_a_global_address_is_a_generic_one():
    for instruction in ("cvta.global.u64 e, f;", "cvta.to.global.u64 e, f;"):
        assert selected(instruction) == ["%v2 = MOV %v1", "%v4 = MOV %v3"]


@pytest.mark.parametrize(("space", "window"), [("shared", 0x0), ("local", 0x4)])
def test_an_address_is_in_a_window_of_16_mib_below_4_gib(space, window):
    assert selected(f"isspacep.{space} p, e;") == [
        "%v2 = LOP.AND %v1, 0xff000000",
        f"%p1, _ = ISETP.EQ.U32.AND %v2, c[0x0][{window:#x}], 0x1",
        "%p2, _ = ISETP.EQ.U32.AND %v3, 0x0, %p1",
        "%p3, _ = PSETP.AND.AND %p2, 0x1, 0x1",
    ]


def test_a_global_address_is_in_no_window_and_not_among_the_constants():
    assert selected("isspacep.global p, e;") == [
        "%v2 = LOP.AND %v1, 0xff000000",
        "%p1, _ = ISETP.EQ.U32.AND %v2, c[0x0][0x0], 0x1",
        "%p2, _ = ISETP.EQ.U32.AND %v3, 0x0, %p1",
        "%v4 = LOP.AND %v1, 0xff000000",
        "%p3, _ = ISETP.EQ.U32.AND %v4, c[0x0][0x4], 0x1",
        "%p4, _ = ISETP.EQ.U32.AND %v3, 0x0, %p3",
        "%v5, %v6 = ADD64 %v1, %v3, -c[0x0][0xd0], -c[0x0][0xd4]",
        "%p5 = SETP64 %v5, %v6, 0x0, 0x0",
        "%p6, _ = PSETP.AND.AND ~%p2, ~%p4, ~%p5",
    ]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("0x10", "0x10, 0x0"),
        ("0xffffffff", "0xffffffff, 0x0"),
        ("-16", "0xfffffff0, 0xffffffff"),
        ("-0x80000000", "0x80000000, 0xffffffff"),
    ],
)
def test_an_address_that_is_a_number_has_its_sign_in_the_upper_word(address, words):
    assert selected(f"ld.global.u32 a, [{address}];")[0] == f"%v1 = LDG.E {words}"


@pytest.mark.parametrize(
    ("conversion", "words"),
    [
        ("cvt.u32.u32 a, %tid.x; st.shared.u32 [16], a;", "STS 0x0, %v2, +0x10"),
        ("cvt.u64.u32 e, %tid.x; st.shared.u64 [16], e;", "STS.64 0x0, %v2, %v3, +0x10"),
        ("cvt.u32.u64 a, %clock64; st.shared.u32 [16], a;", "STS 0x0, %v3, +0x10"),
        ("cvt.u64.u64 e, %clock64; st.shared.u64 [16], e;", "STS.64 0x0, %v3, %v4, +0x10"),
    ],
)
def test_a_special_register_is_extended_by_zeros_or_cut(conversion, words):
    *moves, last = selected(conversion)
    assert last == words
    is_extended = "u64.u32" in conversion
    assert (moves[-1] == "%v3 = MOV 0x0") == is_extended
    assert sum(" = MOV " in line for line in moves) == words.count("%v")


def test_a_special_register_of_32_bits_has_no_more_words_than_its_reader():
    """It is read as 16 or 32 bits by one word, as 64 bits by two."""
    for name, component in (("tid", "x"), ("laneid", ""), ("clock64", ""), ("gridid", "")):
        register = PtxSpecialRegister(name, component)
        for kind, count in ((Type.U16, 1), (Type.U32, 1), (Type.U64, 2)):
            made = Builder(Function("k", True, []), MemoryLayout(), {}, Value("stack"))
            assert len(source_words(made, register, kind)) == count


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        # The last word of a vector may be beyond the range of an offset.
        ("i+32756", ["LDC.64 %v1, bank=0x3, +0x7ff4", "LDC.64 %v1, bank=0x3, +0x7ffc"]),
        ("i+32760", ["IADD %v1, 0x7ff8", "LDC.64 %v2, bank=0x3", "LDC.64 %v2, bank=0x3, +0x8"]),
        ("i+32764", ["IADD %v1, 0x7ffc", "LDC.64 %v2, bank=0x3", "LDC.64 %v2, bank=0x3, +0x8"]),
        ("i+32768", ["IADD %v1, 0x8000", "LDC.64 %v2, bank=0x3", "LDC.64 %v2, bank=0x3, +0x8"]),
        ("i-32768", ["LDC.64 %v1, bank=0x3, +-0x8000", "LDC.64 %v1, bank=0x3, +-0x7ff8"]),
        # An access at a known offset is a constant operand, up to the end of the bank.
        ("32768", [f"MOV c[0x3][{0x8000 + at:#x}]" for at in (0, 4, 8, 12)]),
        ("65520", [f"MOV c[0x3][{0xFFF0 + at:#x}]" for at in (0, 4, 8, 12)]),
        ("65524", ["LDC.64 0x0, bank=0x3, +0xfff4", "LDC.64 0x0, bank=0x3, +0xfffc"]),
    ],
)
def test_a_vector_of_constants_is_read_at_its_place(place, lines):
    found = selected(f"ld.const.v4.u32 {{a, b, c, d}}, [{place}];")
    assert [line.split(" = ")[1] for line in found if "MOV %" not in line] == lines


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        ("i+32767", ["LDC.64 %v1, bank=0x3, +0x7fff"]),
        ("i+32768", ["IADD %v1, 0x8000", "LDC.64 %v2, bank=0x3"]),
        ("40000", ["MOV c[0x3][0x9c40]", "MOV c[0x3][0x9c44]"]),
        ("40001", ["LDC.64 0x0, bank=0x3, +0x9c41"]),
    ],
)
def test_two_words_of_constants_are_read_at_once(place, lines):
    found = selected(f"ld.const.v2.u32 {{a, b}}, [{place}];")
    assert [line.split(" = ")[1] for line in found if "MOV %" not in line] == lines
