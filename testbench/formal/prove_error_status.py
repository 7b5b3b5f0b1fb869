"""The first error is kept, no event is lost in the cycle of a clearing write, and every register
reads its current value.

For any errors, traps and events in one cycle, and any write of the host in it:

1. While HWW_WARP_ESR has an error and is not written, it and HWW_WARP_ESR_PC do not change.
2. If it has none, or is cleared in this cycle, both have the first error of this cycle in the next
   cycle.
3. A bit of HWW_GLOBAL_ESR is 1 in the next cycle if and only if its event happens in this cycle, or
   it is 1 and no 1 is written to it.
4. Errors in the same cycle as or after the one that is kept set MULTIPLE_WARP_ERRORS.
5. The machine interrupts if and only if an error is kept, or HWW_GLOBAL_ESR has a bit that is not
   masked or cannot be masked.

Errors have a code other than NONE; several of them may happen in one cycle.
"""

from amaranth.hdl import Assume, Cat, Elaboratable, Module, Mux, Value

from rtl.error_status import ErrorStatus
from rtl.isa.errors import WarpError
from rtl.isa.registers import ALWAYS_INTERRUPT, SM_REGISTERS, GlobalError
from rtl.layouts import errors_by_source, place_of
from rtl.params import PRESETS
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem

"""Number of units that may have an error in one cycle: a fourth one would not differ from a third."""
_EVENTS = {
    GlobalError.BPT_INT: "interrupt",
    GlobalError.BPT_PAUSE: "pause",
    GlobalError.SINGLE_STEP_COMPLETE: "step",
    GlobalError.ERROR_IN_TRAP: "error_in_trap",
    GlobalError.TIMEOUT: "timeout",
}


class _Spec(Elaboratable):
    """The error status with an unconstrained host and units."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.status = dut = ErrorStatus(PRESETS["tiny"])
        free(m, dut)
        no_reset(m)
        error, pc, status, mask = (
            dut.contents[name]
            for name in (
                "HWW_WARP_ESR",
                "HWW_WARP_ESR_PC",
                "HWW_GLOBAL_ESR",
                "HWW_GLOBAL_ESR_REPORT_MASK",
            )
        )
        past = Past(m)

        def writes(name: str) -> Value:
            return dut.access.write & (dut.access.place == place_of(SM_REGISTERS[name]))

        errors = list(errors_by_source(dut.errors).values())
        valid = Cat(event.valid for event in errors)
        m.d.comb += [
            Assume(~event.valid | (event.payload.error != WarpError.NONE), "errors have a code")
            for event in errors
        ]
        kept = error[:16].any()
        stays = kept & ~writes("HWW_WARP_ESR")

        # 1, 2: of the errors of a cycle the first one in the order of priority
        claim(
            m,
            (error == past(error)) & (pc == past(pc)),
            "the first error is kept",
            when=past(stays),
        )
        for number, event in enumerate(errors):
            first = event.valid & ~valid[:number].any() & ~stays
            reported = event.payload
            claim(
                m,
                (error[:16] == past(reported.error.as_value()))
                & (error[16:] == past(reported.warp))
                & (pc == past(reported.pc)),
                f"error {number} is reported if it is the first",
                when=past(first),
            )

        # 3, 4: events by their bits; those of traps by their reason
        several = (valid & (valid - 1)[: len(errors)]).any() | (valid.any() & stays)
        happens = {bit.value: getattr(dut.events, name) for bit, name in _EVENTS.items()}
        happens[GlobalError.MULTIPLE_WARP_ERRORS.value] = several
        cleared = Mux(writes("HWW_GLOBAL_ESR"), dut.access.data, 0)
        for bit, event in happens.items():
            claim(
                m,
                status[bit] == past(event | (status[bit] & ~cleared[bit])),
                f"event {bit} is neither lost nor made up",
                when=past.valid,
            )

        # 5
        claim(
            m,
            dut.interrupt == (kept | (status & (mask | ALWAYS_INTERRUPT)).any()),
            "who interrupts",
        )
        for name, content in dut.contents.items():
            claim(
                m,
                dut.access.value == content,
                f"{name} is read",
                when=dut.access.place == place_of(SM_REGISTERS[name]),
            )

        can_happen(
            m, kept & writes("HWW_WARP_ESR") & valid.all(), "errors in the cycle that clears one"
        )
        can_happen(
            m,
            writes("HWW_GLOBAL_ESR")
            & dut.access.data.all()
            & dut.events.pause
            & status[GlobalError.BPT_PAUSE.value],
            "an event in the cycle that clears it",
        )
        can_happen(m, ~kept & status.any() & ~dut.interrupt, "an event that is masked")
        return m


THEOREM = Theorem(
    _Spec,
    depth=2,
    cover_depth=5,
    faults=(
        Fault(
            "rtl.error_status", "with m.If(valid.any() & ~has_pending):", "with m.If(valid.any()):"
        ),
        Fault(
            "rtl.error_status",
            'has_pending.eq(self._first.code.any() & ~self._writes("HWW_WARP_ESR"))',
            "has_pending.eq(self._first.code.any())",
        ),
        Fault(
            "rtl.error_status",
            "(self._status & ~cleared) | raised)",
            "(self._status & ~cleared & ~raised) | (raised & self._status))",
        ),
        Fault("rtl.error_status", "for event in reversed(errors):", "for event in errors:"),
        Fault("rtl.error_status", "(population(valid) > 1)", "(population(valid) > 2)"),
    ),
)
