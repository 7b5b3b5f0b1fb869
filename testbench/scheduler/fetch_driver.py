"""Drives the fetch unit as issue does, and compares every group with the memory image."""

from collections import deque
from typing import Any

from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, instruction_address, next_address
from rtl.isa.errors import WarpError
from rtl.machines import units_of
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from testbench.driver import UnitDriver, offer
from testbench.scheduler.fetch_image import Expected, Image

PLACES = 2
"""Groups of a warp that issue can buffer."""


class FetchDriver(UnitDriver):
    """Receives groups for a number of cycles. Probabilities are per cycle.

    Parameters:
        takes: Probability that a warp frees a buffered group.
        redirects: Probability of a redirect.
        outside: Probability that a redirect goes to a random pc, most likely outside of the
            program.
        reads: Probability of a request of the other client of the constant cache.
        restart: Interval in cycles at which both caches are emptied while no warp fetches; 0:
            never.
        invalidates: Probability that both caches are emptied during operation.

    Attributes:
        groups, constants, words: Number of groups, constants in them, and words of the other client
            that were compared.
        arrivals: Cycle and warp of each group.
    """

    patience = 3000

    def __init__(
        self,
        bench: Bench,
        image: Image,
        params: SmParams,
        behaviour: MemoryBehaviour,
        *,
        takes: float = 0.3,
        redirects: float = 0.05,
        outside: float = 0.02,
        reads: float = 0.05,
        restart: int = 0,
        invalidates: float = 0.0,
    ) -> None:
        dut = units_of(params).fetch(params)
        super().__init__(
            bench, dut, MemoryServer(dut.memory, image.memory, behaviour, bench.random)
        )
        self.image, self.params = image, params
        image.parameters = params.floats, params.doubles
        self.groups = self.constants = self.words = 0
        self.arrivals: list[tuple[int, int]] = []
        self._takes, self._redirects, self._outside, self._reads = takes, redirects, outside, reads
        self._restart, self._invalidates = restart, invalidates
        self._next: list[tuple[int, int] | None] = [None] * params.warps
        self._claims, self._present = [0] * params.warps, [0] * params.warps
        self._asked: deque[tuple[int, int]] = deque()

    async def _drive(self, ctx: Any, cycles: int) -> None:
        dut, random = self.dut, self.bench.random
        ctx.set(dut.grid, self.image.grid)
        ctx.set(dut.value.ready, 1)
        asking, stopped = False, 0
        ticks = self._ticks(
            ctx,
            dut.group.valid,
            dut.group.payload,
            dut.claimed.valid,
            dut.claimed.payload,
            dut.busy,
            dut.indexed.ready,
            dut.value.valid,
            dut.value.payload,
        )
        async for comes, group, claims, claimed, busy, taken, answered, value in ticks:
            if comes or stopped or not any(self._next):
                self._happened()
            if claims:
                self._claims[claimed] += 1
                if self._claims[claimed] > PLACES:
                    self.bench.fail(f"warp {claimed} has no place for a group that is claimed")
            if comes:
                self._compare(group)
            if asking and taken:
                asking = False
            if answered:
                bank, address = self._asked.popleft()
                self.bench.expect(
                    f"c[{bank}][{address:#x}]",
                    (value.value, bool(value.missing)),
                    self.image.constant(bank, address & -4),
                )
                self.words += 1
            if not asking and random.random() < self._reads:
                bank = random.choice((0, 1, 2, 3, 9))
                address = random.choice((random.randrange(600), random.getrandbits(32)))
                self._asked.append((bank, address))
                ctx.set(dut.indexed.payload, {"bank": bank, "address": address})
                asking = True
            ctx.set(dut.indexed.valid, asking)

            ctx.set(dut.redirect.valid, 0)
            ctx.set(dut.invalidate, random.random() < self._invalidates)
            if self._restart and not stopped and self.cycle % self._restart == 0:
                stopped = 1
                self._next = [None] * self.params.warps
                ctx.set(dut.invalidate, 1)
            elif stopped:
                stopped = 2 if busy or stopped == 1 else 0
            else:
                self._steer(ctx)
            self._take(ctx)
            if self.cycle >= cycles:
                break

    def _steer(self, ctx: Any) -> None:
        """Redirects a random warp, with the given probability."""
        random = self.bench.random
        if random.random() < self._redirects:
            self._redirect(
                ctx, random.randrange(self.params.warps), self.image.pcs(random, self._outside)
            )

    def _take(self, ctx: Any) -> None:
        """Frees buffered groups of warps."""
        for warp in range(self.params.warps):
            if self._present[warp] and self.bench.random.random() < self._takes:
                self._present[warp] -= 1
                self._claims[warp] -= 1
        room = sum(
            (self._claims[warp] < PLACES and self._next[warp] is not None) << warp
            for warp in range(self.params.warps)
        )
        ctx.set(self.dut.room, room)

    def _due(self) -> list[str]:
        return [
            f"a group of warp {warp}" for warp, place in enumerate(self._next) if place is not None
        ]

    def _redirect(self, ctx: Any, warp: int, pc: int) -> None:
        offer(ctx, self.dut.redirect, {"warp": warp, "pc": pc})
        self._next[warp], self._claims[warp], self._present[warp] = self.image.place(pc), 0, 0

    def _compare(self, group: Any) -> None:
        """Compares a group that fetch has delivered."""
        warp = group.warp
        place = self._next[warp]
        if place is None:  # requested before the caches were emptied
            return
        pc, first = place
        self.bench.expect(
            f"pc and first instruction of warp {warp}'s group", (group.pc, group.first), (pc, first)
        )
        self._present[warp] += 1
        if self._present[warp] > self._claims[warp]:
            self.bench.fail(f"a group of warp {warp} that was not claimed")
        for slot in range(GROUP_INSTRUCTIONS):
            self._instruction(
                f"{pc:#x}, slot {slot}", group.instructions[slot], self.image.group(pc)[slot]
            )
        self._next[warp] = (pc + GROUP_BYTES) % (1 << 32), 0
        self.groups += 1
        self.arrivals.append((self.cycle, warp))

    def _instruction(self, where: str, got: Any, expected: Expected) -> None:
        expect = self.bench.expect
        expect(f"kind at {where}", got.kind, expected.kind)
        expect(f"error at {where}", got.error, expected.error)
        if expected.error is WarpError.MMU_FAULT:
            return
        expect(f"word at {where}", got.word, expected.word)
        expect(
            f"control bits at {where}",
            got.control.as_bits(),
            0 if self.params.serial else expected.control,
        )
        refused = self.params.serial and expected.error is WarpError.ILLEGAL_INSTR_ENCODING
        if expected.constant is not None and not refused:
            expect(
                f"constant at {where}",
                (got.constant, bool(got.constant_missing)),
                (expected.constant, expected.missing),
            )
            self.constants += 1
        elif expected.constant is None:
            expect(
                f"missing constant at {where}, which reads none", bool(got.constant_missing), False
            )


