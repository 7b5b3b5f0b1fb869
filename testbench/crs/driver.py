"""Drives the call/return stacks of all warps at once, and compares each result with the
reference.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Value
from amaranth.lib import data

from rtl.crs import CallReturnStack
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKEN_BYTES, TokenKind
from rtl.layouts import (
    DEPTH_BITS,
    StackConfiguration,
    StackEvents,
    StackOperation,
    ThreadCodes,
    stack_request,
    stack_result,
)
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from sim.waves import View
from testbench.crs.limits import LEFT_CYCLES, PUSH_CYCLES
from testbench.crs.memory import StackMemory
from testbench.crs.reference import Outcome, StackReference, encode_token
from testbench.crs.serial import ParallelStack
from testbench.crs.statistics import StackStatistics, Wait
from testbench.crs.steps import PUSHES, Codes, Shown, Source, Start, Step, WarpStack, whole_lines
from testbench.driver import UnitDriver, flags_in

_SETTLING = 8
"""Cycles without activity after the last response of memory, after which the run ends."""
_UNWINDS = {
    StackOperation.UNWIND,
    StackOperation.POP_QUAD,
    StackOperation.RESTORE,
    StackOperation.CLEAR,
}
_LEAVES_DEPTH = _UNWINDS | {StackOperation.SET_POINTER}


@dataclass
class WarpSignals:
    """Testbench signals of one warp for the waveform: pc and active mask, which the stack does not
    have, and the depth.
    """

    pc: Any
    active: Any
    depth: Any


@dataclass
class _Pending:
    """A step that was taken and has no result yet. ``before`` is a copy of the stack before it,
    None unless the step may fault.
    """

    step: Step
    outcome: Outcome
    depth: int
    since: int
    before: StackReference | None


@dataclass(frozen=True)
class _Left:
    """The depth after a result, and the last cycle in which the hardware may report it."""

    depth: int
    deadline: int


@dataclass
class _Lane:
    """The state of one warp: its source of steps, and the steps in flight.

    ``outcome`` is the expected result of the last step, ``ready`` the first cycle in which the
    stack takes the next one.
    """

    stack: WarpStack
    source: Source
    outcome: Outcome = field(default_factory=Outcome)
    started: bool = False
    ended: bool = False
    blocked: bool = False
    write_faults: int = 0
    read_faults: int = 0
    left: _Left | None = None
    ready: int = 0
    pending: deque[_Pending] = field(default_factory=deque)

    def next(self) -> Step | None:
        """The next step of the source; None if it has none in this cycle or has ended."""
        try:
            step = self.source.send(self.outcome) if self.started else next(self.source)
        except StopIteration:
            self.ended = True
            return None
        self.started = True
        return step


@lru_cache(maxsize=1 << 12)
def _code_bits(codes: Codes) -> int:
    """The codes of all threads as the bits of the hardware's array."""
    return _bits(_CODES, dict(enumerate(codes)))


def _places(layout: Any) -> dict[Any, tuple[int, int]]:
    """Offset of each field of a structure, and a mask of its width."""
    return {
        name: (field.offset, (1 << field.width) - 1) for name, field in data.Layout.cast(layout)
    }


_CODES, _CONFIGURATION = _places(ThreadCodes), _places(StackConfiguration)


def _bits(places: Mapping[Any, tuple[int, int]], values: Mapping[Any, Any]) -> int:
    """The bits of a structure with the given fields; all others are 0."""
    return sum(
        int(getattr(value, "value", value)) << places[name][0] for name, value in values.items()
    )


def _numbers(places: Mapping[str, tuple[int, int]], bits: int) -> SimpleNamespace:
    """The fields of a structure as integers."""
    return SimpleNamespace(
        **{name: bits >> offset & mask for name, (offset, mask) in places.items()}
    )


