"""Prefetch: lines that the fetch unit requests before a warp misses them."""

import random
from dataclasses import dataclass, field
from typing import Any

from rtl.fetch import FetchUnit
from rtl.isa.control_code import GROUP_BYTES, ControlCode
from rtl.isa.errors import WarpError
from rtl.isa.tokens import LINE_BYTES
from rtl.params import SmParams
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from testbench.scheduler.fetch_image import PROGRAM, Image, image_of
from testbench.simulation import simulate
from testbench.words import NOP, encode, offset

PARAMS = SmParams(warps=2, lanes=4, instruction_groups=32, constant_words=64)
LINES = PARAMS.instruction_groups * GROUP_BYTES // LINE_BYTES
FIRST_LINES = LINES // 2
"""Lines of a kernel that are requested when a grid begins."""
IN_LINE = 6
"""Instructions of a line."""
LATENCY = 20
DELIVERY = 9
"""Cycles from the response with a line to the next response: the loader takes the line, then
receives its words.
"""
LOOKUP = 4
"""Cycles from a lookup that misses to the next one of the same warp, without contention."""


@dataclass
class Fetched:
    """A fetch unit whose memory responds after LATENCY cycles, driven by a testbench.

    Attributes:
        requests: Cycle and line of each request, relative to the program's first line.
        groups: Cycle, warp, pc and payload of each group.
    """

    image: Image
    dut: Any = field(default_factory=lambda: FetchUnit(PARAMS))
    requests: list[tuple[int, int]] = field(default_factory=list)
    groups: list[tuple[int, int, int, Any]] = field(default_factory=list)
    cycle: int = 0

    def run(self, body: Any) -> None:
        """Runs a testbench process to its end."""
        behaviour = MemoryBehaviour(latency=(LATENCY, LATENCY))
        server = MemoryServer(self.dut.memory, self.image.memory, behaviour, random.Random(0))

        async def testbench(ctx: Any) -> None:
            ctx.set(self.dut.grid, self.image.grid)
            await body(ctx)

        simulate(self.dut, testbench, background=[server.serve, self._watch])

    async def _watch(self, ctx: Any) -> None:
        dut = self.dut
        request = dut.memory.request
        ticks = ctx.tick().sample(
            request.valid & request.ready, request.payload, dut.group.valid, dut.group.payload
        )
        async for _, _, requested, line, comes, group in ticks:
            self.cycle += 1
            if requested:
                self.requests.append((self.cycle, line.address - PROGRAM // LINE_BYTES))
            if comes:
                self.groups.append((self.cycle, group.warp, group.pc, group))

    async def redirect(self, ctx: Any, warp: int, pc: int) -> None:
        """Redirects a warp."""
        ctx.set(self.dut.redirect.valid, 1)
        ctx.set(self.dut.redirect.payload, {"warp": warp, "pc": pc})
        await ctx.tick()
        ctx.set(self.dut.redirect.valid, 0)

    async def fetch(self, ctx: Any, warp: int, pc: int) -> Any:
        """Fetches the group at a pc; the warp has room for no other one."""
        ctx.set(self.dut.room, 0)
        before = len(self.groups)
        await self.redirect(ctx, warp, pc)
        while len(self.groups) == before or self.groups[-1][1] != warp:
            claimed = ctx.get(self.dut.claimed.valid)
            ctx.set(self.dut.room, 0 if claimed else ctx.get(self.dut.room) or 1 << warp)
            await ctx.tick()
        ctx.set(self.dut.room, 0)
        return self.groups[-1][3]

    @property
    def lines(self) -> list[int]:
        """The requested lines."""
        return [line for _, line in self.requests]


def program(
    lines: int, branches: dict[int, int] | None = None, control: ControlCode | None = None
) -> Image:
    """NOPs, with branches at some instructions to the first instruction of a line."""
    words = [NOP] * (lines * IN_LINE)
    for place, line in (branches or {}).items():
        words[place] = encode("BRA", "i", target=offset(place, line * IN_LINE))
    return image_of(words, control or ControlCode(1))


def test_the_next_line_is_requested_with_the_line_that_a_warp_misses():
    unit = Fetched(program(8))

    async def body(ctx: Any) -> None:
        await unit.fetch(ctx, 0, 0)

    unit.run(body)
    assert unit.lines == [0, 1]
    (first, _), (second, _) = unit.requests
    assert second - first <= 3


def test_a_warp_that_enters_a_prefetched_line_waits_for_nothing_and_requests_the_next_one():
    unit = Fetched(program(8))

    async def body(ctx: Any) -> None:
        await unit.fetch(ctx, 0, 0)
        await ctx.tick().repeat(2 * LATENCY)
        begin = unit.cycle
        await unit.fetch(ctx, 0, LINE_BYTES)
        assert unit.cycle - begin <= 4
        await ctx.tick().repeat(LATENCY)

    unit.run(body)
    assert unit.lines == [0, 1, 2]


def test_the_line_of_a_branchs_target_is_requested_when_the_branch_is_fetched():
    unit = Fetched(program(12, {1: 9}))

    async def body(ctx: Any) -> None:
        await unit.fetch(ctx, 0, 0)
        await ctx.tick().repeat(2 * LATENCY)

    unit.run(body)
    assert sorted(unit.lines) == [0, 1, 9]


def test_a_branch_that_a_warp_does_not_come_to_has_no_line_requested():
    unit = Fetched(program(12, {0: 9}))

    async def body(ctx: Any) -> None:
        await unit.fetch(ctx, 0, 0x10)  # after the branch
        await ctx.tick().repeat(2 * LATENCY)

    unit.run(body)
    assert sorted(unit.lines) == [0, 1]


def test_a_branch_does_not_evict_a_line():
    """The prefetched target must not replace the line of the warp's current pc."""
    unit = Fetched(program(LINES + 4, {1: LINES}))

    async def body(ctx: Any) -> None:
        await unit.fetch(ctx, 0, 0)
        await ctx.tick().repeat(2 * LATENCY)
        begin = unit.cycle
        await unit.fetch(ctx, 0, 0)
        assert unit.cycle - begin <= 4

    unit.run(body)
    assert sorted(unit.lines) == [0, 1]


def test_the_next_line_may_evict_another_one():
    unit = Fetched(program(LINES + 4))

    async def body(ctx: Any) -> None:
        await unit.fetch(ctx, 0, 0)
        await unit.fetch(ctx, 0, (LINES - 1) * LINE_BYTES)
        await ctx.tick().repeat(2 * LATENCY)

    unit.run(body)
    assert unit.lines == [0, 1, LINES - 1, LINES]


def test_a_miss_is_not_delayed_by_lines_that_are_prefetched():
    """A miss is delayed at most by the words of one prefetched line, and by another lookup in the
    cycle of the miss.

    The lines of three branches are to be prefetched; two of them are in flight.
    """
    unit = Fetched(program(40, {1: 9, 4: 12, 7: 15}))
    cycles = []

    async def fetch_missed(ctx: Any, line: int) -> None:
        begin = unit.cycle
        await unit.fetch(ctx, 1, line * LINE_BYTES)
        cycles.append(unit.cycle - begin)

    async def body(ctx: Any) -> None:
        await fetch_missed(ctx, 20)
        await unit.fetch(ctx, 0, 0x18)  # after the first branch
        await ctx.tick().repeat(3 * LATENCY)
        for group in range(3):
            await unit.fetch(ctx, 0, group * GROUP_BYTES)
        await fetch_missed(ctx, 30)

    unit.run(body)
    alone, behind = cycles
    assert 9 in unit.lines and 12 in unit.lines
    assert alone <= behind <= alone + DELIVERY + LOOKUP


def test_a_line_beyond_the_end_of_memory_is_an_error_only_of_a_warp_that_comes_there():
    lines = 8
    unit = Fetched(program(lines))

    async def body(ctx: Any) -> None:
        group = await unit.fetch(ctx, 0, (lines - 1) * LINE_BYTES)
        assert {each.error for each in group.instructions} == {WarpError.NONE}
        await ctx.tick().repeat(2 * LATENCY)
        assert unit.lines == [lines - 1, lines]
        group = await unit.fetch(ctx, 0, lines * LINE_BYTES)
        assert {each.error for each in group.instructions} == {WarpError.MMU_FAULT}

    unit.run(body)


def test_what_was_prefetched_does_not_outlive_an_invalidation():
    """An invalidation drops a prefetched line in the cache and one in flight."""
    size = 2 * FIRST_LINES * LINE_BYTES
    unit = Fetched(Image(bytes([1]) * size, {}, 40))
    words = []

    async def body(ctx: Any) -> None:
        for value, line, cycles in ((2, 0, 3 * LATENCY), (3, FIRST_LINES + 1, LATENCY // 2)):
            await ctx.tick().repeat(FIRST_LINES * LATENCY)
            await unit.redirect(ctx, 0, line * LINE_BYTES)
            await ctx.tick().repeat(cycles)
            assert line + 1 in unit.lines
            unit.image.memory.write(PROGRAM, bytes([value]) * size)
            ctx.set(unit.dut.invalidate, 1)
            await ctx.tick()
            ctx.set(unit.dut.invalidate, 0)
            group = await unit.fetch(ctx, 0, (line + 1) * LINE_BYTES)
            words.append(group.instructions[0].word)

    unit.run(body)
    assert words == [int.from_bytes(bytes([value]) * 8) for value in (2, 3)]


def test_a_grid_begins_with_its_kernels_first_lines_and_the_constants_that_are_read_first():
    """The lines are requested as soon as the caches are empty, and not while they are held
    empty.
    """
    entry = 2
    bank = bytes(0x180)
    unit = Fetched(image_of([NOP] * (LINES * IN_LINE), ControlCode(1), {0: bank}))
    constants = unit.image.grid["banks"][0]["address"] - PROGRAM
    held = 2 * LINES

    async def body(ctx: Any) -> None:
        ctx.set(unit.dut.grid.entry, entry * LINE_BYTES)
        ctx.set(unit.dut.invalidate, 1)
        await ctx.tick().repeat(held)
        assert unit.lines == []
        ctx.set(unit.dut.invalidate, 0)
        await ctx.tick().repeat(FIRST_LINES * LATENCY)
        begin = unit.cycle
        await unit.fetch(ctx, 0, entry * LINE_BYTES)
        assert unit.cycle - begin <= LOOKUP

    unit.run(body)
    code = list(range(entry, entry + FIRST_LINES))
    preloaded = [(constants + address) // LINE_BYTES for address in (0, 0x140)]
    assert sorted(unit.lines) == sorted(code + preloaded)


def test_lines_of_a_constant_bank_that_is_short_or_missing_are_not_requested():
    for banks in ({}, {0: bytes(0x40)}):
        unit = Fetched(image_of([NOP] * (LINES * IN_LINE), ControlCode(1), banks))

        async def body(ctx: Any, unit: Fetched = unit) -> None:
            ctx.set(unit.dut.invalidate, 1)
            await ctx.tick()
            ctx.set(unit.dut.invalidate, 0)
            await ctx.tick().repeat(LINES + FIRST_LINES * LATENCY)

        unit.run(body)
        assert len(unit.lines) == FIRST_LINES + len(banks)
