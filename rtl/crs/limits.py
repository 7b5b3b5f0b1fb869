"""How far each warp's stack may grow."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.tokens import API_CALL_LIMIT, CACHED_TOKENS, CRS_GRANULE, TOKEN_BYTES, TOKENS_PER_LINE, TRAP_RESERVE
from rtl.layouts import DEPTH_BITS, StackConfiguration, StackPointer
from rtl.params import SmParams

__all__ = ["LINES_PER_STEP", "STEPS_BITS", "DepthLimits"]

_STEP_BITS = (TRAP_RESERVE - 1).bit_length()
"""Limits are multiples of the entries reserved for the trap handler."""
STEPS_BITS = DEPTH_BITS - _STEP_BITS
"""Width of a limit."""
LINES_PER_STEP = TRAP_RESERVE // TOKENS_PER_LINE
"""Lines of the stack in one step."""
_STEPS_PER_GRANULE = CRS_GRANULE // TOKEN_BYTES // TRAP_RESERVE


class _Limit(data.Struct):
    steps: unsigned(STEPS_BITS)
    """User mode's limit, in steps."""
    has_memory: unsigned(1)
    check_calls: unsigned(1)


class DepthLimits(wiring.Component):
    """Limits from the launch: user mode may not fill the last entries of the region, the trap handler may.

    Without a region in memory the entries on chip are all there is, in any mode.

    Members
    -------
    warp, trap, pointer : In, In, In(StackPointer)
        Whose stack, in which mode, how full.
    launch, configuration : In(1), In(StackConfiguration)
        The warp's limits from now on.
    has_memory : Out(1)
    full, nearly_full : Out(1)
        There is no room for another token; for two.
    calls_full : Out(1)
        No further call may be counted.
    steps : Out
        The limit, in steps of the reserved entries.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "warp": In(bits), "trap": In(1), "pointer": In(StackPointer),
            "launch": In(1), "configuration": In(StackConfiguration),
            "has_memory": Out(1), "full": Out(1), "nearly_full": Out(1), "calls_full": Out(1),
            "steps": Out(STEPS_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.limits = limits = memory.Memory(shape=_Limit, depth=self._warps, init=[])
        write, limit = limits.write_port(), limits.read_port(domain="comb")
        size = self.configuration.size
        m.d.comb += [
            write.en.eq(self.launch), write.addr.eq(self.warp),
            write.data.has_memory.eq(size != 0), write.data.check_calls.eq(self.configuration.check_calls),
            write.data.steps.eq(Mux(size == 0, CACHED_TOKENS // TRAP_RESERVE, size * _STEPS_PER_GRANULE - 1)),
            limit.addr.eq(self.warp)]

        reserve = self.trap & limit.data.has_memory
        after_next = self.pointer.depth + 1
        m.d.comb += [
            self.has_memory.eq(limit.data.has_memory),
            self.steps.eq(limit.data.steps + reserve),
            self.full.eq(_reaches(self.pointer.depth, limit.data.steps, reserve)),
            self.nearly_full.eq(_reaches(after_next, limit.data.steps, reserve)),
            self.calls_full.eq(limit.data.check_calls & (self.pointer.calls == API_CALL_LIMIT))]
        return m


def _reaches(depth: Signal, steps: Signal, reserve: Signal) -> Signal:
    """Whether the depth is at the limit of ``steps``, plus one if ``reserve``."""
    filled = depth[_STEP_BITS:]
    return Mux(reserve, filled > steps, filled >= steps)
