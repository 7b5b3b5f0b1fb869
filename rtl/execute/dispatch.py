"""S3: the threads that execute an instruction, and its dispatch, to the lanes or another unit."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
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
    offered_operation,
    operands_read,
    register_gather,
    register_write,
    reported,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields, struct_value

from .flags import WarpFlags
from .instruction import LaneDestination, LaneInstruction, OperandSource, ValueSource
from .reads import UniformRead, WarpRead
from .slots import SlotOperation, decoded_stage, lane_slot, slot_owner
from .threads import ThreadSelection
from .vote import votes_of

__all__ = ["DispatchStage"]


class DispatchStage(Component):
    """S3: selects the threads that execute an instruction, and dispatches it; combinational.

    =====================  ==========  ==================  ==================================
    what is decoded        slot        dispatched          completed
    =====================  ==========  ==================  ==================================
    for the lanes          yes                             yes
    collects registers     yes         when it has them
    for another unit       no          at once
    refused                no                              yes
    a gather               yes                             no; ``gathered`` with the last one
    a write                yes                             with the last one
    =====================  ==========  ==================  ==================================

    A gather and a write in the same cycle share a slot; there is no instruction in that cycle. An
    instruction of the lanes with an error has a slot and completes, but no thread executes it.

    Members
    -------
    decoded : In(decoded_stage)
    gather, write : In(Event of offered_operation)
    report_mask : In(32)
    active, flags : Out(WarpRead of 32 bits), Out(WarpRead of WarpFlags)
        State of the warp in ``decoded``.
    first_row, write_first_row : In
        The first row of that warp in the register file, and that of the warp of ``write``.
    special : Out(UniformRead)
        The special register that the instruction reads.
    flow_value : Out(WarpRead of 32 bits)
        The result of the FLOW_READ of the warp of ``write``, if FLOW is its client.
    slot : Out(Event of lane_slot)
        The slot that enters the lanes.
    direct, collected : Out(Event of dispatched)
        An instruction for another unit: dispatched at once, or after its registers are collected.
        Both have the same payload.
    completed : Out(Event of completion)
        The completion that takes effect when the last beat of the slot is written, or would be.
    passed : Out(1)
        The scoreboards in ``completed`` are released: when ``completed`` is valid, and for a TRAP,
        which completes in its unit.
    gathered : Out(Event of operands_read)
        The last gather of an instruction; in the cycle of its slot.
    error : Out(Event of error_event)
    clears_status : Out(1)
        SR_WARPERRORSTATUSCLEAR of the warp is read: its status is to be cleared.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "decoded": In(decoded_stage(params)),
            "gather": In(Event(offered_operation(register_gather(params)))),
            "write": In(Event(offered_operation(register_write(params)))),
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
        """The constant operand is outside its bank, and this error is reported."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.selection = self.selection
        self._read(m)
        self._check(m)
        self._fill_slot(m)
        self._dispatch(m)
        self._complete(m)
        return m

    def _read(self, m: Module) -> None:
        """The state of the warp, and the threads that execute the instruction."""
        decoded = self.decoded
        connect(m, self.selection.active, flipped(self.active))
        connect(m, self.selection.flags, flipped(self.flags))
        m.d.comb += self.selection.decoded.eq(decoded)
        m.d.comb += self.special.warp.eq(decoded.warp)
        m.d.comb += self.special.number.eq(decoded.lanes.special)
        m.d.comb += self.flow_value.warp.eq(self.write.payload.operation.warp)

    def _check(self, m: Module) -> None:
        """Errors. A missing constant is no error if no thread executes the instruction."""
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
        """The slot. No thread executes it if the constant fails."""
        decoded = self.decoded
        instruction = decoded.instruction
        gather = self.gather.payload
        write = self.write.payload
        selection = self.selection
        owner: Any = Signal(slot_owner(self._params))
        threads = Signal(WARP_THREADS)
        with m.If(self.write.valid):
            m.d.comb += owner.eq(struct_value(
                slot_owner(self._params),
                warp=write.operation.warp,
                sequence=write.operation.sequence,
                first_row=self.write_first_row))
            m.d.comb += threads.eq(write.operation.threads)
        with m.Else():
            lanes_fail = decoded.computes & self._constant_fails
            m.d.comb += owner.eq(struct_value(
                slot_owner(self._params),
                warp=instruction.warp,
                sequence=instruction.sequence,
                first_row=self.first_row))
            m.d.comb += threads.eq(selection.executing & ~lanes_fail.replicate(WARP_THREADS))

        m.d.comb += self.slot.valid.eq(
            decoded.computes | decoded.collects | self.gather.valid | self.write.valid)
        m.d.comb += self.slot.payload.eq(struct_value(
            lane_slot(self._params),
            owner=owner,
            instruction=self._instruction(m),
            threads=threads,
            votes=votes_of(selection.executing, selection.predicate),
            thread_register=self._thread_register(),
            rows=Cat(self._row_of(register) for register in decoded.registers),
            constant=instruction.constant,
            uniform=self._uniform(m),
            collects=decoded.collects,
            quarter=decoded.computes & instruction.quarter,
            gather=struct_value(
                SlotOperation,
                is_present=self.gather.valid,
                client=gather.client,
                index=gather.operation.index),
            write=struct_value(
                SlotOperation,
                is_present=self.write.valid,
                client=write.client,
                index=write.operation.index)))

    def _row_of(self, register: Value) -> Value:
        """The row of a register of the warp in the register file."""
        return (self.first_row + register)[:len(self.first_row)]

    def _thread_register(self) -> Value:
        """Operand a as one of OF_THREADS, one-hot; 0 if it is none of them."""
        lanes = self.decoded.lanes
        reads_special = lanes.source_a == ValueSource.SPECIAL
        return Cat(reads_special & (lanes.special == number) for number in OF_THREADS)

    def _instruction(self, m: Module) -> Any:
        """The instruction as the lanes execute it. For a collection or a gather all operands are
        registers; the destination of a write is that of the operation."""
        decoded = self.decoded
        write = self.write.payload.operation
        instruction: Any = Signal(LaneInstruction)
        m.d.comb += instruction.eq(decoded.lanes)
        with m.If(decoded.collects | self.gather.valid):
            m.d.comb += instruction.source_a.eq(ValueSource.REGISTER)
            m.d.comb += instruction.source_b.eq(OperandSource.REGISTER)
            m.d.comb += instruction.source_c.eq(OperandSource.REGISTER)
            m.d.comb += instruction.registers.eq(decoded.registers)
        with m.If(self.write.valid):
            m.d.comb += instruction.destination.eq(struct_value(
                LaneDestination,
                register=write.register,
                p=write.predicate,
                q=PT,
                writes_cc=write.conditional))
        return instruction

    def _uniform(self, m: Module) -> Value:
        """Operand a if it is no register and the same in all threads; 0 for the writes of units
        that supply their data."""
        decoded = self.decoded
        selection = self.selection
        is_flow_write = self.write.payload.client == LaneClient.FLOW
        uniform = Signal(32)
        with m.If(self.write.valid):
            m.d.comb += uniform.eq(Mux(is_flow_write, self.flow_value.value, 0))
        with m.Else(), m.Switch(decoded.lanes.source_a):
            with m.Case(ValueSource.SPECIAL):
                m.d.comb += uniform.eq(self.special.value)
            with m.Case(ValueSource.NEXT_PC):
                m.d.comb += uniform.eq(decoded.instruction.pc + INSTRUCTION_BYTES)
            with m.Case(ValueSource.BALLOT):
                m.d.comb += uniform.eq(selection.executing & selection.predicate)
            with m.Case(ValueSource.ONE):
                m.d.comb += uniform.eq(ONE)
            with m.Case(ValueSource.TURN):
                m.d.comb += uniform.eq(TURN)
        return uniform

    def _dispatch(self, m: Module) -> None:
        """The instruction that is dispatched to another unit."""
        decoded = self.decoded
        instruction = decoded.instruction
        fault = Signal(WarpError)
        with m.If(decoded.common.misaligned):
            m.d.comb += fault.eq(WarpError.MISALIGNED_IMMC_ADDR)
        with m.Elif(self._constant_fails):
            m.d.comb += fault.eq(WarpError.INVALID_CONST_ADDR)
        record = struct_value(
            dispatched(self._params),
            warp=instruction.warp,
            sequence=instruction.sequence,
            pc=instruction.pc,
            word=instruction.word,
            kind=instruction.kind,
            active=self.active.value,
            guard=self.selection.guard,
            predicate=self.selection.predicate,
            operands=instruction.constant,
            same=Const(~0, WARP_THREADS),
            fault=fault,
            write_barrier=instruction.write_barrier,
            read_barrier=instruction.read_barrier)
        m.d.comb += self.direct.valid.eq(decoded.is_direct)
        m.d.comb += self.direct.payload.eq(record)
        m.d.comb += self.collected.valid.eq(decoded.collects)
        m.d.comb += self.collected.payload.eq(record)

    def _complete(self, m: Module) -> None:
        """Completions and releases."""
        decoded = self.decoded
        instruction = decoded.instruction
        gather = self.gather.payload.operation
        write = self.write.payload.operation
        completed = self.completed
        m.d.comb += completed.valid.eq(
            decoded.computes | decoded.is_refused | (self.write.valid & write.last))
        with m.If(self.write.valid):
            m.d.comb += common_fields(completed.payload, write)
            m.d.comb += completed.payload.write_barrier.eq(write.barrier)
            m.d.comb += completed.payload.read_barrier.eq(NO_BARRIER)
        with m.Else():
            m.d.comb += common_fields(completed.payload, instruction)
        is_trap = decoded.is_direct & (instruction.kind == InstructionKind.TRAP)
        m.d.comb += self.passed.eq(completed.valid | is_trap)

        m.d.comb += self.gathered.valid.eq(self.gather.valid & gather.last)
        m.d.comb += common_fields(self.gathered.payload, gather)
