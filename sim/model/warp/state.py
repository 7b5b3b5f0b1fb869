"""What a warp and a CTA are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.isa.kinds import BarrierReduction
from rtl.isa.syntax import PT, RZ
from rtl.isa.tokens import CACHED_TOKENS
from rtl.params import WARP_THREADS
from sim.launch import Launch

from .retirement import Retirement, WarpMasks
from .stack import CallReturnStack
from .trap_state import TrapState
from .vector.lanes import ALL_THREADS, TRUE_PREDICATE, Condition, Words, bools_of

__all__ = ["BARRIER_FIELDS", "Arrival", "Barrier", "Cta", "Warp", "created_threads", "thread_index"]

_REGISTERS = 256
"""Numbers a register field can hold; the last is RZ."""
BARRIER_FIELDS = {name: (field.offset, field.width) for name, field in BarrierState.as_shape()}
"""A barrier's state as B2R and R2B move it: lowest bit and width."""


@dataclass(frozen=True)
class Arrival:
    """A warp that waits: its reduction, if any, and its contribution."""

    warp: Warp
    reduction: BarrierReduction | None = None
    population: int = 0
    some_false: int = 0
    some_true: int = 0


@dataclass
class Barrier:
    """A barrier. Counts are in warps; ``expected`` 0 means every live warp of the CTA."""

    arrived: int = 0
    expected: int = 0
    population: int = 0
    some_false: int = 0
    some_true: int = 0
    waiting: list[Arrival] = field(default_factory=list)

    def reduced(self, reduction: BarrierReduction) -> int:
        """What a reduction over the threads so far gives."""
        return {
            BarrierReduction.POPC: self.population,
            BarrierReduction.AND: 1 - self.some_false,
            BarrierReduction.OR: self.some_true,
        }[reduction]

    def pack(self) -> int:
        """The state as a number."""
        return sum(
            (getattr(self, name) & (1 << width) - 1) << lowest
            for name, (lowest, width) in BARRIER_FIELDS.items()
        )

    def unpack(self, number: int) -> None:
        """Sets the state from a number; the waiting warps are not part of it."""
        for name, (lowest, width) in BARRIER_FIELDS.items():
            setattr(self, name, number >> lowest & (1 << width) - 1)


class Cta:
    """A CTA that runs.

    Attributes:
        index: Its place in the grid.
        shared (bytearray, or a view of such memory): Its shared memory.
        warps: Those of its warps that have not terminated.
        barriers: Its barriers by number; the last one is BAR.SYNCALL's.
        keeps_reference: A thread has left by EXIT.KEEPREFCOUNT.
    """

    def __init__(self, index: tuple[int, int, int], launch: Launch) -> None:
        self.index = index
        self.shared: bytearray | memoryview = bytearray(launch.shared)
        self.warps: list[Warp] = []
        self.barriers = [Barrier() for _ in range(SYNCALL_BARRIER + 1)]
        self.keeps_reference = False


