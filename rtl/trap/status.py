"""Why each warp traps: what S2R reads of that, and which of its instructions failed."""

from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.trap_status import STOP_AT, TRAP_REASONS, WarpStatus
from rtl.layouts import ERROR_SOURCES, Origin, error_event, warp_launch
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.words import Words

from .warps import shared

__all__ = ["WarpStatuses"]

_ERROR_BITS = max(error.value for error in WarpError).bit_length()
_OVERTAKEN = (Origin.FLOW, Origin.MEMORY)
"""Where an instruction that failed may have been overtaken."""


class WarpStatuses(Component):
    """Errors are in LUT memory: one for each source, since several tell at once, with the code and, of what may have
    been overtaken, the address. One counts if its source has told of the warp more often than was seen to, modulo 2:
    when the warp is on its way into the trap or back, or a new one begins. Of several of a source the first is kept;
    of those of different sources that of the later Origin, which is of the older instruction: a memory instruction has
    issued when the flow results before it were known, and a push is older than what could not be overtaken. The code
    goes to what S2R reads when the warp enters.

    Members
    -------
    errors, failing : In(array of error_event), Out(warps)
        All reported errors, by ERROR_SOURCES; their warps.
    outside, stepped, clear : In(warps)
        Warps whose errors count; that trap after a step; whose flags are cleared.
    trap, traps, reason : In(1), In(warps), In
        The warp of which something is dispatched executes a BPT.TRAP with this reason.
    warp, status : In, Out(WarpStatus)
        What S2R reads of a warp.
    live, all_flags : In(warps), Out(9)
        What it reads of all that live, but for the stop trigger.
    trapped, wants, insists : Out(warps)
        It has executed a BPT.TRAP; one that can be masked; it has a reason that nobody can mask.
    launch : In(valid and warp_launch)
        A new warp: nothing of it has failed.
    dispatched, moves, enters : In, In(1), In(1)
        Something of this warp is dispatched; it is on its way into the trap, or back; into it.
    was_last, overtaken, pc : Out(1), Out(1), Out(32)
        Of it: the instruction that it issued last failed; one failed that may have been overtaken, and its address.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        super().__init__({
            "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))), "failing": Out(warps),
            "outside": In(warps), "trap": In(1), "traps": In(warps), "reason": In(range(TRAP_REASONS.stop)),
            "stepped": In(warps), "clear": In(warps), "warp": In(bits), "status": Out(WarpStatus), "live": In(warps),
            "all_flags": Out(STOP_AT), "trapped": Out(warps), "wants": Out(warps), "insists": Out(warps),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})), "dispatched": In(bits),
            "moves": In(1), "enters": In(1), "was_last": Out(1), "overtaken": Out(1), "pc": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, status = self._params.warps, self.status
        failed, stepped, masks = Signal(warps), Signal(warps), self.wants
        reasons = {reason: Signal(warps, name=f"reason_{reason}") for reason in TRAP_REASONS}
        *_, last = reasons.values()
        of = shared(m, "of", one_hot(self.warp, warps))
        failing = shared(m, "failing_now", reduce(or_, (one_hot(event.warp, warps, event.valid)
                                                        for event in self.errors)))
        clear = shared(m, "cleared", self.clear)
        m.d.comb += self.failing.eq(failing)
        for flags, causes in ((failed, failing & self.outside), (stepped, self.stepped),
                              (masks, Mux(self.reason == TRAP_REASONS.stop - 1, 0, self.traps)),
                              *((flags, Mux(self.reason == reason, self.traps, 0))
                                for reason, flags in reasons.items())):
            m.d.sync += flags.eq((flags | causes) & ~clear)
        m.d.comb += [
            self.insists.eq(failed | last), self.trapped.eq(masks | last),
            self.all_flags.eq(Cat((flags & self.live).any() for flags in (failed, *reasons.values(), stepped)))]

        # What S2R reads of a warp. To select among so many flags would take more than to have them twice.
        kept = self._words(m, "reasons", len(reasons))
        before = Mux((self.trapped & self.traps).any(), kept.read(m, self.dispatched), 0)
        kept.write(m, self.trap, self.dispatched, Cat(self.reason == reason for reason in reasons) | before)
        m.d.comb += [
            status.failed.eq((failed & of).any()), status.stepped.eq((stepped & of).any()),
            status.reasons.eq(Mux((self.trapped & of).any(), kept.read(m, self.warp), 0))]
        self._errors(m)
        return m

    def _errors(self, m: Module) -> None:
        """The codes of errors, and where the warp comes back to."""
        moved, launched, by_origin = self.dispatched, self.launch.payload.warp, {origin: [] for origin in Origin}
        at_moves, at_launches = (self._words(m, name, len(ERROR_SOURCES)) for name in ("at_moves", "at_launches"))

        def seen(warp: Any) -> Any:
            """Of each source, how often what it told of the warp was seen to, modulo 2."""
            return at_moves.read(m, warp) ^ at_launches.read(m, warp)

        before, at_moved, at_launched = seen(moved), [], []
        for place, (event, (name, origin)) in enumerate(zip(self.errors, ERROR_SOURCES.items(), strict=True)):
            table = self._words(m, name, data.StructLayout({
                "told": 1, "error": _ERROR_BITS, "pc": 32 if origin in _OVERTAKEN else 0}))
            told = table.read(m, event.warp).told
            # An entry that fails is told by the flow unit, too.
            counts = (self.outside & one_hot(event.warp, self._params.warps)).any() if origin is Origin.FLOW else 1
            table.write(m, event.valid & (told == seen(event.warp)[place]) & counts, event.warp,
                        {"told": ~told, "error": event.error, "pc": event.pc})
            failure = table.read(m, moved)
            by_origin[origin].append((event, failure.told ^ before[place], failure))
            at_moved.append(failure.told)
            at_launched.append(table.read(m, launched).told)
        at_moves.write(m, self.moves, moved, Cat(at_moved) ^ at_launches.read(m, moved))
        at_launches.write(m, self.launch.valid, launched, Cat(at_launched) ^ at_moves.read(m, launched))

        # What the warp comes back to, and its code: later origins are of older instructions.
        codes, entered, entering, code = self._words(m, "codes", _ERROR_BITS), Signal.like(moved), Signal(), Signal(
            _ERROR_BITS)
        codes.write(m, entering, entered, code)
        m.d.sync += [entering.eq(self.moves & self.enters), entered.eq(moved)]
        m.d.comb += [
            self.was_last.eq(Cat(pending for _, pending, _ in by_origin[Origin.LAST]).any()),
            self.status.error.as_value().eq(Mux(self.status.failed, codes.read(m, self.warp), 0))]
        for origin, failures in by_origin.items():
            for _, pending, failure in failures:
                with m.If(pending):
                    m.d.sync += code.eq(failure.error)
                    if origin in _OVERTAKEN:
                        m.d.comb += [self.overtaken.eq(1), self.pc.eq(failure.pc)]
        m.d.sync += [Assert(~(one.valid & two.valid & (one.warp == two.warp)),
                            "the last instruction of a warp fails twice")
                     for (one, *_), (two, *_) in combinations(by_origin[Origin.LAST], 2)]

    def _words(self, m: Module, name: str, shape: Any) -> Words:
        """A word a warp; in LUT memory for few warps, too, where synthesis would take registers and multiplexers."""
        m.submodules[name] = made = Words(shape, self._params.warps, ram_style="distributed")
        return made
