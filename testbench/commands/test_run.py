"""The command ``python -m sim.run``: output, files and refusals."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from sim.launch import Buffer, Scalar, Structure
from sim.launch.arguments import TYPE_BYTES, ArgumentError, parse_argument, parse_arguments
from sim.model.warp.retirement import StackToken
from sim.report.run import describe
from sim.run import hints, main
from sim.runner import MachineError, Outcome
from sim.toolchain.cuda import INSTALL, CompilerError, cubin_of_cuda, cubin_of_ptx
from testbench import refusal
from testbench.handmade import encode, machine, warp_of
from testbench.programs import ADD, BUFFERS, PROGRAMS, RECURSION, TRAP

WIDE = str(PROGRAMS / "k22_alu64.O0.cubin")
MODEL = ["--engine", "model"]


def refused(capsys, *arguments: str) -> str:
    """Returns the message with which the command refuses its arguments, without its name."""
    return refusal.refused(capsys, main, arguments).removeprefix("python -m sim.run: ")


# Runs


def test_a_kernel_runs_and_its_buffers_are_written(run_program, tmp_path, capsys):
    (tmp_path / "a.bin").write_bytes(struct.pack("<40I", *range(40)))
    code, written = run_program(
        ADD,
        *MODEL,
        "--arg",
        f"buf:a=@{tmp_path / 'a.bin'}",
        "--arg",
        "buf:b=u32[40]",
        "--arg",
        "buf:c=u32[40]",
        "--arg",
        "s32:40",
        "--block",
        "24",
        "--grid",
        "2",
    )
    assert code == 0
    assert written == {
        "status": "ok",
        "cycles": written["instructions"],
        "instructions": written["instructions"],
        "buffers": {"a": list(range(40)), "b": [0] * 40, "c": list(range(40))},
        "esr": {},
    }
    assert written["instructions"] == 46
    assert {path.name for path in tmp_path.iterdir()} == {"a.bin", "out.json"}
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "kernel        k",
        "machine       default, warp model",
        "status        ok",
        "instructions  46",
    ]
    assert lines[-1].startswith("buffer        c, 160 bytes at 0x2")
    assert lines[-1].endswith(": 0 1 2 3 4 5 6 7 ...")


def test_the_machine_is_named_with_what_differs_from_its_preset(capsys):
    arguments = [ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--preset", "tiny"]
    assert main([*arguments, "--warps", "4", "--lanes", "2"]) == 0
    printed = capsys.readouterr().out
    assert "\nmachine       tiny with 4 warps, 2 lanes, warp model\n" in printed


def test_assembly_runs_too(run_program, tmp_path, capsys):
    source = tmp_path / "ids.sass"
    source.write_text("""
.kernel ids
.param out 8
        S2R R0, SR_TID.X
        ISCADD R2.CC, R0, c[0x0][out], 0x2
        IADD.X R3, RZ, c[0x0][out+4]
        STG.E [R2], R0
        EXIT
