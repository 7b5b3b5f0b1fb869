"""Commands that run the machine: warps, run, step, detach; their output; interrupts; new grids."""

import pytest

from sim.debugger import driver
from sim.debugger.machine import MachineState, StopReason
from sim.debugger.watch import Watch
from testbench.debugger.commands.fake_machine import BARRIER, answer, done, fake_host, refusal, run
from testbench.fakes import fake


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
    session._machine.state = MachineState.HELD
    assert run(session, "run 5") == ["no warp lives"] and told[-1] == 5
    session._machine.state = MachineState.OVER
    assert run(session, "run 6") == [] and (session.starts, session.cycles) == (True, 6)
    assert refusal(session, "continue") == "the grid is over; run starts it again"


def test_detaching_forgets_the_breakpoints_and_tells_the_end(session):
    session.breakpoints.add(0x10)
    session._machine.detach = lambda: answer(False)
    assert run(session, "detach")[-1].startswith("  ->  0x0010")
    assert len(session.breakpoints) == 0
    session._machine.state = MachineState.OVER
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
    machine.reasons = lambda: {1: StopReason(breakpoint=2)}
    run(session, "step 5")
    assert len(stepped) == 2
    assert refusal(session, "step 0") == "0 is no number of steps: 1 to 1,000,000"


def test_what_a_kernel_prints_is_shown_once(session, monkeypatch):
    texts = ["one\n", "one\n", "one\ntwo\n"]
    found = lambda memory, variable: fake(text=texts.pop(0), lines=list)  # noqa: E731
    monkeypatch.setattr("sim.debugger.session.output_of", found)
    assert [session._printed() for _ in range(3)] == [["one"], [], ["two"]]


def test_ctrl_c_stops_the_machine_once_and_the_program_the_second_time():
    watch = Watch()
    assert watch.look(5) is False
    watch._interrupt(2, None)
    with pytest.raises(KeyboardInterrupt):
        watch._interrupt(2, None)
    assert watch.look(10) is True and watch.look(20) is False
    watch._interrupt(2, None)
    watch.stopped()
    watch._interrupt(2, None)  # interrupts the next run
    assert watch.look(30) is True
    watch.stopped()


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
    assert session.machine.state is MachineState.HELD
