"""Checks whether a grid fits, and divides registers and memory among its slots."""

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
"""Width of a number of warps of a CTA: 0 to 64."""
ROW_GRANULE = 8
"""The registers of a thread are rounded up to a multiple of this (ours)."""
SHARED_GRANULE = 256
"""A CTA's piece of shared memory is a multiple of so many bytes: the allocation unit of sm_5x in
the PTX manual (%total_smem_size), to which drivers round up the descriptor's size, too."""
_STACK_LIMIT = (1 << DEPTH_BITS - 1) * TOKEN_BYTES
"""The largest region of a call/return stack, in bytes."""
_STACK_ALIGNMENT_BITS = (CRS_GRANULE - 1).bit_length()
_LOCAL_ALIGNMENT_BITS = (CRS_GRANULE // WARP_THREADS - 1).bit_length()
"""Low bits of the size of a thread's local memory that must be 0, so that a warp's is a multiple
of the CRS granule."""
_DIMENSIONS = (
    "CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH",
    "CTA_THREAD_DIMENSION0", "CTA_THREAD_DIMENSION1", "CTA_THREAD_DIMENSION2")


def warp_place(params: SmParams) -> data.StructLayout:
    """Where the registers and the local memory of a warp slot begin.

    Fields
    ------
    first_row
        The first row of the register file.
    local_base
        The address of the block of local memory, in units of the CRS granule.
    """
    return data.StructLayout({
        "first_row": params.row_bits,
        "local_base": BLOCK_ADDRESS_BITS,
    })


def planned_grid(params: SmParams) -> data.StructLayout:
    """The sizes of a CTA, and the slots that a grid can use; see :class:`GridPlan`.

    Fields
    ------
    threads, warps
        How many a CTA has.
    slots, ctas : warps
        Masks of the warp slots and of the CTA slots that the grid can use, the lowest ones.
    """
    return data.StructLayout({
        "threads": thread_count(params),
        "warps": WARP_COUNT_BITS,
        "slots": params.warps,
        "ctas": params.warps,
    })


def thread_count(params: SmParams) -> range:
    """A number of threads of a CTA. It can exceed what the machine has: the plan stops to count
    one addition later."""
    return range(2 * params.warps * WARP_THREADS + 1)


class PlaceLookup(wiring.Signature):
    """A lookup of what a warp slot and a CTA slot have, directions are those of the requester.

    Members
    -------
    find : Out(1)
        Requests a lookup, for one cycle.
    slot, cta : Out, Out
        The warp slot and the CTA slot. Both hold from the cycle after ``find`` until the next
        lookup.
    found : In(1)
        ``place`` and ``shared_base`` are valid, and hold until the next ``find``. The result is
        valid in the first cycle after ``find`` in which ``found`` is 1. A stored plan always sets
        it; a walked plan sets it for one cycle, at the earliest the cycle after ``find``.
    place, shared_base : In(warp_place), In
        What the warp slot has; where the CTA slot's shared memory begins, in bytes.
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
    """Checks a descriptor, and divides the machine among the slots of its grid. There is no
    multiplier: a product is a sum over several cycles. A state machine::

        IDLE --> JUDGE --> PLANE --> VOLUME --> WARPS --> SLOTS --> SHARED --> IDLE (done)

    ======  =================================================  =============  ==================
    state   what it computes                                   rejects with   cycles
    ======  =================================================  =============  ==================
    JUDGE   whether each field is valid by itself; the first   VERSION to     1
            rejection in the order of LaunchRejection counts   SHARED
    PLANE   x * y of a block                                   WARPS          y + 1
    VOLUME  x * y * z, the threads of a CTA                    WARPS          z + 1
    WARPS   warps of a CTA                                                    1
    SLOTS   which warp slots there are registers for: at       REGISTERS      such slots + 1
            least as many as a CTA has warps
    SHARED  which CTA slots there is shared memory for                        such slots + 1
    ======  =================================================  =============  ==================

    PLANE and VOLUME stop as soon as there are more threads than the machine has. SLOTS and SHARED
    walk through the slots, one a cycle, from slot 0 on.

    The two subclasses differ in how ``lookup`` finds the resources of a slot: it reads what the
    walk has stored, or walks through the slots again.

    Members
    -------
    make, fields, local : In(1), In(Descriptor), In
        ``make`` starts the plan of the grid with these fields. Its local memory begins at
        ``local``, in units of the CRS granule. ``fields`` and ``local`` hold while the grid runs.
    done, rejection : Out(1), Out(LaunchRejection)
        ``done`` is 1 for one cycle at the end of the plan; ``rejection`` is then NONE, or why the
        grid does not fit.
    planned : Out(planned_grid)
        Valid from ``done`` without a rejection until the next ``make``.
    lookup : In(PlaceLookup)
        Only after the end of a plan.
    shared_bytes : Out
        Size of the shared memory of a CTA slot.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._most_threads = params.warps * WARP_THREADS
        """Threads that a CTA can have."""
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
        # The warp slot that the walk is at, and what it has.
        self._walk_slot = Signal(range(params.warps + 1))
        self._walk_row = Signal(range(2 * params.registers))
        self._walk_local = Signal(BLOCK_ADDRESS_BITS)
        self._walk_place: Any = Signal(warp_place(params))
        self._slot_fits = Signal()
        """In SLOTS: there are registers for this slot."""
        self._slots_end = Signal()
        """In SLOTS: there are none, or all slots were visited; the walk ends."""
        # The CTA slot that the walk is at, and where its shared memory begins.
        self._walk_cta = Signal(range(params.warps + 1))
        self._walk_shared = Signal(params.shared_bits + 1)
        self._cta_fits = Signal()
        """In SHARED: there is shared memory for this slot."""
        self._ctas_end = Signal()
        """In SHARED: there is none, or all slots were visited; the walk ends."""
        # Sizes of what a slot has: register rows, granules of local memory, bytes of shared memory.
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
        """Adds transitions from IDLE, as an Elif after the If of ``make``."""

    @abstractmethod
    def _add_states(self, m: Module) -> None:
        """Adds states."""

    @abstractmethod
    def _walk(self, m: Module) -> None:
        """Drives the walk through the slots, and answers ``lookup``."""

    def _measure(self, m: Module) -> None:
        """Computes the sizes of what a slot has, and the place of the slot that the walk is at."""
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
        """JUDGE: the checks that need no count."""
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
        """PLANE, VOLUME, WARPS: multiplies x by y, and the product by z."""
        fields = self.fields
        most = self._most_threads
        width = fields["CTA_THREAD_DIMENSION0"]
        threads = self.planned.threads
        plane = Signal.like(threads)
        count = Signal(16)
        with m.State("PLANE"):
            # A width has more bits than ``plane``: it is compared before it is added.
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
        """SLOTS: walks through the warp slots while there are registers."""
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
        """SHARED: walks through the CTA slots while there is shared memory; through one alone if
        the grid's CTAs have to run one at a time."""
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
    """The walk stores what each slot has in memories, which a lookup reads. ``found`` is 1
    always."""

    def _leave_idle(self, m: Module) -> None:
        """There are no other transitions."""

    def _add_states(self, m: Module) -> None:
        """There are no other states."""

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
    """A lookup walks through the slots again, from slot 0 on: through warp slots and CTA slots at
    the same time, until it is at both that are looked up. That takes as many cycles as the larger
    of their numbers, plus 1. One more state: IDLE --> FIND --> IDLE (found)."""

    def __init__(self, params: SmParams) -> None:
        super().__init__(params)
        self._is_finding = Signal()
        """The state is FIND."""

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
    """Bytes of local memory of a thread."""
    return fields["SHADER_LOCAL_MEMORY_LOW_SIZE"] + fields["SHADER_LOCAL_MEMORY_HIGH_SIZE"]


def _round_up(number: Value, granule: int) -> Value:
    """Rounds up to a multiple of a granule, which is a power of two."""
    return number + (granule - 1) & ~(granule - 1)
