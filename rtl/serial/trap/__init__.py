"""The trap unit of the serial machine: what failed is what was issued last.

======  ======================================================================
module  content
======  ======================================================================
unit    what is otherwise than in :mod:`rtl.trap`
last    each warp's last instruction, in block RAM
======  ======================================================================
"""

from .unit import SerialTrapUnit

__all__ = ["SerialTrapUnit"]
