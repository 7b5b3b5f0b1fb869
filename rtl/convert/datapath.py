"""The datapath: a source in, a result out, one thread a cycle."""

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
"""How many more cycles one of MUFU's functions takes."""


class ConversionDatapath(wiring.Component):
    """Computes one instruction's results for one source after the other; each takes DATAPATH_STAGES
    cycles, and with MUFU FUNCTION_DELAY more.

    ::

        source --> select --> magnitude -------------> shift --> pack --> add --> bound --> result
                          |                       |    7 stages                   2 stages
                          +--> function, 7 stages +

    Without ``floats`` there is no function but RCP, no F2F, and no half precision, without
    ``doubles`` no function of upper words.

    Members
    -------
    instruction : In(ConversionInstruction)
        Stable while sources of it pass.
    source : In(64)
    result : Out(64)
        A result of 32 bits, or less, is extended.
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