async def describe(ctx: Any, fetch: Any, image: Image) -> None:
    """Writes the descriptors of all constant banks into the fetch unit of a serial machine."""
    for number, bank in enumerate(image.grid["banks"]):
        offer(ctx, fetch.bank, {"number": number, "bank": bank})
        await ctx.tick()
    ctx.set(fetch.bank.valid, 0)


class SerialFetchDriver(FetchDriver):
    """Drives the fetch unit of a serial machine.

    It requests one instruction at a time, of any warp, at the next pc of that warp or elsewhere.
    ``takes`` is the probability of a request in a cycle.
    """

    _pcs: dict[int, int]
    _asked_for: tuple[int, int] | None = None

    async def _drive(self, ctx: Any, cycles: int) -> None:
        self._pcs = {}
        await describe(ctx, self.dut, self.image)
        await super()._drive(ctx, cycles)

    def _steer(self, ctx: Any) -> None:
        random = self.bench.random
        if self._asked_for is None and random.random() < self._takes:
            warp = random.randrange(self.params.warps)
            jumps = warp not in self._pcs or random.random() < self._redirects
            pc = self.image.pcs(random, self._outside) if jumps else self._pcs[warp]
            self._redirect(ctx, warp, pc)
            self._asked_for = warp, pc

    def _take(self, ctx: Any) -> None:
        pass

    def _compare(self, group: Any) -> None:
        if self._asked_for is None:
            self.bench.fail("an instruction that nobody has asked for")
        (warp, pc), self._asked_for = self._asked_for, None
        address = instruction_address(pc)
        self.bench.expect("warp and pc", (group.warp, group.pc), (warp, address))
        base, slot = self.image.place(pc)
        self._instruction(f"{address:#x}", group.instructions[0], self.image.group(base)[slot])
        self._next[warp], self._pcs[warp] = None, next_address(address) & 0xFFFF_FFFF
        self.groups += 1
        self.arrivals.append((self.cycle, warp))


def fetch_driver(
    bench: Bench, image: Image, params: SmParams, *arguments: Any, **chances: Any
) -> FetchDriver:
    """The fetch driver for a pipelined or serial machine."""
    return (SerialFetchDriver if params.serial else FetchDriver)(
        bench, image, params, *arguments, **chances
    )
