"""The documented cycles of the host's registers, the work distributor and a reset are those of the
hardware.
"""

import itertools
import random
import re
from typing import Any

import pytest

from rtl.fpga.machine import RESET_CYCLES
from rtl.host.counters import Counters
from rtl.isa.registers import (
    COUNTER_BLOCK,
    COUNTERS,
    SM_BLOCK,
    SM_REGISTERS,
    WORK_BLOCK,
    WORK_REGISTERS,
    counters_of,
)
from rtl.launch.references import ReferenceCounters
from rtl.params import PRESETS, WARP_THREADS
from rtl.serial.host import WordCounters
from rtl.sweep import LONGEST_SWEEP, Sweep
from sim.launch.memory import Memory
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from testbench.commands.test_unit_cycles import NUMERALS, cycles, text_of
from testbench.driver import offer, set_errors
from testbench.host.access import HostRegisters, read, write
from testbench.host.test_host_launch import Joined
from testbench.launch.driver import LaunchDriver
from testbench.launch.grid import Grid
from testbench.launch.tb_launch import RECORDED
from testbench.project.test_manual import DOCS, table
from testbench.simulation import simulate
from testbench.watch import Watch, watched

SM = {name: SM_BLOCK + register.offset for name, register in SM_REGISTERS.items()}
WORK = {name: WORK_BLOCK + register.offset for name, register in WORK_REGISTERS.items()}
PROBE = "HWW_WARP_ESR_REPORT_MASK"
"""A register that can be written and read."""
ROOM = 2
"""Number of warps of a CTA of the recorded grid."""


async def cycles_until(ctx: Any, signal: Any, value: int = 1, patience: int = 100) -> int:
    """Returns the cycles until a signal has a value; the test fails after ``patience`` cycles."""
    for cycle in range(patience):
        if ctx.get(signal) == value:
            return cycle
        await ctx.tick()
    raise AssertionError(f"not {value} after {patience} cycles")


# Host port and error status


def test_an_access_of_the_host_takes_the_cycles_of_the_manual():
    dut = HostRegisters(PRESETS["default"])
    bus, found = dut.bus, {}

    async def body(ctx):
        ctx.set(bus.address, SM[PROBE])
        ctx.set(bus.data, 0x15)
        ctx.set(bus.write, 1)
        assert ctx.get(dut.status.report_mask) != 0x15
        await ctx.tick()
        ctx.set(bus.write, 0)
        found["write"] = 1 + await cycles_until(ctx, dut.status.report_mask, 0x15)
        ctx.set(bus.read, 1)
        assert ctx.get(dut.status.access.value) == 0x15
        assert ctx.get(bus.value) != 0x15
        await ctx.tick()
        ctx.set(bus.read, 0)
        found["read"] = 1 + await cycles_until(ctx, bus.value, 0x15)
        # in consecutive cycles
        for value in (3, 4, 5):
            ctx.set(bus.data, value)
            ctx.set(bus.write, 1)
            await ctx.tick()
            ctx.set(bus.write, 0)
            assert await read(ctx, bus, SM[PROBE]) == value
            assert await read(ctx, bus, SM[PROBE]) == value

    simulate(dut, body)
    assert (
        cycles("host", "read", "value")
        == cycles("error_status", "a read at the host's bus")
        == str(found["read"])
    )
    assert cycles("host", "write", "the register has the new value") == str(found["write"])
    assert cycles("error_status", "a write of the host") == str(found["write"])
    assert cycles("error_status", "a read at access") == "0"
    assert cycles("host", "a read or write") == "1"


