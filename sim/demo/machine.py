"""What runs the launches of a demo: the hardware in simulation, a board, or the warp model."""

from collections.abc import Callable
from typing import Protocol

from rtl.params import SmParams
from sim.board.machine import Board
from sim.board.placing import fit
from sim.demo.scenes import PICTURE, Place
from sim.engine import Engine
from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.comparison import memory_difference
from sim.machine.hardware import Hardware
from sim.model.warp import Machine
from sim.report.hardware import describe_hardware
from sim.report.run import describe

__all__ = ["BoardRunner", "DemoError", "HardwareRunner", "ModelRunner", "Runner"]

_LIMIT = 1_000_000_000
"""Cycles, or instructions of the model, after which a launch is given up."""
_STEP = 10_000
Progress = Callable[[int], object]
"""Is told how many cycles, or instructions of the model, have passed since the last time."""


class DemoError(Exception):
    """A launch that did not end well: its report."""


class Runner(Protocol):
    """Runs launches.

    Attributes:
        unit: What ``cycles`` counts.
        cycles: Of all launches so far.
    """

    unit: str
    cycles: int

    def __call__(self, place: Place) -> bytes:
        """Places a launch and runs it; returns its picture. DemoError."""
        ...


class HardwareRunner:
    """The hardware; every instruction beside the warp model, if ``check``."""

    unit = "cycles"

    def __init__(self, params: SmParams, engine: type[Engine], progress: Progress, *, check: bool = False) -> None:
        self.cycles, self._progress = 0, progress
        self._hardware = Hardware(params, engine, check=check)

    def __call__(self, place: Place) -> bytes:
        """See :class:`Runner`."""
        launch = place()
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

    def __call__(self, place: Place) -> bytes:
        """See :class:`Runner`."""
        launch = place()
        machine = _run_model(launch, self._params.warps, self._progress)
        self.cycles += machine.instructions
        return _picture(launch, machine.memory)


class BoardRunner:
    """A board; memory at the end beside that of the warp model, if ``check``. A picture of one of the screen's sizes
    is the framebuffer from then on.
    """

    unit = "cycles"

    def __init__(self, board: Board, progress: Progress, scale: int | None, *, check: bool = False) -> None:
        self.cycles, self._board, self._progress, self._scale, self._check = 0, board, progress, scale, check

    def __call__(self, place: Place) -> bytes:
        """See :class:`Runner`."""
        board = self._board

        def placed(local: int | None, crs: int | None, memory: Memory) -> tuple[Launch, Launch]:
            launch = place(local=local, crs=crs, memory=memory)
            return launch, launch

        launch = fit(placed, board.size, board.params.warps)
        result = board.run(launch, _LIMIT, self._progress)
        self.cycles += result.cycles
        if result.status != "ok":
            raise DemoError(describe_hardware(launch, board, result, None))
        if self._check:
            model = _run_model(launch, board.params.warps, lambda _: None)
            if (where := memory_difference(board.memory, model.memory)) is not None:
                raise DemoError(f"memory is not that of the reference machine: {where}")
        if self._scale is not None:
            board.show(launch.buffers[PICTURE][0], self._scale)
        return _picture(launch, board.memory)


def _run_model(launch: Launch, warps: int, progress: Progress) -> Machine:
    """Runs a launch on the warp model to its end. DemoError."""
    machine = Machine(launch, warps=warps)
    result = machine.run(_STEP)
    while result.status == "timeout" and machine.instructions < _LIMIT:
        progress(_STEP)
        result = machine.run(_STEP)
    if result.status != "ok":
        raise DemoError(describe(machine, result))
    return machine


def _picture(launch: Launch, memory: Memory) -> bytes:
    return memory.read(*launch.buffers[PICTURE])
