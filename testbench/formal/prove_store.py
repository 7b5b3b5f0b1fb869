"""The store's data for an instruction are those of its word and its control code, at any time.

Groups arrive for two warps at any time, and the selected warp is read. For any one entry, which is
in one of the two groups of a warp, with any content:

1. The head that is delivered waits for the scoreboards that the control code names, and reports
   whether it waits at all. It is short only if the stall count is at most two, and nothing else has
   to happen after the instruction.
2. The effects on the warp: it may continue after the cycles of the stall count, or more; the
   scoreboards that the control code names are raised, if the instruction is not executed by the
   flow unit; so is the count of incomplete instructions.
3. The next instruction is the next one of the group, and after the last one the first one of the
   other group.
4. Word, kind, error and constant leave unchanged, a cycle after the selection, with the
   instruction's own address.
"""

from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Assume, Cat, Elaboratable, Module, Mux, Signal, Value

from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES, SCOREBOARDS
from rtl.issue.records import BUFFERED_GROUPS, INCOMPLETE, TIME_BITS
from rtl.issue.store import InstructionStore
from rtl.layouts import FetchedInstruction, is_kind
from rtl.params import PRESETS
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_SHORT = 2
_LONG = (1 << TIME_BITS) - 3
_KEPT = ("word", "kind", "quarter", "error", "constant", "constant_missing")
_PC_BITS = 32
_GROUP_AT = GROUP_BYTES.bit_length() - 1


