"""Issue: which instruction is next.

=============  ==========================================================================
module         content
=============  ==========================================================================
unit           the parts joined
warp           a warp's state: what it waits for
buffer         the instructions of a warp that wait
scoreboards    a warp's scoreboards
available      lanes and units
choose         the policy: which warp
operations     operations of the lanes that units ask for
store          words, constants, addresses
records        what the parts hand to each other
=============  ==========================================================================

In each cycle one instruction or one operation is selected; it leaves two cycles later. A warp's state changes at the
end of the cycle in which something comes, and is seen by the selection of the next one.

=========================  ==========================================================================
a warp waits               until
=========================  ==========================================================================
after any instruction      its stall count has run out; 0 counts as 1
for scoreboards            those of its wait mask and of a DEPBAR's set are zero, that of a DEPBAR.LE low enough
for the lanes              they have taken the beats of what went before
for a unit                 it has room; for flow and barrier unit also, no instruction's operands are being collected
after FLOW, FLOW_INDEXED   as many flow results have come as were issued, pushes included
after FLOW_READ            the same, and everything is complete
after BARRIER, TRAP        ``resume``
in front of BARRIER, TRAP  everything is complete; with TRAP flow results have come, too
in front of a trap         the same; and to leave it
after REFUSED, or with a   everything is complete: what comes behind an error must not be executed
constant that is missing
=========================  ==========================================================================

An instruction's scoreboards are seen up by selections two cycles after its own. PUSH, FLOW and FLOW_INDEXED are
complete with their result and raise none. Choices of this project: which warp is favoured when and for how long; a warp
does not issue while one of its scoreboards is at 56 or more, 63 of its instructions are in flight, or 15 flow results
are awaited.
"""

from .available import COLLECTING_CYCLES, unit_rooms
from .operations import LAUNCH_PATIENCE, offered_operation
from .records import IssueEvents, Policy, WaitReason
from .unit import IssueUnit

__all__ = ["COLLECTING_CYCLES", "LAUNCH_PATIENCE", "IssueEvents", "IssueUnit", "Policy", "WaitReason",
           "offered_operation", "unit_rooms"]
