"""What failed of each warp: the error's code, and where the warp comes back to."""

from itertools import combinations
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import ERROR_SOURCES, EventLayout, Origin, error_event, warp_launch
from rtl.params import SmParams
from rtl.words import Words

__all__ = ["WarpErrors"]

_ERROR_BITS = max(error.value for error in WarpError).bit_length()
_OVERTAKEN = (Origin.FLOW, Origin.MEMORY)
"""Where an instruction that failed may have been overtaken."""


class WarpErrors(Component):
    """Errors are in LUT memory: one for each source, since several tell at once, with the code and, of what may have
    been overtaken, the address. One counts if its source has told of the warp more often than was seen to, modulo 2:
    when the warp is on its way into the trap or back, or a new one begins. Of several of a source the first is kept;
    of those of different sources that of the later Origin, which is of the older instruction: a memory instruction has
    issued when the flow results before it were known, and a push is older than what could not be overtaken. The code
    goes to what S2R reads when the warp enters.

    Members
    -------
    errors : In(array of error_event)
        All reported errors, by ERROR_SOURCES.
    outside : In(warps)
        Warps whose errors of flow results count: an entry that fails is told as one, too.
    launch : In(EventLayout of warp_launch)
        A new warp: nothing of it has failed.
    dispatched, moves, enters : In, In(1), In(1)
        Something of this warp is dispatched; it is on its way into the trap, or back; into it.
    was_last, overtaken, pc : Out(1), Out(1), Out(32)
        Of it: the instruction that it issued last failed; one failed that may have been overtaken, and its address.
    warp, code : In, Out
        The code of what a warp came back to when it entered last.
    """

    def __init__(self, params: SmParams) -> None:
        self._params, bits = params, params.warp_bits
        super().__init__({
            "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))), "outside": In(params.warps),
            "launch": In(EventLayout(warp_launch(params))), "dispatched": In(bits), "moves": In(1), "enters": In(1),
            "was_last": Out(1), "overtaken": Out(1), "pc": Out(32), "warp": In(bits), "code": Out(_ERROR_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        moved, launched, outside, failures, at_launched = (
            self.dispatched, self.launch.payload.warp, self.outside, [], [])
        at_moves, at_launches = (self._words(m, name, len(ERROR_SOURCES)) for name in ("at_moves", "at_launches"))

        def seen(warp: Any) -> Any:
            """Of each source, how often what it told of the warp was seen to, modulo 2."""
            return at_moves.read(m, warp) ^ at_launches.read(m, warp)

        before = seen(moved)
        for place, (event, (name, origin)) in enumerate(zip(self.errors, ERROR_SOURCES.items(), strict=True)):
            table = self._words(m, name, data.StructLayout({
                "told": 1, "error": _ERROR_BITS, "pc": 32 if origin in _OVERTAKEN else 0}))
            told, failure = table.read(m, event.warp).told, table.read(m, moved)
            counts = outside.bit_select(event.warp, 1) if origin is Origin.FLOW else 1
            table.write(m, event.valid & (told == seen(event.warp)[place]) & counts, event.warp,
                        {"told": ~told, "error": event.error, "pc": event.pc})
            failures.append((origin, event, failure, failure.told ^ before[place]))
            at_launched.append(table.read(m, launched).told)
        at_moves.write(m, self.moves, moved, Cat(failure.told for _, _, failure, _ in failures)
                       ^ at_launches.read(m, moved))
        at_launches.write(m, self.launch.valid, launched, Cat(at_launched) ^ at_moves.read(m, launched))

        # What the warp comes back to, and its code: later origins are of older instructions.
        codes, entered, entering, code = self._words(m, "codes", _ERROR_BITS), Signal.like(moved), Signal(), Signal(
            _ERROR_BITS)
        for origin, _, failure, pending in sorted(failures, key=lambda each: each[0].value):
            with m.If(pending):
                m.d.sync += code.eq(failure.error)
                if origin in _OVERTAKEN:
                    m.d.comb += [self.overtaken.eq(1), self.pc.eq(failure.pc)]
        codes.write(m, entering, entered, code)
        m.d.sync += [entering.eq(self.moves & self.enters), entered.eq(moved)]
        last = [(event, pending) for origin, event, _, pending in failures if origin is Origin.LAST]
        m.d.comb += [
            self.was_last.eq(Cat(pending for _, pending in last).any()), self.code.eq(codes.read(m, self.warp))]
        m.d.sync += [
            Assert(~(one.valid & two.valid & (one.warp == two.warp)), "the last instruction of a warp fails twice")
            for (one, _), (two, _) in combinations(last, 2)]
        return m

    def _words(self, m: Module, name: str, shape: Any) -> Words:
        """A word a warp; in LUT memory for few warps, too, where synthesis would take registers and multiplexers."""
        m.submodules[name] = made = Words(shape, self._params.warps, ram_style="distributed")
        return made
