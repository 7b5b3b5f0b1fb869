"""The debugger's driver: it wakes warps, reads and clears status registers, and waits."""

from typing import Any

import pytest

from sim.debugger import driver
from sim.debugger.breakpoints import Breakpoints
from sim.debugger.errors import DebuggerError
from sim.debugger.machine import DebuggedMachine, MachineState
from testbench.debugger.commands.fake_machine import (
    answer,
    done,
    fake_host,
)


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
        assert machine.state is MachineState.OVER
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
