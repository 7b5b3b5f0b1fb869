"""Decodes flow instructions and queues them for the flow unit."""

from collections import Counter
from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.flow_forms import DIRECT_BRANCHES, FLOW_FORMS, is_predicted_taken
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS, Constant, Field, Form, Target
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
from rtl.structs import common_fields
from rtl.word import field_of, pattern_of, telling_patterns

__all__ = ["INJECTED", "FlowDecoder", "FlowQueue"]


def _entry(
        operation: FlowOperation, requested: StackOperation = StackOperation.PUSH,
        **others: Any) -> dict[str, Any]:
    """The fields of a FlowInstruction that depend only on the instruction's name."""
    return {"operation": operation, "stack_operation": requested, **others}


def _branch(*, relative: int) -> dict[str, Any]:
    return _entry(FlowOperation.BRANCH, kind=TokenKind.DIVERGE, relative=relative)


def _call(*, relative: int) -> dict[str, Any]:
    return _entry(FlowOperation.CALL, kind=TokenKind.RETURN, relative=relative)


def _push(kind: TokenKind) -> dict[str, Any]:
    return _entry(FlowOperation.PUSH, kind=kind, relative=1)


def _leave(code: ThreadCode) -> dict[str, Any]:
    return _entry(FlowOperation.LEAVE, StackOperation.UNWIND, code=code)


_DECODED: dict[str, dict[str, Any]] = {
    "BRA": _branch(relative=1),
    "BRX": _branch(relative=1),
    "JMP": _branch(relative=0),
    "JMX": _branch(relative=0),
    "CAL": _call(relative=1),
    "JCAL": _call(relative=0),
    "SSY": _push(TokenKind.SYNC),
    "PBK": _push(TokenKind.BREAK),
    "PCNT": _push(TokenKind.CONTINUE),
    "PRET": _push(TokenKind.RETURN),
    "PEXIT": _push(TokenKind.EXIT),
    "PLONGJMP": _push(TokenKind.LONGJMP),
    "SYNC": _leave(ThreadCode.NONE),
    "BRK": _leave(ThreadCode.BREAK),
    "CONT": _leave(ThreadCode.CONTINUE),
    "RET": _leave(ThreadCode.RETURN),
    "EXIT": _leave(ThreadCode.EXIT),
    "LONGJMP": _leave(ThreadCode.LONGJMP),
    "KIL": _leave(ThreadCode.KILLED),
    "SAM": _entry(FlowOperation.PUSH_QUAD, kind=TokenKind.QUAD),
    "RAM": _entry(FlowOperation.POP_QUAD, StackOperation.POP_QUAD),
    "GETCRSPTR": _entry(FlowOperation.GET_POINTER, StackOperation.GET_POINTER),
    "SETCRSPTR": _entry(FlowOperation.SET_POINTER, StackOperation.SET_POINTER, constant=1),
    "GETLMEMBASE": _entry(FlowOperation.GET_BASE, StackOperation.GET_BASE),
    "SETLMEMBASE": _entry(FlowOperation.SET_BASE, StackOperation.SET_BASE, constant=1),
    "CCTLL": _entry(FlowOperation.WRITE_BACK, StackOperation.WRITE_BACK),
}
"""The fields of each instruction that do not depend on its word."""
_FLAGS = ("uniform", "limited", "keep_reference", "counted")
"""Fields of a word that a FlowInstruction has under the same name."""
_COUNTED = {
    FlowOperation.CALL: StackOperation.CALL,
    FlowOperation.PUSH: StackOperation.PREPARE_CALL,
}
"""The stack operation of an instruction whose token counts as a call."""
INJECTED = {
    FlowOperation.BRANCH: StackOperation.PUSH,
    FlowOperation.LEAVE_TRAP: StackOperation.SET_MODE,
    FlowOperation.RESTORE: StackOperation.RESTORE,
    FlowOperation.TERMINATE: StackOperation.CLEAR,
}
"""The stack operation of each operation of the trap unit. ENTER_TRAP has several of them, see
DecideStage."""


def _offset_field(form: Form) -> Field | None:
    """The field with the offset of a form's target; None if it has none."""
    target = form.operands.get("target")
    return form.fields[target.field] if isinstance(target, Target) else None


_OFFSET_FIELDS = Counter(
    field for form in FLOW_FORMS if (field := _offset_field(form)) is not None)
"""The fields of offsets, and the number of forms that have each."""


