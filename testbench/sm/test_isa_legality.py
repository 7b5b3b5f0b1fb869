"""The instructions that the machine refuses, and that no compiled code has them."""

import pytest

from rtl.isa.conversion import DOUBLE_WORD
from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicType, FloatFormat
from rtl.isa.legality import REFUSALS, encoding_error, lacks, refusal_of
from rtl.isa.syntax import RZ
from rtl.isa.table import find
from sim.toolchain.assembly.spelling import ILLEGAL, spell
from sim.toolchain.cubin.loader import read_cubin
from testbench.execute.refused import refused_words
from testbench.handmade import encode
from testbench.kernels.manifest import LEVELS, RUNS, cubin
from testbench.toolchain.test_words import rows

CASES = [
    (refusal, name, code)
    for refusal in REFUSALS
    for name in refusal.names
    for code in sorted(refusal.codes)
]


@pytest.mark.parametrize(
    ("refusal", "name", "code"), CASES, ids=[f"{name}-{code}" for _, name, code in CASES]
)
def test_refusals_are_of_words_that_have_a_text(refusal, name, code):
    """A word that NVIDIA's disassembler prints is refused with this code in its field, although the
    changed word has a text.
    """
    spelled = 0
    for word in {word for word, _, text in rows() if text != ILLEGAL}:
        form = find(word)
        if (
            form is not None
            and form.name == name
            and refusal.variant in (None, form.variant)
            and refusal.field in form.fields
        ):
            changed = form.fields[refusal.field].put(word, code)
            if refusal.beside is not None:
                changed = form.fields[refusal.beside[0]].put(changed, refusal.beside[1])
            if find(changed) is form:
                values = form.values(changed)
                assert refusal_of(form, values) is not None
                assert encoding_error(changed, RZ) is WarpError.ILLEGAL_INSTR_ENCODING
                spelled += not form.refuses(values)
    assert spelled


@pytest.mark.parametrize("variant", ["r", "c"])
def test_numbers_of_64_bits_come_from_registers_and_constants(variant):
    for signed in (0, 4):
        assert (
            encoding_error(encode("I2F", variant, source=DOUBLE_WORD | signed, destination=2), RZ)
            is WarpError.NONE
        )
    assert (
        encoding_error(encode("F2I", variant, source=FloatFormat.F64.value, destination=2), RZ)
        is WarpError.NONE
    )


@pytest.mark.parametrize("name", ["ATOM", "RED"])
def test_sums_of_floats_are_floating_point(name):
    """A machine without floating point refuses them. Other atomic operations on floats are
    undefined.
    """
    word, plain = (
        encode(name, type=kind, operation=0)
        for kind in (AtomicType.F32.value, AtomicType.U32.value)
    )
    form = find(word)
    assert form is not None
    assert lacks(form, form.values(word), floats=False, doubles=False) is not None
    assert lacks(form, form.values(plain), floats=False, doubles=False) is None
    assert [encoding_error(word, RZ, floats) for floats in (False, True)] == [
        WarpError.ILLEGAL_INSTR_ENCODING,
        WarpError.NONE,
    ]
    for operation in range(1, 8):
        other = encode(name, type=AtomicType.F32.value, operation=operation)
        assert encoding_error(other, RZ) is WarpError.ILLEGAL_INSTR_ENCODING


def test_what_belongs_to_graphics_is_refused():
    assert encoding_error(encode("VOTE.VTG"), RZ) is WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize("kernel", sorted({run.kernel for run in RUNS.values()}))
@pytest.mark.parametrize("level", LEVELS)
def test_compiled_code_has_nothing_that_is_refused(kernel, level):
    assert refused_words(read_cubin(cubin(kernel, level))) == []


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x5C403800003705FF, "LOP.AND.X.NZ P0, RZ, R5, R3"),
        (0x5C403A00003705FF, "LOP.OR.X.NZ P0, RZ, R5, R3"),
        (0x5C403900003705FF, "LOP.AND.X.NZ P0, RZ, R5, ~R3"),
        (0x38403801000703FF, "LOP.AND.X.NZ P0, RZ, R3, 0x1000"),
        (0x4C403800055703F7, "LOP.AND.X.NZ P0, R247, R3, c[0x0][0x154]"),
    ],
)
def test_tests_of_64_bits_are_instructions(word, text):
    """NVIDIA's assembler emits them at -O3."""
    assert encoding_error(word, 256) is WarpError.NONE
    assert spell(word, 0, 0).rstrip(";") == text


@pytest.mark.parametrize(
    ("word", "registers", "error"),
    [
        (0, 32, WarpError.ILLEGAL_INSTR_ENCODING),
        (encode("SHL", "r", Rd=40, extended=1), 32, WarpError.ILLEGAL_INSTR_ENCODING),
        (encode("MOV", "r", Rd=31, Rb=RZ), 32, WarpError.NONE),
        (encode("MOV", "r", Rd=31, Rb=RZ), 31, WarpError.OOR_REG),
        (encode("LDG", Rd=31, Ra=2, size=5), 32, WarpError.OOR_REG),
        (encode("LDG", Rd=29, Ra=2, size=5), 32, WarpError.MISALIGNED_REG),
        (encode("LDG", Rd=28, Ra=2, size=5), 32, WarpError.NONE),
        (encode("LDG", Rd=RZ, Ra=RZ, size=6, wide=1), 32, WarpError.NONE),
    ],
)
def test_the_first_error_that_applies(word, registers, error):
    assert encoding_error(word, registers) is error
