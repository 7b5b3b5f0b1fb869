"""What the debugger's commands show and select, on a machine whose warps are made by hand."""

from typing import Any

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError, trap_bit
from rtl.isa.table import BY_NAME
from rtl.isa.tokens import TokenKind
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus
from rtl.layouts import LaunchRejection
from sim.debugger import driver
from sim.debugger.addresses import FunctionAddresses, number
from sim.debugger.breakpoints import REASON, Breakpoints
from sim.debugger.commands import COMMANDS, command_of, execute
from sim.debugger.errors import DebuggerError
from sim.debugger.machine import DebuggedMachine, State, Why
from sim.debugger.session import DebuggerSession
from sim.debugger.terminal import Batch, BatchError, read_batch, words_after
from sim.debugger.views import error_lines
from sim.debugger.watch import Watch
from sim.firmware.trap_handler import Command
from sim.launch import prepare
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from testbench.fakes import fake

TEXT = ".kernel k\n" + "".join(f"MOV32I R{at}, 0x{at:x}\n" for at in range(12)) + "EXIT\n"
BARRIER = BY_NAME["BAR"][0].default
INSTRUCTIONS = [at for at in range(0x08, 0x100, 8) if at % 0x20]
"""Their addresses: each group of four words begins with a control word."""


def made(pc, active, broken=0, waiting=0, tokens=(), place=((0, 0, 0), 0)):
    """A stopped warp: R<n> of thread t is 100 n + t; P<n> holds in threads with bit n; CC in the upper ones."""
    masks = WarpMasks(active, broken)
    return fake(
        pc=pc,
        masks=masks,
        live=active | broken | waiting,
        stack=tokens,
        place=place,
        register=lambda thread, number: 100 * number + thread,
        predicates=lambda thread: thread & 0x7F,
        condition=lambda thread: thread >> 1 & 0xF,
    )


@pytest.fixture
def session():
    launch = prepare(load(assemble(TEXT, "k.sass")))
    memory = launch.memory
    base = memory.allocate("out", 40)
    for at in range(10):
        memory.write_number(base + 4 * at, 4, 0x1000 + at)
    launch = fake(program_base=launch.program_base, buffers={"out": (base, 38)}, output=None)
    area = fake(launch=launch, threads=fake(registers=6))
    session: Any = DebuggerSession(
        area, FunctionAddresses({"k": 0, "$k$inner": 0x28, "z": 0x48}, 0x80), Watch()
    )
    tokens = (
        StackToken(TokenKind.SYNC, 0x30, 0xFF),
        StackToken(TokenKind.NONE, 0, 0),
        StackToken(TokenKind.RETURN, 0x10, 0xF, True),
    )
    warps = {
        1: made(0x10, 0x0000_000F, 0x30, 0xC0, tokens, ((1, 2, 3), 4)),
        3: made(0x4000_0000, 0x8000_0001),
    }
    registers = dict.fromkeys(SM_REGISTERS, 0)

    host = fake(cycles=1234, remote=False)
    session._machine = fake(
        state=State.STOPPED,
        warps=warps,
        memory=memory,
        host=host,
        why=lambda slot, warp: Why(breakpoint=2) if slot == 1 else Why(),
        reasons=lambda: {1: Why(breakpoint=2)},
        registers=lambda: answer(registers),
    )
    return session


async def answer(value):
    return value


