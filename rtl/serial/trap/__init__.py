"""The trap unit of the serial machine: what failed is what was issued last.

=======  ==========================================================================
module   content
=======  ==========================================================================
unit     the form of the trap unit
last     where a warp comes back to: each warp's last instruction, in block RAM
entries  whether a flow result belongs to an ENTER
=======  ==========================================================================
"""

from .unit import SerialTrapUnit

__all__ = ["SerialTrapUnit"]
