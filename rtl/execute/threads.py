"""Which threads execute an instruction, and what its predicate operands are."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import ConditionCode, Flags
from rtl.isa.fields import FIELDS
from rtl.isa.syntax import PT, WORD_BITS
from rtl.params import WARP_THREADS
from rtl.pick import pick
from rtl.word import field_of

from .common import CommonDecoder
from .condition import ConditionTest
from .instruction import LaneInstruction

__all__ = ["ThreadSelection"]

_EVERYBODY = Const(~0, WARP_THREADS)
_QUAD = 4


class ThreadSelection(wiring.Component):
    """For a warp at once; combinational.

    Members
    -------
    word : In(64)
    decoded : In(LaneInstruction)
        Its quad mask and predicate operand x, for an instruction of the lanes; elsewhere PT is its x.
    active, predicates, conditions, live : In
        Of the warp; see PredicateFile.
    guard : Out(32)
        The threads whose guard holds, and of a flow instruction the test of CC; all where there is neither.
    computing : Out(32)
        Those that execute it if it is one of the lanes.
    collecting : Out(32)
        Those that execute it if it is one whose registers are collected.
    predicate : Out(32)
        Predicate operand x of an instruction of the lanes, or the one of BAR, after negation; all ones elsewhere.
    misaligned : Out(1)
        The constant operand is not a word of its bank.
    """

    word: In(WORD_BITS)
    decoded: In(LaneInstruction)
    active: In(WARP_THREADS)
    predicates: In(data.ArrayLayout(WARP_THREADS, PT))
    conditions: In(data.ArrayLayout(Flags, WARP_THREADS))
    live: In(WARP_THREADS)
    guard: Out(WARP_THREADS)
    computing: Out(WARP_THREADS)
    collecting: Out(WARP_THREADS)
    predicate: Out(WARP_THREADS)
    misaligned: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.common = common = CommonDecoder()
        m.submodules.test = test = ConditionTest()
        masks = [*self.predicates, _EVERYBODY]
        fields = {name: field_of(self.word, field) for name, field in FIELDS.items()}

        guard, x = Signal(WARP_THREADS), self.decoded.predicates[0]

        def operand(number: Any, negated: Any) -> Any:
            there = self.live | (number == PT).replicate(WARP_THREADS)
            return (pick(masks, number) & there) ^ negated.replicate(WARP_THREADS)

        m.d.comb += [
            common.word.eq(self.word), test.flags.eq(self.conditions),
            test.test.eq(Mux(common.tested, fields["test"], ConditionCode.T.value)),
            guard.eq(Mux(common.guarded, operand(fields["guard"], fields["guard_not"]), _EVERYBODY)),
            self.guard.eq(guard & ((test.passed & self.live) | (test.of_none.replicate(WARP_THREADS) & ~self.live))),
            self.collecting.eq(self.active & self.guard),
            self.computing.eq(self.active & guard & self.decoded.quad.replicate(WARP_THREADS // _QUAD)),
            self.predicate.eq(operand(Mux(common.votes, fields["Pc"], x.number),
                                      Mux(common.votes, fields["Pc_not"], x.negated))),
            self.misaligned.eq(common.misaligned)]
        return m
