"""The expected results of flow instructions, from the warp model: a step for each one that a warp
retires.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rtl.isa.control_code import INSTRUCTION_BYTES, instruction_address, next_address
from rtl.isa.errors import WarpError
from rtl.isa.syntax import Constant, Form, Pipe, Values
from rtl.isa.table import find
from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES, TOKENS_PER_LINE
from rtl.layouts import FlowOperation, ThreadCode
from rtl.params import WARP_THREADS
from sim.launch import Launch
from sim.model.warp.action import constant_address
from sim.model.warp.faults import WarpFaultError
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement, WarpMasks
from sim.model.warp.state import Warp
from sim.model.warp.vector.lanes import mask_of
from testbench.crs.reference import encode_token
from testbench.words import form_of

ALL = (1 << WARP_THREADS) - 1
"""The mask of all threads."""
_CODE_BITS = 3
_SPREAD = [sum((byte >> bit & 1) << _CODE_BITS * bit for bit in range(8)) for byte in range(256)]
_HOLE = bytes(TOKEN_BYTES)
_PUSHES = {"SSY", "PBK", "PCNT", "PRET", "PEXIT", "PLONGJMP"}


def _spread(mask: int) -> int:
    """The mask with its bits spread to the distance of thread codes."""
    return sum(_SPREAD[mask >> 8 * byte & 0xFF] << 8 * _CODE_BITS * byte for byte in range(4))


def codes_of(masks: WarpMasks) -> int:
    """The codes of a warp's threads in the layout of ThreadCodes."""
    return sum(
        _spread(mask) * code.value
        for mask, code in (
            (masks.broken, ThreadCode.BREAK),
            (masks.continued, ThreadCode.CONTINUE),
            (masks.returned, ThreadCode.RETURN),
            (masks.exited, ThreadCode.EXIT),
            (masks.longjumped, ThreadCode.LONGJMP),
            (masks.killed, ThreadCode.KILLED),
        )
    )


@dataclass(frozen=True)
class Start:
    """The launch of a warp. Addresses and sizes are in bytes."""

    pc: int
    threads: int
    base: int = 0
    local: int = 0
    size: int = 0
    check_calls: bool = False


@dataclass(frozen=True)
class FlowStep:
    """One instruction, and its expected result.

    Attributes:
        guard: Threads whose guard holds.
        conditions: The CC nibble of each thread, in order.
        pc_after, active, codes, depth: The state of the warp after the instruction.
        value: The value that the instruction reads; None if it reads none.
        memory: The expected beginning of the stack's region, if the instruction writes it back.
        move: An operation of the trap unit in place of an instruction, to ``target``; word, guard
            and operands are ignored.
        unreported: The error for which the instruction had no effect, if it is not reported.
    """

    word: int
    pc: int
    pc_after: int
    active: int
    codes: int = 0
    depth: int = 0
    guard: int = ALL
    conditions: int = 0
    operand: int = 0
    same: int = ALL
    fault: WarpError = WarpError.NONE
    terminated: bool = False
    error: WarpError = WarpError.NONE
    value: int | None = None
    kept: bool = False
    memory: bytes | None = None
    move: FlowOperation = FlowOperation.NONE
    target: int = 0
    unreported: WarpError = WarpError.NONE

    @property
    def name(self) -> str:
        """The name of the instruction, or of the trap unit's operation."""
        return self.form.name if self.move is FlowOperation.NONE else self.move.name

    @property
    def form(self) -> Form:
        """The form of the instruction."""
        return form_of(self.word)

    @property
    def pushes(self) -> bool:
        """Whether it only pushes, so that the next instruction need not wait for its result."""
        return self.name in _PUSHES


@dataclass(frozen=True)
class Stream:
    """The launch of a warp, followed by its steps."""

    name: str
    start: Start
    steps: list[FlowStep]


def start_of(warp: Warp, launch: Launch) -> Start:
    """The launch of a new warp."""
    return Start(
        warp.pc,
        warp.masks.active,
        warp.local_base,
        launch.local * WARP_THREADS,
        launch.crs // CRS_GRANULE * CRS_GRANULE,
        launch.check_api_calls,
    )


def _operand(
    machine: WarpModel, warp: Warp, form: Form, values: Values, threads: int
) -> tuple[int, int, WarpError]:
    """The operand of an instruction, the threads whose index register has the same value, and the
    error of reading it.
    """
    lowest = (threads & -threads).bit_length() - 1 if threads else 0
    index, same = 0, ALL
    if "Ra" in values:
        row = warp.rows[values["Ra"]]
        index = int(row[lowest])
        same = mask_of(np.asarray(row) == index)
    target = form.operands.get("target")
    if not isinstance(target, Constant):
        return index, same, WarpError.NONE
    address = constant_address(values, target, index)
    if address % 4:
        return (
            0,
            same,
            WarpError.MISALIGNED_ADDR if target.index else WarpError.MISALIGNED_IMMC_ADDR,
        )
    try:
        return (
            machine.constant(values["bank"], address, 4, WarpError.INVALID_CONST_ADDR),
            same,
            WarpError.NONE,
        )
    except WarpFaultError as fault:
        return 0, same, fault.error


