"""The host's registers: error status and counters."""

import random
from itertools import product

import pytest

from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import (
    CONTROL_RESET,
    COUNTER_BLOCK,
    COUNTERS,
    GLOBAL_ERROR_MASK_RESET,
    SM_BLOCK,
    SM_REGISTERS,
    WORK_BLOCK,
    WORK_REGISTERS,
    counters_of,
)
from rtl.layouts import ERROR_SOURCES
from rtl.params import PRESETS
from rtl.sweep import LONGEST_SWEEP
from testbench.driver import offer, set_errors
from testbench.host.access import HostRegisters, read, write
from testbench.host.esr_formula import EVENTS, Status
from testbench.simulation import simulate

MACHINES = {name: PRESETS[name] for name in ("default", "least")}
PARAMS = MACHINES["default"]
SM = {name: SM_BLOCK + register.offset for name, register in SM_REGISTERS.items()}


def test_registers_do_not_overlap():
    for registers in (SM_REGISTERS, WORK_REGISTERS):
        places = [
            register.offset + 4 * index
            for register in registers.values()
            for index in range(register.count)
        ]
        assert len(places) == len(set(places))


def test_registers_as_they_are_after_reset():
    dut = HostRegisters(PARAMS)

    async def body(ctx):
        ctx.set(dut.host.valid, 0b101)
        assert await read(ctx, dut.bus, SM["WARP_VALID_MASK"]) == 0b101
        assert await read(ctx, dut.bus, SM["HWW_WARP_ESR_REPORT_MASK"]) == REPORT_MASK_RESET
        assert ctx.get(dut.status.report_mask) == REPORT_MASK_RESET
        assert await read(ctx, dut.bus, SM["HWW_GLOBAL_ESR_REPORT_MASK"]) == GLOBAL_ERROR_MASK_RESET
        assert await read(ctx, dut.bus, SM["DBGR_CONTROL0"]) == CONTROL_RESET
        for name in (
            "WARP_VALID_MASK_1",
            "HWW_WARP_ESR",
            "HWW_GLOBAL_ESR",
            "HWW_WARP_ESR_PC",
            "DBGR_STATUS0",
            "BPT_PAUSE_MASK",
            "BPT_PAUSE_MASK_1",
            "BPT_TRAP_MASK",
            "BPT_TRAP_MASK_1",
        ):
            assert await read(ctx, dut.bus, SM[name]) == 0
        trap = [
            WORK_BLOCK + WORK_REGISTERS[name].offset
            for name in ("TRAP_HANDLER", "TRAP_CONTROL", "SM_TIMEOUT_INTERVAL")
        ]
        for address in (SM_BLOCK, SM_BLOCK + 0x1FC, *trap, COUNTER_BLOCK + 0x1FC, 0, 0xFFFFFC):
            assert await read(ctx, dut.bus, address) == 0

    simulate(dut, body)


def test_wide_machines_have_two_words_of_warps():
    dut = HostRegisters(PRESETS["full"])

    async def body(ctx):
        ctx.set(dut.host.valid, 0x8000_0001_4000_0002)
        ctx.set(dut.host.state, {"paused": 0x1_0000_0002, "trapped": 0x2_0000_0001})
        for name, words in (
            ("WARP_VALID_MASK", (0x4000_0002, 0x8000_0001)),
            ("BPT_PAUSE_MASK", (2, 1)),
            ("BPT_TRAP_MASK", (1, 2)),
        ):
            assert (
                await read(ctx, dut.bus, SM[name]),
                await read(ctx, dut.bus, SM[f"{name}_1"]),
            ) == words

    simulate(dut, body)


def test_the_status_and_control_of_a_debugger():
    dut = HostRegisters(PARAMS)

    async def body(ctx):
        for trapping, locked_down in ((0, 0), (1, 0), (1, 1)):
            ctx.set(dut.host.state, {"trapping": trapping, "locked_down": locked_down})
            assert await read(ctx, dut.bus, SM["DBGR_STATUS0"]) == trapping | locked_down << 4
        for value in (0, 1 << 31, 1 << 3, 0xFFFF_FFFF, CONTROL_RESET):
            await write(ctx, dut.bus, SM["DBGR_CONTROL0"], value)
            assert await read(ctx, dut.bus, SM["DBGR_CONTROL0"]) == value & ~(1 << 30)
            assert (ctx.get(dut.host.command.stop), ctx.get(dut.host.command.step)) == (
                value >> 31,
                value >> 3 & 1,
            )

    simulate(dut, body)


