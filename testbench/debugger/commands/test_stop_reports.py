"""Reports of the debugger when warps stop, a grid ends or an error occurs."""

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS
from rtl.layouts import LaunchRejection
from sim.debugger.machine import MachineState, StopReason
from sim.debugger.views import error_lines
from testbench.debugger.commands.fake_machine import (
    answer,
    done,
)


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
    session._machine.state = MachineState.RUNNING
    assert done(session.outcome()) == ["the grid runs, 1,234 cycles so far"]
    session._machine.state = MachineState.HELD
    assert done(session.outcome()) == ["no warp lives"]


def test_a_reason_is_an_error_or_else_traps_and_a_breakpoint_or_else_a_step():
    assert str(StopReason(WarpError.OOR_ADDR, (1,), 2, True)) == "error OOR_ADDR"
    assert (
        str(StopReason(reasons=(1, 3), breakpoint=2, stepped=True)) == "BPT.TRAP 1 3, breakpoint 2"
    )
    assert str(StopReason(breakpoint=2, stepped=True)) == "breakpoint 2"
    assert (str(StopReason(stepped=True)), str(StopReason())) == ("stepped", "stopped")
    owns = [StopReason(WarpError.OOR_ADDR), StopReason(reasons=(1,)), StopReason(breakpoint=1)]
    assert all(why.stopped_by_itself for why in owns)
    assert not StopReason(stepped=True).stopped_by_itself and not StopReason().stopped_by_itself


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
    machine.state = MachineState.OVER
    counters = {"instructions": 12345, "cycles": 67890}
    host.read = lambda name: answer(counters[name])
    machine.rejection = lambda: answer(LaunchRejection.NONE)
    session.area.launch.buffer_types = {}
    lines = done(session.outcome())
    assert lines[0] == "the grid is over, 12,345 instructions in 67,890 cycles"
    assert lines[1] == "BPT.TRAP, reason 1: the debugger stopped there"
    assert len(lines) == 3 and lines[2].startswith("buffer        out, 38 bytes at ")
    machine.rejection = lambda: answer(LaunchRejection(1))
    assert done(session.outcome()) == [
        f"the machine does not take the launch: {LaunchRejection(1).name}"
    ]


def test_a_trap_without_a_handler_is_an_error_of_a_grid_that_has_not_ended(session):
    reasons = SM_REGISTERS["HWW_GLOBAL_ESR"].put(TRAP_REASONS=2)
    registers = dict.fromkeys(SM_REGISTERS, 0) | {
        "HWW_GLOBAL_ESR": reasons,
        "HWW_WARP_ESR_PC": 0x18,
    }
    lines = error_lines(registers, session.code)
    assert "BPT.TRAP, reasons so far: 2, warp 0 at 0x0010 k+0x10" in lines
    assert error_lines(registers, session.code, ended=True) == [
        "BPT.TRAP, reason 2: the debugger stopped there"
    ]
    assert error_lines(dict.fromkeys(SM_REGISTERS, 0), session.code) == ["no errors"]
    session._machine.state = MachineState.OVER
    session._machine.rejection = lambda: answer(LaunchRejection.NONE)
    session._machine.registers = lambda: answer(registers)
    session._machine.host.read = lambda name: answer(1)
    session.area.launch.buffer_types = {}
    assert done(session.outcome())[1] == "BPT.TRAP, reasons 1 2: the debugger stopped there"
