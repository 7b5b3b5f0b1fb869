"""The command ``python -m sim.debug``: sessions on small programs."""

import re
import shlex
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from sim.debug import main
from sim.debugger.addresses import FunctionAddresses
from sim.debugger.commands import COMMANDS, command_of
from sim.debugger.errors import DebuggerError
from sim.debugger.terminal import PROMPT
from sim.debugger.watch import Watch
from testbench.engine.designs import needs_compiled
from testbench.programs import PROGRAMS, RECURSION
from testbench.refusal import refused

PRINTS = str(PROGRAMS / "runtime" / "hello.O3.cubin")
BARRIER = """.kernel k
.param out 8
.registers 24
        S2R R0, SR_TID.X
        MOV32I R4, 0x3
loop:
        BAR.SYNC 0x0
        IADD32I R4, R4, -0x1
        ISETP.NE.U32.AND P0, PT, R4, RZ, PT
    @P0 BRA loop
        MOV R2, c[0x0][out]
        MOV R3, c[0x0][out+4]
        ISCADD R2, R0, R2, 0x2
        STG.E [R2], R0
        EXIT
"""
DIVERGES = """.kernel k
.param out 8
.registers 24
        S2R R0, SR_TID.X
        ISETP.LT.U32.AND P0, PT, R0, 0x8, PT
        SSY join
    @P0 BRA low
        MOV32I R5, 0x1
        SYNC
low:
        MOV32I R5, 0x2
        SYNC
join:
        MOV R2, c[0x0][out]
        MOV R3, c[0x0][out+4]
        ISCADD R2, R0, R2, 0x2
        STG.E [R2], R5
        EXIT
"""
FAILS = ".kernel k\n.param out 8\n    NOP\n    BPT.TRAP 0x3\n    RTT\n    EXIT\n"
"""A program that fails: RTT is legal only in trap handlers."""
ENDLESS = ".kernel k\n.param out 8\nagain:\n    IADD32I R0, R0, 0x1\n    BRA again\n"
LOOP = """.kernel k
.param out 8
.registers 24
        MOV32I R4, 0x3
again:
        IADD32I R4, R4, -0x1
        ISETP.NE.U32.AND P0, PT, R4, RZ, PT
    @P0 BRA again
        EXIT
"""
TINY = ("--preset", "tiny", "--engine", "compiled")


@pytest.fixture
def session(tmp_path, monkeypatch, hardware):
    """Returns the arguments of a session on a program text or a file, with the shared machine."""
    monkeypatch.setattr("sim.debug.Hardware", lambda params, engine: hardware)

    def arguments(program: str, *more: str) -> list[str]:
        path = Path(program)
        if "\n" in program:
            path = tmp_path / "test.sass"
            path.write_text(program)
        return [str(path), *TINY, "--arg", "buf:out=u32[64]", *more]

    return arguments


@pytest.fixture
def debug(tmp_path, capsys, session):
    """Returns a function that runs commands on a program and returns the output of each."""

    def run(program: str, *commands: str, block: int = 32, grid: int = 1) -> list[str]:
        script = tmp_path / "script"
        script.write_text("".join(f"{command}\n" for command in commands))
        assert (
            main(
                session(program, "--block", str(block), "--grid", str(grid), "--batch", str(script))
            )
            == 0
        )
        shown = capsys.readouterr().out.split(PROMPT)[1:]
        assert [text.splitlines()[0] for text in shown] == list(commands)
        return [text.partition("\n")[2] for text in shown]

    return run


def tokens(shown: str) -> list[str]:
    """Returns a stack's tokens without their numbers."""
    return [line.split(maxsplit=1)[1] for line in shown.splitlines()[1:]]


