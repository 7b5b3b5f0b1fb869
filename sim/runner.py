"""Runners of launches: the machine in simulation, the warp model, and a board.

A launch runs on its own memory, which then holds its results. All runners report outcomes and
errors of the machine in the same form.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, TypeVar

from rtl.fpga.machine import MEMORY_BASE
from rtl.isa.errors import WarpError
from rtl.layouts import LaunchRejection
from rtl.params import SmParams
from sim.board.machine import Board
from sim.board.placing import LaunchPlacer, fit, launch_with_stacks
from sim.engine import Engine
from sim.launch import Launch
from sim.launch.memory import Memory
from sim.launch.runtime import HEAP_MEMORY, OUTPUT_MEMORY
from sim.machine.base import BaseMachine, HardwareResult, RunInterrupted
from sim.machine.comparison import memory_difference
from sim.machine.hardware import Hardware
from sim.model.warp.model import Result, WarpModel
from sim.report.error_status import DecodedStatus, decode, registers_of
from sim.report.hardware import describe_hardware
from sim.report.run import describe
from sim.support.interrupt import Interrupted, raise_noted
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.module import EntryPoint

__all__ = [
    "WARP_MODEL",
    "BoardRunner",
    "HardwareRunner",
    "LaunchInterrupted",
    "MachineError",
    "ModelRunner",
    "Outcome",
    "Progress",
    "Runner",
    "Space",
    "board_difference",
    "board_text",
    "engine_text",
    "outcome_of",
    "outcome_of_model",
    "run_model",
]

Progress = Callable[[int], object]
T = TypeVar("T")
WARP_MODEL = "warp model"
"""The warp model in a report, in place of an engine."""
_STEP = 10_000
"""Initial number of instructions of the warp model between two progress reports."""
_STEP_SECONDS = 0.1
"""Least time between two progress reports in seconds."""
_STEP_GROWTH = 4
_MODEL_LIMIT = 1_000_000_000
"""Instructions of the warp model after which a run is aborted."""
_PLACE = re.compile(r"block \[([\d,]+)\], thread \[([\d,]+)\], address (0x[0-9a-f]+)")
"""The warp model's details of an error: the first thread that failed, and its address."""


def engine_text(engine: type[Engine]) -> str:
    """Returns an engine's name in a report: ``compiled engine``."""
    return f"{engine.name} engine"


def board_text(board: Board) -> str:
    """Returns a board's name in a report: ``board at /dev/ttyUSB0``."""
    return f"board at {board.port}"


