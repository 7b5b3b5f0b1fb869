"""What runs the launches of a demo: the hardware in simulation, or the warp model."""

from collections.abc import Callable
from typing import Protocol

from rtl.params import SmParams
from sim.demo.scenes import PICTURE
from sim.engine import Engine
from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.hardware import Hardware
from sim.model.warp import Machine
from sim.report.hardware import describe_hardware
from sim.report.run import describe

__all__ = ["DemoError", "HardwareRunner", "ModelRunner", "Runner"]

_LIMIT = 1_000_000_000
"""Cycles, or instructions of the model, after which a launch is given up."""
_STEP = 10_000
Progress = Callable[[int], object]
"""Is told how many cycles, or instructions of the model, have passed since the last time."""


class DemoError(Exception):
    """A launch that did not end well: its report."""


class Runner(Protocol):
    """Runs launches.

    Attributes
    ----------
    unit : str
        What ``cycles`` counts.
    cycles : int
        Of all launches so far.
    """

    unit: str
    cycles: int

    def __call__(self, launch: Launch) -> bytes:
        """Runs a launch; returns its picture. DemoError."""
        ...


class HardwareRunner:
    """The hardware; every instruction beside the warp model, if ``check``."""

    unit = "cycles"

    def __init__(self, params: SmParams, engine: type[Engine], progress: Progress, *, check: bool = False) -> None:
        self.cycles, self._progress = 0, progress
        self._hardware = Hardware(params, engine, check=check)

    def __call__(self, launch: Launch) -> bytes:
        """See :class:`Runner`."""
        result = self._hardware.run(launch, _LIMIT, self._progress)
        self.cycles += result.cycles
        difference, lockstep = None, self._hardware.lockstep
        if lockstep is not None:
            difference = lockstep.difference or lockstep.compare_memory(self._hardware.memory)
        if result.status != "ok" or difference is not None:
            raise DemoError(describe_hardware(launch, self._hardware, result,
                                              None if difference is None else str(difference)))
        return _picture(launch, self._hardware.memory)


class ModelRunner:
    """The warp model."""

    unit = "instructions of the model"

    def __init__(self, params: SmParams, progress: Progress) -> None:
        self.cycles, self._params, self._progress = 0, params, progress

    def __call__(self, launch: Launch) -> bytes:
        """See :class:`Runner`."""
        machine = Machine(launch, warps=self._params.warps)
        result = machine.run(_STEP)
        while result.status == "timeout" and machine.instructions < _LIMIT:
            self._progress(_STEP)
            result = machine.run(_STEP)
        self.cycles += machine.instructions
        if result.status != "ok":
            raise DemoError(describe(machine, result))
        return _picture(launch, machine.memory)


def _picture(launch: Launch, memory: Memory) -> bytes:
    return memory.read(*launch.buffers[PICTURE])
