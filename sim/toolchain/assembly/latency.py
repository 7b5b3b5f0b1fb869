"""Latencies: the issue cycles that an assembler must leave between two instructions.

The numbers are the shortest distances in code of NVIDIA's assembler: hardware without interlocks
depends on them. Unmeasured cases use a longer distance of another case (ours). Results of variable
latency are signalled by scoreboards. Products have a fixed latency and also a scoreboard, as in
NVIDIA's assembler.
"""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache

from rtl.isa.effects import effects
from rtl.isa.kinds import MembarScope
from rtl.isa.syntax import Form, Pipe
from rtl.isa.table import find

__all__ = [
    "LONGEST",
    "SCOREBOARD_VISIBLE",
    "Operation",
    "Resource",
    "ResourceKind",
    "completion",
    "operation",
    "overwrite_distance",
    "read_distance",
]

LONGEST = 15
"""The longest distance in cycles."""
SCOREBOARD_VISIBLE = 2
"""The cycles from an instruction that raises a scoreboard to one that can wait for it."""

_ARITHMETIC, _ARITHMETIC_TO_LATE, _TO_BRANCH_REGISTER, _PREDICATE, _PRODUCT = 6, 2, 7, 13, 15
_CARRY, _OTHER_CARRY, _CONDITION = 6, 7, 13
_CARRY_MAKERS = frozenset({"IADD", "IADD32I", "IADD3", "ISCADD", "LEA"})
_CARRY_TAKERS = frozenset({"IADD", "IADD32I", "IADD3", "ISETP", "LEA.HI"})
_OTHER_CARRIERS = frozenset({"IMNMX", "ISET", "LOP"})
_ZERO_MAKERS, _ZERO_TAKERS = frozenset({"LOP", "LOP32I"}), frozenset({"LOP"})
"""Logic operations on several words whose result is compared with zero."""
_INDEXED_BRANCHES = frozenset({"BRX", "JMX"})
_PUSHES = frozenset({"SSY", "PBK", "PCNT", "PRET", "PEXIT", "PLONGJMP"})
_POINTERS = frozenset({"GETCRSPTR", "SETCRSPTR", "GETLMEMBASE", "SETLMEMBASE"})
_VARIABLE = frozenset({Pipe.CONVERSION, Pipe.DOUBLE, Pipe.MEMORY, Pipe.SYSTEM, Pipe.MULTIPLY})
_LATE_READERS = frozenset({Pipe.CONVERSION, Pipe.DOUBLE, Pipe.MEMORY, Pipe.MULTIPLY})
_SHORT_TRANSFERS = frozenset({"BRA", "BRK", "SYNC", "EXIT"})
_STALLS = {"CCTL": 5, "CCTLL": 5, "DEPBAR": 3}
_PIPE_STALLS = {Pipe.FLOW: 13, Pipe.TRAP: 13, Pipe.BARRIER: 15}


class ResourceKind(Enum):
    """The kind of resource that an instruction reads or writes."""

    REGISTER = "R"
    PREDICATE = "P"
    CONDITION = "CC"

    __hash__ = object.__hash__  # each member is a unique object: resources are looked up often


Resource = tuple[ResourceKind, int]
"""A register, a predicate, or CC (number 0)."""


@dataclass(frozen=True)
class Operation:
    """The properties of an instruction that affect its timing. ``reads`` and ``writes`` are
    resources.
    """

    form: Form
    reads: frozenset[Resource]
    writes: frozenset[Resource]
    guarded: bool
    """Whether a guard or CC test may disable it in some threads."""
    stall: int
    """The cycles before the next instruction of any kind."""

    @cached_property
    def touched(self) -> frozenset[Resource]:
        """The resources that it reads or writes."""
        return self.reads | self.writes

    @cached_property
    def highest_register(self) -> int:
        """The number of the highest register that it reads or writes, or -1."""
        return max(
            (number for kind, number in self.touched if kind is ResourceKind.REGISTER), default=-1
        )

    @cached_property
    def variable(self) -> bool:
        """Whether a scoreboard signals its results."""
        return self.form.pipe in _VARIABLE

    @cached_property
    def reads_late(self) -> bool:
        """Whether it may read registers after later instructions have issued."""
        return self.form.pipe in _LATE_READERS

    @cached_property
    def transfers(self) -> bool:
        """Whether its successor may be another instruction than the next one."""
        pipe, name = self.form.pipe, self.form.name
        return pipe is Pipe.TRAP or (pipe is Pipe.FLOW and name not in _PUSHES | _POINTERS)


