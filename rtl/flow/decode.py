"""From an instruction word to what the flow unit does with it."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.syntax import WORD_BITS, Constant, Form, Pipe, Target
from rtl.isa.table import FORMS
from rtl.isa.tokens import TokenKind
from rtl.layouts import FlowInstruction, FlowOperation, StackOperation, ThreadCode
from rtl.word import field_of, pattern_of

__all__ = ["FLOW_FORMS", "FlowDecoder"]

FLOW_FORMS: tuple[Form, ...] = tuple(form for form in FORMS if form.pipe is Pipe.FLOW)
"""The instructions of the flow unit."""

_PUSHED = {"SSY": TokenKind.SYNC, "PBK": TokenKind.BREAK, "PCNT": TokenKind.CONTINUE, "PRET": TokenKind.RETURN,
           "PEXIT": TokenKind.EXIT, "PLONGJMP": TokenKind.LONGJMP}
_LEFT = {"SYNC": ThreadCode.NONE, "BRK": ThreadCode.BREAK, "CONT": ThreadCode.CONTINUE, "RET": ThreadCode.RETURN,
         "EXIT": ThreadCode.EXIT, "LONGJMP": ThreadCode.LONGJMP, "KIL": ThreadCode.KILLED}
_OTHERS = {
    "SAM": (FlowOperation.PUSH_QUAD, StackOperation.PUSH), "RAM": (FlowOperation.POP_QUAD, StackOperation.POP_QUAD),
    "GETCRSPTR": (FlowOperation.GET_POINTER, StackOperation.GET_POINTER),
    "SETCRSPTR": (FlowOperation.SET_POINTER, StackOperation.SET_POINTER),
    "GETLMEMBASE": (FlowOperation.GET_BASE, StackOperation.GET_BASE),
    "SETLMEMBASE": (FlowOperation.SET_BASE, StackOperation.SET_BASE),
    "CCTLL": (FlowOperation.WRITE_BACK, StackOperation.WRITE_BACK)}
_SETS = ("SETCRSPTR", "SETLMEMBASE")
"""They have an operand alone."""
_BRANCHES = ("BRA", "BRX", "JMP", "JMX")
_CALLS = {"CAL": True, "JCAL": False}
"""Whether the target is relative."""
_COUNTED = {FlowOperation.CALL: StackOperation.CALL, FlowOperation.PUSH: StackOperation.PREPARE_CALL}
"""What those ask of the stack whose token counts as a call."""


class FlowDecoder(wiring.Component):
    """Reads the instruction table; combinational.

    Members
    -------
    word : In(64)
    instruction : Out(FlowInstruction)
        NONE for a word that is no flow instruction.
    """

    word: In(WORD_BITS)
    instruction: Out(FlowInstruction)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.Switch(self.word):
            for form in FLOW_FORMS:
                with m.Case(pattern_of(form)):
                    self._decode(m, form)
        return m

    def _decode(self, m: Module, form: Form) -> None:
        instruction = self.instruction
        for name in ("uniform", "limited", "keep_reference", "counted"):
            if name in form.fields:
                m.d.comb += instruction[name].eq(field_of(self.word, form.fields[name]))
        target = form.operands.get("target")
        if isinstance(target, Target):
            m.d.comb += [instruction.offset.eq(field_of(self.word, form.fields[target.field])),
                         instruction.indexed.eq(target.index is not None)]
        if isinstance(target, Constant):
            m.d.comb += [instruction.constant.eq(1), instruction.indexed.eq(target.index is not None)]

        if form.name in _BRANCHES:
            operation, asked, kind = FlowOperation.BRANCH, StackOperation.PUSH, TokenKind.DIVERGE
            m.d.comb += instruction.relative.eq(form.name.startswith("B"))
        elif form.name in _CALLS:
            operation, asked, kind = FlowOperation.CALL, StackOperation.PUSH, TokenKind.RETURN
            m.d.comb += instruction.relative.eq(_CALLS[form.name])
        elif form.name in _PUSHED:
            operation, asked, kind = FlowOperation.PUSH, StackOperation.PUSH, _PUSHED[form.name]
            m.d.comb += instruction.relative.eq(1)
        elif form.name in _LEFT:
            operation, asked, kind = FlowOperation.LEAVE, StackOperation.UNWIND, TokenKind.NONE
            m.d.comb += instruction.code.eq(_LEFT[form.name])
        else:
            operation, asked, kind = *_OTHERS[form.name], TokenKind.QUAD
            m.d.comb += instruction.constant.eq(form.name in _SETS)
        counted = instruction.counted if operation in _COUNTED else 0
        m.d.comb += [
            instruction.operation.eq(operation), instruction.kind.eq(kind),
            instruction.asked.eq(Mux(counted, _COUNTED.get(operation, asked), asked))]
