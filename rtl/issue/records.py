"""What issue keeps of an instruction, and what it tells of itself."""

from typing import Any

from amaranth.hdl import Mux, Value, unsigned
from amaranth.lib import data, enum

from rtl.isa.control_code import GROUP_INSTRUCTIONS, SCOREBOARDS
from rtl.isa.syntax import Form
from rtl.isa.table import BY_NAME
from rtl.layouts import FetchedInstruction, InstructionKind
from rtl.word import field_of

__all__ = ["BUFFERED_GROUPS", "IssueEvents", "Policy", "Scheduling", "Slot", "WaitReason", "scheduling_of"]

BUFFERED_GROUPS = 2
"""Groups of a warp that issue has room for."""


class Policy(enum.Enum, shape=1):
    """Which of the warps that are ready goes first."""

    GREEDY_THEN_OLDEST = 0
    """The one that issued last, unless it offered its turn; else the one that was launched first."""
    ROUND_ROBIN = 1
    """The one that has not issued for the longest time."""


class WaitReason(enum.Enum, shape=4):
    """Why a warp does not issue."""

    NOT_LIVE = 0
    FLOW = 1
    """Its flow instruction, or its launch, has no result yet."""
    DRAIN = 2
    """An instruction has to be complete before the next one."""
    RESUME = 3
    """The barrier or the trap unit has not let it go."""
    FETCH = 4
    """Its next instruction is not there."""
    STALL = 5
    """The last instruction's stall count has not run out."""
    SCOREBOARD = 6
    """Scoreboards that it waits for are not down, or one that it may raise is full."""
    LANES = 7
    """Others have the lanes."""
    UNIT = 8
    """The unit that executes it has no room."""
    READY = 9
    """It can issue: it does, or another warp goes first."""
    TRAP = 10
    """The trap unit does not let it: it enters the trap, leaves it, or is paused in it."""


class Slot(data.Struct):
    """Where an instruction is in its warp's buffer."""

    entry: range(BUFFERED_GROUPS)
    number: range(GROUP_INSTRUCTIONS)


class Scheduling(data.Struct):
    """What decides when an instruction can issue."""

    stall: unsigned(4)
    """Cycles between it and the warp's next one: the stall count less one, where it is more than that."""
    no_yield: unsigned(1)
    wait: unsigned(SCOREBOARDS)
    """Scoreboards that have to be zero, those of a DEPBAR too."""
    kind: InstructionKind
    alone: unsigned(1)
    """The warp's next instruction waits until this one is complete: it may be an error."""
    limited: unsigned(1)
    """Scoreboard ``scoreboard`` has to be at ``count`` or less."""
    scoreboard: range(SCOREBOARDS)
    count: unsigned(6)


class IssueEvents(data.Struct):
    """What happened in a cycle, for counters. The reasons are those of live warps when nothing was selected."""

    issued: unsigned(1)
    operation: unsigned(1)
    """An operation of a unit went to the lanes."""
    idle: unsigned(1)
    """Neither."""
    stall: unsigned(1)
    scoreboard: unsigned(1)
    lanes: unsigned(1)
    unit: unsigned(1)
    fetch: unsigned(1)
    held: unsigned(1)


_ANY_SET, _AT_MOST = ({form.variant: form for form in BY_NAME["DEPBAR"]}[variant] for variant in ("zero", "at_most"))


def _field(form: Form, word: Value, name: str) -> Value:
    return field_of(word, form.fields[name])


def scheduling_of(instruction: Any) -> dict[str, Any]:
    """The fields of Scheduling for a FetchedInstruction."""
    assert instruction.shape() is FetchedInstruction
    control, word = instruction.control, instruction.word
    dependency = instruction.kind == InstructionKind.DEPENDENCY
    refused = instruction.kind == InstructionKind.REFUSED
    return {
        "stall": Mux(control.stall == 0, 0, control.stall - 1)[:4], "no_yield": control.no_yield,
        "wait": control.wait | Mux(dependency, _field(_ANY_SET, word, "wait"), 0), "kind": instruction.kind,
        "alone": refused | instruction.constant_missing,
        "limited": dependency & _field(_AT_MOST, word, "at_most").any(),
        "scoreboard": _field(_AT_MOST, word, "scoreboard"), "count": _field(_AT_MOST, word, "count")}
