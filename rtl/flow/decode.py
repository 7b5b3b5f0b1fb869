"""Flow instructions on their way to the flow unit: they are decoded, and wait."""

from collections import Counter
from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component, pass_on
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS, Constant, Form, Pipe, Target
from rtl.isa.table import FORMS
from rtl.isa.tokens import TokenKind
from rtl.layouts import (
    Event,
    FlowInstruction,
    FlowOperation,
    InstructionKind,
    StackOperation,
    ThreadCode,
    TrapMove,
    dispatched,
    flow_request,
    is_kind,
)
from rtl.params import SmParams
from rtl.word import field_of, pattern_of, telling_patterns

__all__ = ["FLOW_FORMS", "INJECTED", "FlowDecoder", "FlowQueue"]

FLOW_FORMS: tuple[Form, ...] = tuple(form for form in FORMS if form.pipe is Pipe.FLOW)
"""The instructions of the flow unit."""


def _does(operation: FlowOperation, asked: StackOperation = StackOperation.PUSH, **others: Any) -> dict[str, Any]:
    return {"operation": operation, "asked": asked, **others}


_DECODED = {
    **{name: _does(FlowOperation.BRANCH, kind=TokenKind.DIVERGE, relative=relative)
       for name, relative in {"BRA": 1, "BRX": 1, "JMP": 0, "JMX": 0}.items()},
    **{name: _does(FlowOperation.CALL, kind=TokenKind.RETURN, relative=relative)
       for name, relative in {"CAL": 1, "JCAL": 0}.items()},
    **{name: _does(FlowOperation.PUSH, kind=kind, relative=1) for name, kind in {
        "SSY": TokenKind.SYNC, "PBK": TokenKind.BREAK, "PCNT": TokenKind.CONTINUE, "PRET": TokenKind.RETURN,
        "PEXIT": TokenKind.EXIT, "PLONGJMP": TokenKind.LONGJMP}.items()},
    **{name: _does(FlowOperation.LEAVE, StackOperation.UNWIND, code=code) for name, code in {
        "SYNC": ThreadCode.NONE, "BRK": ThreadCode.BREAK, "CONT": ThreadCode.CONTINUE, "RET": ThreadCode.RETURN,
        "EXIT": ThreadCode.EXIT, "LONGJMP": ThreadCode.LONGJMP, "KIL": ThreadCode.KILLED}.items()},
    "SAM": _does(FlowOperation.PUSH_QUAD, kind=TokenKind.QUAD),
    "RAM": _does(FlowOperation.POP_QUAD, StackOperation.POP_QUAD),
    "GETCRSPTR": _does(FlowOperation.GET_POINTER, StackOperation.GET_POINTER),
    "SETCRSPTR": _does(FlowOperation.SET_POINTER, StackOperation.SET_POINTER, constant=1),
    "GETLMEMBASE": _does(FlowOperation.GET_BASE, StackOperation.GET_BASE),
    "SETLMEMBASE": _does(FlowOperation.SET_BASE, StackOperation.SET_BASE, constant=1),
    "CCTLL": _does(FlowOperation.WRITE_BACK, StackOperation.WRITE_BACK)}
"""What each instruction is decoded as, apart from its fields."""
_OFFSETS = Counter(form.fields[target.field] for form in FLOW_FORMS
                   if isinstance(target := form.operands.get("target"), Target))
"""Where offsets are, and how often."""
_COUNTED = {FlowOperation.CALL: StackOperation.CALL, FlowOperation.PUSH: StackOperation.PREPARE_CALL}
"""What those ask of the stack whose token counts as a call."""
INJECTED = {FlowOperation.BRANCH: StackOperation.PUSH, FlowOperation.LEAVE_TRAP: StackOperation.SET_MODE,
            FlowOperation.RESTORE: StackOperation.RESTORE, FlowOperation.TERMINATE: StackOperation.CLEAR}
"""What a warp that is made to do something asks of the stack. ENTER_TRAP asks several things."""


