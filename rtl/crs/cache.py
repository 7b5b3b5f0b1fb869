"""The lines on chip, and their way from and to memory."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.tokens import TOKENS_PER_LINE, Token
from rtl.layouts import BLOCK_ADDRESS_BITS, MemoryPort, StackConfiguration
from rtl.params import SmParams

from .lines import SLOT_BITS, LineStore, TokensOfLine, TopLines
from .mover import LineMover
from .pointers import HIGH_BITS
from .request import LineRequest
from .window import MoverEvents
from .windows import WindowView

__all__ = ["StackCache", "line_place"]


def line_place(params: SmParams) -> data.StructLayout:
    """A line of the cache."""
    return data.StructLayout({"warp": params.warp_bits, "slot": SLOT_BITS})


class StackCache(Component):
    """One token or line is written a cycle, one line is read a cycle, and each warp's top line is at hand.

    A line is read for the first of: a top line to be copied (``restore``), a step of the stack's own
    (``look``), a walk that may go on (``ahead``), a copy that a push was in the way of, a spill. A copy is tried
    again until it is made, its warp has its next turn, or another has to be; the warp's next unwind may then
    take some cycles more. A line is written for the first of: a line that
    came from memory, a push; a line that came has a cycle of its own, ``busy``, best while no push is at the
    door.

    Members
    -------
    top_warp, top : In, Out(TokensOfLine)
        A warp's top line, in the same cycle.
    restore, look, ahead : In(1)
        Wishes to read ``restore_place``, ``look_place``, ``ahead_place``: the line is there in the next cycle.
    granted : Out(1)
        The wish ``ahead`` is fulfilled. (``restore`` always is, ``look`` while there is no ``restore``.)
    line : Out(TokensOfLine)
        The line read.
    restored, restored_warp : In(1), In
        The line read becomes the copy of the warp's top line.
    pushing : In(1)
        The port of top lines is a push's; known early.
    accessed, accessed_warp : In(1), In
        A warp has its turn, or waits for it.
    delayed : Out(1)
        What was ``restored`` is copied later.
    copied, copied_warp : Out(1), Out
        A delayed copy is made.
    door : In(1)
        A push is at the door, or something is that has to wait.
    busy : Out(1)
        No token can be written.
    push_warp, push_slot, push_tokens, token : In
        The token to write.
    launch, set_base, warp, configuration, base : In, In, In, In, Out
        Where the stack of ``warp`` lies in memory.
    windows, high_warp, high : In, Out, In
        All windows; the upper part of the number of a warp's topmost token.
    held : In(warps)
        Warps whose windows are just being changed by others.
    mover, mover_warp : Out(MoverEvents), Out
        What moves.
    spill, fill : Out(1)
        A line is sent to memory, or asked for.
    write_fault, write_fault_warp : Out
    port : Out(MemoryPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits = params.warp_bits
        place = line_place(params)
        super().__init__({
            "top_warp": In(bits), "top": Out(TokensOfLine),
            "restore": In(1), "restore_place": In(place), "look": In(1), "look_place": In(place),
            "ahead": In(1), "ahead_place": In(place), "granted": Out(1), "line": Out(TokensOfLine),
            "restored": In(1), "restored_warp": In(bits), "pushing": In(1), "accessed": In(1),
            "accessed_warp": In(bits), "delayed": Out(1), "copied": Out(1), "copied_warp": Out(bits),
            "door": In(1), "busy": Out(1),
            "push_warp": In(bits), "push_slot": In(SLOT_BITS), "push_tokens": In(TOKENS_PER_LINE), "token": In(Token),
            "launch": In(1), "set_base": In(1), "warp": In(bits), "configuration": In(StackConfiguration),
            "base": Out(BLOCK_ADDRESS_BITS),
            "windows": In(data.ArrayLayout(WindowView, params.warps)), "high_warp": Out(bits), "high": In(HIGH_BITS),
            "held": In(params.warps), "mover": Out(MoverEvents), "mover_warp": Out(bits),
            "spill": Out(1), "fill": Out(1), "write_fault": Out(1), "write_fault_warp": Out(bits),
            "port": Out(MemoryPort(bits))})
        self.store = LineStore(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.store = store = self.store
        m.submodules.tops = tops = TopLines(self._params)
        m.submodules.mover = mover = LineMover(self._params)
        m.submodules.request = request = LineRequest(self._params)

        early = self.restore | self.look | self.ahead

        # Copies of top lines. One that a push is in the way of is tried again, as long as its warp does nothing.
        waiting, read_again, restoring = Signal(), Signal(), Signal(line_place(self._params))
        waited: Any = Signal(line_place(self._params))
        retries = waiting & ~self.pushing       # a push that waits for a spill must not keep the spill waiting
        copies = (self.restored | read_again) & ~self.pushing
        outdated = self.accessed & (self.accessed_warp == waited.warp)
        m.d.sync += [restoring.eq(self.restore_place), read_again.eq(retries & ~early)]
        m.d.comb += [
            self.delayed.eq(self.restored & self.pushing), self.copied_warp.eq(waited.warp),
            self.copied.eq(read_again & waiting & ~self.pushing)]
        with m.If(self.delayed):
            m.d.sync += [waiting.eq(1), waited.eq(restoring), read_again.eq(0)]
        with m.Elif(outdated | self.copied):
            m.d.sync += [waiting.eq(0), read_again.eq(0)]

        # Reads.
        place = Signal(line_place(self._params))
        m.d.comb += [
            place.warp.eq(mover.turn_warp), place.slot.eq(mover.slot),
            self.granted.eq(self.ahead & ~self.restore & ~self.look), mover.read_free.eq(~early & ~retries)]
        with m.If(self.restore):
            m.d.comb += place.eq(self.restore_place)
        with m.Elif(self.look):
            m.d.comb += place.eq(self.look_place)
        with m.Elif(self.ahead):
            m.d.comb += place.eq(self.ahead_place)
        with m.Elif(retries):
            m.d.comb += place.eq(waited)
        m.d.comb += [
            store.read_warp.eq(place.warp), store.read_slot.eq(place.slot),
            self.line.eq(store.line), tops.read_warp.eq(self.top_warp), self.top.eq(tops.line)]

        # Writes.
        installing = Signal()
        m.d.sync += installing.eq(mover.arrived & ~installing & ~self.door)
        installed, read = mover.installed, store.line
        m.d.comb += [
            self.busy.eq(installing), mover.write_free.eq(installing),
            store.write_warp.eq(Mux(installing, mover.install_warp, self.push_warp)),
            store.write_slot.eq(Mux(installing, mover.install_slot, self.push_slot)),
            store.write_tokens.eq(Mux(installing, mover.install.replicate(TOKENS_PER_LINE), self.push_tokens)),
            tops.write_warp.eq(Mux(self.pushing, self.push_warp, Mux(self.restored, self.restored_warp, waited.warp))),
            tops.write_tokens.eq(self.push_tokens | copies.replicate(TOKENS_PER_LINE))]
        for index in range(TOKENS_PER_LINE):
            token = self.token.as_value()
            m.d.comb += [
                store.write_line[index].eq(Mux(installing, installed[index].as_value(), token)),
                tops.write_line[index].eq(Mux(self.pushing, token, read[index].as_value()))]

        # Between cache and memory.
        connect(m, request.request, flipped(self.port.request))
        connect(m, flipped(self.port.response), mover.response)
        m.d.comb += [
            mover.windows.eq(self.windows), self.high_warp.eq(mover.look_warp), mover.high.eq(self.high),
            mover.held.eq(self.held), mover.request_free.eq(request.free),
            self.mover.eq(mover.events), self.mover_warp.eq(mover.warp),
            self.spill.eq(mover.send), self.fill.eq(mover.ask),
            self.write_fault.eq(mover.write_fault), self.write_fault_warp.eq(mover.write_fault_warp),
            request.launch.eq(self.launch), request.set_base.eq(self.set_base), request.launch_warp.eq(self.warp),
            request.configuration.eq(self.configuration), self.base.eq(request.base),
            request.take.eq(mover.send | mover.ask), request.write.eq(mover.send), request.warp.eq(mover.warp),
            request.number.eq(mover.number), request.valid.eq(mover.valid), request.line.eq(store.line)]
        return m
