"""PTX that is refused by name: instructions of later machines, textures, targets, inconsistent
function declarations.

Machines are those of the *Target ISA Notes* in the PTX manual; NVIDIA's assembler of CUDA 11.8
agrees for all that it supports.
"""

import re

import pytest

from sim import ptx
from sim.launch import Buffer, prepare
from sim.model.ptx.launch import place
from sim.toolchain.compiler import compile_module
from sim.toolchain.cubin.loader import read_cubin
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.ended import on_warps
from testbench.ptx.text import HEADER, complaint, module_of
from testbench.words import contents

_LATER = {
    "sm_52": "alloca.u64 d, 16; | stacksave.u64 d;",
    "sm_53": "add.f16 h, h, h; | fma.rn.f16x2 r, r, r, r; | abs.f16 h, h; | setp.eq.f16 p, h, h; |"
    "set.eq.u32.f16 r, h, h;",
    "sm_60": "atom.global.add.f64 d, [d], d; | red.add.f64 [d], d; | atom.global.add.noftz.f16x2 r, [d], r; |"
    "atom.sys.add.u32 r, [d], r; | red.cta.global.or.b32 [d], r; | membar.proxy.alias;",
    "sm_61": "dp4a.u32.s32 r, r, r, r; | dp2a.lo.u32.u32 r, r, r, r;",
    "sm_70": "match.any.sync.b32 r, r, -1; | nanosleep.u32 20; | fence.acq_rel.gpu; | ld.acquire.gpu.u32 r, [d]; |"
    "st.release.sys.global.u32 [d], r; | atom.relaxed.gpu.global.add.u32 r, [d], r; | ld.weak.u32 r, [d]; |"
    "atom.global.cas.b16 h, [d], h, h; | atom.global.add.noftz.f16 h, [d], h; | cvta.param.u64 d, d; |"
    "wmma.load.a.sync.aligned.row.m16n16k16.f16 {r, r}, [d]; | szext.wrap.u32 r, r, r; |"
    "isspacep.param p, d; |"
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {r}, {r}, {r}, {r}; |"
    "ld.global.L1::no_allocate.u32 r, [d];",
    "sm_72": "cvt.pack.sat.u8.s32.b32 r, r, r, r;",
    "sm_75": "tanh.approx.f32 r, r; | ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r}, [r]; | ex2.approx.f16 h, h; |"
    "movmatrix.sync.aligned.m8n8.trans.b16 r, r; | ld.global.L2::128B.u32 r, [d]; |"
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {r}, {r}, {r}, {r};",
    "sm_80": "cp.async.ca.shared.global [r], [d], 4; | cp.async.wait_all; | mbarrier.init.shared.b64 [r], 1; |"
    "redux.sync.add.u32 r, r, -1; | min.NaN.f32 r, r, r; | fma.rn.bf16 h, h, h, h; | cvt.rn.bf16.f32 h, r; |"
    "cvt.rna.tf32.f32 r, r; | max.f16x2 r, r, r; | createpolicy.fractional.L2::evict_last.b64 d, 1.0; |"
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {r}, {r}, {r}, {r}, r, 0; | discard.L2 [d], 128;",
    "sm_86": "min.xorsign.abs.f32 r, r, r;",
    "sm_89": "cvt.rn.satfinite.e4m3x2.f32 h, r, r;",
    "sm_90": "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [r], r, [r]; |"
    "elect.sync _|p, -1; | griddepcontrol.wait; | cp.async.bulk.commit_group; | barrier.cluster.arrive; |"
    "mapa.shared::cluster.u32 r, r, r; | mbarrier.try_wait.shared.b64 p, [r], d; | add.bf16 h, h, h; |"
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [r], {r}; | multimem.red.add.u32 [d], r; | min.u16x2 r, r, r; |"
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [r], [d, {r, r}], [r]; |"
    "ld.shared::cluster.u32 r, [r]; | atom.global.v2.f32.add {r, r}, [d], {r, r};",
    "sm_90a": "wgmma.fence.sync.aligned; | setmaxnreg.inc.sync.aligned.u32 40; |"
    "tensormap.replace.tile.rank.global.b1024.b32 [d], 1;",
    "sm_100": "add.rn.f32x2 d, d, d; | clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, d; |"
    "ld.global.v8.f32 {r, r, r, r, r, r, r, r}, [d];",
    "sm_100a": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r], r; | redux.sync.min.f32 r, r, -1;",
}


