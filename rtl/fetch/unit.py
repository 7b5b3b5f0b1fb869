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
    """Fetches the instructions of all warps from memory, group by group. ::

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
    SELECT   a warp and its pc: the warp that is redirected, or the choice of the
             round robin. The instruction cache is read
    LOOK UP  hit: the group is sent to the resolver, and the warp's pc advances to
             the next group. Miss: the pc does not change
    MISS     if the loader is free, the line is requested, and the warp waits. If a
             line in flight has the same index in the cache, or is this line, or the
             loader has no free port, the warp waits without a request. Otherwise
             the warp is selected again
    =======  ======================================================================

    Program and constants are cached; both are assumed not to change until ``invalidate``.

    Hit: the group leaves LOOK UP when the resolver accepts it. Until then LOOK UP stalls.

    Miss: the lookup leaves LOOK UP whether the resolver is ready or not. When a line has arrived,
    all waiting warps are woken and look up their groups again. Another line is requested only after
    all of them have done so, since it might evict their lines.

    Prefetch: the prefetcher observes which lines warps enter and which groups they receive. It
    proposes the next line, and the line of a branch's target in the group. The instruction cache
    requests these lines when no miss needs the loader.

    Preload: when the caches have become empty, at the start of a grid or by a request of the host,
    the kernel's first lines and the constants that most kernels read first are requested.

    Redirect: the warp is selected in the cycle of the redirect, before others, and no longer waits
    for a line. If LOOK UP stalls, only the new pc is written: a warp that waits for a line then
    still waits until a line arrives. The warp's lookup and its groups in the resolver are squashed.

    Invalidate: all lookups miss until both caches are empty and ``invalidate`` is 0. The caches are
    cleared one line a cycle, after the last outstanding line has arrived.

    Members
    -------
    grid : In(GridConfiguration)
        ``program`` is the address of a line.
    redirect : In(Event of redirect)
        The warp continues at this pc. Its groups in this cycle and later are from there.
    room : In(1 bit a warp)
        The warp runs, and issue has a place for one more group of it beyond those claimed.
    claimed : Out(Event of a warp)
        A group of the warp will arrive, unless the warp is redirected.
    group : Out(Event of fetched_group)
    indexed, value : In(stream of indexed_request), Out(stream of indexed_response)
        Another reader of the constant cache, a word at a time.
    invalidate : In(1)
        Both caches become empty, and remain empty while it is 1: later lookups read memory. Groups
        that were claimed before arrive unchanged.
    busy : Out(1)
        The caches are becoming empty, and no group is claimed.
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
        # The choice of SELECT; the register of LOOK UP; LOOK UP accepts the choice in this cycle.
        self._selected: Any = Event(group_lookup(params)).create(path=("selected",))
        self._lookup: Any = Event(group_lookup(params)).create(path=("lookup",))
        self._advances = Signal()
        # A valid lookup whose warp is not redirected; its group is in the cache.
        self._is_looked_up = Signal()
        self._hits = Signal()
        # LOOK UP stalls: the redirect's pc is written instead of being looked up.
        self._writes_redirect = Signal()
        # The register of MISS and its warp; the warp still needs its line; it begins to wait.
        self._is_missed = Signal()
        self._missed_warp = Signal(params.warp_bits)
        self._must_wait = Signal()
        self._waits = Signal()
        # Warps that wait for a line; warps that the last line has woken, and that have not looked
        # up their group since; all waiting warps are woken in this cycle.
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
        """SELECT: selects the warp that is redirected, or the choice of the round robin. The choice
        is a cycle old: issue may have no room for the warp any more, or the warp may be in LOOK UP
        now."""
        chooser = self._chooser
        lookup = self._lookup
        selected = self._selected
        chosen = chooser.chosen
        looked_up_warp = lookup.payload.warp
        can_fetch = self.room & ~self._waiting
        can_fetch_chosen = can_fetch.bit_select(chosen, 1)
        is_in_lookup = lookup.valid & (looked_up_warp == chosen)
        looked_up = one_hot(looked_up_warp, self._params.warps, lookup.valid)
        # The choice is used in the next cycle, in which warps that are woken now no longer wait.
        still_waiting = self._waiting & (~self._wakes).replicate(len(self._waiting))
        m.d.comb += chooser.requests.eq(self.room & ~still_waiting & ~looked_up)
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
        """The warp that is redirected, and its new group."""
        redirect = self.redirect.payload
        return struct_value(
            group_lookup(self._params), warp=redirect.warp, place=_place_of(redirect.pc))

    def _look_up(self, m: Module) -> None:
        """LOOK UP: sends a hit to the resolver. ``_advances`` does not depend on ``_hits``, which
        is known late. So if the resolver is not ready, a miss does not advance but clears
        ``valid``. It keeps ``valid`` if a redirect in this cycle needs the write port of the pcs.
        """
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
        """Writes the pc with which a warp is selected next: that of a redirect; after a hit that of
        the next group; otherwise that of the lookup."""
        lookup = self._lookup.payload
        next_place = struct_value(Place, group=lookup.place.group + 1, first=0)
        written: Any = Signal(group_lookup(self._params))
        with m.If(self._writes_redirect):
            m.d.comb += written.eq(self._redirected_lookup())
        with m.Elif(self._hits & self._advances):
            m.d.comb += written.eq(struct_value(
                group_lookup(self._params), warp=lookup.warp, place=next_place))
        with m.Else():
            m.d.comb += written.eq(lookup)
        writes = self._writes_redirect | self._is_looked_up
        pcs.write(m, writes, written.warp, written.place)

    def _miss(self, m: Module) -> None:
        """MISS: requests the line, unless woken warps have not looked up their groups yet. The warp
        waits if its line is requested now, or cannot be requested until another line has arrived.
        If a group is written in the cycle in which the cache is read, or in one of the next two
        cycles, the warp looks up its group again."""
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
        """Updates the waiting and the woken warps. A warp stops waiting when a redirect selects it,
        or when a line has arrived."""
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
        """Connects the prefetcher. Lines are prefetched while no warp in MISS needs the loader.
        They evict no line until the woken warps have looked up their groups. A warp enters a line
        when its group hits, or when it begins to wait for the line."""
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
        """Connects both caches and the loader."""
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
        """Connects ports that one part serves."""
        resolver = self._resolver
        connect(m, flipped(self.memory), self._loader.memory)
        connect(m, flipped(self.indexed), resolver.indexed)
        connect(m, flipped(self.value), resolver.value)
        connect(m, flipped(self.redirect), resolver.redirect)
        connect(m, flipped(self.group), resolver.group)

    def _empty_caches(self, m: Module) -> None:
        """``invalidate``: clears both caches, a line a cycle; they remain empty until it is 0. No
        line is requested meanwhile, so a repeated ``invalidate`` need not clear again."""
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
    """The group of a pc, and the instruction in it. The address of a group, which is that of its
    control word, stands for its first instruction."""
    word = pc[_WORD_AT:_GROUP_AT]
    first = Mux(word == 0, 0, word - 1)[:len(word)]
    return data.View(Place, Cat(pc[_GROUP_AT:], first))
