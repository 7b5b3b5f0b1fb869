"""What the stages of the stack's pipeline hand to each other, and to the spill and fill engine.

===========  =========================  ============================================
from         to                         struct
===========  =========================  ============================================
access       change                     :func:`accessed_step`
change       judge                      :func:`changed_step`
judge        commit                     :func:`judged_step`
change       spill and fill engine      :func:`change_flags`
judge        access, change             :func:`unwound_step`
commit       spill and fill engine      :func:`commit_flags`, by :class:`CommitPort`
engine       commit                     :func:`engine_counters`, by the same
engine       access                     :func:`replay`, by :class:`ReplayPort`
===========  =========================  ============================================

All have the step itself: :func:`stack_step`.
"""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.layouts import DEPTH_BITS, ThreadCode, ThreadCodes
from rtl.params import WARP_THREADS, SmParams

from .operations import StepOperation
from .records import Origin, Parking, stack_state
from .tokens import PLACE_BITS, STEP_BITS, StoredToken, token_slot_bits

__all__ = [
    "LIMIT_PARTS",
    "CommitPort",
    "ReplayPort",
    "accessed_step",
    "change_flags",
    "changed_step",
    "commit_flags",
    "engine_counters",
    "judged_step",
    "replay",
    "stack_step",
    "unwound_step",
]

LIMIT_PARTS = 3
"""Parts in which a token's number is compared with a limit, see ``granule_matches``."""


def stack_step(params: SmParams) -> data.StructLayout:
    """A step of a warp, which passes through all stages.

    Fields
    ------
    warp
    operation : StepOperation
    pair : 1
        Another push of the same instruction follows: both must fit.
    replayed : 1
        The operation was parked, or lost arbitration, and starts again. What it looks for, and
        where it began, is kept; an unwind starts again at the topmost token of the state that is
        committed.
    fault : 1
        Memory could not give the line that it needs.
    state : stack_state
        The warp's stack. From the change stage on without the token that an unwind looks at, or
        with the one that was pushed. If the step sets the pointer, ``last`` is the depth to set.
    lines : 0 to all
        Lines on chip, from the topmost token's down.
    dropped : 1
        This unwind has passed the beginning of a line on chip.
    was_clean : 1
        No line was dirty when the step was in the access stage.
    has_region : 1
        The stack has a region in memory.
    in_frame : 1
        The tokens above in this line are MASKS tokens: a trap frame may be under way.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "operation": StepOperation,
        "pair": 1,
        "replayed": 1,
        "fault": 1,
        "state": stack_state(params),
        "lines": params.stack_count_bits,
        "dropped": 1,
        "was_clean": 1,
        "has_region": 1,
        "in_frame": 1,
    })


def accessed_step(params: SmParams) -> data.StructLayout:
    """Access to change: a step, and what is known of its warp.

    Fields
    ------
    valid : 1
    step : stack_step
    continues : 1
        It is the next token of the unwind that was in the judge stage a cycle ago. Of what follows
        only ``has_token`` is known.
    has_token : 1
        An unwind looks at a token, which is on chip.
    top_place : 0 to 3
        Place of the topmost token in its line: 3 if the line is full, or the stack is empty.
    next_slot
        Where the next token is on chip: its place and its line's slot.
    dirty_lines : 0 to all
    limit : in half granules of 16 tokens
        The highest one in which a token may be. The upper half of the last granule, an odd number,
        is kept for the trap handler: it is the limit if the warp is in the handler.
    granule_matches : LIMIT_PARTS
        All: the topmost token is in the same granule as the limit, see
        :func:`~rtl.crs.compare.equal_in_parts`.
    calls_are_full : 1
        The limit of calls is reached.
    token : StoredToken
        The token to push. Its pc is the operand of other operations.
    """
    return data.StructLayout({
        "valid": 1,
        "step": stack_step(params),
        "continues": 1,
        "has_token": 1,
        "top_place": PLACE_BITS,
        "next_slot": token_slot_bits(params),
        "dirty_lines": params.stack_count_bits,
        "limit": DEPTH_BITS - STEP_BITS,
        "granule_matches": LIMIT_PARTS,
        "calls_are_full": 1,
        "token": StoredToken,
    })


def changed_step(params: SmParams) -> data.StructLayout:
    """Change to judge: a step with what it leaves, and the token that an unwind looks at.

    Fields
    ------
    valid : 1
    step : stack_step
    error : WarpError
        Why the operation fails, if it is no unwind.
    value : 32
        What a GET operation reads.
    has_token, has_next : 1, 1
        There is a token to look at; there is another one below it on chip.
    is_empty : 1
        There is no token to look at, or none below this one: the stack is empty if this one does
        not end the unwind.
    may_continue : 1
        The unwind continues unless the token ends it.
    token : StoredToken
        The token. Its kind is known early, ``mask`` and ``pc`` come late in the cycle.
    must_end : 1
        By its kind and place the token ends the unwind, with any mask.
    is_wrong : 1
        It does so in error.
    may_end : 1
        It ends the unwind if its mask has a thread of ``ending``.
    is_masks : 1
        It is a MASKS token of a trap frame.
    code_by_pc, code_by_mask : ThreadCode
        In a trap frame, the codes of the threads in the token's pc, and in its mask.
    codes : ThreadCodes
        The threads' codes as the tokens above leave them.
    revivable : 32 threads
        Continues without a code if the token's mask has the thread; in a trap frame: is dead.
    passed : 32 threads
        Has the code NONE, at a token that threads wait for by a code: an error if the token's mask
        has the thread.
    ending : 32 threads
        Either of both.
    is_stuck : 1
        A thread waits for a token of a kind without which the warp must not end.
    has_returned : 1
        A thread waits for a RETURN token.
    """
    return data.StructLayout({
        "valid": 1,
        "step": stack_step(params),
        "error": WarpError,
        "value": 32,
        "has_token": 1,
        "has_next": 1,
        "is_empty": 1,
        "may_continue": 1,
        "token": StoredToken,
        "must_end": 1,
        "is_wrong": 1,
        "may_end": 1,
        "is_masks": 1,
        "code_by_pc": ThreadCode,
        "code_by_mask": ThreadCode,
        "codes": ThreadCodes,
        "revivable": WARP_THREADS,
        "passed": WARP_THREADS,
        "ending": WARP_THREADS,
        "is_stuck": 1,
        "has_returned": 1,
    })


def unwound_step(params: SmParams) -> data.StructLayout:
    """Judge to access and change, in the cycle of the step: an unwind that continues with its next
    token.

    Fields
    ------
    step : stack_step
        The state that the next token starts from.
    codes : ThreadCodes
        The threads' codes that the next token starts from.
    ends : 1
        The present token ends the unwind after all, so the step with the next token is cancelled.
        Late in the cycle.
    """
    return data.StructLayout({"step": stack_step(params), "codes": ThreadCodes, "ends": 1})


def judged_step(params: SmParams) -> data.StructLayout:
    """Judge to commit: the effect of a step on its warp's stack.

    Fields
    ------
    step : stack_step
    writes : 1
        The state is written.
    rolls_back : 1
        With the pointer and the calls that were in ``origin``: an unwind failed after part of it
        was committed.
    origin : Origin
    ends_warp : 1
        No call is open any more, no branch is killed.
    empties : 1
        No line is on chip any more.
    moves_region : 1
        The warp's stack has another place in memory.
    is_done : 1
        The warp's next request may follow.
    parks, parking : 1, Parking
        The operation is handed to the engine, and why.
    """
    return data.StructLayout({
        "step": stack_step(params),
        "writes": 1,
        "rolls_back": 1,
        "origin": Origin,
        "ends_warp": 1,
        "empties": 1,
        "moves_region": 1,
        "is_done": 1,
        "parks": 1,
        "parking": Parking,
    })


def change_flags(params: SmParams) -> data.StructLayout:
    """Change to the engine, in the cycle of the step.

    Fields
    ------
    warp
    parks_write_back : 1
        A write-back is parked.
    fills_cache : 1
        All lines are dirty, and the topmost one has no room any more: the next push has to wait.
    drops_line : 1
        A new line has taken the slot of the lowest one, which was clean.
    begins_line : 1
        A push is the first of its line.
    is_urgent : 1
        The engine serves the warp before others: a write-back is parked; a push has left so many
        dirty lines that one is to be spilled; it failed since the topmost line is not on chip.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "parks_write_back": 1,
        "fills_cache": 1,
        "drops_line": 1,
        "begins_line": 1,
        "is_urgent": 1,
    })