@pytest.mark.parametrize("machine", _LATER)
def test_an_instruction_of_a_later_machine_names_itself_and_the_first_that_has_it(machine):
    for text in _LATER[machine].split("|\n"):
        for statement in re.split(r"; \|", text):
            statement = statement.strip().removesuffix(";") + ";"
            name = statement.split()[0].removesuffix(";")
            body = f".func f {{ .reg .pred p; .reg .b16 h; .reg .b32 r; .reg .b64 d; {statement} ret; }}\n"
            assert complaint(body).endswith(
                f" {name}: needs {machine}, and this machine is sm_50"
            ), statement


def test_a_special_register_of_a_later_machine_is_named():
    body = ".func f {{ .reg .b32 r; mov.u32 r, {}; ret; }}\n"
    assert complaint(body.format("%cluster_ctarank")).endswith(
        "%cluster_ctarank: needs sm_90, and this machine is sm_50"
    )


# Targets


@pytest.mark.parametrize(
    "names",
    [
        "sm_10",
        "sm_13",
        "sm_37",
        "sm_50",
        "compute_50",
        "sm_50, texmode_unified",
        "sm_50, texmode_independent, debug",
        "sm_12, map_f64_to_f32",
        "sm_50, sm_35",
    ],
)
def test_targets_that_this_machine_runs(names):
    assert (
        module_of("", header=f".version 7.8\n.target {names}\n").target
        == "sm_" + re.findall(r"\d+", names)[0]
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("sm_52", "target sm_52: this machine is sm_50, which runs sm_10 to sm_50"),
        ("sm_90a", "target sm_90a: this machine is sm_50, which runs sm_10 to sm_50"),
        ("sm_50, sm_120", "target sm_120: this machine is sm_50, which runs sm_10 to sm_50"),
        ("sm_14", "sm_14 is no target: the first word of .target is a machine, such as sm_50"),
        (
            "debug, sm_50",
            "debug is no target: the first word of .target is a machine, such as sm_50",
        ),
        ("sm_50, foo", "there is no target foo"),
        ("sm_50, texmode_raw", "there is no target texmode_raw"),
        (
            "sm_50, texmode_unified, texmode_independent",
            "texmode_unified and texmode_independent exclude each other",
        ),
        (
            "sm_13, map_f64_to_f32",
            "map_f64_to_f32 is for machines below sm_13, which have no double precision",
        ),
    ],
)
def test_a_target_that_is_none_is_refused(names, message):
    assert complaint("", header=f".version 7.8\n.target {names}\n").endswith(f": {message}")


@pytest.mark.parametrize("version", ["0.9", "1.6", "2.4", "7.9"])
def test_a_version_that_is_none_is_refused(version):
    header = f".version {version}\n.target sm_50\n"
    assert complaint("", header=header).endswith(f"there is no version {version} of PTX")


