"""The target of a flow instruction, added up term by term."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.flow.stages import PC_BITS
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.layouts import Event, FlowOperation, flow_request
from rtl.params import WARP_THREADS, SmParams

__all__ = ["TargetAccumulator"]

_ALIGNMENT_BITS = ceil_log2(INSTRUCTION_BYTES)


class TargetAccumulator(Component):
    """One adder in place of the three of :class:`~rtl.flow.target.TargetResolver`; the sum is the
    same. ::

        cycle   0          1                    2                 3           4
                + pc  -->  + instruction's  --> = next pc    -->  + operand   + offset
                           size                 0 if absolute

    A relative target counts from the next instruction; operand and offset are signed as
    TargetResolver describes.

    Members
    -------
    request : In(flow_request)
        Stable from ``clear`` on; of a launch only the pc counts.
    clear : In(1)
        The next sum begins.
    cycle : In(Event of 5 bits)
        A cycle of the sum, from 0 on without gaps; nothing is added after cycle 4.
    next_pc : Out(PC_BITS)
        From cycle 3 on.
    target : Out(PC_BITS)
        From cycle 5 on, as is ``error``.
    error : Out(WarpError)
        As of TargetResolver. What the trap unit makes a warp do has no fault.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(flow_request(params)),
            "clear": In(1),
            "cycle": In(Event(range(WARP_THREADS))),
            "next_pc": Out(PC_BITS),
            "target": Out(PC_BITS),
            "error": Out(WarpError),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total = Signal(PC_BITS + 2, reset_less=True)
        term = Signal(PC_BITS + 1)
        self._select_term(m, term)
        with m.If(self.clear):
            m.d.sync += total.eq(0)
        with m.Elif(self.cycle.valid):
            m.d.sync += total.eq(total + term.as_signed())
            with m.If(self.cycle.payload == 2):
                m.d.sync += self.next_pc.eq(total)
                with m.If(~self.request.instruction.relative):
                    m.d.sync += total.eq(0)
        m.d.comb += self.target.eq(total)
        self._judge(m, total)
        return m

    @property
    def _reads_operand(self) -> Value:
        return self.request.instruction.indexed | self.request.instruction.constant

    def _select_term(self, m: Module, term: Signal) -> None:
        """What is added in this cycle, with a sign bit."""
        instruction = self.request.instruction
        operand_sign = self.request.operand[-1] & instruction.relative
        offset_is_signed = instruction.relative | instruction.indexed
        offset_sign = instruction.offset[-1] & offset_is_signed
        with m.Switch(self.cycle.payload):
            with m.Case(0):
                m.d.comb += term.eq(self.request.pc)
            with m.Case(1):
                m.d.comb += term.eq(INSTRUCTION_BYTES)
            with m.Case(3), m.If(self._reads_operand):
                m.d.comb += term.eq(self.request.operand | operand_sign << PC_BITS)
            with m.Case(4), m.If(~instruction.constant):
                m.d.comb += term.eq(instruction.offset | offset_sign << PC_BITS)

    def _judge(self, m: Module, total: Signal) -> None:
        """Why the sum is no target. A token's pc is checked for alignment when it is popped."""
        instruction = self.request.instruction
        has_operand_fault = self._reads_operand & (self.request.fault != WarpError.NONE)
        is_token_pc = instruction.operation == FlowOperation.PUSH
        with m.If(has_operand_fault & ~instruction.is_trap_move):
            m.d.comb += self.error.eq(self.request.fault)
        with m.Elif(total[PC_BITS:].any()):
            m.d.comb += self.error.eq(WarpError.PC_WRAP)
        with m.Elif(total[:_ALIGNMENT_BITS].any() & ~is_token_pc):
            m.d.comb += self.error.eq(WarpError.MISALIGNED_PC)
