"""What the stages of the stack's pipeline hand to each other, and what is kept of each warp."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.errors import WarpError
from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE
from rtl.layouts import DEPTH_BITS, ThreadCodes
from rtl.params import WARP_THREADS, SmParams

from .tokens import StoredToken

__all__ = [
    "CACHED_LINES", "COUNT_BITS", "FILLS_UP_TO", "LIMIT_BITS", "NEAR_BITS", "PLACE_BITS", "POINTER_CALLS",
    "SLOT_BITS", "SPILLS_FROM", "TOP_STEP", "Counters", "Limits", "Origin", "Parking", "Seek", "StackState", "Step",
    "again", "change_flags", "change_stage", "commit_flags", "commit_stage", "judge_stage"]

CACHED_LINES = CACHED_TOKENS // TOKENS_PER_LINE
"""Lines of a warp that fit on chip."""
SLOT_BITS = (CACHED_LINES - 1).bit_length()
"""Width of a line's slot: its number modulo CACHED_LINES."""
PLACE_BITS = (TOKENS_PER_LINE - 1).bit_length()
"""Width of a token's place in its line."""
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
"""Width of a limit."""
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

Counters = data.StructLayout({"below": COUNT_BITS, "cleaned": COUNT_BITS, "written": 1})
"""The engine's counters; ``written``: memory has confirmed all lines that it was given."""

Limits = data.StructLayout({"limit": LIMIT_BITS, "memory": 1, "checks_calls": 1})
"""The highest number that a token may have, in steps of 16 tokens; whether there is a region in memory; whether calls
are limited."""

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


def change_stage(params: SmParams) -> data.StructLayout:
    """From the access: a step and what is known of its warp.

    ``number`` is what the step counts from: the topmost token, the one that is looked at, or a depth to set; ``top``
    the topmost token's place in its line. ``lines`` are on chip from that token's line down, only one if ``lone``;
    ``sees``: the token is one of theirs, and looked at. When the step began ``held`` were on chip, ``dirty`` of them
    dirty; ``clean``: none. ``near``: the number's step and the limit's make up the same granule, part by part of their
    bits. ``calls_full``: the limit of calls is reached.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "number": DEPTH_BITS, "top": PLACE_BITS, "lines": COUNT_BITS, "lone": 1,
        "sees": 1, "held": COUNT_BITS, "dirty": COUNT_BITS, "clean": 1, "below": COUNT_BITS, "cleaned": COUNT_BITS,
        "calls": 8, "kill": 1, "sunk": 1, "limit": LIMIT_BITS, "memory": 1,
        "near": NEAR_BITS, "calls_full": 1, "token": StoredToken})


def judge_stage(params: SmParams) -> data.StructLayout:
    """From the change, with the token that is looked at.

    ``number`` is that of the topmost token, if the step's token is popped and ends the unwind; ``last``: there is none.
    ``seen``: there is a token to look at; ``none``: there is none on the stack; ``more``: another one is on chip.
    ``follows``: the token before was looked at a cycle ago. ``clamp``: a pointer beyond the limit is set. ``calls`` is
    the API call depth as the tokens above leave it.

    Known of the token by its kind and place: it ends the unwind (``halts``), in error if ``wrong``; or it
    does so if there are threads for it (``may_halt``). In a trap frame, ``framed``: all tokens above in the line are
    MASKS tokens, ``masks``: it is another one; ``anyone``: all threads of its mask go on; ``by_pc``, ``by_mask``: the
    codes that its threads get. Of the threads' codes as the tokens above leave them: who may go on if the token's mask
    has him (``fits``), who has none (``free``); somebody waits for a RETURN token (``returned``) or for one of another
    kind (``stuck``).
    """
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "number": DEPTH_BITS, "last": 1, "lines": COUNT_BITS,
        "held": COUNT_BITS, "dirty": COUNT_BITS, "clean": 1, "below": COUNT_BITS, "cleaned": COUNT_BITS, "calls": 8,
        "kill": 1, "sunk": 1, "limit": LIMIT_BITS, "memory": 1, "clamp": 1, "seen": 1, "none": 1,
        "more": 1, "follows": 1, "token": StoredToken, "halts": 1, "wrong": 1, "may_halt": 1,
        "framed": 1, "masks": 1, "anyone": 1, "by_pc": 3, "by_mask": 3, "codes": ThreadCodes, "fits": WARP_THREADS,
        "free": WARP_THREADS, "stuck": 1, "returned": 1, "error": WarpError, "value": 32})


def commit_stage(params: SmParams) -> data.StructLayout:
    """From the judgement: what the step makes of its warp's stack.

    ``write``: a state is written, that of ``origin`` if ``back``; if ``ends``, no call is open, if ``empties``, no line
    is on chip any more. Else ``lines`` are on chip, fewer than before if ``dropped``; of them the topmost ``dirtied -
    cleaned`` are dirty, if that is more than 0. ``moves``: the warp's memory is another. ``done``: the warp's next
    request may follow. ``parks``: the step goes on by the spill and fill engine.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "memory": 1, "write": 1, "back": 1, "ends": 1, "empties": 1, "done": 1, "parks": 1,
        "parking": Parking, "moves": 1, "number": DEPTH_BITS, "lines": COUNT_BITS, "dropped": 1, "below": COUNT_BITS,
        "dirtied": COUNT_BITS, "calls": 8, "kill": 1, "sunk": 1, "origin": Origin})


def change_flags(params: SmParams) -> data.StructLayout:
    """From the second stage: a step begins that holds its warp; a write-back is parked. A token that was pushed has
    made the last line that has room full, all others being dirty (``fills``); has taken the place of the lowest line
    (``drops``); has left so many dirty lines that one is to be written to memory (``spills``); is the first of its
    line (``begins_line``)."""
    return data.StructLayout({
        "warp": params.warp_bits, "holds": 1, "flushes": 1, "fills": 1, "drops": 1, "spills": 1, "begins_line": 1})


def commit_flags(params: SmParams) -> data.StructLayout:
    """From the fourth stage: an operation is over, or parked, also where the topmost line has room and is not on chip;
    the state is written (``writes``); no line is on chip any more (``empties``), or so few that the next is to be read
    (``lacks``). What moves between cache and memory for the warp counts for nothing (``stirs``); also if less than two
    lines are dirty (``lowers``): what is on its way out then may be changed."""
    return data.StructLayout({
        "warp": params.warp_bits, "done": 1, "parks": 1, "parking": Parking, "writes": 1, "empties": 1, "lacks": 1,
        "stirs": 1, "lowers": 1})
