"""Floating-point numbers as text: bits of IEEE 754 formats, and the spelling of NVIDIA's
disassembler.
"""

import struct

import pytest

from sim.toolchain.assembly.float_text import real_bits, real_text

CODES = {16: "e", 32: "f", 64: "d"}


def signed(bits: int, size: int) -> int:
    return bits - (1 << size) if bits >> size - 1 else bits


@pytest.mark.parametrize(
    ("size", "bits", "text"),
    [
        (32, 0x3F800000, "1"),
        (32, 0x40490FDB, "3.1415927410125732422"),
        (32, 0xBFC00000, "-1.5"),
        (32, 0, "0"),
        (32, 0x80000000, "-0.0 "),
        (32, 0x7F800000, "+INF "),
        (32, 0xFF800000, "-INF "),
        (32, 0x7FC00000, "+QNAN "),
        (32, 0xFFFFFFFF, "-QNAN "),
        (32, 0x7F800001, "+QNAN "),
        (32, 0x4E6E6B27, "999999936"),
        (32, 0x4E6E6B28, "1.00000000000000000000e+09"),
        (32, 0xCE6E6B28, "-1.00000000000000000000e+09"),
        (32, 1, "1.4012984643248170709e-45"),
        (16, 0x3C00, "1"),
        (16, 0x7BFF, "65504"),
        (16, 0xFC00, "-INF "),
        (16, 0x7E00, "+QNAN "),
        (64, 0x3FF0000000000000, "1"),
        (64, 0x8000000000000000, "-0.0 "),
        (64, 0x7FF8000000000000, "+QNAN "),
        (64, 0xFFF4000000000000, "-SNAN "),
        (64, 0x7FF7FFFFFFFFFFFF, "+SNAN "),
        (64, 0x41CDCD6500000000, "1.00000000000000000000e+09"),
    ],
)
def test_bits_have_the_text_of_their_number(size, bits, text):
    assert real_text(bits, size) == real_text(signed(bits, size), size) == text


@pytest.mark.parametrize("size", [16, 32, 64])
@pytest.mark.parametrize("text", ["1", "-1.5", "0", "-0.0", "0.1", "+2e3", "1e-7", "65504", "INF", "-INF"])  # fmt: skip
def test_a_text_has_the_bits_of_the_nearest_number(size, text):
    expected = struct.pack(f"<{CODES[size]}", float(text))
    assert real_bits(text, size).to_bytes(size // 8, "little", signed=True) == expected


@pytest.mark.parametrize(
    ("text", "size", "bits"),
    [
        ("QNAN", 16, 0x7E00),
        ("+QNAN", 32, 0x7FC00000),
        ("-QNAN", 64, 0xFFF8000000000000),
        ("SNAN", 64, 0x7FF4000000000000),
        ("-SNAN", 64, 0xFFF4000000000000),
        ("0xffff", 16, 0xFFFF),
        ("0X7f", 32, 0x7F),
        ("0b101", 32, 5),
        ("-0x1", 32, 0x80000001),
        ("-0x80000000", 32, 0),
        ("0xffffffffffffffff", 64, 0xFFFFFFFFFFFFFFFF),
        ("65519", 16, 0x7BFF),
        ("3.4028235e38", 32, 0x7F7FFFFF),
    ],
)
def test_a_text_may_name_bits_and_numbers_that_are_none(text, size, bits):
    assert real_bits(text, size) == signed(bits, size)


@pytest.mark.parametrize(
    ("text", "size", "message"),
    [
        ("0x10000", 16, "0x10000 does not fit 16 bits"),
        ("0x100000000", 32, "0x100000000 does not fit 32 bits"),
        ("65520", 16, "65520 is too large for half precision"),
        ("-1e39", 32, "1e39 is too large for single precision"),
        ("1e400", 64, "1e400 is too large for double precision"),
        ("SNAN", 32, "SNAN is no floating-point number"),
        ("1.5x", 32, "1.5x is no floating-point number"),
        ("", 32, " is no floating-point number"),
    ],
)
def test_what_is_no_number_of_a_format_is_refused(text, size, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        real_bits(text, size)
