"""Branches through tables in a constant bank, on their way from dispatch to the flow unit."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import enum, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ, Constant, Pipe
from rtl.isa.table import FORMS
from rtl.layouts import Event, dispatched, indexed_request, indexed_response
from rtl.params import SmParams
from rtl.word import field_of, pattern_of

__all__ = ["IndexedTargets"]

_TABLE_FORMS = tuple(form for form in FORMS if form.pipe is Pipe.FLOW
                     and isinstance(target := form.operands.get("target"), Constant) and target.index is not None)
"""The instructions whose target is a table's entry."""
_OFFSET_BITS = 16


class _Indexed(enum.Enum, shape=2):
    """What a branch waits for: that its entry is asked for, the entry, a cycle in which nothing else passes."""

    NOTHING = 0
    ASKS = 1
    READS = 2
    PASSES = 3


class IndexedTargets(Component):
    """Puts the table's entry in the place of its index. Everything else passes.

    An address that is no multiple of 4 is MISALIGNED_ADDR; beyond the end of the bank it is INVALID_CONST_ADDR if that
    is reported, else the entry is 0.

    Members
    -------
    dispatch, passed : In, Out(Event of dispatched)
        While one waits here no other comes whose registers were collected. It passes when nothing else does.
    busy : Out(1)
        One waits, or comes in this cycle.
    report_mask : In(32)
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        The constants.
    """

    def __init__(self, params: SmParams) -> None:
        self._layout = dispatched(params)
        super().__init__({
            "dispatch": In(Event(self._layout)), "passed": Out(Event(self._layout)), "busy": Out(1),
            "report_mask": In(32), "indexed": Out(stream.Signature(indexed_request())),
            "value": In(stream.Signature(indexed_response()))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        arriving, asked, value, form = self.dispatch, self.indexed, self.value, _TABLE_FORMS[0]
        kept: Any = Signal(self._layout)
        state, address, misaligned, error = Signal(_Indexed), Signal(32), Signal(), Signal(WarpError)
        comes, passes, waits = Signal(), Signal(), state != _Indexed.NOTHING
        through_table = arriving.payload.word.matches(*map(pattern_of, _TABLE_FORMS))
        offset, number = field_of(kept.word, form.fields["offset"]), field_of(kept.word, form.fields["Ra"])
        m.d.comb += [
            comes.eq(arriving.valid & through_table), passes.eq(arriving.valid & ~through_table),
            address.eq(Mux(number == RZ, offset.as_unsigned()[:_OFFSET_BITS], kept.operands[0] + offset)),
            misaligned.eq(address[:2] != 0), asked.payload.bank.eq(field_of(kept.word, form.fields["bank"])),
            asked.payload.address.eq(address), asked.valid.eq(state == _Indexed.ASKS),
            value.ready.eq(1), self.busy.eq(waits | comes), self.passed.valid.eq(passes | (state == _Indexed.PASSES)),
            # Of one that comes to wait here it is of no use; whether it does is not asked.
            self.passed.payload.eq(Mux(arriving.valid, arriving.payload.as_value(), kept.as_value()))]
        with m.If(misaligned):
            m.d.comb += error.eq(WarpError.MISALIGNED_ADDR)
        with m.Elif(value.payload.missing & self.report_mask.bit_select(WarpError.INVALID_CONST_ADDR.value, 1)):
            m.d.comb += error.eq(WarpError.INVALID_CONST_ADDR)

        with m.Switch(state):
            with m.Case(_Indexed.ASKS, _Indexed.READS):
                with m.If(value.valid):
                    m.d.sync += [kept.operands[0].eq(Mux(misaligned, 0, value.payload.value)), kept.fault.eq(error),
                                 state.eq(_Indexed.PASSES)]
                with m.Elif(asked.ready):
                    m.d.sync += state.eq(_Indexed.READS)
            with m.Case(_Indexed.PASSES), m.If(~passes):
                m.d.sync += state.eq(_Indexed.NOTHING)
        with m.If(comes):
            m.d.sync += [kept.eq(arriving.payload), state.eq(_Indexed.ASKS)]
        m.d.sync += Assert(~(comes & waits), "a branch through a table while one waits")
        return m
