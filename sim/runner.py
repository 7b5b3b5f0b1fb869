"""What runs launches in a memory that lives: the machine in simulation, the warp model, a board.

All say what a run came to in one form, and an error of the machine in one form.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtl.isa.errors import WarpError
from rtl.layouts import LaunchRejection
from rtl.params import SmParams
from sim.engine import Engine
from sim.interrupt import Interrupted, raise_noted
from sim.launch import Launch
from sim.machine.hardware import Hardware
from sim.machine.hosted import HardwareResult, HostedMachine, RunInterrupted
from sim.model.warp import Machine as WarpModel
from sim.report.error_status import DecodedStatus, decode, registers_of
from sim.toolchain.spelling import spell

__all__ = ["HardwareRunner", "LaunchInterrupted", "MachineError", "ModelRunner", "Outcome", "Runner"]

Progress = Callable[[int], object]
_THREAD = re.compile(r"thread (\d+), address (0x[0-9a-f]+)")
"""What the warp model says of an error: the first thread that failed, and its address."""


@dataclass(frozen=True)
class MachineError:
    """What stopped a kernel: an error of a warp, or BPT.TRAP where ``error`` is NONE.

    ``pc`` is the instruction's offset in its program, ``instruction`` its text. ``thread`` (in the warp) and
    ``address`` are None where they are not known: hardware keeps neither.
    """

    error: WarpError
    kernel: str
    warp: int
    pc: int
    instruction: str
    thread: int | None = None
    address: int | None = None

    def __str__(self) -> str:
        name = "BPT.TRAP" if self.error is WarpError.NONE else self.error.name
        thread = "" if self.thread is None else f", thread {self.thread}"
        address = "" if self.address is None else f", address {self.address:#x}"
        return (f"kernel {self.kernel}: {name} at pc {self.pc:#06x} ({self.instruction}), warp {self.warp}{thread}"
                f"{address}")


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    ``status`` is ``ok``, ``error``, ``timeout`` or ``interrupted``; ``reason`` says more where the machine says more.
    ``cycles`` are those of the clock, on the warp model its instructions. ``difference`` is what hardware and warp
    model differ in.
    """

    status: str
    cycles: int
    instructions: int
    error: MachineError | None = None
    reason: str = ""
    difference: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


def _machine_error(launch: Launch, status: DecodedStatus, detail: str = "") -> MachineError | None:
    """The error in the registers of a machine; None where there is none."""
    if not status.stopped:
        return None
    word = launch.memory.read_number(launch.program_base + status.pc, 8) if status.pc < launch.program_size else 0
    found = _THREAD.search(detail)
    return MachineError(
        status.error, launch.kernel.name, status.warp, status.pc, spell(word, status.pc) if word else "no code",
        int(found[1]) if found else None, int(found[2], 16) if found else None)


class LaunchInterrupted(Interrupted):
    """A request to end the program that came during a launch. ``outcome``: what the launch came to until then."""

    def __init__(self, number: int, outcome: Outcome) -> None:
        super().__init__(number)
        self.outcome = outcome


class Runner(ABC):
    """Runs one launch after the other, each on the launch's own memory, which then holds what it has left."""

    params: SmParams

    @abstractmethod
    def run(self, launch: Launch, limit: int, progress: Progress = lambda _cycles: None) -> Outcome:
        """Runs a launch to its end, an error, or ``limit`` cycles. ``progress`` is told of cycles as they pass.
        LaunchInterrupted after Ctrl-C, or where :func:`~sim.interrupt.stop_threads` ends it."""


class ModelRunner(Runner):
    """The warp model: no hardware, no time; its cycles are instructions."""

    _STEP = 10_000

    def __init__(self, params: SmParams) -> None:
        self.params = params

    def run(self, launch: Launch, limit: int, progress: Progress = lambda _cycles: None) -> Outcome:
        """See Runner."""
        memory = launch.memory
        before = set(memory.regions)
        machine = WarpModel(launch, warps=self.params.warps, stack_tokens=self.params.stack_tokens)
        try:
            while True:
                raise_noted()
                done = machine.instructions
                result = machine.run(min(self._STEP, limit - done))
                progress(machine.instructions - done)
                if result.status != "timeout" or machine.instructions in (done, limit):
                    break
        except Interrupted as request:
            raise LaunchInterrupted(request.number, Outcome(
                "interrupted", machine.instructions, machine.instructions)) from None
        finally:
            for name in [name for name in memory.regions if name not in before]:
                memory.free(memory.regions[name][0])
        found = machine.error_status
        error = None if found is None else _machine_error(launch, decode(registers_of(machine)), found.detail)
        return Outcome(result.status, machine.instructions, machine.instructions, error, result.reason)


class HardwareRunner(Runner):
    """The machine in simulation.

    Parameters:
        params: The machine.
        engine: What simulates it.
        check: Whether every instruction is compared with the warp model.
        options: Further ones of :class:`~sim.machine.hardware.Hardware`, such as ``vcd`` and ``watched``.
    """

    def __init__(self, params: SmParams, engine: type[Engine], *, check: bool = False, **options: Any) -> None:
        self.params = params
        self.hardware = Hardware(params, engine, check=check, **options)
        self.hardware.in_place = True

    def run(self, launch: Launch, limit: int, progress: Progress = lambda _cycles: None) -> Outcome:
        """See Runner."""
        hardware = self.hardware
        try:
            result = hardware.run(launch, limit, progress)
        except RunInterrupted as request:
            raise LaunchInterrupted(request.number, outcome_of(launch, hardware, request.result)) from None
        finally:
            hardware.clear()
        return outcome_of(launch, hardware, result)


def outcome_of(launch: Launch, machine: HostedMachine, result: HardwareResult) -> Outcome:
    """What a run of hardware came to."""
    reason, difference, status = result.reason, None, result.status
    if result.rejection is not LaunchRejection.NONE:
        reason = f"the machine rejected the launch: {result.rejection.name}"
    if (lockstep := machine.lockstep) is not None:
        if lockstep.difference is not None:
            difference = str(lockstep.difference)
        elif status == "ok" and (where := lockstep.compare_memory(machine.memory)) is not None:
            difference = f"memory at the end: {where}"
    if difference is not None:
        status = "error"
    error = _machine_error(launch, decode(result.registers)) if result.registers else None
    return Outcome(status, result.cycles, result.instructions, error, reason, difference, result.counters)


