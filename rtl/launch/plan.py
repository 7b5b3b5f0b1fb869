"""Whether a grid fits, and what each of its slots has."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.barriers import BARRIERS
from rtl.isa.qmd import QMD_MAJOR_VERSION, QMD_VERSION
from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LaunchRejection
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

from .descriptor import Descriptor

__all__ = ["ROW_GRANULE", "SHARED_GRANULE", "GridPlan", "warp_place"]

ROW_GRANULE = 8
"""Registers of a thread are counted in multiples of this (ours)."""
SHARED_GRANULE = 256
"""A CTA's piece of shared memory is a multiple of so many bytes: the allocation unit of sm_5x in the PTX manual
(%total_smem_size), to which drivers round up the descriptor's size, too."""
_STACK_LIMIT = (1 << DEPTH_BITS - 1) * TOKEN_BYTES
"""The largest region of a call/return stack, in bytes."""


def warp_place(params: SmParams) -> data.StructLayout:
    """What belongs to a warp slot: its rows of the register file, and its block of local memory."""
    return data.StructLayout({"first_row": params.row_bits, "local_base": BLOCK_ADDRESS_BITS})


class GridPlan(Component):
    """Judges a descriptor, and divides the machine. There are no multipliers: products are sums of many cycles.

    Members
    -------
    make, fields, local : In(1), In(Descriptor), In
        Makes the plan of a grid, whose local memory begins at ``local``, in units of the CRS granule.
    over, rejection : Out(1), Out(LaunchRejection)
        For one cycle: the plan is made, or the grid is rejected.
    warps, threads : Out, Out
        Of a CTA.
    slots, ctas : Out(warps), Out(warps)
        The warp slots and the CTA slots that the grid can use.
    slot, place : In, Out(warp_place)
    cta, shared_base : In, Out
        What belongs to a slot.
    find, found : In(1), Out(1)
        Slot and CTA are known in the cycle after ``find``, and what belongs to them is there in each cycle in which
        ``found`` is 1: here at once.
    shared_bytes : Out
        A CTA's piece of shared memory.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._threads = params.warps * WARP_THREADS
        """Threads of a CTA, at most."""
        bits = params.warp_bits
        super().__init__({
            "make": In(1), "fields": In(Descriptor), "local": In(BLOCK_ADDRESS_BITS), "over": Out(1),
            "rejection": Out(LaunchRejection), "warps": Out(7), "threads": Out(range(2 * self._threads + 1)),
            "slots": Out(params.warps), "ctas": Out(params.warps), "slot": In(bits), "place": Out(warp_place(params)),
            "cta": In(bits), "find": In(1), "found": Out(1), "shared_base": Out(params.shared_bits),
            "shared_bytes": Out(params.shared_bits + 1)})
        # Slots and CTA slots are walked through: when a walk advances, what it does then, and at its beginning.
        self._walks: list[tuple[Any, list[Any], list[Any]]] = []

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.FSM():
            self._judge(m)
            self._count_threads(m)
            self._divide_warps(m)
            self._divide_shared(m)
        for advances, following, first in self._walks:
            with m.If(self.begins_walk()):
                m.d.sync += first
            with m.Elif(advances):
                m.d.sync += following
        return m

    def begins_walk(self) -> Value:
        """Whether slots are walked through from the first one on."""
        return self.make

    def _end(self, m: Module, rejection: LaunchRejection) -> None:
        m.d.comb += [self.over.eq(1), self.rejection.eq(rejection)]
        m.next = "IDLE"

    def _judge(self, m: Module) -> None:
        """What can be seen at once."""
        fields, reason = self.fields, Signal(LaunchRejection)
        local, crs = _local_bytes(fields), fields["SHADER_LOCAL_MEMORY_CRS_SIZE"]
        dimensions = [fields[name] for name in (
            "CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH", "CTA_THREAD_DIMENSION0",
            "CTA_THREAD_DIMENSION1", "CTA_THREAD_DIMENSION2")]
        judgements = (
            (LaunchRejection.VERSION, (fields["QMD_VERSION"] != QMD_VERSION)
             | (fields["QMD_MAJOR_VERSION"] != QMD_MAJOR_VERSION)),
            (LaunchRejection.DISABLED, fields["SM_DISABLE_MASK_LOWER"][0]),
            (LaunchRejection.EMPTY, ~Cat(dimension.any() for dimension in dimensions).all()),
            (LaunchRejection.BARRIERS, fields["BARRIER_COUNT"] > BARRIERS),
            (LaunchRejection.STACK, crs[:(CRS_GRANULE - 1).bit_length()].any() | (crs > _STACK_LIMIT)),
            (LaunchRejection.LOCAL, local[:(CRS_GRANULE // WARP_THREADS - 1).bit_length()].any()),
            (LaunchRejection.SHARED, fields["SHARED_MEMORY_SIZE"] > self._params.shared_bytes))
        with m.State("IDLE"):
            with m.If(self.make):
                m.next = "JUDGE"
            self.start_find(m)
        with m.State("JUDGE"):
            for rejection, applies in reversed(judgements):
                with m.If(applies):
                    m.d.comb += reason.eq(rejection)
            m.next = "PLANE"
            with m.If(reason != LaunchRejection.NONE):
                m.d.comb += [self.over.eq(1), self.rejection.eq(reason)]
                m.next = "IDLE"

    def start_find(self, m: Module) -> None:
        """What else begins in IDLE: nothing is to be looked for."""

    def _count_threads(self, m: Module) -> None:
        """Multiplies x by y, then that by z; given up as soon as it is too much."""
        fields, plane, count = self.fields, Signal.like(self.threads), Signal(16)
        width = fields["CTA_THREAD_DIMENSION0"]
        with m.State("PLANE"):
            # The descriptor's widths are larger than any that fits.
            m.d.sync += [plane.eq(plane + width), count.eq(count + 1)]
            with m.If((width > self._threads) | (plane > self._threads)):
                m.d.sync += [plane.eq(0), count.eq(0)]
                self._end(m, LaunchRejection.WARPS)
            with m.Elif(count == fields["CTA_THREAD_DIMENSION1"]):
                m.d.sync += [plane.eq(plane), count.eq(0), self.threads.eq(0)]
                m.next = "VOLUME"
        with m.State("VOLUME"):
            m.d.sync += [self.threads.eq(self.threads + plane), count.eq(count + 1)]
            with m.If(self.threads > self._threads):
                m.d.sync += [plane.eq(0), count.eq(0)]
                self._end(m, LaunchRejection.WARPS)
            with m.Elif(count == fields["CTA_THREAD_DIMENSION2"]):
                m.d.sync += [self.threads.eq(self.threads), plane.eq(0), count.eq(0)]
                m.next = "WARPS"
        with m.State("WARPS"):
            m.d.sync += [
                self.warps.eq(self.threads + (WARP_THREADS - 1) >> WARP_THREADS.bit_length() - 1), self.slots.eq(0),
                self.ctas.eq(0)]
            m.next = "SLOTS"

    def _divide_warps(self, m: Module) -> None:
        """Gives slots rows and local memory as long as there are rows; the next slot's are those plus one size more."""
        params, fields = self._params, self.fields
        slot, row, base = Signal(range(params.warps + 1)), Signal(range(2 * params.registers)), Signal.like(self.local)
        rows, place, fits = Signal(range(512)), Signal(warp_place(params)), Signal()
        block = (_local_bytes(fields) >> (CRS_GRANULE // WARP_THREADS - 1).bit_length()) \
            + (fields["SHADER_LOCAL_MEMORY_CRS_SIZE"] >> (CRS_GRANULE - 1).bit_length())
        registers = fields["REGISTER_COUNT"]
        m.d.comb += [
            rows.eq(Mux(registers.any(), registers + (ROW_GRANULE - 1) & ~(ROW_GRANULE - 1), ROW_GRANULE)),
            place.first_row.eq(row), place.local_base.eq(base + self.local)]
        next_slot, first_slot = (
            [slot.eq(slot + 1), row.eq(row + rows), base.eq(base + block)], [slot.eq(0), row.eq(0), base.eq(0)])
        self._walks.append((self.keep_place(m, fits, slot, place), next_slot, first_slot))
        with m.State("SLOTS"):
            with m.If((slot < params.warps) & (row + rows <= params.registers)):
                m.d.comb += fits.eq(1)
                m.d.sync += self.slots.eq(Cat(1, self.slots))
            with m.Else():
                with m.If(slot < self.warps):
                    self._end(m, LaunchRejection.REGISTERS)
                with m.Else():
                    m.next = "SHARED"

    def _divide_shared(self, m: Module) -> None:
        """Gives CTA slots shared memory as long as there is some."""
        params, fields = self._params, self.fields
        cta, base, fits = Signal(range(params.warps + 1)), Signal(params.shared_bits + 1), Signal()
        size = fields["SHARED_MEMORY_SIZE"] + (SHARED_GRANULE - 1) & ~(SHARED_GRANULE - 1)
        most = Mux(fields["SEQUENTIALLY_RUN_CTAS"], 1, params.warps)
        m.d.comb += self.shared_bytes.eq(size)
        next_cta, first_cta = [cta.eq(cta + 1), base.eq(base + size)], [cta.eq(0), base.eq(0)]
        self._walks.append((self.keep_base(m, fits, cta, base), next_cta, first_cta))
        with m.State("SHARED"):
            with m.If((cta < most) & (base + size <= params.shared_bytes)):
                m.d.comb += fits.eq(1)
                m.d.sync += self.ctas.eq(Cat(1, self.ctas))
            with m.Else():
                self._end(m, LaunchRejection.NONE)

    def keep_place(self, m: Module, fits: Value, slot: Value, place: Any) -> Value:
        """Keeps what belongs to a slot, while slots are divided, for whoever looks at a ``slot`` later. Returns whether
        the next one is looked at."""
        m.submodules.places = places = Words(warp_place(self._params), self._params.warps)
        places.write(m, fits, slot, place)
        m.d.comb += self.place.eq(places.read(m, self.slot))
        return fits

    def keep_base(self, m: Module, fits: Value, cta: Value, base: Value) -> Value:
        """The same of a CTA slot."""
        m.submodules.bases = bases = Words(self._params.shared_bits, self._params.warps)
        bases.write(m, fits, cta, base)
        m.d.comb += self.shared_base.eq(bases.read(m, self.cta))
        m.d.comb += self.found.eq(1)
        return fits


def _local_bytes(fields: data.View) -> Value:
    """Local memory of a thread."""
    return fields["SHADER_LOCAL_MEMORY_LOW_SIZE"] + fields["SHADER_LOCAL_MEMORY_HIGH_SIZE"]