# Functions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ".extern .func f(.param .u32 a);\n.func f(.param .u64 a) { ret; }",
            "f was declared otherwise in line 5",
        ),
        (
            ".extern .func (.param .u32 r) f(.param .u32 a);\n.func f(.param .u32 a) { ret; }",
            "f was declared otherwise in line 5",
        ),
        (
            ".extern .func f(.param .u32 a);\n.func f(.param .u32 a) { ret; }",
            "f is extern and has a body in this file, in line 5 and here",
        ),
        (
            ".func f(.param .u32 a) { ret; }\n.extern .func f(.param .u32 a);",
            "f is extern and has a body in this file, in line 5 and here",
        ),
        (
            ".extern .global .u32 x;\n.visible .global .u64 x;",
            "x is declared otherwise where the file defines it",
        ),
        (
            ".extern .global .u32 x;\n.global .u32 x;",
            "x is extern, and not visible where the file defines it",
        ),
        (".extern .global .u32 x = 4;", "x is extern: it has no first value"),
        (
            ".func f { ret; } .func g(.param .u32 x);\n.alias g, f;",
            "g takes and gives something else than f",
        ),
        (".func f { ret; }\n.alias g, f;", "g is no function that was declared before"),
        (".func f { ret; } .func g { ret; }\n.alias g, f;", "g has a body: an alias has none"),
        (".entry f { ret; } .func g;\n.alias g, f;", "f is no function that was declared before"),
        (".func f; .func g;\n.alias g, f;", "f has an alias, but no body"),
        (".func f; .func g;\n.alias g, f; .alias f, g;", "g is an alias of itself"),
        (".func f { ret; } .func g;\n.alias g, f; .alias g, f;", "g is an alias already"),
        (
            ".func f;\n.entry k() { .reg .u64 d; mov.u64 d, f;\n mov.u64 d, f; ret; }",
            "f is declared and named, but has no body",
        ),
        (".entry f() .maxntid 32;", ".maxntid belongs to the entry's definition"),
        (".func f .maxntid 32 { ret; }", ".maxntid belongs to an entry"),
        (".entry f() .maxntid 0 { ret; }", ".maxntid 0: expected a number of threads"),
        (".entry f() .reqntid 4, 0 { ret; }", ".reqntid 0: expected a number of threads"),
        (
            ".entry f() .maxntid 32 .reqntid 32 { ret; }",
            ".maxntid and .reqntid do not go together",
        ),
        (".global .u8 x = 0xFF(5);", "expected the address of a function or variable"),
        (
            ".const .attribute(.managed) .u32 x;",
            ".attribute(.managed) is for variables in global space",
        ),
        (
            ".global .attribute(.foo) .u32 x;",
            ".attribute(.foo): expected .managed or .unified(uuid1, uuid2)",
        ),
        (".global .u8 x = 0xF0(v);", "0xF0(...): expected 0xff, 0xff00 and so on, and one address"),
        (".global .u8 x = 0xFF(v) + 1;", "+ can't join a byte of an address and something else"),
        (".global .f32 x = v;", "the address of v does not fit 32 bits"),
        (".common .const .u32 x;", "x is in const space: a common variable is in global space"),
    ],
)
def test_a_wrong_declaration_is_named(text, message):
    assert complaint(f".global .u32 v;\n{text}").endswith(f": {message}")


# Events


@pytest.mark.parametrize(
    ("statement", "mask"),
    [("pmevent 3;", "0x8"), ("pmevent.mask 3;", "0x3"), ("pmevent.mask 0x8001;", "0x8001")],
)
def test_an_event_or_a_mask_of_events_is_triggered(statement, mask):
    """The masks are those of NVIDIA's PMTRIG."""
    assert f"NOP.TRIG {mask}\n" in compile_module(module_of(f".entry k {{ {statement} ret; }}\n"))


# Textures

_TEXTURES = """.global .texref image;
.global .surfref surface;
.func helps(.reg .u64 t) { .reg .f32 f<4>; .reg .u32 r; tex.1d.v4.f32.s32 {f0, f1, f2, f3}, [t, {r}]; ret; }
.visible .entry plain(.param .u64 o) { .reg .u64 a; ld.param.u64 a, [o]; st.global.u32 [a], 5; ret; }
.visible .entry looks(.param .u64 o)
{ .reg .u64 a; .reg .f32 f<6>; ld.param.u64 a, [o];
  tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [image, {f4, f5}]; st.global.f32 [a], f0; ret; }
.visible .entry calls(.param .u64 o) { .reg .u64 a; ld.param.u64 a, [o]; call helps, (a); ret; }
"""