@dataclass(frozen=True)
class MachineError:
    """The cause for which a kernel stopped: a warp error, or a BPT.TRAP if ``error`` is NONE.

    Attributes:
        pc: Offset of the instruction in its program.
        instruction: Its text.
        block: Indices of the CTA in x, y and z, None if unknown: hardware does not keep them.
        thread: Indices in x, y and z of the first thread that failed, None if unknown.
        address: The accessed address, None if unknown.
    """

    error: WarpError
    kernel: str
    warp: int
    pc: int
    instruction: str
    block: tuple[int, ...] | None = None
    thread: tuple[int, ...] | None = None
    address: int | None = None

    def __str__(self) -> str:
        name = "BPT.TRAP" if self.error is WarpError.NONE else self.error.name
        block, thread = (
            "" if index is None else f", {what} [{','.join(map(str, index))}]"
            for what, index in (("block", self.block), ("thread", self.thread))
        )
        address = "" if self.address is None else f", address {self.address:#x}"
        return (
            f"kernel {self.kernel}: {name} at pc {self.pc:#06x} ({self.instruction}), warp {self.warp}"
            f"{block}{thread}{address}"
        )


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes:
        status: ``ok``, ``error``, ``timeout`` or ``interrupted``.
        reason: Details of the status, if the machine has any.
        cycles: Clock cycles; on the warp model, instructions.
        difference: The first mismatch between hardware and warp model.
        report: The report as text, in several lines.
    """

    status: str
    cycles: int
    instructions: int
    error: MachineError | None = None
    reason: str = ""
    difference: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    report: str = ""


def _machine_error(launch: Launch, status: DecodedStatus, detail: str = "") -> MachineError | None:
    """Returns the error in the registers of a machine; None without one."""
    if not status.stopped:
        return None
    word = (
        launch.memory.read_number(launch.program_base + status.pc, 8)
        if status.pc < launch.program_size
        else 0
    )
    found = _PLACE.search(detail)
    return MachineError(
        status.error,
        launch.kernel.name,
        status.warp,
        status.pc,
        spell(word, status.pc) if word else "no code",
        _index(found[1]) if found else None,
        _index(found[2]) if found else None,
        int(found[3], 16) if found else None,
    )


def _index(text: str) -> tuple[int, ...]:
    """An index in x, y and z: ``36,0,0``."""
    return tuple(map(int, text.split(",")))


class LaunchInterrupted(Interrupted):
    """A request to end the program that arrived during a launch. ``outcome`` is the launch's
    outcome so far.
    """

    def __init__(self, number: int, outcome: Outcome) -> None:
        super().__init__(number)
        self.outcome = outcome


@dataclass(frozen=True)
class Space:
    """The address space of a machine's memory.

    Attributes:
        first: First address.
        gap: Bytes between allocated ranges.
        size: Size in bytes, None if it is unlimited.
    """

    first: int = 0x2_0000_0000
    gap: int = 4096
    size: int | None = None


class Runner(ABC):
    """Runs launches one after the other, each on its own memory, which then holds its results.

    Attributes:
        params: Parameters of the machine.
        engine: Name of the engine for reports: ``compiled engine``.
        space: Address space of the machine's memory.
    """

    params: SmParams
    engine: str
    space: Space = Space()

    def sized(
        self, make: Callable[[int, int | None], Launch], local: int, _kernel: EntryPoint
    ) -> Launch:
        """Returns the launch of a kernel that ``make`` makes for bytes of local memory of a thread,
        and of stack of a warp (None: the default).

        Local memory has ``local`` bytes, or fewer if the machine's memory has no room for these.
        """
        return make(local, None)

    def fitted(self, placer: LaunchPlacer[T]) -> T:
        """Returns the result of ``placer`` for a launch in a separate memory that fits into the
        machine's.
        """
        return placer(None, None, Memory())[1]

    @abstractmethod
    def run(self, launch: Launch, limit: int, progress: Progress = lambda _cycles: None) -> Outcome:
        """Runs a launch to its end, an error, or ``limit`` cycles; ``progress`` is called with the
        cycles that have passed.

        Raises LaunchInterrupted after Ctrl-C, or if :func:`~sim.support.interrupt.stop_threads`
        ends it.
        """


def run_model(
    machine: WarpModel, limit: int, progress: Progress = lambda _instructions: None
) -> Result:
    """Runs the warp model to its end, an error, or ``limit`` instructions. A recorded signal is
    raised between two of them.
    """
    step = _STEP
    while True:
        raise_noted()
        done, begin = machine.instructions, perf_counter()
        result = machine.run(min(step, limit - done))
        if perf_counter() - begin < _STEP_SECONDS:
            step *= _STEP_GROWTH
        progress(machine.instructions - done)
        if result.status != "timeout" or machine.instructions in (done, limit):
            return result


class ModelRunner(Runner):
    """Runs launches on the warp model, which has no timing; its cycles are instructions."""

    engine = WARP_MODEL

    def __init__(self, params: SmParams) -> None:
        self.params = params

    def run(self, launch: Launch, limit: int, progress: Progress = lambda _cycles: None) -> Outcome:
        """See :meth:`Runner.run`."""
        memory = launch.memory
        before = set(memory.regions)
        machine = WarpModel(launch, warps=self.params.warps, stack_tokens=self.params.stack_tokens)
        placed = memory.new_bases(before)  # Later allocations, such as arrays of ``progress``, stay
        try:
            return outcome_of_model(machine, run_model(machine, limit, progress))
        except Interrupted as request:
            raise LaunchInterrupted(
                request.number, Outcome("interrupted", machine.instructions, machine.instructions)
            ) from None
        finally:
            memory.free_all(placed)


class HardwareRunner(Runner):
    """Runs launches on the machine in simulation.

    Parameters:
        params: Parameters of the machine.
        engine: The simulation engine.
        check: Whether every instruction is compared with the warp model.
        options: Further arguments of :class:`~sim.machine.hardware.Hardware`, such as ``vcd`` and
            ``watched``.
    """

    def __init__(
        self, params: SmParams, engine: type[Engine], *, check: bool = False, **options: Any
    ) -> None:
        self.params, self.engine = params, engine_text(engine)
        self.hardware = Hardware(params, engine, check=check, **options)
        self.hardware.in_place = True

    def run(self, launch: Launch, limit: int, progress: Progress = lambda _cycles: None) -> Outcome:
        """See :meth:`Runner.run`."""
        hardware = self.hardware
        try:
            result = hardware.run(launch, limit, progress)
        except RunInterrupted as request:
            raise LaunchInterrupted(
                request.number, outcome_of(launch, hardware, request.result)
            ) from None
        finally:
            hardware.clear()
        return outcome_of(launch, hardware, result)


class BoardRunner(Runner):
    """Runs launches on a board. Only memory that has changed since the last launch is sent, and
    only memory that a launch may have written is read back.

    Parameters:
        board: The board.
        check: Whether the final memory is compared with the warp model's.
        results: Names of the regions that are read back, None for all. Results in other regions are
            lost.
    """

    def __init__(
        self, board: Board, *, check: bool = False, results: Container[str] | None = None
    ) -> None:
        self.params, self.board, self.engine = board.params, board, board_text(board)
        self.space = Space(MEMORY_BASE, 0, board.size)
        self._check, self._results = check, results
        board.in_place = True

    def sized(
        self, make: Callable[[int, int | None], Launch], local: int, kernel: EntryPoint
    ) -> Launch:
        """See :meth:`Runner.sized`."""
        return launch_with_stacks(make, self.params.warps, local, kernel)

    def fitted(self, place: LaunchPlacer[T]) -> T:
        """See :meth:`Runner.fitted`. Raises BoardError if there is no room for the launch."""
        return fit(place, self.board.size, self.params.warps)

    def run(self, launch: Launch, limit: int, progress: Progress = lambda _cycles: None) -> Outcome:
        """See :meth:`Runner.run`. Raises BoardError if the board does not answer."""
        board = self.board
        reference = replace(launch, memory=launch.memory.copy()) if self._check else None
        try:
            result = board.run(launch, limit, progress)
            board.take_back(launch, result, self._results, whole=self._check)
            difference = None
            if reference is not None and result.status == "ok":
                difference = board_difference(board, reference)
        except BaseException:
            board.forget()
            raise
        finally:
            board.clear()
        return outcome_of(launch, board, result, difference)


def board_difference(
    board: Board, reference: Launch, progress: Progress = lambda _instructions: None
) -> str | None:
    """Returns the first difference between the board's memory and the warp model's after a run
    without an error; None without one.

    The warp model runs the launch ``reference``.
    """
    model = WarpModel(reference, warps=board.params.warps, stack_tokens=board.params.stack_tokens)
    if run_model(model, _MODEL_LIMIT, progress).status != "ok":
        return "difference    the warp model does not end as the board does"
    scratch = {
        name for name in reference.memory.regions if name.startswith((OUTPUT_MEMORY, HEAP_MEMORY))
    }
    return _of_memory(memory_difference(board.memory, reference.memory, scratch))


def _of_memory(where: str | None) -> str | None:
    return None if where is None else f"difference    memory at the end: {where}"


def outcome_of_model(machine: WarpModel, result: Result) -> Outcome:
    """Returns the outcome of a run of the warp model."""
    found, launch = machine.error_status, machine.launch
    error = (
        None
        if found is None
        else _machine_error(launch, decode(registers_of(machine)), found.detail)
    )
    return Outcome(
        result.status,
        machine.instructions,
        machine.instructions,
        error,
        result.reason,
        report=describe(machine, result),
    )


def outcome_of(
    launch: Launch,
    machine: BaseMachine,
    result: HardwareResult,
    difference: str | None = None,
    name: str = "",
) -> Outcome:
    """Returns the outcome of a run of hardware.

    Args:
        launch: The launch.
        machine: The hardware.
        result: Its result.
        difference: A mismatch with the warp model that was found outside of the machine. With one,
            the status is ``error``, unless the run was interrupted.
        name: Name of the machine, for the report.
    """
    reason = result.reason
    if result.rejection is not LaunchRejection.NONE:
        reason = f"the machine rejected the launch: {result.rejection.name}"
    if (lockstep := machine.lockstep) is not None:
        if lockstep.difference is not None:
            difference = str(lockstep.difference)
        elif result.status == "ok":
            difference = _of_memory(lockstep.compare_memory(machine.memory))
    if difference is not None and result.status != "interrupted":
        result = replace(result, status="error")
    error = _machine_error(launch, decode(result.registers)) if result.registers else None
    return Outcome(
        result.status,
        result.cycles,
        result.instructions,
        error,
        reason,
        difference,
        result.counters,
        describe_hardware(launch, machine, result, difference, name),
    )
