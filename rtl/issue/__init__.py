"""Issue: which instruction is next. What waits for what, and when, is in the manual, docs/front_end.md.

===========  ==============================================================================
module       content
===========  ==============================================================================
unit         the stages joined: select (S0), read (S1), count (S2)
warp         a warp's state, its next instruction, and whether it is ready
order        who goes first
store        instructions that wait, in memories; what they mean for the scheduler
scoreboards  how often scoreboards were raised and lowered; what is complete
results      flow results: which of them lets a warp go on, and where
operations   operations of the lanes that units ask for
records      what the parts hand to each other
===========  ==============================================================================

What comes from outside is seen a cycle before the selection that it concerns; what lowers scoreboards, four cycles
before.
"""

from .operations import OPERATIONS
from .order import FAVOUR_INTERVAL, window_cycles
from .records import BUFFERED_GROUPS
from .unit import IssueUnit

__all__ = ["BUFFERED_GROUPS", "FAVOUR_INTERVAL", "OPERATIONS", "IssueUnit", "window_cycles"]
