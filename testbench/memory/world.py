"""Warps of the warp model with memory, and the instructions that they execute, for the testbench of
the memory unit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from rtl.isa.errors import WarpError
from rtl.isa.kinds import MemorySize
from rtl.isa.table import find
from rtl.params import WARP_THREADS
from sim.model.warp.decode import decode
from sim.model.warp.faults import WarpFaultError
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement
from sim.model.warp.state import Warp
from sim.model.warp.transfer import TRANSFERS, thread_addresses
from sim.model.warp.vector.lanes import threads_of
from testbench.handmade import encode, launch
from testbench.words import NOP

WARPS = 4
BLOCK_THREADS = 32
"""Threads of a CTA, which is one warp. Warps share no memory, so that their order does not matter.
"""
BUFFER = 0x0040_0000
"""Address of the first warp's buffer: below the windows and within 32 bits."""
BUFFER_BYTES = 8192
"""Size of each warp's buffer in bytes, which is followed by as many bytes that are not mapped."""
SHARED_BYTES = 1024
"""Shared memory of a CTA in bytes."""
LOCAL_BYTES = 192
"""Local memory of a thread in bytes."""
BANKS = {3: 198, 4: 4096}
"""Sizes of constant banks in bytes; the first one is not a multiple of a word."""
REGISTERS = 254
"""Registers of a thread: all but RZ."""
CTAS = WARPS * WARP_THREADS // BLOCK_THREADS
_LAST_POINTER, _LAST_RESULT = 240, 244
"""Registers that no other instruction uses."""
_QUAD_BYTES = 16
"""The maximum number of bytes of one load."""


@dataclass
class MemoryStep:
    """An instruction of a warp, for some threads, and its results in the warp model.

    Attributes:
        record: The registers and predicates written.
        fault: The error, reported or not.
        error: The error, if it is reported.
    """

    warp: int
    word: int
    threads: int = (1 << WARP_THREADS) - 1
    write_barrier: int = 7
    read_barrier: int = 7
    error: WarpError = WarpError.NONE
    fault: WarpError = WarpError.NONE
    record: Retirement | None = None
    failing: int | None = None
    """The address of the fault."""
    addresses: Mapping[int, int] = field(default_factory=dict)
    """The addresses of the threads that execute it; empty for constants and instructions without an
    address.
    """
    local_base: int | None = None
    """If not None, the step is no instruction: the address to which the warp's block of local
    memory moves.
    """
    clear: bool = False
    """If set, the step is no instruction: the shared memory of the warp's CTA is cleared."""


def _addresses(warp: Warp, step: MemoryStep) -> dict[int, int]:
    """The address of each thread that executes a step."""
    form = find(step.word)
    if form is None or "address" not in form.operands or form.name not in TRANSFERS:
        return {}
    threads = threads_of(step.threads)
    return dict(
        zip(
            threads.tolist(),
            thread_addresses(form, form.values(step.word))(warp)[threads].tolist(),
            strict=True,
        )
    )


def buffer_of(slot: int) -> int:
    """The address of a warp's buffer."""
    return BUFFER + 2 * BUFFER_BYTES * slot


