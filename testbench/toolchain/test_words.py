"""Instruction words and their texts, in both directions.

The words of ``data/toolchain_words.txt`` were printed by NVIDIA's disassembler: examples of every
instruction, random words of every form, and words that it refuses.
"""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Token

from rtl.isa.syntax import Form
from rtl.isa.table import FORMS, find
from sim.toolchain.assembly.encoding import encode
from sim.toolchain.assembly.source import SassInstruction, SourceError, parse
from sim.toolchain.assembly.spelling import ILLEGAL, spell
from testbench.words import NOP, code, form_of

DATA = Path(__file__).parents[1] / "data" / "toolchain_words.txt"
CHUNKS = 16


def rows() -> list[tuple[int, int, str]]:
    """Returns word, address and text of every line."""
    lines = (
        line.split(" ", 2) for line in DATA.read_text().splitlines() if not line.startswith("#")
    )
    return [(int(word, 16), int(address, 16), text) for word, address, text in lines]


class NoNames:
    """Code without any names."""

    def value(self, name: Token) -> int:
        raise SourceError(name, f"{name} is not defined")

    target = value


def assembled(text: str, address: int = 0) -> int:
    (node,) = parse(text)
    assert isinstance(node, SassInstruction)
    return encode(node, address, NoNames()).word


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_words_are_spelled_as_nvidia_does(chunk):
    for word, address, text in rows()[chunk::CHUNKS]:
        assert spell(word, address) == text, f"{word:#018x}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_texts_assemble_to_words_of_the_same_text(chunk):
    for _, address, text in rows()[chunk::CHUNKS]:
        if text != ILLEGAL:
            assert spell(assembled(text, address), address) == text


@pytest.mark.parametrize(
    ("legal", "text", "illegal"),
    [
        # an undefined operation, register or offset
        (
            0xEF60000000070409,
            "CCTL.RSLB [R4]",
            (0xEF60000000070408, 0xEF6000000007040A, 0xEF6000000007040F),
        ),
        (0xEF6000000007FF06, "CCTL.IVALL", (0xEF60000000070406, 0xEF6000000047FF06)),
        (
            0xEF80000000070404,
            "CCTLL.WB [R4]",
            (0xEF80000000070400, 0xEF8000000007040A, 0xEF88000000070404),
        ),
        (
            0xEF8000000007FF06,
            "CCTLL.IVALL",
            (0xEF80000000070406, 0xEF8000000007FF16, 0xEF8000000047FF06),
        ),
        (0xEF8000000007FF18, "CCTLL.CRS.WBALL", (0xEF80000000070418, 0xEF8000000047FF18)),
        (0xF0B8E0010007FF05, "B2R.RESULT R5", (0xF0B8E00100070205,)),
        (0xF0B800020007FF05, "B2R.WARP R5", (0xF0B8000200070205,)),
        # undefined modes, and predicates of a barrier that has none
        (
            0xF0A81B8300070000,
            "BAR.SCAN 0x0, 0x0, PT",
            (0xF0A81B8500070000, 0xF0A81B8600070000, 0xF0A81B8700070000),
        ),
        (0xF0A81B8000070000, "BAR.SYNC 0x0", (0xF0A8180000070000, 0xF0A81F8000070000)),
        (0xF0A81B8108070400, "BAR.ARV 0x4, 0x80", (0xF0A8180108070400, 0xF0A81F8108070400)),
        (
            0xF0A803840FF70000,
            "BAR.SYNCALL",
            (0xF0A800040FF70000, 0xF0A807840FF70000, 0xF0A8038400070000),
        ),
        # bits between the opcode and its fields
        (0x010000000087F002, "MOV32I R2, 0x8", (0x011000000087F002, 0x018000000087F002)),
        (0x1D80000000170000, "IADD32I.PO R0, R0, 0x1", (0x1C80000000170000,)),
        # the layout of the operands that are compared and swapped in
        (0xEEF1000000470200, "ATOM.E.CAS R0, [R2], R4, R5", (0xEEFD000000470200,)),
        (
            0xEE4000000027FF00,
            "ATOMS.CAS R0, [RZ], R2, R3",
            (0xEE4000003027FF00, 0xEE6000000027FF00, 0xEE7000000027FF00),
        ),
    ],
)
def test_illegal_combinations_beside_a_legal_one(legal, text, illegal):
    assert spell(legal) == text
    assert [spell(word) for word in illegal] == [ILLEGAL] * len(illegal)


