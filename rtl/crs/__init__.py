"""The call/return stack."""

from .unit import CallReturnStack

__all__ = ["CallReturnStack"]
