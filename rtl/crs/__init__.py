"""The call/return stack: tokens of flow instructions, and the frames of the trap handler."""

from amaranth.lib import wiring

from rtl.params import SmParams

from .serial import SerialStack
from .unit import CallReturnStack

__all__ = ["CallReturnStack", "SerialStack", "call_return_stack"]


def call_return_stack(params: SmParams) -> wiring.Component:
    """The stack of a machine with these parameters."""
    return SerialStack(params) if params.serial else CallReturnStack(params)