def _threads(warp: Warp, form: Form, values: Values) -> int:
    """The active threads whose guard and condition test hold."""
    threads = warp.masks.active & _guard(warp, form, values)
    if "test" in form.fields:
        threads &= warp.condition.holds(values["test"])
    return threads


def _guard(warp: Warp, form: Form, values: Values) -> int:
    """The threads whose guard holds."""
    if not form.guarded:
        return ALL
    predicate = warp.predicates[values["guard"]]
    return ALL & ~predicate if values["guard_not"] else predicate


def memory_of(warp: Warp) -> bytes:
    """The expected beginning of a warp's stack region after a write-back."""
    tokens = [encode_token(token) for token in warp.stack.tokens()] if warp.stack.size else []
    return b"".join(tokens + [_HOLE] * (-len(tokens) % TOKENS_PER_LINE))


def retire(machine: WarpModel, slot: int) -> tuple[Retirement, FlowStep | None]:
    """Retires the next instruction of a warp; returns its record, and its step if it is a flow
    instruction.
    """
    warp = machine.warps[slot]
    assert warp is not None
    nibbles = warp.condition.nibbles().tolist()
    word = machine.memory.read_number(
        machine.launch.program_base + instruction_address(warp.pc), INSTRUCTION_BYTES
    )
    form = find(word)
    if form is None or form.pipe is not Pipe.FLOW:
        return machine.retire(slot), None
    values = form.values(word)
    operand, same, fault = _operand(machine, warp, form, values, _threads(warp, form, values))
    guard = _guard(warp, form, values)
    kept = warp.cta.keeps_reference
    warp.cta.keeps_reference = False
    record = machine.retire(slot)
    keeps, warp.cta.keeps_reference = warp.cta.keeps_reference, warp.cta.keeps_reference or kept
    value = None
    if record.registers:
        ((threads, row),) = record.registers.values()
        value = row[(threads & -threads).bit_length() - 1]
    failed = record.error is not WarpError.NONE and not record.terminated
    after = next_address(record.pc) % (1 << 32) if failed else record.next_pc
    return record, FlowStep(
        word,
        record.pc,
        after,
        0 if record.terminated else record.after.active,
        codes_of(record.after),
        0 if record.terminated else record.depth_after,
        guard,
        sum(nibble << 4 * thread for thread, nibble in enumerate(nibbles)),
        operand,
        same,
        fault,
        record.terminated,
        record.error,
        value,
        keeps and not failed,
        memory_of(warp) if form.name == "CCTLL" else None,
        unreported=record.unreported,
    )


def with_write_back(warp: Warp, word: int) -> FlowStep:
    """A write-back that is not in the program, inserted to compare the memory."""
    pc = instruction_address(warp.pc)
    return FlowStep(
        word,
        pc,
        next_address(pc),
        warp.masks.active,
        codes_of(warp.masks),
        warp.stack.depth,
        memory=memory_of(warp),
    )


def streams(
    name: str, machine: WarpModel, place: Iterator[int], write_back: int, limit: int
) -> Iterator[Stream]:
    """Runs a machine for ``limit`` instructions; returns the stream of each warp.

    Each warp's memory block is moved to the next address of ``place``. A write-back (the word
    ``write_back``) is inserted at times and at the end.
    """
    launch, lives = machine.launch, {}
    for _ in range(limit):
        for warp in machine.live:
            if id(warp) not in lives:
                base = next(place)
                launch.memory.map(f"stack {base:#x}", base, launch.warp_block)
                warp.local_base = base
                lives[id(warp)] = (
                    warp,
                    Stream(f"{name} warp {len(lives)}", start_of(warp, launch), []),
                )
        chosen = machine.choose()
        if chosen is None:
            break
        steps = lives[id(chosen)][1].steps
        _, step = retire(machine, chosen.slot)
        if step is not None:
            steps.append(step)
            if len(steps) % 16 == 0 and not chosen.terminated and step.error is WarpError.NONE:
                steps.append(with_write_back(chosen, write_back))
        if machine.error_status is not None:
            break
    for warp, stream in lives.values():
        if not warp.terminated and machine.error_status is None:
            stream.steps.append(with_write_back(warp, write_back))
        yield stream
