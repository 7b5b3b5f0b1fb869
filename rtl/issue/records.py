"""What issue keeps of an instruction, and what its parts hand to each other.

===================  ===================  ===========================================
from                 to                   struct
===================  ===================  ===========================================
store, by the bus    warp                 :class:`Requirements`
store                warp                 :class:`Effects`
unit                 one warp             :class:`WarpEvents`
unit                 all warps            :class:`IssueBroadcast`, with what the bus has
warp                 unit                 :class:`WarpWaits`
unit                 scoreboards          :func:`counted`
===================  ===================  ===========================================

The cycles are those of the pipeline: an instruction is selected in S0, read in S1, counted in S2.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.control_code import GROUP_INSTRUCTIONS, SCOREBOARDS
from rtl.layouts import UNITS
from rtl.params import SmParams

__all__ = [
    "BUFFERED_GROUPS",
    "COUNTER_BITS",
    "INCOMPLETE",
    "PENDING_BITS",
    "RESULTS",
    "TIME_BITS",
    "Blocks",
    "BusInstruction",
    "Effects",
    "IssueBroadcast",
    "Limit",
    "NextInstruction",
    "Place",
    "Requirements",
    "Resource",
    "WarpEvents",
    "WarpWaits",
    "counted",
]

BUFFERED_GROUPS = 2
"""Groups of a warp that issue has room for."""
TIME_BITS = 6
"""Width of the time, which stall counts are compared with, and of stall counts."""
COUNTER_BITS = 6
"""Width of a warp's counters: of scoreboards, instructions, flow results."""

INCOMPLETE = SCOREBOARDS
"""What is pending of a warp, bit after its scoreboards: instructions that are not complete."""
RESULTS = SCOREBOARDS + 1
"""The same: flow results that are to come."""
PENDING_BITS = SCOREBOARDS + 2
"""Width of what is pending of a warp: a bit a scoreboard, INCOMPLETE, RESULTS."""


class Resource(enum.IntEnum, shape=3):
    """The unit, or the event queue, that must have room before an instruction can issue."""

    NONE = 0
    FLOW = 1
    MEMORY = 2
    CONVERSION = 3
    BARRIER = 4
    TRAP = 5
    EVENTS = 6
    """The queues of events of the lanes, which lower scoreboards."""


assert [resource.name.lower() for resource in Resource] == ["none", *UNITS, "events"]


class Place(data.Struct):
    """Where an instruction of a warp is stored."""

    entry: range(BUFFERED_GROUPS)
    """The place of its group."""
    number: range(GROUP_INSTRUCTIONS)
    """Its own in the group."""


class Limit(data.Struct):
    """The limit of a DEPBAR.LE."""

    scoreboard: range(SCOREBOARDS)
    most: unsigned(COUNTER_BITS)
    """The scoreboard's count is to be at most this."""


class Requirements(data.Struct):
    """What an instruction requires to issue."""

    waits_for: unsigned(PENDING_BITS)
    """What must not be pending of its warp: the scoreboards of its wait mask and of a DEPBAR,
    INCOMPLETE, RESULTS."""
    has_waits: unsigned(1)
    """It waits for any of that."""
    resource: Resource
    uses_lanes: unsigned(1)
    """It passes the lanes."""
    is_collected: unsigned(1)
    """The lanes collect its operands for its unit; see :class:`~rtl.layouts.KindRule`."""
    is_quarter: unsigned(1)
    """If it passes the lanes, only full lanes (one of each four) can execute it, at a quarter of
    the rate."""
    has_short_stall: unsigned(1)
    """The warp's next instruction may be selected two cycles later."""


class Blocks(data.Struct):
    """Conditions that an issued instruction leaves: each that is set blocks the warp's next
    instruction, of any kind."""

    until_results: unsigned(1)
    """Blocks while RESULTS is pending. Not cleared by the result: only the next instruction or
    a flow_launch replaces it."""
    until_drained: unsigned(1)
    """Blocks until the cycle after the warp is drained."""
    until_resumed: unsigned(1)
    """Blocks until the instruction's unit resumes the warp."""
    until_limit: unsigned(1)
    """Blocks until the scoreboard of a DEPBAR.LE is within its limit."""
    until_redirected: unsigned(1)
    """Blocks until fetch continues elsewhere: at the target of a branch that is predicted taken,
    or where a flow result has led."""


class Effects(data.Struct):
    """What becomes of a warp when an instruction of it issues."""

    raises: unsigned(PENDING_BITS)
    """What is pending from then on."""
    stall: unsigned(TIME_BITS)
    """Cycles until the next one may become ready, from the cycle after the selection (S1) on."""
    blocks: Blocks
    no_yield: unsigned(1)
    """From the control code: the warp does not offer its turn."""


