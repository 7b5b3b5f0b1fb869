"""The call/return stack of a serial machine: ``unit`` has its states, ``records`` what it keeps."""

from .records import serial_stack_state
from .unit import SerialStack

__all__ = ["SerialStack", "serial_stack_state"]
