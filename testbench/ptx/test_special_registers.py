"""Special registers of the PTX manual, and their widths."""

import pytest

from sim.toolchain.ptx.module import PtxImmediate, PtxRegister, PtxSpecialRegister
from testbench.ptx.text import instructions, refused

WIDE = ["gridid", "clock64", "globaltimer", "current_graph_exec", "pm0_64", "pm7_64"]
NARROW = [
    "laneid", "warpid", "nwarpid", "smid", "nsmid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt",
    "lanemask_ge", "clock", "clock_hi", "globaltimer_lo", "globaltimer_hi", "total_smem_size", "dynamic_smem_size",
    "pm0", "pm7", "envreg0", "envreg31", "tid.x", "ntid.y", "ctaid.z", "nctaid.w",
]  # fmt: skip
OLD = [(name, 16) for name in ("tid.x", "ntid.y", "ctaid.z", "nctaid.x", "gridid")] + [
    ("gridid", 32)
]


def read(name: str, width: int):
    """Returns what mov reads of a special register into a register of ``width`` bits."""
    text = f".entry k() {{ .reg .b{width} r; mov.u{width} r, %{name}; ret; }}"
    return instructions(text)[0].operands[1]


@pytest.mark.parametrize(
    ("name", "width"),
    [*((name, 32) for name in NARROW), *((name, 64) for name in WIDE), *OLD],
)
def test_a_special_register_is_read_in_its_width(name, width):
    """Registers of blocks and threads can also be read in 16 bits, as before PTX 2.0; their fourth
    element is 0.
    """
    found = read(name, width)
    spelled, _, component = name.partition(".")
    expected = PtxImmediate(0) if component == "w" else PtxSpecialRegister(spelled, component)
    assert found == expected


@pytest.mark.parametrize(
    ("name", "width", "own"),
    [(name, 64, 32) for name in NARROW if name != "nctaid.w"]
    + [(name, 32, 64) for name in WIDE if name != "gridid"]
    + [(name, 16, 32) for name in ("laneid", "clock", "envreg0")],
)
def test_a_special_register_has_one_width(name, width, own):
    found = refused(f".reg .b{width} x; mov.u{width} x, %{name};")
    assert found == f"1: %{name.partition('.')[0]} has {own} bits, not {width}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tid", "expected %tid.x, .y, .z or .w"),
        ("pm8", "%pm8 is not declared here"),
        ("pm8_64", "%pm8_64 is not declared here"),
        ("envreg32", "%envreg32 is not declared here"),
        ("clock.x", "%clock has no .x"),
        ("clusterid.x", "%clusterid: needs sm_90, and this machine is sm_50"),
    ],
)
def test_what_is_no_special_register_here_is_refused(name, message):
    assert refused(f"mov.u32 t, %{name};") == f"1: {message}"


def test_all_elements_are_read_at_once():
    text = ".entry k() { .reg .v4 .u32 v; mov.v4.u32 v, %ctaid; ret; }"
    *moves, _ = instructions(text)
    results = [item.operands[0] for item in moves]
    names = [result.name for result in results if isinstance(result, PtxRegister)]
    assert names == [f"v.{axis}" for axis in "xyzw"]
    assert [item.operands[1] for item in moves] == [
        *(PtxSpecialRegister("ctaid", axis) for axis in "xyz"),
        PtxImmediate(0),
    ]
