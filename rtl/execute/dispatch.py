"""S3: who executes an instruction, and where it goes: to the lanes, or to another unit."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

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
from rtl.structs import common_fields, struct_value

from .flags import WarpFlags
from .instruction import LaneDestination, OperandSource, ValueSource
from .reads import UniformRead, WarpRead
from .slots import SlotOperation, decoded_stage, lane_slot, slot_owner
from .threads import ThreadSelection
from .vote import votes_of

__all__ = ["DispatchStage"]


class DispatchStage(Component):
    """Combinational.

    =====================  ==========  ==================  ==================================
    what is decoded        slot        dispatched          completed
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
    active, flags : Out(WarpRead of 32 bits), Out(WarpRead of WarpFlags)
        State of its warp.
    first_row, write_first_row : In
        Where the registers of its warp begin, and those of the warp that is written to.
    special : Out(UniformRead)
        The special register that is named.
    flow_value : Out(WarpRead of 32 bits)
        What the flow unit has for a register of the warp that is written to.
    slot : Out(Event of lane_slot)
        What begins to pass the lanes.
    direct, collected : Out(Event of dispatched)
        An instruction goes to another unit, at once; or when its registers have been read. Both
        have the same payload.
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
        self._params = params
        super().__init__({
            "decoded": In(decoded_stage(params)),
            "report_mask": In(REPORT_BITS),
            "active": Out(WarpRead(params, WARP_THREADS)),
            "flags": Out(WarpRead(params, WarpFlags)),
            "first_row": In(params.row_bits),
            "write_first_row": In(params.row_bits),
            "special": Out(UniformRead(params)),
            "flow_value": Out(WarpRead(params, 32)),
            "slot": Out(Event(lane_slot(params))),
            "direct": Out(Event(dispatched(params))),
            "collected": Out(Event(dispatched(params))),
            "completed": Out(Event(completion(params))),
            "passed": Out(1),
            "gathered": Out(Event(operands_read(params))),
            "error": Out(Event(error_event(params))),
            "clears_status": Out(1),
        })
        self.selection = ThreadSelection(params)
        self._constant_fails = Signal(name="constant_fails")
        """The constant operand is beyond the end of its bank, which is reported."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.selection = self.selection
        self._read(m)
        self._check(m)
        self._fill_slot(m)
        self._choose_operands(m)
        self._choose_uniform(m)
        self._choose_destination(m)
        self._dispatch(m)
        self._complete(m)
        return m

    def _read(self, m: Module) -> None:
        """What is kept of the warp, and which threads execute the instruction."""
        decoded = self.decoded
        connect(m, self.selection.active, flipped(self.active))
        connect(m, self.selection.flags, flipped(self.flags))
        m.d.comb += self.selection.decoded.eq(decoded)
        m.d.comb += self.special.warp.eq(decoded.warp)
        m.d.comb += self.special.number.eq(decoded.lanes.special)
        m.d.comb += self.flow_value.warp.eq(decoded.write.operation.warp)

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
        owner = slot_owner(self._params)
        m.d.comb += self.slot.valid.eq(
            decoded.computes | decoded.collects | decoded.gathers | decoded.writes)
        with m.If(decoded.writes):
            m.d.comb += slot.owner.eq(struct_value(
                owner,
                warp=write.operation.warp,
                serial=write.operation.serial,
                first_row=self.write_first_row))
            m.d.comb += slot.threads.eq(write.operation.threads)
        with m.Else():
            lanes_fail = decoded.computes & self._constant_fails
            m.d.comb += slot.owner.eq(struct_value(
                owner,
                warp=instruction.warp,
                serial=instruction.serial,
                first_row=self.first_row))
            m.d.comb += slot.threads.eq(
                self.selection.executing & ~lanes_fail.replicate(WARP_THREADS))
        m.d.comb += slot.collects.eq(decoded.collects)
        m.d.comb += slot.quarter.eq(decoded.computes & instruction.quarter)
        m.d.comb += slot.votes.eq(
            votes_of(self.selection.executing, self.selection.predicate))
        m.d.comb += slot.gather.eq(struct_value(
            SlotOperation,
            is_present=decoded.gathers,
            client=gather.client,
            index=gather.operation.index))
        m.d.comb += slot.write.eq(struct_value(
            SlotOperation,
            is_present=decoded.writes,
            client=write.client,
            index=write.operation.index))

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
            m.d.comb += slot.uniform.eq(Mux(is_flow_write, self.flow_value.value, 0))
        with m.Else(), m.Switch(lanes.source_a):
            with m.Case(ValueSource.SPECIAL):
                m.d.comb += slot.uniform.eq(self.special.value)
            with m.Case(ValueSource.NEXT_PC):
                m.d.comb += slot.uniform.eq(next_pc)
            with m.Case(ValueSource.BALLOT):
                m.d.comb += slot.uniform.eq(
                    self.selection.executing & self.selection.predicate)
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
        with m.If(self.decoded.writes):
            m.d.comb += self.slot.payload.instruction.destination.eq(struct_value(
                LaneDestination,
                register=write.register,
                p=write.predicate,
                q=PT,
                writes_cc=write.conditional))

    def _dispatch(self, m: Module) -> None:
        """The instruction as it leaves for a unit beside the lanes."""
        decoded = self.decoded
        instruction = decoded.instruction
        record = Signal(dispatched(self._params))
        m.d.comb += self.direct.valid.eq(decoded.is_direct)
        m.d.comb += self.direct.payload.eq(record)
        m.d.comb += self.collected.valid.eq(decoded.collects)
        m.d.comb += self.collected.payload.eq(record)
        m.d.comb += common_fields(record, instruction)
        m.d.comb += record.active.eq(self.active.value)
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
