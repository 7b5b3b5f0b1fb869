"""S2: what comes from issue, decoded."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, RZ
from rtl.isa.table import BY_NAME
from rtl.layouts import Event, InstructionKind, is_kind, issued, offered_operation, register_gather, register_write
from rtl.params import SmParams
from rtl.word import field_of

from .common import CommonDecoder
from .decode import LaneDecoder
from .slots import decoded_stage

__all__ = ["PASSING_NAMES", "PASSING_WORD", "DecodeStage"]

_VOTE = BY_NAME["VOTE"][0]
PASSING_WORD = _VOTE.fields["Pc"].put(_VOTE.default, PT)
"""An instruction that lets its operand a and its predicate x pass the lanes, as the data of other units do. It has no x
itself."""
PASSING_NAMES = frozenset({_VOTE.name})
"""All that a decoder of that word has to know."""


class DecodeStage(Component):
    """Ends in registers.

    Members
    -------
    instruction, gather, write
        See ExecuteUnit.
    decoded : Out(decoded_stage)
        A cycle later.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "instruction": In(Event(issued(params))), "gather": In(Event(offered_operation(register_gather(params)))),
            "write": In(Event(offered_operation(register_write(params)))), "decoded": Out(decoded_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lanes = lanes = LaneDecoder(self._params.floats)
        m.submodules.passing = passing = LaneDecoder(self._params.floats, PASSING_NAMES)
        m.submodules.common = common = CommonDecoder()
        instruction, gather, valid = self.instruction.payload, self.gather.payload, self.instruction.valid
        word, decoded, gathers, computes = instruction.word, self.decoded, self.gather.valid, Signal()
        collects = is_kind(instruction.kind, lambda rule: rule.collected)
        collected = Cat(field_of(word, FIELDS["Ra"]), field_of(word, FIELDS["Rb"]), Const(RZ, 8))
        # What does not compute is put in the place of what was decoded, not of what is decoded: registers are reset so.
        m.d.comb += [
            computes.eq(valid & (instruction.kind == InstructionKind.LANES)), lanes.word.eq(word),
            passing.word.eq(PASSING_WORD), common.word.eq(word),
            common.x.eq(Mux(computes, lanes.instruction.predicates[0].as_value(),
                            passing.instruction.predicates[0].as_value()))]
        m.d.sync += [
            decoded.computes.eq(computes), decoded.collects.eq(valid & collects),
            decoded.directly.eq(valid & is_kind(
                instruction.kind, lambda rule: rule.unit is not None and not rule.lanes)),
            decoded.refused.eq(valid & (instruction.kind == InstructionKind.REFUSED)),
            decoded.gathers.eq(gathers), decoded.writes.eq(self.write.valid), decoded.instruction.eq(instruction),
            decoded.lanes.eq(Mux(computes, lanes.instruction.as_value(), passing.instruction.as_value())),
            decoded.common.eq(common.instruction), decoded.gather.eq(gather),
            decoded.write.eq(self.write.payload),
            decoded.warp.eq(Mux(gathers, gather.operation.warp, instruction.warp)),
            decoded.registers.eq(Mux(gathers, gather.operation.registers.as_value(), Mux(
                valid & collects, collected, lanes.instruction.registers.as_value())))]
        return m
