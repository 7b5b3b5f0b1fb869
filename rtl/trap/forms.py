"""The parts of the trap unit that depend on the machine: here those for many instructions in
flight. Those of the serial machine, which has one in flight, are in rtl/serial/trap."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module

from rtl.error_status import all_errors
from rtl.params import SmParams
from rtl.wires import KEEP

from .entries import EntryTracker, PendingEntries
from .returns import LoggedReturns, ReturnPoints

__all__ = ["MANY_IN_FLIGHT", "TrapForm"]


@dataclass(frozen=True)
class TrapForm:
    """The parts of a trap unit that depend on how many instructions are in flight.

    Parameters
    ----------
    return_points
        Makes the component that finds the pc to which a warp returns from the trap.
    entry_tracker
        Makes the component that tells whether a flow result belongs to an ENTER.
    reads_issue
        The unit has a port ``issued``: only for the serial machine.
    failing_events
        A function of a module and the errors by source that returns those of which several may
        arrive in one cycle.
    kept_masks
        Attributes of wires with a bit a warp.
    """

    return_points: Callable[[SmParams], ReturnPoints]
    entry_tracker: Callable[[SmParams], EntryTracker]
    reads_issue: bool
    failing_events: Callable[[Module, Any], Sequence[Any]]
    kept_masks: Mapping[str, Any]


MANY_IN_FLIGHT = TrapForm(
    return_points=LoggedReturns,
    entry_tracker=PendingEntries,
    reads_issue=False,
    failing_events=all_errors,
    kept_masks=KEEP)
"""The form of the pipelined machine."""
