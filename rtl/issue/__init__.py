"""Issue: which instruction is next. What waits for what, and when, is in the manual, docs/front_end.md.

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
S0     one of the warps that are ready is selected, or operations of the lanes
S1     what it changes is read, by the warp's number, and so are word, constant and address; the warp's next
       instruction but one is brought to it; its scoreboards are up, its stall count begins
S2     it leaves; counted
=====  ====================================================================================================

What comes from outside is seen a cycle before the selection that it concerns; what lowers scoreboards, four cycles
before.
"""

from .operations import OPERATIONS
from .order import FAVOUR_INTERVAL, window_cycles
from .records import BUFFERED_GROUPS
from .unit import IssueUnit

__all__ = ["BUFFERED_GROUPS", "FAVOUR_INTERVAL", "OPERATIONS", "IssueUnit", "window_cycles"]