def test_every_special_register_and_test_is_legal():
    """All numbers of special registers and all codes of condition tests are legal, and their texts
    are distinct.
    """
    registers = {spell(0xF0C8000000070005 | number << 20) for number in range(256)}
    tests = {spell(0xE300000000070000 | test) for test in range(32)}
    assert (len(registers), len(tests)) == (256, 32) and ILLEGAL not in registers | tests


def test_every_instruction_is_among_the_words():
    spelled = {id(find(word)) for word, _, text in rows() if text != ILLEGAL}
    assert [f"{form.name}:{form.variant}" for form in FORMS if id(form) not in spelled] == []


def spelled_fields(form: Form) -> set[str]:
    """Returns the fields that the text of a form shows."""
    names = {"guard", "guard_not"} & form.fields.keys() | {
        modifier.field for modifier in form.modifiers
    }
    for operand in form.operands.values():
        adjust = getattr(operand, "adjust", None)
        for source in (operand, adjust):
            for attribute in (
                "field",
                "register",
                "offset",
                "wide",
                "negate",
                "bank",
                "index",
                "set_cc",
                "absolute",
                "invert",
                "select",
            ):
                name = getattr(source, attribute, None)
                if isinstance(name, str):
                    names.add(name)
    return names & form.fields.keys()


def is_legal(word: int, form: Form) -> bool:
    """Returns whether a word has this form and is legal on the machine."""
    return find(word) is form and not form.refuses(form.values(word))


@cache
def known_words() -> dict[int, list[int]]:
    """Returns the legal words of the data file, by identity of their form."""
    words: dict[int, list[int]] = {}
    for word, _, text in rows():
        if text != ILLEGAL:
            words.setdefault(id(find(word)), []).append(word)
    return words


def legal_words(form: Form) -> st.SearchStrategy[int]:
    """Returns legal words of a form: one of the data file, with any values in the fields that its
    text shows.

    All fields are changed if the result is legal; otherwise they are changed one at a time,
    skipping values that make the word illegal or give it another form.
    """
    fields = {name: form.fields[name] for name in sorted(spelled_fields(form))}
    values = st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(field.bounds) for name, field in fields.items()}
    )

    def build(known: int, chosen: dict[str, int]) -> int:
        whole = form.default
        for field in fields.values():
            whole = field.put(whole, field.get(known))
        word = whole
        for name, value in chosen.items():
            whole = fields[name].put(whole, value)
            if is_legal(more := fields[name].put(word, value), form):
                word = more
        return whole if is_legal(whole, form) else word

    return st.builds(build, st.sampled_from(known_words()[id(form)]), values)


OF_SEVERAL = ("QNAN", "SNAN", ".PASS")
"""Texts that several codes share."""


def has_twins(word: int, text: str) -> bool:
    """Returns whether other words have the same text: a compare-and-swap with RZ for both values
    has one text for three forms.
    """
    form = form_of(word)
    swaps_zeros = form.variant in ("bb", "bz", "zb") and form.fields["Rb"].get(word) == 255
    return swaps_zeros or any(part in text for part in OF_SEVERAL)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.name}-{form.variant}")
def test_a_random_legal_word_has_a_text_that_assembles_to_it(form):
    @settings(max_examples=25, database=None)
    @given(legal_words(form), st.sampled_from([0x8, 0x10, 0x18, 0x7F8]))
    def check(word: int, address: int) -> None:
        text = spell(word, address)
        assert text != ILLEGAL
        again = assembled(text, address)
        assert spell(again, address) == text
        assert again == word or has_twins(word, text), text

    check()


