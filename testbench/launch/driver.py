"""Drives the work distributor with grids of short-lived warps, and compares it with the reference
model.
"""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Value

from rtl.layouts import LaunchRejection, flow_launch
from rtl.machines import units_of
from rtl.params import SmParams
from rtl.sweep import LONGEST_SWEEP
from sim.checks.testbench import Bench
from sim.launch.memory import Memory
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from testbench.driver import UnitDriver, as_struct, offer
from testbench.launch.grid import Grid
from testbench.launch.reference import LOCAL, PROGRAM, PlainDistributor

_DESCRIPTORS = 0x10_0000_0000
_RELEASES = 0x20_0000_0000


class LaunchDriver(UnitDriver):
    """Runs grids, one at a time. Probabilities are per cycle if not said otherwise.

    Parameters:
        life: Maximum number of cycles that a warp runs; the minimum is half of it.
        slow: Probability that a port of the distributor is not ready.
        halts: Probability that the machine halts for some cycles.
        keeps: Probability, per exit, that threads leave by EXIT.KEEPREFCOUNT.

    Attributes:
        plain: The reference model.
    """

    def __init__(
        self,
        bench: Bench,
        params: SmParams,
        grids: Iterable[Grid],
        *,
        life: int = 200,
        slow: float = 0.2,
        halts: float = 0.0,
        keeps: float = 0.05,
        references: dict[int, int] | None = None,
    ) -> None:
        dut = units_of(params).distributor(params)
        self.memory = Memory()
        super().__init__(
            bench,
            dut,
            MemoryServer(dut.port, self.memory, MemoryBehaviour((1, 9), stall=slow), bench.random),
        )
        self.params, self._grids = params, list(grids)
        self._slow, self._halts, self._keeps = slow, halts, keeps
        self.plain = PlainDistributor(bench, params, dict(references or {}), life)
        self._flow = flow_launch(params)
        self._banks: dict[int, Any] = {}  # constant banks reported by a serial machine

    async def _drive(self, ctx: Any) -> None:
        """Runs all grids."""
        ctx.set(self.dut.control.settings.program, PROGRAM)
        ctx.set(self.dut.control.settings.local, LOCAL + 5)
        await ctx.tick().repeat(LONGEST_SWEEP)
        for number, value in self.plain.references.items():
            ctx.set(self.dut.control.references.number, number)
            ctx.set(self.dut.control.references.value, value)
            ctx.set(self.dut.control.references.set, 1)
            await ctx.tick()
            ctx.set(self.dut.control.references.set, 0)
            await ctx.tick().repeat(2)
        self.memory.map("descriptors", _DESCRIPTORS, 256 * len(self._grids))
        self.memory.map("releases", _RELEASES, 128)
        for number, grid in enumerate(self._grids):
            self.memory.write(_DESCRIPTORS + 256 * number, grid.descriptor())
            await self._play(
                ctx, grid, _DESCRIPTORS + 256 * number if grid.address is None else grid.address
            )
            for counter, value in self.plain.references.items():
                ctx.set(self.dut.control.references.number, counter)
                await ctx.tick().repeat(2 * self.params.warps if self.params.serial else 1)
                ctx.set(self.dut.control.references.read, 1)
                await ctx.tick()
                ctx.set(self.dut.control.references.read, 0)
                self.bench.expect(
                    f"reference counter {counter}",
                    ctx.get(self.dut.control.references.count),
                    value,
                )
            if (
                grid.fields.get("SEMAPHORE_RELEASE_ENABLE0")
                and grid.rejection is LaunchRejection.NONE
            ):
                self._check_release(grid)

    def _check_release(self, grid: Grid) -> None:
        """Compares the words that the release at the end of a grid has written, and the words
        around them.
        """
        fields = grid.fields
        address, payload = (
            fields["RELEASE0_ADDRESS_LOWER"] | fields["RELEASE0_ADDRESS_UPPER"] << 32,
            fields["RELEASE0_PAYLOAD"],
        )
        size = 4 if fields.get("RELEASE0_STRUCTURE_SIZE") else 16
        expected = payload.to_bytes(4, "little") + bytes(size - 4)
        self.bench.expect(
            "released words", self.memory.read(address, size).hex(" "), expected.hex(" ")
        )
        self.bench.expect("word before", self.memory.read(address - 4, 4), bytes(4))
        self.bench.expect("word behind", self.memory.read(address + size, 4), bytes(4))

    async def _play(self, ctx: Any, grid: Grid, address: int) -> None:
        dut, random, bench = self.dut, self.bench.random, self.bench
        offer(ctx, dut.control.start, address)
        if grid.rejection is LaunchRejection.NONE or grid.rejection is LaunchRejection.MEMORY:
            self.plain.plan(grid)
        clearing, halt_until, fetch_until, planned = -1, 0, -1, False
        ports = (dut.clear_rows, dut.clear, dut.flow)
        bank = (dut.bank.valid, dut.bank.payload) if self.params.serial else ()
        drained, before = (1 << self.params.warps) - 1, 0
        while True:
            ready = [int(random.random() >= self._slow) for _ in ports]
            for port, value in zip(ports, ready, strict=True):
                ctx.set(port.ready, value)
            # Clearing shared memory takes a random time.
            if ctx.get(dut.clear.valid) and clearing < self.plain.now:
                clearing = self.plain.now + random.randrange(80)
            ctx.set(dut.clear.ready, self.plain.now == clearing)
            ready[1] = int(self.plain.now == clearing)
            if random.random() < self._halts:
                halt_until = self.plain.now + random.randrange(200)
            halted, fetching = self.plain.now < halt_until, self.plain.now < fetch_until
            ctx.set(dut.halt, halted)
            ctx.set(dut.fetch_busy, fetching)
            drained = self._live(ctx, drained)
            (
                taken,
                done,
                rejection,
                invalidate,
                launch,
                thread,
                occupied,
                begins,
                *streams,
            ) = await self._tick(
                ctx,
                dut.control.start.ready,
                dut.control.done,
                dut.control.rejection,
                dut.invalidate,
                as_struct(dut.launch),
                as_struct(dut.thread),
                dut.occupied,
                dut.cta_started,
                *(port.valid for port in ports),
                *(Value.cast(port.payload) for port in ports),
                *bank,
            )
            self.plain.now += 1
            if bank and streams[6]:
                self._banks[streams[7].number] = streams[7].bank
            if occupied != before or launch.valid or done or any(streams[:3]):
                self._happened()
            before = occupied
            if taken:
                ctx.set(dut.control.start.valid, 0)
            if invalidate:
                bench.expect(
                    "caches made empty after a CTA has started", bool(self.plain.running), False
                )
                planned = True
                fetch_until = self.plain.now + random.choice([0, 0, 30])
            self.plain.freed(grid, occupied)
            if begins:
                bench.expect("halted when a CTA starts", halted, False)
                bench.expect("fetch busy when a CTA starts", fetching, False)
                self.plain.begin(grid)
            if launch.valid:
                self.plain.launched(grid, launch)
            if thread.valid:
                self.plain.indexed(grid, thread)
            go = [valid and able for valid, able in zip(streams[:3], ready, strict=True)]
            if go[0]:
                self.plain.cleared_row(streams[3])
            if go[1]:
                self.plain.cleared_shared(grid, streams[4])
            if go[2]:
                self.plain.flowed(grid, self._flow.from_bits(streams[5]))
            self.plain.hurry(grid, halted or fetching or not planned)
            if done:
                bench.expect("rejection", LaunchRejection(rejection), grid.rejection)
                if grid.rejection is LaunchRejection.NONE:
                    bench.expect("whether the caches were made empty", planned, True)
                    got = ctx.get(dut.grid)
                    self.plain.check_configuration(grid, got, self._banks if bank else got.banks)
                if rejection == 0:
                    bench.expect("CTAs that have not ended", len(self.plain.running), 0)
                    bench.expect("CTAs that have not started", len(self.plain.coming), 0)
                return

    def _due(self) -> list[str]:
        return [
            f"the end of warp {warp.slot}" for cta in self.plain.running for warp in cta.warps
        ] or ["a CTA's start"]

    def _live(self, ctx: Any, drained: int) -> int:
        """Ends threads and warps; returns the mask of warps without an operation in flight."""
        dut, random = self.dut, self.bench.random
        ctx.set(dut.exit.valid, 0)
        notified = False
        for warp in [warp for cta in self.plain.running for warp in cta.warps]:
            bit = 1 << warp.slot
            if not warp.runs or warp.over_at is not None:
                continue
            drained &= ~bit
            if self.plain.now >= warp.ends_at and warp.drains_at < 0 and not notified:
                # Some threads may exit before the last ones, and each of these exits may keep the
                # reference.
                last, kept = random.random() < 0.7, random.random() < self._keeps
                offer(ctx, dut.exit, {"warp": warp.slot, "terminated": last, "kept": kept})
                notified = True
                warp.cta.kept |= kept
                if last:
                    warp.drains_at = self.plain.now + random.randrange(40)
            elif 0 <= warp.drains_at <= self.plain.now:
                drained |= bit
                warp.over_at = self.plain.now
        ctx.set(dut.drained, drained)
        return drained
