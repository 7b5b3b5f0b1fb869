"""Kinds of instructions: all that has to be known of one to schedule it and to send it to its unit,
in one table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.lib import enum

__all__ = ["KIND_RULES", "UNITS", "InstructionKind", "KindRule", "is_kind", "kinds_where"]


class InstructionKind(enum.Enum, shape=4):
    """What the scheduler has to know of an instruction: which unit takes it, and whether its warp
    may go on."""

    LANES = 0
    """Passes through the lanes, with a fixed latency."""
    PUSH = 1
    """For the flow unit, which pushes a token; the warp continues."""
    FLOW = 2
    """For the flow unit; the warp waits for its result."""
    FLOW_INDEXED = 3
    """As FLOW, with a register operand, which the lanes collect first."""
    FLOW_READ = 4
    """For the flow unit, whose value is written to a register; the warp waits for that."""
    MEMORY = 5
    """For the memory unit."""
    CONVERSION = 6
    """For the conversion unit, or the unit of double precision beside it."""
    BARRIER = 7
    """For the barrier unit; the warp waits until that unit resumes it."""
    BARRIER_INDEXED = 8
    """As BARRIER, with register operands, which the lanes collect first."""
    BARRIER_READ = 9
    """For the barrier unit, whose value is written to a register; the warp waits for that."""
    TRAP = 10
    """For the trap unit; the warp waits until that unit resumes it."""
    NOTHING = 11
    """Done when it issues."""
    DEPENDENCY = 12
    """DEPBAR: done when it issues; scoreboards delay it, or the warp's next instruction."""
    REFUSED = 13
    """An instruction that cannot be executed; its ``error`` says why."""
    ENTER = 14
    """Not an instruction: the warp enters the trap handler. The instruction in whose place it is
    issued is executed later."""
    LEAVE = 15
    """Not an instruction: the warp leaves the trap handler. The instruction in whose place it is
    issued is executed later."""


@dataclass(frozen=True)
class KindRule:
    """What holds of all instructions of a kind.

    Attributes
    ----------
    unit : str | None
        The unit beside the lanes that it is dispatched to, one of UNITS.
    lanes : bool
        It passes through the lanes when it issues. If it is for a unit, the lanes collect its
        operands: it is dispatched later than others, and from two cycles after its selection until
        then no instruction for the flow or the barrier unit issues, ENTER and LEAVE included.
    silent : bool
        It is complete when it issues, or with its flow result: no completion is awaited, no
        scoreboard raised.
    before : frozenset[str]
        It issues when the warp's earlier instructions are "complete", and their flow "results" are
        there.
    after : str | None
        The warp's next instruction issues when the flow "result" is there; when all is complete and
        all results are there ("drained"); or when the unit resumes the warp ("resumed").
    injected : bool
        The trap unit injects it in place of an instruction; it is dispatched to the trap unit as
        well as to ``unit``.
    """

    unit: str | None = None
    lanes: bool = False
    silent: bool = False
    before: frozenset[str] = frozenset()
    after: str | None = None
    injected: bool = False

    @property
    def collected(self) -> bool:
        """Whether the lanes collect its operands for its unit."""
        return self.lanes and self.unit is not None


UNITS = ("flow", "memory", "conversion", "barrier", "trap")
"""The units beside the lanes."""
# Instructions that can fail wait for all earlier flow results, so that a failed push is always the
# oldest failure, to which the warp comes back from the trap. LANES and CONVERSION need no `before`:
# they fail only for want of their constant, and issue/decode.py has such an instruction wait for
# flow results, and the warp wait until all is complete, as with REFUSED.
_RESULTS = frozenset({"results"})
_ALL = frozenset({"complete", "results"})

KIND_RULES: dict[InstructionKind, KindRule] = {
    InstructionKind.LANES: KindRule(lanes=True),
    InstructionKind.PUSH: KindRule("flow", silent=True),
    InstructionKind.FLOW: KindRule("flow", silent=True, after="result"),
    InstructionKind.FLOW_INDEXED: KindRule("flow", lanes=True, silent=True, after="result"),
    InstructionKind.FLOW_READ: KindRule("flow", after="drained"),
    InstructionKind.MEMORY: KindRule("memory", before=_RESULTS),
    InstructionKind.CONVERSION: KindRule("conversion"),
    # After a barrier, compiled code overwrites operands of earlier stores without a read barrier.
    InstructionKind.BARRIER: KindRule("barrier", before=_ALL, after="resumed"),
    InstructionKind.BARRIER_INDEXED: KindRule("barrier", lanes=True, before=_ALL, after="resumed"),
    InstructionKind.BARRIER_READ: KindRule("barrier", before=_RESULTS, after="drained"),
    # All errors of what is before it are known.
    InstructionKind.TRAP: KindRule("trap", before=_ALL, after="resumed"),
    InstructionKind.NOTHING: KindRule(silent=True),
    InstructionKind.DEPENDENCY: KindRule(silent=True),
    # What follows an error must not be executed.
    InstructionKind.REFUSED: KindRule(before=_RESULTS, after="drained"),
    InstructionKind.ENTER: KindRule(
        "flow", silent=True, before=_ALL, after="result", injected=True
    ),
    InstructionKind.LEAVE: KindRule(
        "flow", silent=True, before=_ALL, after="result", injected=True
    ),
}
"""The rule of each kind."""


def kinds_where(test: Callable[[KindRule], bool]) -> frozenset[InstructionKind]:
    """The kinds whose rule passes a test."""
    return frozenset(kind for kind, rule in KIND_RULES.items() if test(rule))


def is_kind(kind: Any, test: Callable[[KindRule], bool]) -> Any:
    """Whether the rule of a kind, which is a value of 4 bits, passes a test."""
    return kind.as_value().matches(*sorted(each.value for each in kinds_where(test)))
