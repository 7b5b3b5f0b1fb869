"""The conversion unit and the unit for double precision, as one client of the lanes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import connect

from rtl.component import Component, members_of
from rtl.constant_clients import ConstantClients
from rtl.double import DoubleUnit, is_double
from rtl.layouts import register_gather, register_write, reported
from rtl.machines import units_of
from rtl.params import SmParams
from rtl.stream_merger import StreamMerger

__all__ = ["ConversionUnits"]

_MARK = 3
"""The bit of an operation's mark that says whose it is."""


class ConversionUnits(Component):
    """The conversion unit, and beside it the unit for double precision, if there is one. What has an error, or no
    threads, goes to the conversion unit, whatever it is.

    Members
    -------
    dispatch, room, port, completion, error, report_mask, indexed, value
        See ConversionUnit.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self.conversion = units_of(params).conversion(params)
        self.double = DoubleUnit(params) if params.doubles else None
        super().__init__(members_of(self.conversion, "dispatch", "room", "port", "completion", "error", "report_mask",
                                    "indexed", "value"))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.conversion = conversion = self.conversion
        self.join(m, conversion, "completion", "error", "report_mask")
        if self.double is None:
            self.join(m, conversion, "dispatch", "room", "port", "indexed", "value")
            return m
        m.submodules.double = double = self.double
        m.submodules.constants = constants = ConstantClients()
        self.join(m, constants, "indexed", "value")
        constants.give(m, conversion, double)
        dispatch, port, arriving, goes = self.dispatch, self.port, self.dispatch.payload, Signal()
        m.d.comb += [
            goes.eq(is_double(arriving.word) & (arriving.active & arriving.guard).any()
                    & ~reported(self.report_mask, arriving.fault)),
            conversion.dispatch.payload.eq(arriving), conversion.dispatch.valid.eq(dispatch.valid & ~goes),
            double.dispatch.payload.eq(arriving), double.dispatch.valid.eq(dispatch.valid & goes),
            self.room.eq(conversion.room & double.room)]

        units = (conversion.port, double.port)
        for name, shape in (("gather", register_gather), ("write", register_write)):
            m.submodules[name] = merger = StreamMerger(shape(self._params))
            for source, unit in zip(merger.sources, units, strict=True):
                connect(m, getattr(unit, name), source)
            out = getattr(port, name)
            m.d.comb += [out.valid.eq(merger.merged.valid), merger.merged.ready.eq(out.ready),
                         out.payload.eq(merger.merged.payload),
                         out.payload.index.eq(Cat(merger.merged.payload.index[:_MARK], merger.second))]
        second = Signal()
        m.d.sync += second.eq(port.wanted.index[_MARK])
        for number, unit in enumerate(units):
            for name in ("gathered", "wanted"):
                here, there = getattr(port, name), getattr(unit, name)
                m.d.comb += [there.eq(here), there.index.eq(here.index[:_MARK]),
                             there.valid.eq(here.valid & (here.index[_MARK] == number))]
        m.d.comb += [getattr(port, name).eq(Mux(second, getattr(units[1], name), getattr(units[0], name)))
                     for name in ("values", "flags", "conditions")]
        return m
