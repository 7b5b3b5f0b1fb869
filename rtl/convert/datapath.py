"""The datapath: a source in, a result out, one thread a cycle."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .instruction import DOUBLE_BITS, ConversionInstruction, ConversionOperation
from .reciprocal import RECIPROCAL_STAGES, Reciprocal
from .result import RESULT_STAGES, ConversionResult
from .shifter import SHIFTER_STAGES, ConversionShifter
from .source import SOURCE_STAGES, ConversionSource

__all__ = ["DATAPATH_STAGES", "ConversionDatapath"]

DATAPATH_STAGES = SOURCE_STAGES + SHIFTER_STAGES + RESULT_STAGES
assert RECIPROCAL_STAGES == SOURCE_STAGES - 1 + SHIFTER_STAGES


class ConversionDatapath(wiring.Component):
    """Computes one instruction's results for one source after the other; each takes DATAPATH_STAGES cycles.

    ::

        source -> select -> magnitude -> shift (7 stages) -> pack -> round -> bound (2 stages) -> result
                        |                                  |
                        +-> reciprocal (8 stages) ---------+

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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.first = first = ConversionSource()
        m.submodules.shifter = shifter = ConversionShifter()
        m.submodules.reciprocal = reciprocal = Reciprocal()
        m.submodules.last = last = ConversionResult()
        operation = self.instruction.operation
        m.d.comb += [
            first.instruction.eq(self.instruction), first.source.eq(self.source),
            shifter.before.eq(first.shiftable),
            shifter.normalise.eq((operation == ConversionOperation.FIND)
                                 | (operation == ConversionOperation.INTEGER_TO_FLOAT)),
            reciprocal.number.eq(first.selected), reciprocal.negative.eq(first.selected_negative),
            reciprocal.saturate.eq(self.instruction.saturate),
            last.instruction.eq(self.instruction), last.shifted.eq(shifter.after),
            last.reciprocal.eq(reciprocal.result), last.reciprocal_up.eq(reciprocal.up), self.result.eq(last.result)]
        return m