def done(coroutine):
    """The result of a coroutine that never waits."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


def run(session, line):
    return done(execute(session, line))


def refusal(session, line):
    with pytest.raises(DebuggerError) as refused:
        execute(session, line).send(None)
    return str(refused.value)


def test_masks_and_threads_are_those_that_are_active_disabled_or_wait(session):
    session.look_at(1)
    assert run(session, "masks") == [
        "active      0000000f",
        "broken      00000030",
        "waiting     000000c0",
    ]
    assert run(session, "thread") == ["active      0-3", "broken      4-5", "waiting     6-7"]
    session.look_at(3)
    assert run(session, "masks") == ["active      80000001"]
    assert run(session, "thread") == ["active      0 31"]


def test_the_stack_is_shown_with_its_top_first(session):
    session.look_at(1)
    assert run(session, "stack") == [
        "3 tokens, 1 counted calls open, top first",
        "    2  RETURN    mask 0000000f  pc 0x0010 k+0x10  counted",
        "    1  NONE",
        "    0  SYNC      mask 000000ff  pc 0x0030 inner+0x8",
    ]
    session.look_at(3)
    assert run(session, "stack") == ["0 tokens, 0 counted calls open"]


def test_registers_are_of_the_thread_or_some_of_them_of_all_threads(session):
    session.look_at(1)
    assert run(session, "thread 5") == ["warp 1, thread 5"]
    assert run(session, "registers") == [
        "R0   00000005   R1   00000069   R2   000000cd   R3   00000131",
        "R4   00000195   R5   000001f9",
    ]
    shown = run(session, "registers R2 5")
    assert shown[:4] == [
        "R2    0: 000000c8 000000c9 000000ca 000000cb 000000cc 000000cd 000000ce 000000cf",
        *(f"     {first:>2}: {' '.join(['       -'] * 8)}" for first in (8, 16, 24)),
    ]
    assert len(shown) == 8 and shown[4].startswith("R5    0: 000001f4 ")
    assert refusal(session, "registers R6") == "there is no R6; threads have 6 registers"


def test_predicates_are_masks_and_values_of_the_thread(session):
    session.look_at(1)
    run(session, "thread 5")
    assert run(session, "predicates") == [
        "         threads   thread 5",
        "P0       000000aa  1",
        "P1       000000cc  0",
        "P2       000000f0  1",
        *(f"P{at}       00000000  0" for at in range(3, 7)),
        "zero     000000cc  0",
        "sign     000000f0  1",
        "carry    00000000  0",
        "overflow 00000000  0",
    ]
    session.thread = 9
    assert all(line.endswith("  -") for line in run(session, "predicates")[1:])


def test_threads_and_warps_that_there_are_not_are_not_selected(session):
    assert run(session, "warp 1")[0] == "warp 1 at 0x0010 k+0x10: breakpoint 2"
    assert refusal(session, "thread 8") == "there is no thread 8; there are 0, 1, 2, 3, 4, 5, 6, 7"
    assert refusal(session, "thread 32").startswith("there is no thread 32;")
    assert refusal(session, "warp 2") == "there is no warp 2; there are 1, 3"
    assert (session.warp_number, session.thread) == (1, 0)
    session._machine.warps = {}
    assert refusal(session, "warp") == "there is no warp 1; there are none"


def test_another_warp_is_looked_at_from_its_first_active_thread(session):
    session._machine.warps[5] = made(0x08, 0b1100, 0b11)
    session.look_at(5)
    assert session.thread == 2
    session._machine.warps[6] = made(0x08, 0, 0b1)
    session.look_at(6)
    assert session.thread == 0


def test_memory_is_shown_by_words_from_a_buffer_or_an_address(session):
    base, _ = session.area.launch.buffers["out"]
    assert run(session, "memory out") == [
        f"{base:#012x}  00001000 00001001 00001002 00001003",
        f"{base + 16:#012x}  00001004 00001005 00001006 00001007",
        f"{base + 32:#012x}  00001008 00001009",
    ]
    assert run(session, "memory out+0x20") == [f"{base + 32:#012x}  00001008 00001009"]
    assert run(session, "memory out+37")[0].startswith(f"{base + 37:#012x}  ")
    assert refusal(session, "memory out+38") == "out+38: the buffer has 38 bytes"
    assert run(session, "memory out 1") == [f"{base:#012x}  00001000"]
    assert run(session, f"memory {base + 4:#x} 2") == [f"{base + 4:#012x}  00001001 00001002"]
    assert refusal(session, "memory") == "memory of what? buffers: out"
    assert refusal(session, "memory other") == "no buffer other; there are out"
    assert refusal(session, "memory 0x10") == "nothing is mapped at 0x10"
    for count in ("0", "4097"):
        assert refusal(session, f"memory out {count}") == (
            f"{count} is no number of words: 1 to 4,096"
        )
    assert refusal(session, "memory out x") == "'x' is no number of words"


def addresses(lines):
    return [int(line[6:12], 16) for line in lines if "0x" in line[:12]]


def test_instructions_are_shown_around_the_warp_without_control_words(session):
    """Four before the one that it is at, as far as there are so many."""
    for place, at in enumerate(INSTRUCTIONS[:9]):
        session._machine.warps[1].pc = at
        session.look_at(1)
        shown = run(session, "disassemble")
        first = max(0, place - 4)
        assert addresses(shown) == INSTRUCTIONS[first : first + 10]
        (marked,) = (line for line in shown if line.startswith("  ->"))
        assert addresses([marked]) == [at]


def test_instructions_are_shown_from_a_place_with_the_names_of_functions(session):
    session.look_at(1)
    run_ = run(session, "disassemble k 6")
    assert run_[0] == "k:" and run_[4] == "inner:" and len(run_) == 8
    assert addresses(run_) == INSTRUCTIONS[:6]
    assert run_[2].startswith("  ->  0x0010  ") and run_[2].endswith("  MOV32I R1, 0x1")
    assert addresses(run(session, "disassemble inner+0x8 1")) == [0x30]
    beyond = run(session, "disassemble 0x78 4")
    assert beyond[-1].endswith("  nothing is there") or len(beyond) >= 4
    session._machine.state = State.HELD
    assert not any(line.startswith("  ->") for line in run(session, "disassemble k"))
    assert refusal(session, "disassemble") == "no warp has started yet; run starts it"


@pytest.mark.parametrize(
    ("state", "hint"),
    [
        (State.HELD, "no warp has started yet; run starts it"),
        (State.RUNNING, "the grid runs; stop stops it"),
        (State.OVER, "the grid is over; run starts it again"),
    ],
)
def test_what_needs_stopped_warps_says_how_to_get_them(session, state, hint):
    session._machine.state = state
    for line in ("warps", "warp", "thread", "registers", "predicates", "masks", "stack", "step"):
        assert refusal(session, line) == hint


# Breakpoints and places


def test_breakpoints_have_numbers_and_hide_instructions_only_while_they_are_planted(session):
    memory, base = session.machine.memory, session.area.launch.program_base
    points = Breakpoints(base)
    original = memory.read_number(base + 0x10, 8)
    assert [points.add(0x10), points.add(0x28), points.add(0x10)] == [1, 2, 1]
    assert (len(points), points.addresses, 0x10 in points, 0x18 in points) == (
        2,
        {1: 0x10, 2: 0x28},
        True,
        False,
    )
    points.plant(memory)
    points.plant(memory)
    assert memory.read_number(base + 0x10, 8) != original == points.word(memory, 0x10)
    points.lift(memory)
    assert memory.read_number(base + 0x10, 8) == original
    assert points.remove(1) == 0x10 and points.add(0x10) == 3
    assert points.number(0x28) == 2
    with pytest.raises(KeyError):
        points.remove(1)
    points.plant(memory)
    points.forget_memory()
    assert points.word(memory, 0x10) != original


def test_breakpoints_are_marked_and_listed(session):
    session.look_at(1)
    session.breakpoints.add(0x28)
    assert run(session, "break") == ["breakpoint 1 at 0x0028 inner"]
    marked = [line for line in run(session, "disassemble k 5") if "*" in line]
    assert addresses(marked) == [0x28] and marked[0].startswith("     *0x0028  ")
    assert refusal(session, "delete 2") == "there is no breakpoint 2; there are 1"
    session.breakpoints.remove(1)
    assert run(session, "break") == ["no breakpoints"]
    assert refusal(session, "delete 2") == "there is no breakpoint 2; there are none"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("k", 0x08),
        ("k+0x10", 0x10),
        ("inner", 0x28),
        ("$k$inner+8", 0x30),
        ("0x20", 0x28),
        ("24", 24),
    ],
)
def test_an_address_is_a_function_an_offset_in_it_or_a_number(text, address):
    functions = FunctionAddresses({"k": 0, "$k$inner": 0x28}, 0x80)
    assert functions.address(text) == address
    assert functions.names == ["$k$inner", "inner", "k"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "no function x; there are $k$f, f, k"),
        ("k+4", "k+4: 0x4 is no multiple of 8"),
        ("0x80", "0x80: 0x80 is behind the program, which has 0x80 bytes"),
        ("k+y", "'y' is no offset"),
        ("k+-8", "'-8' is no offset"),
        ("0x", "'0x' is no address"),
    ],
)
def test_an_address_outside_of_the_program_is_refused(text, message):
    with pytest.raises(DebuggerError) as refused:
        FunctionAddresses({"k": 0, "$k$f": 0x28}, 0x80).address(text)
    assert str(refused.value) == message


def test_an_address_is_named_by_its_function():
    functions = FunctionAddresses({"k": 0x20, "$k$f": 0x48, "$l$f": 0x60}, 0x80)
    names = {
        at: functions.name(at) for at in (0x18, 0x20, 0x28, 0x30, 0x48, 0x50, 0x68, 0x78, 0x80)
    }
    assert names == {
        0x18: "",
        0x20: "k",
        0x28: "k",
        0x30: "k+0x10",
        0x48: "$k$f",
        0x50: "$k$f+0x8",
        0x68: "$l$f",
        0x78: "$l$f+0x18",
        0x80: "",
    }
    assert functions.names == ["$k$f", "$l$f", "k"]


def test_a_number_is_not_negative():
    assert [number(text, "n") for text in ("0", "7", "0x1f")] == [0, 7, 31]
    for text in ("-1", "x", ""):
        with pytest.raises(DebuggerError, match=f"^'{text}' is no n$"):
            number(text, "n")


# The language of commands


def test_a_command_is_found_by_a_prefix_that_only_it_has():
    assert command_of("disa").name == "disassemble"
    for short, name in (("b", "break"), ("s", "step"), ("w", "warps"), ("warp", "warp")):
        assert command_of(short).name == name
    for word, message in (
        ("st", "'st' could be step or stop or stack"),
        ("xyz", "'xyz' is no command; help lists them"),
    ):
        with pytest.raises(DebuggerError) as refused:
            command_of(word)
        assert str(refused.value) == message


def test_a_line_has_no_more_words_than_its_command_takes(session):
    session.look_at(1)
    assert run(session, "") == run(session, "  # masks") == []
    assert refusal(session, "masks now") == "masks now: too much; it is masks"
    assert refusal(session, "thread 1 2") == "thread 1 2: too much; it is thread [N]"
    assert run(session, "masks # now") == run(session, "masks")


def test_help_lists_the_commands_in_columns(session):
    lines = run(session, "help")
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    width = max(len(command.usage) for command in COMMANDS.values())
    assert {line[width : width + 2] for line in lines} == {"  "}
    assert run(session, "help st" + "ep") == [
        f"step [N] [all]  {COMMANDS['step'].meaning}",
    ]


def test_words_are_completed_by_what_can_stand_there(session):
    assert words_after(session, []) == list(COMMANDS)
    assert words_after(session, ["break"]) == ["$k$inner", "inner", "k", "z"]
    assert words_after(session, ["memory"]) == ["out"]
    assert words_after(session, ["help"]) == list(COMMANDS)
    assert tuple(words_after(session, ["masks", "x"])) == ()
    assert tuple(words_after(session, ["break", "k"])) == ()
    assert tuple(words_after(session, ["xyz"])) == ()


def test_a_batch_ends_at_its_end_or_where_a_command_cannot_be_done(session, capsys):
    session.look_at(1)
    batch = Batch("script", ["# nothing", "  masks ", "", "quit", "masks"])
    done(batch.serve(session))
    assert session.leaves
    assert capsys.readouterr().out.splitlines()[0] == "(warpstack) masks"
    session.leaves = False
    done(batch.serve(session))  # continues behind the command that it stopped at
    assert capsys.readouterr().out.startswith("(warpstack) masks\n") and session.leaves
    session.leaves = False
    with pytest.raises(BatchError, match=r"^script:2: there is no thread 9; "):
        Batch("script", ["masks", "thread 9"]).serve(session).send(None)


def test_a_batch_is_checked_before_it_begins(tmp_path):
    path = tmp_path / "script"
    for text, message in (("masks\n\nxyz # no\n", f"{path}:3: 'xyz' is no command"),):
        path.write_text(text)
        with pytest.raises(BatchError, match=f"^{message}"):
            read_batch(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(BatchError, match=f"^{path}: not a text file$"):
        read_batch(str(path))
    path.write_text("masks # and more\n# all\n")
    read_batch(str(path))


# Reports


def test_a_stop_says_why_and_where(session):
    session.warp_number = 3
    assert done(session.outcome())[:2] == ["breakpoint 2: warp 1", "warp 1 at 0x0010 k+0x10"]
    assert session.warp_number == 1
    lines = done(session.outcome(interrupted=True, stepped=[1, 2, 0], waiting=[3, 1]))
    assert lines[:4] == [
        "interrupted",
        "warps 0, 2 ended",
        "at a barrier that other warps have not reached: warps 1, 3",
        "breakpoint 2: warp 1",
    ]
    assert lines[-1].startswith("  ->  0x0010  ")
    session._machine.warps = {}
    assert done(session.outcome())[-1] == (
        "warps are stopped, but the trap handler could not save them"
    )
    session._machine.state = State.RUNNING
    assert done(session.outcome()) == ["the grid runs, 1,234 cycles so far"]
    session._machine.state = State.HELD
    assert done(session.outcome()) == ["no warp lives"]


def test_a_reason_is_the_first_of_error_traps_breakpoint_and_step():
    assert str(Why(WarpError.OOR_ADDR, (1,), 2, True)) == "error OOR_ADDR"
    assert str(Why(reasons=(1, 3), breakpoint=2, stepped=True)) == "BPT.TRAP 1 3"
    assert str(Why(breakpoint=2, stepped=True)) == "breakpoint 2"
    assert (str(Why(stepped=True)), str(Why())) == ("stepped", "stopped")
    owns = [Why(WarpError.OOR_ADDR), Why(reasons=(1,)), Why(breakpoint=1)]
    assert all(why.own for why in owns)
    assert not Why(stepped=True).own and not Why().own


def test_the_thread_that_is_looked_at_stays_while_it_lives(session):
    session.look_at(1)
    session.thread = 5
    done(session.outcome())
    assert (session.warp_number, session.thread) == (1, 5)
    session.thread = 7
    done(session.outcome())
    assert session.thread == 7
    session.thread = 9
    done(session.outcome())
    assert session.thread == 0


def test_the_end_of_a_grid_is_told_with_its_instructions_and_cycles(session):
    machine, host = session.machine, session.machine.host
    machine.state = State.OVER
    counters = {"instructions": 12345, "cycles": 67890}
    host.read = lambda name: answer(counters[name])
    machine.rejection = lambda: answer(LaunchRejection.NONE)
    session.area.launch.buffer_types = {}
    lines = done(session.outcome())
    assert lines[0] == "the grid is over, 12,345 instructions in 67,890 cycles"
    assert len(lines) == 2 and lines[1].startswith("buffer        out, 38 bytes at ")
    machine.rejection = lambda: answer(LaunchRejection(1))
    assert done(session.outcome()) == [
        f"the machine does not take the launch: {LaunchRejection(1).name}"
    ]


# The driver


class FakeHost:
    """Registers that are written and read; the machine's time passes by itself."""

    def __init__(self, **values):
        self.values, self.written, self.cycles, self.failed = values, [], 0, False
        self.memory, self.remote = None, False

    async def read(self, name):
        return self.values.get(name, 0)

    async def write(self, name, value):
        self.written.append((name, value))

    async def modify(self, name, **fields):
        self.written.append((name, fields))

    async def run(self, cycles):
        self.cycles += cycles


