"""Fetch and issue joined, with programs in memory: how fast instructions leave."""

from collections import deque
from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import Out, connect, flipped

from rtl.component import Component
from rtl.fetch import TAG_BITS, FetchUnit
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, next_address
from rtl.isa.table import find
from rtl.issue import IssueUnit
from rtl.layouts import KIND_RULES, IssueEvents, MemoryPort
from rtl.layouts import InstructionKind as Kind
from rtl.params import SmParams
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from sim.testbench import Bench
from testbench.scheduler.fetch_image import Image

__all__ = ["Front", "FrontDriver"]

FLOW_CYCLES = 7
"""From an instruction of the flow unit that leaves to its result, as the flow unit has it."""
COMPLETE_CYCLES = 6
"""From an instruction that leaves to its completion."""


class Front(Component):
    """The two units; all others have room.

    Members
    -------
    memory : Out(MemoryPort)
    events : Out(IssueEvents)
    """

    def __init__(self, params: SmParams) -> None:
        self.fetch, self.issue = FetchUnit(params), IssueUnit(params)
        super().__init__({"memory": Out(MemoryPort(TAG_BITS)), "events": Out(IssueEvents)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fetch = fetch = self.fetch
        m.submodules.issue = issue = self.issue
        connect(m, flipped(self.memory), fetch.memory)
        for sender, receiver in ((issue.redirect, fetch.redirect), (fetch.claimed, issue.claimed),
                                 (fetch.group, issue.group)):
            connect(m, sender, receiver)
        m.d.comb += [
            fetch.room.eq(issue.room), issue.rooms.as_value().eq(~0), self.events.eq(issue.events)]
        return m


class FrontDriver:
    """Runs a program on all warps.

    Parameters
    ----------
    bench : Bench
    image : Image
    params : SmParams
    behaviour : MemoryBehaviour

    Attributes
    ----------
    issued : list[tuple[int, int, int]]
        Cycle, warp and pc of each instruction.
    """

    def __init__(self, bench: Bench, image: Image, params: SmParams, behaviour: MemoryBehaviour | None = None) -> None:
        self.bench, self.image, self.params = bench, image, params
        self.dut = Front(params)
        self.server = MemoryServer(self.dut.memory, image.memory, behaviour or MemoryBehaviour(), bench.random)
        self.issued: list[tuple[int, int, int]] = []
        self._results: deque[tuple[int, int, int, bool]] = deque()
        self._completions: deque[tuple[int, int, int, int]] = deque()

    def rate(self, first: int, last: int) -> float:
        """Instructions a cycle, from one cycle to another."""
        return sum(first <= cycle < last for cycle, _, _ in self.issued) / (last - first)

    def run(self, cycles: int, warps: int, *, traces: Any = None) -> None:
        """Launches warps at pc 0 and simulates."""
        async def drive(ctx: Any) -> None:
            await self._drive(ctx, cycles, warps)

        self.bench.simulate(self.dut, [drive], background=[self.server.serve], traces=traces)

    async def _drive(self, ctx: Any, cycles: int, warps: int) -> None:
        issue, now = self.dut.issue, 0
        ctx.set(self.dut.fetch.grid, self.image.grid)
        async for _, _, valid, instruction in ctx.tick().sample(issue.instruction.valid, issue.instruction.payload):
            now += 1
            if valid:
                self._issued(now, instruction)
            ctx.set(issue.launched.valid, now <= warps)
            ctx.set(issue.launched.payload, min(now, warps) - 1)
            if now <= warps:
                self._results.append((now + FLOW_CYCLES, now - 1, 0, False))
            ctx.set(issue.result.valid, 0)
            if self._results and self._results[0][0] <= now:
                _, warp, pc, behind = self._results.popleft()
                ctx.set(issue.result.valid, 1)
                ctx.set(issue.result.payload, {"warp": warp, "pc": pc, "behind": behind})
            ctx.set(issue.lanes.valid, 0)
            if self._completions and self._completions[0][0] <= now:
                _, warp, write, read = self._completions.popleft()
                ctx.set(issue.lanes.valid, 1)
                ctx.set(issue.lanes.payload, {
                    "warp": warp, "completes": 1, "write_barrier": write, "read_barrier": read})
            if now >= cycles:
                break

    def _issued(self, now: int, instruction: Any) -> None:
        """Compares with the program, and answers as the unit would that executes it."""
        address, kind = instruction.pc, instruction.kind
        base = address & -GROUP_BYTES
        expected = self.image.group(base)[(address - base) // INSTRUCTION_BYTES - 1]
        self.bench.expect(f"word at {address:#x}", instruction.word, expected.word)
        self.issued.append((now, instruction.warp, address))
        if KIND_RULES[kind].unit == "flow":
            target = next_address(address)
            if kind is Kind.FLOW:
                form = find(instruction.word)
                assert form is not None
                target += form.values(instruction.word)["target"]
            self._results.append((now + FLOW_CYCLES, instruction.warp, target, target == next_address(address)))
        elif not KIND_RULES[kind].silent:
            self._completions.append((now + COMPLETE_CYCLES, instruction.warp, instruction.write_barrier,
                                      instruction.read_barrier))
