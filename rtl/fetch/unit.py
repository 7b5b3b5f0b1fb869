"""The fetch unit: groups of instructions, with their constants, from memory to issue."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from rtl.arbiter import RoundRobin
from rtl.component import Component
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import Event
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.words import Words

from .instructions import InstructionCache
from .loader import LineLoader
from .ports import unit_ports
from .prefetch import Prefetcher
from .records import Place, cache_line, claimed_group, fetched, group_lookup, line_of
from .resolve import ConstantResolver

__all__ = ["FetchUnit"]

_GROUP_AT = (GROUP_BYTES - 1).bit_length()
_WORD_AT = (INSTRUCTION_BYTES - 1).bit_length()
_LINE_AT = (LINE_BYTES - 1).bit_length()


class FetchUnit(Component):
    """Brings the instructions of all warps from memory, group by group. ::

        redirect --------+
                         v
        room --------> SELECT --> LOOK UP --+--> resolver --> group
                         ^           |      |       ^ |
                         |           v      v       | v
                         |          pcs   MISS     constants
                         |           |      |        |
                         +-----------+      v        v
                         +----------- waiting  <-- loader <--> memory

    =======  ======================================================================
    stage    what is known at its end
    =======  ======================================================================
    SELECT   the warp, its pc: the warp that is redirected, or the round robin's. The
             instruction cache is read
    LOOK UP  hit: the group goes to the resolver, and the warp's pc is the next group.
             Miss: the pc stays
    MISS     if the loader is free, the line is requested, and the warp waits. If a
             line in flight has the same place in the cache, or is this line, the warp
             waits without a request. Else it is selected again
    =======  ======================================================================

    Program and constants are cached; both are assumed not to change until ``invalidate``.

    Hit: the group leaves LOOK UP when the resolver takes it. Until then LOOK UP stalls.

    Miss: leaves LOOK UP whether the resolver is ready or not. Warps that wait are selected again
    when any line has arrived. Another line is requested only when all of them have looked up their
    groups, since it might evict theirs.

    Prefetch: the prefetcher observes which lines warps enter and which groups they receive. It
    proposes the next line, and the line of a branch's target in the group. The instruction cache
    requests these lines when no miss needs the loader.

    Preload: when the caches have become empty, because a grid begins or the host has emptied them,
    the kernel's first lines and the constants that most kernels read first are requested.

    Redirect: is selected in its cycle, before others, and the warp waits for no line any more. If
    LOOK UP stalls, only the pc is written: a warp that waits for a line still waits until one
    comes. The warp's lookup and its groups in the resolver are squashed.

    Invalidate: hits count for nothing until both caches are empty, which is a line a cycle once no
    line is outstanding, and ``invalidate`` is 0.

    Members
    -------
    grid : In(GridConfiguration)
        ``program`` is the address of a line.
    redirect : In(Event of redirect)
        The warp continues there. Groups that come in this cycle or later are from there.
    room : In(1 bit a warp)
        The warp runs, and issue has a place for one more group of it beyond those claimed.
    claimed : Out(Event of a warp)
        A group of the warp will come, unless the warp is redirected.
    group : Out(Event of fetched_group)
    indexed, value : In(stream of indexed_request), Out(stream of indexed_response)
        Another reader of the constant cache, a word at a time.
    invalidate : In(1)
        Both caches become empty, and remain so while it is 1: later lookups read memory. Groups
        that were claimed before come as they were.
    busy : Out(1)
        The caches are about to become empty, and no group is claimed.
    memory : Out(MemoryPort(TAG_BITS))
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._instructions = InstructionCache(params)
        self._resolver = ConstantResolver(params)
        self._loader = LineLoader()
        self._prefetcher = Prefetcher(params)
        self._chooser = RoundRobin(params.warps)
        super().__init__(unit_ports(params))
        # What SELECT selects, and the register of LOOK UP, which takes it if it ``advances``.
        self._selected: Any = Event(group_lookup(params)).create(path=("selected",))
        self._lookup: Any = Event(group_lookup(params)).create(path=("lookup",))
        self._advances = Signal()
        # Whether the lookup counts: it is there, and its warp is not redirected. Whether it hits.
        self._is_looked_up = Signal()
        self._hits = Signal()
        # A redirect has no place in LOOK UP: its pc is written, by the lookup's port.
        self._writes_redirect = Signal()
        # The register of MISS; the warp there still needs its line; it waits for it from now on.
        self._is_missed = Signal()
        self._missed_warp = Signal(params.warp_bits)
        self._must_wait = Signal()
        self._waits = Signal()
        # Warps that wait for a line; those that the last line has woken, and that have not looked
        # up their group since; all that wait are woken.
        self._waiting = Signal(params.warps)
        self._woken = Signal(params.warps)
        self._wakes = Signal()
        # The caches have become empty.
        self._is_emptied = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.chooser = self._chooser
        m.submodules.pcs = pcs = Words(Place, self._params.warps)
        m.submodules.instructions = self._instructions
        m.submodules.resolver = self._resolver
        m.submodules.loader = self._loader
        m.submodules.prefetcher = self._prefetcher
        self._select(m, pcs)
        self._look_up(m)
        self._write_pc(m, pcs)
        self._miss(m)
        self._wait(m)
        self._prefetch(m)
        self._connect_caches(m)
        self._connect_ports(m)
        self._empty_caches(m)
        return m

    def _is_redirected(self, warp: Value) -> Any:
        """Whether the warp is redirected in this cycle."""
        return self.redirect.valid & (self.redirect.payload.warp == warp)

    def _select(self, m: Module, pcs: Words) -> None:
        """SELECT: the warp that is redirected, or the round robin's choice. That
        is a cycle old: the warp may have no room any more, or be in LOOK UP now."""
        chooser = self._chooser
        lookup = self._lookup
        selected = self._selected
        chosen = chooser.chosen
        looked_up_warp = lookup.payload.warp
        can_fetch = self.room & ~self._waiting
        can_fetch_chosen = can_fetch.bit_select(chosen, 1)
        is_in_lookup = lookup.valid & (looked_up_warp == chosen)
        looked_up = one_hot(looked_up_warp, self._params.warps, lookup.valid)
        # The choice is used in the next cycle. The warps that are woken now do not wait any more then.
        waits_on = self._waiting & (~self._wakes).replicate(len(self._waiting))
        m.d.comb += chooser.requests.eq(self.room & ~waits_on & ~looked_up)
        with m.If(self.redirect.valid):
            m.d.comb += selected.valid.eq(1)
            m.d.comb += selected.payload.eq(self._redirected_lookup())
        with m.Else():
            m.d.comb += selected.valid.eq(
                chooser.valid & can_fetch_chosen & ~is_in_lookup & ~self.busy)
            m.d.comb += selected.payload.eq(struct_value(
                group_lookup(self._params), warp=chosen, place=pcs.read(m, chosen)))
        m.d.comb += self._instructions.enable.eq(self._advances)
        m.d.comb += self._instructions.group.eq(selected.payload.place.group)

    def _redirected_lookup(self) -> Any:
        """The warp that is redirected, and its new place."""
        redirect = self.redirect.payload
        return struct_value(
            group_lookup(self._params), warp=redirect.warp, place=_place_of(redirect.pc))

    def _look_up(self, m: Module) -> None:
        """LOOK UP: a hit goes to the resolver. ``_advances`` does not depend on ``_hits``, which is
        known late; so a miss that does not advance makes room in a way of its own, unless a
        redirect that comes now needs the port to the pcs, to write the redirect's pc."""
        lookup = self._lookup
        warp = lookup.payload.warp
        hit = self._resolver.fetched
        m.d.comb += self._is_looked_up.eq(lookup.valid & ~self._is_redirected(warp))
        m.d.comb += self._hits.eq(self._instructions.hit & ~self.busy)
        m.d.comb += self._advances.eq(~self._is_looked_up | hit.ready)
        m.d.comb += self._writes_redirect.eq(self.redirect.valid & ~self._advances)
        with m.If(self._advances):
            m.d.sync += lookup.valid.eq(self._selected.valid)
            m.d.sync += lookup.payload.eq(self._selected.payload)
        with m.Elif(~self._hits & ~self._writes_redirect):
            m.d.sync += lookup.valid.eq(0)

        m.d.comb += hit.valid.eq(self._is_looked_up & self._hits)
        m.d.comb += hit.payload.eq(struct_value(
            fetched(self._params), lookup=lookup.payload, group=self._instructions.stored))
        m.d.comb += self.claimed.valid.eq(hit.valid & hit.ready)
        m.d.comb += self.claimed.payload.eq(warp)
        m.d.sync += Assert(
            ~lookup.valid | ~self._waiting.bit_select(warp, 1),
            "a warp is looked up that waits for its line")

    def _write_pc(self, m: Module, pcs: Words) -> None:
        """The pc with which a warp is selected next: that of a redirect; behind a hit that of the
        next group; else that of the lookup."""
        lookup = self._lookup.payload
        behind = struct_value(Place, group=lookup.place.group + 1, first=0)
        written: Any = Signal(group_lookup(self._params))
        with m.If(self._writes_redirect):
            m.d.comb += written.eq(self._redirected_lookup())
        with m.Elif(self._hits & self._advances):
            m.d.comb += written.eq(struct_value(
                group_lookup(self._params), warp=lookup.warp, place=behind))
        with m.Else():
            m.d.comb += written.eq(lookup)
        writes = self._writes_redirect | self._is_looked_up
        pcs.write(m, writes, written.warp, written.place)

    def _miss(self, m: Module) -> None:
        """MISS: requests the line, unless warps that were woken have still to look up theirs. The
        warp waits if its line is requested now, or cannot be before another line has come. If a
        group is written in the cycle in which the cache is read, or in one of the two cycles after
        it, the warp looks up its group again."""
        instructions = self._instructions
        warp = self._missed_warp
        was_filled = Signal()
        m.d.comb += self._wakes.eq(instructions.filled | self.busy)
        m.d.sync += was_filled.eq(instructions.filled)
        m.d.sync += self._is_missed.eq(
            self._is_looked_up & ~self._hits & ~self._writes_redirect
            & ~self._wakes & ~was_filled)
        m.d.sync += warp.eq(self._lookup.payload.warp)

        m.d.comb += self._must_wait.eq(
            self._is_missed & ~self._wakes & ~self._is_redirected(warp))
        m.d.comb += instructions.wanted.eq(self._must_wait & ~self._woken.any())
        is_requested = instructions.wanted & instructions.can_request
        m.d.comb += self._waits.eq(self._must_wait & (is_requested | instructions.must_wait))

    def _wait(self, m: Module) -> None:
        """Warps that wait for a line, and those that were woken. A warp waits no more when it is
        selected (by a redirect), or when a line has come."""
        instructions = self._instructions
        warps = self._params.warps
        selected = self._selected
        started = one_hot(selected.payload.warp, warps, selected.valid & self._advances)
        missed = one_hot(self._missed_warp, warps, self._waits)
        with m.If(self._wakes):
            m.d.sync += self._waiting.eq(0)
        with m.Else():
            m.d.sync += self._waiting.eq((self._waiting & ~started) | missed)
        with m.If(instructions.filled):
            m.d.sync += self._woken.eq(self._waiting & ~started & self.room)
        with m.Else():
            m.d.sync += self._woken.eq(self._woken & ~started & self.room)

    def _prefetch(self, m: Module) -> None:
        """Lines that may be needed, while no warp in MISS needs the loader. None is evicted until
        the warps that were woken have looked up theirs. A warp enters a line when its group hits,
        or when it begins to wait for the line."""
        prefetcher = self._prefetcher
        instructions = self._instructions
        with m.If(self._waits):
            m.d.comb += prefetcher.entered.valid.eq(1)
            m.d.comb += prefetcher.entered.payload.eq(instructions.missed_line)
        with m.Else():
            m.d.comb += prefetcher.entered.valid.eq(self.claimed.valid)
            m.d.comb += prefetcher.entered.payload.eq(line_of(self._lookup.payload.place.group))
        m.d.comb += prefetcher.group.valid.eq(self.claimed.valid)
        m.d.comb += prefetcher.group.payload.eq(struct_value(
            claimed_group(), place=self._lookup.payload.place, stored=instructions.stored))
        m.d.comb += prefetcher.flush.eq(self.busy)
        m.d.comb += prefetcher.begins.valid.eq(self._is_emptied)
        m.d.comb += prefetcher.begins.payload.eq(self.grid.entry[_LINE_AT:])
        m.d.comb += self._resolver.begins.eq(self._is_emptied)
        m.d.comb += instructions.may_prefetch.eq(~self._must_wait & ~self.busy)
        m.d.comb += instructions.may_evict.eq(~self._woken.any())
        connect(m, prefetcher.lines, instructions.prefetch)

    def _connect_caches(self, m: Module) -> None:
        """Both caches and the loader."""
        instructions = self._instructions
        resolver = self._resolver
        loader = self._loader
        m.d.comb += instructions.program.eq(self.grid.program[_LINE_AT:])
        m.d.comb += instructions.registers.eq(self.grid.registers)
        m.d.comb += resolver.banks.eq(self.grid.banks)
        m.d.comb += loader.constants_are_held.eq(self.busy)
        for inner, outer in zip(instructions.loader, loader.instructions, strict=True):
            connect(m, inner, outer)
        connect(m, resolver.loader, loader.constants)

    def _connect_ports(self, m: Module) -> None:
        """Ports that lead to a part as they are."""
        resolver = self._resolver
        connect(m, flipped(self.memory), self._loader.memory)
        connect(m, flipped(self.indexed), resolver.indexed)
        connect(m, flipped(self.value), resolver.value)
        connect(m, flipped(self.redirect), resolver.redirect)
        connect(m, flipped(self.group), resolver.group)

    def _empty_caches(self, m: Module) -> None:
        """``invalidate``: both caches are cleared, a line a cycle, and stay empty until it is 0. No
        line is requested meanwhile, so an ``invalidate`` that is repeated need not clear again."""
        clear: Any = Event(cache_line(self._params)).create(path=("clear",))
        line = clear.payload
        connect(m, clear, self._instructions.clear, self._resolver.clear)
        is_idle = ~self._instructions.in_flight & ~self._loader.constants.in_flight
        m.d.comb += clear.valid.eq(self.busy & is_idle)
        with m.If(self.invalidate & ~self.busy):
            m.d.sync += self.busy.eq(1)
            m.d.sync += line.eq(0)
        with m.Elif(clear.valid):
            with m.If(line.all()):
                m.d.sync += self.busy.eq(self.invalidate)
            with m.Else():
                m.d.sync += line.eq(line + 1)
        was_busy = Signal()
        m.d.sync += was_busy.eq(self.busy)
        m.d.comb += self._is_emptied.eq(was_busy & ~self.busy)


def _place_of(pc: Signal) -> Any:
    """The group of a pc, and the instruction in it: a group's own pc means the first one."""
    word = pc[_WORD_AT:_GROUP_AT]
    first = Mux(word == 0, 0, word - 1)[:len(word)]
    return data.View(Place, Cat(pc[_GROUP_AT:], first))
