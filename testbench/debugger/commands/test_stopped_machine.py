"""A machine under the debugger: warps that stop at breakpoints, step and wait, and bounded runs."""

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import GlobalError, trap_bit
from sim.debugger import driver
from sim.debugger.breakpoints import REASON
from sim.debugger.machine import MachineState, StopReason
from sim.firmware.trap_handler import WakeCommand
from testbench.debugger.commands.fake_machine import (
    BARRIER,
    FakeWarp,
    answer,
    done,
)


def test_a_warp_that_has_hit_a_breakpoint_is_put_back_to_it(debugged):
    point = debugged.breakpoints.add(0x10)
    debugged.all |= {0: FakeWarp(0x18, [REASON]), 1: FakeWarp(0x30)}
    done(debugged._arrive())
    assert debugged.state is MachineState.STOPPED and debugged.ran_slots == {0, 1}
    assert debugged.all[0].pc == 0x10 and debugged.all[0].words["COMMAND"] == WakeCommand.RELOAD
    assert debugged.all[1].pc == 0x30 and debugged.all[1].words["COMMAND"] == WakeCommand.LEAVE
    assert {slot: str(why) for slot, why in debugged.reasons().items()} == {
        0: f"breakpoint {point}"
    }


@pytest.mark.parametrize(
    ("reasons", "command", "lifted", "at"),
    [
        (
            [REASON],
            WakeCommand.LEAVE,
            True,
            0x10,
        ),  # the program's own trap, while breakpoints are removed
        ([REASON], WakeCommand.LEAVE, False, 0x30),  # the program's own trap, elsewhere
        ([REASON + 1], WakeCommand.LEAVE, False, 0x10),
        ([REASON], WakeCommand.RELOAD, False, 0x10),  # it was restored before
    ],
)
def test_other_traps_do_not_put_a_warp_back(debugged, reasons, command, lifted, at):
    debugged.breakpoints.add(0x10)
    behind = at + 8
    debugged.all |= {0: FakeWarp(behind, reasons, command)}
    done(debugged._arrive(lifted=lifted))
    assert debugged.all[0].pc == behind
    assert debugged.stop_reason(0, debugged.all[0]).breakpoint is None


def test_a_warp_that_is_stepped_onto_a_breakpoint_is_told_of_it_and_one_that_waits_there_still(
    debugged,
):
    point = debugged.breakpoints.add(0x10)
    debugged.all |= {slot: FakeWarp(0x10, stepped=slot == 1) for slot in range(3)}
    debugged._reported = {2: 0x10}
    done(debugged._arrive(stepped={1}))
    assert debugged.ran_slots == {1} and debugged._reported == {1: 0x10, 2: 0x10}
    whys = [str(debugged.stop_reason(slot, debugged.all[slot])) for slot in range(3)]
    assert whys == ["stopped", f"breakpoint {point}", f"breakpoint {point}"]
    assert debugged._at_breakpoints() == {1, 2}
    debugged.breakpoints.remove(point)
    assert debugged._at_breakpoints() == set()


def test_a_warp_under_a_breakpoint_is_stepped_with_the_programs_own_instruction(debugged):
    """The warp is stepped alone; other warps are stepped together. Breakpoints are removed during
    the step, and set again afterwards.
    """
    debugged.breakpoints.add(0x10)
    debugged.breakpoints.plant(debugged.memory)
    hidden = debugged.memory.read(debugged.breakpoints._base + 0x10, 8)
    debugged.all |= {0: FakeWarp(0x10), 1: FakeWarp(0x28)}
    debugged.state, debugged._reported = MachineState.STOPPED, {0: 0x10}
    assert done(debugged.step({0, 1})) == set()
    assert [one for one in debugged.done if one[0] == "single_step"] == [
        ("single_step", 0b01),
        ("single_step", 0b10),
    ]
    names = [one[0] for one in debugged.done]
    assert names[:4] == ["invalidate_caches", "single_step", "wait", "invalidate_caches"]
    assert debugged.memory.read(debugged.breakpoints._base + 0x10, 8) == hidden
    assert debugged.ran_slots == {0, 1}


