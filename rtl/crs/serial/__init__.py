"""The call/return stack of a serial machine: ``unit`` is its sequencer, ``records`` what it keeps."""

from .records import SerialStackState
from .unit import SerialStack

__all__ = ["SerialStack", "SerialStackState"]