""")
    code, written = run_program(source, *MODEL, "--arg", "buf:out=u32[8]", "--block", "7")
    assert (code, written["buffers"]) == (0, {"out": [*range(7), 0]})
    source.write_text(".kernel ids\n  FROB R1\n")
    assert refused(capsys, str(source)).startswith(f"{source}:2:3: ")


SCALED = """
extern "C" __global__ void scaled(float factor, const float *x, float *y, double *z) {
    y[threadIdx.x] = factor * x[threadIdx.x];
}
"""


def test_cuda_runs_too(run_program, tmp_path):
    (tmp_path / "x.bin").write_bytes(struct.pack("<4f", 1, 2, 0.5, -3))
    source = tmp_path / "scaled.cu"
    source.write_text(SCALED)
    try:
        cubin_of_cuda(b"", "nothing")
    except CompilerError as error:
        pytest.skip(str(error))
    code, written = run_program(
        source,
        *MODEL,
        "--arg",
        "f32:2.5",
        "--arg",
        f"buf:x=@{tmp_path / 'x.bin'}",
        "--arg",
        "buf:y=f32[4]",
        "--arg",
        "buf:z=f64[1]",
        "--block",
        "4",
    )
    assert code == 0
    assert struct.pack("<4I", *written["buffers"]["y"]) == struct.pack("<4f", 2.5, 5, 1.25, -7.5)


def test_what_the_compiler_of_cuda_says_is_passed_on(tmp_path, capsys):
    source = tmp_path / "wrong.cu"
    source.write_text('extern "C" __global__ void wrong(int *p) { *p = q; }\n')
    try:
        cubin_of_cuda(b"", "nothing")
    except CompilerError as error:
        pytest.skip(str(error))
    assert refused(capsys, str(source)).startswith(
        f'{source}(1): error: identifier "q" is undefined'
    )


def test_a_compiler_of_cuda_that_is_missing_is_named(tmp_path, capsys, monkeypatch):
    source = tmp_path / "k.cu"
    source.write_text(SCALED)
    monkeypatch.setattr("sim.toolchain.cuda.find_spec", lambda package: None)
    assert refused(capsys, str(source)) == (
        f"{source}: libnvrtc.so.11.2 of CUDA 11.8 is not installed "
        "(CUDA 13 cannot compile for sm_50): pip install -e '.[cuda]'"
    )


def test_a_missing_compiler_is_installed_as_the_pages_say():
    root = Path(__file__).parents[2]
    assert (
        "nvidia-cuda-nvrtc-cu11" in (root / "pyproject.toml").read_text().partition("\ncuda = [")[2]
    )
    for page in ("README.md", "docs/commands.md"):
        assert f"`{INSTALL}`" in (root / page).read_text(), page


def test_an_error_is_shown_with_its_place(run_program, capsys):
    code, written = run_program(ADD, *MODEL, *BUFFERS, "--arg", "u32:100", "--block", "64")
    assert (code, written["status"]) == (1, "error")
    assert {name: written["esr"][name] for name in ("error", "code", "warp", "pc")} == {
        "error": "MMU_FAULT",
        "code": 0x17,
        "warp": 1,
        "pc": 0x98,
    }
    text = capsys.readouterr().out
    assert "error         MMU_FAULT, code 0x17: block [0,0,0], thread [48,0,0], address 0x2" in text
    assert "where         warp 1, pc 0x0098\n" in text
    assert "\n  -> 0x0098  eed4200000070202  LDG.E R2, [R2]\n" in text
    assert "\n     0x00a8  4c10080005370005  IADD.X R5, R0, c[0x0][0x14c]\n" in text
    assert "\nmasks         active ffffffff\nstack         0 tokens, 0 counted calls open\n" in text


def test_a_trap_is_shown_with_its_reason(run_program, tmp_path, capsys):
    (tmp_path / "o.bin").write_bytes(struct.pack("<2I", 99, 0))
    code, written = run_program(TRAP, *MODEL, "--arg", f"buf:o=@{tmp_path / 'o.bin'}")
    expected = {"error": "NONE", "code": 0, "warp": 0, "pc": 0x88, "trap_reasons": [1]}
    assert code == 1
    assert written["esr"].items() >= expected.items()
    assert "error         BPT.TRAP, reasons so far: 1\n" in capsys.readouterr().out


def test_the_stack_is_shown(capsys):
    assert main([RECURSION, *MODEL, "--arg", "buf:o=u32[32]", "--crs", "512"]) == 1
    text = capsys.readouterr().out
    assert "error         STACK_OVERFLOW, code 0x16\n" in text
    assert "events        BPT_PAUSE PHYSICAL_STACK_OVERFLOW\n" in text
    assert "stack         16 tokens" in text
    assert text.count(" RETURN pc=") + text.count(" DIVERGE pc=") == 16


def test_of_a_deep_stack_the_top_is_shown():
    made = machine([encode("CAL", "i", target=-8)], crs=1024)
    text = describe(made, made.run())
    assert "stack         48 tokens, 48 counted calls open, top first\n" in text
    assert text.count("RETURN pc=0x0010 mask=ffffffff counted") == 16
    assert text.endswith("\n     32 more")


def test_a_stack_in_memory_that_faults_is_shown_as_far_as_it_goes():
    made = machine([encode("BRK")], crs=1024)
    warp = warp_of(made)
    for _ in range(5):
        warp.stack.push(*[StackToken(TokenKind.SYNC, 8, 1)] * 4)
    warp.local_base = 1 << 39
    text = describe(made, made.run())
    assert "error         MMU_FAULT" in text
    assert text.count("SYNC pc=0x0008 mask=00000001") == 16
    warp.stack.drop(2)
    assert "     4 tokens in memory that faults: nothing is mapped at 0x80" in describe(
        made, made.run()
    )


def test_a_run_ends_at_its_limit_of_cycles(run_program, capsys):
    code, written = run_program(ADD, *MODEL, *BUFFERS, "--arg", "u32:40", "--max-cycles", "7")
    assert (code, written["status"], written["instructions"], written["esr"]) == (
        1,
        "timeout",
        7,
        {},
    )
    assert "status        timeout: stopped after 7 instructions\n" in capsys.readouterr().out


def test_the_command_itself():
    command = [sys.executable, "-m", "sim.run"]
    done = subprocess.run(
        [*command, ADD, *MODEL, *BUFFERS, "--arg", "u32:40"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run([*command, "nowhere.cubin"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "python -m sim.run: nowhere.cubin: No such file or directory\n"


# Bad input


@pytest.mark.parametrize(
    "arguments,message",
    [
        ((), "the following arguments are required: PROGRAM"),
        (("program",), "program: a program is a file with the suffix .cubin, .ptx, .sass or .cu"),
        (("k.txt",), "k.txt: a program is a file with the suffix .cubin, .ptx, .sass or .cu"),
        (
            ("blocksum.py",),
            "blocksum.py: a program is a file with the suffix .cubin, .ptx, .sass or .cu; "
            "a CUDA program in Python: python -m sim.cuda -- python blocksum.py",
        ),
        (
            (ADD,),
            f"{ADD}: kernel k takes 4 arguments (8, 8, 8, 4 bytes), not 0; "
            "--arg buf:out=u32[12] passes a buffer, --arg u32:12 a number",
        ),
        (
            (ADD, "--arg", "u32:1"),
            f"{ADD}: kernel k takes 4 arguments (8, 8, 8, 4 bytes), not 1",
        ),
        ((ADD, "--entry", "main"), f"{ADD}: no kernel main; it has k"),
        (
            (ADD, *BUFFERS, "--arg", "u64:1"),
            f"{ADD}: kernel k, argument 4: expected 4 bytes, got 8",
        ),
        ((ADD, "--grid", "0"), "argument --grid: '0' is not X[,Y[,Z]] with numbers from 1 on"),
        (
            (ADD, "--grid", "1,2,3,4"),
            "argument --grid: '1,2,3,4' is not X[,Y[,Z]] with numbers from 1 on",
        ),
        ((ADD, "--block", "x"), "argument --block: 'x' is not X[,Y[,Z]] with numbers from 1 on"),
        ((ADD, "--crs", "-1"), "argument --crs: '-1' is not a number of bytes"),
        (
            (ADD, "--crs", "2000000"),
            f"{ADD}: 2000384 bytes of call/return stack; there can be 1048576",
        ),
        (
            (ADD, "--local", "99999999"),
            f"{ADD}: 100000000 bytes of local memory; there can be 16777216",
        ),
        ((ADD, "--shared", "50000"), f"{ADD}: 50000 bytes of shared memory; there can be 49152"),
        ((ADD, "--max-cycles", "0"), "argument --max-cycles: '0' is not a whole number from 1 on"),
        (
            (ADD, *MODEL, "--vcd", "x.vcd"),
            "--vcd needs hardware, which the engine model does not have",
        ),
        ((ADD, *BUFFERS, "--arg", "u32:1", "--block", "64", "--vcd", "."), ".: Is a directory"),
        (
            (ADD, *BUFFERS, "--arg", "u32:1", "--fst", "x.vcd"),
            "--fst x.vcd: the name of an FST ends in .fst",
        ),
        (
            (ADD, *MODEL, "--fst", "x.fst"),
            "--fst needs hardware, which the engine model does not have",
        ),
        (
            (ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--handler", "none.sass"),
            "none.sass: No such file or directory",
        ),
        (
            (ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--handler", ADD),
            f"{ADD}: a trap handler has no constants, variables or parameters",
        ),
        (
            (WIDE, *BUFFERS, "--block", "256"),
            "a block of 8 warps with 67 registers a thread needs 576 warp registers, preset default has 512; "
            "preset programs has enough",
        ),
        ((ADD, *MODEL, "--check"), "--check needs hardware, which the engine model does not have"),
        (
            (ADD, *MODEL, "--switch", "9"),
            "--switch needs hardware, which the engine model does not have",
        ),
        (
            (ADD, "--switch", "9", "--handler", "none.sass"),
            "--switch and --handler cannot be combined",
        ),
        (
            (ADD, "--switch", "9", "--timeline", "x.html"),
            "--switch and --timeline cannot be combined",
        ),
        ((ADD, "--switch", "0"), "argument --switch: '0' is not a whole number from 1 on"),
        ((ADD, "--nonsense"), "unrecognized arguments: --nonsense; --help lists the options"),
        (
            (ADD, *BUFFERS, "--arg", "u32:1", "--block", "512"),
            "a block of 512 threads needs 16 warps, preset default has 8; preset programs has enough",
        ),
        (
            (ADD, *BUFFERS, "--arg", "u32:1", "--block", "1024"),
            "a block of 1024 threads needs 32 warps, preset default has 8; preset programs has enough",
        ),
        (
            (ADD, *BUFFERS, "--arg", "u32:1", "--warps", "4", "--block", "256"),
            "a block of 256 threads needs 8 warps, preset default with 4 warps has 4; preset default has enough",
        ),
        (
            (ADD, "--warps", "3"),
            "preset default with 3 warps: warps must be a power of two from 1 to 64, not 3",
        ),
        (
            (ADD, "--lanes", "1"),
            "preset default with 1 lane: floats need at least 2 lanes; preset least has 1 lane, and no floats",
        ),
        ((ADD, "--warps", "0"), "argument --warps: '0' is not a whole number from 1 on"),
        (
            (ADD, "--warps", "2", "--engine", "board", "--port", "none"),
            "--warps: a board has the machine that it was built with",
        ),
        (
            (ADD, *BUFFERS, "--arg", "u32:1", "--block", "4096"),
            f"{ADD}: a block of 4096 in x; there can be 1024",
        ),
        (
            (ADD, "--arg", "500"),
            "argument 1 ('500') has no type: u32:500, or another type of the kernel's parameter",
        ),
        (
            (ADD, "--arg=-0x1F"),
            "argument 1 ('-0x1F') has no type: s32:-0x1F, or another type of the kernel's parameter",
        ),
        (
            (ADD, "--arg", "1e6"),
            "argument 1 ('1e6') has no type: f32:1e6, or another type of the kernel's parameter",
        ),
        (
            (ADD, "--arg", "seven"),
            "argument 1 ('seven') is neither TYPE:NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=TYPE@FILE nor "
            "struct:ITEM,... nor bytes:@FILE",
        ),
    ],
)
def test_one_line_for_each_mistake(capsys, arguments, message):
    assert refused(capsys, *arguments) == message


def test_an_argument_of_a_wrong_size_is_named_as_the_program_names_it(tmp_path, capsys):
    path = tmp_path / "k.ptx"
    path.write_text(
        ".version 4.3\n.target sm_50\n.entry k(.param .u64 out, .param .u32 count) { ret; }\n"
    )
    given = ("--arg", "buf:OUT=u32[4]", "--arg", "u64:5")
    assert refused(capsys, str(path), *given) == (
        f"{path}: kernel k, argument 2 (count): expected 4 bytes, got 8"
    )


def test_an_error_of_an_address_has_a_hint_and_others_have_none():
    def of(error):
        found = MachineError(error, "k", 0, 8, "NOP")
        return hints(Outcome("error", 1, 1, found))

    assert of(WarpError.MMU_FAULT) == of(WarpError.MISALIGNED_ADDR) != []
    assert "--engine model --bounds" in of(WarpError.OOR_ADDR)[0]
    assert of(WarpError.NONE) == of(WarpError.STACK_ERROR) == hints(Outcome("ok", 1, 1)) == []


def test_a_size_that_is_rounded_up_is_named(run_program, capsys):
    given = (ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--local", "32")
    assert run_program(*given, "--crs", "7")[0] == 0
    assert capsys.readouterr().out.startswith("rounded up    --crs 7 to 512 bytes\nkernel")
    assert run_program(*given, "--crs", "1024")[0] == 0
    assert "rounded" not in capsys.readouterr().out


def test_more_warps_than_the_preset_has_take_a_larger_block(run_program, capsys):
    arguments = [
        "--block",
        "512",
        "--arg",
        "buf:A=u32[512]",
        "--arg",
        "buf:B=u32[512]",
        "--arg",
        "buf:C=u32[512]",
        "--arg",
        "u32:512",
    ]
    code, _ = run_program(ADD, *MODEL, "--warps", "16", *arguments)
    assert code == 0


def test_unknown_presets_and_engines(capsys):
    assert refused(capsys, ADD, "--preset", "huge").startswith(
        "argument --preset: invalid choice: 'huge'"
    )
    assert refused(capsys, ADD, "--engine", "gpu").startswith(
        "argument --engine: invalid choice: 'gpu'"
    )


def test_a_file_that_is_no_cubin(tmp_path, capsys):
    path = tmp_path / "x.cubin"
    path.write_bytes(b"not an ELF file")
    assert refused(capsys, str(path)).startswith(f"{path}: ")


def test_an_instruction_that_the_machine_does_not_have(tmp_path, capsys):
    path, texture = tmp_path / "x.cubin", 0xC038_0000_0007_000F
    code = Path(ADD).read_bytes()
    exit_ = encode("EXIT").to_bytes(8, "little")
    assert code.count(exit_) >= 1
    path.write_bytes(code.replace(exit_, texture.to_bytes(8, "little")))
    assert refused(capsys, str(path), *MODEL) == (
        f"{path}: kernel k, 0x00f0: this machine has no instruction {texture:016x} TEX: there are no textures"
    )


def test_results_that_cannot_be_written_leave_nothing(tmp_path, capsys):
    target = tmp_path / "folder"
    target.mkdir()
    message = refused(capsys, ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--json", str(target))
    assert message == f"{target}: Is a directory"
    assert list(tmp_path.iterdir()) == [target]
    message = refused(
        capsys, ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--json", str(tmp_path / "no" / "out.json")
    )
    assert (
        message
        == f"{tmp_path / 'no' / 'out.json'}: No such file or directory: there is no folder {tmp_path / 'no'}"
    )


# Arguments

TYPES = "there are u8 u16 u32 u64 s8 s16 s32 s64 f32 f64 b8 b16 b32 b64"


@pytest.mark.parametrize(
    "text,argument",
    [
        ("u32:7", Scalar(7, 4, "u32")),
        ("u32:0xFFFFFFFF", Scalar(0xFFFFFFFF, 4, "u32")),
        ("s32:-1", Scalar(-1, 4, "s32")),
        ("f32:-2.5", Scalar(0xC0200000, 4, "f32")),
        ("f32:1e60", Scalar(0x7F800000, 4, "f32")),
        ("f32:nan", Scalar(0x7FC00000, 4, "f32")),
        ("f64:0.1", Scalar(0x3FB999999999999A, 8, "f64")),
        ("f32:1", Scalar(0x3F800000, 4, "f32")),
        ("s32:-0x80000000", Scalar(-1 << 31, 4, "s32")),
        ("u64:0x100000000", Scalar(1 << 32, 8, "u64")),
        ("u8:255", Scalar(255, 1, "u8")),
        ("b32:0x3f800000", Scalar(0x3F800000, 4, "b32")),
        ("s16:-5", Scalar(-5, 2, "s16")),
        ("u32:010", Scalar(10, 4, "u32")),
        ("buf:x=u32[3]", Buffer("x", bytes(12), "u32")),
        ("buf:a_1=u8[5]", Buffer("a_1", bytes(5), "u8")),
        ("buf:x=u16[2]", Buffer("x", bytes(4), "u16")),
        ("buf:x=u64[2]", Buffer("x", bytes(16), "u64")),
        ("buf:x=s32[2]", Buffer("x", bytes(8), "s32")),
    ],
)
def test_an_argument_is_read_with_its_type(text, argument):
    assert parse_argument(text) == argument


@pytest.mark.parametrize(
    "text,pattern,values",
    [
        ("struct:u64=5,u32=7", "<QII", (5, 7, 0)),
        ("struct:u8=1,u32=2,u8=3", "<B3xIB3x", (1, 2, 3)),
        ("struct:u8=1,f64=0.5,s16=-2", "<B7xdh6x", (1, 0.5, -2)),
        ("struct:u8=255", "<B", (255,)),
        ("struct:u8=1,struct(u8=2,u16=3),u8=4", "<BxBxHBx", (1, 2, 3, 4)),
        ("struct:u32=1,struct(u8=2,struct(u64=3,u8=4)),u32=5", "<I4xB7xQB7xI4x", (1, 2, 3, 4, 5)),
        ("struct:f32=1.5,f32=-inf,b32=0x7", "<ffI", (1.5, float("-inf"), 7)),
    ],
)
def test_structures_are_laid_out_as_c_does(text, pattern, values):
    assert parse_argument(text) == Structure(struct.pack(pattern, *values))


def test_structures_have_addresses_of_buffers(tmp_path):
    path = tmp_path / "in.bin"
    path.write_bytes(b"abcd")
    assert parse_argument(
        f"struct:u8=9,buf:A=u32[2],u32=3,struct(u8=1,buf:B=@{path})"
    ) == Structure(
        struct.pack("<B7xQI4xB7xQ", 9, 0, 3, 1, 0),
        ((8, Buffer("A", bytes(8), "u32")), (32, Buffer("B", b"abcd"))),
    )
    path.write_bytes(bytes(range(24)))
    assert parse_argument(f"bytes:@{path}") == Structure(bytes(range(24)))
    with pytest.raises(
        ArgumentError,
        match=r"^argument 2 \('struct:buf:x=u8\[1\],u8=1'\): there is a buffer x already$",
    ):
        parse_arguments(["buf:x=u32[1]", "struct:buf:x=u8[1],u8=1"])


@pytest.mark.parametrize(
    "text,message",
    [
        (
            "struct:",
            "'' is neither TYPE=NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=TYPE@FILE nor struct(ITEM,...)",
        ),
        (
            "struct:u32:1",
            "'u32:1' is neither TYPE=NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=TYPE@FILE nor struct(ITEM,...)",
        ),
        ("struct:u8=256", "u8 holds 0 to 255"),
        ("struct:f16=1", f"unknown type f16; there are {' '.join(TYPE_BYTES)}"),
        ("struct:struct(u8=1", "parentheses do not match"),
        ("struct:u8=1)", "parentheses do not match"),
        ("bytes:@nowhere.bin", "nowhere.bin: No such file or directory"),
    ],
)
def test_structures_that_are_none(text, message):
    with pytest.raises(ArgumentError) as error:
        parse_argument(text)
    assert str(error.value) == f"argument {text!r}: {message}"


STRUCTURES = """.version 7.0
.target sm_50
.address_size 64
.visible .entry k(.param .align 8 .b8 st[24], .param .f32 factor, .param .u32 count, .param .s64 wide, .param .b32 any)
{
    .reg .u64 a, w;
    .reg .u32 n;
    .reg .f32 f;
    ld.param.u64 a, [st+8];
    ld.param.u32 n, [st+16];
    st.global.u32 [a], n;
    ld.param.u8 n, [st];
    st.global.u32 [a+4], n;
    ld.param.f32 f, [factor];
    st.global.f32 [a+8], f;
    ld.param.b32 n, [any];
    st.global.u32 [a+12], n;
    ret;
}
"""
GIVEN = ("struct:u8=9,buf:A=u32[4],u32=3", "f32:1.5", "u32:1", "u64:1", "f32:2.5")


def test_a_structure_is_passed_by_value(run_program, tmp_path):
    """The kernel is PTX, or was compiled by NVIDIA's assembler."""
    path = tmp_path / "k.ptx"
    path.write_text(STRUCTURES)
    arguments = [word for text in GIVEN for word in ("--arg", text)]
    left = [3, 9, 0x3FC00000, 0x40200000]
    code, written = run_program(path, *MODEL, *arguments, "--block", "1")
    assert (code, written["buffers"]) == (0, {"A": left})
    try:
        path.with_suffix(".cubin").write_bytes(cubin_of_ptx(STRUCTURES))
    except CompilerError as error:
        pytest.skip(str(error))
    code, written = run_program(path.with_suffix(".cubin"), *MODEL, *arguments, "--block", "1")
    assert (code, written["buffers"]) == (0, {"A": left})


