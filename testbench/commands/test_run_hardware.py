"""The command ``python -m sim.run`` on hardware: lockstep, waveforms, errors, hangs."""

import re
import signal
from functools import partial

import pytest
import pywellen

from sim.machine.base import BaseMachine
from sim.run import main
from testbench.engine.designs import needs_compiled
from testbench.programs import ADD, BUFFERS, PROGRAMS, RECURSION, TRAP
from testbench.refusal import refused

HARDWARE = ["--engine", "compiled", "--preset", "tiny"]

pytestmark = needs_compiled


@pytest.fixture
def run(run_program):
    """Runs the command; returns exit code and results."""
    return partial(run_program, *HARDWARE)


def test_a_kernel_in_lockstep(run, capsys):
    code, written = run(RECURSION, "--block", "12", "--arg", "buf:o=u32[12]", "--check")
    assert (code, written["status"], written["esr"]) == (0, "ok", {})
    assert written["buffers"]["o"] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    assert 4_000 < written["instructions"] < written["cycles"]
    printed = capsys.readouterr().out
    assert printed.startswith("kernel        k\nmachine       tiny, compiled engine\nstatus ")
    assert f"compared      {written['instructions']} instructions" in printed


def test_the_engine_by_its_other_name(capsys):
    assert main([ADD, *BUFFERS, "--arg", "u32:40", "--preset", "tiny", "--engine", "cxxrtl"]) == 0
    assert "status        ok" in capsys.readouterr().out


def test_a_waveform_with_a_save_file_beside_it(run, tmp_path, capsys):
    waveform = tmp_path / "run.vcd"
    code, _ = run(ADD, *BUFFERS, "--arg", "u32:40", "--vcd", str(waveform))
    assert code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"out.json", "run.gtkw", "run.vcd"}
    assert f"waveform      {waveform}\n" in capsys.readouterr().out


def test_a_waveform_shows_the_depth_of_a_stack_token_by_token(run, tmp_path):
    """At most 28 calls are open: the first one, and the 27 of thread 7 alone."""
    waveform = tmp_path / "run.vcd"
    code, _ = run(
        PROGRAMS / "tour" / "recursion.sass",
        "--block",
        "8",
        "--arg",
        "buf:o=u32[8]",
        "--vcd",
        str(waveform),
    )
    assert code == 0
    variables = pywellen.Waveform(str(waveform)).all_vars()  # pyright: ignore
    depths = [
        text
        for variable in variables
        if variable.full_name == "sm.warp0.depth"
        for _, text in variable.tv
    ]
    assert depths == [str(depth) for depth in (*range(28), *range(28, -1, -1))]


def test_an_error_is_shown_with_its_place(run, capsys):
    code, written = run(ADD, *BUFFERS, "--arg", "u32:100", "--block", "64", "--check")
    assert code == 1
    expected = {
        "error": "MMU_FAULT",
        "code": 0x17,
        "warp": 1,
        "pc": 0x98,
        "global": ["BPT_PAUSE", "MULTIPLE_WARP_ERRORS"],
    }  # the warp's next load also fails
    assert written["esr"].items() >= expected.items()
    text = capsys.readouterr().out
    cycles, idle = (
        int(number) for number in re.findall(r"^(?:idle )?cycles +(\d+)$", text, re.MULTILINE)
    )
    assert cycles // 2 < idle < cycles == written["cycles"]  # it waits for memory most of the time
    assert "error         MMU_FAULT, code 0x17\nwhere         warp 1, pc 0x0098\n" in text
    assert "\n  -> 0x0098  eed4200000070202  LDG.E R2, [R2]\n" in text
    assert "\nmasks         active ffffffff\nstack         0 tokens" in text


def test_a_trap_is_shown_with_its_reason(run, tmp_path, capsys):
    code, written = run(TRAP, "--arg", "buf:o=u32[2]")
    if written["status"] == "ok":  # what the kernel does depends on its buffer
        (tmp_path / "o.bin").write_bytes(bytes([99, 0, 0, 0, 0, 0, 0, 0]))
        code, written = run(TRAP, "--arg", f"buf:o=@{tmp_path / 'o.bin'}")
    expected = {"error": "NONE", "code": 0, "warp": 0, "pc": 0x88, "trap_reasons": [1]}
    assert code == 1
    assert written["esr"].items() >= expected.items()
    assert "error         BPT.TRAP, reasons so far: 1\n" in capsys.readouterr().out


