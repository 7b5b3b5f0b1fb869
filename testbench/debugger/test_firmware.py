"""The trap handlers: the state that they save, and changes by a host; kernels that are stopped, or
moved to another machine, continue.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.isa.control_code import instruction_address
from rtl.params import PRESETS, WARP_THREADS
from sim.engine import ENGINES
from sim.firmware import (
    ContextCommand,
    ContextImage,
    SaveArea,
    WakeCommand,
    WarpContext,
    install_context_switch,
    install_trap_handler,
    resumed,
    save_grid,
)
from sim.launch import Launch, prepare
from sim.launch.memory import Memory
from sim.machine.hardware import Hardware
from sim.machine.host import HardwareHost
from sim.model.warp.host import ModelHost
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.model.warp.state import Cta
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import ProgramError
from testbench.engine.designs import needs_compiled
from testbench.kernels.expected import complaints
from testbench.kernels.manifest import RUNS, build

DIVERGED = """
        S2R R0, SR_TID.X
        PEXIT .Lend
        ISETP.GE.U32.AND P0, PT, R0, 0x1d, PT
    @P0 KIL
        ISETP.GE.U32.AND P1, PT, R0, 0x18, PT
    @P1 EXIT
        SSY .Lend
        ISETP.GE.U32.AND P2, PT, R0, 0x10, PT
    @P2 SYNC
        PBK .Lend
        ISETP.GE.U32.AND P3, PT, R0, 0xc, PT
    @P3 BRK
        PCNT .Lend
        ISETP.GE.U32.AND P4, PT, R0, 0x9, PT
    @P4 CONT
        IADD32I R1.CC, R0, 0xfffffffc
        BPT.TRAP 0x3
.Lend:
        EXIT
