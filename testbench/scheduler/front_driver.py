"""Fetch and issue connected, with programs in memory: measures the issue rate."""

from collections import deque
from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import Out, connect, flipped

from rtl.component import Component
from rtl.fetch import TAG_BITS
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, next_address
from rtl.layouts import KIND_RULES, IssueEvents
from rtl.layouts import InstructionKind as Kind
from rtl.machines import units_of
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from testbench.driver import UnitDriver, offer
from testbench.scheduler.branches import predicted_branch
from testbench.scheduler.fetch_driver import describe
from testbench.scheduler.fetch_image import Image
from testbench.words import form_of

FLOW_CYCLES = 7
"""Cycles from a flow instruction at the output to its result."""
COMPLETE_CYCLES = 6
"""Cycles from an instruction at the output to its completion."""


class Front(Component):
    """Fetch and issue connected; all other units always have room.

    Members
    -------
    memory : Out(memory_port)
        Port of the memory for instructions and constants.
    events : Out(IssueEvents)
        Events of issue.
    """

    def __init__(self, params: SmParams) -> None:
        units = units_of(params)
        self.fetch, self.issue = units.fetch(params), units.issue(params)
        super().__init__({"memory": Out(units.memory_port(TAG_BITS)), "events": Out(IssueEvents)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fetch = fetch = self.fetch
        m.submodules.issue = issue = self.issue
        connect(m, flipped(self.memory), fetch.memory)
        for sender, receiver in (
            (issue.redirect, fetch.redirect),
            (fetch.claimed, issue.claimed),
            (fetch.group, issue.group),
        ):
            connect(m, sender, receiver)
        m.d.comb += [
            fetch.room.eq(issue.room),
            issue.rooms.as_value().eq(~0),
            self.events.eq(issue.events),
        ]
        return m


class FrontDriver(UnitDriver):
    """Runs a program on several warps.

    Attributes:
        issued: Cycle, warp and pc of each issued instruction.
    """

    def __init__(
        self, bench: Bench, image: Image, params: SmParams, behaviour: MemoryBehaviour | None = None
    ) -> None:
        dut = Front(params)
        super().__init__(
            bench,
            dut,
            MemoryServer(dut.memory, image.memory, behaviour or MemoryBehaviour(), bench.random),
        )
        self.image, self.params = image, params
        self.issued: list[tuple[int, int, int]] = []
        self._results: deque[tuple[int, dict[str, int]]] = deque()
        self._completions: deque[tuple[int, dict[str, int]]] = deque()

    def rate(self, first: int, last: int) -> float:
        """Issued instructions per cycle, between two cycles."""
        return sum(first <= cycle < last for cycle, _, _ in self.issued) / (last - first)

    async def _drive(self, ctx: Any, cycles: int, warps: int) -> None:
        """Launches ``warps`` warps at pc 0 and runs for ``cycles`` cycles."""
        issue = self.dut.issue
        ctx.set(self.dut.fetch.grid, self.image.grid)
        if self.params.serial:
            await describe(ctx, self.dut.fetch, self.image)
        async for valid, instruction in self._ticks(
            ctx, issue.instruction.valid, issue.instruction.payload
        ):
            now = self.cycle
            if valid:
                self._happened()
                self._issued(now, instruction)
            ctx.set(issue.launched.valid, now <= warps)
            ctx.set(issue.launched.payload, min(now, warps) - 1)
            if now <= warps:
                self._result(now - 1, 0, False)
            for port, coming in ((issue.result, self._results), (issue.lanes, self._completions)):
                offer(ctx, port, coming.popleft()[1] if coming and coming[0][0] <= now else None)
            if now >= cycles:
                break

    def _issued(self, now: int, instruction: Any) -> None:
        """Compares an issued instruction with the program, and schedules its result and
        completion.
        """
        address, kind = instruction.pc, instruction.kind
        base = address & -GROUP_BYTES
        expected = self.image.group(base)[(address - base) // INSTRUCTION_BYTES - 1]
        self.bench.expect(f"word at {address:#x}", instruction.word, expected.word)
        self.issued.append((now, instruction.warp, address))
        if KIND_RULES[kind].unit == "flow":
            target = predicted = next_address(address)
            if kind is Kind.FLOW:
                form = form_of(instruction.word)
                target += form.values(instruction.word)["target"]
                branch = predicted_branch(instruction.word, address)
                if branch is not None and not self.params.serial:
                    predicted = branch.target
            self._result(instruction.warp, target, target == predicted)
        elif not KIND_RULES[kind].silent:
            self._completions.append(
                (
                    now + COMPLETE_CYCLES,
                    {
                        "warp": instruction.warp,
                        "completes": 1,
                        "write_barrier": instruction.write_barrier,
                        "read_barrier": instruction.read_barrier,
                    },
                )
            )

    def _result(self, warp: int, pc: int, as_predicted: bool) -> None:
        self._results.append(
            (self.cycle + FLOW_CYCLES, {"warp": warp, "pc": pc, "as_predicted": as_predicted})
        )
