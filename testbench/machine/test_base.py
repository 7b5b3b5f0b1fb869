"""The host's driver of a machine starts a grid, waits for its end, and reads the result from
registers.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import COUNTER_BLOCK, COUNTERS, SM_REGISTERS, WORK_REGISTERS
from rtl.layouts import LaunchRejection
from rtl.params import PRESETS
from sim.launch import LOCAL_MEMORY
from sim.launch.memory import Memory
from sim.machine.base import BaseMachine, HardwareResult, RunInterrupted
from sim.machine.host import REGISTERS, HardwareHost
from sim.support.interrupt import Interrupted
from testbench.machine.recorded import launch_of

CHUNK = 10_000
"""Cycles between two checks of the progress: three checks without an instruction or a request are a
hang.
"""


class Machine(BaseMachine):
    """Registers without a machine: it issues an instruction in each cycle up to ``busy``, and at a
    given cycle it ends, locks down, interrupts or reports a difference.
    """

    def __init__(self, *, busy=0, ends=None, locks=None, differs=None, interrupted_at=None):
        super().__init__(PRESETS["tiny"])
        self.memory = Memory()
        self.busy, self.ends, self.locks, self.wrong = busy, ends, locks, differs
        self.ctrl_c = interrupted_at
        self.registers: dict[int, int] = {}
        self.writes: list[tuple[str, int]] = []
        self.settled = self.examined = 0
        self.advanced: list[int] = []
        self.asked = 0

    def run(self, launch, limit, progress=lambda _cycles: None, **options: Any):
        raise AssertionError

    @property
    def requests(self):
        return self.asked

    async def settle(self):
        self.settled += 1

    def examine(self, result):
        self.examined += 1

    @property
    def ended(self):
        return self.ends is not None and self.cycles >= self.ends

    @property
    def locked_down(self):
        return self.locks is not None and self.cycles >= self.locks

    @property
    def interrupted(self):
        return False

    @property
    def differs(self):
        return self.wrong is not None and self.cycles >= self.wrong

    async def advance(self, cycles):
        self.advanced.append(cycles)
        before = self.cycles
        stops = [
            stop
            for stop in (self.ends, self.locks, self.wrong)
            if stop is not None and stop > before
        ]
        self.cycles = min([before + cycles, *stops])
        if self.ctrl_c is not None and self.cycles >= self.ctrl_c:
            raise Interrupted(2)
        return self.cycles in (self.ends, self.locks)

    async def write(self, address, value):
        name = next(name for name, at in REGISTERS.items() if at == address)
        self.writes.append((name, value))

    async def read_all(self, addresses):
        counted = {
            "instructions": min(self.cycles, self.busy),
            "cycles": self.cycles,
            "idle": self.cycles // 2,
        }
        found = []
        for address in addresses:
            number, high = divmod(address - COUNTER_BLOCK, 8)
            if 0 <= number < len(COUNTERS):
                value = counted.get(list(COUNTERS)[number], 0)
                found.append(value >> 32 if high else value & 0xFFFF_FFFF)
            else:
                found.append(self.registers.get(address, 0))
        return found


def done(work):
    """Runs a coroutine that never suspends and returns its result."""
    with pytest.raises(StopIteration) as ended:
        work.send(None)
    return ended.value.value


LAUNCH: Any = SimpleNamespace(program_base=0x12_0000_4000, trap_handler=None)
PLACES = (0x3_0000_0200, 0x5_8000_0100)


def served(machine, limit=1_000_000, launch=LAUNCH, **options):
    """Returns the result of a run and the progress that it reported."""
    result, seen = HardwareResult("timeout", 0), []
    done(machine.serve(launch, PLACES, limit, result, progress=seen.append, **options))
    return result, seen


def test_a_grid_is_started_by_its_registers():
    machine = Machine(ends=5)
    served(machine)
    assert machine.writes == [
        ("HWW_WARP_ESR_REPORT_MASK", SM_REGISTERS["HWW_WARP_ESR_REPORT_MASK"].reset),
        ("PROGRAM_REGION_A", 0x12),
        ("PROGRAM_REGION_B", 0x4000),
        ("LOCAL_MEMORY_A", 0x3),
        ("LOCAL_MEMORY_B", 0x200),
        ("QMD_ADDRESS_A", 0x5),
        ("QMD_ADDRESS_B", 0x8000_0100),
        ("LAUNCH", 1),
    ]


def test_a_trap_handler_and_the_mask_of_errors_are_set_before_the_launch():
    machine = Machine(ends=5)
    launch: Any = SimpleNamespace(program_base=0, trap_handler=0x780)
    served(machine, launch=launch, report_mask=5)
    assert machine.writes[:3] == [
        ("HWW_WARP_ESR_REPORT_MASK", 5),
        ("TRAP_HANDLER", 0x780),
        ("TRAP_CONTROL", 1),
    ]


@pytest.mark.parametrize(
    ("machine", "status", "cycles", "reason"),
    [
        (Machine(busy=10**9, ends=70), "ok", 70, ""),
        (Machine(busy=10**9, ends=25_000), "ok", 25_000, ""),
        (Machine(busy=10**9, locks=12), "error", 12, ""),
        (Machine(busy=10**9), "timeout", 50_000, "not over after 50,000 cycles from the reset on"),
        (Machine(), "timeout", 30_000, "no warp has issued an instruction for 30,000 cycles"),
        (
            Machine(busy=15_000),
            "timeout",
            50_000,
            "no warp has issued an instruction for 30,000 cycles",
        ),
        (Machine(busy=10**9, differs=400), "timeout", 400, ""),
        (Machine(busy=10**9, ends=50_000), "ok", 50_000, ""),
    ],
)
def test_a_run_ends_with_its_grid_an_error_a_difference_a_hang_or_its_limit(
    machine, status, cycles, reason
):
    result, seen = served(machine, 50_000)
    assert (result.status, result.cycles, result.reason) == (status, cycles, reason)
    assert sum(seen) == cycles and all(0 < passed <= CHUNK for passed in seen)
    assert machine.settled == 1 and machine.examined == (status != "ok")
    assert result.outcome == (f"{status}: {reason}" if reason else status)


def test_requests_to_memory_are_no_hang():
    class Loading(Machine):
        async def advance(self, cycles):
            self.asked += 1
            return await super().advance(cycles)

    result, _ = served(Loading(), 90_000)
    assert result.reason == "not over after 90,000 cycles from the reset on"


def test_the_outcome_has_registers_and_counters_and_the_cycles_are_read_last():
    machine = Machine(busy=40, ends=(1 << 32) + 5)
    machine.cycles = (1 << 32) - 10
    machine.registers[REGISTERS["WARP_VALID_MASK"]] = 3
    result, _ = served(machine, 1 << 40)
    assert result.registers.keys() == set(SM_REGISTERS) and result.registers["WARP_VALID_MASK"] == 3
    assert result.instructions == result.counters["instructions"] == 40
    assert result.counters["cycles"] == result.cycles == (1 << 32) + 5
    assert result.counters["idle"] == ((1 << 32) + 5) // 2
    machine = Machine(busy=1 << 60, ends=(5 << 32) + 7)
    machine.cycles = 5 << 32
    assert served(machine, 1 << 40)[0].instructions == (5 << 32) + 7


def test_a_launch_that_is_rejected_is_an_error_with_its_reason():
    machine = Machine(ends=5)
    machine.registers[REGISTERS["STATUS"]] = WORK_REGISTERS["STATUS"].put(
        DONE=1, REJECTION=LaunchRejection.VERSION.value
    )
    result, _ = served(machine)
    assert (result.status, result.rejection) == ("error", LaunchRejection.VERSION)
    assert machine.examined == 1


def test_an_error_of_a_warp_that_has_ended_is_an_error_of_the_run():
    machine = Machine(ends=5)
    machine.registers[REGISTERS["HWW_WARP_ESR"]] = SM_REGISTERS["HWW_WARP_ESR"].put(
        ERROR=WarpError.MMU_FAULT.value
    )
    assert served(machine)[0].status == "error"


def test_an_interruption_tells_what_there_is_until_then():
    machine = Machine(busy=10**9, interrupted_at=12_345)
    result = HardwareResult("timeout", 0)
    with pytest.raises(RunInterrupted) as request:
        machine.serve(LAUNCH, PLACES, 10**6, result).send(None)
    assert request.value.result is result and request.value.number == 2
    assert (result.status, result.cycles) == ("interrupted", 20_000)
    assert request.value.after == "after 20,000 cycles"
    assert result.outcome == "interrupted after 20,000 cycles"
    assert machine.settled == 1


# Runs with a driver


def test_a_driver_of_a_remote_machine_finds_it_stopped_and_decides_when_it_is_over():
    class Remote(Machine):
        remote = True

    seen = []

    async def driver(host):
        seen.append((host.remote, host.ended, await host.run(100), host.cycles))

    machine = Remote(ends=60)
    result, _ = served(machine, driver=driver)
    name, value = machine.writes[0]
    assert name == "DBGR_CONTROL0" and SM_REGISTERS[name].get("STOP_TRIGGER", value) == 1
    assert seen == [(True, False, True, 60)] and result.status == "ok"
    machine = Machine(locks=60)
    result, _ = served(machine, driver=driver)
    assert machine.writes[0][0] == "HWW_WARP_ESR_REPORT_MASK" and result.status == "error"
    machine = Remote(ends=4)
    served(machine)  # without a driver the machine is not held
    assert machine.writes[0][0] == "HWW_WARP_ESR_REPORT_MASK"


def host_of(machine):
    return HardwareHost(machine)


def test_a_driver_waits_for_a_condition_or_so_many_cycles():
    machine = Machine(ends=500)
    host = host_of(machine)
    assert done(host.run(100)) is False and host.cycles == 100
    assert done(host.until(lambda host: host.ended, 300)) is False and host.cycles == 400
    assert done(host.until(lambda host: host.ended, 300)) is True and host.cycles == 500
    assert done(host.until(lambda host: host.ended, 300)) is True and host.cycles == 500
    machine = Machine(differs=50)
    host = host_of(machine)
    assert done(host.run(100)) is False and host.cycles == 50 and host.failed
    assert done(host.until(lambda host: host.ended, 300)) is False and host.cycles == 50


def test_a_driver_names_registers_and_their_fields():
    class Kept(Machine):
        async def write(self, address, value):
            self.registers[address] = value

    machine = Kept()
    host = host_of(machine)
    done(host.write("DBGR_CONTROL0", 0))
    done(host.modify("DBGR_CONTROL0", STOP_TRIGGER=1))
    register = SM_REGISTERS["DBGR_CONTROL0"]
    assert done(host.read("DBGR_CONTROL0")) == register.put(0, STOP_TRIGGER=1)
    assert done(host.field("DBGR_CONTROL0", "STOP_TRIGGER")) == 1
    done(host.modify("DBGR_CONTROL0", STOP_TRIGGER=0))
    assert done(host.read("DBGR_CONTROL0")) == 0


# Memory of a launch


TEXT = ".kernel k\nNOP\nEXIT\n"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_launch_gets_local_memory_and_a_descriptor_which_are_freed_again(in_place):
    machine, launch = Machine(), launch_of(TEXT)
    machine.in_place = in_place
    before = dict(launch.memory.regions)
    local, descriptor = machine.place(launch)
    added = {name: base for name, (base, _) in machine.memory.regions.items() if name not in before}
    assert {local, descriptor} <= set(added.values()) and added[LOCAL_MEMORY] == local
    assert (machine.memory is launch.memory) == in_place
    machine.clear()
    assert machine.memory.regions == before == launch.memory.regions
    machine.clear()
    assert launch.memory.regions == before