"""
"""A program whose warp has threads in every state when it traps."""
LIMIT = 1_000_000
_STATE = BarrierState.as_shape()
_ARRIVED, _EXPECTED = 1 << _STATE["arrived"].offset, 2 << _STATE["expected"].offset


def launch_of(text: str, threads: int = WARP_THREADS, crs: int | None = None) -> Launch:
    """Returns a launch of one CTA of a kernel without parameters."""
    return prepare(load(assemble(f".kernel k\n{text}", "k")), block=(threads, 1, 1), crs=crs)


def diverged(registers: int) -> Launch:
    """Returns a launch of DIVERGED in which every register has a distinct value in every thread."""
    lines = "".join(
        f"        IADD32I R{number}, R0, {number * 0x10001:#x}\n" for number in range(2, registers)
    )
    return launch_of(DIVERGED.replace("        BPT", lines + "        BPT", 1))


@dataclass(frozen=True)
class Snapshot:
    """The state of a warp that its threads can observe."""

    pc: int
    masks: WarpMasks
    stack: list[StackToken]
    registers: list[list[int]]
    predicates: list[int]
    condition: list[int]


def snapshot(machine: WarpModel, registers: int) -> Snapshot:
    """Returns the state of the warp in slot 0, without holes at the top of its stack."""
    warp = machine.warps[0]
    assert warp is not None
    return Snapshot(
        instruction_address(warp.pc),
        warp.masks,
        without_holes(warp.stack.tokens()),
        warp.registers[:registers].tolist(),
        list(warp.predicates[:7]),
        warp.condition.nibbles().tolist(),
    )


def undisturbed(registers: int) -> Snapshot:
    """Returns the state of DIVERGED at its trap, without a handler."""
    bare = WarpModel(diverged(registers), warps=2)
    bare.run(LIMIT)
    return snapshot(bare, registers)


def without_holes(tokens: Sequence[StackToken]) -> list[StackToken]:
    return [token for token in tokens if token.kind.name != "NONE"]


def held(area: SaveArea) -> WarpModel:
    """Runs the launch with the trap handler on a warp model until all warps are paused."""
    machine = WarpModel(area.launch, warps=2)
    machine.run(LIMIT)
    assert machine.traps.locked_down
    return machine


def released(machine: WarpModel) -> WarpModel:
    """Runs until the warps have left the handler."""
    ModelHost(machine).resume()
    while machine.traps.trapping:
        assert machine.step() is not None
    return machine


# Saved state


@pytest.mark.parametrize("registers", [8, 13, 16, 33, 100, 249, 255])
def test_all_that_a_warp_is_is_saved_and_comes_back(registers):
    expected = undisturbed(registers)
    assert (
        len(
            {
                mask
                for mask in (
                    expected.masks.active,
                    expected.masks.broken,
                    expected.masks.continued,
                    expected.masks.exited,
                )
                if mask
            }
        )
        == 4
    )
    area = install_trap_handler(diverged(registers))
    machine = held(area)
    warp = area.warps(machine.memory)[0]
    live = [thread for thread in range(WARP_THREADS) if warp.live >> thread & 1]
    assert warp.live == ~(expected.masks.exited | expected.masks.killed) & 0xFFFF_FFFF
    assert warp.position == ((0, 0, 0), 0)
    assert (warp.pc, warp.masks, without_holes(warp.stack)) == (
        expected.pc,
        expected.masks,
        expected.stack,
    )
    for thread in live:
        assert [warp.register(thread, number) for number in range(registers)] == [
            row[thread] for row in expected.registers
        ]
        assert warp.predicates(thread) == sum(
            (row >> thread & 1) << number for number, row in enumerate(expected.predicates)
        )
        assert warp.condition(thread) == expected.condition[thread]
        for number in range(registers):
            warp.set_register(thread, number, warp.register(thread, number) ^ 0x5A00_0000)
    changed = [
        [value ^ 0x5A00_0000 if thread in live else value for thread, value in enumerate(row)]
        for row in expected.registers
    ]
    assert snapshot(released(machine), registers) == replace(expected, registers=changed)


def test_registers_that_there_are_not_are_not_saved():
    area = install_trap_handler(diverged(9))
    warp = area.warps(held(area).memory)[0]
    assert area.launch.registers == 16
    assert warp.register(0, 15) == 0
    with pytest.raises(IndexError, match=r"^R16: threads have 16 registers$"):
        warp.register(0, 16)


def test_what_the_kernel_knows_of_local_memory_is_not_touched():
    """The stack pointer has the same initial value as without the area, which is above it."""
    plain = launch_of(
        "        MOV R1, c[0x0][0x20]\n        STL [R1-0x4], R1\n        BPT.TRAP 0x1\n        EXIT\n"
    )
    area = install_trap_handler(plain)
    warp = area.warps(held(area).memory)[0]
    assert warp.register(7, 1) == plain.local == area.threads.at
    assert area.launch.local == plain.local + area.threads.size


def test_each_warp_has_its_record():
    area = install_trap_handler(
        launch_of("        BAR.SYNC 0x0\n        BPT.TRAP 0x2\n        EXIT\n", threads=64)
    )
    machine = held(area)
    found = area.warps(machine.memory)
    assert {slot: warp.position[1] for slot, warp in found.items()} == {0: 0, 1: 1}
    assert sorted(warp.word("STATUS") for warp in found.values()) == [0, 1 << 2]
    released(machine)
    assert area.warps(machine.memory) == {}


# Changes by a host


def test_a_host_sends_a_warp_elsewhere():
    """The pc in the trap frame is used when the handler's command says that the stack has changed."""
    area = install_trap_handler(
        launch_of("""
        BPT.TRAP 0x1
        MOV32I R5, 0x1
        EXIT
        NOP
        MOV32I R5, 0x2
        BPT.TRAP 0x2
        EXIT
""")
    )
    machine = held(area)
    warp = area.warps(machine.memory)[0]
    assert warp.pc == 0x10
    warp.pc = 0x30
    warp.set_word("COMMAND", WakeCommand.RELOAD)
    released(machine)
    machine.run(LIMIT)
    assert area.warps(machine.memory)[0].register(0, 5) == 2