def test_reuse_is_read_from_the_operands():
    (node,) = parse("IADD3 R0, R1.reuse, R2, R3.reuse")
    assert isinstance(node, SassInstruction)
    encoded = encode(node, 8, NoNames())
    assert encoded.reuse == 0b101
    assert spell(encoded.word, 8, encoded.reuse) == "IADD3 R0, R1.reuse, R2, R3.reuse"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("MOV32I R0, -1", "MOV32I R0, 0xffffffff"),
        ("IADD32I R0, R1, 0xffffffff", "IADD32I R0, R1, -0x1"),
        ("IADD R0, R1, 16", "IADD R0, R1, 0x10"),
        ("LDG.E R0, [R2-8]", "LDG.E R0, [R2+-0x8]"),
        ("IADD3 R0, R1, -2, R2", "IADD3 R0, R1, 0xffffe, R2"),
        ("RTT.POPCRS", "RTT"),
        ("IDE.DI", "IDE"),
        ("BPT.PAUSE_QUIET", "BPT.???6"),
        ("MOV R0,c[0][0x20]", "MOV R0, c[0x0][0x20]"),
        ("LDS R0, [4+4]", "LDS R0, [0x8]"),
        ("BRA 0x40 + 8", "BRA 0x48"),
        ("MOV R0, 0b101", "MOV R0, 0x5"),
        ("LDC R0, c[3][-0x8000+R1]", "LDC R0, c[0x3][R1+-0x8000]"),
    ],
)
def test_another_spelling_assembles_to_the_same_word(text, same):
    assert spell(assembled(text)) == same


@pytest.mark.skipif(
    shutil.which("nvdisasm") is None, reason="nvdisasm, NVIDIA's disassembler, is not on PATH"
)
@pytest.mark.parametrize("chunk", range(4))
def test_nvidia_prints_the_same(chunk, tmp_path):
    """The texts of the data file are printed again."""
    legal = [(word, text) for word, address, text in rows() if text != ILLEGAL and address == 8][
        chunk::4
    ]
    raw = tmp_path / "words.bin"
    raw.write_bytes(code([content for word, _ in legal for content in (word, NOP, NOP)]))
    printed = subprocess.run(
        ["nvdisasm", "-hex", "-ndf", "-novliw", "-b", "SM50", raw],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [
        " ".join(line.split("*/", 1)[1].split(";")[0].split())
        for line in printed.splitlines()
        if line.strip().startswith("/*") and ";" in line
    ]
    ours = [spell(word, 32 * number + 8) for number, (word, _) in enumerate(legal)]
    assert lines[::3] == ours


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("FADD R0, R1, 1.5", "FADD R0, R1, 1.5"),
        ("FADD R0, R1, -2", "FADD R0, R1, -2"),
        ("FADD R0, R1, 0x3f800000", "FADD R0, R1, 1"),
        ("FMUL32I R0, R1, 0.1", "FMUL32I R0, R1, 0.10000000149011611938"),
        ("FADD32I R0, R1, 1e-45", "FADD32I R0, R1, 1.4012984643248170709e-45"),
        ("FFMA32I R0, R1, -INF, R0", "FFMA32I R0, R1, -INF , R0"),
        ("FADD R0, R1, +QNAN", "FADD R0, R1, +QNAN"),
        ("FADD32I R0, R1, -0.0", "FADD32I R0, R1, -0.0"),
        ("FMUL32I R0, R1, 1e9", "FMUL32I R0, R1, 1.00000000000000000000e+09"),
        ("DADD R0, R2, 1.5", "DADD R0, R2, 1.5"),
        ("DMUL R0, R2, 0x3ff0000000000000", "DMUL R0, R2, 1"),
        ("DFMA R0, R2, -INF, R4", "DFMA R0, R2, -INF , R4"),
        ("DADD R0, R2, +SNAN", "DADD R0, R2, +SNAN"),
        ("DSETP.GT.AND P0, PT, R2, +QNAN, PT", "DSETP.GT.AND P0, PT, R2, +QNAN , PT"),
        ("F2F.F32.F16 R0, 1.5", "F2F.F32.F16 R0, 1.5"),
        ("F2F.F32.F16 R0, -INF .NEG", "F2F.F32.F16 R0, -INF .NEG"),
        ("F2F.F32.F64 R0, 0x3ff0000000000000", "F2F.F32.F64 R0, 1"),
        ("F2F.F64.F64 R0, -SNAN", "F2F.F64.F64 R0, -SNAN"),
        ("F2I.S32.F64 R0, -2.5", "F2I.S32.F64 R0, -2.5"),
    ],
)
def test_a_floating_point_number_is_read_and_written_as_nvidia_does(text, same):
    assert spell(assembled(text)) == same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FADD R0, R1, 0.1", "does not fit 20 bits"),
        ("FADD32I R0, R1, 1e39", "1e39 is too large for single precision"),
        ("FADD32I R0, R1, 0x100000000", "0x100000000 does not fit 32 bits"),
        ("DADD R0, R2, 0.1", "does not fit 20 bits"),
        ("DADD R0, R2, 1e309", "1e309 is too large for double precision"),
        ("DADD R0, R2, 0x10000000000000000", "0x10000000000000000 does not fit 64 bits"),
        ("F2F.F32.F16 R0, 65520", "65520 is too large for half precision"),
        ("F2F.F32.F64 R0, 1e999", "1e999 is too large for double precision"),
        ("F2F.F32.F64 R0, 0.1", "does not fit 20 bits"),
        ("FADD32I R0, R1, +SNAN", "SNAN is no floating-point number"),
        ("IADD R0, R1, 1.5", "expected a whole number"),
        ("FADD32I R0, R1, 1+1", "1 is no floating-point number"),
    ],
)
def test_what_is_no_such_number(text, message):
    with pytest.raises(SourceError, match=re.escape(message)):
        assembled(text)


