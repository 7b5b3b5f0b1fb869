"""The call/return stack of the serial machine: ``unit`` has its states, ``records`` the words of
its memories."""

from .records import serial_stack_state
from .unit import SerialStack

__all__ = ["SerialStack", "serial_stack_state"]
