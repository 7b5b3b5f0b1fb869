"""A machine as its host drives it, in simulation or on a board: registers, a launch descriptor,
memory.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.isa.registers import (
    CONTROL_RESET,
    COUNTER_BLOCK,
    COUNTERS,
    SM_REGISTERS,
    WORK_REGISTERS,
    counters_of,
)
from rtl.layouts import LaunchRejection, Policy
from rtl.params import SmParams
from sim.launch import Launch
from sim.launch.descriptor import place_descriptor
from sim.launch.memory import Memory
from sim.machine.host import REGISTERS, Driver, HardwareHost, HostAccess
from sim.machine.lockstep import Lockstep
from sim.machine.warp_state import WarpState
from sim.support.interrupt import Interrupted

__all__ = ["BaseMachine", "HardwareResult", "RunInterrupted"]

_CHUNK = 10_000
"""Cycles between two checks of the progress."""
_QUIET = 3
"""Number of chunks without an instruction or a memory request that count as a hang."""


@dataclass
class HardwareResult:
    """The end of a run.

    Attributes:
        status: ``ok``, ``error``, ``timeout`` or ``interrupted``.
        reason: Details of the status.
        diagnosis: What each warp waits for, if the status is not ``ok``.
        warps: Masks and stacks of the live warps by slot, if the status is not ``ok``.
        registers: The SM's registers by name.
        counters: All counters by name.
        rejection: The reason why the machine rejected the launch.
    """

    status: str
    cycles: int
    reason: str = ""
    rejection: LaunchRejection = LaunchRejection.NONE
    diagnosis: list[str] = field(default_factory=list)
    warps: dict[int, WarpState] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def instructions(self) -> int:
        """Number of warp instructions."""
        return self.counters.get("instructions", 0)

    @property
    def outcome(self) -> str:
        """Status and reason in one line."""
        if self.status == "interrupted":
            return f"interrupted after {self.cycles:,} cycles"
        return self.status + (f": {self.reason}" if self.reason else "")


class RunInterrupted(Interrupted):
    """A request to end the program that arrived during a run. ``result`` is the run's outcome so
    far.
    """

    def __init__(self, number: int, result: HardwareResult) -> None:
        super().__init__(number)
        self.result = result
        self.after = f"after {result.cycles:,} cycles"


class BaseMachine(HostAccess):
    """Base of the machines that run launches, one at a time, each after a reset of the machine.

    Attributes:
        params: Parameters of the machine.
        policy: Warp scheduling policy of the next run.
        memory: The machine's memory in the last run.
        lockstep: The comparison of the last run, None without one.
        cycles: Clock cycles of the last run so far.
        in_place: Whether launches run on their own memory, which then holds the results; otherwise
            on a copy.
    """

    def __init__(self, params: SmParams, policy: Policy = Policy.GREEDY_THEN_OLDEST) -> None:
        self.params, self.policy = params, policy
        self.in_place = False
        self.lockstep: Lockstep | None = None
        self.cycles = 0
        self._placed_memory = Memory()
        self._placed_bases: tuple[int, ...] = ()

    @abstractmethod
    async def settle(self) -> None:
        """Waits until all events that were in flight at the end of the run have been reported."""

    @abstractmethod
    def examine(self, result: HardwareResult) -> None:
        """Adds further state of the machine to the result of a run that ended in an error."""

    @abstractmethod
    def run(
        self,
        launch: Launch,
        limit: int,
        progress: Callable[[int], object] = lambda _cycles: None,
        *,
        report_mask: int = REPORT_MASK_RESET,
        driver: Driver | None = None,
    ) -> HardwareResult:
        """Runs to the end of the grid, an error, a mismatch, a hang, or ``limit`` cycles.

        Args:
            launch: The grid.
            limit: Limit in clock cycles.
            progress: Called from time to time with the number of cycles.
            report_mask: Bit n enables the report of warp errors of code n.
            driver: The host while the grid runs. Without one, a machine that is locked down stays
                so, which ends the run.
        """

    @property
    def requests(self) -> int:
        """Number of memory requests in the last run; 0 if they are not counted."""
        return 0

    # A run.

    def place(self, launch: Launch) -> tuple[int, int]:
        """Adds local memory and a descriptor to a copy of the launch's memory, or to that memory
        itself if the machine works in place.

        Returns:
            The addresses of local memory and descriptor.
        """
        self.memory = launch.memory if self.in_place else launch.memory.copy()
        before = set(self.memory.regions)
        self._placed_memory = self.memory
        try:
            return launch.allocate_local(self.params.warps, self.memory), place_descriptor(
                launch, self.memory
            )
        finally:
            self._placed_bases = self.memory.new_bases(before)

    def clear(self) -> None:
        """Frees the regions that :meth:`place` has added to the memory."""
        self._placed_memory.free_all(self._placed_bases)
        self._placed_bases = ()

    @property
    def differs(self) -> bool:
        """Whether the lockstep has found a mismatch."""
        return self.lockstep is not None and self.lockstep.difference is not None

    async def serve(
        self,
        launch: Launch,
        places: tuple[int, int],
        limit: int,
        result: HardwareResult,
        *,
        report_mask: int = REPORT_MASK_RESET,
        driver: Driver | None = None,
        progress: Callable[[int], object] = lambda _cycles: None,
    ) -> None:
        """Runs a launch that is in memory to the end of its grid, an error, a mismatch, a hang, or
        ``limit`` cycles.

        ``places`` is the result of :meth:`place`; ``result`` receives the outcome. Raises
        RunInterrupted after Ctrl-C, once the state has been read.
        """
        try:
            await self._serve(launch, places, limit, result, report_mask, driver, progress)
        except Interrupted as request:
            result.status = "interrupted"
            await self._finish(result)
            raise RunInterrupted(request.number, result) from None
        await self._finish(result)

    async def _serve(
        self,
        launch: Launch,
        places: tuple[int, int],
        limit: int,
        result: HardwareResult,
        report_mask: int,
        driver: Driver | None,
        progress: Callable[[int], object],
    ) -> None:
        """Runs a launch, without reading the final state."""
        await self._start(launch, places, report_mask, held=self.remote and driver is not None)
        if driver is not None:
            await driver(HardwareHost(self))
            self._outcome(result)
        else:
            await self._wait(limit, result, progress)

    async def _start(
        self, launch: Launch, places: tuple[int, int], report_mask: int, *, held: bool
    ) -> None:
        """Starts the grid, which waits for its release if it is ``held``."""
        if held:
            stop = SM_REGISTERS["DBGR_CONTROL0"].put(STOP_TRIGGER=1)
            await self.write(REGISTERS["DBGR_CONTROL0"], CONTROL_RESET | stop)
        await self.write(REGISTERS["HWW_WARP_ESR_REPORT_MASK"], report_mask)
        if launch.trap_handler is not None:
            await self.write(REGISTERS["TRAP_HANDLER"], launch.trap_handler)
            await self.write(REGISTERS["TRAP_CONTROL"], 1)
        for name, address in zip(
            ("PROGRAM_REGION", "LOCAL_MEMORY", "QMD_ADDRESS"),
            (launch.program_base, *places),
            strict=True,
        ):
            for part, value in (("A", address >> 32), ("B", address & 0xFFFF_FFFF)):
                await self.write(REGISTERS[f"{name}_{part}"], value)
        await self.write(REGISTERS["LAUNCH"], 1)

    def _outcome(self, result: HardwareResult) -> bool:
        """Whether the run has ended; sets the outcome."""
        if self.ended:
            result.status = "ok"
        elif self.locked_down:
            result.status = "error"
        return result.status != "timeout"

    async def _wait(
        self, limit: int, result: HardwareResult, progress: Callable[[int], object]
    ) -> None:
        """Waits until the grid has ended, or another event ends the run."""
        seen, quiet = 0, 0
        while self.cycles < limit:
            before, end = self.cycles, min(self.cycles + _CHUNK, limit)
            while self.cycles < end:
                if (
                    await self.advance(end - self.cycles) and self._outcome(result)
                ) or self.differs:
                    break
            progress(self.cycles - before)
            if self._outcome(result) or self.differs:
                return
            done = await self._counter("instructions") + self.requests
            quiet, seen = (quiet + 1 if done == seen else 0), done
            if quiet == _QUIET:
                result.reason = f"no warp has issued an instruction for {quiet * _CHUNK:,} cycles"
                return
        result.reason = f"not over after {self.cycles:,} cycles from the reset on"

    async def _counter(self, name: str) -> int:
        address = COUNTER_BLOCK + 8 * list(COUNTERS).index(name)
        low = await self.read(address)
        return low | await self.read(address + 4) << 32

    async def _finish(self, result: HardwareResult) -> None:
        """Reads the status.

        A machine that is still running continues to count while it is read: the cycles are read
        last, so that the idle cycles do not exceed them.
        """
        idle = await self._counter("idle")
        result.cycles = await self._counter("cycles")
        await self.settle()
        status = await self.read(REGISTERS["STATUS"])
        result.rejection = LaunchRejection(WORK_REGISTERS["STATUS"].get("REJECTION", status))
        if result.rejection is not LaunchRejection.NONE:
            result.status = "error"
        registers = await self.read_all(REGISTERS[name] for name in SM_REGISTERS)
        result.registers.update(zip(SM_REGISTERS, registers, strict=True))
        if result.status == "ok" and SM_REGISTERS["HWW_WARP_ESR"].get(
            "ERROR", result.registers["HWW_WARP_ESR"]
        ):
            result.status = "error"  # The error of a warp that has ended all the same.
        names = counters_of(self.params.counters)
        halves = await self.read_all(range(COUNTER_BLOCK, COUNTER_BLOCK + 8 * len(names), 4))
        result.counters.update(
            (name, low | high << 32)
            for name, low, high in zip(names, halves[::2], halves[1::2], strict=True)
        )
        result.counters.update(
            (name, value)
            for name, value in (("cycles", result.cycles), ("idle", idle))
            if name in names
        )
        if result.status != "ok":
            self.examine(result)
