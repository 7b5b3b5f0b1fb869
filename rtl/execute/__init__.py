"""The lanes and the registers."""

from .unit import ExecuteUnit

__all__ = ["ExecuteUnit"]
