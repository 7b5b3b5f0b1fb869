"""Traps: which warps enter the handler and why, which wait there, and when all return; see
docs/barriers_traps.md.

A warp enters and leaves the trap by an operation that issue inserts instead of its next instruction
(kinds ENTER and LEAVE) and that the flow unit executes: it sets pc, masks and trap frame. This unit
decides when.

==========  ======================================================================
module      content
==========  ======================================================================
unit        the unit: executes BPT, IDE and RTT, joins the parts
warps       state of one bit a warp: where it is, why it traps, whether it is paused
machine     when a trap of the multiprocessor begins and is over
decode      what BPT, IDE and RTT do
operations  what an instruction does to its warp
returns     where a warp comes back to
error_log   the errors of each warp, by source
entries     whether a flow result belongs to an ENTER
status      what S2R reads; takes warps that are to enter from their barriers
watchdog    reports that no warp has issued for long
flags       flags of warps in memories
forms       what differs in the serial machine, see rtl/serial/trap
==========  ======================================================================
"""

from .unit import TrapUnit

__all__ = ["TrapUnit"]
