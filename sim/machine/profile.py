"""The cost of each instruction of a program: warp cycles by wait reason, threads, lines, bank
passes.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Signal

from rtl.layouts import WaitReason
from rtl.memory.instruction import BeatKind
from rtl.params import SmParams
from sim.engine import Change
from sim.machine.timeline import IssuedInstruction, Timeline
from sim.toolchain.assembly.spelling import spell
from sim.waves.traces import bits_of

__all__ = ["Cost", "PipelineWatch", "Profile", "SerialWatch"]

ISSUE_CYCLES = 2
"""Cycles from the selection of an instruction to the report of its issue; a serial machine reports
it at once.
"""
_OF_LAST = frozenset({WaitReason.FLOW, WaitReason.STALL, WaitReason.RESUME, WaitReason.TRAP})
"""Reasons for which a warp waits because of its last issued instruction; for the others, the next
instruction waits.
"""
_OF_LAST_SERIAL = _OF_LAST | {WaitReason.DRAIN}
"""The same for a serial machine, where DRAIN means that the warp's instruction is executing."""

_PASSED_KINDS = (BeatKind.SHARED.value, BeatKind.LANES.value)
"""Beats that move words between threads and shared memory, or between threads; other beats move
lines.
"""


@dataclass(slots=True)
class Cost:
    """The cost of an instruction in all warps.

    Attributes:
        pc: Address of the instruction.
        text: Its disassembly.
        issues: Number of issues.
        threads: Active threads, summed over the issues.
        waits: Warp cycles by reason; READY includes the cycle of the issue.
        latency: Cycles from issue to completion, summed over completed issues.
        ended: Number of completed issues.
        lines: Lines of memory that it requested.
        passes: Cycles in which words of its threads moved to or from the banks of shared memory, or
            in a shuffle.
        conflicts: Passes that were not the last one of half a beat, because its threads accessed
            different words of one bank. An atomic operation has one pass for each thread, wherever
            the words are, and no conflicts.
    """

    pc: int
    text: str
    issues: int = 0
    threads: int = 0
    waits: Counter[WaitReason] = field(default_factory=Counter)
    latency: int = 0
    ended: int = 0
    lines: int = 0
    passes: int = 0
    conflicts: int = 0

    @property
    def cycles(self) -> int:
        """Sum of the warp cycles."""
        return sum(self.waits.values())

    @property
    def not_selected(self) -> int:
        """Warp cycles in state READY without the cycles of the issues."""
        return max(0, self.waits[WaitReason.READY] - self.issues)


class _MemoryWatch(ABC):
    """Counts the work of the memory unit for each pc. ``parts`` are the observed values of the
    unit, by name.
    """

    def __init__(self, parts: Mapping[str, Any]) -> None:
        bits = {name: bits_of(part, name) for name, part in parts.items()}
        numbers: dict[int, int] = {}
        self.signals: list[Signal] = []
        self._parts: list[list[tuple[str, int, int]]] = []
        for name, (signal, start, width) in bits.items():
            number = numbers.setdefault(id(signal), len(self.signals))
            if number == len(self.signals):
                self.signals.append(signal)
                self._parts.append([])
            self._parts[number].append((name, start, (1 << width) - 1))
        self._now = dict.fromkeys(parts, 0)
        self._cycle = 0
        self.lines: Counter[int] = Counter()
        self.passes: Counter[int] = Counter()
        self.conflicts: Counter[int] = Counter()

    def changes(self, changes: Sequence[Change]) -> None:
        """Processes changes, in order of cycles."""
        for cycle, number, value in changes:
            if cycle != self._cycle:
                self.finish(cycle)
            for name, start, mask in self._parts[number]:
                self._now[name] = value >> start & mask

    def finish(self, cycles: int) -> None:
        """Counts the cycles up to ``cycles``, without further changes."""
        self._pass(cycles - self._cycle)
        self._cycle = cycles

    @abstractmethod
    def _pass(self, cycles: int) -> None:
        """Counts this many cycles without a change."""


