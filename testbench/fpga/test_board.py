"""A board in simulation without its clock and pads, driven by the real host programs at its serial
line.
"""

import json

import pytest

from sim.checks.bench import main as bench
from sim.debug import main as debug
from sim.run import main as run
from testbench.engine.designs import needs_compiled
from testbench.programs import RECURSION

pytestmark = needs_compiled
ADDS = """\
.kernel adds
.param out 8
        S2R R0, SR_TID.X
        ISCADD R2.CC, R0, c[0x0][out], 0x2
        IADD.X R3, RZ, c[0x0][out+4]
        IADD32I R4, R0, 0x64
        STG.E [R2], R4
        EXIT
"""
ENDLESS = """\
.kernel endless
        SSY again
again:
        PRET again
        BAR.SYNC 0x0
        RET
"""
FAILS = """\
.kernel fails
        MOV32I R2, 0x10
        MOV R3, RZ
        LDG.E R4, [R2]
        EXIT
"""


def on(port, *arguments):
    return [*map(str, arguments), "--engine", "board", "--port", port]


def test_kernels_run_on_a_board_one_after_the_other(port, run_program, tmp_path, capsys):
    """The first run fails and leaves warps in the trap; the second run resets the machine."""
    (tmp_path / "fails.sass").write_text(FAILS)
    code, result = run_program(*on(port, tmp_path / "fails.sass"))
    assert code == 1
    printed = capsys.readouterr().out
    assert f"machine       tiny, board at {port}\n" in printed
    assert "exception     CUDA_EXCEPTION_14, Warp Illegal Address" in printed
    assert "MMU_FAULT" in json.dumps(result["esr"])
    code, result = run_program(
        *on(port, RECURSION, "--block", 12, "--arg", "buf:OUT=u32[12]", "--check")
    )
    assert code == 0
    assert result["buffers"]["OUT"] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    assert result["instructions"] > 1000


def test_a_reset_ends_a_grid_that_would_run_for_ever(port, run_program, tmp_path, capsys):
    """Its host stops waiting, and the reset before the next run restores the initial state. Another
    run is reset during calls, while stacks are moved between the chip and memory.
    """
    (tmp_path / "endless.sass").write_text(ENDLESS)
    recursion = on(port, RECURSION, "--block", 12, "--arg", "buf:OUT=u32[12]", "--check")
    for _ in range(2):
        assert run_program(*recursion)[0] == 0
    for given_up in (on(port, tmp_path / "endless.sass", "--block", 64), recursion):
        assert run_program(*given_up, "--max-cycles", 20_000)[0] == 1
        code, result = run_program(*recursion)
        assert code == 0
        assert result["buffers"]["OUT"] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


def test_a_kernel_is_debugged_on_a_board(port, tmp_path, capsys):
    (tmp_path / "adds.sass").write_text(ADDS)
    batch = tmp_path / "batch"
    batch.write_text("break 0x28\nrun\nregisters\nstep\nregisters R4\ndelete\ncontinue\nquit\n")
    assert (
        debug(
            on(
                port,
                tmp_path / "adds.sass",
                "--block",
                4,
                "--arg",
                "buf:OUT=u32[4]",
                "--batch",
                batch,
            )
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "breakpoint 1: warp 0" in text
    assert "the grid is over" in text
    assert "00000064 00000065 00000066 00000067" in text


def test_throughput_is_measured_on_a_board(port, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert (
        bench(["throughput", "--quick", "--engine", "board", "--port", port, "--json", str(out)])
        == 0
    )
    figures = json.loads(out.read_text())
    assert (figures["preset"], figures["engine"], figures["clock_hz"]) == (
        "tiny",
        "board",
        12_000_000,
    )
    assert [row["busy"] > 0.9 for row in figures["throughput"]] == [True, True]
    assert capsys.readouterr().out.startswith("Independent integer work, 2 warps, 4 lanes.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "full"], "the board has preset tiny, not full"),
        (["--local", "1000000"], "the launch needs "),
        (["--vcd", "out.vcd"], "--vcd needs a simulation, which a board is not"),
        (["--block", "96"], "a block of 96 threads needs 3 warps, preset tiny has 2\n"),
    ],
)
def test_what_a_board_cannot_do_is_said_in_one_line(port, tmp_path, capsys, arguments, message):
    (tmp_path / "adds.sass").write_text(ADDS)
    with pytest.raises(SystemExit, match="2"):
        run(on(port, tmp_path / "adds.sass", "--arg", "buf:OUT=u32[128]", *arguments))
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
