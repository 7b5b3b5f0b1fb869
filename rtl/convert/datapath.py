"""The datapath: accepts a source and outputs a result each cycle."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .function import FUNCTION_STAGES, Function
from .instruction import DOUBLE_BITS, ConversionInstruction, ConversionOperation, goes_up
from .result import RESULT_STAGES, ConversionResult
from .shifter import SHIFTER_STAGES, ConversionShifter
from .source import SOURCE_STAGES, ConversionSource

__all__ = ["DATAPATH_STAGES", "FUNCTION_DELAY", "ConversionDatapath"]

DATAPATH_STAGES = SOURCE_STAGES + SHIFTER_STAGES + RESULT_STAGES
FUNCTION_DELAY = FUNCTION_STAGES + 1 - SOURCE_STAGES
"""Cycles that MUFU takes beyond DATAPATH_STAGES."""


class ConversionDatapath(wiring.Component):
    """Computes results of one instruction, a source a cycle. A result is output DATAPATH_STAGES
    cycles after its source, with MUFU FUNCTION_DELAY cycles later than that. ::

        source --> select --> magnitude -------------> shift --> pack --> add --> bound --> result
                          |                       |    7 stages                   2 stages
                          +--> function, 7 stages +

    Without ``floats`` MUFU has no function but RCP, and there is no F2F and no half precision.
    Without ``doubles`` MUFU has no functions of upper words.

    Members
    -------
    instruction : In(ConversionInstruction)
        Stable from its first source to its last result.
    source : In(64)
    result : Out(64)
        A narrower integer is extended by its type, a narrower float with zeros.
    """

    instruction: In(ConversionInstruction)
    source: In(DOUBLE_BITS)
    result: Out(DOUBLE_BITS)

    def __init__(self, floats: bool, doubles: bool) -> None:
        super().__init__()
        self.first = ConversionSource(floats)
        self.function = Function(floats, doubles)
        self.shifter = ConversionShifter()
        self.last = ConversionResult(floats, doubles)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.first = first = self.first
        m.submodules.shifter = shifter = self.shifter
        m.submodules.function = function = self.function
        m.submodules.last = last = self.last
        instruction = self.instruction
        m.d.comb += first.instruction.eq(instruction)
        m.d.comb += first.source.eq(self.source)

        m.d.comb += function.function.eq(instruction.function)
        m.d.comb += function.number.eq(first.selected)

        m.d.comb += shifter.normalise.eq(goes_up(instruction))
        m.d.comb += shifter.before.eq(first.shiftable)
        with m.If(instruction.operation == ConversionOperation.FUNCTION):
            m.d.comb += shifter.before.eq(function.value)

        m.d.comb += last.instruction.eq(instruction)
        m.d.comb += last.shifted.eq(shifter.after)
        m.d.comb += last.ahead.eq(shifter.ahead)
        m.d.comb += self.result.eq(last.result)
        return m