class FlowDecoder(wiring.Component):
    """Reads the instruction table; combinational.

    Parameters
    ----------
    trusting
        Words are flow instructions: a form is known by the bits that tell it from the others, and where none has an
        offset, there may be any.

    Members
    -------
    word : In(64)
    instruction : Out(FlowInstruction)
        NONE for a word that is no flow instruction.
    """

    word: In(WORD_BITS)
    instruction: Out(FlowInstruction)

    def __init__(self, *, trusting: bool = False) -> None:
        self._trusting = trusting
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        usual = _OFFSETS.most_common(1)[0][0] if self._trusting else None
        if usual is not None:
            m.d.comb += self.instruction.offset.eq(field_of(self.word, usual))
        with m.Switch(self.word):
            for form in FLOW_FORMS:
                others = [other for other in FLOW_FORMS if other is not form]
                with m.Case(*(telling_patterns([form], others) if self._trusting else [pattern_of(form)])):
                    fields, target = dict(_DECODED[form.name]), form.operands.get("target")
                    fields |= {name: field_of(self.word, form.fields[name]) for name in (
                        "uniform", "limited", "keep_reference", "counted") if name in form.fields}
                    if isinstance(target, Target) and form.fields[target.field] != usual:
                        fields["offset"] = field_of(self.word, form.fields[target.field])
                    if isinstance(target, Target | Constant):
                        fields |= {"indexed": target.index is not None, "constant": isinstance(target, Constant)}
                    if "counted" in fields:
                        fields["asked"] = Mux(fields["counted"], _COUNTED[fields["operation"]], fields["asked"])
                    m.d.comb += [self.instruction[name].eq(value) for name, value in fields.items()]
        return m


class FlowQueue(Component):
    """Takes what was dispatched to the flow unit, and hands it on decoded, in order, from the next cycle on.

    Members
    -------
    dispatch : In(Event of dispatched)
        A flow instruction, or a place for what the trap unit says.
    trap : In(TrapMove)
        What it says, in the cycle of a ``dispatch`` of kind ENTER or LEAVE.
    room : Out(1)
        There is room for it whenever it comes, if it is selected now.
    request : Out(stream of flow_request)
    """

    trusting = False
    """Whether what no instruction has at its place in the word may be decoded anyhow."""
    places = 16
    """Instructions that can wait."""

    def __init__(self, params: SmParams) -> None:
        self._layout = flow_request(params)
        super().__init__({
            "dispatch": In(Event(dispatched(params))), "trap": In(TrapMove), "room": Out(1),
            "request": Out(stream.Signature(self._layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = FlowDecoder(trusting=self.trusting)
        m.submodules.places = places = DispatchQueue(self._layout, places=self.places)
        arriving, decoded = self.dispatch.payload, places.arriving.payload
        instruction = decoded.instruction
        m.d.comb += [
            decoder.word.eq(arriving.word), instruction.eq(decoder.instruction),
            decoded.operand.eq(arriving.operands[0]), places.arriving.valid.eq(self.dispatch.valid),
            self.room.eq(places.room)]
        pass_on(m, arriving, decoded, "warp", "pc", "guard", "same", "fault")
        connect(m, places.head, flipped(self.request))

        # What a warp is made to do concerns all its threads.
        with m.If(is_kind(arriving.kind, lambda rule: rule.injected)):
            m.d.comb += [
                instruction.eq(0), instruction.operation.eq(self.trap.operation),
                instruction.code.eq(ThreadCode.EXIT), instruction.constant.eq(1)]
            self.inject(m, decoded)
            with m.Switch(self.trap.operation):
                for operation, asked in INJECTED.items():
                    with m.Case(operation):
                        m.d.comb += instruction.asked.eq(asked)
            # Where it enters, and what it comes back to.
            with m.If(arriving.kind == InstructionKind.ENTER):
                m.d.comb += [decoded.pc.eq(self.trap.pc), decoded.operand.eq(self.trap.target)]
        return m

    def inject(self, m: Module, decoded: Any) -> None:
        """What no instruction says of what a warp is made to do: it concerns all its threads."""
        m.d.comb += decoded.operand.eq(self.dispatch.payload.pc)
        m.d.comb += decoded.guard.eq(~0)
        m.d.comb += decoded.fault.eq(WarpError.NONE)
