"""Branches through an entry of a table in a constant bank: the entry is read when its index is known."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ, Constant, Form
from rtl.layouts import Event, dispatched, indexed_request, indexed_response
from rtl.params import SmParams
from rtl.word import field_of, pattern_of

from .decode import FLOW_FORMS

__all__ = ["IndexedTargets"]


def _indexed(form: Form) -> bool:
    target = form.operands.get("target")
    return isinstance(target, Constant) and target.index is not None


TABLE_FORMS = tuple(form for form in FLOW_FORMS if _indexed(form))
"""The instructions whose target is a table's entry."""
_OFFSET_BITS = 16


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
        self._params = params
        event = Event(dispatched(params))
        super().__init__({
            "dispatch": In(event), "passed": Out(event), "busy": Out(1), "report_mask": In(32),
            "indexed": Out(stream.Signature(indexed_request())), "value": In(stream.Signature(indexed_response()))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        arriving = self.dispatch.payload
        kept: Any = Signal(dispatched(self._params))
        through_table, waits, asks, answered = Signal(), Signal(), Signal(), Signal()
        address, misaligned = Signal(32), Signal()
        with m.Switch(arriving.word):
            for form in TABLE_FORMS:
                with m.Case(pattern_of(form)):
                    m.d.comb += through_table.eq(1)

        # Keep it, and ask for the entry.
        with m.If(self.dispatch.valid & through_table):
            m.d.sync += [kept.eq(arriving), waits.eq(1), asks.eq(1), answered.eq(0)]
        with m.If(self.indexed.valid & self.indexed.ready):
            m.d.sync += asks.eq(0)
        form = TABLE_FORMS[0]
        offset, number = field_of(kept.word, form.fields["offset"]), field_of(kept.word, form.fields["Ra"])
        m.d.comb += [
            address.eq(Mux(number == RZ, offset.as_unsigned()[:_OFFSET_BITS], kept.operands[0] + offset)),
            misaligned.eq(address[:2] != 0), self.indexed.payload.bank.eq(field_of(kept.word, form.fields["bank"])),
            self.indexed.payload.address.eq(address), self.indexed.valid.eq(waits & asks & ~misaligned),
            self.value.ready.eq(1)]
        error = Signal(WarpError)
        reported = self.report_mask.bit_select(WarpError.INVALID_CONST_ADDR.value, 1)
        with m.If(misaligned):
            m.d.comb += error.eq(WarpError.MISALIGNED_ADDR)
        with m.Elif(self.value.payload.missing & reported):
            m.d.comb += error.eq(WarpError.INVALID_CONST_ADDR)
        with m.If(waits & ~answered & (self.value.valid | misaligned)):
            m.d.sync += [kept.operands[0].eq(Mux(misaligned, 0, self.value.payload.value)), kept.fault.eq(error),
                         answered.eq(1)]

        m.d.sync += Assert(~(self.dispatch.valid & through_table & waits), "a branch through a table while one waits")

        # Let it pass, behind whatever comes.
        passes = self.dispatch.valid & ~through_table
        m.d.comb += [
            self.busy.eq(waits | (self.dispatch.valid & through_table)),
            self.passed.valid.eq(passes | (waits & answered)),
            self.passed.payload.eq(Mux(passes, arriving.as_value(), kept.as_value()))]
        with m.If(waits & answered & ~passes):
            m.d.sync += waits.eq(0)
        return m
