"""The work of a program, independent of the machine: instructions, beats of the lanes, lines of
memory.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtl.fetch import kind_of
from rtl.isa.control_code import INSTRUCTION_BYTES, instruction_address
from rtl.isa.kinds import size_bytes
from rtl.isa.syntax import Form
from rtl.isa.table import find
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import KIND_RULES
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES
from sim.checks.benchmarks.machine import BenchmarkError
from sim.launch import Launch
from sim.model.warp.decode import decode
from sim.model.warp.model import WarpModel
from sim.model.warp.state import Warp
from sim.model.warp.transfer import thread_addresses
from sim.model.warp.vector.lanes import threads_of

__all__ = ["Work", "work_of"]

_WORD = 4
_LIMIT = 10_000_000
_GLOBAL, _LOCAL, _ATOMIC, _GENERIC = {"LDG", "STG"}, {"LDL", "STL"}, {"ATOM", "RED"}, {"LD", "ST"}

_Lines = Callable[[Warp, int], int]
"""Returns the number of lines that a mask of threads of a warp has memory read and write."""


@dataclass(frozen=True)
class Work:
    """The work of a launch, counted on the warp model.

    What caches may hold, code and constants, is not counted, nor is the call/return stack.

    Attributes:
        instructions: Warp instructions.
        lane_instructions: Those that occupy the lanes as they issue.
        operations: Thread operations of these.
        lines: Lines of global and local memory that each instruction accesses: once for any number
            of threads, twice for an atomic operation, which reads and writes.
    """

    instructions: int
    lane_instructions: int
    operations: int
    lines: int

    def beats(self, lanes: int) -> int:
        """Returns the least cycles in which this many lanes execute the work."""
        return self.lane_instructions * (WARP_THREADS // lanes)

    def bound(self, lanes: int) -> int:
        """Returns the least cycles that a machine with this many lanes needs: each cycle issues an
        instruction, executes a beat, and transfers a line.
        """
        return max(self.beats(lanes), self.lines, self.instructions)


def _count(places: NDArray[np.uint64]) -> int:
    """Returns the number of lines that contain the bytes."""
    return len(np.unique(places // np.uint64(LINE_BYTES)))


def _local_places(
    warp: Warp, threads: NDArray[np.intp], addresses: NDArray[np.uint64], size: int
) -> NDArray[np.uint64]:
    """Returns the addresses of the words of threads' local memory."""
    words = addresses[:, None] // np.uint64(_WORD) + np.arange(
        max(size // _WORD, 1), dtype=np.uint64
    )
    places = words * np.uint64(WARP_THREADS) + threads[:, None].astype(np.uint64)
    return np.uint64(warp.local_base) + places * np.uint64(_WORD)


def _lines_of(form: Form, word: int) -> _Lines | None:
    """Returns a function that counts the lines of an instruction; None if it accesses none."""
    if form.name not in _GLOBAL | _LOCAL | _ATOMIC | _GENERIC:
        return None
    values = form.values(word)
    addresses_of = thread_addresses(form, values)
    size = _WORD if form.name in _ATOMIC else size_bytes(values["size"])
    times = 2 if form.name in _ATOMIC else 1

    def lines(warp: Warp, mask: int) -> int:
        threads = threads_of(mask)
        addresses = addresses_of(warp)[threads]
        local = np.full(len(threads), form.name in _LOCAL)
        shared = np.zeros(len(threads), np.bool_)
        if form.name in _GENERIC:
            local = (addresses >= LOCAL_WINDOW) & (addresses < LOCAL_WINDOW + WINDOW_BYTES)
            shared = (addresses >= SHARED_WINDOW) & (addresses < SHARED_WINDOW + WINDOW_BYTES)
        inside = addresses[local] % np.uint64(WINDOW_BYTES)
        return times * (
            _count(addresses[~(local | shared)])
            + _count(_local_places(warp, threads[local], inside, size))
        )

    return lines


@dataclass(frozen=True)
class _Word:
    """An instruction word: the mask of its threads, and its use of the lanes and of memory."""

    threads: Callable[[Warp], int]
    lanes: bool
    lines: _Lines | None


def _read(word: int, registers: int) -> _Word:
    form = find(word)
    lanes = form is not None and KIND_RULES[kind_of(form)].lanes
    return _Word(
        decode(word, registers).threads, lanes, None if form is None else _lines_of(form, word)
    )


def work_of(launch: Launch, warps: int) -> Work:
    """Runs a launch on a warp model with this many warps; BenchmarkError if it does not end."""
    machine = WarpModel(launch, warps=warps)
    known: dict[int, _Word] = {}
    lane_instructions = operations = lines = 0
    while (warp := machine.choose()) is not None and machine.instructions < _LIMIT:
        address = launch.program_base + instruction_address(warp.pc)
        if address not in known:
            known[address] = _read(
                machine.memory.read_number(address, INSTRUCTION_BYTES), launch.registers
            )
        word = known[address]
        threads = word.threads(warp)
        lane_instructions += word.lanes
        operations += word.lanes * threads.bit_count()
        lines += word.lines(warp, threads) if word.lines is not None and threads else 0
        machine.retire(warp.slot)
    result = machine.run(0)
    if machine.live or machine.error_status is not None:
        raise BenchmarkError(f"{launch.kernel.name}: the warp model does not end: {result.reason}")
    return Work(machine.instructions, lane_instructions, operations, lines)