def fake_host(**values: Any) -> Any:
    """A FakeHost, in the place of a host of the hardware."""
    return FakeHost(**values)


def test_warps_are_woken_by_what_is_not_in_the_masks():
    for slots, low, high in (
        (0b101, 0xFFFF_FFFA, 0xFFFF_FFFF),
        (1 << 33, 0xFFFF_FFFF, 0xFFFF_FFFD),
        ((1 << 64) - 1, 0, 0),
    ):
        host = fake_host()
        done(driver.wake(host, slots))
        assert host.written == [("BPT_PAUSE_MASK", low), ("BPT_PAUSE_MASK_1", high)]
        assert host.cycles > 0
    host = fake_host()
    done(driver.resume_paused(host))
    assert host.written == [
        ("BPT_PAUSE_MASK", 0),
        ("BPT_PAUSE_MASK_1", 0),
        ("DBGR_CONTROL0", {"STOP_TRIGGER": 0}),
        ("DBGR_CONTROL0", {"RUN_TRIGGER": 1}),
    ]


def test_the_error_status_is_cleared_in_the_order_of_each_driver():
    for clear, order in (
        (driver.clear_errors, ("HWW_GLOBAL_ESR", "HWW_WARP_ESR")),
        (driver.clear_errors_nouveau, ("HWW_WARP_ESR", "HWW_GLOBAL_ESR")),
    ):
        host = fake_host(HWW_GLOBAL_ESR=0x30)
        done(clear(host))
        values = {"HWW_GLOBAL_ESR": 0x30, "HWW_WARP_ESR": 0}
        assert host.written == [(name, values[name]) for name in order]


