"""The latency from an event to the issue that depends on it: the rows of the table in
rtl/issue/unit.py.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rtl.isa.control_code import INSTRUCTION_BYTES, NO_BARRIER, ControlCode
from rtl.layouts import COMPLETING
from rtl.layouts import InstructionKind as Kind
from rtl.params import SmParams
from sim.checks.testbench import Bench
from testbench.scheduler.branches import RETURN
from testbench.scheduler.issue_driver import WILLING, Behaviour, IssueDriver, Program
from testbench.scheduler.issue_model import Inputs, Planned, Selection
from testbench.words import encode

__all__ = ["check_latencies"]

_CYCLES = 900
_LEAST = 3
"""The minimum number of measurements of each latency."""
_ALONE = replace(WILLING, ends=0.0, branches=0.0, complete=(12, 30), flow=(12, 30))
"""A warp is delayed only by its own instructions, which take so long that the next one is always
fetched.
"""


@dataclass(frozen=True)
class _Moment:
    """A cycle: its inputs, the scoreboards that each source lowers, the selection, and whether
    nothing of the warp is in flight.
    """

    inputs: Inputs
    events: Mapping[str, tuple[int, ...]]
    selection: Selection | None
    drained: bool


_Event = Callable[[_Moment], bool]


class _TimedDriver(IssueDriver):
    """An issue driver that records every cycle.

    Attributes:
        moments: The recorded cycles.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.moments: list[_Moment] = []
        self._events_of_cycles: list[Mapping[str, tuple[int, ...]]] = [{}]

    def _next(self, last: Any) -> Inputs:
        inputs = super()._next(last)
        lowered = {
            source: tuple(number for number in event[2] if number != NO_BARRIER)
            for source, event in self._going.items()
        }
        self._events_of_cycles.append(lowered)
        return inputs

    def _judge(self, past: Any, selection: Any, instruction: Any, completes: bool) -> None:
        super()._judge(past, selection, instruction, completes)
        events = self._events_of_cycles[len(self.moments)]
        self.moments.append(_Moment(past.inputs, events, selection, bool(past.drained)))


def _each_group(*planned: Planned) -> Program:
    """A program with the same instructions in each group."""

    def group(_warp: int, pc: int) -> list[Planned]:
        return [
            replace(each, pc=pc + INSTRUCTION_BYTES * place)
            for place, each in enumerate(planned, 1)
        ]

    return group


def _planned(kind: Kind, **control: Any) -> Planned:
    word = RETURN if kind is Kind.FLOW else 0
    return Planned(kind, ControlCode(**{"stall": 1, **control}), 0, word)


def _resume(moment: _Moment) -> bool:
    return bool(moment.inputs.resume)


def _result(moment: _Moment) -> bool:
    return moment.inputs.result is not None


def _no_hold(moment: _Moment) -> bool:
    return not moment.inputs.hold


def _room(moment: _Moment) -> bool:
    return bool(moment.inputs.rooms["memory"])


def _completion(*sources: str) -> _Event:
    return lambda moment: any(source in moment.events for source in sources)


def _lowering(*sources: str) -> _Event:
    return lambda moment: any(moment.events.get(source) for source in sources)


_NOTHING = _planned(Kind.NOTHING)
_AWAIT = _planned(Kind.NOTHING, wait=1)
_LIMIT = Planned(
    Kind.DEPENDENCY,
    ControlCode(stall=1),
    0,
    encode("DEPBAR", "at_most", scoreboard=0, count=0, wait=0, at_most=1),
    at_most=(0, 0),
)
_WRITE = _planned(Kind.MEMORY, write_barrier=0)
_READ = _planned(Kind.MEMORY, read_barrier=0)


@dataclass(frozen=True)
class _Row:
    """One row of the table: an event and what it allows.

    Attributes:
        what: Name of the event in messages.
        program: The instructions of each group.
        event: Whether the event occurs in a cycle.
        cycles: Latency from the event to the selection.
        selected: The kind of the instruction that waited. None: the latency to the warp being
            drained is measured.
        late: Additional cycles allowed, since in one of 16 cycles no event leaves a queue.
        behaviour: Behaviour of the units.
    """

    what: str
    program: tuple[Planned, ...]
    event: _Event
    cycles: int
    selected: Kind | None
    late: int = 0
    behaviour: Behaviour = _ALONE


