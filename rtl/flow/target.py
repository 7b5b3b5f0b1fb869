"""Where an instruction goes."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.layouts import FlowInstruction, FlowOperation

__all__ = ["TargetResolver"]

_PC_BITS = 32
_STEP_BITS = ceil_log2(INSTRUCTION_BYTES)


class TargetResolver(wiring.Component):
    """The sum of up to three: the next instruction's pc, the operand, the offset; combinational.

    What is added to the next instruction's pc is signed, wherever it comes from. What counts from the program's
    base is not, but an offset beside an index register is.

    Members
    -------
    pc : In(32)
    instruction : In(FlowInstruction)
    operand : In(32)
    fault : In(WarpError)
        Why the operand could not be read.
    target : Out(32)
    error : Out(WarpError)
        ``fault``; PC_WRAP when the sum is no 32-bit pc; MISALIGNED_PC where no instruction starts, except for a
        token's pc, which is looked at when it is popped.
    """

    pc: In(_PC_BITS)
    instruction: In(FlowInstruction)
    operand: In(_PC_BITS)
    fault: In(WarpError)
    target: Out(_PC_BITS)
    error: Out(WarpError)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction = self.instruction
        reads_operand = instruction.indexed | instruction.constant
        pc, operand, offset = Signal(_PC_BITS), Signal(_PC_BITS + 1), Signal(_PC_BITS + 1)
        operand_sign = self.operand[-1] & instruction.relative
        offset_sign = instruction.offset[-1] & (instruction.relative | instruction.indexed)
        m.d.comb += [
            pc.eq(Mux(instruction.relative, self.pc, 0)),
            operand.eq(Mux(reads_operand, self.operand | operand_sign << _PC_BITS, 0)),
            offset.eq(Mux(instruction.constant, 0, instruction.offset | offset_sign << _PC_BITS))]

        total = Signal(_PC_BITS + 2)
        m.d.comb += [
            # One sum, of which synthesis makes a tree that carries only once.
            total.eq(pc + (instruction.relative << _STEP_BITS) + operand.as_signed() + offset.as_signed()),
            self.target.eq(total)]
        pushes = instruction.operation == FlowOperation.PUSH
        with m.If(reads_operand & (self.fault != WarpError.NONE)):
            m.d.comb += self.error.eq(self.fault)
        with m.Elif(total[_PC_BITS:].any()):
            m.d.comb += self.error.eq(WarpError.PC_WRAP)
        with m.Elif(((total & Const(INSTRUCTION_BYTES - 1, _PC_BITS)) != 0) & ~pushes):
            m.d.comb += self.error.eq(WarpError.MISALIGNED_PC)
        return m
