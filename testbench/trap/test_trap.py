"""The trap unit, one instruction at a time, against the warp model."""

import random
from dataclasses import replace

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.layouts import InstructionKind
from rtl.machines import units_of
from rtl.params import PRESETS
from rtl.sweep import LONGEST_SWEEP
from rtl.trap.machine import SmTrap
from testbench.driver import as_struct, offer, set_errors
from testbench.handmade import encode, machine, warp_of
from testbench.simulation import ENGINE, simulate
from testbench.trap.unit_driver import TrapUnitDriver

ALL_REPORTED = 0x00FF_FFFF
MACHINES = {name: PRESETS[name] for name in ("default", "least")}
PARAMS = MACHINES["default"]
REASONS = (0, 1, 3, 7, 8, 9, 16, (1 << 20) - 1)
WORDS = (
    *(
        encode("BPT", mode=mode.value, reason=reason)
        for mode in BreakpointMode
        for reason in REASONS
        if mode not in (BreakpointMode.DRAIN_ILLEGAL, BreakpointMode.CAL)
    ),
    *(encode("IDE", disable=disable) for disable in (0, 1)),
    *(
        encode("RTT", mode=mode.value)
        for mode in ReturnFromTrapMode
        if mode is not ReturnFromTrapMode.PREEMPTED
    ),
)


def outcome(word, report_mask):
    """The model's result of an instruction: error, reasons of traps, whether BPT.INT interrupts,
    whether traps are masked.
    """
    made = machine([word], report_mask=report_mask)
    warp = warp_of(made)
    record = made.retire(0)
    return record.error, tuple(made.trap_reasons), "BPT_INT" in made.raised, warp.traps_masked