def test_by_default_the_stack_on_chip_counts():
    area = install_trap_handler(diverged(16))
    machine = held(area)
    warp = area.warps(machine.memory)[0]
    pc, warp.pc = warp.pc, 0x8
    assert snapshot(released(machine), 16).pc == pc


def test_a_host_ends_a_warp():
    area = install_trap_handler(
        launch_of("        BPT.TRAP 0x1\n.Lagain:\n        BRA .Lagain\n", threads=64)
    )
    machine = held(area)
    for warp in area.warps(machine.memory).values():
        warp.set_word("COMMAND", WakeCommand.TERMINATE)
    ModelHost(machine).resume()
    assert machine.run(LIMIT).status == "ok"


@pytest.mark.parametrize(
    "name,step",
    [
        ("k08_fib_recursion", 1500),
        ("k15_shared_reduce", 70),
        ("k44_bar_variants", 31),
        ("k53_divergent_ret_func", 23),
        ("k57_deep_nest", 61),
    ],
)
def test_kernels_that_are_stopped_repeatedly_have_the_same_results(name, step):
    area = install_trap_handler(build(RUNS[name], "O3"))
    machine, stops = WarpModel(area.launch, warps=8), 0
    host = ModelHost(machine)
    while machine.live:
        assert machine.run(step).status != "error"
        if machine.live:
            host.stop()
            machine.run(LIMIT)
            assert machine.traps.locked_down
            assert len(area.warps(machine.memory)) == len(machine.live)
            released(machine)
            stops += 1
    assert stops > 2
    assert complaints(RUNS[name], "O3", machine.launch) == []


# Context switches


class CountingMachine(WarpModel):
    """A warp model that counts the CTAs that have started, as the hardware does."""

    started = 0

    def start(self, cta: Cta, slots: Sequence[int]) -> None:
        """Starts the CTA and counts it."""
        super().start(cta, slots)
        self.started += 1

    def run_kernel(self, instructions: int) -> None:
        """Executes up to ``instructions`` instructions of the kernel; those of the handler are not
        counted.
        """
        while instructions and (record := self.step()) is not None:
            instructions -= record.pc < self.launch.program_size


def taken_off(machine: CountingMachine, image: ContextImage) -> ContextImage:
    """Stops a running machine and returns a launch that continues from its state."""
    image.set_command(machine.memory, ContextCommand.SAVE)
    ModelHost(machine).stop()
    machine.run(LIMIT)
    assert not machine.live
    image.note_started(machine.memory, machine.started)
    return resumed(image, machine.memory)


def switched(
    machine: CountingMachine, image: ContextImage, warps: int
) -> tuple[CountingMachine, ContextImage]:
    """Continues the launch of one machine on another one; returns the machine and its image."""
    image = taken_off(machine, image)
    return CountingMachine(image.launch, warps=warps), image


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(
    "name,step",
    [
        ("k08_fib_recursion", 1500),
        ("k14_transpose_shared", 61),
        ("k15_shared_reduce", 70),
        ("k44_bar_variants", 31),
        ("k19_atomics_shared_hist", 300),
        ("k31_scan_shared", 50),
        ("k53_divergent_ret_func", 50),
        ("k57_deep_nest", 100),
    ],
)
def test_kernels_that_are_taken_off_the_machine_continue(name, step, warps):
    image = install_context_switch(build(RUNS[name], "O3"))
    machine, switches = CountingMachine(image.launch, warps=warps), 0
    machine.run_kernel(step)
    while machine.live:
        machine, image = switched(machine, image, warps)
        if not switches:
            machine, image = switched(machine, image, warps)  # no warp has been restored yet
        machine.run_kernel(step)
        switches += 1
    assert switches > 2
    assert complaints(RUNS[name], "O3", machine.launch) == []


