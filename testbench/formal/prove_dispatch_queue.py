"""A queue before a unit loses no instruction, adds none, keeps their order, and never overflows.

The sender selects instructions only while the queue reports room, and has at most the agreed number
under way; otherwise instructions arrive, and are accepted, at any time. For any one instruction: it
leaves unchanged, after all instructions that arrived before it. An offered instruction does not
change until it is accepted. Both forms are proved: with and without output in the cycle of arrival.
"""

from amaranth.asserts import AnyConst, AnySeq  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Assume, Elaboratable, Module, Mux, Signal, Value, unsigned

from rtl.dispatch_queue import DispatchQueue
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem

_PLACES, _UNDER_WAY, _DECODING = 4, 2, 1
_BITS = 4


class _Spec(Elaboratable):
    """Two queues, each with a sender that selects instructions, and a receiver."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        for bypass in (False, True):
            name = "with_bypass" if bypass else "without_bypass"
            queue = DispatchQueue(
                unsigned(_BITS),
                places=_PLACES,
                under_way=_UNDER_WAY,
                decoding=_DECODING,
                bypass=bypass,
            )
            m.submodules[name] = part = Module()
            self._prove(part, queue)
        return m

    def _prove(self, m: Module, queue: DispatchQueue) -> None:
        m.submodules.queue = queue
        past, (arrives, head), level = Past(m), (queue.arriving, queue.head), queue.level
        free(m, queue)

        # Each instruction under way may arrive in any cycle.
        selected, under_way = Signal(), Signal(range(_PLACES + 1))
        free(m, selected)
        m.d.comb += [
            Assume(
                ~selected | (queue.room & (under_way < _UNDER_WAY + _DECODING)),
                "selected where there is room",
            ),
            Assume(~arrives.valid | (under_way != 0), "only what was selected comes"),
        ]
        m.d.sync += under_way.eq(under_way + selected - arrives.valid)
        claim(m, level + under_way <= _PLACES, "there is a place for each that is under way")
        claim(
            m,
            queue.next == (queue.oldest + level)[: len(queue.next)],
            "places are taken in rotation",
        )

        # The observed instruction: how many are before it, and its content
        chosen, content, waits, before = Signal(), Signal(_BITS), Signal(), Signal.like(level)
        leaves, first = Signal(), Signal()
        m.d.comb += [
            content.eq(AnyConst(_BITS)),
            chosen.eq(AnySeq(1) & arrives.valid & ~waits),
            Assume(~chosen | (arrives.payload == content), "what it is"),
        ]
        m.d.comb += [
            first.eq(Mux(waits, before == 0, chosen & (level == 0))),
            leaves.eq(first & head.valid & head.ready),
        ]
        with m.If(leaves):
            m.d.sync += waits.eq(0)
        with m.Elif(chosen):
            m.d.sync += [waits.eq(1), before.eq(level - (head.valid & head.ready))]
        with m.Elif(waits & head.valid & head.ready):
            m.d.sync += before.eq(before - 1)
        kept = queue.places.read_port(domain="comb")
        m.d.comb += kept.addr.eq(queue.oldest + before)
        claim(m, (before < level) & (kept.data == content), "it waits in its place", when=waits)
        claim(
            m,
            head.valid & (Value.cast(head.payload) == content),
            "it comes to the head",
            when=waits & first,
        )
        claim(m, Value.cast(head.payload) == content, "it leaves as it came", when=leaves)

        offered = past(head.valid & ~head.ready)
        claim(
            m,
            head.valid & (head.payload == past(head.payload)),
            "what is offered stays",
            when=offered,
        )
        claim(
            m,
            head.valid == ((level != 0) | (arrives.valid if queue.bypass else 0)),
            "nothing is made up",
        )
        can_happen(m, (level == _PLACES) & ~waits, "all places are taken")
        can_happen(m, waits & first & past(~first), "the one has come to the head")


THEOREM = Theorem(
    _Spec,
    depth=2,
    cover_depth=8,
    faults=(
        Fault(
            "rtl.dispatch_queue",
            "self._highest_level_with_room = places - under_way - decoding",
            "self._highest_level_with_room = places - under_way",
        ),
        Fault(
            "rtl.dispatch_queue",
            "content = Mux(is_waiting, content, Value.cast(arriving.payload))",
            "content = Mux(head.ready, Value.cast(arriving.payload), content)",
        ),
        Fault(
            "rtl.dispatch_queue",
            "self.next.eq(self.next + arriving.valid)",
            "self.next.eq(self.next + (arriving.valid & ~is_taken))",
        ),
        Fault(
            "rtl.dispatch_queue",
            "level.eq(level + arriving.valid - is_taken)",
            "level.eq(level + (arriving.valid & ~is_taken) - (is_taken & ~arriving.valid & (level != 1)))",
        ),
    ),
)