class FlowDecoder(wiring.Component):
    """Decodes a flow instruction by the instruction table; combinational.

    Parameters
    ----------
    trusting : bool
        All words are flow instructions. The decoder then compares only the bits that distinguish
        flow instructions from each other, and an instruction without an offset has an undefined
        ``offset``.

    Members
    -------
    word : In(64)
    instruction : Out(FlowInstruction)
        Its operation is NONE for a word that is no flow instruction.
    """

    word: In(WORD_BITS)
    instruction: Out(FlowInstruction)

    def __init__(self, *, trusting: bool = False) -> None:
        self._trusting = trusting
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        usual_offset = _OFFSET_FIELDS.most_common(1)[0][0] if self._trusting else None
        if usual_offset is not None:
            m.d.comb += self.instruction.offset.eq(field_of(self.word, usual_offset))
        with m.Switch(self.word):
            for form in FLOW_FORMS:
                with m.Case(*self._patterns_of(form)):
                    for name, value in self._fields_of(form, usual_offset).items():
                        m.d.comb += self.instruction[name].eq(value)
        return m

    def _patterns_of(self, form: Form) -> tuple[str, ...]:
        """The bit patterns that identify a form's words."""
        if not self._trusting:
            return (pattern_of(form),)
        return telling_patterns([form], [other for other in FLOW_FORMS if other is not form])

    def _fields_of(self, form: Form, known_offset: Field | None) -> dict[str, Any]:
        """The fields of a form's FlowInstruction. The offset is left out if it is in the field
        ``known_offset``, which is decoded for all forms."""
        fields = dict(_DECODED[form.name])
        fields |= {
            name: field_of(self.word, form.fields[name]) for name in _FLAGS if name in form.fields}
        target = form.operands.get("target")
        offset = _offset_field(form)
        if offset is not None and offset != known_offset:
            fields["offset"] = field_of(self.word, offset)
        if isinstance(target, Target | Constant):
            fields["indexed"] = target.index is not None
            fields["constant"] = isinstance(target, Constant)
        if form in DIRECT_BRANCHES:
            fields["predicted"] = is_predicted_taken(self.word, form)
        if "counted" in fields:
            counted_request = _COUNTED[fields["operation"]]
            fields["stack_operation"] = Mux(
                fields["counted"], counted_request, fields["stack_operation"])
        return fields


class FlowQueue(Component):
    """Decodes dispatched instructions, and queues them in order for the flow unit. An instruction
    leaves the queue one cycle after its dispatch at the earliest.

    Members
    -------
    dispatch : In(Event of dispatched)
        A flow instruction, or an ENTER or LEAVE, which the trap unit's operation replaces.
    trap : In(TrapMove)
        The trap unit's operation; valid in the cycle of a ``dispatch`` of kind ENTER or LEAVE.
    room : Out(1)
        The queue will have room for an instruction that issue selects in this cycle.
    request : Out(stream of flow_request)
    """

    trusting = False
    """The parameter of FlowDecoder."""
    places = 16
    """Capacity, in instructions."""

    def __init__(self, params: SmParams) -> None:
        self._layout = flow_request(params)
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "trap": In(TrapMove),
            "room": Out(1),
            "request": Out(stream.Signature(self._layout)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.places = places = DispatchQueue(self._layout, places=self.places)
        arriving = self.dispatch.payload
        decoded = places.arriving.payload
        m.d.comb += places.arriving.valid.eq(self.dispatch.valid)
        m.d.comb += self.room.eq(places.room)
        connect(m, places.head, flipped(self.request))
        self._decode_instruction(m, decoded)
        with m.If(is_kind(arriving.kind, lambda rule: rule.injected)):
            self._decode_move(m, decoded)
        return m

    def _decode_instruction(self, m: Module, decoded: Any) -> None:
        """Decodes a flow instruction, and attaches its operand."""
        m.submodules.decoder = decoder = FlowDecoder(trusting=self.trusting)
        arriving = self.dispatch.payload
        m.d.comb += decoder.word.eq(arriving.word)
        m.d.comb += common_fields(decoded, arriving)
        m.d.comb += decoded.instruction.eq(decoder.instruction)
        m.d.comb += decoded.operand.eq(arriving.operands[0])

    def _decode_move(self, m: Module, decoded: Any) -> None:
        """Replaces an ENTER or LEAVE by the trap unit's operation, for all threads of the warp. An
        ENTER has the trap handler as its target, and the trap unit's pc as its return address."""
        arriving = self.dispatch.payload
        instruction = decoded.instruction
        m.d.comb += instruction.eq(0)
        m.d.comb += instruction.operation.eq(self.trap.operation)
        m.d.comb += instruction.code.eq(ThreadCode.EXIT)
        m.d.comb += instruction.constant.eq(1)
        with m.Switch(self.trap.operation):
            for operation, requested in INJECTED.items():
                with m.Case(operation):
                    m.d.comb += instruction.stack_operation.eq(requested)
        self.inject(m, decoded)
        with m.If(arriving.kind == InstructionKind.ENTER):
            m.d.comb += decoded.pc.eq(self.trap.pc)
            m.d.comb += decoded.operand.eq(self.trap.target)

    def inject(self, m: Module, decoded: Any) -> None:
        """An operation of the trap unit has its pc as operand, no guard and no fault."""
        m.d.comb += decoded.operand.eq(self.dispatch.payload.pc)
        m.d.comb += decoded.guard.eq(~0)
        m.d.comb += decoded.fault.eq(WarpError.NONE)
