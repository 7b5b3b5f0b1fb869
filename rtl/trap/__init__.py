"""Traps: who enters the handler and why, who waits there, and when all go back; see
docs/barriers_traps.md.

A warp enters the trap, and leaves it, by something that issue puts in the place of its next
instruction (kinds ENTER and LEAVE) and that the flow unit executes: pc, masks and trap frame are
its work. This unit says when.

==========  ======================================================================
module      content
==========  ======================================================================
unit        the unit: executes BPT, IDE and RTT, joins the parts
warps       a bit a warp of everything: where it is, why it traps, who is paused
machine     when a trap of the multiprocessor begins and is over
decode      what BPT, IDE and RTT do
operations  what an instruction does to its warp
returns     where a warp comes back to
error_log   the errors of each warp, by source
entries     whether a flow result is that of an ENTER
status      what S2R reads; takes warps that are to enter from their barriers
watchdog    tells when no warp issues for long
flags       flags of warps in memories
forms       what differs in the serial machine, see rtl/serial/trap
==========  ======================================================================
"""

from .unit import TrapUnit

__all__ = ["TrapUnit"]
