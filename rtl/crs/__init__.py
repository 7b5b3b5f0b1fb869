"""The call/return stack: tokens of flow instructions, and the frames of the trap handler."""

from .unit import CallReturnStack

__all__ = ["CallReturnStack"]
