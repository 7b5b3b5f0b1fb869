"""Issue: which instruction is next. What waits for what, and when, is in the manual,
docs/front_end.md.

===========  =====================================================================
module       content
===========  =====================================================================
unit         the stages joined: select (S0), read (S1), count (S2)
select       S0: which of the ready warps issues; how long the lanes are busy
warp         a warp's state, its next instruction, and whether it is ready
order        the priority of the warps
store        instructions that wait, in memories
decode       what the scheduler needs of an instruction
scoreboards  how often scoreboards were raised and lowered; what is complete
results      flow results: which one releases a warp, and its pc
operations   operations of the lanes that units request
records      what the parts hand to each other
ports        the unit's ports
===========  =====================================================================
"""

from .order import FAVOUR_INTERVAL, window_cycles
from .records import BUFFERED_GROUPS
from .unit import IssueUnit

__all__ = ["BUFFERED_GROUPS", "FAVOUR_INTERVAL", "IssueUnit", "window_cycles"]