_SLOW = _planned(Kind.NOTHING, stall=15)
_BARRIER = (_planned(Kind.BARRIER), _SLOW, _SLOW)
_FLOW = (_planned(Kind.FLOW), _SLOW, _SLOW)
_BARRIERS = (_planned(Kind.BARRIER),) * 3
_TRAPS = (_planned(Kind.TRAP),) * 3
_FLOWS = (_planned(Kind.FLOW),) * 3
_PUSHES = (_planned(Kind.PUSH), _planned(Kind.MEMORY), _NOTHING)
_WRITES = (_WRITE, _AWAIT, _NOTHING)
_READS = (_READ, _AWAIT, _NOTHING)
_LIMITS = (_WRITE, _LIMIT, _NOTHING)
_COMPLETE = (_planned(Kind.MEMORY), _planned(Kind.BARRIER), _NOTHING)
_DRAINED = (_planned(Kind.BARRIER_READ), _NOTHING, _NOTHING)
_ROWS = (
    _Row("resume of a barrier", _BARRIERS, _resume, 1, Kind.BARRIER),
    _Row("resume of the trap unit", _TRAPS, _resume, 1, Kind.TRAP),
    _Row("resume", _BARRIER, _resume, 1, None),
    _Row("the last flow result", _FLOWS, _result, 1, Kind.FLOW),
    _Row("the last flow result", _FLOW, _result, 1, None),
    _Row("the last result of a push", _PUSHES, _result, 3, Kind.MEMORY),
    _Row(
        "the end of a hold",
        (_NOTHING,) * 3,
        _no_hold,
        1,
        Kind.NOTHING,
        behaviour=replace(_ALONE, holds=0.2),
    ),
    _Row(
        "room of a unit",
        (_planned(Kind.MEMORY),) * 3,
        _room,
        1,
        Kind.MEMORY,
        behaviour=replace(_ALONE, room=0.06),
    ),
    _Row("a scoreboard, lanes", _WRITES, _lowering("lanes"), 4, Kind.NOTHING, late=1),
    _Row("a scoreboard, gathered", _READS, _lowering("gathered"), 4, Kind.NOTHING, late=1),
    _Row("a scoreboard, units", _WRITES, _lowering(*COMPLETING), 5, Kind.NOTHING),
    _Row("a limit, lanes", _LIMITS, _lowering("lanes"), 6, Kind.NOTHING, late=1),
    _Row("a limit, units", _LIMITS, _lowering(*COMPLETING), 7, Kind.NOTHING, late=1),
    _Row("all complete, lanes", _COMPLETE, _completion("lanes"), 5, Kind.BARRIER),
    _Row("all complete, units", _COMPLETE, _completion(*COMPLETING), 6, Kind.BARRIER),
    _Row("drained, lanes", _DRAINED, _completion("lanes"), 6, Kind.NOTHING),
    _Row("drained, units", _DRAINED, _completion(*COMPLETING), 7, Kind.NOTHING),
    _Row("the last of all, lanes", _DRAINED, _completion("lanes"), 4, None),
    _Row("the last of all, units", _DRAINED, _completion(*COMPLETING), 5, None),
)


def _measured(driver: _TimedDriver, row: _Row) -> Counter[int]:
    """How often each latency occurred, in cycles from the last event to the selection, or to the
    first cycle with the warp drained.
    """
    found: Counter[int] = Counter()
    last = None
    has_issued = False
    for cycle, moment in enumerate(driver.moments):
        selected = None if moment.selection is None else moment.selection.kind
        is_end = moment.drained if row.selected is None else selected is row.selected
        if is_end and last is not None:
            found[cycle - last] += 1
        has_issued |= selected is not None
        if is_end or (selected is not None and row.selected is not None):
            last = None
        if has_issued and row.event(moment):
            last = cycle
    return found


def check_latencies(bench: Bench) -> None:
    """The latency from each event to the warp's next instruction is that of the issue unit's
    table.
    """
    drivers: dict[tuple[object, Behaviour], _TimedDriver] = {}
    for row in _ROWS:
        key = row.program, row.behaviour
        if key not in drivers:
            program = _each_group(*row.program)
            drivers[key] = _TimedDriver(bench, SmParams(warps=1), program, row.behaviour)
            drivers[key].run(_CYCLES)
        measured = _measured(drivers[key], row)
        allowed = range(row.cycles, row.cycles + row.late + 1)
        for cycles in measured:
            if cycles not in allowed:
                end = "drained" if row.selected is None else row.selected.name
                bench.fail(f"{row.what}: {end} {cycles} cycles behind it, not {row.cycles}")
        if measured[row.cycles] < _LEAST:
            bench.fail(f"{row.what}: measured only {measured[row.cycles]} times, {dict(measured)}")
        bench.checked(f"cycles behind events: {row.what}", measured.total())
