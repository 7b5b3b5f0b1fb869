"""Executes the instructions of a world on the memory unit, with models of lanes and memory, and
compares the results.
"""

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.layouts import CONSTANT_BANKS, InstructionKind
from rtl.machines import units_of
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from sim.waves import Mark, Trace, View, error_text, instruction
from testbench.driver import UnitDriver, as_struct, offer
from testbench.execute.lane_client_driver import LaneClientDriver, LaneOperation
from testbench.memory.coverage import MemoryCoverage
from testbench.memory.world import CTAS, SHARED_BYTES, MemoryStep, MemoryWorld

PARAMS = SmParams(warps=4, lanes=8, registers=256, shared_bytes=4096)
_GRANULE = 512
_SELECT_CYCLES = 3
"""Cycles from the selection of an instruction, which requires room, to its dispatch."""
_SEQUENCES = 1 << 16
_SHARED_GRANULE = 256
"""Alignment of a CTA's shared memory in bytes."""


@dataclass(frozen=True)
class StepEnd:
    """The cycle in which an instruction ended, and the lines and accesses to shared memory up to
    then.
    """

    cycle: int
    lines: int
    shared_cycles: int


class MemoryDriver(UnitDriver):
    """Sends all steps of a world in order. Instructions must end in the same order for each warp.

    Parameters:
        params: Parameters of the hardware, with as many warps as the world.
        behaviour: Behaviour of the memory.
        idle: Probability that nothing is selected in a cycle, and that the lanes are busy.
        compare_memory: Whether memory is compared at the end. After a fault in the middle of a
            store it may differ.
        coverage: Counts the instructions and requests in flight.
        alone: Whether an instruction is sent only when the one before has ended; always true on one
            lane.

    Attributes:
        steps: Number of instructions with the expected results.
        lines, shared_cycles: Number of events of the unit.
        ends: The end of each instruction.
    """

    def __init__(
        self,
        bench: Bench,
        world: MemoryWorld,
        params: SmParams = PARAMS,
        *,
        behaviour: MemoryBehaviour | None = None,
        idle: float = 0.0,
        compare_memory: bool = True,
        coverage: MemoryCoverage | None = None,
        alone: bool = False,
    ) -> None:
        dut = units_of(params).memory(params)
        self.memory = world.memory.copy()
        self.server = MemoryServer(
            dut.memory, self.memory, behaviour or MemoryBehaviour(), bench.random
        )
        self.lanes = LaneClientDriver(bench, params, dut.port, idle=idle, ended=self._lanes_ended)
        super().__init__(bench, dut, self.server, self.lanes)
        self.world, self.params, self._idle, self._alone = (
            world,
            params,
            idle,
            alone or params.serial,
        )
        self.steps = self.lines = self.shared_cycles = 0
        self.ends: list[StepEnd] = []
        self._clearing: int | None = None
        self._compare_memory = compare_memory
        self._coverage = MemoryCoverage() if coverage is None else coverage
        self._sent: defaultdict[int, deque[tuple[int, MemoryStep]]] = defaultdict(deque)
        self._selected: deque[tuple[int, MemoryStep]] = deque()
        self._freed: set[int] = set()

    def run(self, *arguments: Any, **how: Any) -> int:
        """Simulates until all steps have ended, and compares registers and memory; returns the
        number of cycles.
        """
        self.lanes.registers.update(
            {key: list(values) for key, values in self.world.registers.items()}
        )
        cycles = super().run(*arguments, **how)
        self._coverage.requested(self.server.depths)
        for warp in self.world.warps:
            for register, values in enumerate(warp.registers.tolist()):
                if (warp.slot, register) in self.lanes.registers:
                    self.bench.expect(
                        f"R{register} of warp {warp.slot}",
                        self.lanes.registers[warp.slot, register],
                        values,
                    )
        if self._compare_memory:
            for name_, (base, size) in self.world.machine.memory.regions.items():
                self.bench.expect(
                    f"memory of {name_}",
                    self.memory.read(base, size),
                    self.world.machine.memory.read(base, size),
                )
        return cycles

    async def _drive(self, ctx: Any) -> None:
        dut, steps, sent = self.dut, deque(self.world.steps), 0
        await self._begin(ctx)
        offers = False
        ticks = self._ticks(
            ctx,
            dut.room,
            as_struct(dut.completion),
            as_struct(dut.error),
            dut.events,
            dut.clear.ready,
        )
        async for room, completion, error, events, cleared in ticks:
            if not self._under_way:
                self._happened()
            self.lines += events.line
            self.shared_cycles += events.shared
            if error.valid:
                self._error(error)
            if completion.valid:
                self._completed(completion, bool(error.valid))
            if error.valid and not completion.valid:
                self.bench.fail("an error without a completion")
            if offers:
                ctx.set(dut.dispatch.valid, 0)
                ctx.set(dut.local_base.valid, 0)
                offers = False
            if cleared and self._clearing is not None:
                ctx.set(dut.clear.valid, 0)
                self._clearing = None
            if self._selected and self._selected[0][0] <= self.cycle:
                self._dispatch(ctx, self._selected.popleft()[1], sent)
                sent += 1
                offers = True
            elif (
                steps
                and room
                and self.bench.random.random() >= self._idle
                and not (self._alone and (self._under_way or self._selected))
            ):
                self._next(ctx, steps)
                offers = True
            if (
                not steps
                and not self._selected
                and not self._under_way
                and self._clearing is None
                and self.lanes.quiet
            ):
                return

    def _due(self) -> list[str]:
        return [self._name(warp) for warp, sent in self._sent.items() if sent]

    @property
    def _under_way(self) -> bool:
        """Whether instructions are in flight."""
        return any(self._sent.values())

    def _next(self, ctx: Any, steps: deque[MemoryStep]) -> None:
        """Selects the next instruction, or starts the next operation that is not an instruction."""
        step = steps[0]
        if self._clearing == self.world.cta_of(step.warp):
            return
        if step.local_base is None and not step.clear:
            self._selected.append((self.cycle + _SELECT_CYCLES - 1, steps.popleft()))
        elif step.local_base is not None:
            if not self._selected:
                steps.popleft()
                offer(
                    ctx,
                    self.dut.local_base,
                    {"warp": step.warp, "base": step.local_base // _GRANULE},
                )
        elif not self._under_way and not self._selected:
            steps.popleft()
            self._clearing = self.world.cta_of(step.warp)
            ctx.set(
                self.dut.clear.payload,
                {"base": self.shared_base(step.warp), "bytes": self.world.machine.launch.shared},
            )
            ctx.set(self.dut.clear.valid, 1)

    async def _begin(self, ctx: Any) -> None:
        """Configures the grid and launches its warps."""
        dut, world = self.dut, self.world
        launch = world.machine.launch
        ctx.set(dut.report_mask, world.machine.report_mask)
        banks = [
            {
                "valid": bank in world.bank_places,
                "address": world.bank_places.get(bank, 0),
                "size": len(launch.banks.get(bank, b"")),
            }
            for bank in range(CONSTANT_BANKS)
        ]
        ctx.set(dut.grid, {"shared": launch.shared, "local": launch.local, "banks": banks})
        for slot, base in enumerate(world.bases):
            offer(
                ctx,
                dut.launch,
                {
                    "warp": slot,
                    "shared_base": self.shared_base(slot),
                    "local_base": base // _GRANULE,
                },
            )
            await ctx.tick()
        ctx.set(dut.launch.valid, 0)

    def shared_base(self, slot: int) -> int:
        """The base of the shared memory of a warp's CTA: the first CTA is at the beginning, the
        last one at the end.
        """
        left = self.params.shared_bytes - max(SHARED_BYTES, self.world.machine.launch.shared)
        return self.world.cta_of(slot) * left // (CTAS - 1) & -_SHARED_GRANULE

    def _dispatch(self, ctx: Any, step: MemoryStep, sequence: int) -> None:
        """Dispatches an instruction. Threads execute it that are active and whose guard holds."""
        random, everybody = self.bench.random, (1 << 32) - 1
        idle = everybody & ~step.threads
        missing = random.getrandbits(32) & idle
        offer(
            ctx,
            self.dut.dispatch,
            {
                "warp": step.warp,
                "sequence": sequence % _SEQUENCES,
                "pc": 8 * sequence,
                "word": step.word,
                "kind": InstructionKind.MEMORY,
                "active": step.threads | missing,
                "guard": step.threads | idle & ~missing,
                "write_barrier": step.write_barrier,
                "read_barrier": step.read_barrier,
            },
        )
        self._sent[step.warp].append((sequence, step))
        self._coverage.accepted(sum(map(len, self._sent.values())))

    def _oldest(self, warp: int) -> tuple[int, MemoryStep]:
        """The sequence number and the step of the instruction of a warp that has to end next."""
        if not self._sent[warp]:
            self.bench.fail(f"warp {warp} has no instruction under way")
        return self._sent[warp][0]

    def _error(self, error: Any) -> None:
        sequence, step = self._oldest(error.warp)
        self.bench.expect(
            f"error of {self._name(error.warp)}", WarpError(error.error).name, step.error.name
        )
        self.bench.expect("pc of an error", error.pc, 8 * sequence)

    def _completed(self, completion: Any, error: bool) -> None:
        """Compares an instruction that ends without a register write."""
        sequence, step = self._oldest(completion.warp)
        record, name = step.record, self._name(completion.warp)
        assert record is not None
        self.bench.expect(f"error of {name}", error, step.error is not WarpError.NONE)
        if record.registers or record.predicates:
            self.bench.fail(f"{name} ended without writing its registers")
        freed = sequence in self._freed
        self.bench.expect(
            f"sequence number of a completion of {name}", completion.sequence, sequence % _SEQUENCES
        )
        self.bench.expect("write barrier", completion.write_barrier, step.write_barrier)
        self.bench.expect(
            "read barrier", completion.read_barrier, NO_BARRIER if freed else step.read_barrier
        )
        self._end(completion.warp)

    def _lanes_ended(self, operation: LaneOperation) -> None:
        """Compares an operation that the lanes have executed."""
        if not operation.last:
            return
        if operation.gather:
            self._gathered(operation)
            return
        sequence, step = self._oldest(operation.warp)
        record, name = step.record, self._name(operation.warp)
        self.bench.expect(
            f"sequence number of an operation for {name}", operation.sequence, sequence % _SEQUENCES
        )
        self.bench.expect("write barrier", operation.barrier, step.write_barrier)
        assert record is not None
        if step.error is not WarpError.NONE or not (record.registers or record.predicates):
            self.bench.fail(f"{name} writes registers")
        for register, (_, values) in record.registers.items():
            self.bench.expect(
                f"R{register} after {name}", self.lanes.registers[step.warp, register], list(values)
            )
        for predicate, (threads, mask) in record.predicates.items():
            self.bench.expect(
                f"P{predicate} after {name}",
                self.lanes.predicates[step.warp, predicate] & threads,
                mask,
            )
        self._end(operation.warp)

    def _gathered(self, operation: LaneOperation) -> None:
        """Counts an instruction that has read its registers; it need not be the oldest one."""
        found = [
            (sequence, step)
            for sequence, step in self._sent[operation.warp]
            if sequence % _SEQUENCES == operation.sequence and sequence not in self._freed
        ]
        if not found:
            self.bench.fail(
                f"registers read for instruction {operation.sequence}, which does not wait for any"
            )
        sequence, step = found[0]
        self.bench.expect("read barrier", operation.barrier, step.read_barrier)
        self._freed.add(sequence)
        self._coverage.read_registers(
            sum(number in self._freed for sent in self._sent.values() for number, _ in sent)
        )

    def _name(self, warp: int) -> str:
        sequence, step = self._oldest(warp)
        return f"instruction {sequence}, word {step.word:#018x}, of warp {step.warp}, threads {step.threads:#x}"

    def _end(self, warp: int) -> None:
        self._sent[warp].popleft()
        self.steps += 1
        self._happened()
        self.ends.append(StepEnd(self.cycle, self.lines, self.shared_cycles))

    def traces(self) -> View:
        """The traced signals of the unit."""
        dut = self.dut
        gather, write, request, response = (
            dut.port.gather,
            dut.port.write,
            dut.memory.request,
            dut.memory.response,
        )
        return View(
            {
                "instruction": {
                    "text": instruction(dut.dispatch.valid, dut.dispatch.payload.word),
                    "valid": dut.dispatch.valid,
                    "warp": Trace(dut.dispatch.payload.warp, "dec"),
                    "word": dut.dispatch.payload.word,
                    "room": dut.room,
                },
                "lanes": {
                    **{
                        f"{name}_{what}": value
                        for name, operation in (("gather", gather), ("write", write))
                        for what, value in (
                            ("valid", operation.valid),
                            ("ready", operation.ready),
                            ("warp", Trace(operation.payload.warp, "dec")),
                            ("last", operation.payload.last),
                        )
                    },
                    "gathered": dut.port.data.gathered.valid,
                    "wanted": dut.port.data.wanted.valid,
                },
                "memory": {
                    "request": request.valid,
                    "taken": request.ready,
                    "write": request.payload.write,
                    "tag": Trace(request.payload.tag, "dec"),
                    "address": request.payload.address,
                    "answer": response.valid,
                    "answered": Trace(response.payload.tag, "dec"),
                },
                "shared": {"served": dut.events.shared, "atomic": dut.events.atomic},
                "end": {
                    "completion": dut.completion.valid,
                    "error": error_text(dut.error.valid, dut.error.payload.error),
                },
            },
            ("instruction", "memory", "shared", "end"),
            [Mark("request", [request.valid])],
            100,
        )