def test_a_wait_ends_with_the_status_the_cycles_or_a_failure():
    async def never(host):
        return False

    async def later(host):
        return host.cycles >= 300

    host = fake_host()
    assert done(driver.wait(host, later)) is True and host.cycles == 2 * driver.POLL
    host = fake_host()
    assert done(driver.wait(host, never, 300)) is False and host.cycles == 300
    host = fake_host()
    host.failed = True
    assert done(driver.wait(host, never, 300)) is False and host.cycles == 0
    assert driver.EXPECTED == 0x70


@pytest.mark.parametrize("over", [True, False])
def test_a_machine_that_does_not_lock_down_is_an_error_unless_its_grid_is_over(monkeypatch, over):
    monkeypatch.setattr(driver, "stop_all", lambda host: answer(False))
    monkeypatch.setattr(driver, "grid_over", lambda host: answer(over))
    area: Any = None
    machine = DebuggedMachine(fake_host(), area, Breakpoints(0), lambda cycles: False)
    if over:
        done(machine.stop())
        assert machine.state is State.OVER
        done(machine.stop())
    else:
        with pytest.raises(
            DebuggerError, match=r"^the machine does not lock down in 100,000 cycles$"
        ):
            machine.stop().send(None)
    held: Any = DebuggedMachine(fake_host(), area, Breakpoints(0), lambda cycles: False)
    with pytest.raises(DebuggerError, match=r"^the machine does not lock down$"):
        held.hold().send(None)
    assert held.host.written[0][1]["DEBUGGER_MODE"] == 1


