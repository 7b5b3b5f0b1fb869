"""Records of `.nv.info` sections: those of NVIDIA's files, and refused ones."""

import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from sim.toolchain.cubin.nvinfo import (
    Attribute,
    KernelParameter,
    Record,
    RecordFormat,
    decode,
    encode,
)

PROGRAMS = Path(__file__).parents[1] / "programs"
CUBINS = sorted(PROGRAMS.glob("k0*.O3.cubin"))


def sections(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return [
            section.data()
            for section in ELFFile(file).iter_sections()
            if section.name.startswith(".nv.info")
        ]


def header(form: int, attribute: int, value: int) -> bytes:
    return struct.pack("<BBH", form, attribute, value)


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.stem)
def test_sections_of_nvidias_files_are_written_as_they_were(path):
    found = sections(path)
    assert found and all(encode(decode(content)) == content for content in found)


def test_parameters_of_nvidias_files_are_written_as_they_were():
    records = [
        record
        for path in CUBINS
        for content in sections(path)
        for record in decode(content)
        if record.attribute == Attribute.KPARAM_INFO
    ]
    assert len(records) >= len(CUBINS)
    for record in records:
        first, place, packed = record.words
        parameter = KernelParameter.of(record)
        assert (parameter.ordinal, parameter.position) == (place & 0xFFFF, place >> 16)
        assert parameter.size == packed >> 18 and parameter.size in (4, 8)
        made = parameter.record()
        assert (made.attribute, made.format) == (record.attribute, record.format)
        # The upper half of NVIDIA's record has alignment bits.
        assert made.words[:2] == (first, place) and made.words[2] >> 12 == packed >> 12


@pytest.mark.parametrize(
    ("record", "content"),
    [
        (Record(0x21, RecordFormat.NONE), header(1, 0x21, 0)),
        (Record(0x1B, RecordFormat.HALF, 0xFF), header(3, 0x1B, 0xFF)),
        (Record.sized(0x1E, [0x1234]), header(4, 0x1E, 4) + b"\x34\x12\0\0"),
        # The payload of an unknown attribute may have any length.
        (Record(0xEE, RecordFormat.SIZED, payload=b"abc"), header(4, 0xEE, 3) + b"abc"),
    ],
)
def test_a_record_is_a_header_and_its_payload(record, content):
    assert decode(content) == [record] and encode([record]) == content
    assert decode(content * 2) == [record, record]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(5, 0x04, 0), "the record at 0x0 has format 5, which is unknown"),
        (
            header(1, 0x21, 0) + header(0, 0x21, 0),
            "the record at 0x4 has format 0, which is unknown",
        ),
        (header(4, 0xEE, 4) + b"abc", "the record at 0x0 is cut off"),
        (header(4, 0x1E, 8) + bytes(8), "a record CRS_STACK_SIZE has 8 bytes, not 4"),
        (
            header(4, 0x1C, 6) + bytes(6),
            "a record EXIT_INSTR_OFFSETS has 6 bytes, which are no whole words",
        ),
    ],
)
def test_a_damaged_section_is_refused_by_its_fault(content, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        decode(content)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_payload_of_other_sizes_than_words_has_none(size):
    record = Record(Attribute.FRAME_SIZE, RecordFormat.SIZED, payload=bytes(size))
    with pytest.raises(
        ValueError, match=f"has a payload of {size} bytes, which are no whole words"
    ):
        assert record.words
