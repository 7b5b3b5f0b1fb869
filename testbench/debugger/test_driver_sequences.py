"""Sequences of debugger register accesses in open-source drivers, on the hardware."""

from collections.abc import Awaitable, Callable

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import CONTROL_RESET, SM_REGISTERS, GlobalError
from sim.debugger import driver
from sim.firmware.trap_handler import SaveArea, install_trap_handler
from sim.launch import Launch
from sim.machine.hardware import Hardware
from sim.machine.host import HardwareHost
from testbench.engine.designs import needs_compiled
from testbench.sm.errors import launch_text
from testbench.trap.programs import with_handler
from testbench.words import NOP

ENDLESS = """.kernel k
.param out 8
.registers 24
        MOV32I R4, 0x0
        MOV R2, c[0x0][out]
        MOV R3, c[0x0][out+4]
again:
        IADD32I R4, R4, 0x1
        LDG.E R6, [R2]
        ISETP.EQ.U32.AND P0, PT, R6, RZ, PT
    @P0 BRA again
        STG.E [R2+0x4], R4
        EXIT
"""
"""Counts until the host writes a nonzero number to its first word."""
BRANCH = 0x48
"""Address of the branch with which it continues."""
FAILS = ".kernel k\n.param out 8\n    NOP\n    .raw 0x0\n    EXIT\n"
BOTH = 0b11
"""Mask of the warp slots of the smallest machine."""
_LIMIT = 200_000


def program(text: str = ENDLESS, block: int = 64) -> Launch:
    return launch_text(text, words=4, block=block, crs=512)


@pytest.fixture
def area() -> SaveArea:
    """The save area of the endless loop."""
    return install_trap_handler(program())


@pytest.fixture
def play(hardware: Hardware) -> Callable:
    """A decorator for a driver's sequence on a launch: it runs immediately and must end with the
    expected status.

    A sequence that must succeed ends the endless loop.
    """

    def with_launch(
        launch: Launch, ends: str = "ok"
    ) -> Callable[[Callable[[HardwareHost], Awaitable[None]]], None]:
        def run(drive: Callable[[HardwareHost], Awaitable[None]]) -> None:
            async def driver_of(host: HardwareHost) -> None:
                await drive(host)
                if ends == "ok":
                    await finish(host, launch)

            assert hardware.run(launch, _LIMIT, driver=driver_of).status == ends

        return run

    return with_launch


async def control(host: HardwareHost) -> dict[str, int]:
    value = await host.read("DBGR_CONTROL0")
    register = SM_REGISTERS["DBGR_CONTROL0"]
    return {name: register.get(name, value) for name in register.fields}


async def finish(host: HardwareHost, launch: Launch) -> None:
    """Ends the endless loop."""
    host.memory.write_number(launch.buffers["out"][0], 4, 1)
    assert await driver.wait(host, driver.grid_over)


class Recorder:
    """Registers without a machine that record writes in order."""

    def __init__(self, **contents: int) -> None:
        self.contents, self.written = contents, []

    async def read(self, register: str) -> int:
        return self.contents.get(register, 0)

    async def write(self, register: str, value: int) -> None:
        self.written.append((register, value))
        self.contents[register] = value

    modify, field = HardwareHost.modify, HardwareHost.field

    async def run(self, cycles: int) -> bool:
        return False


STOP, RUN, STEP = 1 << 31, 1 << 30, 1 << 3