def test_registers_and_masks_are_those_of_the_other_machine():
    expected = undisturbed(24)
    image = install_context_switch(diverged(24))
    machine = CountingMachine(image.launch, warps=2)
    image.set_command(machine.memory, ContextCommand.SAVE)
    machine.run(LIMIT)
    image.note_started(machine.memory, machine.started)
    assert image.warp(machine.memory, 0, 0).word("STATE") == WarpContext.SAVED
    image = resumed(image, machine.memory)
    machine = CountingMachine(image.launch, warps=2)
    machine.step()
    assert machine.traps.trapping
    while machine.traps.trapping:
        machine.step()
    found = snapshot(machine, 24)
    live = [
        thread
        for thread in range(WARP_THREADS)
        if image.warp(machine.memory, 0, 0).live >> thread & 1
    ]
    assert (found.pc, found.masks, found.stack) == (expected.pc, expected.masks, expected.stack)
    for thread in live:
        assert [row[thread] for row in found.registers] == [
            row[thread] for row in expected.registers
        ]
        assert found.condition[thread] == expected.condition[thread]
        assert all(
            one >> thread & 1 == other >> thread & 1
            for one, other in zip(found.predicates, expected.predicates, strict=True)
        )


def test_the_result_of_a_barrier_and_arrivals_without_waiting_are_saved():
    """One warp has arrived at barrier 1 without waiting; the other one will wait there for it."""
    text = """
.barriers 3
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, 0x20, PT
        BAR.RED.POPC 0x2, P0
    @P0 BRA .Lother
        BAR.ARV 0x1, 0x40
.Lspin:
        LDS R3, [0x10]
        ISETP.EQ.AND P1, PT, R3, RZ, PT
    @P1 BRA .Lspin
        B2R.RESULT R4
        BPT.TRAP 0x1
        EXIT
.Lother:
        MOV32I R6, 0x40
.Lcount:
        IADD32I R6, R6, 0xffffffff
        ISETP.NE.AND P1, PT, R6, RZ, PT
    @P1 BRA .Lcount
        BAR.SYNC 0x1, 0x40
        MOV32I R5, 0x1
        STS [0x10], R5
        EXIT
.shared 48
"""
    image = install_context_switch(launch_of(text, threads=64))
    machine = CountingMachine(image.launch, warps=2)
    machine.run_kernel(60)
    machine, image = switched(machine, image, 2)
    assert [image.barrier(machine.memory, 0, number) for number in range(3)] == [
        0,
        _ARRIVED | _EXPECTED,
        0,
    ]
    assert image.warp(machine.memory, 0, 0).word("STATE") == WarpContext.SAVED
    while len(machine.live) == 2 or not machine.traps.trapping:
        assert machine.step() is not None
    warp = machine.warps[0]
    assert warp is not None
    assert warp.registers[4].tolist() == [32] * WARP_THREADS


def follower(image: ContextImage) -> tuple[WarpModel, Cta]:
    """Returns a warp model with the only CTA of an image's launch, whose warps enter and leave
    traps one by one.
    """
    machine, cta = WarpModel(image.launch, warps=2, follows=True), Cta((0, 0, 0), image.launch)
    machine.start(cta, [0, 1])
    return machine, cta


def run_inside(machine: WarpModel, slot: int) -> None:
    """Runs until a warp waits in the handler: for the CTA, or to leave."""
    warp = machine.warps[slot]
    assert warp is not None
    while warp.barrier is None and warp.trap.returning is None:
        machine.retire(slot)


def test_barriers_are_saved_when_all_warps_of_the_cta_have_left_them():
    """One warp is in the handler before the other one is withdrawn from the barrier at which it
    waits.
    """
    image = install_context_switch(
        launch_of(
            """
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, 0x20, PT
   @!P0 BRA .next
        BAR.SYNC 0x0
        EXIT
""",
            threads=64,
        )
    )
    machine, _ = follower(image)
    image.set_command(machine.memory, ContextCommand.SAVE)
    for _ in range(4):
        machine.retire(1)
    machine.enter(0)
    run_inside(machine, 0)
    first = machine.warps[0]
    assert first is not None
    assert first.barrier == SYNCALL_BARRIER
    machine.enter(1)
    for slot in (1, 0):
        run_inside(machine, slot)
        machine.leave(slot)
    assert not machine.live
    assert image.barrier(machine.memory, 0, 0) == 0


