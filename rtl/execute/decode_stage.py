"""S2: decodes the instruction or the operations that issue selected."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, RZ
from rtl.isa.table import BY_NAME
from rtl.layouts import (
    GATHER_REGISTERS,
    Event,
    InstructionKind,
    delayed,
    is_kind,
    issued,
    offered_operation,
    register_gather,
    register_write,
)
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.word import field_of

from .common import CommonDecoder
from .decode import LaneDecoder
from .instruction import LaneInstruction
from .slots import decoded_stage

__all__ = ["PASSING_NAMES", "PASSING_WORD", "DecodeStage"]

_VOTE = BY_NAME["VOTE"][0]
PASSING_WORD = _VOTE.fields["Pc"].put(_VOTE.default, PT)
"""An instruction that passes its operand a and predicate x through the lanes unchanged. Gathers and
writes of other units use it. It is a VOTE, with PT as x."""
PASSING_NAMES = frozenset({_VOTE.name})
"""The names of the instructions that a decoder of that word has to decode."""


class DecodeStage(Component):
    """Decodes an instruction or operations, in one cycle; its outputs are registered.

    Members
    -------
    instruction, gather, write
        See ExecuteUnit.
    decoded : Out(decoded_stage)
        A cycle later.
    decoded_gather, decoded_write : Out(Event of offered_operation)
        The operations, a cycle later.
    """

    def __init__(self, params: SmParams) -> None:
        gather = Event(offered_operation(register_gather(params)))
        write = Event(offered_operation(register_write(params)))
        super().__init__({
            "instruction": In(Event(issued(params))),
            "gather": In(gather),
            "write": In(write),
            "decoded": Out(decoded_stage(params)),
            "decoded_gather": Out(gather),
            "decoded_write": Out(write),
        })
        self._params = params
        self._lanes = LaneDecoder(params.floats)
        self._passing = LaneDecoder(params.floats, PASSING_NAMES)
        self._common = CommonDecoder()
        self._computes = Signal(name="computes")
        """The instruction is for the lanes."""
        self._collects = Signal(name="collects")
        """It is for another unit, and its registers are collected."""
        self._instruction: Any = Signal(LaneInstruction, name="lane_instruction")
        """The decoded instruction if it ``computes``, else the one that passes operands
        unchanged."""
        self._registers = Signal(data.ArrayLayout(8, GATHER_REGISTERS), name="registers")
        """The registers to be read."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lanes = self._lanes
        m.submodules.passing = self._passing
        m.submodules.common = self._common
        self._classify(m)
        self._decode(m)
        self._select_registers(m)
        self._pass(m)
        return m

    def _classify(self, m: Module) -> None:
        """Whether the instruction is for the lanes, or needs them to collect its registers."""
        instruction = self.instruction
        kind = instruction.payload.kind
        m.d.comb += self._computes.eq(instruction.valid & (kind == InstructionKind.LANES))
        m.d.comb += self._collects.eq(
            instruction.valid & is_kind(kind, lambda rule: rule.collected))

    def _decode(self, m: Module) -> None:
        """The decoded forms.

        The instruction that passes operands is a constant. The multiplexer is after the decoder,
        not before it, so that synthesis can use the synchronous resets of the flip-flops for it."""
        word = self.instruction.payload.word
        lanes = self._lanes
        passing = self._passing
        common = self._common
        m.d.comb += lanes.word.eq(word)
        m.d.comb += passing.word.eq(PASSING_WORD)
        m.d.comb += common.word.eq(word)
        m.d.comb += self._instruction.eq(Mux(
            self._computes, lanes.instruction.as_value(), passing.instruction.as_value()))
        m.d.comb += common.x.eq(self._instruction.predicates[0])

    def _select_registers(self, m: Module) -> None:
        """The registers of the warp that are read."""
        word = self.instruction.payload.word
        with m.If(self.gather.valid):
            m.d.comb += self._registers.eq(self.gather.payload.operation.registers)
        with m.Elif(self._collects):
            m.d.comb += self._registers.eq(
                Cat(field_of(word, FIELDS["Ra"]), field_of(word, FIELDS["Rb"]), Const(RZ, 8)))
        with m.Else():
            m.d.comb += self._registers.eq(self._lanes.instruction.registers)

    def _pass(self, m: Module) -> None:
        """The registers between S2 and S3."""
        instruction = self.instruction.payload
        gather = self.gather
        is_instruction = self.instruction.valid
        is_for_unit = is_kind(
            instruction.kind, lambda rule: rule.unit is not None and not rule.lanes)
        m.d.sync += self.decoded.eq(struct_value(
            decoded_stage(self._params),
            computes=self._computes,
            collects=self._collects,
            is_direct=is_instruction & is_for_unit,
            is_refused=is_instruction & (instruction.kind == InstructionKind.REFUSED),
            instruction=instruction,
            lanes=self._instruction,
            common=self._common.instruction,
            warp=Mux(gather.valid, gather.payload.operation.warp, instruction.warp),
            registers=self._registers))
        connect(m, delayed(m, flipped(self.gather)), flipped(self.decoded_gather))
        connect(m, delayed(m, flipped(self.write)), flipped(self.decoded_write))
