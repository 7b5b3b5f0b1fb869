"""The flow unit of a serial machine: one instruction at a time, one thread of it after the other.

========  ==============================================
module    content
========  ==============================================
unit      the passes of an instruction over the threads
target    its target, added up term by term
queue     the instruction that waits
========  ==============================================
"""

from .queue import SerialFlowQueue
from .unit import SerialFlowUnit

__all__ = ["SerialFlowQueue", "SerialFlowUnit"]
