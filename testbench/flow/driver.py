"""Drives the flow unit and its stack with instructions of many warps, and compares every result."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect

from rtl.component import Component
from rtl.execute.common import CommonDecoder
from rtl.execute.condition import ConditionTest
from rtl.fpga.control_flow import ControlFlow
from rtl.isa.condition import Flags
from rtl.isa.control_code import next_address
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import (
    DEPTH_BITS,
    STACK_RESULT_CYCLES,
    FlowOperation,
    InstructionKind,
    TrapMove,
    flow_result,
)
from rtl.machines import units_of
from rtl.params import WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.launch.memory import Memory
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from sim.toolchain.assembly.spelling import spell
from testbench.crs.limits import TOKEN_CYCLES
from testbench.driver import UnitDriver, offer
from testbench.flow.steps import FlowStep, Start, Stream
from testbench.scheduler.branches import predicted_branch

ALL_REPORTED = 0x00FF_FFFF
"""The report mask with all errors reported."""
HIT_CYCLES = 1 + 1 + STACK_RESULT_CYCLES + 1
"""The maximum number of cycles from the dispatch of an instruction to that of the warp's next one,
if the stack needs no memory.

One cycle each for the queue and the first stage of the unit, the stack (its result is the unit's in
the same cycle), and one cycle after it.
"""
PUSH_CYCLES = 2
"""The same for a push."""
ENTRY_CYCLES = 20
"""The same for an entry into the trap handler: two cycles for the mode, each hole and each token,
and the result.
"""
_QUIET_CYCLES = 24
"""Cycles after a result until the stack pointer is written for certain: the second token of a
branch may wait for an unwind.
"""
_NEAR = (FlowOperation.NONE, FlowOperation.BRANCH)
"""Operations after which the warp may continue where fetch has continued."""
_RESTS = 0.1
"""Probability that a warp sends nothing after a result until its stack pointer has been compared.
"""


class FlowBench(Component):
    """The hardware under test: the queue that decodes, the flow unit and the stack.

    Members
    -------
    valid, ready, warp, word, pc, guard, conditions, operand, same, fault
        An instruction, as its word. It is dispatched when the unit takes it; with a queue of one
        place, when the queue is empty.
    move : In(TrapMove)
        An operation of the trap unit in place of the instruction, unless it is NONE.

    Attributes
    ----------
    unit
        The flow unit with its stack. Its other ports are not connected.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(
            {
                "valid": In(1),
                "ready": Out(1),
                "warp": In(params.warp_bits),
                "word": In(WORD_BITS),
                "pc": In(32),
                "guard": In(WARP_THREADS),
                "conditions": In(data.ArrayLayout(Flags, WARP_THREADS)),
                "operand": In(32),
                "same": In(WARP_THREADS),
                "fault": In(WarpError),
                "move": In(TrapMove),
            }
        )
        self.unit = ControlFlow(params)
        self._params = params

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = units_of(self._params).flow_queue(self._params)
        m.submodules.common = common = CommonDecoder()
        m.submodules.test = test = ConditionTest()
        m.submodules.unit = unit = self.unit
        dispatched = queue.dispatch.payload
        connect(m, queue.request, unit.request)
        operation, kind = self.move.operation, Signal(InstructionKind, init=InstructionKind.LEAVE)
        with m.Switch(operation):
            with m.Case(FlowOperation.NONE):
                m.d.comb += kind.eq(InstructionKind.FLOW)
            with m.Case(FlowOperation.BRANCH, FlowOperation.ENTER_TRAP):
                m.d.comb += kind.eq(InstructionKind.ENTER)
        m.d.comb += [
            self.ready.eq(~queue.request.valid if self._params.serial else unit.request.ready),
            queue.dispatch.valid.eq(self.valid & self.ready),
            queue.trap.eq(self.move),
            dispatched.kind.eq(kind),
            common.word.eq(self.word),
            test.flags.eq(self.conditions),
            test.test.eq(common.instruction.test),
            dispatched.guard.eq(self.guard & test.passed),
            dispatched.operands[0].eq(self.operand),
        ]
        m.d.comb += dispatched.word.eq(self.word)
        m.d.comb += dispatched.warp.eq(self.warp)
        m.d.comb += dispatched.pc.eq(self.pc)
        m.d.comb += dispatched.same.eq(self.same)
        m.d.comb += dispatched.fault.eq(self.fault)
        return m


