"""Drives the work distributor with grids whose warps live for a while, and compares with a plain distributor."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rtl.isa.qmd import descriptor
from rtl.isa.tokens import CRS_GRANULE
from rtl.launch import Distributor
from rtl.layouts import LaunchRejection, flow_launch, lane_operation, thread_index, warp_launch
from rtl.params import WARP_THREADS, SmParams
from sim.memory import Memory
from sim.memory_port import MemoryBehaviour, MemoryServer
from sim.testbench import Bench

__all__ = ["REFERENCE_MOST", "Grid", "LaunchDriver"]

REFERENCE_MOST = 65535
_DESCRIPTORS = 0x10_0000_0000
_RELEASES = 0x20_0000_0000
_PROMPT = 300
"""A CTA that can start does so within this many cycles."""


@dataclass(frozen=True)
class Grid:
    """A launch. ``fields`` are further ones of the descriptor; ``rejection`` is what it is expected to come to."""

    size: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    registers: int = 8
    shared: int = 0
    local: int = 16
    crs: int = 512
    fields: dict[str, Any] = field(default_factory=dict)
    rejection: LaunchRejection = LaunchRejection.NONE
    address: int | None = None
    """Of the descriptor, if it matters."""

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP_THREADS)

    def descriptor(self) -> bytes:
        names = ("CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH", "CTA_THREAD_DIMENSION0",
                 "CTA_THREAD_DIMENSION1", "CTA_THREAD_DIMENSION2")
        return descriptor({
            **dict(zip(names, (*self.size, *self.block), strict=True)), "REGISTER_COUNT": self.registers,
            "SHARED_MEMORY_SIZE": self.shared, "SHADER_LOCAL_MEMORY_LOW_SIZE": self.local,
            "SHADER_LOCAL_MEMORY_CRS_SIZE": self.crs, **self.fields})


@dataclass
class _Cta:
    """A CTA that was started."""

    slot: int
    index: tuple[int, int, int]
    warps: list["_Warp"] = field(default_factory=list)
    kept: bool = False
    cleared: bool = False


@dataclass(eq=False)
class _Warp:
    """A warp that was started."""

    cta: _Cta
    slot: int
    number: int
    threads: int = 0
    registers: int = 0
    runs: bool = False
    ends_at: int = -1
    drains_at: int = -1
    over_at: int | None = None


class LaunchDriver:
    """Plays grids, one after the other.

    Parameters
    ----------
    life : int
        Cycles that a warp lives, at most; half of them at least.
    slow : float
        How often a port of the distributor is kept waiting.
    halts : float
        How often the machine halts in a cycle, for a while.

    Attributes
    ----------
    ctas, warps, threads : int
        What was started, and compared.
    references : dict[int, int]
        What the reference counters should hold.
    most : int
        CTAs that ran at once, at most.
    """

    def __init__(self, bench: Bench, params: SmParams, grids: Iterable[Grid], *, life: int = 200, slow: float = 0.2,
                 halts: float = 0.0, references: dict[int, int] | None = None) -> None:
        self.bench, self.params, self._grids = bench, params, list(grids)
        self._life, self._slow, self._halts = life, slow, halts
        self.dut = Distributor(params)
        self.memory = Memory()
        self.server = MemoryServer(self.dut.port, self.memory, MemoryBehaviour((1, 9), stall=slow), bench.random)
        self.references = dict(references or {})
        self.ctas = self.warps = self.threads = self.most = self.cycle = 0
        self._program, self._local = 0x1_2345_6700, 0x30_0000_0000
        self._coming: list[tuple[int, int, int]] = []
        self._running: list[_Cta] = []
        self._starting: _Cta | None = None
        self._waits = self._slots = self._cta_slots = self._rows = self._piece = self._block = 0
        self._launch, self._thread = warp_launch(params), thread_index(params)
        self._operation, self._flow = lane_operation(params), flow_launch(params)

    def run(self, *, traces: Any = None, name: str = "") -> int:
        """Simulates until all grids are over; returns the cycles."""
        return self.bench.simulate(self.dut, [self._drive], background=[self.server.serve], traces=traces, name=name)

    async def _drive(self, ctx: Any) -> None:
        ctx.set(self.dut.settings.program, self._program)
        ctx.set(self.dut.settings.local, self._local + 5)
        for number, value in self.references.items():
            ctx.set(self.dut.reference_number, number)
            ctx.set(self.dut.reference_value, value)
            ctx.set(self.dut.reference_set, 1)
            await ctx.tick()
            ctx.set(self.dut.reference_set, 0)
            await ctx.tick().repeat(2)
        self.memory.map("descriptors", _DESCRIPTORS, 256 * len(self._grids))
        self.memory.map("releases", _RELEASES, 128)
        for number, grid in enumerate(self._grids):
            self.memory.write(_DESCRIPTORS + 256 * number, grid.descriptor())
            await self._play(ctx, grid, _DESCRIPTORS + 256 * number if grid.address is None else grid.address)
            for counter, value in self.references.items():
                ctx.set(self.dut.reference_number, counter)
                await ctx.tick()
                self.bench.expect(f"reference counter {counter}", ctx.get(self.dut.reference_count), value)
            if grid.fields.get("SEMAPHORE_RELEASE_ENABLE0") and grid.rejection is LaunchRejection.NONE:
                self._check_release(grid)

    def _check_configuration(self, grid: Grid, got: Any) -> None:
        """What the units are told of the grid."""
        fields = grid.fields
        expected = {
            "program": self._program, "entry": fields.get("PROGRAM_OFFSET", 0), "registers": grid.registers,
            "barriers": fields.get("BARRIER_COUNT", 0), "shared": grid.shared, "local": grid.local,
            "stack": grid.crs // CRS_GRANULE, "check_calls": 1 - fields.get("API_VISIBLE_CALL_LIMIT", 0)}
        for name, value in expected.items():
            self.bench.expect(f"grid: {name}", int(got[name]), value)
        for name, values in (("grid", grid.size), ("block", grid.block)):
            self.bench.expect(f"grid: {name}", tuple(int(got[name][axis]) for axis in "xyz"), values)
        for bank, parts in enumerate(zip(*(fields.get(f"CONSTANT_BUFFER_{name}", (0,) * 8) for name in (
                "VALID", "ADDR_LOWER", "ADDR_UPPER", "SIZE")), strict=True)):
            valid, lower, upper, size = parts
            told = got.banks[bank]
            self.bench.expect(f"grid: constant bank {bank}", (int(told.valid), int(told.address), int(told.size)),
                              (valid, lower | upper << 32, size))

    def _check_release(self, grid: Grid) -> None:
        """What memory holds after the grid, around the place of the release."""
        fields = grid.fields
        address, payload = fields["RELEASE0_ADDRESS_LOWER"] | fields["RELEASE0_ADDRESS_UPPER"] << 32, \
            fields["RELEASE0_PAYLOAD"]
        size = 4 if fields.get("RELEASE0_STRUCTURE_SIZE") else 16
        expected = payload.to_bytes(4, "little") + bytes(size - 4)
        self.bench.expect("released words", self.memory.read(address, size).hex(" "), expected.hex(" "))
        self.bench.expect("word before", self.memory.read(address - 4, 4), bytes(4))
        self.bench.expect("word behind", self.memory.read(address + size, 4), bytes(4))

    def _plan(self, grid: Grid) -> None:
        """How the machine is divided, and what is still to come."""
        rows = max(8, -(-grid.registers // 8) * 8)
        piece = -(-grid.shared // 256) * 256
        self._rows, self._piece = rows, piece
        self._slots = min(self.params.warps, self.params.registers // rows)
        ctas = min(self.params.warps, self.params.shared_bytes // piece) if piece else self.params.warps
        self._cta_slots = 1 if grid.fields.get("SEQUENTIALLY_RUN_CTAS") else ctas
        self._block = grid.local * WARP_THREADS + grid.crs
        width, height, depth = grid.size
        self._coming = [(x, y, z) for z in range(depth) for y in range(height) for x in range(width)]
        self._waits = 0

    async def _play(self, ctx: Any, grid: Grid, address: int) -> None:
        dut, random, bench = self.dut, self.bench.random, self.bench
        ctx.set(dut.start.payload, address)
        ctx.set(dut.start.valid, 1)
        if grid.rejection is LaunchRejection.NONE or grid.rejection is LaunchRejection.MEMORY:
            self._plan(grid)
        clearing, halt_until, fetch_until, planned = -1, 0, -1, False
        ports = (dut.operation, dut.clear, dut.flow)
        drained = (1 << self.params.warps) - 1
        while True:
            ready = [int(random.random() >= self._slow) for _ in ports]
            for port, value in zip(ports, ready, strict=True):
                ctx.set(port.ready, value)
            # Shared memory takes its time, too.
            if ctx.get(dut.clear.valid) and clearing < self.cycle:
                clearing = self.cycle + random.randrange(80)
            ctx.set(dut.clear.ready, self.cycle == clearing)
            ready[1] = int(self.cycle == clearing)
            if random.random() < self._halts:
                halt_until = self.cycle + random.randrange(200)
            halted, fetching = self.cycle < halt_until, self.cycle < fetch_until
            ctx.set(dut.halt, halted)
            ctx.set(dut.fetch_busy, fetching)
            drained = self._live(ctx, drained)
            sampled = await ctx.tick().sample(
                dut.start.ready, dut.done, dut.rejection, dut.invalidate, dut.launch.as_value(), dut.thread.as_value(),
                dut.occupied, dut.cta_started, *(port.valid for port in ports),
                *(port.payload.as_value() for port in ports))
            taken, done, rejection, invalidate, launch, thread, occupied, begins, *streams = sampled[2:]
            self.cycle += 1
            if taken:
                ctx.set(dut.start.valid, 0)
            if invalidate:
                bench.expect("caches made empty after a CTA has started", planned or bool(self._running), False)
                planned = True
                fetch_until = self.cycle + random.choice([0, 0, 30])
            self._freed(grid, occupied)
            if begins:
                bench.expect("halted when a CTA starts", halted, False)
                bench.expect("fetch busy when a CTA starts", fetching, False)
                self._begin(grid)
            if launch & 1:
                self._launched(grid, self._launch.from_bits(launch >> 1))
            if thread & 1:
                self._indexed(grid, self._thread.from_bits(thread >> 1))
            go = [valid and able for valid, able in zip(streams[:3], ready, strict=True)]
            if go[0]:
                self._cleared_register(grid, self._operation.from_bits(streams[3]))
            if go[1]:
                self._cleared_shared(grid, streams[4])
            if go[2]:
                self._flowed(grid, self._flow.from_bits(streams[5]))
            self._hurry(grid, halted or fetching or not planned)
            if done:
                bench.expect("rejection", LaunchRejection(rejection), grid.rejection)
                if grid.rejection is LaunchRejection.NONE:
                    bench.expect("whether the caches were made empty", planned, True)
                    self._check_configuration(grid, ctx.get(dut.grid))
                if rejection == 0:
                    bench.expect("CTAs that have not ended", len(self._running), 0)
                    bench.expect("CTAs that have not started", len(self._coming), 0)
                return

    def _live(self, ctx: Any, drained: int) -> int:
        """Warps live and end; returns which have nothing under way."""
        dut, random = self.dut, self.bench.random
        ctx.set(dut.exit.valid, 0)
        told = False
        for warp in [warp for cta in self._running for warp in cta.warps]:
            bit = 1 << warp.slot
            if not warp.runs or warp.over_at is not None:
                continue
            drained &= ~bit
            if self.cycle >= warp.ends_at and warp.drains_at < 0 and not told:
                # Some threads may have left before the last ones do, and either may have kept the reference.
                last, kept = random.random() < 0.7, random.random() < 0.05
                for port, value in ((dut.exit.valid, 1), (dut.exit.warp, warp.slot), (dut.exit.terminated, last),
                                    (dut.exit.kept, kept)):
                    ctx.set(port, value)
                told = True
                warp.cta.kept |= kept
                if last:
                    warp.drains_at = self.cycle + random.randrange(40)
            elif 0 <= warp.drains_at <= self.cycle:
                drained |= bit
                warp.over_at = self.cycle
        ctx.set(dut.drained, drained)
        return drained

    def _freed(self, grid: Grid, occupied: int) -> None:
        """Notes the CTAs that the distributor takes for over."""
        for cta in list(self._running):
            if cta is self._starting:
                continue
            gone = [warp for warp in cta.warps if not occupied >> warp.slot & 1]
            if gone:
                self.bench.expect("warps of a CTA that are freed", len(gone), len(cta.warps))
                over = all(warp.over_at is not None for warp in cta.warps)
                self.bench.expect(f"whether CTA {cta.index}, whose slots are freed, is over", over, True)
                self._running.remove(cta)
                if grid.fields.get("CWD_REFERENCE_COUNT_DECR_ENABLE") and not cta.kept:
                    number = grid.fields["CWD_REFERENCE_COUNT_ID"]
                    delta = grid.fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1
                    self.references[number] = max(0, self.references[number] - delta)
            elif all(warp.over_at is not None and self.cycle > warp.over_at + 2 * self.params.warps + 4
                     for warp in cta.warps):
                self.bench.fail(f"CTA {cta.index} is over, but its slots are not free")

    def _free(self) -> tuple[list[int], list[int]]:
        """Free warp slots and CTA slots."""
        taken = {warp.slot for cta in self._running for warp in cta.warps}
        ctas = {cta.slot for cta in self._running}
        return ([slot for slot in range(self._slots) if slot not in taken],
                [cta for cta in range(self._cta_slots) if cta not in ctas])

    def _may_start(self, grid: Grid) -> bool:
        """Whether the reference counter allows a CTA."""
        if not grid.fields.get("CWD_REFERENCE_COUNT_INCR_ENABLE"):
            return True
        delta = grid.fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1
        return self.references[grid.fields["CWD_REFERENCE_COUNT_ID"]] + delta <= REFERENCE_MOST

    def _hurry(self, grid: Grid, held: bool) -> None:
        """Fails if a CTA could start for long and does not."""
        slots, ctas = self._free()
        could = self._coming and len(slots) >= grid.warps and ctas and self._may_start(grid) and not held
        self._waits = self._waits + 1 if could and self._starting is None else 0
        if self._waits > _PROMPT:
            self.bench.fail(f"CTA {self._coming[0]} could start and does not")

    def _begin(self, grid: Grid) -> None:
        """The next CTA takes the lowest free slots."""
        slots, ctas = self._free()
        if self._starting is not None or not self._coming or len(slots) < grid.warps or not ctas:
            self.bench.fail("a CTA starts, and none can")
        self.bench.expect("whether the reference counter allows the CTA", self._may_start(grid), True)
        if grid.fields.get("CWD_REFERENCE_COUNT_INCR_ENABLE"):
            delta = grid.fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1
            self.references[grid.fields["CWD_REFERENCE_COUNT_ID"]] += delta
        self._starting = _Cta(ctas[0], self._coming.pop(0))
        self._running.append(self._starting)
        self.most = max(self.most, len(self._running))
        self._expected_slots = slots[:grid.warps]
        self.ctas += 1

    def _current(self) -> _Cta:
        """The CTA that is being started."""
        if self._starting is None:
            self.bench.fail("a CTA is prepared that has not started")
        return self._starting

    def _launched(self, grid: Grid, got: Any) -> None:
        """Compares a warp's start."""
        bench, cta = self.bench, self._current()
        number = len(cta.warps)
        slot = self._expected_slots[number]
        place = (int(got.index.x), int(got.index.y), int(got.index.z))
        expected = {
            "warp": slot, "number": number, "cta": cta.slot, "cta_warps": grid.warps, "first_row": slot * self._rows,
            "shared_base": cta.slot * self._piece, "local_base": (self._local + slot * self._block) // CRS_GRANULE}
        bench.expect(f"CTA {cta.index}: place in the grid", place, cta.index)
        for name, value in expected.items():
            bench.expect(f"CTA {cta.index}, warp {number}: {name}", int(got[name]), value)
        cta.warps.append(_Warp(cta, slot, number))
        self.warps += 1

    def _newest(self) -> _Warp:
        warps = self._current().warps
        if not warps:
            self.bench.fail("a warp is prepared that has not started")
        return warps[-1]

    def _indexed(self, grid: Grid, got: Any) -> None:
        """Compares a thread's place in its block."""
        warp = self._newest()
        linear = warp.number * WARP_THREADS + warp.threads
        width, height, _ = grid.block
        self.bench.expect(
            f"CTA {warp.cta.index}, thread {linear}: slot, number, x, y, z",
            (int(got.warp), int(got.thread), int(got.x), int(got.y), int(got.z)),
            (warp.slot, warp.threads, linear % width, linear // width % height, linear // (width * height)))
        warp.threads += 1
        self.threads += 1

    def _cleared_register(self, grid: Grid, got: Any) -> None:
        warp = self._newest()
        self.bench.expect(
            f"slot {warp.slot}: gather, slot, register, threads, last, scoreboard",
            (int(got.gather), int(got.warp), int(got.registers[0]), int(got.threads), int(got.last), int(got.barrier)),
            (0, warp.slot, warp.registers, (1 << WARP_THREADS) - 1, 0, 7))
        self.bench.expect(f"slot {warp.slot}: predicate, CC", (int(got.predicate), int(got.conditional)), (7, 0))
        warp.registers += 1

    def _cleared_shared(self, grid: Grid, bits: int) -> None:
        cta = self._current()
        cta.cleared = True
        self.bench.expect("shared memory: base, bytes", (bits & (1 << self.params.shared_bits) - 1,
                          bits >> self.params.shared_bits), (cta.slot * self._piece, self._piece))

    def _flowed(self, grid: Grid, got: Any) -> None:
        """Compares what the flow unit is told; from here on the warp runs."""
        warp, bench = self._newest(), self.bench
        where = f"CTA {warp.cta.index}, warp {warp.number}"
        left = grid.threads - warp.number * WARP_THREADS
        threads = (1 << min(WARP_THREADS, left)) - 1
        bench.expect(f"{where}: threads placed, registers cleared", (warp.threads, warp.registers),
                     (WARP_THREADS, grid.registers))
        if grid.shared:
            bench.expect(f"{where}: whether shared memory is clear", warp.cta.cleared, True)
        stack = got.stack
        bench.expect(
            f"{where}: slot, threads, pc, block, local memory, stack, calls checked",
            (int(got.warp), int(got.threads), int(got.pc), int(stack.base), int(stack.local), int(stack.size),
             int(stack.check_calls)),
            (warp.slot, threads, grid.fields.get("PROGRAM_OFFSET", 0),
             (self._local + warp.slot * self._block) // CRS_GRANULE, grid.local * WARP_THREADS // CRS_GRANULE,
             grid.crs // CRS_GRANULE, 1 - grid.fields.get("API_VISIBLE_CALL_LIMIT", 0)))
        warp.runs = True
        warp.ends_at = self.cycle + bench.random.randint((self._life + 1) // 2, self._life)
        if warp.number + 1 == grid.warps:
            self._starting = None