class _Spec(Elaboratable):
    """The store with unconstrained writer and reader."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.store = store = InstructionStore(_PARAMS)
        free(m, store)
        no_reset(m)
        past, group = Past(m), store.group.payload
        warp, entry, number = (
            Signal(_PARAMS.warp_bits),
            Signal(range(BUFFERED_GROUPS)),
            Signal(range(GROUP_INSTRUCTIONS)),
        )
        m.d.comb += [
            *(each.eq(AnyConst(len(each))) for each in (warp, entry, number)),
            Assume(number < GROUP_INSTRUCTIONS, "there is such a place"),
            Assume(group.first < GROUP_INSTRUCTIONS, "where a warp begins"),
            Assume(
                ~(store.sweep.active & store.group.valid),
                "no group comes in the sweep after a reset",
            ),
        ]

        # The last content that arrived for the entry
        came: Any = Signal(FetchedInstruction)
        pc, known = Signal(_PC_BITS), Signal()
        with m.If(
            store.group.valid & (group.warp == warp) & (store.entries.read(m, warp) == entry)
        ):
            m.d.sync += [known.eq(1), came.eq(group.instructions[number]), pc.eq(group.pc)]

        # It is in the store
        def stored(column: Any) -> Any:
            port = column.read_port(domain="comb")
            m.d.comb += port.addr.eq(Cat(entry, warp))
            return port.data

        for which in range(GROUP_INSTRUCTIONS):
            here = known & (number == which)
            head, control = stored(store.requirements[which]), stored(store.effects_of[which])
            self._is_head(m, head, came, here, f"the head is there, {which}")
            self._is_control(m, control, came, here, f"control is there, {which}")
            claim(
                m,
                ~control.blocks.as_value().any(),
                f"nothing is behind it, {which}",
                when=here & head.has_short_stall,
            )
            claim(
                m,
                _same(stored(store.instructions[which]), came),
                f"it is there, {which}",
                when=here,
            )
        claim(m, stored(store.pcs) == pc[_GROUP_AT:], "the address is there", when=known)

        # It is read
        def at(warp_of: Any, place: str) -> Value:
            read = store.places.read(m, warp_of)[place]
            return known & (warp_of == warp) & (read.entry == entry) & (read.number == number)

        brought, selected = (
            at(store.following_warp, "next") & ~store.bus_has_arriving,
            at(store.warp, "here"),
        )
        leaves = past(selected & ~store.is_injected)
        self._is_head(m, store.bus, came, brought, "what is brought")
        self._is_control(m, store.effects, came, selected, "what becomes of the warp")
        claim(m, _same(store.instruction, past(came)), "it leaves as it came", when=leaves)
        claim(
            m,
            store.pc == (past(pc)[_GROUP_AT:] << _GROUP_AT) + INSTRUCTION_BYTES * (number + 1),
            "its address",
            when=leaves,
        )
        first = store.group.valid & store.bus_has_arriving & (group.first == number)
        self._is_head(m, store.bus, group.instructions[number], first, "what begins")

        # It was the last one delivered to its warp; the instruction after it is next.
        begins = first & (group.warp == warp) & (store.entries.read(m, warp) == entry)
        place, last = store.places.read(m, warp), number == GROUP_INSTRUCTIONS - 1
        here, next_ = place.here, place.next
        was = past(store.bus_is_taken & (begins | brought))
        claim(m, store.bus_ends_group == last, "the last of its group", when=begins | brought)
        claim(m, (here.entry == entry) & (here.number == number), "it is here", when=was)
        claim(
            m,
            (next_.entry == entry ^ last) & (next_.number == Mux(last, 0, number + 1)),
            "what is next",
            when=was,
        )
        can_happen(
            m, brought & store.bus.has_short_stall & (came.control.stall == _SHORT), "a short one"
        )
        can_happen(m, leaves & (number == 1), "one leaves")
        return m

    def _is_head(self, m: Module, head: Any, came: Any, when: Any, message: str) -> None:
        """Asserts that the head is that of the data that arrived."""
        code = came.control
        claim(
            m,
            ~(code.wait & ~head.waits_for[:SCOREBOARDS]).any()
            & (head.has_waits == head.waits_for.any()),
            message,
            when=when,
        )
        claim(
            m,
            (code.stall <= _SHORT) & ~came.quarter,
            f"{message}, short",
            when=when & head.has_short_stall,
        )
        claim(m, head.is_quarter == came.quarter, f"{message}, quarter", when=when)

    def _is_control(self, m: Module, control: Any, came: Any, when: Any, message: str) -> None:
        """Asserts that these are the effects of the arrived instruction on a warp that issues it."""
        code, silent = came.control, is_kind(came.kind, lambda rule: rule.silent)
        claim(
            m,
            (control.stall + _SHORT >= code.stall) | (code.stall <= _SHORT),
            f"{message}, stall",
            when=when,
        )
        claim(m, (control.stall != 0) & (control.stall <= _LONG), f"{message}, cycles", when=when)
        claim(
            m, control.raises[INCOMPLETE] == ~silent, f"{message}, whether it is counted", when=when
        )
        for number in range(SCOREBOARDS):
            named = (code.write_barrier == number) | (code.read_barrier == number)
            claim(
                m,
                control.raises[number] == (named & ~silent),
                f"{message}, scoreboard {number}",
                when=when,
            )


def _same(left: Any, came: Any) -> Value:
    """Returns whether the data that leave are those that arrived."""
    return Cat(Value.cast(left[name]) == Value.cast(came[name]) for name in _KEPT).all()


THEOREM = Theorem(
    _Spec,
    depth=2,
    cover_depth=8,
    faults=(
        Fault(
            "rtl.issue.decode",
            "effects.stall.eq(code.stall - _LEAST_STALL)",
            "effects.stall.eq(code.stall - _LEAST_STALL - 1)",
        ),
        Fault(
            "rtl.issue.decode",
            "fetched.control.wait | depbar_set",
            "fetched.control.wait[1:] | depbar_set",
        ),
        Fault("rtl.issue.decode", "(write == number) | (read == number)", "(write == number)"),
        Fault("rtl.issue.store", "self._issued.number + 1", "self._issuing.number + 1"),
        Fault(
            "rtl.issue.store", "next_.number.eq(taken.number + 1)", "next_.number.eq(taken.number)"
        ),
    ),
)
