"""The datapath: a source in, a result out, one thread a cycle."""

from amaranth.hdl import Module, Mux
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
    """Computes one instruction's results for one source after the other; each takes DATAPATH_STAGES cycles, and with
    MUFU FUNCTION_DELAY more.

    ::

        source -> select -> magnitude ------------> shift (7 stages) -> pack -> round -> bound (2 stages) -> result
                        |                        |
                        +-> function (7 stages) -+

    Without ``floats`` there is no function but RCP, no F2F, and no half precision, without ``doubles`` no function of
    upper words.

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
        self._floats, self._doubles = floats, doubles
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.first = first = ConversionSource(self._floats)
        m.submodules.shifter = shifter = ConversionShifter()
        m.submodules.function = function = Function(self._floats, self._doubles)
        m.submodules.last = last = ConversionResult(self._floats, self._doubles)
        calculates = self.instruction.operation == ConversionOperation.FUNCTION
        m.d.comb += [
            first.instruction.eq(self.instruction), first.source.eq(self.source),
            shifter.before.eq(Mux(calculates, function.value.as_value(), first.shiftable.as_value())),
            shifter.normalise.eq(goes_up(self.instruction)),
            function.function.eq(self.instruction.function), function.number.eq(first.selected),
            function.negative.eq(first.selected_negative),
            last.instruction.eq(self.instruction), last.shifted.eq(shifter.after),
            last.ahead.eq(shifter.ahead), self.result.eq(last.result)]
        return m
