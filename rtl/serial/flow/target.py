"""The target of a flow instruction, accumulated one term a cycle."""

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
    """Computes the same target as :class:`~rtl.flow.target.TargetResolver`, with one adder.

    =====  ======================================================================
    cycle  change of the sum, at the end of the cycle
    =====  ======================================================================
    0      the pc is added
    1      the size of an instruction is added
    2      the sum is stored as ``next_pc``; unless the target is relative, the
           sum becomes 0
    3      the operand is added, if the instruction is indexed or constant
    4      the offset is added, unless the instruction is constant
    =====  ======================================================================

    Operand and offset are signed as TargetResolver describes.

    Members
    -------
    request : In(flow_request)
        Stable from the last cycle of ``clear`` on. For a launch only ``next_pc`` has a meaning.
    clear : In(1)
        The sum becomes 0.
    cycle : In(Event of 5 bits)
        The number of the cycle: 0 to 31, in order, one each cycle. Cycles after 4 change nothing.
    next_pc : Out(PC_BITS)
        Valid from cycle 3 on.
    target : Out(PC_BITS)
        Valid from cycle 5 on, until ``clear``; so is ``error``.
    error : Out(WarpError)
        See TargetResolver. The request's ``fault`` is ignored for a trap move (an operation that
        the trap unit injects).
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
        """The term of this cycle, with a sign bit; 0 in cycles that add nothing."""
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
        """The error of the sum. For a PUSH, the alignment is checked when the token is popped."""
        instruction = self.request.instruction
        has_operand_fault = self._reads_operand & (self.request.fault != WarpError.NONE)
        is_token_pc = instruction.operation == FlowOperation.PUSH
        with m.If(has_operand_fault & ~instruction.is_trap_move):
            m.d.comb += self.error.eq(self.request.fault)
        with m.Elif(total[PC_BITS:].any()):
            m.d.comb += self.error.eq(WarpError.PC_WRAP)
        with m.Elif(total[:_ALIGNMENT_BITS].any() & ~is_token_pc):
            m.d.comb += self.error.eq(WarpError.MISALIGNED_PC)
