"""The documented cycles of barriers and traps are those of the hardware."""

from collections.abc import Callable
from typing import Any

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierReduction, BreakpointMode, ReturnFromTrapMode
from rtl.layouts import InstructionKind
from rtl.machines import units_of
from rtl.params import PRESETS
from rtl.sweep import LONGEST_SWEEP
from testbench.barrier import tb_barrier
from testbench.barrier.driver import BarrierDriver
from testbench.barrier.warps import Use
from testbench.commands.test_host_cycles import cycles_until
from testbench.commands.test_unit_cycles import NUMERALS, cycles, text_of
from testbench.driver import offer, set_errors
from testbench.simulation import simulate
from testbench.watch import Watch, watched
from testbench.words import encode

PARAMS = PRESETS["default"]

# Barriers. A plan has the actions of each cycle; warps and CTAs begin before.

BEGIN = 20
"""First cycle in which all warps of a plan have begun."""
DISPATCH_CYCLES = 1
"""Cycles from the driver's decision until the unit's input is valid."""


def arrive(barrier: int = 0, mode: BarrierMode = BarrierMode.SYNC, **fields: int) -> Use:
    return Use(encode("BAR", "ii", mode=mode.value, barrier=barrier, **fields))


def play(ctas: dict[int, int], plan: dict[int, Callable[[Any, Any], None]]) -> Watch:
    """Runs CTAs with these numbers of warps, and the actions of each cycle."""
    starts = [(cta, number, count) for cta, count in ctas.items() for number in range(count)]

    def source(driver: Any, ctx: Any, room: bool, more: bool) -> None:
        if driver.cycle <= len(starts):
            cta, number, count = starts[driver.cycle - 1]
            driver.begin(ctx, driver.cycle - 1, cta, count, number)
        elif action := plan.get(driver.cycle):
            action(driver, ctx)
        elif driver.cycle > max(plan) + 60 and driver.ctas:
            free = [warp for warp in driver.warps if warp and not driver.ending(warp.cta)]
            if free:
                driver.end(ctx, free[0])

    _, watch = watched(
        "barrier",
        lambda bench: BarrierDriver(
            bench, source, PARAMS, report_mask=tb_barrier.ALL_REPORTED, idle=0.0
        ),
        lambda dut: {
            "completion": dut.completion.valid,
            "resume": dut.resume,
            "withdraw": dut.withdraw.valid,
            "withdrawn": dut.withdrawn.valid,
            "terminated": dut.terminated.valid,
        },
        max(plan) + 60,
    )
    return watch


def does(warp: int, use: Use) -> Callable[[Any, Any], None]:
    return lambda driver, ctx: driver.dispatch(ctx, driver.warps[warp], use)


def test_barriers_follow_each_other_after_the_cycles_of_the_manual():
    watch = play({0: 2, 1: 2}, {BEGIN: does(0, arrive()), BEGIN + 1: does(2, arrive())})
    first, second = watch.cycles("completion")[:2]
    apart = second - first
    assert cycles("barrier", "an instruction", "the next one") == str(apart)
    page = text_of("docs/barriers_traps.md")
    assert (
        f"executes BAR, B2R and R2B for all running CTAs, one instruction in {NUMERALS[apart]} cycles."
        in page
    )


def test_results_of_a_reduction_take_the_cycles_of_the_manual():
    def until_the_next(warps: int) -> int:
        """Returns the cycles from the release of ``warps`` warps to the end of the next
        instruction.
        """
        reduce = arrive(mode=BarrierMode.RED, reduction=BarrierReduction.POPC.value)
        plan = {BEGIN + 10 * warp: does(warp, reduce) for warp in range(warps)}
        last = max(plan)
        plan[last + 1] = does(warps, arrive())
        watch = play({0: warps, 1: 2}, plan)
        released = watch.first("resume")
        return watch.first("completion", released + 1) - released

    two, three = until_the_next(2), until_the_next(3)
    assert cycles("barrier", "resume", "results of BAR.RED") == f"{three - two} a warp"


def test_the_end_of_a_warp_is_followed_by_the_checks_of_the_manual():
    def until_the_next(barriers: int) -> int:
        """Returns the cycles from a warp's end to the end of another CTA's instruction, if the
        first CTA uses ``barriers`` barriers.
        """
        plan = {BEGIN + 10 * warp: does(warp, arrive(warp)) for warp in range(barriers)}
        ends = max(plan) + 20
        plan[ends] = lambda driver, ctx: driver.end(ctx, driver.warps[3])
        plan[ends + 2] = does(4, arrive())
        watch = play({0: 4, 1: 2}, plan)
        ended = watch.first("terminated")
        return watch.first("completion", ended) - ended

    one, two, three = map(until_the_next, (1, 2, 3))
    row = cycles("barrier", "the end of a warp")
    assert two - one == three - two == int(row.removesuffix(" each"))
    each = NUMERALS[two - one]
    page = text_of("docs/barriers_traps.md")
    assert (
        f"the unit checks its CTA's used barriers one after the other, {each} cycles each;" in page
    )
    assert f"repeated for each used barrier of the CTA: {each} cycles for each." in text_of(
        "docs/units/barrier.md"
    )


