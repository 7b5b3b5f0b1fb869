"""The windows of all warps."""

from amaranth.hdl import Cat, Module, Mux, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.params import SmParams

from .window import LINE_COUNT_BITS, AccessEvents, CommitEvents, MoverEvents, StackWindow, WindowState

__all__ = ["StackWindows", "WindowView"]


class WindowView(data.Struct):
    """One warp's window, as others see it. See :class:`StackWindow`."""

    cached: unsigned(LINE_COUNT_BITS)
    dirty: unsigned(LINE_COUNT_BITS)
    coming: unsigned(LINE_COUNT_BITS)
    seen: unsigned(LINE_COUNT_BITS)
    state: WindowState
    pushable: unsigned(1)
    faulty: unsigned(1)
    accepts: unsigned(1)
    wants_spill: unsigned(1)
    wants_fill: unsigned(1)
    wants_turn: unsigned(1)


class StackWindows(wiring.Component):
    """A window a warp; each stage tells the window of its own warp what happens.

    Members
    -------
    access_warp, access : In, In(AccessEvents)
    commit_warp, commit : In, In(CommitEvents)
    mover_warp, mover : In, In(MoverEvents)
    written_warp, written : In, In(1)
    views : Out(array of WindowView)
    ready : Out(warps)
        Warps that wait for nothing: neither an unwind, nor a line for the next token.
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "access_warp": In(bits), "access": In(AccessEvents), "commit_warp": In(bits), "commit": In(CommitEvents),
            "mover_warp": In(bits), "mover": In(MoverEvents), "written_warp": In(bits), "written": In(1),
            "views": Out(data.ArrayLayout(WindowView, params.warps)), "ready": Out(params.warps)})
        self.windows = [StackWindow() for _ in range(params.warps)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for warp, window in enumerate(self.windows):
            m.submodules[f"warp{warp}"] = window
            m.d.comb += [
                window.access.eq(Mux(self.access_warp == warp, self.access.as_value(), 0)),
                window.commit.eq(Mux(self.commit_warp == warp, self.commit.as_value(), 0)),
                window.mover.eq(Mux(self.mover_warp == warp, self.mover.as_value(), 0)),
                window.written.eq(self.written & (self.written_warp == warp))]
            view = self.views[warp]
            m.d.comb += [getattr(view, name).eq(getattr(window, name)) for name, _ in WindowView.as_shape()]
        m.d.comb += self.ready.eq(Cat((view.state == WindowState.IDLE) & view.pushable & ~view.faulty
                                      for view in self.views))
        return m
