"""The tables of cycles of single units in docs/units are those of the hardware."""

import itertools
import re
from typing import Any

from rtl.double.datapath import DATAPATH_CYCLES
from rtl.fetch import FetchUnit
from rtl.isa.control_code import GROUP_BYTES, ControlCode
from rtl.isa.kinds import BarrierMode
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.issue import scoreboards
from rtl.memory_arbiter import MemoryArbiter
from rtl.params import PRESETS, SmParams
from testbench import simulation
from testbench.barrier import tb_barrier
from testbench.barrier.driver import BarrierDriver
from testbench.barrier.warps import Use
from testbench.crs.limits import TOKEN_CYCLES
from testbench.flow.driver import ENTRY_CYCLES
from testbench.pipeline.reference import RESULT_CYCLES
from testbench.project.test_manual import DOCS, ROOT, UNITS, table
from testbench.scheduler import issue_latencies
from testbench.scheduler.fetch_image import image_of
from testbench.scheduler.issue_driver import COMPLETIONS_APART
from testbench.scheduler.issue_model import APART, FULL, LOOK
from testbench.scheduler.test_prefetch import LATENCY, Fetched
from testbench.simulation import simulate
from testbench.words import NOP, encode


def cycles(unit: str, *cells: str, heading: str = "## Cycles") -> str:
    """Returns the last cell of the row whose first cells begin with these texts, in a page's tables
    of cycles.

    ``heading`` is the heading of the tables.
    """
    text = (UNITS / f"{unit}.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for line in re.split(r"\n##", text.split(f"\n{heading}\n")[1], maxsplit=1)[0].splitlines()
        if line.startswith("|")
    ]
    (found,) = [
        row
        for row in rows
        if len(row) > len(cells)
        and all(have.startswith(cell) for have, cell in zip(row, cells, strict=False))
    ]
    return found[-1]


NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def text_of(page: str) -> str:
    """Returns the text of a page with its lines joined."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


# Fetch

CONSTANT = encode("IADD", "c", bank=0, offset=0x10, Rd=1, Ra=1)


def groups(*constants: int) -> Any:
    """Returns a program of groups, each with this number of instructions that read a constant."""
    words = [CONSTANT if place < count else NOP for count in constants for place in range(3)]
    return image_of(words, ControlCode(1))


def fetched_after_redirect(constants: int) -> int:
    """Returns the cycles from a redirect to the group, with line and constants in the caches."""
    unit = Fetched(groups(constants, 0))
    found = []

    async def body(ctx: Any) -> None:
        await unit.fetch(ctx, 0, 0)
        await ctx.tick().repeat(3 * LATENCY)
        for _ in range(2):
            begin = unit.cycle
            await unit.fetch(ctx, 0, 0)
            found.append(unit.groups[-1][0] - 1 - begin)

    unit.run(body)
    assert found[0] == found[1]
    return found[0]


def group_cycles(warps: int, *constants: int) -> list[int]:
    """Returns the cycles from group to group, with all in the caches and room in issue."""
    params = SmParams(warps=warps, lanes=4, instruction_groups=32, constant_words=64)
    unit = Fetched(groups(*constants), FetchUnit(params))

    async def body(ctx: Any) -> None:
        for group in range(len(constants)):
            await unit.fetch(ctx, 0, group * GROUP_BYTES)
            await ctx.tick().repeat(3 * LATENCY)
        for warp in range(warps):
            await unit.redirect(ctx, warp, 0)
        unit.groups.clear()
        ctx.set(unit.dut.room, (1 << warps) - 1)
        while len(unit.groups) < len(constants):
            await ctx.tick()

    unit.run(body)
    times = [time for time, *_ in unit.groups]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def test_a_group_arrives_after_the_cycles_of_the_manual():
    assert cycles("fetch", "redirect of a warp", "its group, if") == str(fetched_after_redirect(0))
    base = fetched_after_redirect(1) - 1
    assert cycles("fetch", "redirect of a warp", "its group with n") == f"{base} + n"
    assert fetched_after_redirect(3) == base + 3


def test_groups_follow_each_other_after_the_cycles_of_the_manual():
    plain, reading = [0] * 8, [2] * 8
    assert cycles("fetch", "a group", "the next group, of another warp, without") == "1"
    assert group_cycles(4, *plain)[2:] == [1] * 5
    assert cycles("fetch", "a group", "the next group, of another warp, with n") == "n"
    assert group_cycles(4, *reading)[2:] == [2] * 5
    assert cycles("fetch", "a group", "the same warp's next group") == "3"
    assert group_cycles(1, *plain)[2:] == [3] * 5


def test_lines_are_requested_after_the_cycles_of_the_manual():
    unit = Fetched(groups(*[0] * 16))

    async def body(ctx: Any) -> None:
        await unit.fetch(ctx, 0, 0)
        await unit.fetch(ctx, 0, GROUP_BYTES)

    unit.run(body)
    (first, _), (second, _) = unit.requests[:2]
    row = cycles("fetch", "the request for a missed line", "the request for the next line")
    assert row == str(second - first)


# Memory arbiter


def arbiter_cycles(*clients: int) -> list[int]:
    """Returns the cycles from the first request of each of two clients, which are consecutive, to
    the port.
    """
    dut: Any = MemoryArbiter([2, 2])
    found = []

    async def body(ctx: Any) -> None:
        ctx.set(dut.port.request.ready, 1)
        for number in clients:
            request = dut.clients[number].request
            ctx.set(request.valid, 1)
            count = 0
            while not ctx.get(dut.port.request.valid):
                taken = ctx.get(request.ready)
                await ctx.tick()
                count += 1
                if taken:
                    ctx.set(request.valid, 0)
            found.append(count)
            await ctx.tick().repeat(3)

    simulate(dut, body)
    return found


def test_the_arbiter_takes_the_cycles_of_the_manual():
    same, other = arbiter_cycles(0, 0)[1], arbiter_cycles(0, 1)[1]
    assert cycles("memory_arbiter", "a request of the client that was served last") == str(same)
    assert cycles("memory_arbiter", "a request of another client") == str(other)


def test_a_client_sends_a_request_in_each_cycle_of_the_manual():
    dut: Any = MemoryArbiter([2, 2])
    addresses = []

    async def body(ctx: Any) -> None:
        ctx.set(dut.port.request.ready, 1)
        ctx.set(dut.client_0.request.valid, 1)
        for address in range(6):
            ctx.set(dut.client_0.request.payload.address, address)
            assert ctx.get(dut.client_0.request.ready) == 1
            await ctx.tick()
            addresses.append(ctx.get(dut.port.request.payload.address))

    simulate(dut, body)
    assert addresses == [*range(6)]
    assert cycles("memory_arbiter", "a request of a client", "its next request") == "1"


def test_a_response_reaches_its_client_after_the_cycles_of_the_manual():
    dut: Any = MemoryArbiter([2, 2])

    async def body(ctx: Any) -> None:
        ctx.set(dut.port.response.valid, 1)
        ctx.set(dut.port.response.payload.tag, 0b101)
        assert ctx.get(dut.client_1.response.valid) == 1
        assert ctx.get(dut.client_1.response.payload.tag) == 1

    simulate(dut, body)
    assert cycles("memory_arbiter", "a response at the SM's port") == "0"


# Barriers

SYNC = encode("BAR", "ii", mode=BarrierMode.SYNC.value, barrier=0)
QUEUE_CYCLES = 3
"""Cycles from the driver's decision to dispatch until the unit accepts the instruction, and from an
output until the driver samples it.
"""


def test_a_barrier_takes_the_cycles_of_the_manual():
    """Two warps arrive; the second one releases the barrier. Then both end."""
    moments: dict[str, int] = {}

    def source(driver: Any, ctx: Any, room: bool, more: bool) -> None:
        if driver.cycle in (1, 2):
            driver.begin(ctx, driver.cycle - 1, 0, 2, driver.cycle - 1)
        if driver.cycle in (20, 40):
            driver.dispatch(ctx, driver.warps[driver.cycle // 40], Use(SYNC))
            moments["arrival"] = driver.cycle
        if driver.released:
            moments.setdefault("resume", driver.cycle)
        may_end = driver.released and not more and driver.ctas
        if may_end and not driver.ending(next(iter(driver.ctas.values()))):
            driver.end(ctx, next(warp for warp in driver.warps if warp))

    def body(bench: Any) -> None:
        report_mask = tb_barrier.ALL_REPORTED
        BarrierDriver(bench, source, PRESETS["default"], report_mask=report_mask).run(60)

    simulation.passes("barrier", body)
    row = cycles("barrier", "acceptance of the last arrival", "resume of all warps")
    assert row == str(moments["resume"] - moments["arrival"] - QUEUE_CYCLES)


# Others: the limits that the testbenches apply


def test_cycles_of_issue_are_those_that_the_testbench_requires():
    rows = {row.what: row.cycles for row in issue_latencies._ROWS}
    assert cycles("issue", "flow result, resume") == str(rows["resume of a barrier"])
    assert rows["resume of a barrier"] == rows["the last flow result"]
    lanes, units = rows["a scoreboard, lanes"], rows["a scoreboard, units"]
    assert cycles("issue", "report of the lanes") == str(lanes)
    assert cycles("issue", "completion by another unit") == str(units)
    front = dict(table(DOCS / "front_end.md", "### When a warp may issue", "latency"))
    assert front["a dependence on an instruction of the lanes"].startswith(
        f"the dependent instruction is selected {NUMERALS[lanes]} cycles after issue sees the event"
    )
    assert front["a completion of another unit"] == (
        f"the dependent instruction is selected {NUMERALS[units]} cycles later"
    )
    for row, what, cycle in (
        (
            "an instruction that waits until all instructions of its warp are complete",
            "all complete",
            "cycle",
        ),
        ("the instruction after a DEPBAR.LE", "a limit", "cycles"),
    ):
        (more,) = {rows[f"{what}, lanes"] - lanes, rows[f"{what}, units"] - units}
        assert front[row] == f"{NUMERALS[more]} further {cycle}"
    text = text_of("docs/front_end.md")
    assert APART == 2 and "A warp issues at most in every second cycle;" in text
    assert f"| with {FULL} instructions in flight |" in text
    assert LOOK == 1 << scoreboards._TURN_BITS and f"and every {LOOK}th cycle at least:" in text
    conversion, memory, barrier = (
        NUMERALS[COMPLETIONS_APART[unit]] for unit in ("conversion", "memory", "barrier")
    )
    assert (
        f"events of a unit are {conversion} (conversion), {memory} (memory) or {barrier} (barrier) cycles apart"
        in text
    )
    redirect = NUMERALS[int(cycles("issue", "selection of a branch without a guard"))]
    assert f"redirected to their target {redirect} cycles after they are selected" in text


def test_cycles_of_the_lanes_are_those_that_the_testbench_requires():
    row = cycles("execute", "writes a register, CC or predicate in the lanes", "a lane instruction")
    assert row.split(",")[0] == str(RESULT_CYCLES)
    assert f"and {RESULT_CYCLES} cycles until a dependent instruction can be selected." in text_of(
        "docs/lanes.md"
    )


def test_cycles_of_traps_are_those_that_the_testbench_requires():
    entry = ENTRY_CYCLES - TOKEN_CYCLES * (TOKENS_PER_LINE - 1) - 1
    row = cycles("trap", "dispatch of ENTER", "its flow result")
    assert row == f"{entry}, and {TOKEN_CYCLES} for each NONE token that fills up a line"


def test_cycles_of_double_precision_are_those_that_the_testbench_requires():
    step = cycles("double", "from a thread's operands to its result")
    assert step == str(DATAPATH_CYCLES)
    assert (
        f"a thread's operands, and {DATAPATH_CYCLES} cycles after `starts` its result"
        in text_of("waveforms/README.md")
    )
