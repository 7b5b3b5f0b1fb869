"""Issue: which instruction is next.

=============  ==========================================================================
module         content
=============  ==========================================================================
unit           the stages joined: select, read, count
warp           a warp's state, the next two of its instructions, and whether it is ready
order          who goes first
arrival        what an instruction means for the scheduler, found out when it arrives
store          instructions that wait, in memories
scoreboards    how often scoreboards were raised and lowered; what is complete
events         what lowers them, one event a cycle
results        flow results: which of them lets a warp go on, and where
operations     operations of the lanes that units ask for
records        what the parts hand to each other
=============  ==========================================================================

=====  ====================================================================================================
cycle  what happens
=====  ====================================================================================================
        a warp finds out that its next instruction may be selected in S0: ``lanes``, or ``others``
S0     one of the warps that are ready is selected, or an operation of the lanes
S1     its word, constant and address are read, by the warp's number; the warp's next instruction but one is
       brought to it; its scoreboards are up, its stall count begins
S2     it leaves; counted
=====  ====================================================================================================

So a warp issues every two cycles at most, and every three when its next instruction waits for something. What comes
from outside is seen a cycle before the selection that it concerns; what lowers scoreboards, four cycles before.

=========================  ==========================================================================
a warp waits               until
=========================  ==========================================================================
after any instruction      its stall count has run out; less than 2 counts as 2
for scoreboards            those of its wait mask and of a DEPBAR's set are zero
after a DEPBAR.LE          its scoreboard is low enough
for the lanes              they have taken the beats of what went before
for a unit                 it has room; for flow and barrier unit also, no instruction's operands are being collected
in front of, and after     what :data:`rtl.layouts.KIND_RULES` says of its kind
in front of a trap         everything is complete and flow results have come; and to leave it
with a constant missing    flow results have come before it, and everything is complete before the next one
=========================  ==========================================================================

An instruction whose two barrier fields name the same scoreboard raises it once, until it is complete. Choices of this
project: that; which warp is favoured when and for how long; that what passes the lanes goes before other instructions
when they are free. A warp does not issue, or not much longer, while 56 of its instructions are in flight. Flow results
are counted to 63: the flow unit and its queue hold fewer instructions.
"""

from .operations import LAUNCH_PATIENCE
from .order import FAVOUR_INTERVAL, window_cycles
from .records import BUFFERED_GROUPS, IssueEvents, Policy, WaitReason, unit_rooms
from .unit import COMPLETING, IssueUnit

__all__ = ["BUFFERED_GROUPS", "COMPLETING", "FAVOUR_INTERVAL", "LAUNCH_PATIENCE", "IssueEvents", "IssueUnit", "Policy",
           "WaitReason", "unit_rooms", "window_cycles"]
