"""A token on chip is read as last written, by either port and with any other writes.

The pipeline of the call/return stack and the engine that moves lines read and write at any time,
also in the same cycle. For any one token:

1. Its line, read in the cycle after the token was written or later, has it unchanged, until it is
   written again.
2. Writes to other lines, and to other tokens of its line, do not change it.
3. The pipeline is never refused; the engine's refusal is reported in the cycle of its request.

The value of a line that is read in the cycle in which it is written is not used.
"""

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value

from rtl.crs.tokens import BODY_BITS, StoredToken, TokenStore
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.params import PRESETS
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem


class _Spec(Elaboratable):
    """The tokens on chip with two unconstrained users."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.store = store = TokenStore(PRESETS["tiny"])
        past, ports = Past(m), (store.pipeline, store.lines)
        first, other = ports
        free(m, store)
        no_reset(m)
        slot, place = Signal.like(first.read.payload), Signal(range(TOKENS_PER_LINE))
        m.d.comb += [slot.eq(AnyConst(len(slot))), place.eq(AnyConst(len(place)))]

        # The last value written; the writers and readers of its line
        token, known, recent = Signal(StoredToken.as_shape().size), Signal(), Signal()
        writes = [
            port.write.valid
            & is_free
            & (port.write.payload.slot == slot)
            & port.write.payload.places.bit_select(place, 1)
            for port, is_free in ((first, 1), (other, other.write_free))
        ]
        reads = [
            port.read.valid & is_free & (port.read.payload == slot)
            for port, is_free in ((first, 1), (other, other.read_free))
        ]
        written, line = writes[0] | writes[1], Signal(len(token))
        m.d.sync += recent.eq(written)
        with m.If(written):
            m.d.sync += [
                known.eq(1),
                token.eq(
                    Mux(
                        writes[0],
                        *(
                            Value.cast(port.write.payload.tokens).word_select(place, len(token))
                            for port in ports
                        ),
                    )
                ),
            ]
        shown = past((reads[0] | reads[1]) & known & ~written)
        m.d.comb += line.eq(Value.cast(first.line).word_select(place, len(token)))
        claim(m, line == past(token), "it is read unchanged", when=shown)
        claim(m, Value.cast(first.line) == Value.cast(other.line), "both see the same line")
        claim(m, other.read_free == ~first.read.valid, "the refusal of a read")
        claim(m, other.write_free == ~first.write.valid, "the refusal of a write")

        # Its stored value, of which some parts arrive a cycle later
        for number, (body, kind) in enumerate(zip(store.bodies, store.kinds, strict=True)):
            kept = [part.read_port(domain="comb") for part in (body, kind)]
            m.d.comb += [part.addr.eq(slot) for part in kept]
            here = known & (place == number)
            claim(m, kept[0].data == token[:BODY_BITS], f"the body is there, {number}", when=here)
            claim(
                m,
                kept[1].data == token[BODY_BITS:],
                f"the kind is there, {number}",
                when=here & ~recent,
            )
        can_happen(
            m, shown & past(reads[1] & ~writes[0]) & (line == 0x55), "a line is read by the engine"
        )
        can_happen(
            m, shown & past(past(written)) & (line[BODY_BITS:] == 3), "a line is read at once"
        )
        return m


THEOREM = Theorem(
    _Spec,
    depth=2,
    cover_depth=8,
    faults=(
        Fault(
            "rtl.crs.tokens",
            "late_write_slot.eq(self._write.slot)",
            "late_write_slot.eq(self.lines.write.payload.slot)",
        ),
        Fault("rtl.crs.tokens", "with m.If(pipeline.read.valid):", "with m.If(~lines.read.valid):"),
        Fault(
            "rtl.crs.tokens",
            "kinds.read(m, self._late_read_slot)",
            "kinds.read(m, self._read_slot)",
        ),
        Fault(
            "rtl.crs.tokens",
            "writes.eq(self._writes & self._write.places[place])",
            "writes.eq(self._writes & self._write.places.any())",
        ),
    ),
)