@needs_compiled
def test_a_recursion_is_inspected_and_continues_undisturbed(debug):
    plain = debug(RECURSION, "run", "memory out 12", block=12)
    assert "over" in plain[0]
    broken, _, stack, _, deeper, listed, back, deleted, over, memory, states = debug(
        RECURSION,
        "break fib",
        "run",
        "stack",
        "continue",
        "stack",
        "break",
        "disassemble fib 1",
        "delete 1",
        "continue",
        "memory out 12",
        "break",
        block=12,
    )
    assert broken.startswith("breakpoint 1 at 0x0070 fib\n     *0x0070 ")
    assert stack.splitlines()[0] == "1 tokens, 1 counted calls open, top first"
    assert stack.splitlines()[-1] == "    0  RETURN    mask 00000fff  pc 0x0030 k+0x30  counted"
    assert deeper.splitlines()[0] == "2 tokens, 2 counted calls open, top first"
    assert deeper.splitlines()[1] == "    1  RETURN    mask 00000ffc  pc 0x00c0 fib+0x50  counted"
    assert listed == "breakpoint 1 at 0x0070 fib\n"
    assert back == "fib:\n  -> *0x0070  1c0fffffff870101  IADD32I R1, R1, -0x8\n"
    assert (deleted, states) == ("breakpoint 1 deleted\n", "no breakpoints\n")
    assert "the grid is over" in over
    assert memory == plain[1]


@needs_compiled
def test_what_a_kernel_prints_is_shown_when_it_stops(debug):
    _, first, second, over = debug(PRINTS, "break vprintf", "run", "continue", "continue", block=2)
    printed = [
        "thread  0 of block 0: shared, global, 1073741824",
        "thread  1 of block 0: shared, global, 2147483648",
    ]
    assert first.startswith("breakpoint 1: warp 0\n") and " vprintf\n" in first
    assert second.splitlines()[:2] == printed
    assert over.splitlines()[0] == "bcd1" and "the grid is over" in over.splitlines()[1]


@needs_compiled
def test_a_breakpoint_is_hit_every_time(debug):
    hits = debug(
        LOOP,
        "break 0x10",
        "run",
        "registers R4",
        "continue",
        "registers R4",
        "continue",
        "registers R4",
        "continue",
    )
    assert [text.split()[2] for text in hits[2:7:2]] == ["00000003", "00000002", "00000001"]
    assert (
        hits[1]
        == hits[3]
        == hits[5]
        == (
            "breakpoint 1: warp 0\nwarp 0 at 0x0010 k+0x10\n  -> *0x0010  1c0ffffffff70404  IADD32I R4, R4, -0x1\n"
        )
    )
    assert hits[7].startswith("the grid is over, ")


@needs_compiled
def test_steps_follow_a_branch_on_which_threads_part(debug):
    """The taken path is first, then the other one; the tokens show on which token each thread is
    pending.
    """
    shown = debug(
        DIVERGES,
        "break k+0x20",
        "run",
        "step",
        "masks",
        "stack",
        "thread",
        "step 2",
        "masks",
        "stack",
        "step 2",
        "masks",
        "stack",
        "registers R5",
        "continue",
        "memory out 12",
    )
    assert shown[2] == "warp 0 at 0x0048 k+0x48\n  ->  0x0048  010000000027f005  MOV32I R5, 0x2\n"
    assert shown[3] == "active      000000ff\nwaiting     ffffff00\n"
    met = "SYNC      mask ffffffff  pc 0x0058 k+0x58"
    assert tokens(shown[4]) == ["DIVERGE   mask ffffff00  pc 0x0030 k+0x30", met]
    assert shown[5] == "active      0-7\nwaiting     8-31\n"
    assert shown[6].endswith("0x0030  010000000017f005  MOV32I R5, 0x1\n")
    assert shown[7] == "active      ffffff00\nwaiting     000000ff\n"
    assert tokens(shown[8]) == [met]
    assert shown[9].startswith("warp 0 at 0x0058 ")
    assert shown[10] == "active      ffffffff\n"
    assert shown[11] == "0 tokens, 0 counted calls open\n"
    low, high = (" ".join([f"{number:08x}"] * 8) for number in (2, 1))
    assert shown[12].splitlines() == [
        f"R5    0: {low}",
        *(f"     {first:>2}: {high}" for first in (8, 16, 24)),
    ]
    assert shown[13].startswith("the grid is over")
    assert shown[14].count("00000002") == 8


