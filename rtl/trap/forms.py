"""What differs between a trap unit with many instructions in flight, and one with a single one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rtl.layouts import of_instruction, of_stack
from rtl.params import SmParams
from rtl.wires import KEEP

from .entries import EntryTracker, PendingEntries, SinglePendingEntry
from .last import LastInstructions
from .returns import LoggedReturns, ReturnPoints

__all__ = ["TrapForm", "trap_form"]


@dataclass(frozen=True)
class TrapForm:
    """What differs.

    Parameters
    ----------
    return_points
        Where a warp comes back to that enters the trap.
    entry_tracker
        Whether a flow result is that of an ENTER.
    reads_issue
        The unit has a port ``issued``.
    failing_events
        From the errors by source to those of which several may come in one cycle.
    kept_masks
        Attributes of wires with a bit a warp.
    """

    return_points: Callable[[SmParams], ReturnPoints]
    entry_tracker: Callable[[SmParams], EntryTracker]
    reads_issue: bool
    failing_events: Callable[[Any], Sequence[Any]]
    kept_masks: Mapping[str, Any]


_MANY_IN_FLIGHT = TrapForm(
    return_points=LoggedReturns,
    entry_tracker=PendingEntries,
    reads_issue=False,
    failing_events=list,
    kept_masks=KEEP)
_ONE_IN_FLIGHT = TrapForm(
    return_points=LastInstructions,
    entry_tracker=SinglePendingEntry,
    reads_issue=True,
    failing_events=lambda errors: (of_instruction(errors), of_stack(errors)),
    kept_masks={})


def trap_form(params: SmParams) -> TrapForm:
    """The form for a machine: one of a single lane has one instruction in flight."""
    return _ONE_IN_FLIGHT if params.serial else _MANY_IN_FLIGHT
