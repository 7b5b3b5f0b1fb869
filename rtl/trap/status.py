"""What S2R reads of traps, and whose arrival at a barrier is withdrawn."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus
from rtl.layouts import Event
from rtl.params import SmParams

from .flags import words_in_luts
from .states import WarpTrapView, trap_reason

__all__ = ["StatusScan"]

_REASONS = len(TRAP_REASONS)


class StatusScan(Component):
    """Answers S2R, and withdraws from their barriers the warps that are to enter the trap.

    For both it scans the warps, one a cycle. Of the scanned warp it collects the reasons of
    BPT.TRAP; after a round these are the reasons of all warps. And if the warp is to enter the trap
    and waits at a barrier, it requests that the warp's arrival is withdrawn (``withdraw``): the
    scan stays at the warp until it no longer waits.

    Members
    -------
    trapped_now : In(Event of trap_reason)
    warps : In(WarpTrapView)
        Of the warps: why they trap, and which of them have to enter.
    waiting, withdraw : In(warps), Out(Event of a warp)
        See TrapUnit.
    stop : In(1)
        The host's stop trigger.
    status_warp, status : In, Out(WarpStatus)
    error : In(WarpError)
        Of ``status_warp``, if it has failed.
    all_status : Out(32)
        SR_GLOBALERRORSTATUS. While some warp is ``trapped`` it may still have the reasons of warps
        that are no longer trapped, for up to two rounds.
    """

    def __init__(self, params: SmParams) -> None:
        self._count = params.warps
        super().__init__({
            "trapped_now": In(Event(trap_reason(params))),
            "warps": In(WarpTrapView(params)),
            "waiting": In(params.warps),
            "withdraw": Out(Event(params.warp_bits)),
            "stop": In(1),
            "status_warp": In(params.warp_bits),
            "status": Out(WarpStatus),
            "error": In(WarpError),
            "all_status": Out(32),
        })
        self.reasons = words_in_luts(_REASONS, params)
        """Of each warp; they count only while it is ``trapped``."""
        self._scanned_warp = Signal(params.warp_bits, name="scanned_warp")
        self._all_reasons = Signal(_REASONS, name="all_reasons")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        trapped = self.trapped_now
        m.submodules.reasons = self.reasons
        self.reasons.write(
            m, trapped.valid, trapped.payload.warp,
            trapped.payload.reason | self._reasons_of(m, trapped.payload.warp))
        self._scan(m)
        self._answer(m)
        return m

    def _reasons_of(self, m: Module, warp: Value) -> Value:
        """The warp's reasons."""
        return Mux(self.warps.state.trapped.bit_select(warp, 1), self.reasons.read(m, warp), 0)

    def _scan(self, m: Module) -> None:
        """One warp after the other."""
        scanned = self._scanned_warp
        trapped = self.trapped_now
        collected = Signal(_REASONS)
        new_reason = Signal(_REASONS)
        found = Signal(_REASONS)
        waits = self.waiting.bit_select(scanned, 1)
        m.d.comb += self.withdraw.valid.eq(self.warps.changes.enters.bit_select(scanned, 1) & waits)
        m.d.comb += self.withdraw.payload.eq(scanned)
        with m.If(trapped.valid):
            m.d.comb += new_reason.eq(trapped.payload.reason)
        m.d.comb += found.eq(collected | self._reasons_of(m, scanned) | new_reason)

        moves = ~self.withdraw.valid
        is_end_of_round = (scanned == self._count - 1) & moves
        m.d.sync += scanned.eq(scanned + moves)
        with m.If(~self.warps.state.trapped.any() & ~trapped.valid):
            m.d.sync += collected.eq(0)
            m.d.sync += self._all_reasons.eq(0)
        with m.Elif(is_end_of_round):
            m.d.sync += collected.eq(0)
            m.d.sync += self._all_reasons.eq(found)
        with m.Else():
            m.d.sync += collected.eq(found)
            m.d.sync += self._all_reasons.eq(self._all_reasons | new_reason)

    def _answer(self, m: Module) -> None:
        """What S2R reads."""
        warp = self.status_warp
        status = self.status
        state = self.warps.state
        m.d.comb += status.failed.eq(state.failed.bit_select(warp, 1))
        m.d.comb += status.stepped.eq(state.stepped.bit_select(warp, 1))
        m.d.comb += status.reasons.eq(self._reasons_of(m, warp))
        with m.If(status.failed):
            m.d.comb += status.error.eq(self.error)
        m.d.comb += self.all_status.eq(
            Cat(state.failed.any(), self._all_reasons, state.stepped.any(), self.stop))
