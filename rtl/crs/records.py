"""What the stages of the stack's pipeline hand to each other, and what is kept of each warp."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.errors import WarpError
from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE
from rtl.layouts import DEPTH_BITS, StackConfiguration
from rtl.params import SmParams

from .tokens import StoredToken

__all__ = [
    "CACHED_LINES",
    "COUNT_BITS",
    "FILLS_UP_TO",
    "LIMIT_BITS",
    "PLACE_BITS",
    "POINTER_CALLS",
    "SLOT_BITS",
    "SPILLS_FROM",
    "Origin",
    "Parking",
    "StackState",
    "Step",
    "Tags",
    "again",
    "change_stage",
    "commit_stage",
    "judge_stage",
]

CACHED_LINES = CACHED_TOKENS // TOKENS_PER_LINE
"""Lines of a warp that fit on chip."""
SLOT_BITS = (CACHED_LINES - 1).bit_length()
"""Width of a line's slot: its number modulo CACHED_LINES."""
PLACE_BITS = SLOT_BITS + (TOKENS_PER_LINE - 1).bit_length()
"""Width of a token's place among those of its warp on chip: its number modulo CACHED_TOKENS."""
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
LIMIT_BITS = DEPTH_BITS - PLACE_BITS
"""Width of a limit in steps of 16 tokens."""


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


class Tags(data.Struct):
    """One bit of each copy of a warp's state. They are the same when the push stage has written last."""

    pushed: unsigned(1)
    committed: unsigned(1)


class Origin(data.Struct):
    """The stack when an unwind began, to which it is put back if the unwind fails."""

    last: unsigned(DEPTH_BITS)
    calls: unsigned(8)


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


class Step(data.Struct):
    """What the pipeline does for a warp."""

    push: unsigned(1)
    """A token is pushed, if there is room."""
    counts: unsigned(1)
    """It counts as a call."""
    prepares: unsigned(1)
    """At the limit of calls the kill bit is set."""
    pair: unsigned(1)
    """There has to be room for two."""
    walk: unsigned(1)
    """A token is looked at that may end an unwind."""
    quad: unsigned(1)
    """It has to be a QUAD token."""
    frame: unsigned(1)
    """It has to be a trap frame's."""
    clear: unsigned(1)
    """The unwind sees no token."""
    get: unsigned(1)
    """The stack pointer is read."""
    set: unsigned(1)
    """The stack pointer is set."""
    base: unsigned(1)
    """The base of the warp's memory is read."""
    move: unsigned(1)
    """It is set."""
    launch: unsigned(1)
    """The stack is emptied for a new warp."""
    mode: unsigned(1)
    """The trap handler is entered or left."""
    leave: unsigned(1)
    """The trap handler is left."""
    write_back: unsigned(1)
    """Dirty lines are to be written."""
    load: unsigned(1)
    """The topmost line has come."""
    fault: unsigned(1)
    """A line that is needed could not be read."""
    single: unsigned(1)
    """The warp has nothing else under way until this is over: any operation but a push."""
    prior: unsigned(1)
    """The unwind goes before requests."""


def again(params: SmParams) -> data.StructLayout:
    """An operation that comes back into the pipeline from where it was parked."""
    return data.StructLayout({"warp": params.warp_bits, "parking": Parking, "fault": 1})


def change_stage(params: SmParams) -> data.StructLayout:
    """From the access: a step and what is known of its warp.

    ``number`` is what the step counts from: the topmost token, the one that is looked at, or a depth to set; ``places``
    the topmost token's place in its line. ``lines`` are on chip from that token's line down. When the step began
    ``held`` were on chip, ``dirty`` of them dirty; ``clean``: none.
    ``limit`` is the highest number that a token may have, in steps of 16 tokens; ``beyond``: ``number`` is in a higher
    step; ``limited``: there is no room behind it for a token, or for two of a pair. ``calls_full``: the limit of calls
    is reached.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "number": DEPTH_BITS, "places": 2, "lines": COUNT_BITS,
        "held": COUNT_BITS,
        "dirty": COUNT_BITS, "below": COUNT_BITS, "cleaned": COUNT_BITS, "calls": 8, "kill": 1, "sunk": 1, "tags": Tags,
        "limit": LIMIT_BITS,
        "memory": 1, "clean": 1, "beyond": 1, "limited": 1, "calls_full": 1, "token": StoredToken,
        "configuration": StackConfiguration})


def judge_stage(params: SmParams) -> data.StructLayout:
    """From the change, beside the token.

    ``number`` is that of the topmost token, if the step's token is popped and ends the unwind; ``last``: there is none.
    ``seen``: there is a token to look at, ``popped``: for the last time; ``none``: there is none on the stack;
    ``more``: another one is on chip. ``follows``: the token before was looked at a cycle ago. ``place`` is the token's
    in its line. ``clamp``: a pointer beyond the limit is set. ``assign`` are the codes that threads of the token get.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "number": DEPTH_BITS, "last": 1, "lines": COUNT_BITS,
        "held": COUNT_BITS,
        "dirty": COUNT_BITS, "below": COUNT_BITS, "cleaned": COUNT_BITS, "kill": 1, "sunk": 1, "tags": Tags,
        "limit": LIMIT_BITS, "memory": 1,
        "clamp": 1, "clean": 1, "seen": 1, "popped": 1, "none": 1, "more": 1, "follows": 1, "place": 2, "assign": 3,
        "error": WarpError, "value": 32})


def commit_stage(params: SmParams) -> data.StructLayout:
    """From the judgement: what the step makes of its warp's stack.

    ``write``: a state is written, that of ``origin`` if ``back``; if ``ends``, no call is open, if ``forget``, no line
    is on chip any more. Else ``lines`` are on chip, fewer than before if ``dropped``; of them the topmost ``dirtied -
    cleaned`` are dirty, if that is more than 0. ``moves``: the warp's memory is another. ``done``:
    the warp's next request may follow. ``parks``: the step goes on by the spill and fill engine.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "memory": 1, "write": 1, "back": 1, "ends": 1, "forget": 1, "done": 1, "parks": 1,
        "parking": Parking,
        "moves": 1, "number": DEPTH_BITS, "lines": COUNT_BITS, "dropped": 1, "below": COUNT_BITS, "dirtied": COUNT_BITS,
        "calls": 8, "kill": 1, "sunk": 1, "tags": Tags, "origin": Origin})


