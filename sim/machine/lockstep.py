"""Runs the hardware and the warp model in lockstep, instruction by instruction.

The hardware's instructions are assembled from the events of its retirement interface. The warp
model then executes the same instruction of the same warp, and the effects are compared: registers,
predicates, CC; masks and next pc of flow instructions; errors. The instructions of a warp are
compared in the order of issue; those with effects that other warps can observe, in the order in
which the units executed them. Warps enter and leave the trap when those of the hardware do; a
handler's read of state that all warps share gets the value that the hardware read.

Loaded values are compared by instruction, and all of memory at the end.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from rtl.isa.control_code import instruction_address
from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import SM_REGISTERS
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.table import find
from rtl.layouts import KIND_RULES, InstructionKind, kinds_where
from rtl.params import WARP_THREADS, SmParams
from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.comparison import (
    Difference,
    MismatchError,
    WrittenFlags,
    compare,
    compare_flow,
    memory_difference,
)
from sim.machine.hardware_instructions import CACHED_MASKS, MOVES, HardwareInstruction, of_thread
from sim.machine.retirement_events import RetirementEvent
from sim.machine.warp_state import state_of
from sim.model.warp.host import ModelHost
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement
from sim.model.warp.state import Cta, Warp

__all__ = ["Lockstep", "Withdrawal", "reads_time"]

_FLOW = kinds_where(lambda rule: rule.unit == "flow")
_SHARED_ORDER = {
    kind: rule.unit for kind, rule in KIND_RULES.items() if rule.unit in ("memory", "barrier")
}
"""Kinds of instructions with effects on other warps, and the unit that executes them in order."""
_TIMED = frozenset(
    {
        SpecialRegister.CLOCK,
        SpecialRegister.CLOCKLO,
        SpecialRegister.CLOCKHI,
        SpecialRegister.GLOBALTIMERLO,
        SpecialRegister.GLOBALTIMERHI,
        SpecialRegister.GLOBALERRORSTATUS,
    }
)
"""Special registers whose value depends on when they are read."""
_RUN_TRIGGER = SM_REGISTERS["DBGR_CONTROL0"].put(RUN_TRIGGER=1)


@dataclass
class _Slot:
    """A warp slot: instructions that the warp model has not executed yet, and the hardware's
    writes.
    """

    waiting: deque[HardwareInstruction] = field(default_factory=deque)
    flow: deque[HardwareInstruction] = field(default_factory=deque)
    flags: WrittenFlags = field(default_factory=WrittenFlags)
    failed_at: int | None = None
    """Address of the last instruction, if it had an error: the next one may be a repetition of it."""
    withdrawn: bool = False
    """Whether its arrival at a barrier was withdrawn, so that it can enter the trap."""


@dataclass(frozen=True)
class Withdrawal:
    """The withdrawal of a warp's arrival at a barrier, so that the warp can enter the trap."""

    warp: int
    cycle: int