@needs_compiled
def test_a_breakpoint_on_a_barrier_is_hit_by_every_warp_each_time(debug):
    """A warp that is resumed from there waits for the other one, whose arrival is observed. Both
    may be there at the same time.
    """
    hits, continues = [], 0
    while not hits or not hits[-1].startswith("the grid is over"):
        continues += 1
        shown = debug(BARRIER, "break k+0x18", "run", "step", *["continue"] * continues, block=64)
        hits = [text.splitlines()[0] for text in shown[1:]]
    assert "BAR.SYNC" in shown[0]
    first, alone, *others, _ = hits
    assert alone == f"at a barrier that other warps have not reached: warp {first[-1]}"
    assert all(hit.startswith("breakpoint 1: warp") for hit in (first, *others))
    warps = [
        int(number)
        for hit in (first, *others)
        for number in re.findall(r"\d", hit.partition(":")[2])
    ]
    for meeting in range(3):
        assert sorted(warps[2 * meeting : 2 * meeting + 2]) == [0, 1]
    assert len(warps) == 6


@needs_compiled
def test_warps_step_alone_and_together(debug):
    shown = debug(
        BARRIER,
        "break k",
        "run",
        "delete",
        "warp 1",
        "step",
        "warps",
        "step all",
        "warps",
        "warp 0",
        "quit",
        block=64,
    )
    assert [line.split()[-6:] for line in shown[5].splitlines()] == [
        ["k", "ffffffff", "stopped", "S2R", "R0,", "SR_TID.X"],
        ["k+0x10", "ffffffff", "stepped", "MOV32I", "R4,", "0x3"],
    ]
    assert [line[0] for line in shown[5].splitlines()] == [" ", "*"]
    assert [line.split()[-5:] for line in shown[7].splitlines()] == [
        ["ffffffff", "stepped", "MOV32I", "R4,", "0x3"],
        ["k+0x18", "ffffffff", "stepped", "BAR.SYNC", "0x0"],
    ]
    assert shown[8].startswith("warp 0 at 0x0010 k+0x10: stepped\n")


@needs_compiled
def test_several_steps_end_at_a_breakpoint(debug):
    shown = debug(LOOP, "break k+0x8", "run", "break k+0x18", "step 5", "registers R4", "quit")
    assert shown[3].startswith("breakpoint 2: warp 0\nwarp 0 at 0x0018 ")
    assert shown[4].split()[2] == "00000002"


@needs_compiled
def test_a_warp_ends_in_a_step_and_the_next_one_is_stopped_as_it_starts(debug):
    """There are three CTAs of one warp each, one at a time."""
    program = ".kernel k\n.param out 8\n.registers 24\n    NOP\n    EXIT\n"
    shown = debug(
        program,
        "break 0x10",
        "run",
        "warp",
        "step 2",
        "warps",
        "delete",
        "continue",
        block=64,
        grid=2,
    )
    assert shown[1].startswith("breakpoint 1: warp")
    assert " ended\n" in shown[3]
    assert len(shown[4].splitlines()) == 1
    assert shown[6].startswith("the grid is over")


@needs_compiled
def test_errors_and_traps_of_the_program_stop_it(debug):
    trapped, warps, errors, _, none, failed, again, left = debug(
        FAILS, "run", "warps", "errors", "clear", "errors", "continue", "errors", "detach"
    )
    assert (
        trapped
        == "BPT.TRAP 3: warp 0\nwarp 0 at 0x0018 k+0x18\n  ->  0x0018  e360000000000000  RTT\n"
    )
    assert "  BPT.TRAP 3  RTT\n" in warps
    assert "\nBPT.TRAP, reasons so far: 3, warp 0 at 0x0010 k+0x10\n" in errors
    assert none == "no errors\n"
    assert failed.startswith(
        "error ILLEGAL_INSTR_ENCODING: warp 0\nWarpstack: Xid 13, Graphics SM Warp Exception"
    )
    assert "\nCUDA_EXCEPTION_4, Warp Illegal Instruction\n" in again
    assert left.startswith("error ILLEGAL_INSTR_ENCODING: warp 0\n")
    assert "MULTIPLE_WARP_ERRORS" in left  # it was not cleared before the second error