class Driver(UnitDriver):
    """Drives a stack with one source of steps for each warp.

    Warps that have a request make it in random order; a request is held until it is taken. All
    outputs are compared with the reference model: results, the depth after an unwind, the kill bit,
    the bytes in memory after a write-back, faults, and at the end the number of tokens pushed.

    Parameters:
        bench: Simulates and reports.
        params: Parameters of the SM; the number of warps.
        random: Random numbers for the order of requests and the behaviour of memory.
        behaviour: Latency and interval of memory.
        failures: Probability that memory refuses a line.
        gap: Probability that no request is made in a cycle in which one could be made.
        polite: Requests are made only for warps that are ready to take one.

    Attributes:
        stacks: The stack of each warp.
        taken: The cycle in which each request was taken.
        statistics: Cycles, latencies and events of the run.
    """

    patience = 4000

    def __init__(
        self,
        bench: Bench,
        params: SmParams,
        random: Random,
        behaviour: MemoryBehaviour | None = None,
        *,
        failures: float = 0.0,
        gap: float = 0.0,
        polite: bool = False,
    ) -> None:
        dut: Any = ParallelStack(params) if params.serial else CallReturnStack(params)
        self.memory = StackMemory(random, failures)
        self._behaviour = behaviour or MemoryBehaviour()
        self._server = MemoryServer(dut.port, self.memory, self._behaviour, random)
        super().__init__(bench, dut, self._server)
        self.stacks = [
            WarpStack(warp, self.memory, params.stack_tokens) for warp in range(params.warps)
        ]
        self.statistics = StackStatistics()
        self._random, self._gap, self._polite = random, gap, polite
        self._request_places, self._result_places = (
            _places(stack_request(params)),
            _places(stack_result(params)),
        )
        self._lanes: list[_Lane] = []
        self._asked: tuple[_Lane, Step] | None = None
        self._entering: tuple[_Lane, Step, WarpError] | None = None
        self.taken: list[int] = []
        self._pushed = 0
        self._signals: Sequence[WarpSignals] | None = None

    @property
    def memory_depths(self) -> Mapping[int, int]:
        """How often each number of requests was in flight when memory took one, including that
        one.
        """
        return self._server.depths

    def run(
        self,
        starts: Sequence[Start],
        *,
        top: Any = None,
        traces: View | None = None,
        name: str = "",
        signals: Sequence[WarpSignals] | None = None,
    ) -> StackStatistics:
        """Simulates until every source has ended; returns the statistics.

        Args:
            starts: The sources of the first warps; the remaining warps have none.
            top: The module to simulate if the stack is a part of it.
            traces, name: As in :meth:`Bench.simulate`.
            signals: Waveform signals of each warp, set by the driver.
        """
        self._signals = signals
        self._lanes = [
            _Lane(stack, start(stack)) for stack, start in zip(self.stacks, starts, strict=False)
        ]
        self.statistics.cycles = super().run(top=top, traces=traces, name=name)
        self._check_totals(self._server)
        return self.statistics

    async def _drive(self, ctx: Any) -> None:
        dut = self.dut
        settling = rest = self._behaviour.latency[1] + _SETTLING
        self._ask(ctx)
        ticks = self._ticks(
            ctx,
            dut.request.ready,
            dut.killed,
            dut.events.as_value(),
            dut.result.valid,
            Value.cast(dut.result.payload),
            dut.committed.valid,
            dut.committed.payload.as_value(),
            dut.write_fault.valid,
            dut.write_fault.payload,
            dut.holes,
            dut.entry,
        )
        left_places = _places(dut.committed.payload.shape())
        async for (
            taken,
            killed,
            reported,
            has_result,
            result,
            left,
            stack,
            fault,
            fault_warp,
            holes,
            entry,
        ) in ticks:
            events = flags_in(StackEvents, reported)
            self.statistics.events.update(events)
            self._check_entry(int(holes), WarpError(entry))
            self._check_left(_numbers(left_places, stack) if left else None)
            if self._asked is not None:
                if taken:
                    self._take(bool(killed))
                else:
                    self._wait(events)
            if has_result:
                self._finish(ctx, _numbers(self._result_places, result))
            if fault:
                self._lanes[fault_warp].write_faults += 1
            if self._asked is None:
                self._ask(ctx)
            if self._asked is None and all(lane.ended and not lane.pending for lane in self._lanes):
                # A line that was prefetched may start the prefetch of the next one.
                rest = settling if events & {"fill", "spill"} else rest - 1
                if not rest:
                    return

    def _ask(self, ctx: Any) -> None:
        """Makes the next request of a random warp, if there is one."""
        free = [lane for lane in self._lanes if not lane.blocked and not lane.ended]
        if free and self._polite:
            free = [lane for lane in free if self.cycle >= lane.ready]
        if free and self._random.random() >= self._gap:
            self._random.shuffle(free)
            for lane in free:
                if (step := lane.next()) is not None:
                    self._put(ctx, lane, step)
                    return
        ctx.set(self.dut.request.valid, 0)

    def _put(self, ctx: Any, lane: _Lane, step: Step) -> None:
        """Sets the request port to a step; the request is held until it is taken."""
        request, warp = step.request, lane.stack.warp
        ctx.set(
            Value.cast(self.dut.request.payload),
            _bits(
                self._request_places,
                {**vars(request), "warp": warp, "codes": _code_bits(request.codes)},
            ),
        )
        configuration = {}
        if step.launch is not None:
            stack = step.launch.reference
            configuration = {
                "base": stack.base,
                "local": step.launch.local,
                "size": stack.granules,
                "check_calls": stack.check_calls,
            }
        elif request.operation is StackOperation.SET_BASE:
            configuration = {"base": request.operand}
        ctx.set(Value.cast(self.dut.configuration), _bits(_CONFIGURATION, configuration))
        ctx.set(self.dut.request.valid, 1)
        self._show(ctx, warp, step.before)
        self._asked = lane, step

    def _wait(self, events: Collection[str]) -> None:
        """Counts why the request was not taken in this cycle."""
        assert self._asked is not None
        _, step = self._asked
        cause = (
            Wait.LINE if "full" in events else Wait.TURN if "taken" in events else Wait.OPERATION
        )
        self.statistics.waits[cause] += 1
        if step.request.operation in PUSHES:
            self.statistics.push_waits[cause] += 1

    def _take(self, killed: bool) -> None:
        """The request was taken in this cycle: applies it to the reference model."""
        assert self._asked is not None
        lane, step = self._asked
        self._asked = None
        self._happened()
        self.taken.append(self.cycle)
        self.statistics.operations += 1
        stack, request = lane.stack, step.request
        self.bench.expect(
            f"warp {stack.warp}: kill bit at {request.operation.name}", killed, stack.reference.kill
        )
        before = (
            replace(stack.reference, tokens=list(stack.reference.tokens))
            if step.may_fault
            else None
        )
        if step.launch is not None:
            stack.reference, stack.local = (
                replace(step.launch.reference, tokens=[], memory=[]),
                step.launch.local,
            )
        if request.operation is StackOperation.SET_MODE and request.operand & 1:
            self._entering = lane, step, stack.reference.entry
        depth = stack.depth
        lane.outcome = stack.reference.apply(request) if step.fault is None else step.fault
        lane.blocked, lane.ready = step.blocks, self.cycle + PUSH_CYCLES - 1
        self._pushed += request.operation in PUSHES and stack.depth - depth
        lane.pending.append(_Pending(step, lane.outcome, stack.depth, self.cycle, before))

    def _finish(self, ctx: Any, result: Any) -> None:
        """Compares a result with the oldest step in flight of its warp."""
        lane = self._lanes[result.warp]
        self._happened()
        if not lane.pending:
            self.bench.fail(f"warp {result.warp}: a result without a request")
        done = lane.pending.popleft()
        step, stack = done.step, lane.stack
        operation = step.request.operation
        if WarpError(result.error) is WarpError.MMU_FAULT:
            self._check_fault(lane, operation)
        if step.may_fault and WarpError(result.error) is WarpError.MMU_FAULT:
            self._forgive(lane, done)
        else:
            self._compare(result, done)
        self.statistics.latencies.setdefault(operation, []).append(self.cycle - done.since)
        if (
            operation in _LEAVES_DEPTH
            and step.request.enable
            and (operation not in _UNWINDS or lane.outcome.resume or lane.outcome.empty)
        ):
            lane.left = _Left(stack.depth, self.cycle + LEFT_CYCLES)
        if operation is StackOperation.WRITE_BACK and step.fault is None and step.request.enable:
            self._check_memory(stack)
        lane.blocked &= bool(lane.pending)
        self._show(ctx, stack.warp, step.after, done.depth)

    def _compare(self, result: Any, done: _Pending) -> None:
        """Compares a result with that of the reference model."""
        outcome, operation = done.outcome, done.step.request.operation
        got = {
            "resume": bool(result.resume),
            "empty": bool(result.empty),
            "error": WarpError(result.error),
        }
        if outcome.kind is not None:
            got["kind"] = TokenKind(result.kind)
        if (
            outcome.pc is not None and operation is not StackOperation.POP_QUAD
        ):  # no thread jumps to a QUAD token's pc
            got["pc"] = result.pc
        for name in ("mask", "value"):
            if getattr(outcome, name) is not None:
                got[name] = getattr(result, name)
        where = f"warp {result.warp}, {operation.name} at depth {done.depth}"
        for name, value in got.items():
            self.bench.expect(f"{where}: {name}", value, getattr(outcome, name))
        if outcome.codes is not None:
            self.bench.expect(f"{where}: codes", result.codes, _code_bits(outcome.codes))

    def _check_fault(self, lane: _Lane, operation: StackOperation) -> None:
        """Checks a result with MMU_FAULT against the reads that memory refused.

        A refused line fails one unwind, and any number of pushes before it.
        """
        lane.read_faults += operation not in PUSHES
        refused = sum(map(lane.stack.owns, self.memory.refused_reads))
        if lane.read_faults > refused or not refused:
            self.bench.fail(
                f"warp {lane.stack.warp}: MMU_FAULT, though memory has refused only {refused} lines"
            )

    def _forgive(self, lane: _Lane, done: _Pending) -> None:
        """A step failed with MMU_FAULT, as it may: restores the reference model; RESTORE leaves the
        trap handler all the same.
        """
        assert done.before is not None
        done.before.trap &= done.step.request.operation is not StackOperation.RESTORE
        if done.step.request.operation in PUSHES:
            self._pushed -= done.depth - len(done.before.tokens)
        lane.stack.reference = done.before
        lane.outcome = Outcome(error=WarpError.MMU_FAULT)

    def _check_entry(self, holes: int, entry: WarpError) -> None:
        """Compares the number of holes below a frame and the room for it, a cycle after SET_MODE
        has requested the trap handler.

        There is no room either if memory has refused the line of the frame.
        """
        if self._entering is None:
            return
        (lane, step, expected), self._entering = self._entering, None
        stack = lane.stack
        self.bench.expect(
            f"warp {stack.warp}: holes under a frame", holes, whole_lines(stack.depth) - stack.depth
        )
        if step.may_fault and entry is WarpError.MMU_FAULT:
            stack.reference.trap = not step.request.operand & 2
        else:
            self.bench.expect(
                f"warp {stack.warp}: room for a frame at depth {stack.depth}", entry, expected
            )

    def _check_left(self, committed: Any) -> None:
        """Compares the depth that the hardware reports after an unwind or SET_POINTER, and checks
        that it is reported in time.

        ``committed`` is the report of this cycle, None if there is none.
        """
        for lane in self._lanes:
            if lane.left is None:
                continue
            if committed is not None and committed.warp == lane.stack.warp:
                self.bench.expect(
                    f"warp {committed.warp}: depth that is left",
                    (committed.last + 1) % (1 << DEPTH_BITS),
                    lane.left.depth,
                )
                lane.left = None
            elif self.cycle >= lane.left.deadline:
                self.bench.fail(
                    f"warp {lane.stack.warp}: nothing is said of depth {lane.left.depth}, which is left"
                )

    def _check_memory(self, stack: WarpStack) -> None:
        """Checks memory after a write-back: all tokens, and holes above them up to a whole line."""
        if not stack.reference.granules:
            return
        tokens = stack.reference.tokens
        for index in range(whole_lines(len(tokens))):
            got = stack.memory.read(stack.region + index * TOKEN_BYTES, TOKEN_BYTES)
            expected = encode_token(tokens[index]) if index < len(tokens) else bytes(TOKEN_BYTES)
            self.bench.expect(
                f"warp {stack.warp}, token {index} of {len(tokens)} in memory",
                got.hex(),
                expected.hex(),
            )

    def _check_totals(self, server: MemoryServer) -> None:
        """Compares the totals of the run: tokens pushed, lines filled and spilled, write faults."""
        events = self.statistics.events
        self.bench.expect("tokens pushed", events["push"], self._pushed)
        self.bench.expect("lines filled", events["fill"], server.reads)
        self.bench.expect("lines spilled", events["spill"], server.writes)
        for lane in self._lanes:
            self.bench.expect(
                f"warp {lane.stack.warp}: write faults",
                lane.write_faults,
                sum(map(lane.stack.owns, self.memory.refused_writes)),
            )

    def _due(self) -> list[str]:
        waiting = [
            f"warp {lane.stack.warp} for the result of {lane.pending[0].step.request.operation.name}"
            for lane in self._lanes
            if lane.pending
        ]
        if self._asked is not None:
            lane, step = self._asked
            waiting.append(
                f"warp {lane.stack.warp} for its {step.request.operation.name} to be taken"
            )
        return waiting

    def _show(self, ctx: Any, warp: int, shown: Shown | None, depth: int | None = None) -> None:
        """Sets the waveform signals of a warp."""
        if self._signals is None or warp >= len(self._signals):
            return
        signals = self._signals[warp]
        if shown is not None:
            ctx.set(signals.pc, shown.pc)
            ctx.set(signals.active, shown.active)
        if depth is not None:
            ctx.set(signals.depth, depth)