class Lockstep:
    """Follows a run of the hardware with the warp model.

    Parameters:
        launch: The grid; its memory is the warp model's, not the hardware's.
        params: Parameters of the hardware.
        report_mask: Bit n: warp errors of code n are reported.

    Attributes:
        difference: The first mismatch; nothing is compared after it.
        compared: Number of instructions that were equal on both sides.
        moved: Number of entries into the trap and exits from it.
        host: The registers of the warp model, for those that the hardware's host also writes. Its
            status of the machine-wide trap has no meaning.
        on_instruction: Called with the warp and the word of each instruction, before the warp model
            executes it.
        on_trap_entry: Called before each entry into the trap, with the warp, whether it waited at a
            barrier, and whether its last instruction had an error.
    """

    on_instruction: Callable[[Warp, int], object] | None = None
    on_trap_entry: Callable[[Warp, bool, bool], object] | None = None

    def __init__(
        self, launch: Launch, params: SmParams, report_mask: int = REPORT_MASK_RESET
    ) -> None:
        self.machine = WarpModel(
            replace(launch, floats=params.floats, doubles=params.doubles),
            warps=params.warps,
            report_mask=report_mask,
            stack_tokens=params.stack_tokens,
            follows=True,
        )
        self.host = ModelHost(self.machine)
        self.difference: Difference | None = None
        self.compared = self.moved = 0
        self._lanes = params.lanes
        self._slots = [_Slot() for _ in range(params.warps)]
        self._by_sequence: dict[tuple[int, int], HardwareInstruction] = {}
        self._orders: dict[str, deque[HardwareInstruction | Withdrawal]] = {
            "memory": deque(),
            "barrier": deque(),
        }
        self._writes: deque[tuple[int, str, int]] = deque()
        self._launches: deque[list[dict[str, int]]] = deque()

    # Events of the hardware.

    def take(self, event: RetirementEvent) -> None:
        """Processes the next event of the hardware."""
        while self._writes and self._writes[0][0] < event.cycle:
            _, register, word = self._writes.popleft()
            self.host.write(register, word)
        if self.difference is None:
            getattr(self, f"_take_{event.member}")(event)

    def note_write(self, cycle: int, register: str, word: int) -> None:
        """Processes a register write of the hardware's host in this cycle.

        Which warps it wakes follows from their later instructions. Registers that the warp model
        does not have are ignored.
        """
        if register == "DBGR_CONTROL0":
            word &= ~_RUN_TRIGGER
        if self.host.writes(register) and not register.startswith("BPT_PAUSE_MASK"):
            self._writes.append((cycle, register, word))

    def catch_up(self) -> None:
        """Processes the end of the cycles so far, of which no more events arrive."""
        while self._writes:
            _, register, word = self._writes.popleft()
            self.host.write(register, word)

    def _take_launched(self, event: RetirementEvent) -> None:
        fields = event.fields
        if fields["number"] == 0:
            self._launches.append([])
        self._launches[-1].append(dict(fields))

    def _take_issued(self, event: RetirementEvent) -> None:
        fields = event.fields
        instruction = HardwareInstruction(
            fields["sequence"],
            event.cycle,
            fields["pc"],
            fields["word"],
            InstructionKind(fields["kind"]),
        )
        slot = self._slots[fields["warp"]]
        slot.waiting.append(instruction)
        self._by_sequence[fields["warp"], instruction.sequence] = instruction
        if instruction.kind in _FLOW:
            slot.flow.append(instruction)
        if (unit := _SHARED_ORDER.get(instruction.kind)) is not None:
            self._orders[unit].append(instruction)

    def _take_written(self, event: RetirementEvent) -> None:
        fields = event.fields
        instruction = self._by_sequence.get((fields["warp"], fields["sequence"]))
        # A warp's first instruction may issue in the cycle in which the last register is cleared
        # for the warp.
        if instruction is None or event.cycle == instruction.cycle or not fields["lanes"]:
            return
        instruction.write(fields, self._lanes)

    def _take_completed(self, event: RetirementEvent) -> None:
        instruction = self._by_sequence.get((event.fields["warp"], event.fields["sequence"]))
        if instruction is not None:
            instruction.complete = True
            self._advance()

    def _take_flow(self, event: RetirementEvent) -> None:
        fields = event.fields
        slot = self._slots[fields["warp"]]
        if not slot.flow:  # The flow result of a launch.
            return
        instruction = slot.flow.popleft()
        instruction.take_flow(fields)
        self._advance()

    def _take_withdrawn(self, event: RetirementEvent) -> None:
        """Withdraws the arrival after the arrivals that are complete and after the warp's own.

        An instruction that was issued before it may arrive later at the unit, because of its
        operands.
        """
        order, number = self._orders["barrier"], event.fields["warp"]
        counted = 0
        while counted < len(order) and (
            isinstance(entry := order[counted], Withdrawal) or entry.complete
        ):
            counted += 1
        own = self._slots[number].waiting
        arrived = [place for place, entry in enumerate(order) if any(entry is each for each in own)]
        order.insert(
            max([counted, *(place + 1 for place in arrived)]), Withdrawal(number, event.cycle)
        )
        self._advance()

    def _take_errors(self, event: RetirementEvent) -> None:
        fields = event.fields
        for instruction in (
            self._slots[fields["warp"]].waiting if event.source != "flow" else ()
        ):  # The flow results report errors of their own.
            if instruction.pc == fields["pc"] and instruction.error is WarpError.NONE:
                instruction.error, instruction.complete = WarpError(fields["error"]), True
                break
        self._advance()

    # The warp model.

    def _advance(self) -> None:
        """Has the warp model execute all instructions that are next in order."""
        going = True
        while going and self.difference is None:
            self._start()
            self._withdraw()
            going = False
            for number, slot in enumerate(self._slots):
                while slot.waiting and self.difference is None and self._may(number, slot):
                    self._execute(number, slot)
                    going = True

    def _withdraw(self) -> None:
        """Executes withdrawals that are next in order."""
        order = self._orders["barrier"]
        while order and isinstance(withdrawal := order[0], Withdrawal):
            order.popleft()
            number = withdrawal.warp
            try:
                self.machine.withdraw(number)
            except ValueError as error:
                warp = self.machine.warps[number]
                self.difference = Difference(
                    withdrawal.cycle,
                    number,
                    instruction_address(warp.pc) if warp is not None else 0,
                    0,
                    "an arrival at a barrier",
                    "taken back",
                    str(error),
                    "(in front of it)",
                )
                return
            self._slots[number].withdrawn = True

    def _start(self) -> None:
        """Starts CTAs whose slots are free."""
        while self._launches:
            warps = self._launches[0]
            if len(warps) < warps[0]["cta_warps"] or any(
                self.machine.warps[warp["warp"]] is not None for warp in warps
            ):
                return
            index = warps[0]["index"]
            assert isinstance(index, dict)
            self.machine.start(
                Cta((index["x"], index["y"], index["z"]), self.machine.launch),
                [warp["warp"] for warp in warps],
            )
            for warp in warps:
                slot = self._slots[warp["warp"]]
                slot.flags = WrittenFlags()
            self._launches.popleft()

    def _may(self, number: int, slot: _Slot) -> bool:
        """Whether a warp's next instruction can be executed.

        A warp that waits at a barrier is first released, or its arrival is withdrawn so that it can
        enter the trap.
        """
        instruction, warp = slot.waiting[0], self.machine.warps[number]
        if not instruction.complete or warp is None or warp.barrier is not None:
            return False
        unit = _SHARED_ORDER.get(instruction.kind)
        return unit is None or self._orders[unit][0] is instruction

    def _execute(self, number: int, slot: _Slot) -> None:
        """Executes a warp's next instruction and compares its effects."""
        instruction, warp = slot.waiting.popleft(), self.machine.warps[number]
        assert warp is not None
        self._by_sequence.pop((number, instruction.sequence), None)
        if (unit := _SHARED_ORDER.get(instruction.kind)) is not None:
            self._orders[unit].popleft()
        try:
            self._compare_place(instruction, slot, warp)
            failed, slot.failed_at = slot.failed_at is not None, None
            if instruction.kind in MOVES:
                self._move(instruction, number, warp, failed=failed)
                return
            if self.on_instruction is not None:
                self.on_instruction(warp, instruction.word)
            record = self.machine.retire(number)
            if instruction.word != record.word and record.error is WarpError.NONE:
                raise MismatchError(
                    "instruction word", f"{instruction.word:016x}", f"{record.word:016x}"
                )
            self._follow_time(instruction, warp, record)
            compare(instruction, slot.flags, warp, record)
        except MismatchError as error:
            what, hardware, reference = error.args
            self.difference = Difference(
                instruction.cycle,
                number,
                instruction.pc,
                instruction.word,
                what,
                str(hardware),
                str(reference),
                instruction.text,
                tuple(state_of(warp).stack_lines()),
            )
            return
        if record.error is not WarpError.NONE:
            slot.failed_at = instruction.pc
        self.compared += 1

    def _compare_place(self, instruction: HardwareInstruction, slot: _Slot, warp: Warp) -> None:
        """Compares the pc of the warp with the hardware's. After an error both may be at the same
        instruction again.
        """
        if slot.failed_at == instruction.pc:
            warp.pc = instruction.pc
        if instruction.pc != (expected := instruction_address(warp.pc)):
            raise MismatchError("pc", f"{instruction.pc:#x}", f"{expected:#x}")

    def _move(
        self, instruction: HardwareInstruction, number: int, warp: Warp, *, failed: bool
    ) -> None:
        """Makes the warp enter or leave the trap."""
        if instruction.kind is InstructionKind.ENTER:
            if warp.in_trap and warp.trap.framed:
                raise MismatchError("the trap", "entered", "entered already")
            waited, self._slots[number].withdrawn = self._slots[number].withdrawn, False
            if self.on_trap_entry is not None:
                self.on_trap_entry(warp, waited, failed)
            record = self.machine.enter(number)
        else:
            if warp.trap.returning is None:
                raise MismatchError("the trap", "left", "not at RTT")
            record = self.machine.leave(number)
        if instruction.error is not record.error:
            raise MismatchError("error", instruction.error.name, record.error.name)
        compare_flow(instruction, record)
        self.moved += 1

    def _follow_time(
        self, instruction: HardwareInstruction, warp: Warp, record: Retirement
    ) -> None:
        """Gives an instruction that depends on time the value that the hardware read."""
        if not reads_time(instruction.word):
            return
        for number, (threads, _) in record.registers.items():
            mask, values = instruction.registers.get(number, (0, 0))
            if mask == threads:
                row = warp.rows[number].tolist()
                row = [
                    of_thread(values, thread) if threads >> thread & 1 else row[thread]
                    for thread in range(WARP_THREADS)
                ]
                warp.rows[number][:] = np.array(row, np.uint32)
                record.registers[number] = (threads, tuple(row))

    # The end of a run.

    def pending(self) -> list[str]:
        """Returns the text of the instructions that the hardware did not complete, the first one of
        each warp.
        """
        heads = [
            (number, slot.waiting[0]) for number, slot in enumerate(self._slots) if slot.waiting
        ]
        return [
            f"warp {number}: {head.pc:#06x}  {head.text}, issued in cycle {head.cycle}"
            for number, head in heads
        ]

    def compare_memory(self, memory: Memory) -> str | None:
        """See :func:`~sim.machine.comparison.memory_difference`."""
        return memory_difference(memory, self.machine.memory)


@lru_cache(CACHED_MASKS)
def reads_time(word: int) -> bool:
    """Whether an instruction reads a value that depends on time."""
    form = find(word)
    return (
        form is not None and form.name in ("S2R", "CS2R") and form.values(word)["special"] in _TIMED
    )
