"""S3: what an instruction, or an operation of a unit, sends to the lanes, and what to other units."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.isa.condition import Flags
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
from rtl.one_hot import chosen_of
from rtl.params import WARP_THREADS, SmParams

from .instruction import OperandSource, ValueSource
from .slots import decoded_stage, lane_slot
from .threads import ThreadSelection
from .vote import Vote

__all__ = ["DispatchStage"]

class DispatchStage(Component):
    """Combinational.

    Members
    -------
    arriving : In(decoded_stage)
    report_mask : In(32)
    predicates, conditions, live, active, first_row : In
        State of its warp.
    write_first_row : In
        Of the warp that is written to.
    special : In(32)
        The special register that is named, where it is the same in all threads.
    flow_value : In(32)
        What the flow unit has for a register of the warp that is written to.
    starts, slot : Out(1), Out(lane_slot)
        What begins to pass the lanes.
    direct, collects, record : Out(1), Out(1), Out(dispatched)
        What goes to another unit, now or when its registers have been read.
    completed : Out(completion)
        What is complete when the last beat of the slot is written, or would be.
    passed : Out(1)
        What ``completed`` tells of lets go of scoreboards then.
    gathered : Out(Event of operands_read)
        What lets go of registers; in the cycle of the slot.
    error : Out(error_event)
    clears_status : Out(1)
        The status of the warp is read by what clears it.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "arriving": In(decoded_stage(params)), "write_first_row": In(params.row_bits),
            "report_mask": In(REPORT_BITS), "predicates": In(data.ArrayLayout(WARP_THREADS, PT)),
            "conditions": In(data.ArrayLayout(Flags, WARP_THREADS)), "live": In(WARP_THREADS),
            "active": In(WARP_THREADS), "first_row": In(params.row_bits), "special": In(32), "flow_value": In(32),
            "starts": Out(1), "slot": Out(lane_slot(params)),
            "direct": Out(1), "collects": Out(1), "record": Out(dispatched(params)),
            "completed": Out(completion(params)), "passed": Out(1), "gathered": Out(Event(operands_read(params))),
            "error": Out(error_event(params)), "clears_status": Out(1)})
        self.selection = ThreadSelection()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.selection = selection = self.selection
        arriving, decoded = self.arriving, self.arriving.lanes
        instruction, computes, refused = arriving.instruction, arriving.computes, arriving.refused
        writes, write, gather = arriving.writes, arriving.write.operation, arriving.gather.operation
        missing, failed, error = Signal(), Signal(), Signal(WarpError)
        m.d.comb += [
            self.collects.eq(arriving.collects), self.direct.eq(arriving.directly),
            self.starts.eq(computes | arriving.collects | arriving.gathers | writes),
            selection.common.eq(arriving.common), selection.collects.eq(arriving.collects),
            selection.quad.eq(decoded.quad), selection.active.eq(self.active),
            selection.predicates.eq(self.predicates), selection.conditions.eq(self.conditions),
            selection.live.eq(self.live)]

        # Errors. A constant that is missing is none if nobody wants it.
        m.d.comb += [
            missing.eq(instruction.constant_missing & reported(self.report_mask, WarpError.INVALID_CONST_ADDR)),
            failed.eq(computes & missing & selection.executing.any()),
            error.eq(Mux(refused, instruction.error, WarpError.INVALID_CONST_ADDR)),
            self.error.valid.eq((refused & reported(self.report_mask, instruction.error)) | failed),
            self.error.warp.eq(instruction.warp), self.error.pc.eq(instruction.pc), self.error.error.eq(error)]

        m.d.comb += self.clears_status.eq(
            computes & selection.executing.any() & (decoded.source_a == ValueSource.SPECIAL)
            & (decoded.special == SpecialRegister.WARPERRORSTATUSCLEAR))
        self._to_lanes(m, missing)
        self._to_units(m, missing)
        completed = self.completed
        m.d.comb += [
            completed.valid.eq(computes | refused | (writes & write.last)),
            completed.warp.eq(Mux(writes, write.warp, instruction.warp)),
            completed.serial.eq(Mux(writes, write.serial, instruction.serial)),
            completed.write_barrier.eq(Mux(writes, write.barrier, instruction.write_barrier)),
            completed.read_barrier.eq(Mux(writes, NO_BARRIER, instruction.read_barrier)),
            self.passed.eq(completed.valid | arriving.directly & (instruction.kind == InstructionKind.TRAP)),
            self.gathered.valid.eq(arriving.gathers & gather.last)]
        pass_on(m, gather, self.gathered.payload, "warp", "barrier")
        return m

    def _to_lanes(self, m: Module, missing: Value) -> None:
        """The slot: what the lanes' decoder says, and what is different for units and for the collector."""
        m.submodules.vote = vote = Vote()
        slot, arriving, selection = self.slot, self.arriving, self.selection
        instruction, decoded, becomes = arriving.instruction, arriving.lanes, slot.instruction
        writes, write, client = arriving.writes, arriving.write.operation, arriving.write.client
        gathers, gather, registers = arriving.gathers, arriving.gather.operation, arriving.registers
        m.d.comb += [row.eq(self.first_row + number) for row, number in zip(slot.rows, registers, strict=True)]
        m.d.comb += [
            becomes.eq(decoded), slot.warp.eq(Mux(writes, write.warp, instruction.warp)),
            slot.first_row.eq(Mux(writes, self.write_first_row, self.first_row)),
            slot.serial.eq(Mux(writes, write.serial, instruction.serial)),
            slot.threads.eq(Mux(writes, write.threads, selection.executing & ~(
                arriving.computes & missing).replicate(WARP_THREADS))),
            slot.constant.eq(instruction.constant), slot.collects.eq(arriving.collects),
            slot.quarter.eq(arriving.computes & instruction.quarter), slot.gather.eq(gathers),
            slot.reader.eq(arriving.gather.client), slot.read_index.eq(gather.index),
            slot.supplied.eq(writes), slot.client.eq(client), slot.index.eq(write.index), slot.agrees.eq(vote.agrees),
            slot.objects.eq(vote.objects)]

        # Values that are no register's.
        source, values = decoded.source_a, {
            ValueSource.SPECIAL: self.special, ValueSource.NEXT_PC: instruction.pc + INSTRUCTION_BYTES,
            ValueSource.BALLOT: vote.ballot, ValueSource.ONE: ONE, ValueSource.TURN: TURN}
        m.d.comb += [
            vote.threads.eq(selection.executing), vote.predicate.eq(selection.predicate),
            slot.own.eq(Cat((source == ValueSource.SPECIAL) & (decoded.special == number) for number in OF_THREADS)),
            slot.uniform.eq(chosen_of(
                Cat(writes & (client == LaneClient.FLOW), *((source == each) & ~writes for each in values)),
                [self.flow_value, *values.values()]))]

        # What reads for others, and operations.
        with m.If(arriving.collects | gathers):
            m.d.comb += [
                becomes.source_a.eq(ValueSource.REGISTER), becomes.source_b.eq(OperandSource.REGISTER),
                becomes.source_c.eq(OperandSource.REGISTER), becomes.registers.eq(registers)]
        with m.If(writes):
            m.d.comb += [
                becomes.destination.eq(write.register),
                becomes.p.eq(write.predicate), becomes.q.eq(PT), becomes.writes_cc.eq(write.conditional)]

    def _to_units(self, m: Module, missing: Value) -> None:
        """The instruction as it leaves for a unit beside the lanes."""
        record, selection, instruction = self.record, self.selection, self.arriving.instruction
        m.d.comb += [record[name].eq(instruction[name]) for name in (
            "warp", "serial", "pc", "word", "kind", "write_barrier", "read_barrier")]
        m.d.comb += [
            record.active.eq(self.active), record.guard.eq(selection.guard),
            record.predicate.eq(selection.predicate), record.operands[0].eq(instruction.constant),
            record.same.eq(~0)]
        with m.If(self.arriving.common.misaligned):
            m.d.comb += record.fault.eq(WarpError.MISALIGNED_IMMC_ADDR)
        with m.Elif(missing):
            m.d.comb += record.fault.eq(WarpError.INVALID_CONST_ADDR)
