"""The execute unit of a serial machine: one thread after another, and of each thread one register
after another."""

from .unit import SerialExecuteUnit

__all__ = ["SerialExecuteUnit"]
