"""S2: what issue selected, decoded."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, RZ
from rtl.isa.table import BY_NAME
from rtl.layouts import (
    Event,
    InstructionKind,
    is_kind,
    issued,
    offered_operation,
    register_gather,
    register_write,
)
from rtl.params import SmParams
from rtl.word import field_of

from .common import CommonDecoder
from .decode import LaneDecoder
from .slots import decoded_stage

__all__ = ["PASSING_NAMES", "PASSING_WORD", "DecodeStage"]

_VOTE = BY_NAME["VOTE"][0]
PASSING_WORD = _VOTE.fields["Pc"].put(_VOTE.default, PT)
"""An instruction that lets its operand a and its predicate x pass the lanes, as the data of other
units do. It has no x itself."""
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
        super().__init__({
            "instruction": In(Event(issued(params))),
            "gather": In(Event(offered_operation(register_gather(params)))),
            "write": In(Event(offered_operation(register_write(params)))),
            "decoded": Out(decoded_stage(params)),
        })
        self._lanes = LaneDecoder(params.floats)
        self._passing = LaneDecoder(params.floats, PASSING_NAMES)
        self._common = CommonDecoder()
        self._computes = Signal(name="computes")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lanes = self._lanes
        m.submodules.passing = self._passing
        m.submodules.common = self._common
        self._classify(m)
        self._decode(m)
        self._select_registers(m)
        m.d.sync += self.decoded.instruction.eq(self.instruction.payload)
        m.d.sync += self.decoded.gather.eq(self.gather.payload)
        m.d.sync += self.decoded.write.eq(self.write.payload)
        return m

    def _classify(self, m: Module) -> None:
        """Who executes the instruction."""
        valid = self.instruction.valid
        kind = self.instruction.payload.kind
        decoded = self.decoded
        goes_to_unit = is_kind(kind, lambda rule: rule.unit is not None and not rule.lanes)
        m.d.comb += self._computes.eq(valid & (kind == InstructionKind.LANES))
        m.d.sync += decoded.computes.eq(self._computes)
        m.d.sync += decoded.collects.eq(valid & is_kind(kind, lambda rule: rule.collected))
        m.d.sync += decoded.is_direct.eq(valid & goes_to_unit)
        m.d.sync += decoded.is_refused.eq(valid & (kind == InstructionKind.REFUSED))
        m.d.sync += decoded.gathers.eq(self.gather.valid)
        m.d.sync += decoded.writes.eq(self.write.valid)

    def _decode(self, m: Module) -> None:
        """The decoded forms.

        What lets operands pass is a constant. It takes the place of what was decoded rather than
        that of the word: so synthesis makes it of the synchronous resets of flip-flops."""
        word = self.instruction.payload.word
        lanes = self._lanes
        passing = self._passing
        common = self._common
        m.d.comb += lanes.word.eq(word)
        m.d.comb += passing.word.eq(PASSING_WORD)
        m.d.comb += common.word.eq(word)
        with m.If(self._computes):
            m.d.comb += common.x.eq(lanes.instruction.predicates[0])
        with m.Else():
            m.d.comb += common.x.eq(passing.instruction.predicates[0])
        m.d.sync += self.decoded.lanes.eq(Mux(
            self._computes, lanes.instruction.as_value(), passing.instruction.as_value()))
        m.d.sync += self.decoded.common.eq(common.instruction)

    def _select_registers(self, m: Module) -> None:
        """Whose state is read, and which of its registers."""
        instruction = self.instruction
        word = instruction.payload.word
        gather = self.gather.payload.operation
        decoded = self.decoded
        collects = instruction.valid & is_kind(
            instruction.payload.kind, lambda rule: rule.collected)
        with m.If(self.gather.valid):
            m.d.sync += decoded.warp.eq(gather.warp)
            m.d.sync += decoded.registers.eq(gather.registers)
        with m.Elif(collects):
            m.d.sync += decoded.warp.eq(instruction.payload.warp)
            m.d.sync += decoded.registers.eq(
                Cat(field_of(word, FIELDS["Ra"]), field_of(word, FIELDS["Rb"]), Const(RZ, 8)))
        with m.Else():
            m.d.sync += decoded.warp.eq(instruction.payload.warp)
            m.d.sync += decoded.registers.eq(self._lanes.instruction.registers)
