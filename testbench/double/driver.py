"""Drives the unit for double precision with instructions of many warps, and compares all that it does."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rtl.double import DoubleUnit
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT
from rtl.layouts import EventLayout, InstructionKind, dispatched
from rtl.params import WARP_THREADS, SmParams
from sim.testbench import Bench
from sim.toolchain.spelling import spell
from testbench.double.cases import BANK, DoubleCase
from testbench.driver import UnitDriver
from testbench.execute.lane_client_driver import LaneClientDriver, LaneOperation

_DISPATCH_CYCLES = 3
"""From an instruction's selection to its dispatch."""
_NO_BARRIER = 7
_SERIALS = 1 << 16


@dataclass
class _Flying:
    """An instruction that was selected."""

    case: DoubleCase
    serial: int
    warp: int
    selected: int
    operations: list[LaneOperation] = field(default_factory=list)


class DoubleDriver(UnitDriver):
    """Plays cases, each on a warp that has nothing else under way.

    Parameters:
        bench: Whose random numbers decide when instructions come; reports differences.
        params: Sizes of the hardware.
        idle: How often no instruction is selected although there is room, and the lanes and the constants have no time.
        delay: Cycles by which the lanes are later.

    Attributes:
        done: Instructions that are complete.
        cycles: Name of an instruction -> cycles from its selection to its completion.
    """

    def __init__(self, bench: Bench, params: SmParams, cases: Iterable[DoubleCase], *, idle: float = 0.3,
                 delay: int = 0) -> None:
        dut = DoubleUnit(params)
        self.lanes = LaneClientDriver(bench, params, dut.port, idle=idle, delay=delay, ended=self._ended)
        super().__init__(bench, dut, self.lanes)
        self.done = 0
        self.cycles: dict[str, list[int]] = {}
        self._params, self._idle = params, idle
        self._cases = iter(cases)
        self._case = next(self._cases, None)
        self._coming = deque([0] * _DISPATCH_CYCLES)
        self._flying: deque[_Flying] = deque()
        self._asked: deque[tuple[int, int]] = deque()
        """Constants that the unit waits for: the cycle in which they are there, and what they are."""
        self._constants = 0
        """Instructions whose constant was asked for."""
        self._serial = bench.random.randrange(_SERIALS)
        self._layout = EventLayout(dispatched(params))

    async def _drive(self, ctx: Any) -> None:
        """All cases."""
        dut, waits = self.dut, False
        self._advance(ctx)
        async for bank, address, asks, takes in self._ticks(
                ctx, dut.indexed.payload.bank, dut.indexed.payload.address, dut.indexed.valid, dut.value.ready):
            if waits and takes:
                self._asked.popleft()
            if asks and ctx_ready:
                self._ask(int(bank), int(address))
            waits = bool(self._asked) and self.bench.random.random() >= self._idle
            ctx.set(dut.value.valid, waits)
            if waits:
                ctx.set(dut.value.payload, {"value": self._asked[0][1], "missing": 0})
            ctx_ready = not self._asked and self.bench.random.random() >= self._idle
            ctx.set(dut.indexed.ready, ctx_ready)
            if self._case is None and not self._flying:
                return
            self._advance(ctx)
