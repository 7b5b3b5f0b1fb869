"""The command ``python -m sim.run``: what it prints, writes and refuses."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from rtl.isa.tokens import TokenKind
from sim.launch import Buffer, Scalar
from sim.launch.arguments import ArgumentError, parse_argument, parse_arguments
from sim.model.retirement import StackToken
from sim.report.run import describe
from sim.run import main
from sim.toolchain.cuda import CompilerError, cubin_of_cuda
from testbench import refusal
from testbench.handmade import encode, machine, warp_of
from testbench.programs import ADD, BUFFERS, PROGRAMS, RECURSION, TRAP

WIDE = str(PROGRAMS / "k22_alu64.O0.cubin")
MODEL = ["--engine", "model"]


def refused(capsys, *arguments: str) -> str:
    """The line with which the command refuses its arguments, without its name."""
    return refusal.refused(capsys, main, arguments).removeprefix("python -m sim.run: ")


# Runs

def test_a_kernel_runs_and_its_buffers_are_written(run_program, tmp_path, capsys):
    (tmp_path / "a.bin").write_bytes(struct.pack("<40I", *range(40)))
    code, written = run_program(ADD, *MODEL, "--arg", f"buf:a=@{tmp_path / 'a.bin'}", "--arg", "buf:b=u32[40]", "--arg",
                                "buf:c=u32[40]", "--arg", "s32:40", "--block", "24", "--grid", "2")
    assert code == 0
    assert written == {"status": "ok", "cycles": written["instructions"], "instructions": written["instructions"],
                       "buffers": {"a": list(range(40)), "b": [0] * 40, "c": list(range(40))}, "esr": {}}
    assert written["instructions"] == 46
    assert {path.name for path in tmp_path.iterdir()} == {"a.bin", "out.json"}
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["kernel        k", "status        ok", "instructions  46"]
    assert lines[-1].startswith("buffer        c, 160 bytes at 0x2")
    assert lines[-1].endswith(": 00000000 00000001 00000002 00000003 00000004 00000005 00000006 00000007 ...")


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
    code, written = run_program(source, *MODEL, "--arg", "f32:2.5", "--arg", f"buf:x=@{tmp_path / 'x.bin'}", "--arg",
                                "buf:y=f32[4]", "--arg", "buf:z=f64[1]", "--block", "4")
    assert code == 0
    assert struct.pack("<4I", *written["buffers"]["y"]) == struct.pack("<4f", 2.5, 5, 1.25, -7.5)


def test_what_the_compiler_of_cuda_says_is_passed_on(tmp_path, capsys):
    source = tmp_path / "wrong.cu"
    source.write_text('extern "C" __global__ void wrong(int *p) { *p = q; }\n')
    try:
        cubin_of_cuda(b"", "nothing")
    except CompilerError as error:
        pytest.skip(str(error))
    assert refused(capsys, str(source)).startswith(f'{source}(1): error: identifier "q" is undefined')


def test_a_compiler_of_cuda_that_is_missing_is_named(tmp_path, capsys, monkeypatch):
    source = tmp_path / "k.cu"
    source.write_text(SCALED)
    monkeypatch.setattr("sim.toolchain.cuda.find_spec", lambda package: None)
    assert refused(capsys, str(source)) == (
        f"{source}: libnvrtc.so.11.2 is not there: pip install nvidia-cuda-nvrtc-cu11==11.8.89")


def test_an_error_is_shown_with_its_place(run_program, capsys):
    code, written = run_program(ADD, *MODEL, *BUFFERS, "--arg", "u32:100", "--block", "64")
    assert (code, written["status"]) == (1, "error")
    assert {name: written["esr"][name] for name in ("error", "code", "warp", "pc")} == {
        "error": "MMU_FAULT", "code": 0x17, "warp": 1, "pc": 0x98}
    text = capsys.readouterr().out
    assert "error         MMU_FAULT, code 0x17: thread 16, address 0x2" in text
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
    assert "     4 tokens in memory that faults: nothing is mapped at 0x80" in describe(made, made.run())


def test_the_limit(run_program, capsys):
    code, written = run_program(ADD, *MODEL, *BUFFERS, "--arg", "u32:40", "--max-cycles", "7")
    assert (code, written["status"], written["instructions"], written["esr"]) == (1, "timeout", 7, {})
    assert "status        timeout: stopped after 7 instructions\n" in capsys.readouterr().out


def test_the_command_itself():
    command = [sys.executable, "-m", "sim.run"]
    done = subprocess.run([*command, ADD, *MODEL, *BUFFERS, "--arg", "u32:40"], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run([*command, "nowhere.cubin"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "python -m sim.run: nowhere.cubin: No such file or directory\n"


# Bad input

@pytest.mark.parametrize("arguments,message", [
    ((), "the following arguments are required: PROGRAM"),
    (("program",), "program: a program is a file with the suffix .cubin, .ptx, .sass or .cu"),
    (("k.txt",), "k.txt: a program is a file with the suffix .cubin, .ptx, .sass or .cu"),
    ((ADD,), f"{ADD}: kernel k takes 4 arguments, not 0"),
    ((ADD, "--entry", "main"), f"{ADD}: no kernel main; it has k"),
    ((ADD, *BUFFERS, "--arg", "u64:1"), f"{ADD}: argument 3 of kernel k has 4 bytes, not 8"),
    ((ADD, "--grid", "0"), "argument --grid: '0' is not X[,Y[,Z]] with numbers from 1 on"),
    ((ADD, "--grid", "1,2,3,4"), "argument --grid: '1,2,3,4' is not X[,Y[,Z]] with numbers from 1 on"),
    ((ADD, "--block", "x"), "argument --block: 'x' is not X[,Y[,Z]] with numbers from 1 on"),
    ((ADD, "--crs", "-1"), "argument --crs: '-1' is not a number of bytes"),
    ((ADD, "--crs", "2000000"), f"{ADD}: 2000384 bytes of call/return stack; there can be 1048576"),
    ((ADD, "--local", "99999999"), f"{ADD}: 100000000 bytes of local memory; there can be 16777216"),
    ((ADD, "--shared", "50000"), f"{ADD}: 50000 bytes of shared memory; there can be 49152"),
    ((ADD, "--max-cycles", "0"), "argument --max-cycles: '0' is not a number from 1 on"),
    ((ADD, *MODEL, "--vcd", "x.vcd"), "--vcd needs hardware, which the engine model does not have"),
    ((ADD, *BUFFERS, "--arg", "u32:1", "--block", "64", "--vcd", "."), ".: Is a directory"),
    ((ADD, *BUFFERS, "--arg", "u32:1", "--fst", "x.vcd"), "--fst x.vcd: the name of an FST ends in .fst"),
    ((ADD, *MODEL, "--fst", "x.fst"), "--fst needs hardware, which the engine model does not have"),
    ((ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--handler", "none.sass"), "none.sass: No such file or directory"),
    ((WIDE, *BUFFERS, "--block", "256"),
     "a block of 8 warps with 67 registers a thread needs 576 warp registers, preset default has 512; "
     "preset full has enough"),
    ((ADD, *MODEL, "--check"), "--check needs hardware, which the engine model does not have"),
    ((ADD, *MODEL, "--switch", "9"), "--switch needs hardware, which the engine model does not have"),
    ((ADD, "--switch", "9", "--handler", "none.sass"), "--switch and --handler do not go together"),
    ((ADD, "--switch", "9", "--timeline", "x.html"), "--switch and --timeline do not go together"),
    ((ADD, "--switch", "0"), "argument --switch: '0' is not a number from 1 on"),
    ((ADD, "--nonsense"), "unrecognized arguments: --nonsense"),
    ((ADD, *BUFFERS, "--arg", "u32:1", "--block", "512"),
     "a block of 512 threads needs 16 warps, preset default has 8; preset full has enough"),
    ((ADD, *BUFFERS, "--arg", "u32:1", "--block", "4096"),
     "a block of 4096 threads needs 128 warps, preset default has 8"),
    ((ADD, "--arg", "7"), "argument '7' is neither TYPE:NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=@FILE"),
])
def test_one_line_for_each_mistake(capsys, arguments, message):
    assert refused(capsys, *arguments) == message


def test_unknown_presets_and_engines(capsys):
    assert refused(capsys, ADD, "--preset", "huge").startswith("argument --preset: invalid choice: 'huge'")
    assert refused(capsys, ADD, "--engine", "gpu").startswith("argument --engine: invalid choice: 'gpu'")


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
        f"{path}: kernel k, 0x00f0: this machine has no instruction {texture:016x} TEX: there are no textures")


def test_results_that_cannot_be_written_leave_nothing(tmp_path, capsys):
    target = tmp_path / "folder"
    target.mkdir()
    message = refused(capsys, ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--json", str(target))
    assert message == f"{target}: Is a directory"
    assert list(tmp_path.iterdir()) == [target]
    message = refused(capsys, ADD, *MODEL, *BUFFERS, "--arg", "u32:1", "--json", str(tmp_path / "no" / "out.json"))
    assert message == f"{tmp_path / 'no' / 'out.json'}: No such file or directory"


# Arguments

@pytest.mark.parametrize("text,argument", [
    ("u32:7", Scalar(7, 4)), ("u32:0xFFFFFFFF", Scalar(0xFFFFFFFF, 4)), ("s32:-1", Scalar(-1, 4)),
    ("f32:-2.5", Scalar(0xC0200000, 4)), ("f32:1e60", Scalar(0x7F800000, 4)), ("f32:nan", Scalar(0x7FC00000, 4)),
    ("f64:0.1", Scalar(0x3FB999999999999A, 8)), ("f32:1", Scalar(0x3F800000, 4)),
    ("s32:-0x80000000", Scalar(-1 << 31, 4)), ("u64:0x100000000", Scalar(1 << 32, 8)), ("u8:255", Scalar(255, 1)),
    ("s16:-5", Scalar(-5, 2)), ("u32:010", Scalar(10, 4)), ("buf:x=u32[3]", Buffer("x", bytes(12))),
    ("buf:a_1=u8[5]", Buffer("a_1", bytes(5))), ("buf:x=u16[2]", Buffer("x", bytes(4))),
    ("buf:x=u64[2]", Buffer("x", bytes(16))), ("buf:x=s32[2]", Buffer("x", bytes(8)))])
def test_arguments(text, argument):
    assert parse_argument(text) == argument


@pytest.mark.parametrize("text,message", [
    ("u32:4294967296", "argument 'u32:4294967296': u32 holds 0 to 4294967295"),
    ("u32:-1", "argument 'u32:-1': u32 holds 0 to 4294967295"),
    ("s32:2147483648", "argument 's32:2147483648': s32 holds -2147483648 to 2147483647"),
    ("f16:1", "argument 'f16:1': unknown type f16; there are u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"),
    ("buf:x=f16[4]", "argument 'buf:x=f16[4]': unknown type f16; there are u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"),
    ("buf:x=u32[0]", "argument 'buf:x=u32[0]': a buffer has 1 to 1073741824 bytes, not 0"),
    ("buf:x=u64[999999999]", "argument 'buf:x=u64[999999999]': a buffer has 1 to 1073741824 bytes, not 7999999992"),
    ("buf:x=@nowhere.bin", "argument 'buf:x=@nowhere.bin': nowhere.bin: No such file or directory"),
    *((text, f"argument {text!r} is neither TYPE:NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=@FILE")
      for text in ("", "u32", "u32:", "u32:x", "u32:1.5", "buf:=u32[4]", "buf:1=u32[4]", "buf:x=u32", "buf:x=u32[-1]",
                   "buf:x=u32[]", "buf:x"))])
def test_arguments_that_are_none(text, message):
    with pytest.raises(ArgumentError) as error:
        parse_argument(text)
    assert str(error.value) == message


def test_empty_files_and_equal_names(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(ArgumentError, match=rf"^argument 'buf:x=@{path}': {path} is empty$"):
        parse_argument(f"buf:x=@{path}")
    with pytest.raises(ArgumentError, match=r"^argument 'buf:x=u8\[1\]': there is a buffer x already$"):
        parse_arguments(["buf:x=u32[1]", "u32:1", "buf:x=u8[1]"])
