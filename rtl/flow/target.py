"""The target of a flow instruction."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.layouts import FlowOperation, flow_request
from rtl.params import SmParams

from .stages import PC_BITS, ResolvedTarget

__all__ = ["TargetResolver"]

_ALIGNMENT_BITS = ceil_log2(INSTRUCTION_BYTES)


class TargetResolver(Component):
    """The sum of up to three terms: the next instruction's pc, the operand, the offset;
    combinational.

    ============  ====================  =======================  =================================
    term          added if              signed if                example
    ============  ====================  =======================  =================================
    next pc       relative              never                    BRA, CAL
    operand       indexed or constant   relative                 BRX, JMX; BRA with a constant
    offset        not constant          relative or indexed      all that have one
    ============  ====================  =======================  =================================

    Members
    -------
    request : In(flow_request)
    target : Out(ResolvedTarget)
        Its error is the request's ``fault`` if the operand is used; PC_WRAP if the sum does not fit
        into 32 bits; MISALIGNED_PC if the sum is no multiple of an instruction's size. A push does
        not check alignment: the pc of a token is checked when the token is popped.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({"request": In(flow_request(params)), "target": Out(ResolvedTarget)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.request
        instruction = request.instruction
        reads_operand = instruction.indexed | instruction.constant

        # The terms. Operand and offset have an additional sign bit.
        pc = Signal(PC_BITS)
        operand = Signal(PC_BITS + 1)
        offset = Signal(PC_BITS + 1)
        operand_sign = request.operand[-1] & instruction.relative
        offset_is_signed = instruction.relative | instruction.indexed
        offset_sign = instruction.offset[-1] & offset_is_signed
        with m.If(instruction.relative):
            m.d.comb += pc.eq(request.pc)
        with m.If(reads_operand):
            m.d.comb += operand.eq(request.operand | operand_sign << PC_BITS)
        with m.If(~instruction.constant):
            m.d.comb += offset.eq(instruction.offset | offset_sign << PC_BITS)

        # A single expression: synthesis makes a carry-save tree with one carry chain of it.
        total = Signal(PC_BITS + 2)
        next_pc = pc + (instruction.relative << _ALIGNMENT_BITS)
        m.d.comb += total.eq(next_pc + operand.as_signed() + offset.as_signed())
        m.d.comb += self.target.pc.eq(total)

        is_token_pc = instruction.operation == FlowOperation.PUSH
        with m.If(reads_operand & (request.fault != WarpError.NONE)):
            m.d.comb += self.target.error.eq(request.fault)
        with m.Elif(total[PC_BITS:].any()):
            m.d.comb += self.target.error.eq(WarpError.PC_WRAP)
        with m.Elif(total[:_ALIGNMENT_BITS].any() & ~is_token_pc):
            m.d.comb += self.target.error.eq(WarpError.MISALIGNED_PC)
        return m