def test_shared_memory_is_restored_once():
    """A warp that is restored late reads what the other one has stored since."""
    image = install_context_switch(
        launch_of(
            """
.shared 16
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, 0x20, PT
        MOV32I R1, 0x7
.Lturn:
        NOP
        NOP
    @P0 BRA .Lturn
        STS [0x4], R1
        BRA .Lturn
""",
            threads=64,
        )
    )
    machine = CountingMachine(image.launch, warps=2)
    machine.run_kernel(8)
    image = taken_off(machine, image)
    other, cta = follower(image)
    for slot in (0, 1):
        other.enter(slot)
        run_inside(other, slot)
        other.leave(slot)
        for _ in range(8):
            other.retire(slot)
    assert cta.shared[4] == 7


def test_what_no_image_can_hold_is_refused():
    with pytest.raises(
        ProgramError, match=r"^kernel k: to save call/return stacks they must be in memory$"
    ):
        install_trap_handler(launch_of("        EXIT\n", crs=0))
    launch = launch_of("        EXIT\n")
    with pytest.raises(
        ProgramError,
        match=r"^kernel k: a context switch takes grids of up to 65536 CTAs, not 70000$",
    ):
        install_context_switch(replace(launch, grid=(70000, 1, 1)))


# On the hardware


@pytest.fixture(scope="module")
def hardware() -> Hardware:
    """The smallest machine, with every instruction compared with the warp model."""
    return Hardware(PRESETS["tiny"], ENGINES["compiled"], check=True)


def agreed(hardware: Hardware) -> None:
    """Checks that the warp model has found no difference."""
    assert hardware.lockstep is not None
    assert hardware.lockstep.difference is None, str(hardware.lockstep.difference)
    assert hardware.lockstep.compared > 50


@needs_compiled
def test_the_hardware_saves_a_warp_and_resumes_it(hardware):
    expected = undisturbed(33)
    area = install_trap_handler(diverged(33))
    seen: list[Memory] = []

    async def driver(host: HardwareHost) -> None:
        assert await host.until(lambda host: host.locked_down, LIMIT)
        seen.append(host.memory.copy())
        await host.modify("DBGR_CONTROL0", RUN_TRIGGER=1)
        assert await host.until(lambda host: host.ended, LIMIT)

    result = hardware.run(area.launch, LIMIT, driver=driver)
    assert result.status == "ok"
    agreed(hardware)
    warp = area.warps(seen[0])[0]
    assert (warp.pc, warp.masks, without_holes(warp.stack)) == (
        expected.pc,
        expected.masks,
        expected.stack,
    )
    for thread in (thread for thread in range(WARP_THREADS) if warp.live >> thread & 1):
        assert [warp.register(thread, number) for number in range(33)] == [
            row[thread] for row in expected.registers
        ]
        assert warp.condition(thread) == expected.condition[thread]


@needs_compiled
@pytest.mark.parametrize(
    "name,cycles",
    [
        ("k15_shared_reduce", 3000),
        ("k14_transpose_shared", 3000),
        ("k44_bar_variants", 900),
        ("k53_divergent_ret_func", 1500),
    ],
)
def test_the_hardware_continues_from_its_saved_state(hardware, name, cycles):
    image = install_context_switch(build(RUNS[name], "O3"))
    left = []

    async def driver(host: HardwareHost) -> None:
        await host.run(cycles)
        left.append(await save_grid(host, image, LIMIT))

    hardware.run(image.launch, LIMIT, driver=driver)
    agreed(hardware)
    assert left == [True]
    again = resumed(image, hardware.memory)
    result = hardware.run(again.launch, LIMIT)
    agreed(hardware)
    assert result.status == "ok"
    assert complaints(RUNS[name], "O3", replace(again.launch, memory=hardware.memory)) == []
