"""Control codes for instructions that have none: stall counts, scoreboards, waits.

Within straight code distances are kept by stall counts, and results of variable latency by scoreboards. Every
instruction that may go elsewhere first waits until nothing is on its way, so whatever comes next, wherever it
is, finds everything there. An unguarded EXIT needs no wait: its threads are gone, unless PEXIT revives them.

Codes that the text gives are taken as they are, and what they leave on its way is known to the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from lark import Token

from rtl.isa.control_code import NO_BARRIER, SCOREBOARDS, ControlCode
from rtl.isa.syntax import Form, Pipe

from .latency import (
    LONGEST,
    SCOREBOARD_VISIBLE,
    Operation,
    Resource,
    Result,
    completion,
    operation,
    overwrite_distance,
    read_distance,
)
from .source import SourceError

__all__ = ["Slot", "schedule"]

_YIELD_FROM = 12
"""A stall this long gives the turn away, as NVIDIA's assembler has it."""


@dataclass(frozen=True)
class Slot:
    """An instruction to be scheduled: its word, where it stands in the text, its reuse bits, the control code
    that the text gives it, and whether a label stands before it.
    """

    word: int
    token: Token
    reuse: int = 0
    control: ControlCode | None = None
    joins: bool = False


@dataclass
class _Flight:
    """What is on its way at one point of the code.

    ``fixed``: results of fixed latency, with the cycles since their instruction. ``written`` and ``read``: for
    each resource the scoreboards that tell when a result is there, or a source was read; None stands for no
    scoreboard yet, in that pipe. ``raised``: cycles since a scoreboard was raised.
    """

    fixed: dict[tuple[Resource, Form], int] = field(default_factory=dict)
    written: dict[Resource, frozenset[int | Pipe]] = field(default_factory=dict)
    read: dict[Resource, frozenset[int | Pipe]] = field(default_factory=dict)
    raised: dict[int, int] = field(default_factory=dict)

    def pass_time(self, cycles: int) -> None:
        """Lets cycles pass."""
        self.fixed = {key: age + cycles for key, age in self.fixed.items() if age + cycles < LONGEST}
        self.raised = {number: age + cycles for number, age in self.raised.items()
                       if age + cycles < SCOREBOARD_VISIBLE}

    def settle(self, scoreboards: Iterable[int | Pipe]) -> None:
        """Notes that these scoreboards are zero."""
        done = frozenset(scoreboards)
        self.written = {key: left for key, pending in self.written.items() if (left := pending - done)}
        self.read = {key: left for key, pending in self.read.items() if (left := pending - done)}

    def adopt(self, pipe: Pipe, scoreboard: int, results: bool) -> None:
        """A scoreboard tells of all before it in the same pipe: the pipe works in order. One for ``results`` tells
        of results and reads, another of reads alone.
        """
        for pending in (self.written, self.read) if results else (self.read,):
            for key, scoreboards in pending.items():
                if pipe in scoreboards:
                    pending[key] = scoreboards - {pipe} | {scoreboard}

    def merge(self, other: "_Flight") -> None:
        """Adds what may be on its way by another path."""
        for key, age in other.fixed.items():
            self.fixed[key] = min(age, self.fixed.get(key, age))
        for mine, theirs in ((self.written, other.written), (self.read, other.read)):
            for key, scoreboards in theirs.items():
                mine[key] = mine.get(key, frozenset()) | scoreboards
        for number, age in other.raised.items():
            self.raised[number] = min(age, self.raised.get(number, age))

    def pending(self) -> frozenset[int | Pipe]:
        """All scoreboards that something waits for."""
        return frozenset().union(*self.written.values(), *self.read.values())

    def copy(self) -> "_Flight":
        """A copy that can be changed."""
        return _Flight(dict(self.fixed), dict(self.written), dict(self.read), dict(self.raised))


