"""The flow unit of the serial machine: one instruction at a time, one thread a cycle.

========  ==============================================
module    content
========  ==============================================
unit      the states, and the passes over the threads
target    the target, accumulated one term a cycle
queue     the queue before the unit, of one place
========  ==============================================
"""

from .queue import SerialFlowQueue
from .unit import SerialFlowUnit

__all__ = ["SerialFlowQueue", "SerialFlowUnit"]