@pytest.mark.parametrize(
    ("sequence", "contents", "written"),
    [
        (driver.attach, {"DBGR_CONTROL0": CONTROL_RESET}, [("DBGR_CONTROL0", 0x1C01)]),
        (
            driver.resume,
            {"DBGR_CONTROL0": STOP | 1},
            [("DBGR_CONTROL0", 1), ("DBGR_CONTROL0", RUN | 1)],
        ),
        (
            driver.resume_paused,
            {"DBGR_CONTROL0": STOP | 1},
            [
                ("BPT_PAUSE_MASK", 0),
                ("BPT_PAUSE_MASK_1", 0),
                ("DBGR_CONTROL0", 1),
                ("DBGR_CONTROL0", RUN | 1),
            ],
        ),
        (
            lambda host: driver.wake(host, 1 << 63 | 0b101),
            {},
            [("BPT_PAUSE_MASK", 0xFFFF_FFFA), ("BPT_PAUSE_MASK_1", 0x7FFF_FFFF)],
        ),
        (
            lambda host: driver.single_step(host, 0b10),
            {"DBGR_CONTROL0": STOP | 1},
            [
                ("DBGR_CONTROL0", STEP | 1),
                ("BPT_PAUSE_MASK", 0xFFFF_FFFD),
                ("BPT_PAUSE_MASK_1", 0xFFFF_FFFF),
            ],
        ),
        (
            driver.clear_errors,
            {"HWW_GLOBAL_ESR": 0x24, "HWW_WARP_ESR": 9},
            [("HWW_GLOBAL_ESR", 0x24), ("HWW_WARP_ESR", 0)],
        ),
        (
            driver.clear_errors_nouveau,
            {"HWW_GLOBAL_ESR": 0x24, "HWW_WARP_ESR": 9},
            [("HWW_WARP_ESR", 0), ("HWW_GLOBAL_ESR", 0x24)],
        ),
        (driver.invalidate_caches, {}, [("CACHE_CONTROL", 1)]),
    ],
)
def test_a_sequence_writes_this(sequence, contents, written):
    host = Recorder(**contents)
    with pytest.raises(StopIteration):
        sequence(host).send(None)
    assert host.written == written


@needs_compiled
def test_a_debugger_attaches_and_leaves(play, area):
    @play(area.launch)
    async def drive(host):
        assert not await driver.is_attached(host)
        await driver.attach(host)
        assert await driver.is_attached(host)
        assert await control(host) == {
            "DEBUGGER_MODE": 1,
            "STOP_ON_ANY_WARP": 0,
            "STOP_ON_ANY_SM": 0,
            "SINGLE_STEP_MODE": 0,
            "RUN_TRIGGER": 0,
            "STOP_TRIGGER": 0,
        }
        await driver.detach(host)
        assert await host.read("DBGR_CONTROL0") == CONTROL_RESET


@needs_compiled
def test_all_warps_are_suspended_and_resumed(play, area):
    @play(area.launch)
    async def drive(host):
        await host.run(2000)
        assert not await driver.fully_stopped(host)
        assert await driver.suspend(host)
        assert await driver.fully_stopped(host)
        assert await driver.live_warps(host) == await driver.paused_warps(host) == BOTH
        issued = await host.read("instructions")
        counts = [warp.register(0, 4) for warp in area.warps(host.memory).values()]
        await host.run(1000)
        assert await host.read("instructions") == issued
        await driver.resume(host)
        assert await driver.wait(host, driver.not_in_trap)
        await host.run(2000)
        assert await host.read("instructions") > issued
        assert not await driver.locked_down(host)
        assert await driver.suspend(host)
        assert all(
            warp.register(0, 4) > before
            for warp, before in zip(area.warps(host.memory).values(), counts, strict=True)
        )
        await driver.resume(host)


@needs_compiled
def test_warps_that_leave_the_handler_are_stopped_again(play, area):
    """The stop trigger is written while a warp waits for the other one to leave, at any cycle of
    that time.
    """

    @play(area.launch)
    async def drive(host):
        await host.run(2000)
        assert await driver.suspend(host)
        held = 0
        for cycles in range(500, 5000, 500):
            await driver.resume(host)
            end = host.cycles + cycles
            while host.cycles < end:
                await host.run(end - host.cycles)
            assert await driver.suspend(host)
            held += not await driver.fully_stopped(host)
            assert await driver.stop_all(host)
            assert set(area.warps(host.memory)) == {0, 1}
        assert held > 0
        await driver.resume(host)


@needs_compiled
def test_an_empty_machine_is_held(play, area):
    @play(area.launch)
    async def drive(host):
        assert await driver.suspend(host, 100)
        await host.run(3000)
        assert await driver.locked_down(host)
        assert await driver.live_warps(host) == 0
        await driver.resume(host)


