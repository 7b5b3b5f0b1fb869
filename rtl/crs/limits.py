"""How far each warp's stack may grow."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import API_CALL_LIMIT, CACHED_TOKENS, CRS_GRANULE, TOKEN_BYTES, TRAP_RESERVE
from rtl.layouts import CRS_GRANULE_BITS
from rtl.params import SmParams

from .pointers import HIGH_BITS, LOW_BITS
from .window import LimitFlags

__all__ = ["DepthLimits"]

assert TRAP_RESERVE == 1 << LOW_BITS, "limits are in steps of the entries reserved for the trap handler"
_STEPS_PER_GRANULE = CRS_GRANULE // TOKEN_BYTES // TRAP_RESERVE


class _Limit(data.Struct):
    steps: unsigned(HIGH_BITS)
    """The limit, in steps of 16 tokens."""
    has_memory: unsigned(1)
    check_calls: unsigned(1)
    trap: unsigned(1)
    """In the trap handler: the limit includes the reserved step."""


class DepthLimits(Component):
    """User mode may not fill the last 16 entries of the region, the trap handler may. Without a region in
    memory the entries on chip are all there is, in any mode.

    Members
    -------
    launch, size, check_calls : In
        The limits of ``warp`` from now on, in user mode.
    set_mode, trap : In(1), In(1)
        The mode of ``warp`` from now on.
    warp, has_memory, checks_calls : In, Out(1), Out(1)
    clamp_warp, steps : In, Out(HIGH_BITS)
        The limit of ``clamp_warp``.
    check_warp, high, calls, flags, calls_full : In, In(HIGH_BITS), In(8), Out(LimitFlags), Out(1)
        How near the limit of the ``check_warp`` of the cycle before a token is, of whose number ``high`` is the
        upper part; whether the limit of calls is reached.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "launch": In(1), "size": In(CRS_GRANULE_BITS), "check_calls": In(1), "set_mode": In(1), "trap": In(1),
            "warp": In(bits), "has_memory": Out(1), "checks_calls": Out(1),
            "clamp_warp": In(bits), "steps": Out(HIGH_BITS),
            "check_warp": In(bits), "high": In(HIGH_BITS), "calls": In(8), "flags": Out(LimitFlags),
            "calls_full": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.limits = limits = memory.Memory(shape=_Limit, depth=self._warps, init=[])
        write, known = limits.write_port(), limits.read_port(domain="comb")
        clamp, check = limits.read_port(domain="comb"), limits.read_port(domain="comb")
        new, old = write.data, known.data
        m.d.comb += [
            known.addr.eq(self.warp), clamp.addr.eq(self.clamp_warp), check.addr.eq(self.check_warp),
            self.has_memory.eq(old.has_memory), self.checks_calls.eq(old.check_calls), self.steps.eq(clamp.data.steps)]

        # Written a cycle later, which is long before the warp's next request.
        launches, changes, trap, checks = Signal(), Signal(), Signal(), Signal()
        before: Any = Signal(_Limit)
        warp, size = Signal.like(self.warp), Signal(CRS_GRANULE_BITS)
        m.d.sync += [
            warp.eq(self.warp), launches.eq(self.launch), changes.eq(self.launch | self.set_mode), before.eq(old),
            size.eq(self.size), trap.eq(self.trap), checks.eq(self.check_calls)]
        m.d.comb += [write.addr.eq(warp), write.en.eq(changes)]
        with m.If(launches):
            m.d.comb += [
                new.has_memory.eq(size != 0), new.check_calls.eq(checks),
                new.steps.eq(Mux(size == 0, CACHED_TOKENS // TRAP_RESERVE, size * _STEPS_PER_GRANULE - 1))]
        with m.Else():
            m.d.comb += [new.eq(before), new.trap.eq(trap)]
            with m.If(before.has_memory):
                m.d.comb += new.steps.eq(before.steps + trap - before.trap)

        number, limit, checked = Signal(HIGH_BITS), Signal(HIGH_BITS), Signal()
        m.d.sync += [limit.eq(check.data.steps), checked.eq(check.data.check_calls)]
        empty = self.high.all()
        m.d.comb += [number.eq(self.high + 1), self.flags.near.eq(number >= limit),
                     self.flags.reached.eq((self.high >= limit) & ~empty),
                     self.calls_full.eq(checked & (self.calls >= API_CALL_LIMIT))]
        return m