@dataclass
class _Warp:
    """A hardware warp and the stream that it executes."""

    stream: Stream | None = None
    position: int = -1
    """The index of the next step; -1 is the launch."""
    flying: deque[tuple[Start | FlowStep, int]] = field(default_factory=deque)
    """The steps in flight and the cycle of their dispatch, oldest first."""
    blocked: bool = False
    """The next step has to wait for the last one's result."""
    depth: int = 0
    quiet_at: int = -1
    """The first cycle in which no operation of the warp is in flight."""
    rests_until: int = -1
    """The warp sends nothing before this cycle."""
    done: str = ""
    """The name of the last finished step."""
    expected_depth: int = 0
    served_at: int = 0
    """The cycle in which its last request was served: after a push at least two cycles later."""


class FlowDriver(UnitDriver):
    """Plays streams on all warps of the hardware at once.

    Parameters:
        bench: Source of random numbers for the order of warps; reports differences.
        warps: Number of warps of the hardware.
        streams: The streams, each taken by the next idle warp.
        behaviour: Behaviour of the memory behind the stack.
        report_mask: The report mask of the hardware.
        idle: Probability that nothing is sent in a cycle.
        lanes: Number of lanes of the hardware; 1 for a serial machine.

    Attributes:
        steps, depths: Number of compared results and stack pointers.
        cycles: For each instruction, the cycles from its request to the first one in which the
            warp's next request may be served.
        gaps: For each instruction, the cycles from its request to the warp's next one, without
            those for each popped token after the first.
        sent, busy_cycles: Number of requests, and the cycles from the first to the last one.
    """

    limit = 10_000_000

    def __init__(
        self,
        bench: Bench,
        warps: int,
        streams: Iterable[Stream],
        behaviour: MemoryBehaviour | None = None,
        *,
        report_mask: int = ALL_REPORTED,
        idle: float = 0.05,
        lanes: int = 4,
    ) -> None:
        params = SmParams(warps=warps, lanes=lanes, floats=False, doubles=False)
        dut = FlowBench(params)
        self.memory = Memory()
        self.server = MemoryServer(
            dut.unit.port, self.memory, behaviour or MemoryBehaviour(), bench.random
        )
        super().__init__(bench, dut, self.server)
        self.steps = self.depths = self.sent = self.busy_cycles = 0
        self.cycles: dict[str, list[int]] = {}
        self.gaps: dict[str, list[int]] = {}
        self._streams: Iterator[Stream] = iter(streams)
        self._warps = [_Warp() for _ in range(warps)]
        self._report_mask = report_mask
        self._idle = idle
        self._layout = flow_result(params)
        self._predicts = not params.serial
        self._last = 0

    async def _drive(self, ctx: Any) -> None:
        """Runs until all streams have been played."""
        dut, unit = self.dut, self.dut.unit
        ctx.set(unit.report_mask, self._report_mask)
        sent: tuple[int, bool] | None = None
        first = None
        pushes, commits = unit.flow.stack.pushed, unit.stack.committed
        ticks = self._ticks(
            ctx,
            dut.ready,
            unit.launch.ready,
            unit.result.valid,
            unit.result.payload.as_value(),
            pushes.valid,
            pushes.payload.warp,
            commits.valid,
            commits.payload,
        )
        async for (
            ready,
            launch_ready,
            result_valid,
            result,
            pushed,
            pushing,
            committed,
            committing,
        ) in ticks:
            if pushed:
                self._warps[pushing].depth += 1
            if committed:
                self._warps[committing.warp].depth = (committing.last + 1) % (1 << DEPTH_BITS)
            if sent is not None and (launch_ready if sent[1] else ready):
                self._accepted(sent[0])
                ctx.set(unit.launch.valid if sent[1] else dut.valid, 0)
                sent = None
                self.sent += 1
                first = first or self.cycle
                self.busy_cycles = self.cycle - first + 1
            if result_valid:
                self._happened()
                self._result(result)
            for number, warp in enumerate(self._warps):
                if warp.quiet_at == self.cycle and not warp.flying:
                    self._check_depth(number, warp)
            if sent is None and self.bench.random.random() >= self._idle:
                sent = self._send(ctx)
            flying = sent is not None or any(warp.flying for warp in self._warps)
            if self.cycle - self._happened_at >= _QUIET_CYCLES and not flying and not self._left():
                break

    def _due(self) -> list[str]:
        return [
            f"warp {number} at {_name(warp.flying[0][0])}"
            for number, warp in enumerate(self._warps)
            if warp.flying
        ]

    def _left(self) -> bool:
        """Whether any request is left to send."""
        return any(self._refill(warp) for warp in self._warps)

    def _refill(self, warp: _Warp) -> bool:
        """Whether the warp has a request to send; takes a new stream if the last one has ended.

        At the end of a stream the stack pointer is compared first.
        """
        if warp.stream is None or warp.position >= len(warp.stream.steps):
            if warp.flying or self.cycle < warp.quiet_at:
                return False
            warp.stream, warp.position = next(self._streams, None), -1
        return warp.stream is not None

    def _send(self, ctx: Any) -> tuple[int, bool] | None:
        """Sets a port to the next request of a warp. Returns the warp, and whether the request is a
        launch; None without a request.
        """
        can = [
            number
            for number, warp in enumerate(self._warps)
            if not warp.blocked and self.cycle >= warp.rests_until and self._refill(warp)
        ]
        if not can:
            return None
        # Round robin, so that no warp waits without end; with idle cycles a random warp.
        later = [number for number in can if number > self._last]
        self._last = number = self.bench.random.choice(can) if self._idle else (later or can)[0]
        warp, dut = self._warps[number], self.dut
        assert warp.stream is not None
        if warp.position < 0:
            start = warp.stream.start
            if start.size:
                self.memory.map(f"stack {start.base:#x}", start.base + start.local, start.size)
            offer(
                ctx,
                dut.unit.launch,
                {
                    "warp": number,
                    "threads": start.threads,
                    "pc": start.pc,
                    "stack": {
                        "base": start.base // CRS_GRANULE,
                        "local": start.local // CRS_GRANULE,
                        "size": start.size // CRS_GRANULE,
                        "check_calls": start.check_calls,
                    },
                },
            )
            return number, True
        step = warp.stream.steps[warp.position]
        for port, value in (
            (dut.warp, number),
            (dut.word, step.word),
            (dut.pc, step.pc),
            (dut.guard, step.guard),
            (dut.conditions.as_value(), step.conditions),
            (dut.operand, step.operand),
            (dut.same, step.same),
            (dut.fault, step.fault),
            (dut.valid, 1),
        ):
            ctx.set(port, value)
        ctx.set(dut.move, {"operation": step.move, "pc": step.pc, "target": step.target})
        warp.blocked = True
        return number, False

    def _accepted(self, number: int) -> None:
        warp = self._warps[number]
        assert warp.stream is not None
        item = warp.stream.start if warp.position < 0 else warp.stream.steps[warp.position]
        steps = warp.stream.steps
        behind = warp.position > 0 and self._goes_ahead(steps[warp.position - 1])
        served = max(self.cycle, warp.served_at + PUSH_CYCLES) if behind else self.cycle
        if isinstance(item, FlowStep) and warp.position > 0:
            position = warp.position - 1
            popped = steps[position - 1].depth - steps[position].depth if position else 0
            self.gaps.setdefault(steps[position].name, []).append(
                served - warp.served_at - TOKEN_CYCLES * max(popped - 1, 0)
            )
        warp.flying.append((item, served))
        warp.served_at = served
        warp.position += 1
        warp.blocked = isinstance(item, Start) or not self._goes_ahead(item)

    def _result(self, bits: int) -> None:
        """Compares a result with the oldest step in flight of its warp."""
        bench, result, codes = self.bench, self._layout.from_bits(bits), self._layout["codes"]
        number = int(result.warp)
        warp = self._warps[number]
        if not warp.flying:
            bench.fail(f"warp {number}: a result that nothing was asked for")
        item, accepted = warp.flying.popleft()
        assert warp.stream is not None
        where = f"{warp.stream.name}, {_name(item)}"
        if isinstance(item, Start):
            expected = FlowStep(0, 0, item.pc, item.threads, _codes_at_start(item.threads))
        else:
            expected = item
            self.cycles.setdefault(item.name, []).append(
                1 if item.pushes else self.cycle - accepted + 1
            )
        got = (WarpError(result.error), bool(result.terminated), bool(result.kept))
        bench.expect(
            f"{where}: error, end, reference kept",
            got,
            (expected.error, expected.terminated, expected.kept),
        )
        if not expected.terminated:
            bench.expect(f"{where}: pc", int(result.pc), expected.pc_after)
            if isinstance(item, FlowStep):
                succeeds = item.error is WarpError.NONE and item.unreported is WarpError.NONE
                bench.expect(
                    f"{where}: goes on where fetch has continued",
                    bool(result.as_predicted),
                    succeeds and item.move in _NEAR and item.pc_after == self._predicted_pc(item),
                )
        if expected.error is not WarpError.NONE:
            bench.expect(f"{where}: pc of the error", int(result.request_pc), expected.pc)
        bench.expect(f"{where}: active threads", int(result.active), expected.active)
        bench.expect(
            f"{where}: codes", bits >> codes.offset & (1 << codes.width) - 1, expected.codes
        )
        if expected.value is not None:
            bench.expect(f"{where}: value", int(result.value), expected.value)
        if expected.memory:
            start = warp.stream.start
            bench.expect(
                f"{where}: bytes of the stack",
                self.memory.read(start.base + start.local, len(expected.memory)).hex(" ", 16),
                expected.memory.hex(" ", 16),
            )
        self.steps += 1
        warp.blocked = warp.blocked and bool(warp.flying)
        warp.quiet_at = self.cycle + _QUIET_CYCLES
        if self._idle and self.bench.random.random() < _RESTS:
            warp.rests_until = warp.quiet_at
        warp.expected_depth, warp.done = expected.depth, where

    def _goes_ahead(self, item: FlowStep) -> bool:
        """Whether the warp may send its next instruction without waiting for the result: after a
        push, or a branch that all threads take.
        """
        is_branch = self._predicts and item.move is FlowOperation.NONE
        branch = predicted_branch(item.word, item.pc) if is_branch else None
        return item.pushes or (branch is not None and not branch.needs_result)

    def _predicted_pc(self, item: FlowStep) -> int:
        """The pc at which fetch has continued after an instruction."""
        is_branch = self._predicts and item.move is FlowOperation.NONE
        branch = predicted_branch(item.word, item.pc) if is_branch else None
        return next_address(item.pc) if branch is None else branch.target

    def _check_depth(self, number: int, warp: _Warp) -> None:
        self.bench.expect(
            f"warp {number}: depth of the stack after {warp.done}", warp.depth, warp.expected_depth
        )
        self.depths += 1


def _codes_at_start(threads: int) -> int:
    """The codes after a launch: threads that are not in its mask are KILLED, which is 1."""
    return sum(1 << 3 * thread for thread in range(WARP_THREADS) if not threads >> thread & 1)


def _name(item: Start | FlowStep) -> str:
    if isinstance(item, Start):
        return "launch"
    return f"{item.pc:#x} {spell(item.word) if item.move is FlowOperation.NONE else item.name}"
