"""The trap unit of a machine that has one instruction in flight."""

from rtl.trap import TrapUnit
from rtl.trap.forms import TrapForm

from ..errors import simultaneous_errors
from .entries import SinglePendingEntry
from .last import LastInstructions

__all__ = ["SerialTrapUnit"]


class SerialTrapUnit(TrapUnit):
    """A TrapUnit for a machine with one instruction in flight. It has one more port.

    Members
    -------
    issued : In(Event of issued)
        The instruction in flight, in any cycle before its dispatch.
    """

    form = TrapForm(
        return_points=LastInstructions,
        entry_tracker=SinglePendingEntry,
        reads_issue=True,
        failing_events=simultaneous_errors,
        kept_masks={})