def test_the_host_wakes_warps():
    dut = HostRegisters(PRESETS["full"])

    async def body(ctx):
        for name, value, woken in (
            ("DBGR_CONTROL0", 1 << 30, (1 << 64) - 1),
            ("DBGR_CONTROL0", 1 << 31, 0),
            ("BPT_PAUSE_MASK", 0, (1 << 32) - 1),
            ("BPT_PAUSE_MASK", 0xFFFF_FFFE, 1),
            ("BPT_PAUSE_MASK_1", 0x7FFF_FFFF, 1 << 63),
            ("BPT_TRAP_MASK", 0, 0),
        ):
            await write(ctx, dut.bus, SM[name], value)
            assert ctx.get(dut.host.command.wake) == woken
            await ctx.tick()
            assert ctx.get(dut.host.command.wake) == 0

    simulate(dut, body)


def test_one_write_can_stop_step_and_wake():
    dut = HostRegisters(PARAMS)
    stop, run, step = (
        SM_REGISTERS["DBGR_CONTROL0"].put(**{name: 1})
        for name in ("STOP_TRIGGER", "RUN_TRIGGER", "SINGLE_STEP_MODE")
    )

    async def body(ctx):
        ctx.set(dut.host.state, {"paused": 0b1010})
        for stops, runs, steps in product((0, 1), repeat=3):
            await write(ctx, dut.bus, SM["DBGR_CONTROL0"], stops * stop | runs * run | steps * step)
            command = dut.host.command
            assert (ctx.get(command.stop), ctx.get(command.step)) == (stops, steps)
            assert ctx.get(command.wake) == runs * ((1 << PARAMS.warps) - 1)
            assert (
                await read(ctx, dut.bus, SM["BPT_PAUSE_MASK"]) == 0b1010
            )  # events of warps, independent of the requests
            assert await read(ctx, dut.bus, SM["DBGR_CONTROL0"]) == stops * stop | steps * step

    simulate(dut, body)


def test_the_host_empties_the_caches():
    dut = HostRegisters(PARAMS)

    async def body(ctx):
        for name, value, empties in (
            ("CACHE_CONTROL", 1, 1),
            ("CACHE_CONTROL", 0xFFFF_FFFE, 0),
            ("DBGR_CONTROL0", 1, 0),
        ):
            await write(ctx, dut.bus, SM[name], value)
            assert ctx.get(dut.host.invalidate) == empties
            await ctx.tick()
            assert ctx.get(dut.host.invalidate) == 0
        assert await read(ctx, dut.bus, SM["CACHE_CONTROL"]) == 0

    simulate(dut, body)


def test_the_trap_handler_and_the_watchdog_are_set():
    dut = HostRegisters(PARAMS)

    async def body(ctx):
        for name, value, content, is_what in (
            ("TRAP_HANDLER", 0xFFFF_FFEF, dut.host.command.handler, 0xFFFF_FFE8),
            ("TRAP_CONTROL", 3, dut.host.command.installed, 1),
            ("SM_TIMEOUT_INTERVAL", 0x8F, dut.host.command.timeout, 0xF),
        ):
            await write(ctx, dut.bus, WORK_BLOCK + WORK_REGISTERS[name].offset, value)
            assert ctx.get(content) == is_what
            assert await read(ctx, dut.bus, WORK_BLOCK + WORK_REGISTERS[name].offset) == is_what

    simulate(dut, body)


