"""The fourth stage: the answer, with what it takes from a token."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Module, Mux, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import ThreadCode, stack_result
from rtl.params import SmParams

from .stages import answer_stage

__all__ = ["StackAnswer"]


class StackAnswer(Component):
    """Combinational.

    Members
    -------
    stage : In(answer_stage)
    result : Out(stack_result)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({"stage": In(answer_stage(params)), "result": Out(stack_result(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, result = self.stage, self.result
        m.d.comb += [result[name].eq(stage[name]) for name in ("warp", "resume", "empty", "error", "value")]
        m.d.comb += [
            result.pc.eq(_chosen(stage.chosen, stage.pcs)), result.mask.eq(_chosen(stage.chosen, stage.revived)),
            result.kind.eq(_chosen(stage.chosen, [kind.as_value() for kind in stage.kinds]))]
        for index, (code, after) in enumerate(zip(stage.codes, result.codes, strict=True)):
            m.d.comb += after.eq(Mux(stage.resume & result.mask[index], ThreadCode.NONE.value, code.as_value()))
        return m


def _chosen(chosen: Value, values: Any) -> Value:
    """The value whose bit in ``chosen`` is 1; 0 if none is."""
    return reduce(or_, (chosen[index].replicate(len(value)) & value for index, value in enumerate(values)))
