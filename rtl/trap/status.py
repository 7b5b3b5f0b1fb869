"""Why warps trap: the bits of SR64 and SR66, and each warp's first error."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.trap_status import STOP_AT, TRAP_REASONS, WarpStatus
from rtl.layouts import error_event
from rtl.params import SmParams

from .warps import change

__all__ = ["WarpStatuses"]

_ERROR_BITS = max(error.value for error in WarpError).bit_length()
_NUMBERS = {"lanes": 0b0001, "flow": 0b0111, "memory": 0b1111, "conversion": 0b0010, "barrier": 0b0100, "trap": 0b0011,
            "stack": 0b0000}
"""Numbers of the sources of errors. If several tell of a warp at once, the bits of all their numbers together are the
number of the oldest instruction's source: a memory instruction, a push, the warp's last one, of which there is one."""


class WarpStatuses(Component):
    """Flags are registers, a bit a warp. Codes of errors are in LUT memory, one for each source of errors, and it is
    known of each warp which source was the first.

    Members
    -------
    errors, failing : In(array of error_event), In(array of warps), by ORIGINS
        All reported errors; of each, its warp among all.
    outside : In(warps)
        Warps whose errors count.
    traps, reason : In(warps), In
        A warp executes a BPT.TRAP with this reason.
    stepped : In(warps)
        It traps after a step.
    clear : In(warps)
        All this is forgotten.
    warp, status : In, Out(WarpStatus)
        What S2R reads of a warp.
    live, all_flags : In(warps), Out(9)
        What it reads of all that live, but for the stop trigger.
    trapped, wants, insists : Out(warps)
        It has executed a BPT.TRAP; one that can be masked; it has a reason that nobody can mask.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, sources = params.warps, len(_NUMBERS)
        super().__init__({
            "errors": In(data.ArrayLayout(error_event(params), sources)),
            "failing": In(data.ArrayLayout(warps, sources)), "outside": In(warps), "traps": In(warps),
            "reason": In(range(TRAP_REASONS.stop)), "stepped": In(warps), "clear": In(warps),
            "warp": In(params.warp_bits), "status": Out(WarpStatus), "live": In(warps), "all_flags": Out(STOP_AT),
            "trapped": Out(warps), "wants": Out(warps), "insists": Out(warps)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, status = self._params.warps, self.status
        failed, stepped, masks = Signal(warps), Signal(warps), self.wants
        reasons = {reason: Signal(warps, name=f"reason_{reason}") for reason in TRAP_REASONS}
        change(m, failed, (reduce(or_, self.failing) & self.outside, 1), (self.clear, 0))
        change(m, stepped, (self.stepped, 1), (self.clear, 0))
        for reason, flags in reasons.items():
            change(m, flags, (Mux(self.reason == reason, self.traps, 0), 1), (self.clear, 0))
        *maskable, last = reasons.values()
        change(m, masks, (Mux(self.reason == TRAP_REASONS.stop - 1, 0, self.traps), 1), (self.clear, 0))
        m.d.comb += [self.insists.eq(failed | last), self.trapped.eq(masks | last)]

        # What S2R reads.
        every = [failed, *maskable, last, stepped]
        m.d.comb += [
            status.failed.eq(failed.bit_select(self.warp, 1)),
            status.reasons.eq(Cat(flags.bit_select(self.warp, 1) for flags in reasons.values())),
            status.stepped.eq(stepped.bit_select(self.warp, 1)),
            self.all_flags.eq(Cat((flags & self.live).any() for flags in every))]
        self._codes(m, failed)
        return m

    def _codes(self, m: Module, failed: Signal) -> None:
        """The code of the first error; of several at once, that of the oldest instruction."""
        params, waits = self._params, self.outside & ~failed
        which = [Signal(params.warps, name=f"which_{bit}") for bit in range(max(_NUMBERS.values()).bit_length())]
        for bit, bits in enumerate(which):
            change(m, bits, (waits, reduce(or_, (failing for failing, number in zip(
                self.failing, _NUMBERS.values(), strict=True) if number >> bit & 1))))
        code = Signal(_ERROR_BITS)
        with m.Switch(Cat(bits.bit_select(self.warp, 1) for bits in which)):
            for event, (source, number) in zip(self.errors, _NUMBERS.items(), strict=True):
                m.submodules[source] = table = memory.Memory(shape=_ERROR_BITS, depth=params.warps, init=[])
                write, read = table.write_port(), table.read_port(domain="comb")
                with m.Case(number):
                    m.d.comb += code.eq(read.data)
                m.d.comb += [
                    write.en.eq(event.valid & waits.bit_select(event.warp, 1)), write.addr.eq(event.warp),
                    write.data.eq(event.error.as_value()), read.addr.eq(self.warp)]
        m.d.comb += self.status.error.as_value().eq(Mux(self.status.failed, code, 0))