@needs_compiled
def test_a_wait_for_lock_down_gives_up(play, area):
    @play(area.launch)
    async def drive(host):
        await host.run(1000)
        assert not await driver.wait_for_lock_down(host, 500)
        assert await driver.wait_for_lock_down(
            host, 500, check_errors=True
        )  # there is no error to wait for


@needs_compiled
@pytest.mark.parametrize("slots", [0b01, 0b10, BOTH])
def test_warps_single_step(play, area, slots):
    """Three instructions of the loop are stepped; the other warp does not move."""

    @play(area.launch)
    async def drive(host):
        await host.run(2000)
        assert await driver.suspend(host)
        for _ in range(3):
            before = {slot: warp.pc for slot, warp in area.warps(host.memory).items()}
            await driver.single_step(host, slots)
            assert await driver.wait_for_lock_down(host)
            after = {slot: warp.pc for slot, warp in area.warps(host.memory).items()}
            assert {slot for slot in before if before[slot] != after[slot]} == {
                n for n in (0, 1) if slots >> n & 1
            }
            assert await host.field("HWW_GLOBAL_ESR", "SINGLE_STEP_COMPLETE")
            assert await driver.nothing_pending(host)
        await host.modify("DBGR_CONTROL0", SINGLE_STEP_MODE=0)
        await driver.resume(host)


@needs_compiled
@pytest.mark.parametrize("clear", [driver.clear_errors, driver.clear_errors_nouveau])
def test_errors_are_cleared(play, clear):
    area = install_trap_handler(program(FAILS, 32))

    @play(area.launch, "error")
    async def drive(host):
        assert await driver.wait_for_lock_down(host)
        assert not await driver.nothing_pending(host)
        assert await host.field("HWW_WARP_ESR", "ERROR") == WarpError.ILLEGAL_INSTR_ENCODING.value
        assert await host.field("HWW_GLOBAL_ESR", "BPT_PAUSE")
        assert host.interrupted
        await clear(host)
        assert (await host.read("HWW_WARP_ESR"), await host.read("HWW_GLOBAL_ESR")) == (0, 0)
        assert not host.interrupted
        assert await driver.fully_stopped(host)


@needs_compiled
def test_an_event_between_reading_and_clearing_is_kept(play):
    area = install_trap_handler(program(FAILS, 32))

    @play(area.launch, "error")
    async def drive(host):
        assert await driver.wait_for_lock_down(host)
        await host.write("HWW_GLOBAL_ESR", 1 << GlobalError.BPT_INT.value)
        assert await host.field("HWW_GLOBAL_ESR", "BPT_PAUSE")
        await driver.clear_errors(host)


@needs_compiled
def test_warps_that_a_pause_holds_are_resumed(play):
    """The handler only pauses, as the drivers expect: warps are woken by the mask, then by the
    trigger.
    """
    launch = with_handler(program(), "BPT.PAUSE", "RTT")

    @play(launch)
    async def drive(host):
        for _ in range(3):
            await host.run(1500)
            assert await driver.suspend(host)
            assert await driver.paused_warps(host) == BOTH
            await driver.resume_paused(host)
            await host.run(500)
            assert await driver.paused_warps(host) == 0


@needs_compiled
def test_one_warp_is_woken(play):
    launch = with_handler(program(), "BPT.PAUSE", "RTT")

    @play(launch)
    async def drive(host):
        await host.run(2000)
        assert await driver.suspend(host)
        await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)
        await driver.wake(host, 0b10)
        await host.run(1000)
        assert await driver.paused_warps(host) == 0b01
        assert not await driver.all_paused(host)
        assert await driver.suspend(host)
        await driver.resume(host)


@needs_compiled
@pytest.mark.parametrize("empties", [True, False])
def test_changed_code_is_executed_behind_an_invalidation(play, empties):
    """The loop's branch is replaced by NOP in memory while warps are held without a handler, which
    would use the cache.
    """
    launch = program()

    @play(launch)
    async def drive(host):
        await host.run(2000)
        assert await driver.suspend(host)
        host.memory.write_number(launch.program_base + BRANCH, 8, NOP)
        if empties:
            await driver.invalidate_caches(host)
        await driver.resume(host)
        assert await driver.wait(host, driver.grid_over, 5000) is empties
