"""The windows of all warps."""

from amaranth.hdl import Cat, Module, Mux, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .lines import CACHED_LINES, SLOT_BITS
from .pointers import LOW_BITS
from .window import AccessEvents, CommitEvents, LimitFlags, MoverEvents, StackWindow, WindowFill, WindowState

__all__ = ["StackWindows", "WindowView"]


class WindowView(data.Struct):
    """One warp's window, as the stages see it. See :class:`StackWindow`."""

    state: WindowState
    fill: WindowFill
    last: unsigned(LOW_BITS)
    cached: unsigned(CACHED_LINES)
    dirty: unsigned(CACHED_LINES)
    oldest: unsigned(SLOT_BITS)
    top: unsigned(1)
    bottom: unsigned(1)
    has_memory: unsigned(1)
    near: unsigned(1)
    reached: unsigned(1)
    serves: unsigned(1)
    fits: unsigned(1)
    takes: unsigned(1)
    takes_pair: unsigned(1)
    keeps: unsigned(1)
    wants_spill: unsigned(1)
    wants_fill: unsigned(1)
    wants_turn: unsigned(1)


class StackWindows(Component):
    """A window a warp; each stage tells the window of its own warp what happens.

    Members
    -------
    access_warp, access : In, In(AccessEvents)
    turn_warp, turn : In, In(1)
    delayed, copied_warp, copied : In(1), In, In(1)
    commit_warp, commit : In, In(CommitEvents)
    mover_warp, mover : In, In(MoverEvents)
    check_warp, check, flags : In, In(1), In(LimitFlags)
    views : Out(array of WindowView)
    ready : Out(warps)
        Warps that wait for nothing: neither an unwind, nor a line for the next token.
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "access_warp": In(bits), "access": In(AccessEvents), "turn_warp": In(bits), "turn": In(1),
            "delayed": In(1), "copied_warp": In(bits), "copied": In(1),
            "commit_warp": In(bits), "commit": In(CommitEvents),
            "mover_warp": In(bits), "mover": In(MoverEvents),
            "check_warp": In(bits), "check": In(1), "flags": In(LimitFlags),
            "views": Out(data.ArrayLayout(WindowView, params.warps)), "ready": Out(params.warps)})
        self.windows = [StackWindow() for _ in range(params.warps)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for warp, window in enumerate(self.windows):
            m.submodules[f"warp{warp}"] = window
            for events, into, of_warp in ((self.access, window.access, self.access_warp),
                                          (self.commit, window.commit, self.commit_warp),
                                          (self.mover, window.mover, self.mover_warp)):
                m.d.comb += into.eq(Mux(of_warp == warp, events.as_value(), 0))
            m.d.comb += [window.turn.eq(self.turn & (self.turn_warp == warp)), window.delayed.eq(self.delayed),
                         window.copied.eq(self.copied & (self.copied_warp == warp)),
                         window.check.eq(self.check & (self.check_warp == warp)), window.flags.eq(self.flags)]
            view = self.views[warp]
            m.d.comb += [getattr(view, name).eq(getattr(window, name)) for name, _ in WindowView.as_shape()]
        m.d.comb += self.ready.eq(Cat(view.serves & view.fits for view in self.views))
        return m
