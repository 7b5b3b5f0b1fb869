"""Requests to memory and its answers reach their receiver unchanged, and offers do not change.

Two clients request lines, and memory answers, at any time; all of them obey the stream contract: an
offered payload does not change until it is accepted. So does the arbiter between them, and for each
client:

1. An accepted request is the next one offered to memory, unchanged, with its client's number before
   the tag.
2. An answer is passed unchanged to the client whose number its tag has, and to no other; it is
   accepted when that client accepts it.
3. While the client has a request, at most one request of the other client is accepted before it.
"""

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal

from rtl.memory_arbiter import MemoryArbiter
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, contracts, free, no_reset
from sim.checks.formal.theorem import Theorem

_TAG_BITS = (1, 2)


class _Spec(Elaboratable):
    """The arbiter of the memory port between unconstrained clients and memory."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        arbiter = MemoryArbiter(_TAG_BITS)
        m.submodules.arbiter = arbiter
        free(m, arbiter)
        contracts(m, Past(m), arbiter)
        for number in range(len(_TAG_BITS)):
            self._serve(m, arbiter, number)
        return m

    def _serve(self, m: Module, arbiter: MemoryArbiter, number: int) -> None:
        past, bits = Past(m), _TAG_BITS[number]
        (own, other), outside = (arbiter.clients[number], arbiter.clients[1 - number]), arbiter.port
        taken, sent, came = own.request.payload, outside.request.payload, outside.response.payload

        takes = own.request.valid & own.request.ready
        fields = ("write", "address", "data", "mask")
        same = Cat(getattr(sent, name) == past(getattr(taken, name)) for name in fields).all()
        claim(
            m,
            outside.request.valid
            & same
            & (sent.tag[:bits] == past(taken.tag))
            & (sent.tag[arbiter.client_tag_bits :] == number),
            f"a request comes through, {number}",
            when=past(takes),
        )

        answer, its = own.response, came.tag[arbiter.client_tag_bits :] == number
        same = Cat(
            getattr(answer.payload, name) == getattr(came, name)
            for name in ("write", "error", "data")
        ).all()
        claim(
            m,
            same
            & (answer.payload.tag == came.tag[:bits])
            & (outside.response.ready == answer.ready),
            f"an answer comes through, {number}",
            when=outside.response.valid & its,
        )
        claim(m, answer.valid == (outside.response.valid & its), f"and no other one, {number}")

        passed, waits = Signal(2), own.request.valid & ~own.request.ready
        goes_by = other.request.valid & other.request.ready
        m.d.sync += passed.eq(Mux(waits, passed + goes_by, 0))
        claim(m, passed + (waits & goes_by) <= 1, f"one goes by, {number}")
        claim(m, arbiter.turn == number, f"it is its turn, {number}", when=waits & (passed != 0))
        can_happen(m, takes & past(waits), f"a client has waited, {number}")


THEOREM = Theorem(
    _Spec,
    depth=1,
    cover_depth=8,
    faults=(
        Fault(
            "rtl.memory_arbiter",
            "m.d.sync += self.turn.eq(lowest(others))",
            "m.d.sync += self.turn.eq(self.turn)",
        ),
        Fault(
            "rtl.memory_arbiter",
            "is_free.eq(~out.valid | out.ready)",
            "is_free.eq(~out.valid | ~out.ready)",
        ),
        Fault(
            "rtl.memory_arbiter",
            "return request.tag | number << self.client_tag_bits",
            "return request.tag | 1 - number << self.client_tag_bits",
        ),
        Fault(
            "rtl.memory_arbiter", "answers.ready.eq(client.response.ready)", "answers.ready.eq(1)"
        ),
        Fault(
            "rtl.memory_arbiter",
            "with m.If(answered_client == number):",
            "with m.If(answered_client <= number):",
        ),
    ),
)
