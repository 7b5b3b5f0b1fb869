"""Halves of beats pass the crossbar once, in the order of their arrival, and each thread's word is
that of its bank.

Beats arrive at any time, for any threads, with any addresses and values; no atomic operation is
under way.

1. A beat is accepted with its last half, after its lower half, when there is room; it passes after
   the beats that were accepted before it, and at most one half waits.
2. A half passes when each of its threads was served, once, and some thread is served in every
   cycle. The owner of a beat is notified once, when its last half passes, or earlier that it is
   about to.
3. For any one port: when it is served its bank reads the row of its address, and the word goes to
   the lanes of the half that have this port, and to no others; or the bank writes its bytes there,
   except those that a higher port with the same word writes.

So the crossbar satisfies the assumptions of the theorem `miss_queue`. The extension of a word is
not covered.
"""

from typing import Any

from amaranth.asserts import AnyConst  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Array, Assume, Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.utils import ceil_log2

from rtl.memory.crossbar import Crossbar, repeated
from rtl.memory.instruction import BeatKind, BeatOwner, memory_tag_bits, port_count, slot_bits
from rtl.params import PRESETS
from sim.checks.formal.fault import Fault
from sim.checks.formal.surroundings import Past, can_happen, claim, free, no_reset
from sim.checks.formal.theorem import Theorem

_PARAMS = PRESETS["tiny"]
_PORTS = port_count(_PARAMS)
_LANES = _PARAMS.lanes
_HALF = data.StructLayout(
    {
        "valid": 1,
        "owner": BeatOwner,
        "tag": memory_tag_bits(_PARAMS),
        "last": 1,
        "final": 1,
        "slot": slot_bits(_PARAMS),
        "write": 1,
        "kind": BeatKind,
        "size": 3,
        "lanes": _LANES,
        "ports": _PORTS,
    }
)
"""Half of a beat: its ports, and the lanes that are served with each."""