# The machine under the debugger


class FakeWarp:
    """A warp in the save area, at a pc, with the reasons of its traps and the host's command."""

    def __init__(self, pc, reasons=(), command=Command.LEAVE, *, stepped=False, error=0):
        self.pc = pc
        bits = sum(1 << reason - TRAP_REASONS.start for reason in reasons)
        status = WarpStatus.const(
            {"failed": bool(error), "reasons": bits, "stepped": stepped, "error": WarpError(error)}
        )
        self.words = {"STATUS": status.as_bits(), "COMMAND": command}

    def word(self, name):
        return self.words[name]

    def set_word(self, name, value):
        self.words[name] = value


@pytest.fixture
def debugged(session, monkeypatch):
    """A machine that has locked down: its warps are set, and what the driver has done is noted."""
    host = fake_host()
    host.memory = session.machine.memory
    host.field = lambda register, name: answer(0)
    points = Breakpoints(session.area.launch.program_base)
    warps, done_ = {}, []
    area = fake(warps=lambda memory: warps)
    found: Any = DebuggedMachine(host, area, points, lambda cycles: False)
    found.all, found.done = warps, done_
    for name, value in (("grid_over", False), ("locked_down", True), ("live_warps", 0)):
        monkeypatch.setattr(driver, name, lambda host, value=value: answer(value))
    for name in ("single_step", "wake", "resume", "invalidate_caches", "wait"):

        async def note(host, *arguments, name=name):
            done_.append((name, *(one for one in arguments if isinstance(one, int))))

        monkeypatch.setattr(driver, name, note)
    return found


def test_a_warp_that_has_hit_a_breakpoint_is_put_back_to_it(debugged):
    point = debugged.breakpoints.add(0x10)
    debugged.all |= {0: FakeWarp(0x18, [REASON]), 1: FakeWarp(0x30)}
    done(debugged._arrive())
    assert debugged.state is State.STOPPED and debugged.ran == {0, 1}
    assert debugged.all[0].pc == 0x10 and debugged.all[0].words["COMMAND"] == Command.RELOAD
    assert debugged.all[1].pc == 0x30 and debugged.all[1].words["COMMAND"] == Command.LEAVE
    assert {slot: str(why) for slot, why in debugged.reasons().items()} == {
        0: f"breakpoint {point}"
    }


@pytest.mark.parametrize(
    ("reasons", "command", "lifted", "at"),
    [
        ([REASON], Command.LEAVE, True, 0x10),  # the program's own trap, while breakpoints are out
        ([REASON], Command.LEAVE, False, 0x30),  # the program's own trap, elsewhere
        ([REASON + 1], Command.LEAVE, False, 0x10),
        ([REASON], Command.RELOAD, False, 0x10),  # it was put back before
    ],
)
def test_other_traps_do_not_put_a_warp_back(debugged, reasons, command, lifted, at):
    debugged.breakpoints.add(0x10)
    behind = at + 8
    debugged.all |= {0: FakeWarp(behind, reasons, command)}
    done(debugged._arrive(lifted=lifted))
    assert debugged.all[0].pc == behind
    assert debugged.why(0, debugged.all[0]).breakpoint is None


def test_a_warp_that_is_stepped_onto_a_breakpoint_is_told_of_it_and_one_that_waits_there_still(
    debugged,
):
    point = debugged.breakpoints.add(0x10)
    debugged.all |= {slot: FakeWarp(0x10, stepped=slot == 1) for slot in range(3)}
    debugged._reported = {2: 0x10}
    done(debugged._arrive(stepped={1}))
    assert debugged.ran == {1} and debugged._reported == {1: 0x10, 2: 0x10}
    whys = [str(debugged.why(slot, debugged.all[slot])) for slot in range(3)]
    assert whys == ["stopped", f"breakpoint {point}", f"breakpoint {point}"]
    assert debugged._at_breakpoints() == {1, 2}
    debugged.breakpoints.remove(point)
    assert debugged._at_breakpoints() == set()


