"""Why each warp traps: what S2R reads of that, and which of its instructions failed."""

from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.trap_status import STOP_AT, TRAP_REASONS, WarpStatus
from rtl.layouts import ERROR_SOURCES, Event, Origin, error_event
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .warps import shared

__all__ = ["WarpStatuses"]

_ERROR_BITS = max(error.value for error in WarpError).bit_length()
_PLACES = {name: place for place, name in enumerate(ERROR_SOURCES)}


class WarpStatuses(Component):
    """What must be seen of all warps in one cycle is registers, a bit a warp. What belongs to errors is in LUT memory:
    one for each source, since several tell at once, with the code and, of what may have been overtaken, the address.

    A source's error of a warp counts if the source has told of the warp more often than was seen to, modulo 2. It has
    been seen to when the warp is on its way into the trap or back, or a new one begins. The code goes to what S2R
    reads when the warp enters.

    A memory instruction is older than whatever else has failed, since it has issued when the flow results before it
    were known; the first of several is the one that is told first. A push is older than what could not be overtaken;
    of that only the last instruction of a warp can fail, and a line of the stack belongs to no instruction.

    Members
    -------
    errors : In(array of error_event), by ERROR_SOURCES
        All reported errors.
    failing : Out(warps)
        Their warps.
    outside : In(warps)
        Warps whose errors count.
    trap, traps, reason : In(1), In(warps), In
        The warp of which something is dispatched executes a BPT.TRAP with this reason.
    stepped : In(warps)
        It traps after a step.
    clear : In(warps)
        Its flags are cleared.
    warp, status : In, Out(WarpStatus)
        What S2R reads of a warp.
    live, all_flags : In(warps), Out(9)
        What it reads of all that live, but for the stop trigger.
    trapped, wants, insists : Out(warps)
        It has executed a BPT.TRAP; one that can be masked; it has a reason that nobody can mask.
    launch : In(Event of a warp)
        A new warp: nothing of it has failed.
    dispatched, moves, enters : In, In(1), In(1)
        Something of this warp is dispatched; it is on its way into the trap, or back.
    was_last, overtaken, pc : Out(1), Out(1), Out(32)
        Of it: the instruction that it issued last failed; one failed that may have been overtaken, and its address.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        super().__init__({
            "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))), "failing": Out(warps),
            "outside": In(warps), "trap": In(1), "traps": In(warps), "reason": In(range(TRAP_REASONS.stop)),
            "stepped": In(warps),
            "clear": In(warps), "warp": In(bits), "status": Out(WarpStatus), "live": In(warps),
            "all_flags": Out(STOP_AT), "trapped": Out(warps), "wants": Out(warps), "insists": Out(warps),
            "launch": In(Event(bits)), "dispatched": In(bits), "moves": In(1), "enters": In(1),
            "was_last": Out(1), "overtaken": Out(1), "pc": Out(32)})

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
        kept = self._memory(m, "reasons", len(reasons))
        write, before = kept.write_port(), self._read(m, kept, self.dispatched)
        new = Cat(self.reason == reason for reason in reasons)
        m.d.comb += [
            write.en.eq(self.trap), write.addr.eq(self.dispatched),
            write.data.eq(new | Mux((self.trapped & self.traps).any(), before, 0)),
            status.failed.eq((failed & of).any()), status.stepped.eq((stepped & of).any()),
            status.reasons.eq(Mux((self.trapped & of).any(), self._read(m, kept, self.warp), 0))]
        self._errors(m)
        return m

    def _errors(self, m: Module) -> None:
        """The codes of errors, and where the warp comes back to."""
        width, moved, launched = len(ERROR_SOURCES), self.dispatched, self.launch.payload
        at_moves, at_launches = (self._memory(m, name, width) for name in ("at_moves", "at_launches"))
        codes = self._memory(m, "codes", _ERROR_BITS)

        def seen(warp: Any) -> Any:
            """Of each source, how often what it told of the warp was seen to, modulo 2."""
            return self._read(m, at_moves, warp) ^ self._read(m, at_launches, warp)

        before, found, at_moved, at_launched = seen(moved), {}, [], []
        for event, (name, origin) in zip(self.errors, ERROR_SOURCES.items(), strict=True):
            overtaken = origin in (Origin.FLOW, Origin.MEMORY)
            table = self._memory(m, name, data.StructLayout({
                "told": 1, "error": _ERROR_BITS, "pc": 32 if overtaken else 0}))
            told, was_seen = self._read(m, table, event.warp).told, seen(event.warp)[_PLACES[name]]
            # An entry that fails is told by the flow unit, too.
            counts = (self.outside & one_hot(event.warp, self._params.warps)).any() if origin is Origin.FLOW else 1
            write = table.write_port()
            m.d.comb += [
                write.en.eq(event.valid & (told == was_seen) & counts), write.addr.eq(event.warp),
                write.data.told.eq(~told), write.data.error.eq(event.error), write.data.pc.eq(event.pc)]
            failure = self._read(m, table, moved)
            found.setdefault(origin, []).append((failure.told ^ before[_PLACES[name]], failure))
            at_moved.append(failure.told)
            at_launched.append(self._read(m, table, launched).told)
        for memories, other, when, warp, told in (
                (at_moves, at_launches, self.moves, moved, at_moved),
                (at_launches, at_moves, self.launch.valid, launched, at_launched)):
            write = memories.write_port()
            m.d.comb += [write.en.eq(when), write.addr.eq(warp), write.data.eq(Cat(told) ^ self._read(m, other, warp))]

        # What the warp comes back to, and its code: later origins are of older instructions.
        code = codes.write_port()
        m.d.sync += [code.en.eq(self.moves & self.enters), code.addr.eq(moved)]
        m.d.comb += [
            self.was_last.eq(Cat(pending for pending, _ in found[Origin.LAST]).any()),
            self.status.error.as_value().eq(Mux(self.status.failed, self._read(m, codes, self.warp), 0))]
        for origin in Origin:
            for pending, failure in found[origin]:
                with m.If(pending):
                    m.d.sync += code.data.eq(failure.error)
                    if origin in (Origin.FLOW, Origin.MEMORY):
                        m.d.comb += [self.overtaken.eq(1), self.pc.eq(failure.pc)]
        last = [event for event, origin in zip(self.errors, ERROR_SOURCES.values(), strict=True)
                if origin is Origin.LAST]
        m.d.sync += [Assert(~(one.valid & two.valid & (one.warp == two.warp)),
                            "the last instruction of a warp fails twice") for one, two in combinations(last, 2)]

    def _memory(self, m: Module, name: str, shape: Any) -> Any:
        """A word a warp; in LUT memory for few warps, too, where synthesis would take registers and multiplexers."""
        attributes: Any = {"ram_style": "distributed"}
        m.submodules[name] = made = memory.Memory(shape=shape, depth=self._params.warps, init=[], attrs=attributes)
        return made

    def _read(self, m: Module, of: Any, warp: Any) -> Any:
        port = of.read_port(domain="comb")
        m.d.comb += port.addr.eq(warp)
        return port.data