def test_events_are_in_the_hosts_registers_after_the_cycles_of_the_manual():
    dut, found = HostRegisters(PRESETS["default"]), {}
    status = dut.status
    counter = COUNTER_BLOCK + 8 * list(COUNTERS).index("idle")

    async def clear(ctx):
        for name in ("HWW_WARP_ESR", "HWW_GLOBAL_ESR"):
            await write(ctx, dut.bus, SM[name], 0xFFFF_FFFF)
        assert ctx.get(status.interrupt) == 0

    async def body(ctx):
        await ctx.tick().repeat(LONGEST_SWEEP)
        await write(ctx, dut.bus, SM["HWW_GLOBAL_ESR_REPORT_MASK"], 0xFFFF_FFFF)
        for name, happens in (
            (
                "error",
                lambda on: set_errors(ctx, status.errors, {"lanes": {"error": 1}} if on else {}),
            ),
            ("event", lambda on: ctx.set(status.events, {"interrupt": on})),
            ("report", lambda on: offer(ctx, status.report, {"reason": 1} if on else None)),
        ):
            await clear(ctx)
            happens(1)
            assert ctx.get(status.interrupt) == 0
            await ctx.tick()
            happens(0)
            found[name] = 1 + await cycles_until(ctx, status.interrupt)
        ctx.set(dut.host.events, {"idle": 1})
        ctx.set(dut.bus.address, counter)
        ctx.set(dut.bus.read, 1)
        await ctx.tick()
        ctx.set(dut.host.events, {"idle": 0})
        assert ctx.get(dut.bus.value) == 0
        await ctx.tick()
        assert ctx.get(dut.bus.value) == 1

    simulate(dut, body)
    assert set(found.values()) == {int(cycles("error_status", "an error, an event, a report"))}
    assert cycles("host", "an event", "a read of its counter includes it") == "1"


def test_a_launch_begins_after_the_cycles_of_the_manual():
    dut = Joined()
    distributor, memory = dut.distributor, Memory()
    memory.map("descriptors", 0x12_0000_0000, 256)
    memory.write(0x12_0000_0000, Grid().descriptor())
    server = MemoryServer(distributor.port, memory, MemoryBehaviour(), random.Random(0))
    found = []

    async def body(ctx):
        await ctx.tick().repeat(LONGEST_SWEEP)
        await write(ctx, dut.host.bus, WORK["QMD_ADDRESS_A"], 0x12)
        assert ctx.get(distributor.control.busy) == 0
        await write(ctx, dut.host.bus, WORK["LAUNCH"], 0)
        found.append(1 + await cycles_until(ctx, distributor.port.request.valid))
        assert ctx.get(distributor.control.busy) == 1

    simulate(dut, body, background=[server.serve])
    assert cycles("host", "LAUNCH is written") == str(found[0])


# Work distributor


def launch(grid: Grid, **how: Any) -> Watch:
    """Returns the events of a grid on the machine of the recorded waveform."""
    _, watch = watched(
        "launch",
        lambda bench: LaunchDriver(bench, PRESETS["small"], [grid], **how),
        lambda dut: {
            "request": dut.port.request.valid,
            "answer": dut.port.response.valid,
            "launch": dut.launch.valid,
            "thread": dut.thread.valid,
            "row": dut.clear_rows.valid & dut.clear_rows.ready,
            "flow": dut.flow.valid,
            "handed": dut.flow.valid & dut.flow.ready,
            "occupied": dut.occupied,
            "drained": dut.drained,
            "running": dut.running,
        },
    )
    return watch


@pytest.fixture(scope="module")
def waves():
    """The run whose waveform the page shows."""
    return launch(RECORDED, life=60)


def figures(row: str) -> list[int]:
    """Returns the numbers in the cell of a row of the work distributor's page."""
    return [
        int(word)
        for word in cycles("launch", row).replace(",", "").replace(":", "").split()
        if word.isdecimal()
    ]


def cycles_to_free_slots(watch: Watch) -> list[int]:
    """Returns for each CTA the cycles from the first one in which its warps have ended and drained
    to the first one in which their slots are free.
    """
    found = []
    for cycle, (before, row) in enumerate(itertools.pairwise(watch.rows), 1):
        if freed := before["occupied"] & ~row["occupied"]:
            busy = (
                earlier
                for earlier in range(cycle, 0, -1)
                if freed
                & (watch.rows[earlier - 1]["running"] | ~watch.rows[earlier - 1]["drained"])
            )
            found.append(cycle - next(busy))
    return found