def test_a_warp_under_a_breakpoint_is_stepped_with_the_programs_own_instruction(debugged):
    """Alone; others are stepped as they are. Breakpoints are out meanwhile, and are in again afterwards."""
    debugged.breakpoints.add(0x10)
    debugged.breakpoints.plant(debugged.memory)
    hidden = debugged.memory.read(debugged.breakpoints._base + 0x10, 8)
    debugged.all |= {0: FakeWarp(0x10), 1: FakeWarp(0x28)}
    debugged.state, debugged._reported = State.STOPPED, {0: 0x10}
    assert done(debugged.step({0, 1})) == set()
    assert [one for one in debugged.done if one[0] == "single_step"] == [
        ("single_step", 0b01),
        ("single_step", 0b10),
    ]
    names = [one[0] for one in debugged.done]
    assert names[:4] == ["invalidate_caches", "single_step", "wait", "invalidate_caches"]
    assert debugged.memory.read(debugged.breakpoints._base + 0x10, 8) == hidden
    assert debugged.ran == {0, 1}


def test_without_warps_the_machine_waits_for_its_first_one(debugged):
    done(debugged._arrive())
    assert debugged.state is State.HELD and debugged.warps == {}


def test_the_debuggers_own_events_are_cleared_and_the_programs_traps_are_kept(debugged):
    bits = 1 << GlobalError.BPT_PAUSE.value | 1 << GlobalError.SINGLE_STEP_COMPLETE.value
    for reasons, cleared in (([], bits | 1 << trap_bit(REASON)), ([3], bits)):
        debugged.host.written.clear()
        debugged.all[0] = FakeWarp(0x30, reasons)
        done(debugged._arrive())
        assert debugged.host.written == [("HWW_GLOBAL_ESR", cleared), ("HWW_WARP_ESR", 0)]
    debugged.host.field = lambda register, name: answer(1)
    debugged.host.written.clear()
    done(debugged._arrive())
    assert debugged.host.written == [("HWW_GLOBAL_ESR", bits)]


def test_an_error_goes_before_traps_and_a_warp_that_did_not_run_is_no_reason(debugged):
    error = WarpError.OOR_ADDR
    debugged.all |= {0: FakeWarp(0x10, [2], error=error.value), 1: FakeWarp(0x10, [2, 4])}
    debugged.state, debugged.ran = State.STOPPED, {0}
    assert debugged.reasons() == {0: Why(error, (2,))}
    assert str(debugged.why(1, debugged.all[1])) == "BPT.TRAP 2 4"
    debugged.state = State.OVER
    assert debugged.reasons() == {}


def test_warps_at_breakpoints_stay_there_while_others_run(debugged):
    """If there are others; otherwise all are resumed."""
    debugged.breakpoints.add(0x10)
    debugged.all |= {0: FakeWarp(0x10), 2: FakeWarp(0x28)}
    debugged.state, debugged._reported = State.STOPPED, {0: 0x10}
    done(debugged._release())
    assert debugged.done == [("wake", 0b100)] and debugged._parked == {0}
    assert debugged._reported == {0: 0x10} and debugged.state is State.RUNNING
    debugged.done.clear()
    del debugged.all[2]
    debugged.state = State.STOPPED
    done(debugged._release())
    assert debugged.done == [("resume",)] and debugged._reported == {} and not debugged._parked
    done(debugged._release())
    assert debugged.done == [("resume",)]  # it runs already


def test_a_step_that_hits_a_planted_breakpoint_is_put_back_to_it(debugged):
    debugged.breakpoints.add(0x28)
    debugged.all |= {1: FakeWarp(0x30, [REASON])}
    done(debugged._step({1}))
    assert debugged.all[1].pc == 0x28 and debugged.ran == {1}


@pytest.mark.parametrize(
    ("ask", "fields", "live", "paused", "expected"),
    [
        (driver.all_paused, {}, 0, 0, False),
        (driver.all_paused, {}, 5 << 31, 5 << 31, True),
        (driver.all_paused, {}, 5 << 31, 1 << 31, False),
        (driver.fully_stopped, {"SM_IN_TRAP_MODE": 1}, 3, 3, True),
        (driver.fully_stopped, {"SM_IN_TRAP_MODE": 1}, 3, 1, False),
        (driver.fully_stopped, {}, 3, 3, False),
        (driver.locked_down, {"LOCKED_DOWN": 1}, 0, 0, True),
        (driver.locked_down, {}, 0, 0, False),
        (driver.grid_over, {"DONE": 1}, 0, 0, True),
        (driver.is_attached, {"DEBUGGER_MODE": 1}, 0, 0, True),
        (driver.not_in_trap, {"SM_IN_TRAP_MODE": 1}, 0, 0, False),
        (driver.nothing_pending, {}, 0, 0, True),
        (driver.nothing_pending, {"ERROR": 1}, 0, 0, False),
        (driver.live_warps, {}, 5 << 31, 0, 5 << 31),
        (driver.paused_warps, {}, 0, 5 << 31, 5 << 31),
    ],
)
def test_a_status_is_made_of_the_registers_that_drivers_read(ask, fields, live, paused, expected):
    host = fake_host(
        WARP_VALID_MASK=live & 0xFFFF_FFFF,
        WARP_VALID_MASK_1=live >> 32,
        BPT_PAUSE_MASK=paused & 0xFFFF_FFFF,
        BPT_PAUSE_MASK_1=paused >> 32,
    )
    host.field = lambda register, name: answer(fields.get(name, 0))
    assert done(ask(host)) == expected
    assert type(done(ask(host))) is type(expected)


