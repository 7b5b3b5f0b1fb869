"""What each instruction of a program costs: cycles of its warps, by what they wait for, threads, lines, bank passes."""

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
"""From the cycle in which an instruction is selected to the one in which its issue is reported; a
serial machine reports it at once."""
_OF_LAST = frozenset({WaitReason.FLOW, WaitReason.STALL, WaitReason.RESUME, WaitReason.TRAP})
"""For these a warp waits because of the instruction that it has issued last; for all others the one that it issues next
waits."""
_OF_LAST_SERIAL = _OF_LAST | {WaitReason.DRAIN}
"""The same for a serial machine, where DRAIN means that the warp's instruction is under way."""

_PASSED_KINDS = (BeatKind.SHARED.value, BeatKind.LANES.value)
"""Words that pass between threads and shared memory, or between threads; others are of lines."""


@dataclass(slots=True)
class Cost:
    """What an instruction has cost in all warps.

    Attributes:
        pc, text: Where it is, and how it is spelled.
        issues: How often a warp has issued it.
        threads: Active threads, in all of these.
        waits: Cycles of warps, by what they were at; READY counts the cycle of the issue, too.
        latency: Cycles from issue to end, of those that have ended.
        ended: How many these are.
        lines: Lines of memory that it has asked for.
        passes: Cycles in which words of its threads passed to or from the banks: of shared memory, or of a shuffle.
        conflicts: Passes that were not the last one of half a beat, because its threads accessed different words of
            one bank. An atomic operation is a pass for each thread, wherever their words are, and has no conflicts.
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
        """Cycles of warps, all together."""
        return sum(self.waits.values())

    @property
    def not_selected(self) -> int:
        """Cycles in which a warp was READY, without those of the issues."""
        return max(0, self.waits[WaitReason.READY] - self.issues)


class _MemoryWatch(ABC):
    """Counts what the memory unit does for each pc: of ``parts``, by name, it knows what they are in each cycle."""

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
        """Takes changes, in order of cycles."""
        for cycle, number, value in changes:
            if cycle != self._cycle:
                self.finish(cycle)
            for name, start, mask in self._parts[number]:
                self._now[name] = value >> start & mask

    def finish(self, cycles: int) -> None:
        """Nothing more comes until then."""
        self._pass(cycles - self._cycle)
        self._cycle = cycles

    @abstractmethod
    def _pass(self, cycles: int) -> None:
        """So many cycles pass without a change."""


class PipelineWatch(_MemoryWatch):
    """Of the pipelined unit: instructions by their slots."""

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
            # The crossbar's halves have all passed: a thread's new number is written.
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
        """Counts cycles for the instruction in the slot that this part has now."""
        if (pc := self._slots.get(self._now[slot])) is not None:
            counted[pc] += cycles


class SerialWatch(_MemoryWatch):
    """Of a serial machine's unit, which has one instruction: a thread's word at a time, so nothing is in conflict."""

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
    """Watches a machine; ``Hardware(..., watched=profile.watched)``, and ``finish`` in the end.

    Attributes:
        timeline: What every warp did.
        costs: Instructions by pc, those that were issued; known in the end.
    """

    def __init__(self, params: SmParams) -> None:
        self.timeline = Timeline(params)
        self.costs: dict[int, Cost] = {}

    def watched(self, sm: Any) -> list[Any]:
        """The signals of the machine that are observed, and their listener."""
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
        """Gives the cycles of a span to the instructions of its warp: those up to a selection to the one that is
        selected, or those behind it."""
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
        """Instructions, the most expensive first."""
        return sorted(self.costs.values(), key=lambda cost: (-cost.cycles, cost.pc))
