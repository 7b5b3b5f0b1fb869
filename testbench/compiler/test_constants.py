"""Constants at generic addresses: what the compiler leaves to the driver, as NVIDIA's assembler
does.
"""

import re

import pytest

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.cubin.relocation import RelocationKind
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.ptx.text import HEADER, module_of

_TEXT = (
    HEADER
    + """.const .u32 before[3] = {9, 9, 9};
.const .align 8 .b64 table[4] = {1, 2, 3, 4};
.const .u64 pointer = generic(table)+8;
.const .u64 place = table+8;
.global .u64 pointers[3] = {generic(table), table, generic(before)+4};
.visible .entry k(.param .u64 out)
{ .reg .pred p; .reg .u32 r; .reg .b64 d<6>; ld.param.u64 d0, [out]; mov.u64 d1, table; cvta.const.u64 d2, d1;
 st.global.u64 [d0], d2; ld.global.u64 d3, [d0+8]; cvta.to.const.u64 d4, d3; st.global.u64 [d0+16], d4;
 isspacep.const p, d3; selp.u32 r, 1, 0, p; st.global.u32 [d0+24], r; ret; }
"""
)


def test_initial_values_are_generic_addresses_or_places_in_the_bank():
    made = assemble(compile_module(parse_ptx(_TEXT, "test.ptx")), "test")
    bank, variables = made.sections[".nv.constant3"], made.sections[".nv.global.init"]
    found = {
        (section.name, relocation.offset): (
            relocation.kind,
            made.symbols[relocation.symbol].name,
            relocation.addend,
        )
        for section in (bank, variables)
        for relocation in section.relocations
    }
    assert found == {
        (".nv.constant3", 48): (RelocationKind.GENERIC_64, "table", 8),
        (".nv.global.init", 0): (RelocationKind.GENERIC_64, "table", None),
        (".nv.global.init", 16): (RelocationKind.GENERIC_64, "before", 4),
    }
    assert int.from_bytes(bank.content[56:64], "little") == 24
    assert int.from_bytes(variables.content[8:16], "little") == 16


def test_generic_addresses_count_from_where_the_driver_has_put_the_bank():
    text = compile_module(parse_ptx(_TEXT, "test.ptx"))
    assert re.search(
        r"MOV (R\d+), c\[0x0\]\[0xd0\]\n +IADD R\d+.CC, \1, 0x10\n"
        r" +IADD.X R\d+, RZ, c\[0x0\]\[0xd4\]",
        text,
    )
    assert re.search(
        r"IADD R\d+.CC, R\d+, -c\[0x0\]\[0xd0\]\n +IADD.X R\d+, R\d+, -c\[0x0\]\[0xd4\]", text
    )


def test_a_byte_of_a_place_in_the_bank_is_known():
    """The same applies to a byte of a function's handle; bytes of addresses are known at the launch
    only.
    """
    text = (
        HEADER
        + """.const .b8 c[0x300]; .global .u32 g; .func f() { ret; }
.global .b8 bytes[6] = { 0xff(c+0x2ff), 0xff00(c+0x2ff), 0xff0000(c), 0xff(f), 0xff00(f), 0xff00(g) };
.visible .entry k() { call f; ret; }
"""
    )
    made = assemble(compile_module(parse_ptx(text, "test.ptx")), "test")
    section = made.sections[".nv.global.init"]
    assert section.content == bytes([0xFF, 0x02, 0, 8, 0, 0])
    assert [(one.offset, one.kind) for one in section.relocations] == [
        (5, RelocationKind.GENERIC_8_8)
    ]


@pytest.mark.parametrize(
    ("kind", "size"), [("u8", 1), ("b8", 1), ("s16", 2), ("u32", 4), ("b32", 4), ("u64", 8)]
)
@pytest.mark.parametrize("space", ["global", "const"])
def test_what_has_no_first_value_is_zero(kind, size, space):
    """That holds for elements without a value, and for the upper bytes of an element whose value is
    a byte of an address.
    """
    text = f""".global .u32 g;
.{space} .align 8 .{kind} x[5] = {{ 0xff(g), 7, 0xff00(g+1) }};
.{space} .align 8 .{kind} none[3];
.visible .entry k() {{ ret; }}
"""
    made = assemble(compile_module(module_of(text)), "test")
    section = made.sections[".nv.global.init" if space == "global" else ".nv.constant3"]
    places = {symbol.name: symbol.value for symbol in made.symbols}
    content = section.content[places["x"] : places["x"] + 5 * size]
    assert content == bytes(size) + (7).to_bytes(size, "little") + bytes(3 * size)
    waiting = [(one.offset - places["x"], one.kind, one.addend or 0) for one in section.relocations]
    assert waiting == [
        (0, RelocationKind.GENERIC_8_0, 0),
        (2 * size, RelocationKind.GENERIC_8_8, 1),
    ]
    sizes = {symbol.name: symbol.size for symbol in made.symbols}
    assert (sizes["x"], sizes["none"]) == (5 * size, 3 * size)
