"""The lanes and the registers, and what leaves them for other units."""

from rtl.component import Component
from rtl.params import SmParams

from .indexed import IndexedTargets
from .serial import SerialExecuteUnit
from .unit import ExecuteUnit

__all__ = ["ExecuteUnit", "IndexedTargets", "SerialExecuteUnit", "execute_unit"]


def execute_unit(params: SmParams) -> Component:
    """The execute unit, whose ports ExecuteUnit describes, in the form that the machine needs."""
    return (SerialExecuteUnit if params.serial else ExecuteUnit)(params)