class WarpEvents(data.Struct):
    """What happens to one warp in a cycle, a bit each."""

    is_launched: unsigned(1)
    """A new warp is in the slot: its flow_launch was taken in the cycle before. Its first flow
    result has the pc at which it starts."""
    has_result: unsigned(1)
    """A flow result of it comes."""
    is_flushed: unsigned(1)
    """It continues at another pc: its instructions in issue are flushed."""
    is_revoked: unsigned(1)
    """The flow result of the cycle before leads elsewhere than fetch has continued, or ends the
    warp: what has become ready by that result is not. Comes late."""
    needs_no_result: unsigned(1)
    """It is flushed by a branch that it surely takes: it does not wait for its flow result."""

    counts_are_zero: unsigned(1)
    """Its scoreboards of ``IssueBroadcast.zero`` are zero."""
    is_complete: unsigned(1)
    """All its instructions are complete."""
    has_all_results: unsigned(1)
    """All its flow results have come."""
    meets_limit: unsigned(1)
    """The scoreboard of its DEPBAR.LE is low enough."""
    is_full: unsigned(1)
    """Its count of instructions in flight is nearly full; see Scoreboards."""

    is_resumed: unsigned(1)
    """The unit that has its BARRIER, BARRIER_INDEXED or TRAP instruction releases the warp."""
    is_held: unsigned(1)
    """The trap unit holds the warp: it must not issue."""
    enters_trap: unsigned(1)
    """It is to enter the trap: an ENTER issues as soon as it is drained and its next instruction
    has arrived."""
    leaves_trap: unsigned(1)
    """It is to leave the trap: likewise a LEAVE."""

    is_selected: unsigned(1)
    """It is selected (S0). Comes late."""
    has_issued: unsigned(1)
    """It was selected in the cycle before (S1): ``IssueBroadcast.effects`` is of its
    instruction."""

    group_is_claimed: unsigned(1)
    """Fetch will bring a group of it."""
    group_arrives: unsigned(1)
    """Fetch brings one."""
    bus_has_following: unsigned(1)
    """The bus has the instruction after the one that it issued last, if that is stored and no group
    arrives."""


class WarpWaits(data.Struct):
    """Why a warp does not issue, as IssueEvents counts it; one of these at most."""

    stall: unsigned(1)
    """The last instruction's stall count has not run out."""
    scoreboard: unsigned(1)
    """Scoreboards that it waits for are not down, or too many instructions are in flight."""
    unit: unsigned(1)
    """The unit that executes it has no room."""
    fetch: unsigned(1)
    """Its next instruction is not there."""
    held: unsigned(1)
    """It waits for a flow result, until it is drained, for a unit that resumes it, or for the trap
    unit."""


class NextInstruction(data.Struct):
    """What a warp keeps of its next instruction."""

    requirements: Requirements
    resource: unsigned(len(Resource))
    """The resource that it needs, one-hot."""
    ends_group: unsigned(1)
    """It is the last one of its group."""


class BusInstruction(data.Struct):
    """An instruction that is sent to its warp: the first one of a group that arrives for a warp
    without instructions, else the one after the one that a warp issued last."""

    instruction: NextInstruction
    is_arriving: unsigned(1)
    """It is one of a group that arrives."""
    can_issue: unsigned(1)
    """It is the one after the one that a warp issued last, and lacks nothing if that warp may
    issue."""


class IssueBroadcast(data.Struct):
    """What all warps have to know in a cycle."""

    time: unsigned(TIME_BITS)
    result_is_last: unsigned(1)
    """Of a flow result: no other one of its warp is to come, and its instruction blocks the
    warp."""
    result_terminates: unsigned(1)
    """Of a flow result: the warp has ended."""
    zero: unsigned(SCOREBOARDS)
    """Scoreboards that are zero, of the warp that has ``counts_are_zero``."""
    available: unsigned(len(Resource))
    """Resources with room, by number."""
    collects: unsigned(1)
    """An instruction whose operands are collected may be selected: no other one whose operands are
    collected becomes ready."""
    lanes_are_free: unsigned(1)
    effects: Effects
    """Of the instruction that was selected in the cycle before."""
    bus: BusInstruction


def counted(params: SmParams) -> data.StructLayout:
    """An instruction that leaves the issue unit, as the scoreboards count it.

    Fields
    ------
    warp
    raises : PENDING_BITS
    has_limit : 1
        It is a DEPBAR.LE: its warp waits for ``limit``.
    limit : Limit
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "raises": PENDING_BITS,
        "has_limit": 1,
        "limit": Limit,
    })
