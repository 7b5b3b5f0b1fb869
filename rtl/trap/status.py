"""Why each warp traps: what S2R reads of that, and which of its instructions failed."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.trap_status import STOP_AT, TRAP_REASONS, WarpStatus
from rtl.layouts import ERROR_SOURCES, Origin, error_event
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .warps import change

__all__ = ["WarpStatuses"]

_ERROR_BITS = max(error.value for error in WarpError).bit_length()
_LAST = [name for name, origin in ERROR_SOURCES.items() if origin is Origin.LAST]
"""Their place here is their number."""


class WarpStatuses(Component):
    """Flags are registers, a bit a warp. Codes of errors, and the addresses of instructions that may have been
    overtaken, are in LUT memory, one for each source of errors, since several tell at once.

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
    traps, reason : In(warps), In
        A warp executes a BPT.TRAP with this reason.
    stepped : In(warps)
        It traps after a step.
    clear, forget : In(warps), In(warps)
        All this is forgotten; but for where the warp comes back to.
    warp, status : In, Out(WarpStatus)
        What S2R reads of a warp.
    live, all_flags : In(warps), Out(9)
        What it reads of all that live, but for the stop trigger.
    trapped, wants, insists : Out(warps)
        It has executed a BPT.TRAP; one that can be masked; it has a reason that nobody can mask.
    entering, was_last, overtaken, pc : In, Out(1), Out(1), Out(32)
        Of a warp that enters the trap: the instruction that it issued last failed; one failed that may have been
        overtaken, and its address.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        super().__init__({
            "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))), "failing": Out(warps),
            "outside": In(warps), "traps": In(warps), "reason": In(range(TRAP_REASONS.stop)), "stepped": In(warps),
            "clear": In(warps), "forget": In(warps), "warp": In(bits), "status": Out(WarpStatus), "live": In(warps),
            "all_flags": Out(STOP_AT), "trapped": Out(warps), "wants": Out(warps), "insists": Out(warps),
            "entering": In(bits), "was_last": Out(1), "overtaken": Out(1), "pc": Out(32)})
        self._failed = {origin: Signal(warps, name=f"failed_{origin.name.lower()}")
                        for origin in Origin if origin is not Origin.NEXT}
        """Warps of which an instruction failed, by origin of the error."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, status = self._params.warps, self.status
        failed, stepped, masks = Signal(warps), Signal(warps), self.wants
        reasons = {reason: Signal(warps, name=f"reason_{reason}") for reason in TRAP_REASONS}
        *_, last = reasons.values()
        clear = Signal(warps)
        m.d.comb += clear.eq(self.clear | self.forget)
        for flags, causes in ((failed, self.failing & self.outside), (stepped, self.stepped),
                              (masks, Mux(self.reason == TRAP_REASONS.stop - 1, 0, self.traps)),
                              *((flags, Mux(self.reason == reason, self.traps, 0))
                                for reason, flags in reasons.items())):
            change(m, flags, (causes, 1), (clear, 0))
        every = [failed, *reasons.values(), stepped]
        m.d.comb += [
            self.insists.eq(failed | last), self.trapped.eq(masks | last),
            Cat(status.failed, status.reasons, status.stepped).eq(Cat(flags.bit_select(self.warp, 1)
                                                                      for flags in every)),
            self.all_flags.eq(Cat((flags & self.live).any() for flags in every))]
        self._errors(m)
        return m

    def _errors(self, m: Module) -> None:
        """The codes of errors, and where the warp comes back to."""
        params, failed = self._params, self._failed
        codes, of_source = {}, {}
        for event, (name, origin) in zip(self.errors, ERROR_SOURCES.items(), strict=True):
            overtaken = origin in (Origin.FLOW, Origin.MEMORY)
            shape = data.StructLayout({"error": _ERROR_BITS, "pc": 32 if overtaken else 0})
            m.submodules[name] = table = memory.Memory(shape=shape, depth=params.warps, init=[])
            write, code = table.write_port(), table.read_port(domain="comb")
            of_source[name], codes[name] = one_hot(event.warp, params.warps, event.valid), code.data.error
            counts = self.outside & ~failed[origin] if overtaken else self.outside
            m.d.comb += [
                write.en.eq(event.valid & counts.bit_select(event.warp, 1)), write.addr.eq(event.warp),
                write.data.error.eq(event.error), write.data.pc.eq(event.pc), code.addr.eq(self.warp)]
            if overtaken:
                instruction = table.read_port(domain="comb")
                m.d.comb += instruction.addr.eq(self.entering)
                with m.If(failed[origin].bit_select(self.entering, 1)):
                    m.d.comb += [self.overtaken.eq(1), self.pc.eq(instruction.data.pc)]
        m.d.comb += [
            self.was_last.eq(failed[Origin.LAST].bit_select(self.entering, 1)),
            self.failing.eq(reduce(or_, of_source.values()))]

        # Which source it was, of those of last instructions.
        which = [Signal(params.warps, name=f"which_{bit}") for bit in range((len(_LAST) - 1).bit_length())]
        told: Any = Signal(params.warps)
        m.d.comb += told.eq(reduce(or_, (of_source[name] for name in _LAST)) & self.outside)
        for bit, bits in enumerate(which):
            change(m, bits, (told, reduce(or_, (of_source[name] for place, name in enumerate(_LAST)
                                                if place >> bit & 1))))
        change(m, failed[Origin.LAST], (told, 1), (self.clear, 0))
        for name, origin in (("flow", Origin.FLOW), ("memory", Origin.MEMORY)):
            change(m, failed[origin], (of_source[name] & self.outside, 1), (self.clear, 0))

        # The code of the instruction that the warp comes back to.
        error: Any = Signal(_ERROR_BITS)
        of: dict[Origin, Any] = {origin: flags.bit_select(self.warp, 1) for origin, flags in failed.items()}
        with m.If(of[Origin.MEMORY]):
            m.d.comb += error.eq(codes["memory"])
        with m.Elif(of[Origin.FLOW]):
            m.d.comb += error.eq(codes["flow"])
        with m.Elif(of[Origin.LAST]), m.Switch(Cat(bits.bit_select(self.warp, 1) for bits in which)):
            for place, name in enumerate(_LAST):
                with m.Case(place):
                    m.d.comb += error.eq(codes[name])
        with m.Else():
            m.d.comb += error.eq(codes["stack"])
        m.d.comb += self.status.error.as_value().eq(Mux(self.status.failed, error, 0))
        events = dict(zip(ERROR_SOURCES, self.errors, strict=True))
        for place, name in enumerate(_LAST):
            for other in _LAST[:place]:
                one, two = events[name], events[other]
                m.d.sync += Assert(~(one.valid & two.valid & (one.warp == two.warp)),
                                   "the last instruction of a warp fails twice")
