"""The errors of each warp that it has not yet trapped for, by source."""

from itertools import combinations
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import (
    ERROR_SOURCES,
    ErrorEvents,
    Event,
    Origin,
    errors_by_source,
    warp_launch,
)
from rtl.params import SmParams

from .flags import words_in_luts
from .states import trap_passage

__all__ = ["ErrorLog"]

_CODE_BITS = max(error.value for error in WarpError).bit_length()
_MAY_BE_OVERTAKEN = (Origin.FLOW, Origin.MEMORY)
"""Where later instructions of the warp may have issued before an error is known: its pc is kept."""
_BY_AGE = (Origin.MEMORY, Origin.FLOW, Origin.LAST, Origin.NEXT)
"""Of errors of several sources, the older instruction's first. A memory instruction issues when the
flow results before it are known, so it is older than a push that fails as well; a push is older
than what could not be overtaken. A line of a stack belongs to no instruction."""
_SOURCES_BY_AGE = [
    source
    for wanted in _BY_AGE
    for source, origin in reversed(ERROR_SOURCES.items())
    if origin is wanted]


def _table_entry(origin: Origin) -> data.StructLayout:
    """What is kept of a warp's error.

    Fields
    ------
    toggle : 1
        Inverted with each error; see ErrorLog.
    error : code of a WarpError
    pc : 32, or 0
        Of the instruction, if it may have been overtaken.
    """
    return data.StructLayout({
        "toggle": 1,
        "error": _CODE_BITS,
        "pc": 32 if origin in _MAY_BE_OVERTAKEN else 0,
    })


