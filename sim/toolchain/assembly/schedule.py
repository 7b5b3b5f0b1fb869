"""Assigns control codes to instructions without them: stall counts, scoreboards, waits.

In straight-line code stall counts keep the distances, and scoreboards signal results of variable
latency. An instruction that may transfer control first waits until nothing is in flight, so all
results are available at any successor. An unguarded EXIT needs no wait: its threads end, unless
PEXIT revives them.

Control codes in the text are not changed. Dependences on or of an instruction without a code are
always safe; it is an error if a given code makes this impossible. Dependences between two
instructions with given codes are not checked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rtl.isa.control_code import NO_BARRIER, SCOREBOARDS, ControlCode
from rtl.isa.syntax import Form, Pipe
from sim.toolchain.grammar import Place, SourceError

from .latency import (
    LONGEST,
    SCOREBOARD_VISIBLE,
    Operation,
    Resource,
    ResourceKind,
    completion,
    operation,
    overwrite_distance,
    read_distance,
)

__all__ = ["ScheduleSlot", "schedule"]

_YIELD_FROM = 12
"""The stall from which NVIDIA's assembler sets the yield hint."""


@dataclass(frozen=True)
class ScheduleSlot:
    """An instruction to be scheduled: its word, its place in the text, its reuse bits, the control
    code from the text, and whether it has a label.
    """

    word: int
    token: Place
    reuse: int
    control: ControlCode | None
    joins: bool


class _Timed(NamedTuple):
    """A result of fixed latency: the cycle in which its instruction issued, and the instruction's
    index. The index is None if the result comes from another path, so that nothing before it can be
    delayed.
    """

    issued: int
    index: int | None
    given: bool


class _Completion(NamedTuple):
    """A completion that later instructions wait for.

    Attributes:
        signal: The scoreboard that it lowers, or, without one, its pipe, which completes
            instructions in order.
        given: Whether the text gives the instruction's control code.
    """

    signal: int | Pipe
    given: bool


_Key = tuple[Resource, Form, bool, bool]
"""A result of fixed latency: its resource and form, whether the text gives the code, and whether it
comes from another path.
"""
_Completions = dict[Resource, frozenset[_Completion]]
_NOTHING: frozenset[_Completion] = frozenset()


@dataclass
class _Flight:
    """The operations in flight at one point of the code, in cycle ``now``.

    Attributes:
        fixed: Results of fixed latency.
        written: For each resource, the completions that a reader or writer must wait for: results
            of variable latency.
        read: For each resource, the completions that a writer must wait for: late reads of sources.
        raised: Scoreboards that were raised recently, in this straight-line code.
        is_signalled_by_pipe: Whether some completion has no scoreboard, so that a later one of the
            same pipe signals it.
    """

    fixed: dict[_Key, _Timed] = field(default_factory=dict)
    written: _Completions = field(default_factory=dict)
    read: _Completions = field(default_factory=dict)
    raised: dict[int, _Timed] = field(default_factory=dict)
    now: int = 0
    is_signalled_by_pipe: bool = False

    def age(self, timed: _Timed) -> int:
        """Returns the cycles since an instruction issued."""
        return self.now - timed.issued

    def forget_old(self) -> None:
        """Drops results that are available by now."""
        old = [key for key, timed in self.fixed.items() if self.now - timed.issued >= LONGEST]
        for key in old:
            del self.fixed[key]

    def pass_time(self, cycles: int, upto: int | None = None) -> None:
        """Advances time by some cycles, for results up to the instruction with index ``upto``, or
        for all.
        """
        self.now += cycles
        if upto is None:
            return
        for pending in (self.fixed, self.raised):
            behind = [
                (key, timed)
                for key, timed in pending.items()
                if timed.index is not None and timed.index > upto
            ]
            for key, timed in behind:
                pending[key] = timed._replace(issued=timed.issued + cycles)  # type: ignore[index]

    def settle(self, scoreboards: Iterable[int]) -> None:
        """Records that these scoreboards are zero."""
        zero = set(scoreboards)
        if not zero:
            return
        self.written, self.read = (
            {
                key: left
                for key, completions in pending.items()
                if (
                    left := frozenset(
                        awaited for awaited in completions if awaited.signal not in zero
                    )
                )
            }
            for pending in (self.written, self.read)
        )

    def adopt(self, pipe: Pipe, scoreboard: int, results: bool) -> None:
        """Lets a scoreboard signal all earlier completions of the same pipe, which works in order.
        With ``results`` it signals results and reads, otherwise reads only.
        """
        if not self.is_signalled_by_pipe:
            return
        for pending in (self.written, self.read) if results else (self.read,):
            for key, completions in pending.items():
                pending[key] = frozenset(
                    awaited._replace(signal=scoreboard) if awaited.signal is pipe else awaited
                    for awaited in completions
                )

    def merge(self, other: "_Flight") -> None:
        """Adds the operations that may be in flight on another path."""
        other.forget_old()
        for (resource, form, given, _), timed in other.fixed.items():
            key = resource, form, given, True
            age = other.age(timed)
            if key not in self.fixed or age < self.age(self.fixed[key]):
                self.fixed[key] = _Timed(self.now - age, None, timed.given)
        self.is_signalled_by_pipe |= other.is_signalled_by_pipe
        for pending, more in ((self.written, other.written), (self.read, other.read)):
            for key, completions in more.items():
                pending[key] = pending.get(key, frozenset()) | completions

    def pending(self) -> frozenset[_Completion]:
        """All completions that an instruction may have to wait for."""
        return frozenset().union(*self.written.values(), *self.read.values())

    def copy(self) -> "_Flight":
        """Returns a copy that can be changed."""
        return replace(
            self,
            fixed=dict(self.fixed),
            written=dict(self.written),
            read=dict(self.read),
            raised=dict(self.raised),
        )