def test_events_of_the_debugger_are_not_pending_and_others_are():
    for bits, pending in ((driver.EXPECTED, False), (driver.EXPECTED | 1 << 2, True)):
        host = fake_host(HWW_GLOBAL_ESR=bits)
        host.field = lambda register, name: answer(0)
        assert done(driver.nothing_pending(host)) is not pending


def test_single_steps_and_detaching_set_these_fields():
    host = fake_host()
    done(driver.single_step(host, 1))
    assert host.written[0] == ("DBGR_CONTROL0", {"STOP_TRIGGER": 0, "SINGLE_STEP_MODE": 1})
    host = fake_host()
    done(driver.detach(host))
    fields = {"DEBUGGER_MODE": 0, "STOP_ON_ANY_WARP": 1, "SINGLE_STEP_MODE": 0, "STOP_TRIGGER": 0}
    assert host.written == [("DBGR_CONTROL0", fields)]
    host = fake_host()
    done(driver.attach(host))
    fields = {"DEBUGGER_MODE": 1, "STOP_ON_ANY_WARP": 0, "STOP_ON_ANY_SM": 0}
    assert host.written == [("DBGR_CONTROL0", fields)]


def test_warps_are_listed_in_columns_with_those_that_could_not_be_saved(session, monkeypatch):
    monkeypatch.setattr(driver, "live_warps", lambda host: answer(0b11010 | 1 << 40))
    session.look_at(1)
    assert run(session, "warps") == [
        "*  warp 1  CTA 1,2,3 warp 4  0x0010 k+0x10  0000000f  breakpoint 2  MOV32I R1, 0x1",
        "   warp 3  CTA 0,0,0 warp 0  0x40000008     80000001  stopped       nothing is there",
        "   warp 4  stopped, but not saved",
        "   warp 40  stopped, but not saved",
    ]


def test_runs_take_a_number_of_cycles(session):
    told = []

    async def go(cycles):
        told.append(cycles)
        return False

    session._machine.go = go
    for line in ("continue", "continue 7", f"continue {1 << 40}"):
        assert run(session, line)[-1].startswith("  ->  0x0010")
    assert told == [None, 7, 1 << 40]
    limit = f"{(1 << 40) + 1} is no number of cycles: 1 to {1 << 40:,}"
    assert refusal(session, f"continue {(1 << 40) + 1}") == limit
    session._machine.state = State.HELD
    assert run(session, "run 5") == ["no warp lives"] and told[-1] == 5
    session._machine.state = State.OVER
    assert run(session, "run 6") == [] and (session.starts, session.cycles) == (True, 6)
    assert refusal(session, "continue") == "the grid is over; run starts it again"


def test_detaching_forgets_the_breakpoints_and_tells_the_end(session):
    session.breakpoints.add(0x10)
    session._machine.detach = lambda: answer(False)
    assert run(session, "detach")[-1].startswith("  ->  0x0010")
    assert len(session.breakpoints) == 0
    session._machine.state = State.OVER
    assert run(session, "detach") == run(session, "stop") == ["the grid is over"]


def test_steps_end_at_a_stop_a_barrier_or_the_end_of_a_warp(session):
    machine, stepped = session._machine, []
    machine.reasons = dict

    async def step(chosen, waiting=()):
        stepped.append(chosen)
        return set(waiting)

    machine.step = step
    session.look_at(3)
    run(session, "step 3")
    assert stepped == [{3}] * 3
    run(session, "step all")
    assert stepped[3:] == [{1, 3}]
    stepped.clear()
    machine.step = lambda chosen: step(chosen, chosen)
    assert run(session, "step 5")[0] == "at a barrier that other warps have not reached: warp 3"
    machine.step = step
    machine.reasons = lambda: {1: Why(breakpoint=2)}
    run(session, "step 5")
    assert len(stepped) == 2
    assert refusal(session, "step 0") == "0 is no number of steps: 1 to 1,000,000"


def test_what_a_kernel_prints_is_shown_once(session, monkeypatch):
    texts = ["one\n", "one\n", "one\ntwo\n"]
    found = lambda memory, variable: fake(text=texts.pop(0), lines=list)  # noqa: E731
    monkeypatch.setattr("sim.debugger.session.output_of", found)
    assert [session._printed() for _ in range(3)] == [["one"], [], ["two"]]


def test_a_warp_waits_only_at_a_barrier(debugged):
    memory, base = debugged.memory, debugged.breakpoints._base
    assert not debugged._waits(0x10)
    memory.write_number(base + 0x10, 8, 0)  # no instruction
    assert not debugged._waits(0x10)
    memory.write_number(base + 0x10, 8, BARRIER)
    assert debugged._waits(0x10)


def test_a_machine_stops_by_lock_down_the_end_of_its_grid_or_paused_warps(debugged, monkeypatch):
    for stopped in ("locked_down", "grid_over", "all_paused", None):
        for name in ("locked_down", "grid_over", "all_paused"):
            monkeypatch.setattr(driver, name, lambda host, value=name == stopped: answer(value))
        assert done(debugged._happened(debugged.host)) is (stopped is not None)


