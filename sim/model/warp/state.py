"""The state of warps and CTAs."""

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
"""Number of values of a register field; the highest is RZ."""
BARRIER_FIELDS = {name: (field.offset, field.width) for name, field in BarrierState.as_shape()}
"""The fields of a barrier's state as B2R and R2B move it: lowest bit and width."""


@dataclass(frozen=True)
class Arrival:
    """A waiting warp: its reduction, if any, and its contribution."""

    warp: Warp
    reduction: BarrierReduction | None = None
    population: int = 0
    some_false: int = 0
    some_true: int = 0


@dataclass
class Barrier:
    """A barrier. Counts are in warps; an ``expected`` of 0 means every live warp of the CTA."""

    arrived: int = 0
    expected: int = 0
    population: int = 0
    some_false: int = 0
    some_true: int = 0
    waiting: list[Arrival] = field(default_factory=list)

    def reduced(self, reduction: BarrierReduction) -> int:
        """Returns the result of a reduction over the arrived threads."""
        return {
            BarrierReduction.POPC: self.population,
            BarrierReduction.AND: 1 - self.some_false,
            BarrierReduction.OR: self.some_true,
        }[reduction]

    def pack(self) -> int:
        """Packs the state into a number, as B2R reads it."""
        return sum(
            (getattr(self, name) & (1 << width) - 1) << lowest
            for name, (lowest, width) in BARRIER_FIELDS.items()
        )

    def unpack(self, number: int) -> None:
        """Sets the state from a number; the waiting warps are not part of it."""
        for name, (lowest, width) in BARRIER_FIELDS.items():
            setattr(self, name, number >> lowest & (1 << width) - 1)


class Cta:
    """A running CTA.

    Attributes:
        index: Its position in the grid.
        shared (bytearray or memoryview): Its shared memory.
        warps: Its warps that have not ended.
        barriers: Its barriers by number; the last one is BAR.SYNCALL's.
        keeps_reference: Whether a thread has left by EXIT.KEEPREFCOUNT.
    """

    def __init__(self, index: tuple[int, int, int], launch: Launch) -> None:
        self.index = index
        self.shared: bytearray | memoryview = bytearray(launch.shared)
        self.warps: list[Warp] = []
        self.barriers = [Barrier() for _ in range(SYNCALL_BARRIER + 1)]
        self.keeps_reference = False


def thread_index(launch: Launch, number: int) -> NDArray[np.intp]:
    """Returns x, y and z in the block of every thread of warp ``number`` of a CTA, an array of 3 by
    32.
    """
    threads = np.arange(number * WARP_THREADS, (number + 1) * WARP_THREADS)
    width, height = launch.block[0], launch.block[1]
    return np.stack((threads % width, threads // width % height, threads // (width * height)))


def created_threads(launch: Launch, number: int) -> int:
    """Returns the mask of threads that a launch creates in warp ``number`` of a CTA."""
    return (1 << max(0, min(WARP_THREADS, launch.threads - number * WARP_THREADS))) - 1


class Warp:
    """A warp, from its launch to its end. Tests may set any state between two steps.

    Attributes:
        slot: Its slot in the machine.
        number: Its number in the CTA.
        pc: Address of the next instruction; the address of a group means its first instruction.
        masks: Active and disabled threads. Threads that the launch did not create count as killed
            (ours).
        registers (array of uint32, 256 by 32): Registers by number and thread; those of RZ are 0.
            They start as zeros (ours).
        predicates: P0 to P6 and PT as masks of threads.
        condition: CC.
        stack: The tokens.
        api_call_depth: Open counted calls, modulo 256.
        kill_future_branch: Whether branches with ``.LMT`` are not taken.
        traps_masked: Whether IDE.DI is in force.
        in_trap: Whether the warp is in the trap: it executes the handler, waits or is paused.
        trap: Its causes for a trap, and its progress in it.
        barrier: The barrier at which it waits, SYNCALL_BARRIER at BAR.SYNCALL; None if it does not
            wait.
        reduction: The result of its last BAR.RED or BAR.SCAN.
        terminated: Whether it has ended.
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
        """The registers as separate rows; RZ's row is read-only."""
        rows = list(self.registers)
        rows[RZ].flags.writeable = False
        return rows

    def share_registers(self, registers: NDArray[np.uint32]) -> None:
        """Replaces the storage of the registers by another array, with that array's values."""
        self.registers = registers
        self.__dict__.pop("rows", None)

    @cached_property
    def thread_index(self) -> NDArray[np.intp]:
        """X, y and z of every thread in the block, an array of 3 by 32."""
        return thread_index(self._launch, self.number)

    @property
    def local_base(self) -> int:
        """Address of the warp's memory block: the local memory of 32 threads, then the stack's
        region.
        """
        return self._local_base

    @local_base.setter
    def local_base(self, address: int) -> None:
        self._local_base = address
        self.stack.region = address + self.local_size * WARP_THREADS

    @property
    def is_outside_traps(self) -> bool:
        """Whether the warp is not in a trap, has no cause for one, and does not single-step."""
        return not self.in_trap and self.trap.is_idle

    @property
    def live(self) -> int:
        """Threads that have neither exited nor been killed."""
        return ALL_THREADS & ~(self.masks.exited | self.masks.killed)

    def write_register(self, record: Retirement, number: int, value: Words, threads: int) -> None:
        """Writes a register of ``threads`` and records it; a write to RZ has no effect."""
        if number == RZ:
            return
        row = self.rows[number]
        if threads == ALL_THREADS:
            row[:] = value
        else:
            np.copyto(row, value, where=bools_of(threads))
        record.registers[number] = (threads, tuple(row.tolist()))

    def write_predicate(self, record: Retirement, number: int, value: int, threads: int) -> None:
        """Writes a predicate of ``threads`` and records it; a write to PT has no effect."""
        if number == PT:
            return
        self.predicates[number] = self.predicates[number] & ~threads | value & threads
        record.predicates[number] = (threads, value & threads)

    def write_condition(self, record: Retirement, value: Condition, threads: int) -> None:
        """Writes CC of ``threads`` and records it."""
        flags = (
            (self.condition.zero, value.zero),
            (self.condition.sign, value.sign),
            (self.condition.carry, value.carry),
            (self.condition.overflow, value.overflow),
        )
        self.condition = Condition(*(old & ~threads | new & threads for old, new in flags))
        record.condition = (threads, tuple(self.condition.nibbles().tolist()))