@pytest.mark.parametrize(
    ("seed", "params"),
    [*((seed, PARAMS) for seed in range(4)), (4, MACHINES["least"])],
    ids=["0", "1", "2", "3", "least"],
)
def test_the_error_status(seed, params):
    names = list(ERROR_SOURCES)
    source, dut, expected = random.Random(seed), HostRegisters(params), Status()

    async def body(ctx):
        for _ in range(1500):
            reported, errors, trap = {}, [], ("", 0, 0, 0)
            fails = source.choice(names[:-1])  # the one instruction, where there is one
            for name in names:
                may = not params.serial or name in (fails, names[-1])
                if may and source.random() < 0.05:
                    code = source.choice(
                        [WarpError.STACK_OVERFLOW, WarpError.DIVERGENT, WarpError.OOR_ADDR]
                    )
                    reported[name] = {
                        "warp": source.randrange(8),
                        "pc": source.getrandbits(29) << 3,
                        "error": code,
                    }
                    errors.append(
                        (reported[name]["warp"], reported[name]["pc"], reported[name]["error"])
                    )
            set_errors(ctx, dut.status.errors, reported)
            if source.random() < 0.1:
                trap = (
                    source.choice(["trap", *EVENTS]),
                    source.randrange(8),
                    source.getrandbits(32),
                    source.randint(1, 7),
                )
            offer(
                ctx,
                dut.status.report,
                {"warp": trap[1], "pc": trap[2], "reason": trap[3]} if trap[0] == "trap" else None,
            )
            ctx.set(dut.status.events, {name: name == trap[0] for name in EVENTS})
            name, value = "", 0
            if source.random() < 0.3:
                name = source.choice([*expected.registers, "HWW_WARP_ESR", "HWW_GLOBAL_ESR"])
                value = source.choice([0, 0xFFFF_FFFF, source.getrandbits(32)])
            ctx.set(dut.bus.address, SM[name or "HWW_WARP_ESR"])
            ctx.set(dut.bus.data, value)
            ctx.set(dut.bus.write, bool(name))
            await ctx.tick()
            ctx.set(dut.bus.write, 0)
            expected.cycle(errors, trap, (name, value))
            set_errors(ctx, dut.status.errors, {})
            offer(ctx, dut.status.report, None)
            ctx.set(dut.status.events, dict.fromkeys(EVENTS, 0))
            assert ctx.get(dut.status.interrupt) == expected.interrupt
            assert ctx.get(dut.status.report_mask) == expected.mask
            if source.random() < 0.5:
                which = source.choice(list(expected.registers))
                assert await read(ctx, dut.bus, SM[which]) == expected.registers[which], which

    simulate(dut, body)


@pytest.mark.parametrize("params", MACHINES.values(), ids=MACHINES)
def test_counters_count_what_happens(params):
    source, dut, there = random.Random(0), HostRegisters(params), counters_of(params.counters)
    counts = dict.fromkeys(COUNTERS, 0)

    async def body(ctx):
        await ctx.tick().repeat(LONGEST_SWEEP)
        busy = {name: source.choice([0.01, 0.5, 1.0]) if name in there else 0 for name in COUNTERS}
        for cycle in range(3000):
            events = {name: int(source.random() < busy[name]) for name in COUNTERS}
            ctx.set(dut.host.events, events)
            name = source.choice(list(COUNTERS))
            address = COUNTER_BLOCK + 8 * list(COUNTERS).index(name)
            before = counts[name]
            cleared = source.random() < 0.1 and cycle < 2000
            if cleared:
                await write(ctx, dut.bus, address + 4 * source.randrange(2), source.getrandbits(32))
                counts[name] = 0
            elif source.random() < 0.3:
                await ctx.tick()
            else:
                low = await read(ctx, dut.bus, address)
                assert low == before, name
            for other, happens in events.items():
                counts[other] += happens
        ctx.set(dut.host.events, dict.fromkeys(COUNTERS, 0))
        for index, name in enumerate(COUNTERS):
            low, high = [
                await read(ctx, dut.bus, COUNTER_BLOCK + 8 * index + part) for part in (0, 4)
            ]
            assert low | high << 32 == counts[name], name

    simulate(dut, body)


def test_counters_that_are_not_there_read_as_zeros():
    dut = HostRegisters(PRESETS["least"])

    async def body(ctx):
        ctx.set(dut.host.events, dict.fromkeys(COUNTERS, 1))
        await ctx.tick().repeat(20)
        for index, name in enumerate(COUNTERS):
            low = await read(ctx, dut.bus, COUNTER_BLOCK + 8 * index)
            assert (low > 0) == (name in counters_of(everything=False)), name

    simulate(dut, body)


@pytest.mark.parametrize("params", MACHINES.values(), ids=MACHINES)
def test_the_high_word_of_a_counter_belongs_to_the_low_word_that_was_read(params):
    dut = HostRegisters(params)
    number = list(COUNTERS).index("cycles")

    async def body(ctx):
        memory, place = (
            (dut.host.counters.words, 2 * number)
            if params.serial
            else (dut.host.counters.totals, number)
        )
        await ctx.tick().repeat(LONGEST_SWEEP)
        ctx.set(memory.data[place], (1 << 32) - 100)
        ctx.set(dut.host.events, {"cycles": 1})
        low = await read(ctx, dut.bus, COUNTER_BLOCK + 8 * number)
        assert low >= (1 << 32) - 100
        await ctx.tick().repeat(200)
        assert await read(ctx, dut.bus, COUNTER_BLOCK + 8 * number + 4) == 0
        assert await read(ctx, dut.bus, COUNTER_BLOCK + 8 * number) < 200
        assert await read(ctx, dut.bus, COUNTER_BLOCK + 8 * number + 4) == 1

    simulate(dut, body)
