"""The warp model: CTAs occupy warp slots, and one warp at a time fetches and retires an
instruction.

It has the function of the hardware and none of its timing. Each step retires one instruction of one
warp and returns its :class:`~sim.model.warp.retirement.Retirement`, the same record that the
hardware's retirement interface gives, so that both can be compared instruction by instruction.

Choices of this project beyond those at each instruction: errors are precise, an instruction that
raises one changes nothing. An unreported error is no error: the instruction does nothing and the
warp continues. After a reported error the warp executes the instruction again, except in the trap
handler, where it is skipped. Without a trap handler, a reported error or a BPT.TRAP ends with all
warps paused.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from rtl.isa.control_code import INSTRUCTION_BYTES, instruction_address, next_address
from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.tokens import CACHED_TOKENS
from sim.launch import Launch

from .barriers import settle, withdraw
from .bounds import Bounds
from .decode import WarpInstruction, decode
from .error_status import ErrorLog, ErrorStatus
from .faults import WarpFaultError, memory_faults
from .native.executor import Executor, executor_for, threshold_of
from .retirement import Execution, Retirement
from .state import Cta, Warp
from .traps import Traps

__all__ = ["ErrorStatus", "Result", "WarpModel"]

_PC_MASK = (1 << 32) - 1
_DEFAULT_SLOTS = 64


@dataclass(frozen=True)
class Result:
    """The end of a run.

    Attributes:
        status: ``ok`` if every CTA has ended; ``error`` if warps were paused for the error in
            ``error_status``, or ended with a warp error; ``timeout`` if the limit of instructions
            was reached or no live warp can continue (see ``reason``); ``interrupted`` for an
            interrupted run.
    """

    status: str
    instructions: int
    reason: str = ""
    error_status: ErrorStatus | None = None


def _whole_words(bank: bytes) -> bytes:
    """Returns a constant bank, padded with zeros to whole words."""
    return bank + bytes(-len(bank) % 4)


class WarpModel:
    """A streaming multiprocessor without timing.

    Parameters:
        launch: The grid. The memory blocks of the warp slots are allocated in its memory, so a
            launch serves one machine.
        warps: Number of warp slots. CTAs start in the order of the grid, x first, each when enough
            slots are free; a CTA takes the lowest free slots (ours).
        report_mask: Bit n: warp errors of code n are reported. May be changed while the machine
            runs.
        order: None: round robin by slot. A number: the seed of a random order.
        stack_tokens: Capacity of a warp's call/return stack on chip, in tokens; without a region in
            memory, its whole capacity.
        follows: Whether the model follows another machine: CTAs start only by :meth:`start`, and
            warps enter and leave the trap only by :meth:`enter` and :meth:`leave`.

    Attributes:
        memory: The launch's memory.
        warps: The warp in each slot, None for a free slot.
        clock: The value of the clock registers: instructions retired. May be set, to follow another
            machine's.
        instructions: Number of instructions retired.
        traps: The state of traps.
        log: The errors and traps so far.
        raised: Bits of the global error status that are set, by name as in GlobalError.
        trap_reasons: Reasons of BPT.TRAP so far.
        bounds: If set, checks that global accesses stay within the memory that the program was
            given.
        banks: The constant banks by number.
        local_memory: Address of the memory block (local memory and stacks) of the warp in slot 0.
        cta_count: Number of CTAs that the model starts by itself.
        next_cta: Number of the next one of these.
        last_slot: The slot that was scheduled last.
        timeout: Watchdog: whether TIMEOUT is raised when no live warp can continue although no trap
            holds all of them.

    Raises:
        ValueError: A CTA has more warps than there are slots.
    """

    def __init__(
        self,
        launch: Launch,
        *,
        warps: int = _DEFAULT_SLOTS,
        report_mask: int = REPORT_MASK_RESET,
        order: int | None = None,
        stack_tokens: int = CACHED_TOKENS,
        follows: bool = False,
    ) -> None:
        if launch.warps > warps:
            raise ValueError(
                f"a CTA of {launch.threads} threads needs {launch.warps} warps, the machine has {warps}"
            )
        self.launch = launch
        self.memory = launch.memory
        self.report_mask = report_mask
        self.slots = warps
        self.warps: list[Warp | None] = [None] * warps
        self.clock = 0
        self.instructions = 0
        self.log = ErrorLog()
        self.timeout = False
        self.bounds: Bounds | None = None
        self.raised = self.log.raised
        self.trap_reasons = self.log.trap_reasons
        self.traps = Traps(self.warps, self.log, self.reports, self._end, launch.trap_handler)
        self._follows = follows
        self.stack_tokens = stack_tokens
        self.banks = {bank: _whole_words(launch.bank(bank)) for bank in launch.banks}
        self.local_memory = launch.allocate_local(warps, launch.memory)
        self._decoded: dict[int, WarpInstruction] = {}
        self._order = None if order is None else random.Random(order)
        self.last_slot = warps - 1
        self._may_start_cta = True
        """Whether a slot was freed since CTAs were last started."""
        width, height, depth = launch.grid
        self.cta_count = 0 if follows else width * height * depth
        self.next_cta = 0
        self._executor: Executor | None = None
        self._may_compile = order is None and not follows
        self._threshold = threshold_of(launch)
        self._start_ctas()

    def make_cta(self, number: int) -> Cta:
        """Returns a new CTA of the launch, by its number in the order in which CTAs start."""
        width, height, _ = self.launch.grid
        return Cta(
            (number % width, number // width % height, number // (width * height)), self.launch
        )

    def number_of(self, cta: Cta) -> int:
        """Returns the number of a CTA in the order in which CTAs start."""
        x, y, z = cta.index
        width, height, _ = self.launch.grid
        return x + width * (y + height * z)

    def _start_ctas(self) -> None:
        """Starts CTAs while enough slots are free."""
        self._may_start_cta = False
        while self.next_cta < self.cta_count:
            free = [slot for slot, warp in enumerate(self.warps) if warp is None][
                : self.launch.warps
            ]
            if len(free) < self.launch.warps:
                return
            self.start(self.make_cta(self.next_cta), free)
            self.next_cta += 1

    def start(self, cta: Cta, slots: Sequence[int]) -> None:
        """Places the warps of a CTA in free slots."""
        for number, slot in enumerate(slots):
            block = self.local_memory + slot * self.launch.warp_block
            warp = Warp(slot, number, cta, self.launch, block, self.stack_tokens)
            self.warps[slot] = warp
            cta.warps.append(warp)

    def constant(self, bank: int, address: int, size: int, error: WarpError) -> int:
        """Reads ``size`` bytes of a constant bank, little endian.

        Beyond the bank's last word it raises WarpFaultError with ``error`` if that error is
        reported, else returns 0.
        """
        content = self.banks.get(bank, b"")
        if address + size > len(content):
            if self.reports(error):
                raise WarpFaultError(error)
            return 0
        return int.from_bytes(content[address : address + size], "little")

    def reports(self, error: WarpError) -> bool:
        """Whether an error is reported."""
        return bool(self.report_mask >> error.value & 1)

    @property
    def error_status(self) -> ErrorStatus | None:
        """The first error, else the first trap; None without either."""
        if self.log.first is None:
            return None
        return replace(self.log.first, trap_reasons=tuple(sorted(self.trap_reasons)))

    @property
    def live(self) -> list[Warp]:
        """The warps that have not ended, by slot."""
        return [warp for warp in self.warps if warp is not None]

    def choose(self) -> Warp | None:
        """Selects the next warp; None if no warp can continue."""
        if self._order is not None:
            ready = [warp for warp in self.live if self._is_ready(warp)]
            return self._order.choice(ready) if ready else None
        following = self.last_slot + 1
        for slot in chain(range(following, self.slots), range(following)):
            warp = self.warps[slot]
            if warp is not None and self._is_ready(warp):
                self.last_slot = slot
                return warp
        return None

    def _is_ready(self, warp: Warp) -> bool:
        return warp.barrier is None and self.traps.ready(warp)

    def step(self) -> Retirement | None:
        """Retires the next instruction of the next warp; None if no warp can continue."""
        warp = self.choose()
        if warp is None:
            if self.timeout and self.live and not self.traps.locked_down:
                self.raised.add("TIMEOUT")
            return None
        return self.retire(warp.slot) if self._follows else self._retire(warp)

    def _fetch(self, address: int) -> WarpInstruction:
        with memory_faults:
            word = self.memory.read_number(self.launch.program_base + address, INSTRUCTION_BYTES)
        if word not in self._decoded:
            self._decoded[word] = decode(
                word, self.launch.registers, self.launch.floats, self.launch.doubles
            )
        return self._decoded[word]

    def retire(self, slot: int) -> Retirement:
        """Retires the next instruction of the warp in ``slot``.

        Raises ValueError if the slot is empty, or its warp waits at a barrier or is stopped by a
        trap.
        """
        warp = self._warp(slot)
        if self._follows:
            self._resume(warp)
        if warp.barrier is not None or not self.traps.ready(warp):
            raise ValueError(
                f"warp slot {slot} {'waits at a barrier' if warp.barrier is not None else 'is stopped'}"
            )
        return self._retire(warp)

    def _retire(self, warp: Warp) -> Retirement:
        """Retires the next instruction of a warp that can continue."""
        execution = self.execute(warp)
        self.complete(warp, execution)
        return execution.record

    def execute(self, warp: Warp) -> Execution:
        """Executes the next instruction of a warp, without its consequences for the machine (see
        :meth:`complete`).
        """
        address = instruction_address(warp.pc)
        masks, depth, following = warp.masks, warp.stack.depth, next_address(address) & _PC_MASK
        record = Retirement(warp.slot, address, 0, masks, masks, following, depth, depth)
        detail = ""
        try:
            instruction = self._fetch(address)
            record.word = instruction.word
            if instruction.error is not WarpError.NONE:
                raise WarpFaultError(instruction.error)
            instruction.action(self, warp, instruction.threads(warp), record)
        except WarpFaultError as fault:
            record.error, detail = fault.error, fault.detail
            # In the trap handler a failing instruction is skipped; elsewhere, if its error is
            # unreported.
            record.next_pc = (
                warp.pc if self.reports(fault.error) and not warp.in_trap else following
            )
        return Execution(record, detail, following)

    def _warp(self, slot: int) -> Warp:
        """Returns the warp in a slot; ValueError if the slot is empty."""
        warp = self.warps[slot]
        if warp is None:
            raise ValueError(f"warp slot {slot} is empty")
        return warp

    def complete(self, warp: Warp, execution: Execution) -> None:
        """Applies the consequences of an executed instruction: errors, traps, the end of the warp,
        CTAs that start.
        """
        record, detail, following = execution
        record.after, record.depth_after = warp.masks, warp.stack.depth
        record.api_call_depth, record.kill_future_branch = (
            warp.api_call_depth,
            warp.kill_future_branch,
        )
        if record.error is not WarpError.NONE and not self.reports(record.error):
            record.error, record.unreported = WarpError.NONE, record.error
        self.traps.note_executed(warp, record.pc)
        if record.error is WarpError.NONE or record.terminated:
            self.instructions += 1
            self.clock += 1
        warp.pc = (
            following if self._follows and record.error is not WarpError.NONE else record.next_pc
        )
        if record.error is not WarpError.NONE:
            self.traps.fail(warp, record.error, record.pc, detail)
        if record.terminated:
            self._end(warp)
        if not self._follows:
            self.traps.settle(warp)
            if self._may_start_cta and not self.traps.trapping:
                self._start_ctas()

    def settle(self) -> None:
        """Applies pending traps and starts CTAs, after the host has changed something.

        :meth:`complete` does so after each instruction. A model that follows another machine does
        nothing here.
        """
        if self._follows:
            return
        self.traps.settle()
        if not self.traps.trapping:
            self._start_ctas()

    def _end(self, warp: Warp) -> None:
        """Frees the slot of a warp that has ended."""
        self.warps[warp.slot] = None
        self._may_start_cta = True
        warp.cta.warps.remove(warp)
        settle(warp.cta)

    # Following another machine.

    def withdraw(self, slot: int) -> None:
        """Withdraws the warp in ``slot`` from its barrier, before it enters the trap; it will
        return to its BAR.
        """
        warp = self._warp(slot)
        withdraw(warp)
        warp.trap.saved_pc = warp.trap.last_pc

    def enter(self, slot: int) -> Retirement:
        """Makes the warp in ``slot`` enter the trap, as the other machine did.

        It will return to its first instruction that failed, not to a later one. The record has no
        word; its pc is the next instruction's.
        """
        warp = self._warp(slot)
        self._resume(warp)
        return self.traps.enter(warp)

    def leave(self, slot: int) -> Retirement:
        """Makes the warp in ``slot`` leave the trap by its RTT; ValueError if it does not wait
        there.
        """
        warp = self._warp(slot)
        if warp.trap.returning is None:
            raise ValueError(f"warp slot {slot} does not wait to leave a trap")
        return self.traps.leave(warp)

    def _resume(self, warp: Warp) -> None:
        """Wakes a warp as the other machine did; without a handler it is also released."""
        warp.trap.paused = warp.trap.quiet = False
        if warp.in_trap and not warp.trap.framed:
            self.traps.leave(warp)

    def run(self, max_instructions: int | None = None) -> Result:
        """Steps until all CTAs have ended, no warp can continue, or ``max_instructions`` more have
        retired.

        May be called again after the limit, and after the other cases once the host has changed
        something.
        """
        end = None if max_instructions is None else self.instructions + max_instructions
        while end is None or self.instructions < end:
            if self._may_compile and self.instructions >= self._threshold:
                self._run_compiled(end)
                if end is not None and self.instructions >= end:
                    break
            if self.step() is None:
                return self._ended()
        return (
            self._ended()
            if not self.live
            else Result(
                "timeout", self.instructions, f"stopped after {self.instructions} instructions"
            )
        )

    def _run_compiled(self, end: int | None) -> None:
        """Executes instructions by the compiled core, where it can, until ``end`` instructions have
        retired.
        """
        if self._executor is None:
            self._executor = executor_for(self)
            self._may_compile = self._executor is not None
        if self._executor is not None:
            self._executor.run(end)

    def _ended(self) -> Result:
        """Returns the result of a run in which no warp can continue."""
        live, status = self.live, self.error_status
        if not live:
            failed = status is not None and status.error is not WarpError.NONE
            return Result("error" if failed else "ok", self.instructions, error_status=status)
        if self.traps.locked_down and status is not None:
            return Result("error", self.instructions, error_status=status)
        if all(warp.trap.paused for warp in live):
            reason = "every live warp is paused"
        elif all(warp.barrier is not None for warp in live):
            reason = "every live warp waits at a barrier"
        else:
            reason = "every live warp waits for another one, or is paused"
        return Result("timeout", self.instructions, reason)
