"""The command ``sim.ptx``, and PTX files as programs."""

import subprocess
import sys

import pytest

from sim import ptx
from sim.toolchain.cubin.loader import read_cubin
from testbench.kernels.manifest import cubin
from testbench.ptx.text import HEADER

KERNEL = cubin("k01_vecadd", "O0").parent / "k09_ackermann.ptx"
ADD_ONE = (
    HEADER
    + """.visible .entry add_one(.param .u64 o, .param .u32 n)
{ .reg .b32 r<3>; .reg .b64 d<3>; mov.u32 r0, %tid.x; ld.param.u64 d0, [o]; mul.wide.u32 d1, r0, 4; add.u64 d0, d0, d1;
  ld.param.u32 r1, [n]; add.u32 r1, r1, 1; st.global.u32 [d0], r1; ret; }
"""
)


def test_a_file_becomes_a_cubin(tmp_path):
    out = tmp_path / "out.cubin"
    assert ptx.main([str(KERNEL), "-o", str(out)]) == 0
    assert [
        (parameter.offset, parameter.size)
        for parameter in read_cubin(str(out)).kernel("k").parameters
    ] == [(0, 8)]
    assert list(tmp_path.iterdir()) == [out]


def test_assembly_text_is_written_on_request(run_program, tmp_path):
    out = tmp_path / "out.sass"
    assert ptx.main([str(KERNEL), "-o", str(out)]) == 0
    assert out.read_text().startswith(".")
    assert ".kernel k\n" in out.read_text()
    for program in (out, KERNEL):
        code, written = run_program(program, "--block", "36", "--arg", "buf:out=u32[36]")
        # Ackermann's function of 2 and n is 2n + 3.
        assert (code, written["buffers"]["out"]) == (0, [3, 5, 7, 9] + [0] * 32)


def test_a_ptx_file_is_a_program(run_program, tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(ADD_ONE)
    code, written = run_program(path, "--arg", "buf:o=u32[40]", "--arg", "u32:41")
    assert (code, written["buffers"]["o"]) == (0, [42] * 32 + [0] * 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ADD_ONE.replace("add.u32", "ad.u32"), "{path}:6:25: unknown instruction ad"),
        (
            ADD_ONE.replace("add.u32", "add.f16"),
            "{path}:6:25: add.f16: needs sm_53, and this machine is sm_50",
        ),
        (HEADER, "{path}: has no entry"),
        ("", "{path}: expected .version and .target first"),
        (
            ADD_ONE.replace("ret;", "ret,"),
            "{path}:6:71: unexpected ',': expected '!', '(', ':', ';', '[', '{{', a "
            "modifier, a name, a number or an operator",
        ),
    ],
)
def test_a_wrong_file_gets_one_line(tmp_path, capsys, text, message):
    path, out = tmp_path / "k.ptx", tmp_path / "out.cubin"
    path.write_text(text)
    assert ptx.main([str(path), "-o", str(out)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"python -m sim.ptx: {message.format(path=path)}\n")
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_cannot_be_read_or_written(tmp_path, capsys):
    assert ptx.main([str(tmp_path / "no.ptx"), "-o", "x"]) == 2
    assert capsys.readouterr().err == (
        f"python -m sim.ptx: {tmp_path / 'no.ptx'}: No such file or directory\n"
    )
    (tmp_path / "k.ptx").write_bytes(b".version 7.8 \xff")
    assert ptx.main([str(tmp_path / "k.ptx"), "-o", "x"]) == 2
    assert (
        capsys.readouterr().err
        == f"python -m sim.ptx: {tmp_path / 'k.ptx'}: not a text: invalid start byte at byte 0xd\n"
    )
    assert ptx.main([str(KERNEL), "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"python -m sim.ptx: {tmp_path}: Is a directory\n"


def test_the_command_itself(tmp_path):
    command = [sys.executable, "-m", "sim.ptx"]
    done = subprocess.run(
        [*command, "nowhere.ptx", "-o", "x"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "python -m sim.ptx: nowhere.ptx: No such file or directory\n",
    )