@needs_compiled
def test_a_breakpoint_on_a_trap_of_the_program_with_the_same_reason(debug):
    """The breakpoint is reported first, then, when the warp continues, the trap under it."""
    program = ".kernel k\n.param out 8\n    NOP\n    BPT.TRAP 0x1\n    NOP\n    EXIT\n"
    _, hit, trapped, errors, over = debug(
        program, "break 0x10", "run", "continue", "errors", "continue"
    )
    assert hit.startswith("breakpoint 1: warp 0\nwarp 0 at 0x0010 ")
    assert trapped.startswith("BPT.TRAP 1: warp 0\nwarp 0 at 0x0018 ")
    assert "\nBPT.TRAP, reasons so far: 1, warp 0 at 0x0010 " in errors
    assert over.startswith("the grid is over")


@needs_compiled
def test_a_grid_runs_for_some_cycles_and_is_stopped(debug):
    running, stopped, again, warps, still = debug(
        ENDLESS, "run 3000", "stop", "stop", "warps", "continue 100"
    )
    assert running.startswith("the grid runs, ")
    assert stopped.startswith("warp 0 at 0x00")
    assert again == "all warps are stopped\n"
    assert "stopped" in warps
    assert still.startswith("the grid runs, ")


@needs_compiled
def test_a_grid_starts_again(debug):
    shown = debug(
        LOOP,
        "break 0x10",
        "run",
        "continue",
        "registers R4",
        "run",
        "registers R4",
        "detach",
        "run",
    )
    assert "00000002" in shown[3]
    assert "00000003" in shown[5]
    assert "the grid is over" in shown[6]
    assert "the grid is over" in shown[7]


@pytest.fixture
def typed(capsys, monkeypatch, session):
    """Returns the output of an interactive session."""

    def run(keys: str, program: str = LOOP) -> str:
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        with (
            create_pipe_input() as terminal,
            create_app_session(input=terminal, output=DummyOutput()),
        ):
            terminal.send_text(keys)
            assert main(session(program)) == 0
        return capsys.readouterr().out

    return run


@needs_compiled
def test_an_interrupt_stops_the_machine_for_a_person(typed, monkeypatch):
    looks, look = [], Watch.look

    def interrupted(self, cycles):
        looks.append(cycles)
        if len(looks) == 5:
            signal.raise_signal(signal.SIGINT)
        return look(self, cycles)

    monkeypatch.setattr(Watch, "look", interrupted)
    shown = typed("run\nwarps\nquit\n", ENDLESS)
    assert "interrupted\nwarp 0 at 0x00" in shown and "stopped" in shown


@needs_compiled
def test_what_no_person_types_is_a_batch(capsys, monkeypatch, session):
    """The output to a pipe has no line editing, and an error ends the session."""
    monkeypatch.setattr("sys.stdin", StringIO("break k\nrun\nquit\n"))
    assert main(session(LOOP)) == 0
    printed = capsys.readouterr().out
    assert re.match(
        r"\(warpstack\) break k\nbreakpoint 1 at 0x0008 k\n.*\n\(warpstack\) run\n", printed
    )
    assert "\r" not in printed and "\x1b" not in printed


@needs_compiled
def test_a_person_types_commands(typed):
    """The tabulator completes them; an empty line repeats a step; an invalid command does not end
    the session.
    """
    lines = typed("brea\t k\nrun\nwhat\nstep\n\n\x03warps\n\x04").splitlines()
    assert lines[0] == "breakpoint 1 at 0x0008 k"
    assert "'what' is no command; help lists them" in lines
    places = [line.split()[3] for line in lines if line.startswith("warp 0 at")]
    assert places == ["0x0008", "0x0010", "0x0018"]
    assert lines[-1].endswith("stepped  ISETP.NE.U32.AND P0, PT, R4, RZ, PT")


