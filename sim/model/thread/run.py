"""Runs the threads of a grid, each with its own pc and stack, without masks or tokens.

:mod:`sim.model.threads` schedules the threads. For a program without races the final memory equals
the hardware's. The other modules of this package define the instructions.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from sim.launch import Launch
from sim.launch.memory import Memory, MemoryFaultError
from sim.model.threads import ENDED, TURN, WAITING, check_nobody_waits, cta_positions, take_turns
from sim.support.alignment import round_up
from sim.toolchain.module import EntryPoint

from . import (
    access,
    arithmetic,
    bitwise,
    comparison,
    conversion,
    double,
    flow,
    functions,
    single,
    system,
    video,
)
from .decode import ThreadProgram
from .integers import WORD
from .state import FaultError, Thread, ThreadCta, TrappedError

__all__ = [
    "Before",
    "Step",
    "ThreadFaultError",
    "ThreadResult",
    "Trap",
    "run",
    "step",
    "step_together",
]

SEMANTICS = (
    access,
    arithmetic,
    bitwise,
    comparison,
    conversion,
    double,
    flow,
    functions,
    single,
    system,
    video,
)
"""The modules that register the instructions."""
MAX_INSTRUCTIONS = 50_000_000
"""The default limit of instructions of a run."""


class ThreadFaultError(Exception):
    """A run that cannot continue, with the thread, the instruction and the reason.

    Attributes:
        pc: Address of the instruction from the program base.
        error: The warp error that the hardware reports. None for conditions that only this model
            detects: a runaway, or threads that all wait for each other.
    """

    def __init__(
        self, thread: Thread, pc: int, text: str, cause: str, error: WarpError | None
    ) -> None:
        super().__init__(f"{thread.name} at {pc:#06x} `{text}`: {cause}")
        self.pc = pc
        self.error = error


@dataclass(frozen=True)
class Trap:
    """A BPT.TRAP that ended a run: its reason, its address, and the positions of thread and CTA."""

    reason: int
    pc: int
    thread: tuple[int, int, int]
    cta: tuple[int, int, int]


@dataclass(frozen=True)
class ThreadResult:
    """The end of a run; the launch's memory holds its results.

    Attributes:
        counts: Executed instructions by name, whether or not the guard held.
        trap: The BPT.TRAP that ended the run, None if all threads ended.
    """

    counts: Mapping[str, int]
    trap: Trap | None = None

    @property
    def instructions(self) -> int:
        """Number of instructions executed by all threads."""
        return sum(self.counts.values())


@dataclass
class _ThreadRun:
    """The state of one run. ``executed`` counts executions by instruction word."""

    launch: Launch
    program: ThreadProgram
    limit: int
    runnable: deque[Thread] = field(default_factory=deque)
    ctas: list[ThreadCta] = field(default_factory=list)
    executed: list[int] = field(default_factory=list)
    trap: Trap | None = None

    def failure(
        self, thread: Thread, cause: str, error: WarpError | None = None
    ) -> ThreadFaultError:
        pc = instruction_address(thread.index * INSTRUCTION_BYTES)
        return ThreadFaultError(thread, pc, self.program.text(thread.index), cause, error)

    def turn(self, thread: Thread) -> int:
        """Runs a thread until its time slice is over, it waits, or it ends; returns the number of
        instructions executed.
        """
        operations, nexts, executed, index = (
            self.program.operations,
            self.program.nexts,
            self.executed,
            thread.index,
        )
        try:
            for before in range(TURN):
                executed[index] += 1
                following = operations[index](thread)
                if following is None:
                    index = nexts[index]
                elif following < 0:
                    thread.cta.stopped(thread, following)
                    return before + 1
                else:
                    index = following
        except FaultError as fault:
            thread.index = index
            raise self.failure(thread, str(fault), fault.error) from None
        except MemoryFaultError as fault:
            thread.index = index
            raise self.failure(thread, str(fault), WarpError.MMU_FAULT) from None
        except TrappedError as trapped:
            pc = instruction_address(index * INSTRUCTION_BYTES)
            self.trap = Trap(trapped.reason, pc, thread.position, thread.cta.position)
            self.runnable.clear()
            return 0
        thread.index = index
        self.runnable.append(thread)
        return TURN

    def all_turns(self) -> None:
        """Runs every thread to its end, or the grid to the first trap."""
        take_turns(self.runnable, self.turn, self.limit, self.failure)
        if self.trap is None:
            check_nobody_waits(self.ctas, self.failure)


def run(launch: Launch, *, max_instructions: int = MAX_INSTRUCTIONS) -> ThreadResult:
    """Runs a launch on its memory, to the end of the last thread or to the first BPT.TRAP.

    Raises:
        ThreadFaultError: A thread faults, all remaining threads wait for each other, or more than
            ``max_instructions`` have been executed (checked after each time slice).
    """
    code = launch.memory.read(launch.program_base, launch.program_size)
    banks = {bank: launch.bank(bank) for bank in launch.banks}
    program = ThreadProgram(code, banks, launch.registers, launch.floats, launch.doubles)
    state = _ThreadRun(launch, program, max_instructions, executed=[0] * (len(program.words) + 1))
    for position in cta_positions(launch.grid):
        state.ctas.append(ThreadCta(launch, position, program.constants, state.runnable))
    state.all_turns()
    counts: Counter[str] = Counter()
    for name, number in zip(program.names, state.executed, strict=False):
        if number:
            counts[name] += number
    return ThreadResult(counts, state.trap)


@dataclass(frozen=True)
class Before:
    """A thread's state before an instruction: registers by number, predicates from P0 on, CC.
    Missing values are 0.
    """

    registers: Mapping[int, int] = field(default_factory=dict)
    predicates: Iterable[int] = ()
    condition: int = 0


@dataclass(frozen=True)
class Step:
    """A thread's state after one instruction: all registers, predicates P0 to P6, CC, the next pc
    (None if the thread ended).
    """

    registers: tuple[int, ...]
    predicates: tuple[int, ...]
    condition: int
    next_pc: int | None
    thread: Thread


def step(
    word: int,
    registers: Mapping[int, int] = MappingProxyType({}),
    *,
    predicates: Iterable[int] = (),
    condition: int = 0,
    pc: int = INSTRUCTION_BYTES,
    banks: Mapping[int, bytes] = MappingProxyType({}),
    launch: Launch | None = None,
) -> Step:
    """Executes one instruction word on a single new thread; see :func:`step_together`.

    An instruction that needs neighbours meets with this thread alone.
    """
    (done,) = step_together(
        word, [Before(registers, predicates, condition)], pc=pc, banks=banks, launch=launch
    )
    return done


def step_together(
    word: int,
    before: Sequence[Before],
    *,
    pc: int = INSTRUCTION_BYTES,
    banks: Mapping[int, bytes] = MappingProxyType({}),
    launch: Launch | None = None,
) -> list[Step]:
    """Executes one instruction word on the first threads of a group, for tests of single
    instructions.

    Args:
        word: The instruction.
        before: State of each thread.
        pc: Address of the instruction.
        banks: Constant banks, for a run without ``launch``.
        launch: Memory, sizes and windows; None: an empty memory, 1 KiB of shared and of local
            memory, and only the given threads.

    Raises:
        FaultError: The instruction faults.
        TrappedError: The instruction traps.
    """
    launch = launch or _lone_launch(banks, len(before))
    size = round_up(pc + INSTRUCTION_BYTES, GROUP_BYTES)
    code = bytearray(size)
    code[pc : pc + INSTRUCTION_BYTES] = word.to_bytes(INSTRUCTION_BYTES, "little")
    program = ThreadProgram(
        bytes(code), launch.banks, launch.registers, launch.floats, launch.doubles
    )
    cta, index = ThreadCta(launch, (0, 0, 0), program.constants, deque()), pc // INSTRUCTION_BYTES
    group, following = cta.groups[0], []
    threads = group.threads[: len(before)]
    for thread, state in zip(threads, before, strict=True):
        for number, value in state.registers.items():
            thread.values[number] = value & WORD
        for number, value in enumerate(state.predicates):
            thread.predicates[number] = value
        thread.condition, thread.index = state.condition, index
        place = program.operations[index](thread)
        following.append(program.nexts[index] if place is None else place)
    if WAITING in following:
        cta.settle(group)
    places = (
        thread.index if place == WAITING else place
        for thread, place in zip(threads, following, strict=True)
    )
    return [
        Step(
            tuple(thread.values[:RZ]),
            tuple(thread.predicates[:PT]),
            thread.condition,
            None if place == ENDED else place * INSTRUCTION_BYTES,
            thread,
        )
        for thread, place in zip(threads, places, strict=True)
    ]


def _lone_launch(banks: Mapping[int, bytes], threads: int) -> Launch:
    """Returns a launch of one CTA with this number of threads and an empty memory."""
    kernel = EntryPoint("step", INSTRUCTION_BYTES, 255, 0, 1024, 1024, 0, 0, ())
    return Launch(
        kernel,
        Memory(),
        0,
        0,
        INSTRUCTION_BYTES,
        (1, 1, 1),
        (threads, 1, 1),
        banks,
        255,
        0,
        1024,
        1024,
        0,
        {},
    )