class PipelineWatch(_MemoryWatch):
    """Observes the pipelined memory unit: instructions by their slots."""

    def __init__(self, unit: Any, _params: SmParams) -> None:
        begun, found, crossbar, atomic = (
            unit.front.begun,
            unit.access.found,
            unit.crossbar,
            unit.atomic,
        )
        half = crossbar.located.job
        super().__init__(
            {
                "begun": begun.valid,
                "slot": begun.payload.slot,
                "pc": begun.payload.job.pc,
                "found": found.valid,
                "taken": found.ready,
                "found_slot": found.payload.slot,
                "pending": crossbar.pending,
                "conflict": crossbar.has_conflict,
                "kind": half.kind,
                "half_slot": half.slot,
                "shared": crossbar.shared,
                "atomic": atomic.busy,
                "atomic_slot": atomic.read.slot,
            }
        )
        self._slots: dict[int, int] = {}

    def _pass(self, cycles: int) -> None:
        now = self._now
        if now["atomic"]:
            # Both halves of the crossbar have passed: a thread's new value is written.
            if now["shared"]:
                self._count(self.passes, "atomic_slot", cycles)
        elif now["pending"] and now["kind"] in _PASSED_KINDS:
            self._count(self.passes, "half_slot", cycles)
            if now["conflict"]:
                self._count(self.conflicts, "half_slot", cycles)
        if now["found"] and now["taken"]:
            self._count(self.lines, "found_slot", cycles)
        if now["begun"]:
            self._slots[now["slot"]] = now["pc"]

    def _count(self, counted: Counter[int], slot: str, cycles: int) -> None:
        """Adds cycles to the instruction that is in this slot."""
        if (pc := self._slots.get(self._now[slot])) is not None:
            counted[pc] += cycles


class SerialWatch(_MemoryWatch):
    """Observes a serial machine's memory unit, which has one instruction and moves one word at a
    time, without conflicts.
    """

    def __init__(self, unit: Any, _params: SmParams) -> None:
        dispatch, events = unit.dispatch, unit.events
        super().__init__(
            {
                "begun": dispatch.valid,
                "pc": dispatch.payload.pc,
                "line": events.line,
                "shared": events.shared,
            }
        )
        self._pc: int | None = None

    def _pass(self, cycles: int) -> None:
        now = self._now
        if self._pc is not None:
            self.lines[self._pc] += cycles * now["line"]
            self.passes[self._pc] += cycles * now["shared"]
        if now["begun"]:
            self._pc = now["pc"]


class Profile:
    """Observes a machine: pass ``watched`` to ``Hardware(..., watched=profile.watched)``, and call
    ``finish`` at the end.

    Attributes:
        timeline: The states of every warp.
        costs: The cost of issued instructions by pc; available after ``finish``.
    """

    def __init__(self, params: SmParams) -> None:
        self.timeline = Timeline(params)
        self.costs: dict[int, Cost] = {}

    def watched(self, sm: Any) -> list[Any]:
        """Returns the observed signals of the machine, and their receiver."""
        watch = SerialWatch if self.timeline.params.serial else PipelineWatch
        self._memory: _MemoryWatch = watch(sm.core.memory, self.timeline.params)
        return [*self.timeline.watched(sm), (self._memory.signals, self._memory.changes)]

    def finish(self, cycles: int, grid_cycles: int) -> None:
        """Ends the recording; see :class:`Timeline`."""
        self.timeline.finish(cycles, grid_cycles)
        self._memory.finish(cycles)
        warps: list[list[IssuedInstruction]] = [[] for _ in range(self.timeline.params.warps)]
        for one in self.timeline.executed:
            warps[one.warp].append(one)
            cost = self._cost(one.pc, one.word)
            cost.issues += 1
            cost.threads += one.active.bit_count()
            if one.end is not None:
                cost.latency += one.end - one.cycle
                cost.ended += 1
        before = 0 if self.timeline.params.serial else ISSUE_CYCLES
        selected = [[one.cycle - before for one in issued] for issued in warps]
        for span in self.timeline.spans:
            self._spend(span.begin, span.end, span.reason, warps[span.warp], selected[span.warp])
        for pc, cost in self.costs.items():
            cost.lines = self._memory.lines[pc]
            cost.passes = self._memory.passes[pc]
            cost.conflicts = self._memory.conflicts[pc]

    def _cost(self, pc: int, word: int) -> Cost:
        if pc not in self.costs:
            self.costs[pc] = Cost(pc, spell(word, pc))
        return self.costs[pc]

    def _spend(
        self,
        begin: int,
        end: int,
        reason: WaitReason,
        issued: Sequence[IssuedInstruction],
        selected: Sequence[int],
    ) -> None:
        """Distributes the cycles of a span over the instructions of its warp: those up to a
        selection to the selected instruction, the others to the issued one.
        """
        if not issued:
            return
        back = reason in (_OF_LAST_SERIAL if self.timeline.params.serial else _OF_LAST)
        at = bisect_left(selected, begin)
        while begin < end:
            until = min(end, selected[at] + 1) if at < len(selected) else end
            one = issued[min(max(at - back, 0), len(issued) - 1)]
            self.costs[one.pc].waits[reason] += until - begin
            begin, at = until, at + 1

    @property
    def hottest(self) -> list[Cost]:
        """Returns the costs, highest first."""
        return sorted(self.costs.values(), key=lambda cost: (-cost.cycles, cost.pc))