class MemoryWorld:
    """A warp model that executes single instructions.

    Attributes:
        machine: Its memory, warps and CTAs have the state after the last step.
        memory: The initial memory for the hardware.
        registers: The initial registers of all warps.
        steps: The executed steps.
    """

    def __init__(self, report_mask: int, *, seed: int = 0, shared: int = SHARED_BYTES) -> None:
        random = np.random.default_rng(seed)
        constants = {bank: random.bytes(size) for bank, size in BANKS.items()}
        made = launch(
            [NOP],
            registers=REGISTERS,
            shared=shared,
            constants=constants,
            local=LOCAL_BYTES,
            crs=0,
            grid=(CTAS, 1, 1),
            block=(BLOCK_THREADS, 1, 1),
        )
        self.machine = WarpModel(made, warps=WARPS, report_mask=report_mask)
        for slot in range(WARPS):
            self.machine.memory.map(f"buffer {slot}", buffer_of(slot), BUFFER_BYTES)
        self.bank_places = {
            bank: self.machine.memory.allocate(f"bank {bank}", len(content))
            for bank, content in made.banks.items()
        }
        for name, (base, size) in self.machine.memory.regions.items():
            if name != "program":
                self.machine.memory.write(base, random.bytes(size))
        for bank, content in made.banks.items():
            padded = content + bytes(-len(content) % 64)
            self.machine.memory.write(self.bank_places[bank], padded)
        self.memory = self.machine.memory.copy()
        self.bases = [warp.local_base for warp in self.warps]
        self.registers: dict[tuple[int, int], list[int]] = {}
        self.steps = []
        for warp in self.warps:
            for register in range(REGISTERS):
                warp.registers[register] = random.integers(0, 1 << 32, WARP_THREADS, np.uint32)
            warp.registers[_LAST_POINTER] = _QUAD_BYTES * np.arange(WARP_THREADS)

    @property
    def warps(self) -> list[Warp]:
        """The warps by slot."""
        return [warp for warp in self.machine.warps if warp is not None]

    def cta_of(self, slot: int) -> int:
        """The number of the CTA of the warp in a slot."""
        return slot * WARP_THREADS // BLOCK_THREADS

    def set_register(self, slot: int, register: int, values: Iterable[int]) -> None:
        """Sets a register, with a value for each thread."""
        self.warps[slot].registers[register] = np.array(
            [value & 0xFFFF_FFFF for value in values], np.uint32
        )

    def set_pair(self, slot: int, register: int, values: Iterable[int]) -> None:
        """Sets a register pair, with a value of 64 bits for each thread."""
        values = list(values)
        self.set_register(slot, register, values)
        self.set_register(slot, register + 1, [value >> 32 for value in values])

    def execute(self, step: MemoryStep) -> MemoryStep:
        """Executes an instruction on the warp model and records it. An unreported error is not
        recorded as an error.
        """
        if not self.registers:
            self.registers = {
                (slot, register): warp.registers[register].tolist()
                for slot, warp in enumerate(self.warps)
                for register in range(REGISTERS)
            }
        warp = self.warps[step.warp]
        record = Retirement(step.warp, 0, step.word, warp.masks, warp.masks, 0, 0, 0)
        instruction = decode(step.word, REGISTERS)
        if instruction.error is not WarpError.NONE:
            raise ValueError(f"{step.word:#x} can't be executed: {instruction.error.name}")
        step.addresses = _addresses(warp, step)
        try:
            instruction.action(self.machine, warp, step.threads, record)
        except WarpFaultError as fault:
            step.fault = fault.error
            step.error = fault.error if self.machine.reports(fault.error) else WarpError.NONE
            step.failing = int(fault.detail.rsplit(" ", 1)[-1], 16) if fault.detail else None
        step.record = record
        self.steps.append(step)
        return step

    def move_local(self, slot: int, base: int) -> None:
        """Moves the local memory of a warp, as SETLMEMBASE does."""
        self.warps[slot].local_base = base
        self.steps.append(MemoryStep(slot, NOP, local_base=base))

    def clear_shared(self, slot: int) -> None:
        """Clears the shared memory of a warp's CTA."""
        shared = self.warps[slot].cta.shared
        shared[:] = bytes(len(shared))
        self.steps.append(MemoryStep(slot, NOP, clear=True))

    def read_shared(self) -> None:
        """Loads each CTA's whole shared memory, so that it is compared."""
        for slot in range(0, WARPS, BLOCK_THREADS // WARP_THREADS):
            for start in range(0, self.machine.launch.shared, _QUAD_BYTES * WARP_THREADS):
                self.execute(
                    MemoryStep(
                        slot,
                        encode(
                            "LDS",
                            Rd=_LAST_RESULT,
                            Ra=_LAST_POINTER,
                            offset=start,
                            uniform_size=MemorySize.B128.value,
                        ),
                    )
                )