@pytest.mark.parametrize(
    "number,text,message",
    [
        (0, "u64:1", "expected 24 bytes, got 8"),
        (0, "struct:buf:A=u32[4],u32=3", "expected 24 bytes, got 16"),
        (1, "u32:1", "expected f32, got u32 (bits of any type: b32:0x...)"),
        (1, "f64:1", "expected 4 bytes, got 8"),
        (1, "b32:0x3f800000", None),
        (1, "struct:f32=1", None),
        (2, "f32:1.5", "expected u32, got f32 (bits of any type: b32:0x...)"),
        (2, "s32:-1", None),
        (2, "u16:1", "expected 4 bytes, got 2"),
        (3, "f64:1", "expected s64, got f64 (bits of any type: b64:0x...)"),
        (3, "buf:B=f64[1]", None),
        (4, "s32:-1", None),
        (4, "f32:1", None),
        (4, "buf:B=u8[1]", "expected 4 bytes, got 8"),
    ],
)
def test_types_and_sizes_of_parameters_are_checked(tmp_path, capsys, number, text, message):
    path = tmp_path / "k.ptx"
    path.write_text(STRUCTURES)
    given = [*GIVEN[:number], text, *GIVEN[number + 1 :]]
    arguments = [
        str(path),
        *MODEL,
        "--block",
        "1",
        *(word for text in given for word in ("--arg", text)),
    ]
    if message is None:
        assert main(arguments) == 0
    else:
        name = re.findall(r"\.param [^,)]*?(\w+)(?:\[\d+\])?[,)]", STRUCTURES)[number]
        assert refused(capsys, *arguments) == (
            f"{path}: kernel k, argument {number + 1} ({name}): {message}"
        )


