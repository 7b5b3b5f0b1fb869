"""The execute unit of a serial machine: a thread after the other, and of each thread a register after the other."""

from .unit import SerialExecuteUnit

__all__ = ["SerialExecuteUnit"]
