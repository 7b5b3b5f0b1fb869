"""How far each warp's stack may grow."""

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.tokens import CACHED_TOKENS, CRS_GRANULE, TOKEN_BYTES, TRAP_RESERVE
from rtl.layouts import CRS_GRANULE_BITS
from rtl.params import SmParams

from .pointers import HIGH_BITS, LOW_BITS
from .window import LimitFlags

__all__ = ["DepthLimits"]

assert TRAP_RESERVE == 1 << LOW_BITS, "limits are in steps of the entries reserved for the trap handler"
_STEPS_PER_GRANULE = CRS_GRANULE // TOKEN_BYTES // TRAP_RESERVE


class _Limit(data.Struct):
    user: unsigned(HIGH_BITS)
    """User mode's limit, in steps of 16 tokens."""
    has_memory: unsigned(1)
    check_calls: unsigned(1)
    trap: unsigned(1)
    """In the trap handler."""


class DepthLimits(wiring.Component):
    """User mode may not fill the last 16 entries of the region, the trap handler may. Without a region in
    memory the entries on chip are all there is, in any mode.

    Members
    -------
    launch, size, check_calls : In
        The limits of ``warp`` from now on, in user mode.
    set_mode, trap : In(1), In(1)
        The mode of ``warp`` from now on.
    warp, has_memory, checks_calls : In, Out(1), Out(1)
    push_warp, push_high, push_flags : In, In, Out(LimitFlags)
    commit_warp, commit_high, commit_flags : In, In, Out(LimitFlags)
        How near the limit the topmost token is, of which ``high`` is the upper part of the number.
    commit_steps, commit_has_memory, commit_checks_calls : Out
        Of ``commit_warp``.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "launch": In(1), "size": In(CRS_GRANULE_BITS), "check_calls": In(1), "set_mode": In(1), "trap": In(1),
            "warp": In(bits), "has_memory": Out(1), "checks_calls": Out(1),
            "push_warp": In(bits), "push_high": In(HIGH_BITS), "push_flags": Out(LimitFlags),
            "commit_warp": In(bits), "commit_high": In(HIGH_BITS), "commit_flags": Out(LimitFlags),
            "commit_steps": Out(HIGH_BITS), "commit_has_memory": Out(1), "commit_checks_calls": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.limits = limits = memory.Memory(shape=_Limit, depth=self._warps, init=[])
        write, known = limits.write_port(), limits.read_port(domain="comb")
        m.d.comb += [
            known.addr.eq(self.warp), write.addr.eq(self.warp), write.en.eq(self.launch | self.set_mode),
            write.data.eq(known.data), write.data.trap.eq(self.set_mode & self.trap),
            self.has_memory.eq(known.data.has_memory), self.checks_calls.eq(known.data.check_calls)]
        with m.If(self.launch):
            m.d.comb += [
                write.data.has_memory.eq(self.size != 0), write.data.check_calls.eq(self.check_calls),
                write.data.user.eq(Mux(self.size == 0, CACHED_TOKENS // TRAP_RESERVE,
                                       self.size * _STEPS_PER_GRANULE - 1))]
        for warp, high, flags in ((self.push_warp, self.push_high, self.push_flags),
                                  (self.commit_warp, self.commit_high, self.commit_flags)):
            limit = limits.read_port(domain="comb")
            steps = Signal(HIGH_BITS, name=f"{flags.as_value().name}_steps")
            m.d.comb += [limit.addr.eq(warp), steps.eq(limit.data.user + (limit.data.trap & limit.data.has_memory)),
                         flags.reached.eq(_at_least(high, steps)), flags.near.eq(_at_least(high + 1, steps))]
        m.d.comb += [self.commit_steps.eq(steps), self.commit_has_memory.eq(limit.data.has_memory),
                     self.commit_checks_calls.eq(limit.data.check_calls)]
        return m


def _at_least(high: Value, steps: Signal) -> Value:
    """Whether a step's number, all ones when the stack is empty, is at least the limit."""
    return (high[:HIGH_BITS] >= steps) & ~high[:HIGH_BITS].all()