class _Spec(Elaboratable):
    """The crossbar, without atomic operations, and its assertions."""

    def __init__(self) -> None:
        self.dut: Any = Crossbar(_PARAMS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        no_reset(m)
        dut, past = self.dut, Past(m)
        m.submodules.dut = dut
        free(m, dut)
        job, jobs = dut.job.payload, dut.job
        lower, upper = job.lanes[:_PORTS], job.lanes[_PORTS:]
        m.d.comb += [
            Assume(~dut.atomic.change.busy, "no atomic operations"),
            Assume(
                ~dut.continues | jobs.valid & (job.as_value() == past(job.as_value())),
                "halves of a beat",
            ),
            Assume(
                ~jobs.valid
                | job.lanes.any()
                & (job.skips == ~lower.any())
                & (job.single | (lower.any() & upper.any())),
                "what is said of a beat",
            ),
            Assume(
                ~(jobs.valid & job.single & lower.any()) | ~(upper & ~lower).any(),
                "who is served with another",
            ),
        ]

        # A half enters when there is room, after the previous one.
        wait, pend, here = (Signal(_HALF, name=name) for name in ("wait", "pend", "reads"))
        offered: Any = Signal(_HALF)
        whole = dut.continues | job.single
        m.d.comb += [
            offered.valid.eq(jobs.valid & dut.free),
            offered.last.eq(job.last & whole),
            offered.ports.eq(Mux(dut.continues | job.skips, upper, lower)),
        ]
        upper_half = dut.continues | job.skips
        m.d.comb += [
            offered[name].eq(job[name])
            for name in ("owner", "tag", "final", "slot", "write", "kind", "size")
        ]
        m.d.comb += offered.lanes.eq(Cat(Mux(upper_half, 0, lower), Mux(whole, upper, 0)))
        clashes, blocked = dut.has_conflict, dut.blocked
        given = Mux(wait.valid, wait.as_value(), offered.as_value())
        takes = (wait.valid | offered.valid) & ~(pend.valid & blocked)
        left: Any = Signal(_PORTS)
        passes = pend.valid & ~clashes
        m.d.sync += [wait.as_value().eq(Mux(takes, 0, given)), here.as_value().eq(pend)]
        with m.If(takes):
            m.d.sync += [pend.as_value().eq(given), left.eq(Value.cast(given)[-_PORTS:])]
        with m.Else():
            m.d.sync += left.eq(left & ~dut.served)
            with m.If(passes):
                m.d.sync += pend.valid.eq(0)
        taken = Signal()
        with m.If(jobs.valid & dut.free):
            m.d.sync += taken.eq(~whole)
        claim(m, dut.continues == taken, "the lower half of a beat was taken")
        claim(m, lower.any() & upper.any() & ~job.single, "it has two halves", when=dut.continues)
        claim(m, ~wait.valid | ~offered.valid, "there is room")
        claim(
            m, jobs.ready == (jobs.valid & dut.free & whole), "a beat is taken with its last half"
        )
        claim(m, dut.is_waiting == wait.valid, "one waits at most")
        claim(m, ~(takes & pend.valid & ~passes), "it waits until the one before has passed")
        claim(m, dut.pending == left, "its threads wait until they are served")
        claim(m, pend.valid == left.any(), "it passes when all are")
        claim(m, (dut.served & ~left) == 0, "a thread is served once")
        fields = ("owner", "tag", "final", "slot", "write", "kind", "size")
        claim(
            m,
            Cat(dut.located.job[name] == pend[name] for name in (*fields, "last")).all(),
            "what passes is it",
            when=pend.valid,
        )
        waiting = dut.waiting.job
        claim(
            m,
            Cat(waiting[name] == wait[name] for name in fields).all()
            & (wait.last == (waiting.last & dut.waiting.whole))
            & (wait.ports == Mux(dut.waiting.upper, waiting.lanes[_PORTS:], waiting.lanes[:_PORTS]))
            & wait.ports.any(),
            "what waits is it",
            when=wait.valid,
        )
        lanes = Cat(
            Mux(dut.waiting.upper, 0, waiting.lanes[:_PORTS]),
            Mux(dut.waiting.whole, waiting.lanes[_PORTS:], 0),
        )
        claim(m, wait.lanes == lanes, "so are its lanes", when=wait.valid)
        here_lanes = dut.located.job.lanes
        claim(
            m,
            pend.lanes
            == Cat(
                here_lanes[:_PORTS] & dut.located.lower.replicate(_PORTS),
                here_lanes[_PORTS:] & dut.located.upper.replicate(_PORTS),
            ),
            "and when it passes",
            when=pend.valid,
        )
        passed = dut.passed
        claim(m, passed.valid == (passes & pend.last), "its owner is informed once")
        claim(
            m,
            Cat(
                passed.payload[name] == pend[name] for name in ("owner", "tag", "final", "slot")
            ).all(),
            "who it is",
            when=passed.valid,
        )
        closing = dut.closing
        claim(
            m,
            pend.valid
            & pend.last
            & ~pend.write
            & past(takes)
            & (closing.payload.as_value() == passed.payload.as_value()),
            "it closes when it has begun to pass",
            when=closing.valid,
        )

        # Some threads are served in each cycle: each port with the word of its own address.
        port = Signal(range(_PORTS))
        m.d.comb += port.eq(AnyConst(len(port)))
        mine: Any = Array(dut.located.ports)[port]
        serves = dut.served.bit_select(port, 1) & pend.valid
        claim(m, dut.served.any(), "a thread is served", when=pend.valid)
        rows = Array(dut.read.rows)
        base = past(Mux(pend.kind == BeatKind.SHARED, dut.located.base, 0))
        bank, row = past(mine.bank), past(mine.row)
        then = past(serves & ~pend.write)
        read = dut.read
        claim(
            m,
            read.used
            & (read.kind == here.kind)
            & (read.tag == here.tag)
            & (read.slot == here.slot)
            & (rows[bank] == (row + base)[: len(row)]),
            "its word is read",
            when=then,
        )
        words, banks = Array(dut.words), Array(dut.found)
        claim(m, words[port] == banks[past(bank)], "and it gets it", when=past(then))
        claim(
            m,
            words[port] == 0,
            "no other thread gets one",
            when=past.valid & past(past.valid & ~then),
        )
        # It goes to each lane that is served with the port.
        for half in range(2):
            lane = (_PORTS * half + port)[: ceil_log2(_LANES)]
            mine_too = past(past(then & here.lanes.bit_select(lane, 1)))
            claim(
                m,
                dut.result.lanes.bit_select(lane, 1) == mine_too,
                "each lane gets its word",
                when=past(past(past.valid)),
            )
            can_happen(m, mine_too & dut.result.lanes.bit_select(lane, 1), "a lane gets one")

        # Bytes that are written: among ports with the same word the highest one has priority.
        byte = Signal(2)
        m.d.comb += byte.eq(AnyConst(2))
        others = [
            (number > port)
            & dut.served[number]
            & (each.bank == mine.bank)
            & (each.row == mine.row)
            & each.bytes.bit_select(byte, 1)
            for number, each in enumerate(dut.located.ports)
        ]
        value: Any = Array(repeated(each, pend.size) for each in dut.content.values)[port]
        for number, higher in enumerate(others):
            value = Mux(higher, repeated(dut.content.values[number], pend.size), value)
        stored = past(serves & pend.write & mine.bytes.bit_select(byte, 1))
        written: Any = Array(dut.write.banks)[bank]
        claim(
            m,
            dut.write.used
            & (dut.write.line == (here.kind == BeatKind.LINE))
            & (dut.write.tag == here.tag)
            & (written.row == (row + base)[: len(row)])
            & written.bytes.bit_select(byte, 1)
            & (written.value.as_value().word_select(byte, 8) == past(value.word_select(byte, 8))),
            "a byte is written",
            when=stored,
        )
        claim(m, here.valid & here.write, "who writes", when=dut.write.used)
        claim(
            m,
            ~Cat(each.bytes for each in dut.write.banks).any(),
            "nothing else is written",
            when=~dut.write.used,
        )
        can_happen(
            m,
            past(passes & pend.write & (left != pend.ports)) & stored,
            "a store that has waited for a bank",
        )
        can_happen(m, wait.valid & pend.valid & ~clashes, "a store waits behind a shuffle")
        return m


THEOREM = Theorem(
    _Spec,
    depth=3,
    cover_depth=10,
    faults=(
        Fault("rtl.memory.crossbar", "~(lower & same_bank).any()", "~same_bank.any()"),
        Fault(
            "rtl.memory.crossbar",
            "(leads[:number] & same_word).any()",
            "(leads[:number] & same_bank).any()",
        ),
        Fault(
            "rtl.memory.crossbar",
            "self.is_waiting.eq(is_valid & self.blocked)",
            "self.is_waiting.eq(is_valid & self.has_conflict)",
        ),
        Fault(
            "rtl.memory.crossbar",
            "located.job.last.eq(job.last & next_half.whole)",
            "located.job.last.eq(job.last)",
        ),
        Fault(
            "rtl.memory.crossbar",
            "with m.If(self.job.valid & self.free):",
            "with m.If(self.job.valid):",
        ),
        Fault("rtl.memory.crossbar", "port.bytes & ~overwritten", "port.bytes"),
        Fault("rtl.memory.crossbar", "located.upper.eq(next_half.whole)", "located.upper.eq(1)"),
    ),
)
