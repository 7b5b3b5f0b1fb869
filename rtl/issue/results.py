"""Flow results: which one releases a warp, and its pc."""

from typing import Any

from amaranth.hdl import Assert, Module, Signal, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event, flow_result, redirect
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.sweep import Sweep
from rtl.words import Words

from .records import COUNTER_BITS

__all__ = ["FlowResults"]


class _PastResult(data.Struct):
    """R0 to R1: what was known of the flow result of the cycle before."""

    is_valid: unsigned(1)
    """There was one."""
    starts: unsigned(1)
    """It was the result of a flow_launch."""
    was_last: unsigned(1)
    """Its warp waited for it, and for no other one."""
    is_elsewhere: unsigned(1)
    """The warp does not continue where fetch has continued."""
    terminates: unsigned(1)
    """The warp has ended."""


class FlowResults(Component):
    """Counts, for each warp, flow instructions that have issued and flow results that have arrived.

    =====  =========================================================================
    cycle  what is known
    =====  =========================================================================
    R0     the result; whether it is the last one (``is_last``)
    R1     whether all results have come (``settled``), unless more has been issued;
           the pc of the warp (``redirect``); whether that is elsewhere than where fetch has
           continued (``revoked``)
    =====  =========================================================================

    Members
    -------
    issued, blocks : In(Event of a warp), In(1)
        A flow instruction of it has issued, two cycles ago; it blocks its warp until the result.
    result : In(Event of flow_result)
    is_starting : In(warps)
        The warp's next result is that of its flow_launch, which is not counted.
    is_last : Out(1)
        The result, if it is not that of a flow_launch, is the last outstanding one, and the warp's
        last flow instruction blocks it.
    redirect : Out(Event of redirect)
        A cycle after the result.
    settled : Out(warps)
        No result is outstanding; a cycle after the last one.
    revoked : Out(warps)
        The result in the cycle before was the last one that the warp waited for, and the warp has
        ended, or does not continue where fetch has (``flow_result.as_predicted`` is 0).
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "issued": In(Event(params.warp_bits)),
            "blocks": In(1),
            "result": In(Event(flow_result(params))),
            "is_starting": In(params.warps),
            "is_last": Out(1),
            "redirect": Out(Event(redirect(params))),
            "settled": Out(params.warps),
            "revoked": Out(params.warps),
        })
        self._sweep = Sweep(params.warps)
        issued = data.StructLayout({"blocks": 1, "count": COUNTER_BITS})
        self._issues = Words(issued, params.warps, self._sweep)
        """Flow instructions of each warp, and whether the last one blocks it."""
        self._answers = Words(COUNTER_BITS, params.warps, self._sweep, initial=1)
        """Results of each warp, and one more: the next one is the last if that is how many
        instructions have issued."""
        self._starts = Signal()
        """The result belongs to a flow_launch."""
        self._is_counted = Signal()
        self._balances = Signal()
        """With this result there are as many results as instructions have issued."""
        self._late_warps = Signal(params.warps)
        """R1: the warp of the result, one-hot."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = self._sweep
        m.submodules.issues = self._issues
        m.submodules.answers = self._answers
        m.d.sync += self._late_warps.eq(one_hot(self.result.payload.warp, self._params.warps))
        self._count(m)
        self._settle(m)
        self._redirect(m)
        return m

    def _count(self, m: Module) -> None:
        """R0: counts. A warp that waits for its last result has no flow instruction that has issued
        and is not counted yet."""
        issued = self.issued
        warp = self.result.payload.warp
        awaited = self._issues.read(m, warp)
        answered = self._answers.read(m, warp)
        before = self._issues.read(m, issued.payload).count
        self._issues.write(m, issued.valid, issued.payload, {
            "blocks": self.blocks, "count": before + 1})
        self._answers.write(m, self._is_counted, warp, answered + 1)
        m.d.comb += self._starts.eq(self.is_starting.bit_select(warp, 1))
        m.d.comb += self._is_counted.eq(self.result.valid & ~self._starts)
        m.d.comb += self._balances.eq(awaited.count == answered)
        m.d.comb += self.is_last.eq(awaited.blocks & self._balances)
        exceeds = (awaited.count + 1)[:COUNTER_BITS] == answered
        m.d.sync += Assert(~(self._is_counted & exceeds), "a flow result without an instruction")

    def _settle(self, m: Module) -> None:
        """R1: all results have come, unless more has been issued in R0 or R1."""
        issued = self.issued
        may_be_settled = Signal()
        issues_now = issued.valid & (issued.payload == self.result.payload.warp)
        issues_late = issued.valid & (issued.payload == self.redirect.payload.warp)
        m.d.sync += may_be_settled.eq(self._is_counted & self._balances & ~issues_now)
        with m.If(may_be_settled & ~issues_late):
            m.d.comb += self.settled.eq(self._late_warps)

    def _redirect(self, m: Module) -> None:
        """R1: the pc of the warp. Whether fetch has continued there is known late in the result's
        cycle, so the redirect is made from registers."""
        result = self.result.payload
        redirect = self.redirect
        past: Any = Signal(_PastResult)
        m.d.sync += past.eq(struct_value(
            _PastResult,
            is_valid=self.result.valid,
            starts=self._starts,
            was_last=self.is_last,
            is_elsewhere=~result.as_predicted,
            terminates=result.terminated))
        goes_elsewhere = past.was_last & past.is_elsewhere
        m.d.sync += redirect.payload.eq(struct_value(
            redirect.payload.shape(), warp=result.warp, pc=result.pc))
        m.d.comb += redirect.valid.eq(
            past.is_valid & ~past.terminates & (past.starts | goes_elsewhere))
        is_revoked = past.was_last & (past.is_elsewhere | past.terminates)
        with m.If(past.is_valid & is_revoked):
            m.d.comb += self.revoked.eq(self._late_warps)