@needs_compiled
def test_a_person_starts_again_and_leaves(typed):
    assert typed("run\nrun\nquit\n").count("the grid is over") == 2


# Errors


@needs_compiled
@pytest.mark.parametrize(
    ("commands", "complaint"),
    [
        (["break 0x11"], "0x11: 0x11 is no multiple of 8"),
        (["break 0x2000"], "0x2000: 0x2000 is behind the program"),
        (["break nowhere"], "no function nowhere; there are k"),
        (["break 0xzz"], "'0xzz' is no address"),
        (["delete 4"], "there is no breakpoint 4; there are none"),
        (["run 0"], "0 is no number of cycles"),
        (["run 1 2"], "run 1 2: too much; it is run [CYCLES]"),
        (["warps"], "no warp has started yet; run starts it"),
        (["run", "continue"], "the grid is over; run starts it again"),
        (["break k", "run", "warp 5"], "there is no warp 5; there are 0"),
        (["break k", "run", "thread 32"], "there is no thread 32; there are 0, 1"),
        (["break k", "run", "registers R200"], "there is no R200; threads have 24 registers"),
        (["break k", "run", "step many"], "'many' is no number of steps"),
        (["run 2000", "break k"], "the grid runs; stop stops it"),
        (["memory"], "memory of what? buffers: out"),
        (["memory nothing"], "no buffer nothing; there are out"),
        (["memory 0x10"], "nothing is mapped at 0x10"),
        (["memory out+256"], "out+256: the buffer has 256 bytes"),
    ],
)
def test_what_a_command_cannot_do_is_said_in_a_line(tmp_path, capsys, session, commands, complaint):
    script = tmp_path / "script"
    script.write_text("# comment\n\n" + "\n".join(commands))
    program = ENDLESS if "run 2000" in commands else LOOP
    line = refused(capsys, main, session(program, "--batch", str(script)), silent=False)
    assert line.startswith(f"python -m sim.debug: {script}:{2 + len(commands)}: {complaint}")


@needs_compiled
def test_commands_come_from_standard_input(capsys, session, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO("run\n"))
    assert main(session(LOOP, "--batch", "-")) == 0
    assert capsys.readouterr().out.startswith("(warpstack) run\nthe grid is over")


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("run\nfly\n", "{script}:2: 'fly' is no command; help lists them"),
        ("st\n", "{script}:1: 'st' could be step or stop or stack"),
    ],
)
def test_a_batch_is_read_before_anything_runs(tmp_path, capsys, script, complaint):
    path = tmp_path / "script"
    path.write_text(script)
    line = refused(capsys, main, [RECURSION, "--arg", "buf:out=u32[64]", "--batch", str(path)])
    assert line == f"python -m sim.debug: {complaint.format(script=path)}"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--batch", "nowhere"], "nowhere: No such file or directory"),
        (["--crs", "0"], "a debugger needs call/return stacks in memory: --crs 512 or more"),
        (
            ["--block", "1024"],
            "a block of 1024 threads needs 32 warps, preset default has 8; preset programs has enough",
        ),
        (["--engine", "model"], "argument --engine: invalid choice: 'model'"),
        (["--arg", "u32:1"], RECURSION),
    ],
)
def test_what_cannot_be_debugged_is_said_in_a_line(capsys, arguments, complaint):
    line = refused(capsys, main, [RECURSION, "--arg", "buf:out=u32[64]", *arguments])
    assert line.startswith(f"python -m sim.debug: {complaint}")


# Words


def test_commands_have_short_names():
    assert {command_of(word).name for word in ("b", "br", "break")} == {"break"}
    assert command_of("c").name == "continue"
    assert command_of("warp").name == "warp"
    assert command_of("reg").name == "registers"
    with pytest.raises(DebuggerError):
        command_of("")


