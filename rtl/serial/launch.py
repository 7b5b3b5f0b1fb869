"""The work distributor of the serial machine: it reads beats, has counters in block RAM, and no
tables of slots."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component, members_of
from rtl.isa.qmd import QMD
from rtl.isa.registers import REFERENCE_COUNTERS
from rtl.launch import LAUNCH_TAG_BITS, Distributor
from rtl.launch.descriptor import WORD_BITS, DescriptorMemory
from rtl.launch.plan import GridPlan
from rtl.launch.starter import WarpStarter
from rtl.layouts import (
    BEAT_BYTES,
    BEATS,
    CONSTANT_BANKS,
    REFERENCE_BITS,
    BeatPort,
    EventLayout,
    ReferenceAccess,
    described_bank,
    ends_request,
)
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.wires import IN_BLOCKS
from rtl.words import Words

__all__ = ["SerialDistributor", "SerialGridPlan", "SerialWarpStarter", "SlowReferenceCounters"]

_BANK_FIELDS = tuple(
    f"CONSTANT_BUFFER_{name}" for name in ("ADDR_LOWER", "ADDR_UPPER", "SIZE"))
"""Fields that are passed on when they are read, and not kept."""


class SerialDescriptorMemory(DescriptorMemory):
    """Reads the descriptor beat by beat. Constant banks are no ``fields``.

    Members
    -------
    bank : Out(EventLayout of described_bank)
        Each constant bank, when it is read.
    port : Out(BeatPort)

    All others are as DescriptorMemory describes them.
    """

    def more_ports(self) -> dict[str, Any]:
        return {
            "port": Out(BeatPort(LAUNCH_TAG_BITS)), "bank": Out(EventLayout(described_bank()))}

    def take(self, m: Module, line: Signal) -> None:
        number = Cat(self.port.response.payload.beat, line)
        self.keep_fields(m, number, [name for name in QMD if name not in _BANK_FIELDS])
        self._tell_bank(m, number)

    def _tell_bank(self, m: Module, number: Value) -> None:
        """A constant bank, when its second half comes: the first one is in the beat before."""
        answer, told = self.port.response.payload.data, self.bank.payload
        parts, before = [], Signal.like(answer)
        first, bits = QMD["CONSTANT_BUFFER_SIZE"].lowest(0) // len(answer), len(answer)
        for name in _BANK_FIELDS:
            field = QMD[name]
            beat, start = divmod(field.lowest(0), bits)
            assert field.lowest(1) - field.lowest(0) == bits and first - beat in (0, 1)
            parts.append((answer if beat == first else before)[start:start + field.width])
        lower, upper, size = parts
        m.d.sync += before.eq(answer)
        m.d.comb += [
            told.number.eq(number - first),
            self.bank.valid.eq((number >= first) & (number < first + CONSTANT_BANKS)),
            told.bank.valid.eq(self.fields["CONSTANT_BUFFER_VALID"].as_value().bit_select(told.number, 1)),
            told.bank.address.eq(Cat(lower, upper)), told.bank.size.eq(size)]

    def write_release(self, m: Module, place: Value) -> Value:
        """A beat of that line, of which one or two have the release. Returns whether it is the last one."""
        payload, single = self.fields["RELEASE0_PAYLOAD"], self.fields["RELEASE0_STRUCTURE_SIZE"]
        request, beat = self.port.request, Signal(range(BEATS))
        content, number, upper = request.payload, place[3:6], place[2]
        word = Cat(half.replicate(BEAT_BYTES // 2) for half in (~upper, upper))
        with m.If(content.write & request.ready):
            m.d.sync += beat.eq(beat + 1)
        m.d.comb += [
            content.beat.eq(beat), content.data.eq(Cat(
                Mux(single | ~beat[0], payload, Const(0, WORD_BITS)), Mux(single, payload, Const(0, WORD_BITS)))),
            content.mask.eq(Mux(
                single, Mux(beat == number, word, 0), (beat[1:] == number[1:]).replicate(BEAT_BYTES)))]
        return ends_request(content)


class SerialGridPlan(GridPlan):
    """Keeps no table of slots: they are walked through again for each warp, as when they were divided. What belongs to
    a slot and a CTA is there from ``found`` to the next ``find``."""

    def __init__(self, params: SmParams) -> None:
        super().__init__(params)
        self._finding = Signal()
        self._at_slot = Signal()

    def begins_walk(self) -> Value:
        return self.find | self.make

    def start_find(self, m: Module) -> None:
        with m.Elif(self.find):
            m.next = "FIND"

    def keep_place(self, m: Module, fits: Value, slot: Value, place: Any) -> Value:
        m.d.comb += self.place.eq(place)
        m.d.comb += self._at_slot.eq(slot == self.slot)
        return fits | (self._finding & ~self._at_slot)

    def keep_base(self, m: Module, fits: Value, cta: Value, base: Value) -> Value:
        is_at_cta = cta == self.cta
        m.d.comb += self.shared_base.eq(base)
        m.d.comb += self.found.eq(self._finding & self._at_slot & is_at_cta)
        with m.State("FIND"):
            m.d.comb += self._finding.eq(1)
            with m.If(self.found):
                m.next = "IDLE"
        return fits | (self._finding & ~is_at_cta)


class SerialWarpStarter(WarpStarter):
    """The CTA's shared memory is known when its first warp has been found."""

    def is_placed(self, m: Module) -> Value:
        placed = Signal()
        m.d.sync += placed.eq((placed | self.found) & ~(self.begin | self.take))
        return placed


