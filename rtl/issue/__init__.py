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
"""

from .available import COLLECTING_CYCLES, unit_rooms
from .operations import LAUNCH_PATIENCE, offered_operation
from .records import IssueEvents, Policy, WaitReason
from .unit import IssueUnit

__all__ = ["COLLECTING_CYCLES", "LAUNCH_PATIENCE", "IssueEvents", "IssueUnit", "Policy", "WaitReason",
           "offered_operation", "unit_rooms"]
