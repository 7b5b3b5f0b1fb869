"""Kinds of instructions, and the table that determines how they are scheduled and dispatched."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.lib import enum

__all__ = ["KIND_RULES", "UNITS", "InstructionKind", "KindRule", "is_kind", "kinds_where"]


class InstructionKind(enum.Enum, shape=4):
    """The scheduler's rules for an instruction: which unit executes it, and what its warp waits for
    before and after it. KIND_RULES has the rules."""

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
    """NOP: complete when it issues."""
    DEPENDENCY = 12
    """DEPBAR: complete when it issues; scoreboards delay it, or the warp's next instruction."""
    REFUSED = 13
    """An instruction that cannot be executed; its ``error`` is the reason."""
    ENTER = 14
    """Not an instruction: the warp enters the trap handler. The instruction in whose place it is
    issued is executed later."""
    LEAVE = 15
    """Not an instruction: the warp leaves the trap handler. The instruction in whose place it is
    issued is executed later."""


@dataclass(frozen=True)
class KindRule:
    """The scheduling rule of all instructions of a kind.

    Attributes
    ----------
    unit : str | None
        The unit beside the lanes that it is dispatched to, one of UNITS.
    lanes : bool
        It occupies the lanes when it issues. If it also has a ``unit``, the lanes only collect its
        register operands, and it is dispatched when they are read, later than other instructions.
        From two cycles after its selection until its dispatch no instruction for the flow unit or
        the barrier unit is selected, ENTER and LEAVE included.
    silent : bool
        It is complete when it issues, or with its flow result: issue waits for no completion event
        and raises no scoreboard.
    before : frozenset[str]
        What it waits for before it issues. "complete": all earlier instructions of the warp are
        complete. "results": their flow results have arrived.
    after : str | None
        What the warp waits for before its next instruction issues; None: nothing. "result": the
        flow result of this instruction. "drained": all of the warp's instructions are complete, and
        all of its flow results have arrived. "resumed": the unit resumes the warp.
    injected : bool
        Issue injects it, at the trap unit's request, in place of an instruction. It is dispatched
        to the trap unit as well as to ``unit``.
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
# oldest failure, to which the warp returns from the trap. LANES and CONVERSION need no `before`:
# they fail only if their constant is missing, and then issue/decode.py gives them the waits of
# REFUSED.
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
    # When it executes, the errors of all earlier instructions are known.
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
    """The kinds whose rule satisfies a test."""
    return frozenset(kind for kind, rule in KIND_RULES.items() if test(rule))


def is_kind(kind: Any, test: Callable[[KindRule], bool]) -> Any:
    """Whether the rule of a kind, which is a hardware value of 4 bits, satisfies a test."""
    return kind.as_value().matches(*sorted(each.value for each in kinds_where(test)))