def test_functions_are_found_by_their_last_name():
    functions = FunctionAddresses({"k": 0, "$k$f": 0x60, "$k$g": 0x78, "$l$g": 0xA0}, 0x100)
    assert functions.address("f") == 0x68
    assert functions.address("f+0x10") == 0x70
    assert functions.address("$l$g") == 0xA8
    assert [functions.name(at) for at in (0x8, 0x10, 0x68, 0x78, 0x88, 0xA8, 0x100)] == [
        "k",
        "k+0x10",
        "f",
        "$k$g",
        "$k$g+0x10",
        "$l$g",
        "",
    ]
    with pytest.raises(DebuggerError, match="no function g; there are "):
        functions.address("g")


@needs_compiled
@pytest.mark.parametrize("number", range(3))
def test_the_sessions_of_the_manual_have_this_output(number, monkeypatch, capsys, tmp_path):
    root = Path(__file__).parents[2]
    page = (root / "docs" / "debugger.md").read_text()
    sessions = re.findall(r"^```\n(\$ python -m sim\.debug .*?)^```$", page, re.M | re.S)
    assert len(sessions) == 3
    command, *output = sessions[number].splitlines()
    commands = tmp_path / "commands.txt"
    commands.write_text(
        "\n".join(line.removeprefix(PROMPT) for line in output if line.startswith(PROMPT))
    )
    arguments = shlex.split(command.removeprefix("$ python -m sim.debug "))
    monkeypatch.chdir(root)
    assert main([*arguments, "--batch", str(commands)]) == 0
    assert capsys.readouterr().out.splitlines() == output


@needs_compiled
def test_a_breakpoint_that_was_hit_leaves_the_programs_traps_in_the_last_report(capsys, tmp_path):
    commands = tmp_path / "commands.txt"
    commands.write_text("break 0x68\nrun\ncontinue\ndelete\ncontinue\ncontinue\ncontinue\n")
    program = Path(__file__).parents[2] / "docs" / "examples" / "traps.sass"
    options = ["--preset", "tiny", "--block", "64", "--arg", "buf:OUT=u32[64]", "--arg", "u64:0"]
    assert main([str(program), *options, "--batch", str(commands)]) == 0
    told = capsys.readouterr().out
    assert "\nBPT.TRAP 1: warp 0\n" in told and "\nbreakpoint 1: warp 0\n" in told
    assert "\nBPT.TRAP, reasons 1 2: the debugger stopped there\n" in told


@needs_compiled
def test_a_breakpoint_on_a_scheduling_word_says_so(capsys, tmp_path):
    commands = tmp_path / "commands.txt"
    commands.write_text("break 0x60\nbreak 0x68\nbreak traps\n")
    program = Path(__file__).parents[2] / "docs" / "examples" / "traps.sass"
    options = ["--preset", "tiny", "--arg", "u64:0", "--arg", "u64:0", "--batch", str(commands)]
    assert main([str(program), *options]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("breakpoint")]
    assert told == [
        "breakpoint 1 at 0x0068 traps+0x68; 0x60 is a scheduling word",
        "breakpoint 1 at 0x0068 traps+0x68",
        "breakpoint 2 at 0x0008 traps",
    ]


def test_the_manual_names_the_options_that_only_runs_have():
    def options(command: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-m", command, "--help"], capture_output=True, text=True, check=True
        )
        return set(re.findall(r"(?<![\w-])--[a-z-]+", done.stdout))

    page = (Path(__file__).parents[2] / "docs" / "debugger.md").read_text()
    (named,) = re.findall(r"with the same options except ([^;]+);", page)
    missing = options("sim.run") - options("sim.debug")
    assert set(re.findall(r"`(--[a-z-]+)`", named)) == missing


def test_the_manual_has_every_command():
    rows = [[command.usage, command.meaning] for command in COMMANDS.values()]
    page = (Path(__file__).parents[2] / "docs" / "debugger.md").read_text()
    section = page.split("## Commands")[1].split("\n\n")[1]
    assert [
        re.split(r"(?<!\\) \| ", line.strip("| ").replace("`", ""))
        for line in section.splitlines()[2:]
    ] == [[usage.replace("|", "\\|"), meaning] for usage, meaning in rows]