def test_an_arrival_is_withdrawn_after_the_cycles_of_the_manual():
    watch = play(
        {0: 2},
        {
            BEGIN: does(0, arrive()),
            BEGIN + 20: lambda driver, ctx: driver.withdraw(ctx, driver.warps[0]),
        },
    )
    taken = watch.first("withdrawn") - watch.first("withdraw")
    assert cycles("barrier", "acceptance of withdraw") == str(taken)
    assert cycles("trap", "withdraw of a warp").split()[0] == str(taken)
    page = text_of("docs/barriers_traps.md")
    assert f"until the answer (`withdrawn`, after {NUMERALS[taken]} cycles of the unit)," in page


# Traps


def trap_unit(body: Callable[[Any, Any], Any], installed: int = 1) -> None:
    """Two warps are live and drained."""
    dut = units_of(PARAMS).trap(PARAMS)

    async def drive(ctx: Any) -> None:
        await ctx.tick().repeat(LONGEST_SWEEP)
        ctx.set(dut.report_mask, (1 << 32) - 1)
        ctx.set(dut.command, {"installed": installed, "handler": 0x200})
        for warp in range(2):
            offer(ctx, dut.launch, {"warp": warp})
            await ctx.tick()
        offer(ctx, dut.launch, None)
        ctx.set(dut.control.live, 0b11)
        ctx.set(dut.drained, 0b11)
        await ctx.tick()
        await body(ctx, dut)

    simulate(dut, drive)


async def dispatch(ctx: Any, dut: Any, kind: InstructionKind, warp: int, word: int = 0) -> None:
    """Dispatches an instruction for one cycle."""
    offer(ctx, dut.dispatch, {"kind": kind, "warp": warp, "word": word, "pc": 8})
    await ctx.tick()
    offer(ctx, dut.dispatch, None)


BPT = encode("BPT", mode=BreakpointMode.TRAP.value, reason=1)
RTT = encode("RTT", mode=ReturnFromTrapMode.POPCRS.value)


def test_a_trap_takes_the_cycles_of_the_manual():
    found: dict[str, int] = {}

    async def body(ctx, dut):
        await dispatch(ctx, dut, InstructionKind.TRAP, 0, BPT)
        found["outcome"] = 1 + await cycles_until(ctx, dut.completion.valid)
        for warp in range(2):
            await cycles_until(ctx, dut.control.enter[warp])
            await dispatch(ctx, dut, InstructionKind.ENTER, warp)
            found["inside"] = 1 + await cycles_until(ctx, dut.inside[warp])
            offer(ctx, dut.result, {"warp": warp})
            await ctx.tick()
            offer(ctx, dut.result, None)
        for warp in range(2):
            assert ctx.get(dut.state.trapping) == 1
            await dispatch(ctx, dut, InstructionKind.TRAP, warp, RTT)
        found["over"] = 1 + await cycles_until(ctx, dut.state.trapping, 0)
        assert ctx.get(dut.control.leave) == 0b11

    trap_unit(body)
    assert cycles("trap", "dispatch of BPT, RTT, IDE, ENTER or LEAVE") == str(found["outcome"])
    assert cycles("trap", "dispatch of ENTER", "the warp is in the handler") == str(found["inside"])
    assert cycles("trap", "dispatch of the last live warp's RTT") == str(found["over"])


def test_warps_are_held_after_the_cycles_of_the_manual():
    found: list[int] = []

    async def body(ctx, dut):
        set_errors(ctx, dut.errors, {"memory": {"warp": 0, "error": WarpError.MMU_FAULT}})
        assert ctx.get(dut.control.hold) & 0b11 == 0
        await ctx.tick()
        set_errors(ctx, dut.errors, {})
        found.append(1 + await cycles_until(ctx, dut.control.hold[1]))
        assert ctx.get(dut.control.hold[0]) == 1

    trap_unit(body)
    assert cycles("trap", "a reported cause of a trap") == str(found[0])


def test_the_watchdog_reports_after_the_cycles_of_the_manual():
    dut, found = units_of(PARAMS).trap(PARAMS), {}

    async def body(ctx):
        ctx.set(dut.control.live, 1)
        for interval in (3, 6, 8):
            ctx.set(dut.command, {"timeout": interval})
            ctx.set(dut.control.taken, 1)
            await ctx.tick().repeat(3)
            ctx.set(dut.control.taken, 0)
            found[interval] = 1 + await cycles_until(ctx, dut.events.timeout, patience=300)

    simulate(dut, body)
    more = {cycle - 2**interval for interval, cycle in found.items()}
    assert {cycles("trap", "last issued instruction")} == {f"2**n + {each}" for each in more}
