"""The reference model of the work distributor: lists of slots, and the expected outputs for each
warp.
"""

from dataclasses import dataclass, field
from typing import Any

from rtl.isa.tokens import CRS_GRANULE
from rtl.params import WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from testbench.launch.grid import Grid

PROGRAM, LOCAL = 0x1_2345_6700, 0x30_0000_0000
"""The host's settings: address of pc 0, and of local memory."""
REFERENCE_MOST = 65535
_PROMPT = 300
"""Maximum number of cycles until a CTA starts that can start."""


@dataclass
class StartedCta:
    """A CTA that has started and not ended."""

    slot: int
    index: tuple[int, int, int]
    warps: list["StartedWarp"] = field(default_factory=list)
    kept: bool = False
    cleared: bool = False


@dataclass(eq=False)
class StartedWarp:
    """A warp of a started CTA."""

    cta: StartedCta
    slot: int
    number: int
    threads: int = 0
    registers: int = 0
    runs: bool = False
    ends_at: int = -1
    drains_at: int = -1
    over_at: int | None = None


class PlainDistributor:
    """Follows the hardware cycle by cycle, and compares its outputs.

    Attributes:
        references: The expected values of the reference counters.
        running: CTAs that have not ended, in any order.
        coming: Indices of the CTAs that have not started, in order.
        ctas, warps, threads: Number of CTAs, warps and threads that were started and compared.
        most: Maximum number of CTAs in flight.
        now: The current cycle.
    """

    def __init__(
        self, bench: Bench, params: SmParams, references: dict[int, int], life: int
    ) -> None:
        self.bench, self.params, self.references, self.life = bench, params, references, life
        self.coming: list[tuple[int, int, int]] = []
        self.running: list[StartedCta] = []
        self._starting: StartedCta | None = None
        self._expected_slots: list[int] = []
        self._waits = self._slots = self._cta_slots = self._rows = self._piece = self._block = 0
        self.ctas = self.warps = self.threads = self.most = self.now = 0

    def check_configuration(self, grid: Grid, got: Any, banks: Any) -> None:
        """Compares the outputs to the units about the grid, and its constant banks."""
        fields = grid.fields
        expected = {
            "program": PROGRAM,
            "entry": fields.get("PROGRAM_OFFSET", 0),
            "registers": grid.registers,
            "barriers": fields.get("BARRIER_COUNT", 0),
            "shared": grid.shared,
            "local": grid.local,
            "stack": grid.crs // CRS_GRANULE,
            "check_calls": 1 - fields.get("API_VISIBLE_CALL_LIMIT", 0),
        }
        for name, value in expected.items():
            self.bench.expect(f"grid: {name}", int(got[name]), value)
        for name, values in (("grid", grid.size), ("block", grid.block)):
            self.bench.expect(
                f"grid: {name}", tuple(int(got[name][axis]) for axis in "xyz"), values
            )
        for bank, parts in enumerate(
            zip(
                *(
                    fields.get(f"CONSTANT_BUFFER_{name}", (0,) * 8)
                    for name in ("VALID", "ADDR_LOWER", "ADDR_UPPER", "SIZE")
                ),
                strict=True,
            )
        ):
            valid, lower, upper, size = parts
            accesses = banks[bank]
            self.bench.expect(
                f"grid: constant bank {bank}",
                (int(accesses.valid), int(accesses.address), int(accesses.size)),
                (valid, lower | upper << 32, size),
            )

    def plan(self, grid: Grid) -> None:
        """Computes the slots and memory of each CTA and warp, and the CTAs to be started."""
        rows = max(8, -(-grid.registers // 8) * 8)
        piece = -(-grid.shared // 256) * 256
        self._rows, self._piece = rows, piece
        self._slots = min(self.params.warps, self.params.registers // rows)
        ctas = (
            min(self.params.warps, self.params.shared_bytes // piece)
            if piece
            else self.params.warps
        )
        self._cta_slots = 1 if grid.fields.get("SEQUENTIALLY_RUN_CTAS") else ctas
        self._block = grid.local * WARP_THREADS + grid.crs
        width, height, depth = grid.size
        self.coming = [(x, y, z) for z in range(depth) for y in range(height) for x in range(width)]
        self._waits = 0

    def freed(self, grid: Grid, occupied: int) -> None:
        """Compares the CTAs whose slots the distributor has freed with those that have ended."""
        for cta in list(self.running):
            if cta is self._starting:
                continue
            gone = [warp for warp in cta.warps if not occupied >> warp.slot & 1]
            if gone:
                self.bench.expect("warps of a CTA that are freed", len(gone), len(cta.warps))
                over = all(warp.over_at is not None for warp in cta.warps)
                self.bench.expect(
                    f"whether CTA {cta.index}, whose slots are freed, is over", over, True
                )
                self.running.remove(cta)
                if grid.fields.get("CWD_REFERENCE_COUNT_DECR_ENABLE") and not cta.kept:
                    number = grid.fields["CWD_REFERENCE_COUNT_ID"]
                    delta = grid.fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1
                    self.references[number] = max(0, self.references[number] - delta)
            elif all(
                warp.over_at is not None and self.now > warp.over_at + 2 * self.params.warps + 4
                for warp in cta.warps
            ):
                self.bench.fail(f"CTA {cta.index} is over, but its slots are not free")

    def _free(self) -> tuple[list[int], list[int]]:
        """Free warp slots and CTA slots."""
        taken = {warp.slot for cta in self.running for warp in cta.warps}
        ctas = {cta.slot for cta in self.running}
        return (
            [slot for slot in range(self._slots) if slot not in taken],
            [cta for cta in range(self._cta_slots) if cta not in ctas],
        )

    def _may_start(self, grid: Grid) -> bool:
        """Whether the reference counter allows another CTA."""
        if not grid.fields.get("CWD_REFERENCE_COUNT_INCR_ENABLE"):
            return True
        delta = grid.fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1
        return self.references[grid.fields["CWD_REFERENCE_COUNT_ID"]] + delta <= REFERENCE_MOST

    def hurry(self, grid: Grid, held: bool) -> None:
        """Fails if a CTA could have started for long and has not."""
        slots, ctas = self._free()
        could = (
            self.coming and len(slots) >= grid.warps and ctas and self._may_start(grid) and not held
        )
        self._waits = self._waits + 1 if could and self._starting is None else 0
        if self._waits > _PROMPT:
            self.bench.fail(f"CTA {self.coming[0]} could start and does not")

    def begin(self, grid: Grid) -> None:
        """Starts the next CTA in the lowest free slots."""
        slots, ctas = self._free()
        if self._starting is not None or not self.coming or len(slots) < grid.warps or not ctas:
            self.bench.fail("a CTA starts, and none can")
        self.bench.expect(
            "whether the reference counter allows the CTA", self._may_start(grid), True
        )
        if grid.fields.get("CWD_REFERENCE_COUNT_INCR_ENABLE"):
            delta = grid.fields["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"] + 1
            self.references[grid.fields["CWD_REFERENCE_COUNT_ID"]] += delta
        self._starting = StartedCta(ctas[0], self.coming.pop(0))
        self.running.append(self._starting)
        self.most = max(self.most, len(self.running))
        self._expected_slots = slots[: grid.warps]
        self.ctas += 1

    def _current(self) -> StartedCta:
        """The CTA that is being started."""
        if self._starting is None:
            self.bench.fail("a CTA is prepared that has not started")
        return self._starting

    def launched(self, grid: Grid, got: Any) -> None:
        """Compares the launch of a warp."""
        bench, cta = self.bench, self._current()
        number = len(cta.warps)
        slot = self._expected_slots[number]
        place = (int(got.index.x), int(got.index.y), int(got.index.z))
        expected = {
            "warp": slot,
            "number": number,
            "cta": cta.slot,
            "cta_warps": grid.warps,
            "first_row": slot * self._rows,
            "shared_base": cta.slot * self._piece,
            "local_base": (LOCAL + slot * self._block) // CRS_GRANULE,
        }
        bench.expect(f"CTA {cta.index}: place in the grid", place, cta.index)
        for name, value in expected.items():
            bench.expect(f"CTA {cta.index}, warp {number}: {name}", int(got[name]), value)
        cta.warps.append(StartedWarp(cta, slot, number))
        self.warps += 1

    def _newest(self) -> StartedWarp:
        warps = self._current().warps
        if not warps:
            self.bench.fail("a warp is prepared that has not started")
        return warps[-1]

    def indexed(self, grid: Grid, got: Any) -> None:
        """Compares the index of a thread in its block."""
        warp = self._newest()
        linear = warp.number * WARP_THREADS + warp.threads
        width, height, _ = grid.block
        self.bench.expect(
            f"CTA {warp.cta.index}, thread {linear}: slot, number, x, y, z",
            (int(got.warp), int(got.thread), int(got.x), int(got.y), int(got.z)),
            (
                warp.slot,
                warp.threads,
                linear % width,
                linear // width % height,
                linear // (width * height),
            ),
        )
        warp.threads += 1
        self.threads += 1

    def cleared_row(self, row: int) -> None:
        """Compares the row of the register that is cleared in the newest warp."""
        warp = self._newest()
        self.bench.expect(f"slot {warp.slot}: row", row, warp.slot * self._rows + warp.registers)
        warp.registers += 1

    def cleared_shared(self, grid: Grid, bits: int) -> None:
        cta = self._current()
        cta.cleared = True
        self.bench.expect(
            "shared memory: base, bytes",
            (bits & (1 << self.params.shared_bits) - 1, bits >> self.params.shared_bits),
            (cta.slot * self._piece, self._piece),
        )

    def flowed(self, grid: Grid, got: Any) -> None:
        """Compares the outputs to the flow unit, after which the warp runs."""
        warp, bench = self._newest(), self.bench
        where = f"CTA {warp.cta.index}, warp {warp.number}"
        left = grid.threads - warp.number * WARP_THREADS
        threads = (1 << min(WARP_THREADS, left)) - 1
        bench.expect(
            f"{where}: threads placed, registers cleared",
            (warp.threads, warp.registers),
            (WARP_THREADS, grid.registers),
        )
        if grid.shared:
            bench.expect(f"{where}: whether shared memory is clear", warp.cta.cleared, True)
        stack = got.stack
        bench.expect(
            f"{where}: slot, threads, pc, block, local memory, stack, calls checked",
            (
                int(got.warp),
                int(got.threads),
                int(got.pc),
                int(stack.base),
                int(stack.local),
                int(stack.size),
                int(stack.check_calls),
            ),
            (
                warp.slot,
                threads,
                grid.fields.get("PROGRAM_OFFSET", 0),
                (LOCAL + warp.slot * self._block) // CRS_GRANULE,
                grid.local * WARP_THREADS // CRS_GRANULE,
                grid.crs // CRS_GRANULE,
                1 - grid.fields.get("API_VISIBLE_CALL_LIMIT", 0),
            ),
        )
        warp.runs = True
        warp.ends_at = self.now + bench.random.randint((self.life + 1) // 2, self.life)
        if warp.number + 1 == grid.warps:
            self._starting = None