def commit_flags(params: SmParams) -> data.StructLayout:
    """Commit to the engine, in the cycle of the step.

    Fields
    ------
    warp
    parks, parking : 1, Parking
        The operation is parked, and why. An operation whose result is sent also parks, for LOAD, if
        the topmost line has room and is not on chip: the warp stays busy until the line is there.
    writes : 1
        The state is written.
    empties : 1
        No line is on chip any more.
    needs_fill : 1
        So few lines are on chip that the next one below is to be read.
    invalidates : 1
        What a visit has decided for the warp is wrong: the visit is given up. A line that memory is
        already asked for is stale after ``empties`` only; where just the region moves, it belongs
        to the stack as do the lines on chip, which also stay.
    keeps_lines : 1
        Less than two lines are dirty, or ``invalidates``: a line that is about to leave may change,
        and stays dirty.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "parks": 1,
        "parking": Parking,
        "writes": 1,
        "empties": 1,
        "needs_fill": 1,
        "invalidates": 1,
        "keeps_lines": 1,
    })


def engine_counters(params: SmParams) -> data.StructLayout:
    """The engine to commit: its counters of the warp of ``commit_flags``, including the writes of
    this cycle. Lines may have arrived and left since the step was in the access stage.

    Fields
    ------
    below, cleaned : counters
        See StackStates.
    """
    count = params.stack_count_bits
    return data.StructLayout({"below": count, "cleaned": count})


class CommitPort(wiring.Signature):
    """What the commit stage and the engine exchange about one warp.

    Members
    -------
    flags : Out(commit_flags)
    counters : In(engine_counters)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "flags": Out(commit_flags(params)),
            "counters": In(engine_counters(params)),
        })


def replay(params: SmParams) -> data.StructLayout:
    """An operation that was parked and starts again in the access stage.

    Fields
    ------
    warp
    parking : Parking
        Why it was parked.
    fault : 1
        Memory could not give the line that it waited for.
    """
    return data.StructLayout({"warp": params.warp_bits, "parking": Parking, "fault": 1})


class ReplayPort(wiring.Signature):
    """Parked operations, from the engine to the access stage.

    Members
    -------
    valid, payload : Out(1), Out(replay)
        An operation comes back. Only in a cycle with ``ready``.
    ready : In(1)
        The replay register is free.
    soon : Out(1)
        Perhaps an operation comes back in this cycle: the replay register has to be kept for it.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "valid": Out(1),
            "payload": Out(replay(params)),
            "ready": In(1),
            "soon": Out(1),
        })