@pytest.mark.parametrize("params", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("report_mask", [ALL_REPORTED, 0], ids=["reported", "unreported"])
def test_agrees_with_the_model(report_mask, params):
    source, dut = random.Random(0), units_of(params).trap(params)

    async def body(ctx):
        ctx.set(dut.report_mask, report_mask)
        assert ctx.get(dut.room) == 1
        for word in source.sample(WORDS * 2, 2 * len(WORDS)):
            error, reasons, interrupt, masked = outcome(word, report_mask)
            warp, pc, sequence = (
                source.randrange(8),
                source.getrandbits(29) << 3,
                source.getrandbits(16),
            )
            ctx.set(dut.status.warp, warp)
            offer(ctx, dut.launch, {"warp": warp})
            await ctx.tick()
            assert not ctx.get(dut.warps.view.state.masked) >> warp & 1
            offer(ctx, dut.launch, None)
            offer(
                ctx,
                dut.dispatch,
                {
                    "kind": InstructionKind.TRAP,
                    "warp": warp,
                    "pc": pc,
                    "sequence": sequence,
                    "word": word,
                    "write_barrier": 7,
                    "read_barrier": 3,
                },
            )
            await ctx.tick()
            ctx.set(dut.dispatch.valid, 0)
            result, failed, report = (
                ctx.get(as_struct(event)) for event in (dut.completion, dut.error, dut.report)
            )
            assert (result.valid, result.warp, result.sequence) == (1, warp, sequence)
            assert (result.write_barrier, result.read_barrier) == (7, 3)
            assert (WarpError(failed.error) if failed.valid else WarpError.NONE) == error
            if failed.valid:
                assert (failed.warp, failed.pc) == (warp, pc)
            assert report.valid == bool(reasons)
            if reasons:
                assert (report.warp, report.pc, report.reason) == (
                    warp,
                    (pc + 8) % (1 << 32),
                    *reasons,
                )
                assert ctx.get(dut.status.status.reasons) == 1 << reasons[0] - 1
            assert ctx.get(dut.events.interrupt) == interrupt
            goes_on = error is WarpError.NONE and not reasons
            assert ctx.get(dut.resume) == (1 << warp if goes_on else 0)
            assert ctx.get(dut.warps.view.state.masked) >> warp & 1 == masked
            await ctx.tick()
            assert not ctx.get(
                dut.completion.valid | dut.error.valid | dut.report.valid | dut.resume.any()
            )

    simulate(dut, body)


@pytest.mark.parametrize("params", MACHINES.values(), ids=MACHINES)
def test_a_trap_that_is_masked_is_entered_when_it_is_unmasked(params):
    """BPT.TRAP is masked by IDE before it, and entered after the IDE that unmasks; checked on two
    warps.
    """
    dut = units_of(params).trap(params)

    async def executed(ctx, warp, word):
        """Executes an instruction; returns whether the unit requests the warp's entry soon after
        it.
        """
        offer(ctx, dut.dispatch, {"kind": InstructionKind.TRAP, "warp": warp, "word": word})
        await ctx.tick()
        ctx.set(dut.dispatch.valid, 0)
        await ctx.tick().repeat(6)
        return ctx.get(dut.control.enter) >> warp & 1

    async def body(ctx):
        ctx.set(dut.report_mask, ALL_REPORTED)
        for warp in (5, 2):
            offer(ctx, dut.launch, {"warp": warp})
            await ctx.tick()
            ctx.set(dut.launch.valid, 0)
            ctx.set(dut.control.live, 1 << warp)
            words = (
                encode("IDE", disable=1),
                encode("BPT", mode=BreakpointMode.TRAP.value, reason=1),
                encode("IDE", disable=0),
            )
            assert [await executed(ctx, warp, word) for word in words] == [0, 0, 1]
            ctx.set(dut.control.live, 0)
            await ctx.tick().repeat(4)

    simulate(dut, body)


BEFORE, ENTERED = 0x1A8, 0x1B0
"""Addresses of the last issued instruction, and of the one that ENTER replaces."""
FAILURES = (
    ((), ENTERED),
    ((("stack", 0),), ENTERED),
    ((("lanes", BEFORE),), BEFORE),
    ((("trap", BEFORE),), BEFORE),
    ((("flow", 0x108),), 0x108),
    ((("memory", 0x128),), 0x128),
    ((("flow", 0x108), ("flow", 0x110)), 0x108),
    ((("memory", 0x128), ("memory", 0x130)), 0x128),
    ((("flow", 0x108), ("memory", 0x128)), 0x128),
    ((("memory", 0x128), ("flow", 0x108)), 0x128),
    ((("lanes", BEFORE), ("memory", 0x128)), 0x128),
    ((("memory", 0x128), ("lanes", BEFORE)), 0x128),
    ((("flow", 0x108), ("memory", 0x128), ("flow", 0x110), ("memory", 0x130)), 0x128),
)
"""Errors of a warp (source and address) in the order of their reports, and the expected return
point.
"""


@pytest.mark.parametrize("params", MACHINES.values(), ids=MACHINES)
def test_a_warp_comes_back_to_its_first_instruction_that_failed(params):
    """Errors of memory belong to older instructions than other errors, in whatever order they are
    reported, also in one cycle.

    With one instruction in flight the return point is the instruction issued last.
    """
    dut = units_of(params).trap(params)

    async def issued(ctx, warp, kind, pc):
        if params.serial:
            offer(ctx, dut.issued, {"warp": warp, "kind": kind, "pc": pc})
            await ctx.tick()
            ctx.set(dut.issued.valid, 0)

    async def entered(ctx, groups):
        """The return points of a new warp with these errors, and of one without errors."""
        for warp in (2, 5):
            offer(ctx, dut.launch, {"warp": warp})
            await ctx.tick()
        ctx.set(dut.launch.valid, 0)
        for events in groups:
            for source, pc in events:
                if source != "stack":
                    await issued(ctx, 5, InstructionKind.TRAP, pc)
            set_errors(
                ctx,
                dut.errors,
                {
                    source: {"warp": 5, "pc": pc, "error": WarpError.MMU_FAULT}
                    for source, pc in events
                },
            )
            await ctx.tick()
            set_errors(ctx, dut.errors, {})
        found = []
        for warp in (5, 2):
            ctx.set(dut.dispatch.valid, 0)
            await issued(ctx, warp, InstructionKind.ENTER, ENTERED)
            offer(ctx, dut.dispatch, {"kind": InstructionKind.ENTER, "warp": warp, "pc": ENTERED})
            found.append(ctx.get(dut.flow.pc))
            await ctx.tick()
        ctx.set(dut.dispatch.valid, 0)
        return found

    async def body(ctx):
        await ctx.tick().repeat(LONGEST_SWEEP)
        ctx.set(dut.control.live, 0b100100)
        for events, back in FAILURES:
            if params.serial and len(events) > 1:
                continue
            assert await entered(ctx, [[event] for event in events]) == [back, ENTERED], events
            if len({source for source, _ in events}) == len(events):
                assert await entered(ctx, [events]) == [back, ENTERED], f"at once: {events}"

    simulate(dut, body)


@pytest.mark.parametrize("params", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize(
    "groups", [["lanes", "stack"], ["stack", "lanes"], ["lanes stack"]], ids=str
)
def test_what_a_program_reads_is_the_error_of_an_instruction_before_that_of_a_stack(groups, params):
    dut, warp = units_of(params).trap(params), 3
    codes = {"lanes": WarpError.OOR_ADDR, "stack": WarpError.MMU_FAULT}

    async def body(ctx):
        await ctx.tick().repeat(LONGEST_SWEEP)
        ctx.set(dut.status.warp, warp)
        offer(ctx, dut.launch, {"warp": warp})
        await ctx.tick()
        ctx.set(dut.launch.valid, 0)
        ctx.set(dut.control.live, 1 << warp)
        for group in groups:
            set_errors(
                ctx,
                dut.errors,
                {name: {"warp": warp, "error": codes[name]} for name in group.split()},
            )
            await ctx.tick()
            set_errors(ctx, dut.errors, {})
            await ctx.tick().repeat(2)
        offer(ctx, dut.dispatch, {"kind": InstructionKind.ENTER, "warp": warp})
        await ctx.tick()
        ctx.set(dut.dispatch.valid, 0)
        await ctx.tick().repeat(2)
        status = ctx.get(dut.status.status)
        assert (status.failed, WarpError(status.error)) == (1, codes["lanes"])

    simulate(dut, body)


@pytest.mark.parametrize("timeout", [1, 2, 5, 6, 7, 9])
def test_the_watchdog_waits_for_so_many_cycles_and_then_as_many_again(timeout):
    dut, reports, period = units_of(PRESETS["tiny"]).trap(PRESETS["tiny"]), [], (1 << timeout) + 1

    async def body(ctx):
        ctx.set(dut.command.timeout, timeout)
        ctx.set(dut.control.live, 1)
        for cycle in range(3 * period + 1):
            if ctx.get(dut.events.timeout):
                reports.append(cycle)
            await ctx.tick()

    simulate(dut, body)
    assert reports == [period, 2 * period, 3 * period]


@pytest.mark.parametrize(
    ("live", "quiet"), [(0, 0), (0b11, 0b11)], ids=["nobody lives", "all are paused quietly"]
)
def test_a_trap_that_is_over_locks_nothing_down(live, quiet):
    dut = SmTrap(PARAMS)

    async def body(ctx):
        ctx.set(dut.live, 0b11)
        ctx.set(dut.link.cause, 1)
        await ctx.tick()
        ctx.set(dut.link.cause, 0)
        ctx.set(dut.warps.state.paused, 0b11)
        assert (ctx.get(dut.link.trapping), ctx.get(dut.locked_down)) == (1, 1)
        ctx.set(dut.live, live)
        ctx.set(dut.warps.state.paused, live)
        ctx.set(dut.warps.state.quiet, quiet)
        assert (ctx.get(dut.link.trapping), ctx.get(dut.locked_down)) == (1, 0)
        await ctx.tick()
        assert (ctx.get(dut.link.trapping), ctx.get(dut.locked_down)) == (0, 0)

    simulate(dut, body)


HAPPENS = {
    "trap",
    "fails outside",
    "comes back",
    "comes back elsewhere",
    "withdrawn",
    "timeout",
    "resume",
}
HAPPENS_INSIDE = {"fail", "fails inside", "ends", "leaves", "refused to leave", "no frame"}


@pytest.mark.parametrize(
    "params", [PRESETS["small"], replace(PRESETS["least"], warps=4)], ids=["small", "least"]
)
@pytest.mark.parametrize(
    ("installed", "report_mask", "cycles", "happens"),
    [
        (True, ALL_REPORTED, 2500, HAPPENS | HAPPENS_INSIDE | {"refused", "urgent trap"}),
        (False, ALL_REPORTED, 1500, HAPPENS | {"no frame", "refused"}),
        (True, 0, 1500, HAPPENS | HAPPENS_INSIDE),
    ],
    ids=["handler", "no handler", "unreported"],
)
def test_random_warps_trap_as_a_plain_account_says(installed, report_mask, cycles, happens, params):
    """Warps trap, fail, are stopped, stepped, paused, woken and withdrawn from barriers; all
    outputs equal those of the reference model.
    """
    driver = TrapUnitDriver(
        params, 3, cycles, installed=installed, report_mask=report_mask, timeout=3
    )
    simulate(driver.dut, driver.run, engine=ENGINE)
    assert happens <= driver.events.keys()