class SlowReferenceCounters(Component):
    """ReferenceCounters in block RAM, which is read for the grid whenever the host does not read
    it. What CTAs add and take is owed until then.

    Members
    -------
    number .. host
        As of ReferenceCounters. A CTA that takes is owed for as long as others that did so before.
    """

    def __init__(self, params: SmParams) -> None:
        delta = QMD["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"].width + 1
        self._warps = params.warps
        super().__init__({
            "number": In(range(REFERENCE_COUNTERS)), "delta": In(delta), "allows": Out(1), "add": In(1), "take": In(1),
            "host": In(ReferenceAccess())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access = self.host
        m.submodules.sweep = sweep = Sweep(REFERENCE_COUNTERS)
        m.submodules.counts = counts = Words(REFERENCE_BITS, REFERENCE_COUNTERS, sweep, **IN_BLOCKS)
        read, writes = counts.read_port(), Signal()
        adds, takes, known, changes = Signal(), Signal(range(self._warps + 1)), Signal(), Signal()
        place, value, sets = Signal.like(access.number), Signal.like(access.value), Signal()
        # Adds, or takes if that is all that is owed: adds the complement, so that a carry means that enough was there.
        less = takes.any() & ~adds
        sum_ = Signal(REFERENCE_BITS + 1)
        counts.write(m, writes, Mux(changes, self.number, place),
                     Mux(changes, Mux(less & ~sum_[-1], 0, sum_[:-1]), value))
        m.d.comb += [
            writes.eq((changes | sets) & ~sweep.active),
            read.addr.eq(Mux(access.read, access.number, self.number)),
            access.count.eq(Mux(sweep.active, 0, read.data)),
            sum_.eq(read.data + (self.delta ^ less.replicate(REFERENCE_BITS)) + less),
            changes.eq(known & (adds | less)), self.allows.eq(known & ~adds & ~less & ~sum_[-1])]
        m.d.sync += [
            known.eq(~access.read & ~writes & ~access.set & ~sweep.active), adds.eq(self.add | adds & ~changes),
            takes.eq(takes + self.take - (changes & less))]
        with m.If(~changes & ~sweep.active):
            m.d.sync += sets.eq(0)
        with m.If(access.set):
            m.d.sync += [sets.eq(1), place.eq(access.number), value.eq(access.value)]
        return m


class SerialDistributor(Distributor):
    """Tells the constant banks of the grid that is about to run, one by one.

    Members
    -------
    bank : Out(EventLayout of described_bank)
    port : Out(BeatPort)

    All others are as Distributor describes them; ``grid`` has no constant banks.
    """

    def more_ports(self) -> dict[str, Any]:
        return {"port": Out(BeatPort(LAUNCH_TAG_BITS)), **members_of(self.memory, "bank")}

    def make_memory(self, params: SmParams) -> Component:
        return SerialDescriptorMemory()

    def make_plan(self, params: SmParams) -> Component:
        return SerialGridPlan(params)

    def make_starter(self, params: SmParams) -> Component:
        return SerialWarpStarter(params)

    def make_references(self, params: SmParams) -> Component:
        return SlowReferenceCounters(params)

    def configure_banks(self, m: Module) -> None:
        m.d.comb += self.bank.eq(self.memory.bank)