def test_the_work_distributor_takes_the_cycles_of_the_manual(waves):
    reads = waves.cycles("request")[1:]
    answers = waves.cycles("answer")[: len(reads)]
    assert {request - answer for request, answer in zip(reads, answers, strict=True)} == {1}
    assert cycles("launch", "reading the descriptor's lines").endswith("plus 1")
    last = waves.cycles("answer")[len(reads)]
    assert figures("from the last line to the start of the first warp") == [
        waves.first("launch") - last
    ]
    assert cycles("launch", "event launch at a warp's start") == "1"
    starts, runs = (
        waves.cycles("launch"),
        [waves.first("flow", start) for start in waves.cycles("launch")],
    )
    assert max(later - start for start, later in itertools.pairwise(starts)) > 1
    shared = launch(Grid((1, 1, 1), (64, 1, 1), registers=60), slow=0.0)
    first = shared.first("launch")
    (indices, *_) = figures("sending the indices of 32 threads")
    assert indices == WARP_THREADS
    assert shared.cycles("thread")[:indices] == [*range(first + 1, first + 1 + indices)]
    assert shared.cycles("row")[:60] == [*range(first + 1, first + 61)]
    shortest, of_the_first = figures("from a warp's start to the launch of the flow unit")
    assert min(run - start for run, start in zip(runs, starts, strict=True)) == shortest
    assert runs[0] - starts[0] == of_the_first
    handed = [waves.first("handed", start) for start in starts]
    gaps = [
        start - before
        for before, start in zip(handed, starts[1:], strict=False)
        if waves.rows[before]["occupied"].bit_count() + ROOM <= PRESETS["small"].warps
    ]
    assert figures("from then to the next warp's start, if there is room") == [min(gaps), max(gaps)]
    freed = cycles_to_free_slots(waves)
    assert figures("from the end of a CTA's last instruction in flight")[-2:] == [
        min(freed),
        max(freed),
    ]


# Reset


def test_a_reset_takes_the_cycles_of_the_manual():
    rows = dict(table(DOCS / "reset.md", "## How long a reset takes"))
    found = {}

    def sweep(name, dut, signal, value=0):
        async def body(ctx):
            found[name] = await cycles_until(ctx, signal, value)

        simulate(dut, body)

    for warps in (1, LONGEST_SWEEP):
        dut = Sweep(warps)
        sweep(f"{warps} warps", dut, dut.active)
    for name, everything in (("all", True), ("some", False)):
        counters = Counters(len(counters_of(everything)))
        sweep(name, counters, counters._is_first_round)
    references = ReferenceCounters()
    sweep("references", references, references.allows, 1)
    assert rows["sweeps of memories with a word for each warp: one cycle a warp"] == (
        f"{found['1 warps']} to {found[f'{LONGEST_SWEEP} warps']}"
    )
    words = WordCounters(len(counters_of(False)))
    sweep("words", words, words._is_cleared)
    counts = rows["sweep of the counters: one cycle each"]
    assert [int(figure) for figure in re.findall(r"\d+", re.sub(r"\(.*?\)", "", counts))] == [
        found["all"],
        found["some"],
        found["words"],
    ]
    assert rows["sweep of the reference counters"] == f"{found['references']}"
    assert (
        rows["all sweeps, in parallel, from the end of the reset"].split()[0]
        == f"{max(found.values())}"
    )
    assert max(found.values()) == LONGEST_SWEEP
    text = text_of("docs/board.md")
    assert f"and holds the SM in reset for {NUMERALS[RESET_CYCLES]} cycles;" in text
    assert f"In the following {LONGEST_SWEEP} cycles the SM writes" in text
    assert f"until memory's last response, plus {RESET_CYCLES + LONGEST_SWEEP} cycles." in text