def test_detaching_takes_out_breakpoints_and_runs_for_some_cycles_or_to_the_end(debugged):
    ends = []

    async def run_to(end):
        ends.append(end)
        return True

    debugged._run, debugged.host.cycles = run_to, 100
    debugged._reported, debugged._parked = {0: 8}, {0}
    assert done(debugged.detach()) is True and done(debugged.detach(50)) is True
    assert ends[0] > 1 << 60 and ends[1] == 150
    assert not debugged._reported and not debugged._parked and debugged.state is State.RUNNING


@pytest.mark.parametrize(("cycles", "expected"), [(None, 1 << 62), (50, 150)])
def test_a_machine_runs_for_the_cycles_that_are_left(debugged, cycles, expected):
    debugged.host.cycles, debugged.state, ends = 100, State.HELD, []

    async def run_to(end):
        ends.append(end)
        return False

    debugged._run = run_to
    done(debugged.go(cycles))
    assert ends == [expected]
    del debugged._run
    debugged.done.clear()
    done(debugged._run(130))
    debugged.state = State.RUNNING
    done(debugged._run(70))
    assert [one for one in debugged.done if one[0] == "wait"] == [("wait", 30), ("wait", 0)]


def test_breakpoints_are_left_before_the_machine_runs_on(debugged, monkeypatch):
    """There is something to report if the grid has ended, or a warp that could step has stopped again."""
    debugged.breakpoints.add(0x10)
    debugged.all[0] = FakeWarp(0x10)
    debugged.state = State.STOPPED
    assert done(debugged._leave_breakpoints()) is False and not debugged.done  # none was reported
    over = []

    async def step_over(slots):
        over.append(slots)
        debugged.all[0].pc, debugged._reported = 0x18, {}

    debugged._step_over, debugged._reported = step_over, {0: 0x10}
    assert done(debugged._leave_breakpoints()) is False
    assert over == [{0}] and debugged.ran == {0}
    debugged.all[0], debugged._reported = FakeWarp(0x10, [2]), {0: 0x10}
    assert done(debugged._leave_breakpoints()) is True

    async def ended(slots):
        debugged.state = State.OVER

    debugged.all[0], debugged._reported, debugged._step_over = FakeWarp(0x10), {0: 0x10}, ended
    assert done(debugged._leave_breakpoints()) is True


def test_a_warp_that_stays_at_a_barrier_under_a_breakpoint_did_not_run(debugged):
    memory, base = debugged.memory, debugged.breakpoints._base
    memory.write_number(base + 0x10, 8, BARRIER)
    debugged.breakpoints.add(0x10)
    debugged.breakpoints.add(0x28)
    debugged.all |= {0: FakeWarp(0x10), 1: FakeWarp(0x28)}
    debugged.state, debugged._reported = State.STOPPED, {0: 0x10, 1: 0x28}
    debugged._step_over = lambda slots: answer(None)
    assert done(debugged._leave_breakpoints()) is True
    assert debugged.ran == {1}


def test_ctrl_c_stops_the_machine_once_and_the_program_the_second_time():
    watch = Watch()
    assert watch.look(5) is False
    watch._interrupt(2, None)
    with pytest.raises(KeyboardInterrupt):
        watch._interrupt(2, None)
    assert watch.look(10) is True and watch.look(20) is False
    watch._interrupt(2, None)
    watch.rest()
    watch._interrupt(2, None)  # of the next run
    assert watch.look(30) is True
    watch.rest()


def test_a_trap_without_a_handler_is_an_error_of_a_grid_that_has_not_ended(session):
    reasons = SM_REGISTERS["HWW_GLOBAL_ESR"].put(TRAP_REASONS=2)
    registers = dict.fromkeys(SM_REGISTERS, 0) | {
        "HWW_GLOBAL_ESR": reasons,
        "HWW_WARP_ESR_PC": 0x18,
    }
    lines = error_lines(registers, session.code)
    assert "BPT.TRAP, reasons so far: 2, warp 0 at 0x0010 k+0x10" in lines
    assert error_lines(registers, session.code, ended=True) == ["BPT.TRAP, reason 2: handled"]
    assert error_lines(dict.fromkeys(SM_REGISTERS, 0), session.code) == ["no errors"]
    session._machine.state = State.OVER
    session._machine.rejection = lambda: answer(LaunchRejection.NONE)
    session._machine.registers = lambda: answer(registers)
    session._machine.host.read = lambda name: answer(1)
    session.area.launch.buffer_types = {}
    assert done(session.outcome())[1] == "BPT.TRAP, reason 2: handled"


def test_a_new_grid_is_in_new_memory_without_breakpoints(session, monkeypatch):
    host = fake_host()
    host.memory = session.machine.memory
    for name, value in (("attach", None), ("stop_all", True), ("grid_over", False)):
        monkeypatch.setattr(driver, name, lambda host, value=value: answer(value))
    session.breakpoints.add(0x10)
    session.breakpoints.plant(host.memory)
    base = session.area.launch.program_base
    host.memory.write_number(base + 0x10, 8, BARRIER)  # as if it was placed again
    done(session.begin(host))
    assert session.breakpoints.word(host.memory, 0x10) == BARRIER
    assert host.memory.read_number(base + 0x10, 8) != BARRIER
    assert host.written == [("CACHE_CONTROL", {"INVALIDATE": 1})]
    assert session.machine.state is State.HELD
