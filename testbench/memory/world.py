"""What the memory unit's testbench plays on: warps of the warp model with memory, and instructions for them."""

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
"""Of a CTA: a warp. Warps share no memory, so that it does not matter which one is ahead."""
BUFFER = 0x0040_0000
"""Where the first warp's buffer is, which addresses of 32 bits reach too, below the windows."""
BUFFER_BYTES = 8192
"""Of each warp's buffer; behind it as much is not mapped."""
SHARED_BYTES = 1024
"""Of a CTA."""
LOCAL_BYTES = 192
"""Of a thread."""
BANKS = {3: 198, 4: 4096}
"""Sizes of constant banks; the first one is not whole words."""
REGISTERS = 254
"""Of a thread: all but RZ."""
CTAS = WARPS * WARP_THREADS // BLOCK_THREADS
_LAST_POINTER, _LAST_RESULT = 240, 244
"""Registers that no other instruction uses."""
_QUAD_BYTES = 16
"""What a thread loads at once at most."""


@dataclass
class MemoryStep:
    """An instruction of a warp, for some threads, and what came of it on the warp model.

    ``record`` has the registers and predicates written; ``fault`` why there are none, and ``error``
    the same if it is reported.
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
    """The address that has the fault."""
    addresses: Mapping[int, int] = field(default_factory=dict)
    """Of the threads that execute it, unless it has none or they are constants'."""
    local_base: int | None = None
    """If given, this is no instruction: the warp's block of local memory is here from now on."""
    clear: bool = False
    """This is no instruction: the shared memory of the warp's CTA is cleared."""


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
    """Where a warp's buffer is."""
    return BUFFER + 2 * BUFFER_BYTES * slot


class MemoryWorld:
    """A machine whose warps never run by themselves.

    Attributes:
        machine: Its memory, warps and CTAs are what the reference has come to.
        memory: As the hardware finds it at the start.
        registers: All that there are, as they are before the first instruction.
        steps: What the reference has done.
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
        """Which CTA, by number, the warp in a slot belongs to."""
        return slot * WARP_THREADS // BLOCK_THREADS

    def set_register(self, slot: int, register: int, values: Iterable[int]) -> None:
        """Gives a register a value for each thread."""
        self.warps[slot].registers[register] = np.array(
            [value & 0xFFFF_FFFF for value in values], np.uint32
        )

    def set_pair(self, slot: int, register: int, values: Iterable[int]) -> None:
        """Gives a pair of registers a value of 64 bits for each thread."""
        values = list(values)
        self.set_register(slot, register, values)
        self.set_register(slot, register + 1, [value >> 32 for value in values])

    def execute(self, step: MemoryStep) -> MemoryStep:
        """Does an instruction on the warp model and notes it; an unreported error is none."""
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
        """SETLMEMBASE."""
        self.warps[slot].local_base = base
        self.steps.append(MemoryStep(slot, NOP, local_base=base))

    def clear_shared(self, slot: int) -> None:
        """The shared memory of a warp's CTA becomes zeros."""
        shared = self.warps[slot].cta.shared
        shared[:] = bytes(len(shared))
        self.steps.append(MemoryStep(slot, NOP, clear=True))

    def read_shared(self) -> None:
        """Each CTA's shared memory is read as a whole, so that it is compared."""
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
