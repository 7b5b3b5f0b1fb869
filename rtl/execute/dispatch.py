"""S3: who executes an instruction, and where it goes: to the lanes, or to another unit."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES, NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.functions import ONE, TURN
from rtl.isa.special_registers import OF_THREADS, SpecialRegister
from rtl.isa.syntax import PT
from rtl.layouts import (
    REPORT_BITS,
    Event,
    InstructionKind,
    LaneClient,
    completion,
    dispatched,
    error_event,
    operands_read,
    reported,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields

from .flags import WarpFlags
from .instruction import OperandSource, ValueSource
from .slots import decoded_stage, lane_slot
from .threads import ThreadSelection
from .vote import Vote

__all__ = ["DispatchStage"]


class DispatchStage(Component):
    """Combinational.

    =====================  ==========  ==================  ==================================
    what is decoded        slot        record              completed
    =====================  ==========  ==================  ==================================
    for the lanes          yes                             yes
    collects registers     yes         when it has them
    goes to a unit         no          at once
    refused                no                              yes
    a gather               yes                             no; ``gathered`` with the last one
    a write                yes                             with the last one
    =====================  ==========  ==================  ==================================

    A gather and a write share a slot; there is no instruction in their cycle.

    Members
    -------
    decoded : In(decoded_stage)
    report_mask : In(32)
    active, flags, first_row : In(32), In(WarpFlags), In
        State of its warp.
    write_first_row : In
        Of the warp that is written to.
    special : In(32)
        The special register that is named, where it is the same in all threads.
    flow_value : In(32)
        What the flow unit has for a register of the warp that is written to.
    slot : Out(Event of lane_slot)
        What begins to pass the lanes.
    is_direct, collects, record : Out(1), Out(1), Out(dispatched)
        An instruction goes to another unit, at once; or when its registers have been read.
    completed : Out(Event of completion)
        What completes when the last beat of the slot is written, or would be.
    passed : Out(1)
        The warp and scoreboards of ``completed`` are released. As ``completed.valid``, and also
        for TRAP, which does not complete here.
    gathered : Out(Event of operands_read)
        What has read its registers; in the cycle of the slot.
    error : Out(Event of error_event)
    clears_status : Out(1)
        The warp's status is read by the register that clears it.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "decoded": In(decoded_stage(params)),
            "report_mask": In(REPORT_BITS),
            "active": In(WARP_THREADS),
            "flags": In(WarpFlags),
            "first_row": In(params.row_bits),
            "write_first_row": In(params.row_bits),
            "special": In(32),
            "flow_value": In(32),
            "slot": Out(Event(lane_slot(params))),
            "is_direct": Out(1),
            "collects": Out(1),
            "record": Out(dispatched(params)),
            "completed": Out(Event(completion(params))),
            "passed": Out(1),
            "gathered": Out(Event(operands_read(params))),
            "error": Out(Event(error_event(params))),
            "clears_status": Out(1),
        })
        self.selection = ThreadSelection()
        self.vote = Vote()
        self._constant_fails = Signal(name="constant_fails")
        """The constant operand is beyond the end of its bank, which is reported."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.selection = self.selection
        m.submodules.vote = self.vote
        self._select_threads(m)
        self._check(m)
        self._fill_slot(m)
        self._choose_operands(m)
        self._choose_uniform(m)
        self._choose_destination(m)
        self._dispatch(m)
        self._complete(m)
        return m

    def _select_threads(self, m: Module) -> None:
        """Which threads execute it, and what they vote."""
        decoded = self.decoded
        selection = self.selection
        m.d.comb += selection.common.eq(decoded.common)
        m.d.comb += selection.collects.eq(decoded.collects)
        m.d.comb += selection.quad.eq(decoded.lanes.quad)
        m.d.comb += selection.active.eq(self.active)
        m.d.comb += selection.flags.eq(self.flags)
        m.d.comb += self.vote.threads.eq(selection.executing)
        m.d.comb += self.vote.predicate.eq(selection.predicate)

    def _check(self, m: Module) -> None:
        """Errors. It is none if a constant is missing that no thread reads."""
        decoded = self.decoded
        instruction = decoded.instruction
        error = self.error
        some_execute = self.selection.executing.any()
        m.d.comb += self._constant_fails.eq(
            instruction.constant_missing
            & reported(self.report_mask, WarpError.INVALID_CONST_ADDR))
        refusal_is_reported = decoded.is_refused & reported(self.report_mask, instruction.error)
        lanes_fail = decoded.computes & self._constant_fails & some_execute
        m.d.comb += error.valid.eq(refusal_is_reported | lanes_fail)
        m.d.comb += common_fields(error.payload, instruction)
        with m.If(~decoded.is_refused):
            m.d.comb += error.payload.error.eq(WarpError.INVALID_CONST_ADDR)

        reads_special = decoded.computes & (decoded.lanes.source_a == ValueSource.SPECIAL)
        names_clearing = decoded.lanes.special == SpecialRegister.WARPERRORSTATUSCLEAR
        m.d.comb += self.clears_status.eq(reads_special & names_clearing & some_execute)

    def _fill_slot(self, m: Module) -> None:
        """Whose slot it is, and which threads execute it: none if the constant fails."""
        decoded = self.decoded
        instruction = decoded.instruction
        gather = decoded.gather
        write = decoded.write
        slot = self.slot.payload
        m.d.comb += self.slot.valid.eq(
            decoded.computes | decoded.collects | decoded.gathers | decoded.writes)
        with m.If(decoded.writes):
            m.d.comb += slot.warp.eq(write.operation.warp)
            m.d.comb += slot.serial.eq(write.operation.serial)
            m.d.comb += slot.first_row.eq(self.write_first_row)
            m.d.comb += slot.threads.eq(write.operation.threads)
        with m.Else():
            lanes_fail = decoded.computes & self._constant_fails
            m.d.comb += slot.warp.eq(instruction.warp)
            m.d.comb += slot.serial.eq(instruction.serial)
            m.d.comb += slot.first_row.eq(self.first_row)
            m.d.comb += slot.threads.eq(
                self.selection.executing & ~lanes_fail.replicate(WARP_THREADS))
        m.d.comb += slot.collects.eq(decoded.collects)
        m.d.comb += slot.quarter.eq(decoded.computes & instruction.quarter)
        m.d.comb += slot.gathers.eq(decoded.gathers)
        m.d.comb += slot.reader.eq(gather.client)
        m.d.comb += slot.read_index.eq(gather.operation.index)
        m.d.comb += slot.is_supplied.eq(decoded.writes)
        m.d.comb += slot.client.eq(write.client)
        m.d.comb += slot.index.eq(write.operation.index)
        m.d.comb += slot.agrees.eq(self.vote.agrees)
        m.d.comb += slot.objects.eq(self.vote.objects)

    def _choose_operands(self, m: Module) -> None:
        """What the lanes execute: what was decoded. What only reads for others reads registers."""
        decoded = self.decoded
        slot = self.slot.payload
        m.d.comb += slot.instruction.eq(decoded.lanes)
        m.d.comb += slot.constant.eq(decoded.instruction.constant)
        for row, register in zip(slot.rows, decoded.registers, strict=True):
            m.d.comb += row.eq(self.first_row + register)
        with m.If(decoded.collects | decoded.gathers):
            m.d.comb += slot.instruction.source_a.eq(ValueSource.REGISTER)
            m.d.comb += slot.instruction.source_b.eq(OperandSource.REGISTER)
            m.d.comb += slot.instruction.source_c.eq(OperandSource.REGISTER)
            m.d.comb += slot.instruction.registers.eq(decoded.registers)

    def _choose_uniform(self, m: Module) -> None:
        """Operand a where it is no register and the same in all threads."""
        decoded = self.decoded
        lanes = decoded.lanes
        slot = self.slot.payload
        next_pc = decoded.instruction.pc + INSTRUCTION_BYTES
        is_flow_write = decoded.write.client == LaneClient.FLOW
        with m.If(decoded.writes):
            m.d.comb += slot.uniform.eq(Mux(is_flow_write, self.flow_value, 0))
        with m.Else(), m.Switch(lanes.source_a):
            with m.Case(ValueSource.SPECIAL):
                m.d.comb += slot.uniform.eq(self.special)
            with m.Case(ValueSource.NEXT_PC):
                m.d.comb += slot.uniform.eq(next_pc)
            with m.Case(ValueSource.BALLOT):
                m.d.comb += slot.uniform.eq(self.vote.ballot)
            with m.Case(ValueSource.ONE):
                m.d.comb += slot.uniform.eq(ONE)
            with m.Case(ValueSource.TURN):
                m.d.comb += slot.uniform.eq(TURN)
        reads_special = lanes.source_a == ValueSource.SPECIAL
        m.d.comb += slot.thread_register.eq(
            Cat(reads_special & (lanes.special == number) for number in OF_THREADS))

    def _choose_destination(self, m: Module) -> None:
        """Where a unit's write goes."""
        write = self.decoded.write.operation
        instruction = self.slot.payload.instruction
        with m.If(self.decoded.writes):
            m.d.comb += instruction.destination.eq(write.register)
            m.d.comb += instruction.p.eq(write.predicate)
            m.d.comb += instruction.q.eq(PT)
            m.d.comb += instruction.writes_cc.eq(write.conditional)

    def _dispatch(self, m: Module) -> None:
        """The instruction as it leaves for a unit beside the lanes."""
        decoded = self.decoded
        instruction = decoded.instruction
        record = self.record
        m.d.comb += self.is_direct.eq(decoded.is_direct)
        m.d.comb += self.collects.eq(decoded.collects)
        m.d.comb += record.warp.eq(instruction.warp)
        m.d.comb += record.serial.eq(instruction.serial)
        m.d.comb += record.pc.eq(instruction.pc)
        m.d.comb += record.word.eq(instruction.word)
        m.d.comb += record.kind.eq(instruction.kind)
        m.d.comb += record.write_barrier.eq(instruction.write_barrier)
        m.d.comb += record.read_barrier.eq(instruction.read_barrier)
        m.d.comb += record.active.eq(self.active)
        m.d.comb += record.guard.eq(self.selection.guard)
        m.d.comb += record.predicate.eq(self.selection.predicate)
        m.d.comb += record.operands[0].eq(instruction.constant)
        m.d.comb += record.same.eq(~0)
        with m.If(decoded.common.misaligned):
            m.d.comb += record.fault.eq(WarpError.MISALIGNED_IMMC_ADDR)
        with m.Elif(self._constant_fails):
            m.d.comb += record.fault.eq(WarpError.INVALID_CONST_ADDR)

    def _complete(self, m: Module) -> None:
        """What completes, and what releases registers."""
        decoded = self.decoded
        instruction = decoded.instruction
        gather = decoded.gather.operation
        write = decoded.write.operation
        completed = self.completed
        m.d.comb += completed.valid.eq(
            decoded.computes | decoded.is_refused | (decoded.writes & write.last))
        with m.If(decoded.writes):
            m.d.comb += common_fields(completed.payload, write)
            m.d.comb += completed.payload.write_barrier.eq(write.barrier)
            m.d.comb += completed.payload.read_barrier.eq(NO_BARRIER)
        with m.Else():
            m.d.comb += common_fields(completed.payload, instruction)
        is_trap = decoded.is_direct & (instruction.kind == InstructionKind.TRAP)
        m.d.comb += self.passed.eq(completed.valid | is_trap)

        m.d.comb += self.gathered.valid.eq(decoded.gathers & gather.last)
        m.d.comb += common_fields(self.gathered.payload, gather)