def test_without_warps_the_machine_waits_for_its_first_one(debugged):
    done(debugged._arrive())
    assert debugged.state is MachineState.HELD and debugged.warps == {}


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
    debugged.state, debugged.ran_slots = MachineState.STOPPED, {0}
    assert debugged.reasons() == {0: StopReason(error, (2,))}
    assert str(debugged.stop_reason(1, debugged.all[1])) == "BPT.TRAP 2 4"
    debugged.state = MachineState.OVER
    assert debugged.reasons() == {}


def test_warps_at_breakpoints_stay_there_while_others_run(debugged):
    """If all warps are at breakpoints, all are resumed."""
    debugged.breakpoints.add(0x10)
    debugged.all |= {0: FakeWarp(0x10), 2: FakeWarp(0x28)}
    debugged.state, debugged._reported = MachineState.STOPPED, {0: 0x10}
    done(debugged._release())
    assert debugged.done == [("wake", 0b100)] and debugged._parked == {0}
    assert debugged._reported == {0: 0x10} and debugged.state is MachineState.RUNNING
    debugged.done.clear()
    del debugged.all[2]
    debugged.state = MachineState.STOPPED
    done(debugged._release())
    assert debugged.done == [("resume",)] and debugged._reported == {} and not debugged._parked
    done(debugged._release())
    assert debugged.done == [("resume",)]  # it is running already


def test_a_step_that_hits_a_planted_breakpoint_is_put_back_to_it(debugged):
    debugged.breakpoints.add(0x28)
    debugged.all |= {1: FakeWarp(0x30, [REASON])}
    done(debugged._step({1}))
    assert debugged.all[1].pc == 0x28 and debugged.ran_slots == {1}


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
    assert (
        not debugged._reported and not debugged._parked and debugged.state is MachineState.RUNNING
    )


@pytest.mark.parametrize(("cycles", "expected"), [(None, 1 << 62), (50, 150)])
def test_a_machine_runs_for_the_cycles_that_are_left(debugged, cycles, expected):
    debugged.host.cycles, debugged.state, ends = 100, MachineState.HELD, []

    async def run_to(end):
        ends.append(end)
        return False

    debugged._run = run_to
    done(debugged.go(cycles))
    assert ends == [expected]
    del debugged._run
    debugged.done.clear()
    done(debugged._run(130))
    debugged.state = MachineState.RUNNING
    done(debugged._run(70))
    assert [one for one in debugged.done if one[0] == "wait"] == [("wait", 30), ("wait", 0)]


def test_breakpoints_are_left_before_the_machine_runs_on(debugged, monkeypatch):
    """There is a report if the grid has ended, or a warp that could step has stopped again."""
    debugged.breakpoints.add(0x10)
    debugged.all[0] = FakeWarp(0x10)
    debugged.state = MachineState.STOPPED
    assert done(debugged._leave_breakpoints()) is False and not debugged.done  # none was reported
    over = []

    async def step_over(slots):
        over.append(slots)
        debugged.all[0].pc, debugged._reported = 0x18, {}

    debugged._step_over, debugged._reported = step_over, {0: 0x10}
    assert done(debugged._leave_breakpoints()) is False
    assert over == [{0}] and debugged.ran_slots == {0}
    debugged.all[0], debugged._reported = FakeWarp(0x10, [2]), {0: 0x10}
    assert done(debugged._leave_breakpoints()) is True

    async def ended(slots):
        debugged.state = MachineState.OVER

    debugged.all[0], debugged._reported, debugged._step_over = FakeWarp(0x10), {0: 0x10}, ended
    assert done(debugged._leave_breakpoints()) is True


def test_a_warp_that_stays_at_a_barrier_under_a_breakpoint_did_not_run(debugged):
    memory, base = debugged.memory, debugged.breakpoints._base
    memory.write_number(base + 0x10, 8, BARRIER)
    debugged.breakpoints.add(0x10)
    debugged.breakpoints.add(0x28)
    debugged.all |= {0: FakeWarp(0x10), 1: FakeWarp(0x28)}
    debugged.state, debugged._reported = MachineState.STOPPED, {0: 0x10, 1: 0x28}
    debugged._step_over = lambda slots: answer(None)
    assert done(debugged._leave_breakpoints()) is True
    assert debugged.ran_slots == {1}