@lru_cache(1 << 16)
def operation(word: int) -> Operation | None:
    """Returns the timing of an instruction word, or None if the machine has no such instruction."""
    form = find(word)
    if form is None:
        return None
    values = form.values(word)
    touched = effects(form, values)
    plain = form.default
    guarded = any(
        name in form.fields and form.fields[name].get(word) != form.fields[name].get(plain)
        for name in ("guard", "guard_not", "test")
    )
    return Operation(
        form,
        _resources(touched.reads, touched.predicate_reads, touched.reads_cc),
        _resources(touched.writes, touched.predicate_writes, touched.writes_cc),
        guarded,
        _stall(form, values.get("scope", 0)),
    )


def _resources(
    registers: frozenset[int], predicates: frozenset[int], condition: bool
) -> frozenset[Resource]:
    return frozenset(
        {(ResourceKind.REGISTER, number) for number in registers}
        | {(ResourceKind.PREDICATE, number) for number in predicates}
        | ({(ResourceKind.CONDITION, 0)} if condition else set())
    )


def _stall(form: Form, scope: int) -> int:
    if form.name in _PUSHES:
        return 1
    if form.name in _SHORT_TRANSFERS:
        return 5
    if form.name == "MEMBAR":
        return 5 if scope == MembarScope.CTA.value else LONGEST
    return _STALLS.get(form.name, _PIPE_STALLS.get(form.pipe, 1))


def read_distance(producer: Form, resource: Resource, consumer: Form) -> int:
    """Returns the cycles from an instruction to a reader of its result."""
    kind = resource[0]
    if producer.pipe in (Pipe.MULTIPLY, Pipe.FLOW) or (
        producer.pipe is Pipe.PREDICATE and kind is ResourceKind.REGISTER
    ):
        return _PRODUCT
    if kind is ResourceKind.PREDICATE:
        return _PREDICATE
    return (
        _register_distance(consumer)
        if kind is ResourceKind.REGISTER
        else _condition_distance(producer, consumer)
    )


def _register_distance(consumer: Form) -> int:
    if consumer.pipe is Pipe.ALU:
        return _ARITHMETIC
    if consumer.pipe in (Pipe.MEMORY, Pipe.CONVERSION, Pipe.DOUBLE):
        return _ARITHMETIC_TO_LATE
    return _TO_BRANCH_REGISTER if consumer.name in _INDEXED_BRANCHES else _PREDICATE


def _condition_distance(producer: Form, consumer: Form) -> int:
    if (producer.name in _CARRY_MAKERS and consumer.name in _CARRY_TAKERS) or (
        producer.name in _ZERO_MAKERS and consumer.name in _ZERO_TAKERS
    ):
        return _CARRY
    makers, takers = _CARRY_MAKERS | _OTHER_CARRIERS, _CARRY_TAKERS | _OTHER_CARRIERS
    return _OTHER_CARRY if producer.name in makers and consumer.name in takers else _CONDITION


def overwrite_distance(producer: Form, resource: Resource, writer: Operation) -> int:
    """Returns the cycles from an instruction to another writer of its result, so that the later
    result persists.
    """
    earlier = completion(producer, resource)
    later = 0 if writer.variable else completion(writer.form, resource)
    return max(earlier - later + (not writer.variable), 1)


def completion(form: Form, resource: Resource) -> int:
    """Returns the cycles from an instruction until its result of fixed latency is written."""
    if form.pipe in (Pipe.MULTIPLY, Pipe.FLOW) or (
        form.pipe is Pipe.PREDICATE and resource[0] is ResourceKind.REGISTER
    ):
        return _PRODUCT
    return _ARITHMETIC if resource[0] is ResourceKind.REGISTER else _PREDICATE
