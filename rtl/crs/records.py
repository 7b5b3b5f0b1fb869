"""What the stages of the stack's pipeline hand to each other, and what is kept of each warp."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.layouts import DEPTH_BITS, Event, ThreadCodes
from rtl.params import WARP_THREADS, SmParams

from .tokens import CACHED_LINES, PLACE_BITS, SLOT_BITS, StoredToken

__all__ = [
    "COUNT_BITS", "FILLS_UP_TO", "LIMIT_BITS", "NEAR_BITS", "POINTER_CALLS", "SPILLS_FROM", "TOP_STEP", "EnginePort",
    "Origin", "Parking", "Seek", "StackState", "Step", "again", "change_flags", "change_stage", "commit_flags",
    "commit_stage", "judge_stage", "stack_step"]

FILLS_UP_TO = CACHED_LINES - 2
"""Lines on chip, up to which the next is read. So what is installed never meets the next lines that are pushed."""
SPILLS_FROM = CACHED_LINES - 1
"""Dirty lines, from which on the oldest is written."""
COUNT_BITS = 3
"""Width of a count of a warp's lines on chip, 0 to 4, and of the counters modulo 8 of whose differences they are
made."""
POINTER_CALLS = 23
"""Place of the API call depth in the format of GETCRSPTR and SETCRSPTR; the kill bit is the highest, the depth the
lowest."""
TOP_STEP = SLOT_BITS + PLACE_BITS
"""Limits count steps of so many tokens, as a power of two."""
LIMIT_BITS = DEPTH_BITS - TOP_STEP
"""Width of a limit: the highest number that a token may have, in steps."""
NEAR_BITS = 3
"""Parts in which a number is held against a limit."""


class StackState(data.Struct):
    """What the pipeline keeps of a warp's stack.

    The lines on chip are the topmost ones; of those the topmost are dirty: memory does not have them as they are. Both
    are counted as differences modulo 8, so that each counter has one writer: the pipeline these, the spill and fill
    engine ``below`` and ``cleaned``.
    """

    last: unsigned(DEPTH_BITS)
    """Number of the topmost token; all ones when the stack is empty."""
    entered: unsigned(COUNT_BITS)
    """``entered - below`` lines are on chip."""
    dirtied: unsigned(COUNT_BITS)
    """``dirtied - cleaned`` of them are dirty."""
    calls: unsigned(8)
    """API call depth."""
    kill: unsigned(1)
    """Whether limited branches are killed."""
    sunk: unsigned(1)
    """The unwind under way has left lines behind: the stack is as it was only in its :class:`Origin`."""


Origin = data.StructLayout({"last": DEPTH_BITS, "calls": 8})
"""The stack when an unwind began, to which it is put back if the unwind fails."""

Seek = data.StructLayout({"quad": 1, "frame": 1})
"""What an unwind looks for, if not for a thread that goes on."""


class Parking(enum.Enum, shape=2):
    """What the spill and fill engine has to do for a warp whose operation has left the pipeline."""

    WALK = 0
    """Read the next line, if none is on chip; then the unwind goes on."""
    SINK = 1
    """Write all dirty lines, which the unwind has seen; then it goes on, and leaves them behind."""
    WRITE_BACK = 2
    """Write all dirty lines and wait until memory has them."""
    LOAD = 3
    """Read the topmost line, which has room for the next token."""


Step = data.StructLayout(dict.fromkeys((
    "push", "counts", "prepares", "pair", "walk", "quad", "frame", "clear", "get", "set", "base", "move", "launch",
    "mode", "leave", "write_back", "load", "fault", "holds", "prior"), 1))
"""What the pipeline does for a warp: a token is pushed, if there is room (``push``), which ``counts`` as a call, which
at the limit of calls sets the kill bit (``prepares``), behind which there has to be room for another (``pair``). A
token is looked at that may end an unwind (``walk``), which has to be a QUAD token's (``quad``), or a trap frame's
(``frame``), or which is not seen at all (``clear``). The stack pointer is read (``get``) or ``set``; so is the ``base``
of the warp's memory, or it is moved (``move``). The stack is emptied for a new warp (``launch``). The trap handler is
entered or left (``mode``), or left (``leave``). Dirty lines are to be written (``write_back``). The topmost line has
come (``load``), or one that is needed could not be read (``fault``). The warp has nothing else under way until this is
over (``holds``): so with all that waits for the commit. The unwind goes before requests (``prior``)."""


def again(params: SmParams) -> data.StructLayout:
    """An operation that comes back into the pipeline from where it was parked."""
    return data.StructLayout({"warp": params.warp_bits, "parking": Parking, "fault": 1})


class EnginePort(wiring.Signature):
    """What the pipeline sees of the spill and fill engine.

    Members
    -------
    change, commit : Out(change_flags), Out(commit_flags)
        What happens in this cycle.
    below, cleaned : In(COUNT_BITS), In(COUNT_BITS)
        The engine's counters of the warp of ``commit``, as they are with what is written in this cycle.
    full : In(warps)
        Whose lines are all dirty, and the last one full.
    again, again_free, waking : In(Event(again)), Out(1), In(1)
        An operation comes back into the pipeline; ``waking``: perhaps in this cycle, nobody else may.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "change": Out(change_flags(params)), "commit": Out(commit_flags(params)), "below": In(COUNT_BITS),
            "cleaned": In(COUNT_BITS), "full": In(params.warps), "again": In(Event(again(params))),
            "again_free": Out(1), "waking": In(1)})


