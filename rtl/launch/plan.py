"""Whether a grid fits, and what each of its slots has."""

from abc import abstractmethod
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.barriers import BARRIERS
from rtl.isa.qmd import QMD, QMD_MAJOR_VERSION, QMD_VERSION
from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LaunchRejection
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

from .descriptor import Descriptor

__all__ = [
    "ROW_GRANULE",
    "SHARED_GRANULE",
    "WARP_COUNT_BITS",
    "GridPlan",
    "PlaceLookup",
    "StoredGridPlan",
    "WalkedGridPlan",
    "planned_grid",
    "thread_count",
    "warp_place",
]

WARP_COUNT_BITS = 7
"""Width of how many warps a CTA has."""
ROW_GRANULE = 8
"""Registers of a thread are counted in multiples of this (ours)."""
SHARED_GRANULE = 256
"""A CTA's piece of shared memory is a multiple of so many bytes: the allocation unit of sm_5x in
the PTX manual (%total_smem_size), to which drivers round up the descriptor's size, too."""
_STACK_LIMIT = (1 << DEPTH_BITS - 1) * TOKEN_BYTES
"""The largest region of a call/return stack, in bytes."""
_STACK_ALIGNMENT_BITS = (CRS_GRANULE - 1).bit_length()
_LOCAL_ALIGNMENT_BITS = (CRS_GRANULE // WARP_THREADS - 1).bit_length()
"""Of a thread's local memory: that of a warp is a multiple of the CRS granule."""
_DIMENSIONS = (
    "CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH",
    "CTA_THREAD_DIMENSION0", "CTA_THREAD_DIMENSION1", "CTA_THREAD_DIMENSION2")


def warp_place(params: SmParams) -> data.StructLayout:
    """What belongs to a warp slot.

    Fields
    ------
    first_row
        The first of its rows of the register file.
    local_base
        Its block of local memory, in units of the CRS granule.
    """
    return data.StructLayout({
        "first_row": params.row_bits,
        "local_base": BLOCK_ADDRESS_BITS,
    })


def planned_grid(params: SmParams) -> data.StructLayout:
    """How a grid divides the machine; see :class:`GridPlan`.

    Fields
    ------
    threads, warps
        Of a CTA. Threads are counted up to what is too many.
    slots, ctas : warps
        The warp slots and the CTA slots that the grid can use.
    """
    return data.StructLayout({
        "threads": thread_count(params),
        "warps": WARP_COUNT_BITS,
        "slots": params.warps,
        "ctas": params.warps,
    })


def thread_count(params: SmParams) -> range:
    """Threads of a CTA, or what has been found to be too many."""
    return range(2 * params.warps * WARP_THREADS + 1)


class PlaceLookup(wiring.Signature):
    """What belongs to a warp slot and to a CTA slot, seen from where it is needed.

    Members
    -------
    find, slot, cta : Out(1), Out, Out
        From the next cycle on ``place`` and ``shared_base`` of these slots are looked up.
    found, place, shared_base : In(1), In(warp_place), In
        They are there, at the earliest in the cycle after ``find``.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "find": Out(1),
            "slot": Out(params.warp_bits),
            "cta": Out(params.warp_bits),
            "found": In(1),
            "place": In(warp_place(params)),
            "shared_base": In(params.shared_bits),
        })


class GridPlan(Component):
    """Judges a descriptor, and divides the machine. There are no multipliers: products are sums of
    many cycles. A state machine, a method for some of its states::

        IDLE --> JUDGE --> PLANE --> VOLUME --> WARPS --> SLOTS --> SHARED --> IDLE (done)

    ======  ==========================================================================
    state   what is known at its end
    ======  ==========================================================================
    JUDGE   whether the descriptor is wrong by itself: the first reason of several
    PLANE   x * y of a block
    VOLUME  threads of a CTA; more than the machine has: WARPS
    WARPS   warps of a CTA
    SLOTS   the warp slots for which there are registers; too few for a CTA: REGISTERS
    SHARED  the CTA slots for which there is shared memory
    ======  ==========================================================================

    SLOTS and SHARED go from one slot to the next, a slot a cycle. What belongs to a slot is found
    in one of two ways, which are subclasses: it was stored meanwhile, or the slots are walked
    through again.

    Members
    -------
    make, fields, local : In(1), In(Descriptor), In
        Makes the plan of a grid, whose local memory begins at ``local``, in units of the CRS
        granule.
    done, rejection : Out(1), Out(LaunchRejection)
        For one cycle: the plan is made, or the grid is rejected.
    planned : Out(planned_grid)
    lookup : In(PlaceLookup)
    shared_bytes : Out
        A CTA's piece of shared memory.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._most_threads = params.warps * WARP_THREADS
        """Threads of a CTA, at most."""
        super().__init__({
            "make": In(1),
            "fields": In(Descriptor),
            "local": In(BLOCK_ADDRESS_BITS),
            "done": Out(1),
            "rejection": Out(LaunchRejection),
            "planned": Out(planned_grid(params)),
            "lookup": In(PlaceLookup(params)),
            "shared_bytes": Out(params.shared_bits + 1),
        })
        # The warp slot that has its turn, and what belongs to it.
        self._walk_slot = Signal(range(params.warps + 1))
        self._walk_row = Signal(range(2 * params.registers))
        self._walk_local = Signal(BLOCK_ADDRESS_BITS)
        self._walk_place: Any = Signal(warp_place(params))
        self._slot_fits = Signal()
        """SLOTS: there are registers for it."""
        self._slots_end = Signal()
        """SLOTS: there are not."""
        # The CTA slot that has its turn.
        self._walk_cta = Signal(range(params.warps + 1))
        self._walk_shared = Signal(params.shared_bits + 1)
        self._cta_fits = Signal()
        self._ctas_end = Signal()
        # What a slot takes.
        self._rows = Signal(range(512))
        self._local_block = Signal(BLOCK_ADDRESS_BITS)
        self._shared_piece = Signal(QMD["SHARED_MEMORY_SIZE"].width + 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._measure(m)
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.make):
                    m.next = "JUDGE"
                self._leave_idle(m)
            self._judge(m)
            self._count_threads(m)
            self._divide_warps(m)
            self._divide_shared(m)
            self._add_states(m)
        self._walk(m)
        return m

    @abstractmethod
    def _leave_idle(self, m: Module) -> None:
        """What else leads out of IDLE, behind an If."""

    @abstractmethod
    def _add_states(self, m: Module) -> None:
        """More states."""

    @abstractmethod
    def _walk(self, m: Module) -> None:
        """Goes from one slot to the next, and finds what belongs to one."""

    def _measure(self, m: Module) -> None:
        """What a warp slot and a CTA slot take."""
        fields = self.fields
        registers = fields["REGISTER_COUNT"]
        stack_granules = fields["SHADER_LOCAL_MEMORY_CRS_SIZE"] >> _STACK_ALIGNMENT_BITS
        local_granules = _local_bytes(fields) >> _LOCAL_ALIGNMENT_BITS
        m.d.comb += self._local_block.eq(local_granules + stack_granules)
        with m.If(registers.any()):
            m.d.comb += self._rows.eq(_round_up(registers, ROW_GRANULE))
        with m.Else():
            m.d.comb += self._rows.eq(ROW_GRANULE)
        m.d.comb += self._shared_piece.eq(_round_up(fields["SHARED_MEMORY_SIZE"], SHARED_GRANULE))
        m.d.comb += self.shared_bytes.eq(self._shared_piece)
        m.d.comb += self._walk_place.first_row.eq(self._walk_row)
        m.d.comb += self._walk_place.local_base.eq(self._walk_local + self.local)

    def _end(self, m: Module, rejection: LaunchRejection) -> None:
        m.d.comb += self.done.eq(1)
        m.d.comb += self.rejection.eq(rejection)
        m.next = "IDLE"

    def _judge(self, m: Module) -> None:
        """What can be seen at once."""
        fields = self.fields
        stack = fields["SHADER_LOCAL_MEMORY_CRS_SIZE"]
        is_other_version = (
            (fields["QMD_VERSION"] != QMD_VERSION)
            | (fields["QMD_MAJOR_VERSION"] != QMD_MAJOR_VERSION))
        is_empty = ~Cat(fields[name].any() for name in _DIMENSIONS).all()
        stack_is_wrong = stack[:_STACK_ALIGNMENT_BITS].any() | (stack > _STACK_LIMIT)
        local_is_wrong = _local_bytes(fields)[:_LOCAL_ALIGNMENT_BITS].any()
        with m.State("JUDGE"):
            m.next = "PLANE"
            with m.If(is_other_version):
                self._end(m, LaunchRejection.VERSION)
            with m.Elif(fields["SM_DISABLE_MASK_LOWER"][0]):
                self._end(m, LaunchRejection.DISABLED)
            with m.Elif(is_empty):
                self._end(m, LaunchRejection.EMPTY)
            with m.Elif(fields["BARRIER_COUNT"] > BARRIERS):
                self._end(m, LaunchRejection.BARRIERS)
            with m.Elif(stack_is_wrong):
                self._end(m, LaunchRejection.STACK)
            with m.Elif(local_is_wrong):
                self._end(m, LaunchRejection.LOCAL)
            with m.Elif(fields["SHARED_MEMORY_SIZE"] > self._params.shared_bytes):
                self._end(m, LaunchRejection.SHARED)

    def _count_threads(self, m: Module) -> None:
        """Multiplies x by y, then that by z; given up as soon as it is too much."""
        fields = self.fields
        most = self._most_threads
        width = fields["CTA_THREAD_DIMENSION0"]
        threads = self.planned.threads
        plane = Signal.like(threads)
        count = Signal(16)
        with m.State("PLANE"):
            # The descriptor's widths are larger than any that fits.
            with m.If((width > most) | (plane > most)):
                m.d.sync += plane.eq(0)
                m.d.sync += count.eq(0)
                self._end(m, LaunchRejection.WARPS)
            with m.Elif(count == fields["CTA_THREAD_DIMENSION1"]):
                m.d.sync += count.eq(0)
                m.d.sync += threads.eq(0)
                m.next = "VOLUME"
            with m.Else():
                m.d.sync += plane.eq(plane + width)
                m.d.sync += count.eq(count + 1)
        with m.State("VOLUME"):
            with m.If(threads > most):
                m.d.sync += threads.eq(threads + plane)
                m.d.sync += plane.eq(0)
                m.d.sync += count.eq(0)
                self._end(m, LaunchRejection.WARPS)
            with m.Elif(count == fields["CTA_THREAD_DIMENSION2"]):
                m.d.sync += plane.eq(0)
                m.d.sync += count.eq(0)
                m.next = "WARPS"
            with m.Else():
                m.d.sync += threads.eq(threads + plane)
                m.d.sync += count.eq(count + 1)
        with m.State("WARPS"):
            m.d.sync += self.planned.warps.eq(
                threads + (WARP_THREADS - 1) >> WARP_THREADS.bit_length() - 1)
            m.d.sync += self.planned.slots.eq(0)
            m.d.sync += self.planned.ctas.eq(0)
            m.next = "SLOTS"

    def _divide_warps(self, m: Module) -> None:
        """Gives warp slots registers and local memory as long as there are registers."""
        params = self._params
        has_rows = self._walk_row + self._rows <= params.registers
        with m.State("SLOTS"):
            with m.If((self._walk_slot < params.warps) & has_rows):
                m.d.comb += self._slot_fits.eq(1)
                m.d.sync += self.planned.slots.eq(Cat(1, self.planned.slots))
            with m.Else():
                m.d.comb += self._slots_end.eq(1)
                with m.If(self._walk_slot < self.planned.warps):
                    self._end(m, LaunchRejection.REGISTERS)
                with m.Else():
                    m.next = "SHARED"

    def _divide_shared(self, m: Module) -> None:
        """Gives CTA slots shared memory as long as there is some."""
        params = self._params
        most_ctas = Mux(self.fields["SEQUENTIALLY_RUN_CTAS"], 1, params.warps)
        has_bytes = self._walk_shared + self._shared_piece <= params.shared_bytes
        with m.State("SHARED"):
            with m.If((self._walk_cta < most_ctas) & has_bytes):
                m.d.comb += self._cta_fits.eq(1)
                m.d.sync += self.planned.ctas.eq(Cat(1, self.planned.ctas))
            with m.Else():
                m.d.comb += self._ctas_end.eq(1)
                self._end(m, LaunchRejection.NONE)

    def _go_to_next_slot(self, m: Module) -> None:
        m.d.sync += self._walk_slot.eq(self._walk_slot + 1)
        m.d.sync += self._walk_row.eq(self._walk_row + self._rows)
        m.d.sync += self._walk_local.eq(self._walk_local + self._local_block)

    def _go_to_first_slot(self, m: Module) -> None:
        m.d.sync += self._walk_slot.eq(0)
        m.d.sync += self._walk_row.eq(0)
        m.d.sync += self._walk_local.eq(0)

    def _go_to_next_cta(self, m: Module) -> None:
        m.d.sync += self._walk_cta.eq(self._walk_cta + 1)
        m.d.sync += self._walk_shared.eq(self._walk_shared + self._shared_piece)

    def _go_to_first_cta(self, m: Module) -> None:
        m.d.sync += self._walk_cta.eq(0)
        m.d.sync += self._walk_shared.eq(0)


class StoredGridPlan(GridPlan):
    """What belongs to a slot is in memories, and found at once."""

    def _leave_idle(self, m: Module) -> None:
        """Nothing else."""

    def _add_states(self, m: Module) -> None:
        """None."""

    def _walk(self, m: Module) -> None:
        params = self._params
        m.submodules.places = places = Words(warp_place(params), params.warps)
        m.submodules.bases = bases = Words(params.shared_bits, params.warps)
        places.write(m, self._slot_fits, self._walk_slot, self._walk_place)
        bases.write(m, self._cta_fits, self._walk_cta, self._walk_shared)
        lookup = self.lookup
        m.d.comb += lookup.place.eq(places.read(m, lookup.slot))
        m.d.comb += lookup.shared_base.eq(bases.read(m, lookup.cta))
        m.d.comb += lookup.found.eq(1)
        with m.If(self._slot_fits):
            self._go_to_next_slot(m)
        with m.Elif(self._slots_end):
            self._go_to_first_slot(m)
        with m.If(self._cta_fits):
            self._go_to_next_cta(m)
        with m.Elif(self._ctas_end):
            self._go_to_first_cta(m)


class WalkedGridPlan(GridPlan):
    """What belongs to a slot is found by walking through the slots again, from the first one on; it
    is there from ``found`` to the next ``find``. One more state: IDLE --> FIND --> IDLE."""

    def __init__(self, params: SmParams) -> None:
        super().__init__(params)
        self._is_finding = Signal()

    def _leave_idle(self, m: Module) -> None:
        with m.Elif(self.lookup.find):
            m.next = "FIND"

    def _add_states(self, m: Module) -> None:
        with m.State("FIND"):
            m.d.comb += self._is_finding.eq(1)
            with m.If(self.lookup.found):
                m.next = "IDLE"

    def _walk(self, m: Module) -> None:
        lookup = self.lookup
        is_at_slot = self._walk_slot == lookup.slot
        is_at_cta = self._walk_cta == lookup.cta
        m.d.comb += lookup.place.eq(self._walk_place)
        m.d.comb += lookup.shared_base.eq(self._walk_shared)
        m.d.comb += lookup.found.eq(self._is_finding & is_at_slot & is_at_cta)
        with m.If(lookup.find | self.make):
            self._go_to_first_slot(m)
            self._go_to_first_cta(m)
        with m.Else():
            with m.If(self._slot_fits | (self._is_finding & ~is_at_slot)):
                self._go_to_next_slot(m)
            with m.If(self._cta_fits | (self._is_finding & ~is_at_cta)):
                self._go_to_next_cta(m)


def _local_bytes(fields: data.View) -> Value:
    """Local memory of a thread."""
    return fields["SHADER_LOCAL_MEMORY_LOW_SIZE"] + fields["SHADER_LOCAL_MEMORY_HIGH_SIZE"]


def _round_up(number: Value, granule: int) -> Value:
    """The next multiple of a power of two."""
    return number + (granule - 1) & ~(granule - 1)