# Numbers, names and positions


class Names:
    """A name's value is its length; a label's value is its position in code."""

    def value(self, name):
        return 4 * len(name)

    def target(self, name):
        return 0x100 * len(name)


def encoded(text, address=0x8):
    """Encodes an instruction of assembly text at an address."""
    (node,) = parse(text)
    assert isinstance(node, SassInstruction)
    return encode(node, address, Names())


def b_field(word):
    """Returns the signed 20-bit constant of an arithmetic instruction."""
    bits = word >> 20 & 0x7FFFF
    return bits - (word >> 56 & 1) * (1 << 19)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0x5", 5),
        ("-0x5", -5),
        ("abc", 12),
        ("-abc", -12),
        ("abc + 1", 13),
        ("abc - 1", 11),
        ("-abc - 1", -13),  # the minus applies to the first term
        ("-abc + de", -12 + 8),
        ("1 + abc - de - f", 1 + 12 - 8 - 4),
        (".next", 0x10),
        (".next - 0x4", 0xC),
        ("-.next", -0x10),
    ],
)
def test_a_number_is_the_sum_of_its_terms_and_names(text, number):
    """The next instruction is 8 bytes later."""
    assert b_field(encoded(f"IADD R0, R1, {text}").word) == number
    moved = number if ".next" not in text else number + (-0x40 if text[0] == "-" else 0x40)
    assert b_field(encoded(f"IADD R0, R1, {text}", 0x48).word) == moved


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("IADD R0, R1, R2", True),
        ("IADD R0, R1, 0x5", True),
        ("IADD R0, R1, -0x5 + 2", True),
        ("IADD R0, R1, abc", False),
        ("IADD R0, R1, 1 + abc", False),
        ("IADD R0, R1, .next", False),
        ("FADD R0, R1, 1.5", True),
        ("MOV R0, c[0x0][0x20]", True),
        ("MOV R0, c[0x0][abc]", False),
        ("MOV R0, c[f][0x20]", False),
        ("LDG.E R0, [R1 + 4]", True),
        ("LDG.E R0, [R1 - abc]", False),
        ("JMP 0x80", True),
        ("BRA 0x80", False),  # it encodes the distance
        ("SSY there", False),
        ("BRX R0 -.next", False),
    ],
)
def test_a_word_is_settled_if_no_name_and_no_place_is_in_it(text, settled):
    """Then it is the same at every address."""
    here, there = encoded(text), encoded(text, 0x48)
    assert (here.settled, there.settled) == (settled, settled)
    assert not settled or here == there


def test_an_unknown_name_is_an_error_at_its_place():
    class Nothing(Names):
        def value(self, name):
            raise SourceError(name, f"{name} is not defined")

    (node,) = parse("IADD R0, R1, 1 + abc")
    assert isinstance(node, SassInstruction)
    with pytest.raises(SourceError, match="abc is not defined") as caught:
        encode(node, 8, Nothing())
    assert (caught.value.line, caught.value.column) == (1, 18)