def test_buffers_are_printed_in_their_types(tmp_path, capsys):
    path = tmp_path / "k.sass"
    kinds = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "b32", "b8")
    moves = "".join(
        f"MOV R2, c[0x0][p{n}]; MOV R3, c[0x0][p{n}+4]; STG.E.64 [R2], R4\n"
        for n in range(len(kinds))
    )
    path.write_text(
        ".kernel k\n"
        + "".join(f".param p{n} 8\n" for n in range(len(kinds) + 3))
        + f"MOV32I R4, 0xffc00000; MOV32I R5, 0xbff80000\n{moves}EXIT\n"
    )
    file = tmp_path / "in.bin"
    file.write_bytes(bytes(range(10)))
    floats = tmp_path / "floats.bin"
    floats.write_bytes(struct.pack("<3f", 0.5, -2, 1e10))
    arguments = [
        f"buf:{kind}=f64[1]".replace("f64[1]", f"{kind}[{8 // TYPE_BYTES[kind]}]") for kind in kinds
    ]
    files = [f"buf:file=@{file}", f"buf:bytes=u8@{file}", f"buf:floats=f32@{floats}"]
    assert (
        main(
            [
                str(path),
                *MODEL,
                "--block",
                "1",
                *(word for text in [*arguments, *files] for word in ("--arg", text)),
            ]
        )
        == 0
    )
    shown = dict(re.findall(r"buffer +(\w+), \d+ bytes at 0x\w+: (.*)", capsys.readouterr().out))
    words = 0xFFC0_0000, 0xBFF8_0000
    whole = words[0] | words[1] << 32
    assert shown == {
        "u8": "0 0 192 255 0 0 248 191",
        "s8": "0 0 -64 -1 0 0 -8 -65",
        "u16": "0 65472 0 49144",
        "s16": "0 -64 0 -16392",
        "u32": f"{words[0]} {words[1]}",
        "s32": f"{words[0] - 2**32} {words[1] - 2**32}",
        "u64": str(whole),
        "s64": str(whole - 2**64),
        "f32": "nan -1.9375",
        "f64": repr(struct.unpack("<d", struct.pack("<II", *words))[0]),
        "b32": "ffc00000 bff80000",
        "b8": "00 00 c0 ff 00 00 f8 bf",
        "file": "03020100 07060504 00000908",
        "bytes": "0 1 2 3 4 5 6 7 ...",
        "floats": "0.5 -2.0 1e+10",
    }