def test_a_kernel_that_uses_textures_is_refused_and_the_others_run(tmp_path):
    path = tmp_path / "t.ptx"
    path.write_text(HEADER + _TEXTURES)
    program = read_ptx_program(path)
    assert contents(
        on_warps(prepare(program, [Buffer("o", bytes(4))], entry="plain", block=(1, 1, 1))), "o"
    ) == [5]
    module = parse_ptx(HEADER + _TEXTURES, str(path))
    for entry, message in (
        ("looks", "10:3: tex.2d.v4.f32.f32 in kernel looks: there are no textures and surfaces"),
        (
            "calls",
            "6:57: tex.1d.v4.f32.s32 in function helps: there are no textures and surfaces; "
            "kernel calls calls helps",
        ),
    ):
        with pytest.raises(ProgramError, match=f"^{re.escape(f'{path}:{message}')}$"):
            program.kernel(entry)
        with pytest.raises(ProgramError, match=f"^{re.escape(f'{path}:{message}')}$"):
            place(module, [Buffer("o", bytes(4))], entry=entry)
    with pytest.raises(ProgramError, match="which kernel"):
        program.kernel()


@pytest.mark.parametrize(
    "statement",
    [
        "tex.1d.v4.u32.s32 {r, r, r, r}, [image, {r}];",
        "tex.level.2d.v4.f32.f32 {f, f, f, f}, [d, {f, f}], f;",
        "tex.grad.2d.v4.f32.f32 {f, f, f, f}, [image, {f, f}], {f, f}, {f, f};",
        "tex.3d.v4.s32.f32 {r, r, r, r}|p, [d, {f}];",
        "tld4.r.2d.v4.f32.f32 {f, f, f, f}, [image, {f, f}];",
        "txq.width.b32 r, [image];",
        "suq.width.b32 r, [surface];",
        "suld.b.2d.v2.b32.clamp {r, r}, [surface, {r, r}];",
        "sust.p.1d.b32.trap [surface, {r}], {r};",
        "sured.b.add.1d.u32.trap [surface, {r}], r;",
        "istypep.texref p, d;",
    ],
)
def test_all_instructions_on_textures_are_named(statement):
    text = (
        ".global .texref image;\n.global .surfref surface;\n.entry k\n"
        f"{{ .reg .f32 f; .reg .u32 r; .reg .u64 d; .reg .pred p;\n{statement} ret; }}\n"
    )
    with pytest.raises(ProgramError) as refused:
        compile_module(module_of(text))
    name = statement.split()[0]
    assert (
        str(refused.value) == f"t.ptx:8:1: {name} in kernel k: there are no textures and surfaces"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".entry k(.param .texref t) { ret; }", "4:17: t is a texture in kernel k"),
        (
            ".global .samplerref s = { filter_mode = nearest };\n.entry k {\n.reg .u64 d; mov.u64 d, s; ret; }",
            "6:14: mov.u64, as s is a sampler, in kernel k",
        ),
        (
            ".tex .u32 t;\n.entry k {\n.reg .u64 d; mov.u64 d, t; ret; }",
            "6:14: mov.u64, as t is a texture, in kernel k",
        ),
    ],
)
def test_what_is_a_texture_is_named(text, message):
    with pytest.raises(ProgramError) as refused:
        compile_module(module_of(text))
    assert str(refused.value) == f"t.ptx:{message}: there are no textures and surfaces"


def test_a_cubin_is_made_of_the_kernels_that_use_no_textures(tmp_path, capsys):
    path, output = tmp_path / "t.ptx", tmp_path / "t.cubin"
    path.write_text(HEADER + _TEXTURES)
    assert ptx.main([str(path), "-o", str(output)]) == 0
    assert [*read_cubin(output).kernels] == ["plain"]
    assert [line.split(": ")[:2] for line in capsys.readouterr().err.splitlines()] == [
        ["left out", f"{path}:10:3"],
        ["left out", f"{path}:6:57"],
    ]