def stack_step(params: SmParams) -> data.StructLayout:
    """A step of a warp, as it goes through the stages.

    ``state`` is that of the warp's stack; from the second stage on without the token that an unwind looks at, or with
    the one that was pushed. Its number is a depth to set, if the step sets one. ``lines`` are on chip from the topmost
    token's line down; some have been left by this unwind if ``dropped``; when it began no line was dirty if ``clean``.
    ``memory``: the stack has a region there. ``framed``: the tokens above in the line are MASKS tokens.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "state": StackState, "lines": COUNT_BITS, "dropped": 1, "clean": 1,
        "memory": 1, "framed": 1})


def change_stage(params: SmParams) -> data.StructLayout:
    """From the access: a step and what is known of its warp.

    ``follows``: it is an unwind's that goes on, of which only ``sees`` is known besides: there is a token to look at,
    and on chip. ``top`` is the topmost token's place in its line; ``free`` is where the next one lies on chip.
    ``dirty`` lines are dirty. ``near``: the topmost token's step and the ``limit``'s make up the same granule, part by
    part of their bits. ``calls_full``: the limit of calls is reached. ``token`` is to be pushed, its pc may be another
    operand.
    """
    return data.StructLayout({
        "valid": 1, "run": stack_step(params), "follows": 1, "sees": 1, "top": PLACE_BITS, "free": TOP_STEP,
        "dirty": COUNT_BITS, "near": NEAR_BITS, "limit": LIMIT_BITS, "calls_full": 1, "token": StoredToken})


def judge_stage(params: SmParams) -> data.StructLayout:
    """From the change, with the token that is looked at.

    ``seen``: there is one; ``more``: there is another one below it on chip; ``bottom``: there is none on the stack.
    ``onward``: the unwind goes on unless the token ends it.

    Known of the token by its kind and place: it ends the unwind (``halts``), in error if ``wrong``; or it does so if
    there are threads for it (``may_halt``). In a trap frame, ``masks``: it is one of its MASKS tokens; ``anyone``: all
    threads of its mask go on; ``by_pc``, ``by_mask``: the codes that its threads get. Of the threads' codes as the
    tokens above leave them: who may go on if the token's mask has him (``fits``), who has passed it (``past``), either
    (``stops``); somebody waits for a RETURN token (``returned``) or for one of another kind (``stuck``).
    """
    return data.StructLayout({
        "valid": 1, "run": stack_step(params), "seen": 1, "more": 1, "bottom": 1, "onward": 1, "token": StoredToken,
        "halts": 1, "wrong": 1, "may_halt": 1, "masks": 1, "anyone": 1, "by_pc": 3, "by_mask": 3, "codes": ThreadCodes,
        "fits": WARP_THREADS, "past": WARP_THREADS, "stops": WARP_THREADS,
        "stuck": 1, "returned": 1, "error": WarpError, "value": 32})


def commit_stage(params: SmParams) -> data.StructLayout:
    """From the judgement: what the step makes of its warp's stack.

    ``write``: the state is written, with what it was in ``origin`` if ``back``; if ``ends``, no call is open, if
    ``empties``, no line is on chip any more. ``moves``: the warp's memory is another. ``done``: the warp's next request
    may follow. ``parks``: the step goes on by the spill and fill engine.
    """
    return data.StructLayout({
        "run": stack_step(params), "write": 1, "back": 1, "origin": Origin, "ends": 1, "empties": 1, "moves": 1,
        "done": 1, "parks": 1, "parking": Parking})


def change_flags(params: SmParams) -> data.StructLayout:
    """From the second stage: a step begins that holds its warp; a write-back is parked. A token that was pushed has
    made the last line that has room full, all others being dirty (``fills``); has taken the place of the lowest line
    (``drops``); has left so many dirty lines that one is to be written to memory (``spills``); is the first of its
    line (``begins_line``). One could not be pushed, since the topmost line is not on chip (``lacks``): that is to be
    read."""
    return data.StructLayout({
        "warp": params.warp_bits, "holds": 1, "flushes": 1, "fills": 1, "drops": 1, "spills": 1, "begins_line": 1,
        "lacks": 1})


def commit_flags(params: SmParams) -> data.StructLayout:
    """From the fourth stage: an operation is over, or parked, also where the topmost line has room and is not on chip;
    the state is written (``writes``); no line is on chip any more (``empties``), or so few that the next is to be read
    (``lacks``). What moves between cache and memory for the warp counts for nothing (``stirs``); also if less than two
    lines are dirty (``lowers``): what is on its way out then may be changed."""
    return data.StructLayout({
        "warp": params.warp_bits, "done": 1, "parks": 1, "parking": Parking, "writes": 1, "empties": 1, "lacks": 1,
        "stirs": 1, "lowers": 1})