def schedule(slots: Sequence[ScheduleSlot]) -> list[ControlCode]:
    """Returns the control codes of a code section.

    Raises:
        SourceError: Given control codes make a safe schedule impossible.
    """
    given = [slot.control for slot in slots if slot.control is not None]
    if len(given) == len(slots):
        return given
    scheduler = _Scheduler(slots)
    while True:
        arriving = scheduler.arriving.copy()
        codes = scheduler.run()
        if scheduler.arriving == arriving:
            return codes


class _Scheduler:
    """Schedules one code section. ``arriving`` are the operations that branches with given codes
    leave in flight.
    """

    def __init__(self, slots: Sequence[ScheduleSlot]) -> None:
        self.slots = slots
        self.operations = [operation(slot.word) for slot in slots]
        self.arriving = _Flight()
        self.revives = any(op is not None and op.form.name == "PEXIT" for op in self.operations)
        self.readers: dict[ResourceKind, set[Form]] = {kind: set() for kind in ResourceKind}
        for op in self.operations:
            for kind, _ in op.reads if op is not None else ():
                self.readers[kind].add(op.form)  # type: ignore[union-attr]
        self.worst_distances: dict[tuple[Form, ResourceKind], int] = {}
        self.unsignalled_reads = self._unsignalled_reads()

    def run(self) -> list[ControlCode]:
        """Runs one pass over the code."""
        self.flight = _Flight()
        self.codes: list[ControlCode] = []
        self.stalls: list[int] = []
        """The stall counts of the codes so far."""
        self.least_recent = list(range(SCOREBOARDS))
        after_transfer = False
        for index, (slot, op) in enumerate(zip(self.slots, self.operations, strict=True)):
            if slot.joins or after_transfer:
                self.flight.merge(self.arriving)
            if op is None:
                self._unknown(slot)
            elif slot.control is not None:
                self._given(slot, slot.control, op)
            else:
                self._free(index, slot, op)
            after_transfer = op is not None and op.transfers
        return [self._finished(index) for index in range(len(self.codes))]

    def _add(self, code: ControlCode) -> None:
        self.codes.append(code)
        self.stalls.append(code.stall)

    def _finished(self, index: int) -> ControlCode:
        """Returns the final code of an instruction, with the yield hint if its stall is long."""
        code, op = self.codes[index], self.operations[index]
        stall, no_yield = self.stalls[index], code.no_yield
        if self.slots[index].control is None and op is not None and op.form.pipe is not Pipe.FLOW:
            no_yield = int(stall < _YIELD_FROM)
        return ControlCode(
            stall, no_yield, code.write_barrier, code.read_barrier, code.wait, code.reuse
        )

    def _unknown(self, slot: ScheduleSlot) -> None:
        """Handles a word that is no instruction: it stops the machine."""
        self._add(slot.control if slot.control is not None else ControlCode(stall=LONGEST))
        self.flight.pass_time(LONGEST)

    def _given(self, slot: ScheduleSlot, code: ControlCode, op: Operation) -> None:
        """Handles an instruction with a control code in the text."""
        self._keep_distance(slot, op)
        waits = {number for number in range(SCOREBOARDS) if code.wait >> number & 1}
        self._let_rise(
            slot,
            {
                number
                for number in waits & self.flight.raised.keys()
                if not self.flight.raised[number].given
            },
        )
        self.flight.settle(waits)
        if any(not awaited.given for awaited in self._needed(op)):
            raise SourceError(
                slot.token,
                "this instruction must wait for an earlier one without control codes, for "
                "which its own do not: leave them to the assembler",
            )
        self._launch(op, code, True)
        if op.reads_late:
            unsignalled = code.write_barrier if code.write_barrier != NO_BARRIER else op.form.pipe
            self._note_reads(
                op, code.read_barrier if code.read_barrier != NO_BARRIER else unsignalled, True
            )
        self._add(code)
        self.flight.pass_time(max(code.stall, 1))
        if self._ends(op):
            self.flight = _Flight()
        if op.transfers:
            self.arriving.merge(self.flight)

    def _free(self, index: int, slot: ScheduleSlot, op: Operation) -> None:
        """Handles an instruction without a control code."""
        drains = op.transfers and not self._ends(op)
        self._keep_distance(slot, op)
        waits = self._waits(slot, op, drains)
        self.flight.settle(waits)
        stall = op.stall
        if drains:
            stall = max(
                [
                    stall,
                    *(
                        self._worst_distance(form, resource[0]) - self.flight.age(timed)
                        for (resource, form, *_), timed in self.flight.fixed.items()
                    ),
                ]
            )
        write_barrier = self._allot(NO_BARRIER) if op.variable and op.writes else NO_BARRIER
        read_barrier = self._allot(write_barrier) if self.unsignalled_reads[index] else NO_BARRIER
        code = ControlCode(
            stall=stall,
            write_barrier=write_barrier,
            read_barrier=read_barrier,
            wait=sum(1 << number for number in waits),
            reuse=slot.reuse,
        )
        self._launch(op, code, False)
        if code.read_barrier != NO_BARRIER:
            self._note_reads(op, code.read_barrier, False)
        self._add(code)
        self.flight.pass_time(stall)
        if op.transfers:
            self.flight = _Flight()

    def _ends(self, op: Operation) -> bool:
        """Whether no thread continues after an instruction."""
        return op.form.name == "EXIT" and not op.guarded and not self.revives

    def _keep_distance(self, slot: ScheduleSlot, op: Operation) -> None:
        """Makes an earlier instruction stall until all results of fixed latency are available."""
        self.flight.forget_old()
        touched = op.touched
        for key in [key for key in self.flight.fixed if key[0] in touched]:
            resource, form, given, _ = key
            needed = 0
            if resource in op.reads:
                needed = read_distance(form, resource, op.form)
            if resource in op.writes:
                needed = max(needed, overwrite_distance(form, resource, op))
            if not (given and slot.control is not None):
                self._delay(slot, needed, self.flight.fixed[key])

    def _delay(self, slot: ScheduleSlot, needed: int, timed: _Timed) -> None:
        """Increases stalls until ``needed`` cycles have passed since an instruction issued."""
        missing = needed - self.flight.age(timed)
        if missing <= 0:
            return
        first = len(self.codes) if timed.index is None else timed.index
        for index in range(len(self.codes) - 1, first - 1, -1):
            if self.slots[index].control is None:
                self.stalls[index] += missing
                self.flight.pass_time(missing, upto=index)
                return
        raise SourceError(
            slot.token,
            f"this instruction must come {missing} cycles later: the control codes before "
            "it do not stall for long enough",
        )

    def _needed(self, op: Operation) -> frozenset[_Completion]:
        """Returns the completions that an instruction must wait for."""
        flight = self.flight
        found: set[_Completion] = set()
        for resource in op.touched:
            found |= flight.written.get(resource, _NOTHING)
        for resource in op.writes:
            found |= flight.read.get(resource, _NOTHING)
        return frozenset(found)

    def _waits(self, slot: ScheduleSlot, op: Operation, drains: bool) -> frozenset[int]:
        """Returns the scoreboards that must be zero before this instruction."""
        needed = self.flight.pending() if drains else self._needed(op)
        numbers = frozenset(awaited.signal for awaited in needed if isinstance(awaited.signal, int))
        if len(numbers) < len({awaited.signal for awaited in needed}):
            raise SourceError(
                slot.token,
                "this instruction must wait for an earlier one whose control codes name no "
                "scoreboard: give it one, or leave them to the assembler",
            )
        self._let_rise(slot, numbers)
        return numbers

    def _let_rise(self, slot: ScheduleSlot, numbers: Iterable[int]) -> None:
        """Ensures that recently raised scoreboards are visible to a wait."""
        for number in numbers:
            if number in self.flight.raised:
                self._delay(slot, SCOREBOARD_VISIBLE, self.flight.raised[number])

    def _worst_distance(self, form: Form, kind: ResourceKind) -> int:
        """Returns the longest distance that a result may need to any instruction of the code."""
        found = self.worst_distances.get((form, kind))
        if found is None:
            resource = kind, 0  # the distances are the same for all resources of a kind
            found = max(
                (
                    max(read_distance(form, resource, reader), completion(form, resource))
                    for reader in self.readers[kind]
                ),
                default=0,
            )
            self.worst_distances[form, kind] = found
        return found

    def _allot(self, taken: int) -> int:
        """Returns a scoreboard other than ``taken``: a free one, or the least recently used."""
        pending = {awaited.signal for awaited in self.flight.pending()}
        number = min(
            (number for number in self.least_recent if number != taken), key=lambda n: n in pending
        )
        self.least_recent.remove(number)
        self.least_recent.append(number)
        return number

    def _unsignalled_reads(self) -> list[bool]:
        """Returns for each instruction whether a later one overwrites its sources and nothing else
        signals that they were read.

        It is computed backwards: from the next read, the next write, and the next transfer of
        control or unknown word after each instruction.
        """
        found = []
        accessed: dict[Resource, int] = {}
        written: dict[Resource, int] = {}
        end = len(self.operations)
        # keyed by whether an instruction has results
        unsignalled_there = {True: False, False: False}
        for index, op in reversed(list(enumerate(self.operations))):
            if op is None:
                found.append(False)
                end, unsignalled_there = index, {True: True, False: True}
                continue
            sources = [resource for resource in op.reads if resource[0] is ResourceKind.REGISTER]
            signalled = min((accessed.get(resource, end) for resource in op.writes), default=end)
            overwritten = min((written.get(resource, end) for resource in sources), default=end)
            unsignalled = (
                overwritten < signalled
                if min(signalled, overwritten) < end
                else unsignalled_there[bool(op.writes)]
            )
            found.append(op.reads_late and bool(sources) and unsignalled)
            if op.transfers:
                end, unsignalled_there = index, {True: False, False: not self._ends(op)}
            else:
                accessed.update(dict.fromkeys(op.touched, index))
                written.update(dict.fromkeys(op.writes, index))
        return found[::-1]

    def _launch(self, op: Operation, code: ControlCode, given: bool) -> None:
        """Adds an instruction's results to those in flight."""
        flight, pipe, index = self.flight, op.form.pipe, len(self.codes)
        for number, results in ((code.write_barrier, True), (code.read_barrier, False)):
            if number != NO_BARRIER:
                flight.adopt(pipe, number, results)
                flight.raised[number] = _Timed(flight.now, index, given)
        if op.variable and op.writes:
            awaited = _Completion(
                code.write_barrier if code.write_barrier != NO_BARRIER else pipe, given
            )
            flight.is_signalled_by_pipe |= awaited.signal is pipe
            for resource in op.writes:
                flight.written[resource] = flight.written.get(resource, frozenset()) | {awaited}
        if not op.variable or pipe is Pipe.MULTIPLY:
            for resource in op.writes:
                flight.fixed[resource, op.form, given, False] = _Timed(flight.now, index, given)

    def _note_reads(self, op: Operation, signal: int | Pipe, given: bool) -> None:
        """Adds an instruction's late reads to those in flight."""
        self.flight.is_signalled_by_pipe |= isinstance(signal, Pipe)
        for resource in op.reads:
            if resource[0] is ResourceKind.REGISTER:
                self.flight.read[resource] = self.flight.read.get(resource, frozenset()) | {
                    _Completion(signal, given)
                }
