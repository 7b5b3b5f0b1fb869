"""Accesses outside of a launch's allocations, which ``sim.run --bounds`` reports."""

import re
from pathlib import Path

import pytest

from sim.run import main
from testbench.programs import ADD, PROGRAMS
from testbench.refusal import refused

BASE = 0x2_0000_1100
"""Address of the first buffer of a program without variables: one page and its gap after the start
of the heap.
"""


def lines(capsys) -> list[str]:
    return [
        line.removeprefix("outside       ")
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("outside ")
    ]


def run(path, *arguments: str) -> int:
    return main([str(path), "--engine", "model", "--bounds", *arguments])


def program(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "k.sass"
    path.write_text(
        f".global v; .word 1, 2, 3\n.kernel k\n.param a 8\nMOV R2, c[0x0][a]; MOV R3, c[0x0][a+4]\n"
        f"S2R R0, SR_TID.X; ISCADD R2.CC, R0, R2, 0x2; IADD.X R3, RZ, R3\n{body}\nEXIT\n"
    )
    return path


def test_a_buffer_that_is_too_small_within_a_line_is_reported(run_program, capsys):
    code, written = run_program(
        ADD,
        "--engine",
        "model",
        "--bounds",
        "--arg",
        "buf:A=u32[8]",
        "--arg",
        "buf:B=u32[7]",
        "--arg",
        "buf:C=u32[10]",
        "--arg",
        "u32:12",
    )
    assert code == 1
    assert written["status"] == "error"
    assert [(one["instruction"], one["thread"], one["accesses"]) for one in written["outside"]] == [
        ("LDG.E R2, [R2]", [8, 0, 0], 4),
        ("LDG.E R4, [R4]", [7, 0, 0], 5),
        ("STG.E [R6], R0", [10, 0, 0], 2),
    ]
    assert written["outside"][0]["address"] == BASE + 32 and written["outside"][0]["bytes"] == 4
    printed = lines(capsys)
    assert printed[0] == (
        f"pc 0x0098, LDG.E R2, [R2]: block: [0,0,0], thread: [8,0,0]: 4 bytes at {BASE + 32:#x}, "
        f"0 bytes behind A (32 bytes at {BASE:#x}); 4 accesses"
    )


def test_accesses_inside_are_not_reported(run_program, capsys):
    code, written = run_program(
        ADD,
        "--engine",
        "model",
        "--bounds",
        "--arg",
        "buf:A=u32[12]",
        "--arg",
        "buf:B=u32[12]",
        "--arg",
        "buf:C=u32[12]",
        "--arg",
        "u32:12",
    )
    assert (code, written["outside"], lines(capsys)) == (0, [], [])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("STG.E [R2], R0", None),
        ("STG.E.64 [R2+0x8], RZ", "8 bytes at {:#x}, over the end of a (12 bytes at {:#x})"),
        ("STG.E.U8 [R2+0xb], R0", None),
        ("STG.E.U8 [R2+0xc], R0", "1 byte at {:#x}, 0 bytes behind a (12 bytes at {:#x})"),
        ("RED.E.ADD [R2+0x1c], R0", "4 bytes at {:#x}, 16 bytes behind a (12 bytes at {:#x})"),
        ("ATOM.E.ADD R4, [R2+0x10], R0", "4 bytes at {:#x}, 4 bytes behind a (12 bytes at {:#x})"),
        ("LD.E R4, [R2+0x10], PT", "4 bytes at {:#x}, 4 bytes behind a (12 bytes at {:#x})"),
    ],
)
def test_every_kind_of_access_is_looked_at(tmp_path, capsys, body, expected):
    path = program(tmp_path, body)
    code = run(path, "--block", "1", "--arg", "buf:a=u32[3]")
    found = lines(capsys)
    assert code == (expected is not None)
    if expected is not None:
        offset = int(re.findall(r"\+(0x\w+)", body)[0], 16)
        buffer = int(re.findall(r"bytes at (0x\w+)\)", found[0])[0], 16)
        assert found[0].endswith(expected.format(buffer + offset, buffer)), found


def test_threads_are_named_by_their_places(tmp_path, capsys):
    path = program(tmp_path, "@!P0 STG.E [R2], R0")
    assert run(path, "--block", "4,8,2", "--grid", "1,2", "--arg", "buf:a=u32[3]") == 1
    (found,) = lines(capsys)
    assert "block: [0,0,0], thread: [3,0,0]" in found and found.endswith("; 32 accesses")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("MOV32I R4, 32@lo(v); MOV32I R5, 32@hi(v); LDG.E R6, [R4+0x8]", 0),
        ("MOV32I R4, 32@lo(v); MOV32I R5, 32@hi(v); LDG.E R6, [R4+0xc]", 1),
        ("MOV32I R4, 32@lo(k); MOV32I R5, 0x1; LDG.E R6, [R4]", 1),
        ("STL [RZ], R0", 0),
        ("MOV32I R4, 0x2000000; MOV R5, RZ; ST.E [R4], R0, PT", 0),
    ],
)
def test_variables_and_local_memory_are_given_code_is_not(tmp_path, capsys, body, code):
    assert run(program(tmp_path, body), "--block", "1", "--arg", "buf:a=u32[1]") == code


def test_output_and_heap_are_given(capsys):
    assert (
        run(PROGRAMS / "runtime" / "hello.O3.cubin", "--block", "3", "--arg", "buf:out=u32[32]")
        == 0
    )


def test_the_hardware_does_not_look_at_bytes(capsys):
    assert refused(capsys, main, [ADD, "--bounds"]).endswith(
        "--bounds needs --engine model: the hardware's memory comes in lines of 64 bytes"
    )