def thread_index(launch: Launch, number: int) -> NDArray[np.intp]:
    """X, y and z in the block of every thread of the warp with a number: 3 by 32."""
    threads = np.arange(number * WARP_THREADS, (number + 1) * WARP_THREADS)
    width, height = launch.block[0], launch.block[1]
    return np.stack((threads % width, threads // width % height, threads // (width * height)))


def created_threads(launch: Launch, number: int) -> int:
    """The threads that a launch creates of the warp with a number."""
    return (1 << max(0, min(WARP_THREADS, launch.threads - number * WARP_THREADS))) - 1


class Warp:
    """A warp, from its launch to its end. All its state may be set by hand before it is stepped.

    Attributes:
        slot, number: Its slot in the machine, and its number in the CTA.
        pc: Of the next instruction; a group's address means its first instruction.
        masks: Active and disabled threads. Threads that the launch did not create count as killed (ours).
        registers (array of uint32, 256 by 32): Registers by number, of every thread; RZ's are 0. They start as zeros
            (ours).
        predicates: P0 to P6 and PT as masks of threads.
        condition: CC.
        stack: The tokens.
        api_call_depth: Counted calls that are open, modulo 256.
        kill_future_branch: Branches with ``.LMT`` are taken by nobody.
        traps_masked: IDE.DI is in force.
        in_trap: It is in the trap: executes its handler, waits or is paused.
        trap: What brought it there, and what it waits for.
        barrier: The barrier that it waits at; SYNCALL_BARRIER at BAR.SYNCALL.
        reduction: The last result of BAR.RED or BAR.SCAN.
        terminated: It has ended.
    """

    def __init__(
        self,
        slot: int,
        number: int,
        cta: Cta,
        launch: Launch,
        local_base: int,
        stack_tokens: int = CACHED_TOKENS,
    ) -> None:
        self.slot = slot
        self.number = number
        self.cta = cta
        self.local_size = launch.local
        self.pc = launch.entry
        self._launch = launch
        created = created_threads(launch, number)
        self.masks = WarpMasks(active=created, killed=ALL_THREADS & ~created)
        self.registers = np.zeros((_REGISTERS, WARP_THREADS), np.uint32)
        self.predicates = [0] * PT + [TRUE_PREDICATE]
        self.condition = Condition()
        self.stack = CallReturnStack(launch.memory, launch.crs, 0, stack_tokens)
        self.local_base = local_base
        self.api_call_depth = 0
        self.kill_future_branch = False
        self.traps_masked = False
        self.in_trap = False
        self.trap = TrapState()
        self.barrier: int | None = None
        self.reduction = 0
        self.terminated = False

    @cached_property
    def rows(self) -> Sequence[Words]:
        """The registers one by one; RZ's cannot be written."""
        rows = list(self.registers)
        rows[RZ].flags.writeable = False
        return rows

    def share_registers(self, registers: NDArray[np.uint32]) -> None:
        """Has its registers somewhere else, as they are there."""
        self.registers = registers
        self.__dict__.pop("rows", None)

    @cached_property
    def thread_index(self) -> NDArray[np.intp]:
        """X, y and z of every thread in the block: 3 by 32."""
        return thread_index(self._launch, self.number)

    @property
    def local_base(self) -> int:
        """Address of its block of memory: the local memory of 32 threads, then the stack's region."""
        return self._local_base

    @local_base.setter
    def local_base(self, address: int) -> None:
        self._local_base = address
        self.stack.region = address + self.local_size * WARP_THREADS

    @property
    def is_outside_traps(self) -> bool:
        """It is not in a trap, has no cause for one, and does no single step."""
        return not self.in_trap and self.trap.is_idle

    @property
    def live(self) -> int:
        """Threads that neither exited nor were killed."""
        return ALL_THREADS & ~(self.masks.exited | self.masks.killed)

    def write_register(self, record: Retirement, number: int, value: Words, threads: int) -> None:
        """Writes a register of ``threads`` and notes it; a write to RZ is none."""
        if number == RZ:
            return
        row = self.rows[number]
        if threads == ALL_THREADS:
            row[:] = value
        else:
            np.copyto(row, value, where=bools_of(threads))
        record.registers[number] = (threads, tuple(row.tolist()))

    def write_predicate(self, record: Retirement, number: int, value: int, threads: int) -> None:
        """Writes a predicate of ``threads`` and notes it; a write to PT is none."""
        if number == PT:
            return
        self.predicates[number] = self.predicates[number] & ~threads | value & threads
        record.predicates[number] = (threads, value & threads)

    def write_condition(self, record: Retirement, value: Condition, threads: int) -> None:
        """Writes CC of ``threads`` and notes it."""
        flags = (
            (self.condition.zero, value.zero),
            (self.condition.sign, value.sign),
            (self.condition.carry, value.carry),
            (self.condition.overflow, value.overflow),
        )
        self.condition = Condition(*(old & ~threads | new & threads for old, new in flags))
        record.condition = (threads, tuple(self.condition.nibbles().tolist()))