@pytest.mark.parametrize(
    "text,message",
    [
        ("u32:4294967296", "argument 'u32:4294967296': u32 holds 0 to 4294967295"),
        ("u32:-1", "argument 'u32:-1': u32 holds 0 to 4294967295"),
        ("s32:2147483648", "argument 's32:2147483648': s32 holds -2147483648 to 2147483647"),
        *(
            (
                text,
                f"argument {text!r}: unknown type f16; {TYPES}",
            )
            for text in ("f16:1", "buf:x=f16[4]")
        ),
        *(
            (
                text,
                f"argument {text!r} has no type and size: buf:x=u32[COUNT], or buf:x=f32@FILE",
            )
            for text in ("buf:x", "buf:x=")
        ),
        ("buf:x=f16@nowhere.bin", f"argument 'buf:x=f16@nowhere.bin': unknown type f16; {TYPES}"),
        ("buf:x=u32[0]", "argument 'buf:x=u32[0]': a buffer has 1 to 1073741824 bytes, not 0"),
        (
            "buf:x=u64[999999999]",
            "argument 'buf:x=u64[999999999]': a buffer has 1 to 1073741824 bytes, not 7999999992",
        ),
        (
            "buf:x=@nowhere.bin",
            "argument 'buf:x=@nowhere.bin': nowhere.bin: No such file or directory",
        ),
        *(
            (
                text,
                f"argument {text!r} is neither TYPE:NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=TYPE@FILE nor "
                "struct:ITEM,... nor bytes:@FILE",
            )
            for text in (
                "",
                "u32",
                "u32:",
                "u32:x",
                "u32:1.5",
                "buf:=u32[4]",
                "buf:1=u32[4]",
                "buf:x=u32",
                "buf:x=u32[-1]",
                "buf:x=u32[]",
                "buf:",
                "u32=1",
                "bytes:x",
            )
        ),
    ],
)
def test_arguments_that_are_none(text, message):
    with pytest.raises(ArgumentError) as error:
        parse_argument(text)
    assert str(error.value) == message