class ErrorLog(Component):
    """Keeps the first error of each warp and source, until the warp enters or leaves the trap, or a
    new warp starts in its slot; and selects the error of a warp's oldest instruction.

    Several sources report in one cycle, so each has a table with an entry a warp. An entry is
    *pending*, a flag a warp and source, while its error counts::

        pending = toggle ^ moves_seen ^ launches_seen

    A memory has one writer, and three places change that flag, so each has its own bit. An error
    sets the flag, if it is 0, by inverting ``toggle``, in the table. ENTER and LEAVE clear it by
    ``moves_seen = toggle ^ launches_seen``; a launch does by ``launches_seen = toggle ^
    moves_seen``.

    Members
    -------
    errors : In(ErrorEvents)
        An error of a flow result inside the trap is not kept: an entry that fails
        has one, too.
    inside : In(warps)
    moved : In(Event of trap_passage)
        The warp's errors do not count any more. With ``enters`` the oldest of them is
        ``status_warp``'s from then on.
    launch : In(Event of warp_launch)
        Errors of the warp that was in the slot do not count any more.
    overtaken, pc : Out(1), Out(32)
        Of the warp that moves: the oldest error belongs to an instruction that a later one may have
        overtaken; its pc.
    last_failed : Out(1)
        Of the warp that moves: the instruction that it issued last has failed.
    status_warp, error : In, Out(code of a WarpError)
        The error with which that warp entered the trap; undefined if it had none.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "errors": In(ErrorEvents(params)),
            "inside": In(params.warps),
            "moved": In(Event(trap_passage(params))),
            "launch": In(Event(warp_launch(params))),
            "overtaken": Out(1),
            "pc": Out(32),
            "last_failed": Out(1),
            "status_warp": In(params.warp_bits),
            "error": Out(_CODE_BITS),
        })
        self.tables = {
            source: words_in_luts(_table_entry(origin), params)
            for source, origin in ERROR_SOURCES.items()}
        self.moves_seen = words_in_luts(len(ERROR_SOURCES), params)
        self.launches_seen = words_in_luts(len(ERROR_SOURCES), params)
        self.entry_codes = words_in_luts(_CODE_BITS, params)
        """The code of the error with which each warp entered the trap."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number, table in enumerate(self.tables.values()):
            m.submodules[f"errors_{number}"] = table
        m.submodules.moves_seen = self.moves_seen
        m.submodules.launches_seen = self.launches_seen
        m.submodules.entry_codes = self.entry_codes
        entries = {
            source: table.read(m, self.moved.payload.warp)
            for source, table in self.tables.items()}
        self._record(m)
        self._clear(m, entries)
        self._select(m, entries)
        return m

    def _cleared(self, m: Module, warp: Any) -> Value:
        """Of each source, the toggle bit that an entry of the warp has while it does not count."""
        return self.moves_seen.read(m, warp) ^ self.launches_seen.read(m, warp)

    def _record(self, m: Module) -> None:
        """Each source records an error, unless one is pending: the first one counts."""
        events = errors_by_source(self.errors)
        for place, (source, table) in enumerate(self.tables.items()):
            event = events[source]
            error = event.payload
            toggle = table.read(m, error.warp).toggle
            is_pending = toggle ^ self._cleared(m, error.warp)[place]
            counts = event.valid & ~is_pending
            if ERROR_SOURCES[source] is Origin.FLOW:
                counts = counts & ~self.inside.bit_select(error.warp, 1)
            table.write(m, counts, error.warp, {
                "toggle": ~toggle,
                "error": error.error,
                "pc": error.pc,
            })

    def _clear(self, m: Module, entries: dict[str, Any]) -> None:
        """After a move or a warp_launch nothing is pending: this place's bit is set so that the
        exclusive or of the three is 0."""
        moved = self.moved.payload.warp
        launched = self.launch.payload.warp
        toggles = Cat(entry.toggle for entry in entries.values())
        launched_toggles = Cat(
            table.read(m, launched).toggle for table in self.tables.values())
        self.moves_seen.write(
            m, self.moved.valid, moved, toggles ^ self.launches_seen.read(m, moved))
        self.launches_seen.write(
            m, self.launch.valid, launched,
            launched_toggles ^ self.moves_seen.read(m, launched))

    def _select(self, m: Module, entries: dict[str, Any]) -> None:
        """The oldest error of the warp that moves, and its code for S2R two cycles later."""
        moved = self.moved
        pending = Signal(len(ERROR_SOURCES))
        toggles = Cat(entry.toggle for entry in entries.values())
        m.d.comb += pending.eq(toggles ^ self._cleared(m, moved.payload.warp))
        is_pending = dict(zip(ERROR_SOURCES, pending, strict=True))
        oldest_code = Signal(_CODE_BITS)
        for number, source in enumerate(_SOURCES_BY_AGE):
            entry = entries[source]
            with m.If(is_pending[source]) if number == 0 else m.Elif(is_pending[source]):
                m.d.sync += oldest_code.eq(entry.error)
                if ERROR_SOURCES[source] in _MAY_BE_OVERTAKEN:
                    m.d.comb += self.overtaken.eq(1)
                    m.d.comb += self.pc.eq(entry.pc)
        last_sources = [
            source for source, origin in ERROR_SOURCES.items() if origin is Origin.LAST]
        m.d.comb += self.last_failed.eq(Cat(is_pending[source] for source in last_sources).any())

        entering = Signal()
        entering_warp = Signal.like(moved.payload.warp)
        m.d.sync += entering.eq(moved.valid & moved.payload.enters)
        m.d.sync += entering_warp.eq(moved.payload.warp)
        self.entry_codes.write(m, entering, entering_warp, oldest_code)
        m.d.comb += self.error.eq(self.entry_codes.read(m, self.status_warp))
        self._promise(m, last_sources)

    def _promise(self, m: Module, last_sources: list[str]) -> None:
        """What the sources promise."""
        events = errors_by_source(self.errors)
        for one, two in combinations((events[source] for source in last_sources), 2):
            both = one.valid & two.valid & (one.payload.warp == two.payload.warp)
            m.d.sync += Assert(~both, "the last instruction of a warp fails twice")