@pytest.mark.parametrize(("preset", "cycles"), [("tiny", 3_000), ("least", 30_000)])
def test_a_hang_is_diagnosed(run, tmp_path, capsys, preset, cycles):
    source = tmp_path / "hang.sass"
    source.write_text(""".kernel hang
.barriers 1
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, 0x20, PT
        SSY .Lend
    @P0 BRA .Lother
        BAR.SYNC 0x0, 0x40
        SYNC
.Lother:
        BRA .Lother
.Lend:
        EXIT
""")
    code, written = run(
        str(source), "--block", "64", "--preset", preset, "--max-cycles", str(cycles)
    )
    assert (code, written["status"]) == (1, "timeout")
    text = capsys.readouterr().out
    assert f"status        timeout: not over after {str(cycles)[:-3]}," in text
    assert "warp 0: waits at barrier 0\n  issued last 0x" in text
    assert (
        "BAR.SYNC 0x0, 0x40\n  masks         active ffffffff\n  stack         1 tokens, 0 counted calls open, "
        "top first\n       SYNC pc=" in text
    )
    assert "\nwarp 1: " in text


def test_ctrl_c_shows_where_the_warps_are(tmp_path, monkeypatch, capsys):
    """Waveform and timeline end at that cycle; results are not written."""
    source, waveform, page, out = (
        tmp_path / name for name in ("loop.sass", "loop.vcd", "loop.html", "out.json")
    )
    source.write_text(".kernel k\nagain:\n        BRA again\n")
    monkeypatch.setattr(
        "sys.argv",
        [
            "sim.run",
            str(source),
            *HARDWARE,
            "--block",
            "4",
            "--check",
            "--json",
            str(out),
            "--vcd",
            str(waveform),
            "--timeline",
            str(page),
        ],
    )
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)
    counter = BaseMachine._counter

    async def interrupted(self, name):
        signal.raise_signal(signal.SIGINT)
        return await counter(self, name)

    monkeypatch.setattr(BaseMachine, "_counter", interrupted)
    try:
        assert main() == 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    printed = capsys.readouterr()
    cycles = re.search(
        r"^status        interrupted after (10,0\d\d) cycles$", printed.out, re.MULTILINE
    )
    assert cycles and printed.err == f"python -m sim.run: interrupted after {cycles[1]} cycles\n"
    assert re.search(
        r"^warp 0: .*\n  issued last 0x0008  .* BRA 0x0\n  masks         active 0000000f",
        printed.out,
        re.MULTILINE,
    )
    assert f"waveform      {waveform}, up to the interruption\n" in printed.out
    assert f"timeline      {page}, up to the interruption\n" in printed.out
    assert (
        f"#{int(cycles[1].replace(',', '')) * 10}\n" in waveform.read_text()
        and page.stat().st_size > 1000
    )
    assert not out.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "loop.gtkw",
        "loop.html",
        "loop.sass",
        "loop.vcd",
    ]


def test_a_context_switch_changes_nothing_of_what_a_kernel_leaves(run, tmp_path, capsys):
    """A recursion is stopped during its calls, in lockstep, and continues on another machine."""
    waveform = tmp_path / "run.vcd"
    code, written = run(
        RECURSION,
        "--block",
        "12",
        "--arg",
        "buf:o=u32[12]",
        "--check",
        "--switch",
        "20000",
        "--vcd",
        str(waveform),
    )
    assert (code, written["status"]) == (0, "ok")
    assert written["buffers"]["o"] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    text = capsys.readouterr().out
    message = re.search(
        r"^switched +the grid is off the machine after ([\d,]+) cycles, and continues\n"
        r"saved +CTA 0, warp 0: before 0x\w{4} .*, (\d+) tokens on its stack$",
        text,
        re.MULTILINE,
    )
    assert message
    assert 20_000 < int(message[1].replace(",", "")) < 25_000
    assert int(message[2]) > 0
    assert waveform.exists()


def test_a_grid_that_has_ended_is_not_switched(run, capsys):
    code, written = run(ADD, *BUFFERS, "--arg", "u32:40", "--switch", "100000")
    assert (code, written["status"]) == (0, "ok")
    assert "switched      not: the grid has ended before, after " in capsys.readouterr().out


def test_a_context_switch_that_takes_too_long_is_refused(capsys):
    message = refused(
        capsys,
        main,
        [ADD, *HARDWARE, *BUFFERS, "--arg", "u32:40", "--switch", "300", "--max-cycles", "5"],
    )
    assert message == "python -m sim.run: --switch 300: the warps have not ended within 5 cycles"


def test_an_interrupt_is_no_error(run, tmp_path, capsys):
    source = tmp_path / "interrupt.sass"
    source.write_text(".kernel interrupt\n        BPT.INT\n        EXIT\n")
    code, written = run(str(source), "--check")
    assert (code, written["status"], written["esr"]["global"]) == (0, "ok", ["BPT_INT"])
    assert "events        BPT_INT\n" in capsys.readouterr().out