def test_a_file_of_numbers_has_whole_numbers(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(6))
    assert parse_argument(f"buf:x=u16@{path}") == Buffer("x", bytes(6), "u16")
    assert parse_argument(f"buf:x=@{path}") == Buffer("x", bytes(6))
    assert parse_argument(f"struct:buf:x=s8@{path}") == Structure(
        bytes(8), ((0, Buffer("x", bytes(6), "s8")),)
    )
    with pytest.raises(ArgumentError) as error:
        parse_argument(f"buf:x=f32@{path}")
    assert str(error.value) == (
        f"argument 'buf:x=f32@{path}': {path} has 6 bytes, which is no multiple of the 4 of f32"
    )


def test_a_file_name_may_have_an_at_sign(tmp_path):
    path = tmp_path / "a@b.bin"
    path.write_bytes(bytes(4))
    assert parse_argument(f"buf:x=u32@{path}") == Buffer("x", bytes(4), "u32")
    assert parse_argument(f"buf:x=@{path}") == Buffer("x", bytes(4))


def test_empty_files_and_equal_names(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(ArgumentError, match=rf"^argument 'buf:x=@{path}': {path} is empty$"):
        parse_argument(f"buf:x=@{path}")
    with pytest.raises(
        ArgumentError, match=r"^argument 3 \('buf:x=u8\[1\]'\): there is a buffer x already$"
    ):
        parse_arguments(["buf:x=u32[1]", "u32:1", "buf:x=u8[1]"])
