"""Every special register but the clocks, for two warps of different CTAs, against the warp
model.
"""

from rtl.isa.control_code import NO_BARRIER
from rtl.isa.special_registers import SpecialRegister
from rtl.params import SmParams
from sim.checks.testbench import Bench
from testbench.handmade import machine, warp_of
from testbench.pipeline.driver import Pipeline, Script
from testbench.pipeline.reference import Ledger, begin, grid_of, word_at
from testbench.words import encode

CLOCKS = frozenset(
    {
        SpecialRegister.CLOCK,
        SpecialRegister.CLOCKLO,
        SpecialRegister.CLOCKHI,
        SpecialRegister.GLOBALTIMERLO,
        SpecialRegister.GLOBALTIMERHI,
    }
)
"""Registers that count instructions in the model and cycles in hardware."""
_BLOCK, _CTA = (4, 4, 4), (0x1_2345, 0x6789, 0xABCD)
_ROWS = 8
_UNKNOWN = (4, 36, 255)
"""The undefined numbers that a serial machine reads; all would take too long."""


def check_special_registers(bench: Bench, params: SmParams) -> None:
    """Reads every special register, and undefined numbers."""
    numbers = [
        number
        for number in (sorted({*SpecialRegister, *_UNKNOWN}) if params.serial else range(256))
        if number not in CLOCKS
    ]
    words = [
        encode(name, Rd=1, special=number)
        for number in numbers
        for name in (
            ("S2R", "CS2R")
            if number in SpecialRegister.__members__.values() and not params.serial
            else ("S2R",)
        )
    ]
    made = machine(
        words, warps=params.warps, registers=_ROWS, block=_BLOCK, grid=(2, 1, 1), shared=0x1230
    )
    # the second warp of a CTA, the first one of the next
    warps = [warp_of(made, 1), warp_of(made, 2)]
    warps[1].cta.index = _CTA
    pipeline = Pipeline(bench, params, grid=grid_of(made.launch))
    ledger = Ledger(pipeline)

    def script(p: Pipeline) -> Script:
        for warp in warps:
            yield from begin(p, warp, _ROWS * warp.slot)
        for _ in words:
            for warp in warps:
                word = word_at(made, warp)
                record = made.retire(warp.slot)
                sequence = p.issue(word, warp=warp.slot, pc=record.pc)
                ledger.note(
                    sequence,
                    f"special register {word >> 20 & 0xFF}",
                    record,
                    warp,
                    (NO_BARRIER, NO_BARRIER),
                )
                yield from p.wait(p.params.beats)

    pipeline.play(script)
    ledger.check()
    bench.checked("reads of special registers", ledger.compared)
