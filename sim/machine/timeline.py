"""The timeline of every warp: its wait reason in every cycle, and its instructions from issue to
completion.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rtl.isa.errors import WarpError
from rtl.layouts import InstructionKind, WaitReason, kinds_where
from rtl.params import SmParams
from sim.engine import Change
from sim.machine.retirement_events import EventReader, RetirementEvent
from sim.toolchain.assembly.spelling import spell

__all__ = ["IssuedInstruction", "Span", "Timeline"]

_FLOW = kinds_where(lambda rule: rule.unit == "flow")
"""Kinds of instructions that are complete with their flow result."""


@dataclass(frozen=True, slots=True)
class Span:
    """A warp's state from cycle ``begin`` up to, but not including, ``end``."""

    warp: int
    begin: int
    end: int
    reason: WaitReason


@dataclass(slots=True)
class IssuedInstruction:
    """An instruction that a warp has issued.

    Attributes:
        end: The cycle of completion, None while it is in flight.
        active: The warp's active threads at the issue, as known from the flow results until then.
        kind: The value of an InstructionKind.
    """

    warp: int
    cycle: int
    pc: int
    word: int
    kind: int
    active: int
    end: int | None = None
    error: WarpError = WarpError.NONE

    @property
    def text(self) -> str:
        """The instruction's text."""
        return spell(self.word, self.pc)


class Timeline:
    """Observes a machine: pass ``watched`` to ``Hardware(..., watched=timeline.watched)``, and call
    ``finish`` at the end.

    Attributes:
        spans: The states of warps, in the order in which they ended; slots without a warp have
            none.
        executed: Instructions, in the order of issue.
        cycles: Length of the recording from the reset on, in cycles, as a waveform counts;
            available after ``finish``.
        grid_cycles: Number of these cycles in which the grid ran; available after ``finish``.
    """

    def __init__(self, params: SmParams) -> None:
        self.params = params
        self._begin()

    def _begin(self) -> None:
        """Initialises an empty recording."""
        warps = self.params.warps
        self.spans: list[Span] = []
        self.executed: list[IssuedInstruction] = []
        self.cycles = self.grid_cycles = 0
        self._present: dict[int, tuple[int, WaitReason]] = {}
        """The state of each live warp, and its first cycle."""
        self._active = [0] * warps
        self._open: dict[tuple[int, int], IssuedInstruction] = {}
        self._flow: list[deque[IssuedInstruction | None]] = [deque() for _ in range(warps)]
        """Queues of expected flow results: instructions, and None for launches."""

    def restart(self) -> None:
        """Restarts the recording after a reset of the machine, for another launch."""
        self._begin()
        self._reader.begin(self._take)

    def watched(self, sm: Any) -> list[Any]:
        """Returns the observed signals of the machine, and their receivers."""
        self._reader = EventReader(sm.retired)
        self._reader.begin(self._take)
        return [
            ([reason.as_value() for reason in sm.core.reasons], self._reasons),
            (self._reader.signals, self._reader.changes),
        ]

    @property
    def end(self) -> int:
        """The cycle in which the last warp has ended, as far as recorded."""
        return max((span.end for span in self.spans), default=self.cycles)

    def finish(self, cycles: int, grid_cycles: int) -> None:
        """Ends the recording; see ``cycles`` and ``grid_cycles``."""
        self._reader.finish(cycles)
        self.cycles, self.grid_cycles = cycles, grid_cycles
        for warp in range(self.params.warps):
            self._change(cycles, warp, WaitReason.NOT_LIVE)

    def _reasons(self, changes: Sequence[Change]) -> None:
        for cycle, warp, value in changes:
            self._change(cycle, warp, WaitReason(value))

    def _change(self, cycle: int, warp: int, reason: WaitReason) -> None:
        if (present := self._present.pop(warp, None)) is not None:
            begin, before = present
            if cycle > begin:
                self.spans.append(Span(warp, begin, cycle, before))
        if reason is not WaitReason.NOT_LIVE:
            self._present[warp] = cycle, reason

    def _take(self, event: RetirementEvent) -> None:
        fields = event.fields
        warp = fields.get("warp", 0)
        if event.member == "issued":
            executed = IssuedInstruction(
                warp, event.cycle, fields["pc"], fields["word"], fields["kind"], self._active[warp]
            )
            self.executed.append(executed)
            self._open[warp, fields["sequence"]] = executed
            if InstructionKind(executed.kind) in _FLOW:
                self._flow[warp].append(executed)
        elif event.member == "completed":
            if (executed := self._open.pop((warp, fields["sequence"]), None)) is not None:
                executed.end = event.cycle
        elif event.member == "flow":
            self._active[warp] = fields["active"]
            if self._flow[warp] and (executed := self._flow[warp].popleft()) is not None:
                executed.end = executed.end or event.cycle
        elif event.member == "launched":
            self._flow[warp].append(None)
        elif event.member == "errors":
            for executed in self._open.values():
                if executed.warp == warp and executed.pc == fields["pc"]:
                    executed.error = WarpError(fields["error"])
