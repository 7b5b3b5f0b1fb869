"""Runs cases on the hardware."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from rtl.params import PRESETS
from sim.debugger.driver import (
    all_paused,
    grid_over,
    locked_down,
    resume,
    resume_paused,
    suspend,
    wait,
)
from sim.engine import Engine
from sim.launch import Launch
from sim.machine.hardware import Hardware, HardwareResult
from sim.machine.host import HardwareHost
from sim.model.thread.run import ThreadFaultError
from sim.model.thread.run import run as run_threads
from testbench.fuzz.cases import Case, Kind
from testbench.fuzz.coverage import Coverage, Observer
from testbench.sm.random_programs import Program, shrink
from testbench.words import memory_left

__all__ = ["Outcome", "Player"]

_LIMIT = 64_000_000
"""Largest number of cycles of a program; random words may loop without end."""
_WORDS_LIMIT = 20_000


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case. ``seconds`` is processor time; ``failure`` describes the error, None
    if there was none.
    """

    number: int
    kind: str
    status: str
    instructions: int
    cycles: int
    seconds: float
    failure: str | None
    coverage: Coverage = field(default_factory=Coverage)


def _stopping(pauses: tuple[int, ...]) -> Callable[[HardwareHost], Awaitable[None]]:
    """Returns a host that stops and resumes the machine at intervals, and at the end also resumes
    paused warps.
    """

    async def drive(host: HardwareHost) -> None:
        await resume(host)  # the grid was held until the host was ready
        for pause in pauses:
            await host.run(pause)
            if await grid_over(host):
                return
            await suspend(host)
            await resume_paused(host)
        end = host.cycles + _LIMIT
        while host.cycles < end and not host.failed:
            await wait(host, _over_or_held, end - host.cycles)
            if await grid_over(host):
                return
            await suspend(host)  # warps that paused without a trap are woken only in a trap
            await resume_paused(host)

    return drive


async def _over_or_held(host: HardwareHost) -> bool:
    return await grid_over(host) or await locked_down(host) or await all_paused(host)


class Player:
    """A machine that runs one case after the other.

    Args:
        preset: Name of the machine.
        engine: Name of the simulation engine.
    """

    def __init__(self, preset: str, engine: type[Engine]) -> None:
        self._hardware = Hardware(PRESETS[preset], engine, check=True)

    def play(self, case: Case) -> Outcome:
        """Runs a case and returns its outcome."""
        began, observer = time.process_time(), Observer()
        self._hardware.on_instruction, self._hardware.on_trap_entry = observer, observer.entered
        launch = case.launch()
        result = self._run(case, launch)
        failure = self._wrong(case, launch, result)
        lockstep = self._hardware.lockstep
        assert lockstep is not None
        return Outcome(
            case.number,
            case.kind.name,
            result.status,
            lockstep.compared,
            result.cycles,
            time.process_time() - began,
            failure,
            observer.coverage,
        )

    def smallest(self, case: Case) -> Program:
        """Returns the smallest program derived from a failing case that still fails."""
        return shrink(
            case.program,
            lambda program: self.play(replace(case, program=program)).failure is not None,
        )

    def _run(self, case: Case, launch: Launch) -> HardwareResult:
        hardware = self._hardware
        hardware.policy, hardware.latency, hardware.disorder = (
            case.policy,
            case.latency,
            case.disorder,
        )
        return hardware.run(
            launch,
            _WORDS_LIMIT if case.kind is Kind.WORDS else _LIMIT,
            driver=_stopping(case.pauses) if case.kind in (Kind.STOPPED, Kind.TRAPS) else None,
        )

    def _wrong(self, case: Case, launch: Launch, result: HardwareResult) -> str | None:
        """Returns the error of a run, or None. Random words may have any effect, but the same one
        on both sides.
        """
        hardware, lockstep = self._hardware, self._hardware.lockstep
        assert lockstep is not None
        if lockstep.difference is not None:
            return str(lockstep.difference)
        if result.status != "ok" and not (case.kind is Kind.TRAPS and hardware.ended):
            waits = all(warp.barrier is not None for warp in lockstep.machine.live)
            if case.kind is Kind.WORDS and (
                result.status == "error" or hardware.cycles >= _WORDS_LIMIT or waits
            ):
                return None  # an error, a loop, or a barrier that waits without end, on both sides
            return "\n".join([f"{result.status} {result.reason}".strip(), *result.diagnosis])
        if pending := lockstep.pending():
            return f"not complete in the end: {pending[0]}"
        if (where := lockstep.compare_memory(hardware.memory)) is not None:
            return where
        return self._alone(case, launch) if case.kind is Kind.ALONE else None

    def _alone(self, case: Case, launch: Launch) -> str | None:
        """Returns the difference from the results of threads that run alone."""
        alone = case.launch()
        try:
            run_threads(alone)
        except ThreadFaultError as error:
            return f"threads that run alone: {error}"
        here, there = memory_left(replace(launch, memory=self._hardware.memory)), memory_left(alone)
        different = [name for name in there if here[name] != there[name]]
        return (
            f"threads that run alone leave something else in {', '.join(different)}"
            if different
            else None
        )