def schedule(slots: Sequence[Slot]) -> list[ControlCode]:
    """The control codes of some code; SourceError where given codes leave no way to be safe."""
    if all(slot.control is not None for slot in slots):
        return [slot.control for slot in slots if slot.control is not None]
    scheduler = _Scheduler(slots)
    while True:
        arriving = scheduler.arriving.copy()
        codes = scheduler.run()
        if scheduler.arriving == arriving:
            return codes


class _Scheduler:
    """The scheduling of one code section. ``arriving`` is what branches with given codes leave on its way."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
        self.operations = [operation(slot.word) for slot in slots]
        self.arriving = _Flight()
        self.revives = any(op is not None and op.form.name == "PEXIT" for op in self.operations)
        self.readers: dict[Result, set[Form]] = {kind: set() for kind in Result}
        for op in self.operations:
            for kind, _ in op.reads if op is not None else ():
                self.readers[kind].add(op.form)  # type: ignore[union-attr]

    def run(self) -> list[ControlCode]:
        """One pass over the code."""
        self.flight = _Flight()
        self.codes: list[ControlCode] = []
        self.least_recent = list(range(SCOREBOARDS))
        after_transfer = False
        for index, (slot, op) in enumerate(zip(self.slots, self.operations, strict=True)):
            if slot.joins or after_transfer:
                self.flight.merge(self.arriving)
            if op is None:
                self._unknown(slot)
            elif slot.control is not None:
                self._given(slot.control, op)
            else:
                self._free(index, slot, op)
            after_transfer = op is not None and op.transfers
        return [self._with_yield(index) for index in range(len(self.codes))]

    def _with_yield(self, index: int) -> ControlCode:
        """The code of an instruction, giving the turn away where it stalls for long."""
        code, op = self.codes[index], self.operations[index]
        if self.slots[index].control is not None or op is None or op.form.pipe is Pipe.FLOW:
            return code
        return replace(code, no_yield=int(code.stall < _YIELD_FROM))

    def _unknown(self, slot: Slot) -> None:
        """A word that is no instruction: it stops the machine."""
        self.codes.append(slot.control if slot.control is not None else ControlCode(stall=LONGEST))
        self.flight.pass_time(LONGEST)

    def _given(self, code: ControlCode, op: Operation) -> None:
        """An instruction whose code the text gives."""
        self.flight.settle(number for number in range(SCOREBOARDS) if code.wait >> number & 1)
        self._launch(op, code)
        if op.reads_late:
            untold = code.write_barrier if code.write_barrier != NO_BARRIER else op.form.pipe
            self._note_reads(op, code.read_barrier if code.read_barrier != NO_BARRIER else untold)
        self.codes.append(code)
        self.flight.pass_time(max(code.stall, 1))
        if self._ends(op):
            self.flight = _Flight()
        if op.transfers:
            self.arriving.merge(self.flight)

    def _free(self, index: int, slot: Slot, op: Operation) -> None:
        """An instruction whose code is to be found."""
        drains = op.transfers and not self._ends(op)
        self._keep_distance(slot, op)
        waits = self._waits(slot, op, drains)
        self.flight.settle(waits)
        stall = op.stall
        if drains:
            stall = max([stall, *(self._worst_distance(form, resource) - age
                                  for (resource, form), age in self.flight.fixed.items())])
        code = ControlCode(stall=stall, wait=sum(1 << number for number in waits), reuse=slot.reuse)
        if op.variable and op.writes:
            code = replace(code, write_barrier=self._allot(NO_BARRIER))
        if self._must_tell_reads(index, op):
            code = replace(code, read_barrier=self._allot(code.write_barrier))
        self._launch(op, code)
        if code.read_barrier != NO_BARRIER:
            self._note_reads(op, code.read_barrier)
        self.codes.append(code)
        self.flight.pass_time(stall)
        if op.transfers:
            self.flight = _Flight()

    def _ends(self, op: Operation) -> bool:
        """Whether no thread goes on behind an instruction."""
        return op.form.name == "EXIT" and not op.guarded and not self.revives

    def _keep_distance(self, slot: Slot, op: Operation) -> None:
        """Makes the instruction before this one stall until all results of fixed latency are there."""
        missing = 0
        for (resource, form), age in self.flight.fixed.items():
            if resource in op.reads:
                missing = max(missing, read_distance(form, resource, op.form) - age)
            if resource in op.writes:
                missing = max(missing, overwrite_distance(form, resource, op) - age)
        self._extend(slot, missing)

    def _waits(self, slot: Slot, op: Operation, drains: bool) -> frozenset[int]:
        """The scoreboards that must be zero before this instruction."""
        flight = self.flight
        needed: frozenset[int | Pipe] = frozenset().union(
            *(flight.written.get(resource, frozenset()) for resource in op.reads | op.writes),
            *(flight.read.get(resource, frozenset()) for resource in op.writes),
            flight.pending() if drains else frozenset())
        if any(isinstance(item, Pipe) for item in needed):
            raise SourceError(slot.token, "this instruction must wait for an earlier one whose control code names no "
                                          "scoreboard: give it one, or leave its code to the assembler")
        numbers = frozenset(item for item in needed if isinstance(item, int))
        self._extend(slot, max((SCOREBOARD_VISIBLE - flight.raised.get(number, SCOREBOARD_VISIBLE)
                                for number in numbers), default=0))
        return numbers

    def _extend(self, slot: Slot, cycles: int) -> None:
        """Lengthens the stall of the last instruction."""
        if cycles <= 0:
            return
        previous = self.codes[-1]
        if self.slots[len(self.codes) - 1].control is not None:
            raise SourceError(slot.token, f"this instruction must come {cycles} cycles later: the control code before "
                                          f"it says S{previous.stall}")
        self.codes[-1] = replace(previous, stall=previous.stall + cycles)
        self.flight.pass_time(cycles)

    def _worst_distance(self, form: Form, resource: Resource) -> int:
        """How long a result may have to be waited for by whatever comes next in the code."""
        readers = self.readers[resource[0]]
        return max((max(read_distance(form, resource, reader), completion(form, resource)) for reader in readers),
                   default=0)

    def _allot(self, taken: int) -> int:
        """A scoreboard: the one unused for longest, a free one if there is, not ``taken``."""
        pending = self.flight.pending()
        number = min((number for number in self.least_recent if number != taken), key=lambda n: n in pending)
        self.least_recent.remove(number)
        self.least_recent.append(number)
        return number

    def _must_tell_reads(self, index: int, op: Operation) -> bool:
        """Whether a later instruction overwrites sources of this one and nothing else tells that they were read."""
        sources = {resource for resource in op.reads if resource[0] is Result.REGISTER}
        if not op.reads_late or not sources:
            return False
        for slot, later in zip(self.slots[index + 1:], self.operations[index + 1:], strict=True):
            if later is None:
                return True
            if later.transfers:
                return not self._ends(later) and not op.writes
            if slot.control is not None:
                continue
            if op.writes & (later.reads | later.writes):
                return False
            if sources & later.writes:
                return True
        return False

    def _launch(self, op: Operation, code: ControlCode) -> None:
        """Puts an instruction's results on their way."""
        flight, pipe = self.flight, op.form.pipe
        for number, results in ((code.write_barrier, True), (code.read_barrier, False)):
            if number != NO_BARRIER:
                flight.adopt(pipe, number, results)
                flight.raised[number] = 0
        if op.variable:
            tells = code.write_barrier if code.write_barrier != NO_BARRIER else pipe
            for resource in op.writes:
                flight.written[resource] = flight.written.get(resource, frozenset()) | {tells}
        if not op.variable or pipe is Pipe.MULTIPLY:
            for resource in op.writes:
                flight.fixed[resource, op.form] = 0

    def _note_reads(self, op: Operation, tells: int | Pipe) -> None:
        """Puts an instruction's late reads on their way."""
        for resource in op.reads:
            if resource[0] is Result.REGISTER:
                self.flight.read[resource] = self.flight.read.get(resource, frozenset()) | {tells}
