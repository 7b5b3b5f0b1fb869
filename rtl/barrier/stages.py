"""What the barrier unit works on, and what its parts hand to each other.

=========  =========  ================================
from       to         struct
=========  =========  ================================
queue      unit       :func:`barrier_request`
each step  the next   :func:`barrier_work`
=========  =========  ================================

Of each barrier a :func:`barrier_row` is kept, of each warp its last :func:`arrival`.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.barriers import BARRIERS, SYNCALL_BARRIER, BarrierState
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead, BarrierReduction
from rtl.layouts import SEQUENCE_BITS
from rtl.params import WARP_THREADS, SmParams

__all__ = [
    "BARRIERS_OF_CTA",
    "COUNT_BITS",
    "BarrierTask",
    "Destination",
    "WaitChange",
    "arrival",
    "barrier_address",
    "barrier_request",
    "barrier_row",
    "barrier_work",
]

BARRIERS_OF_CTA = SYNCALL_BARRIER + 1
"""Barriers of a CTA: the numbered ones, and BAR.SYNCALL's."""
COUNT_BITS = BarrierState.as_shape()["expected"].width
"""Bits of the number of warps that BAR names."""


class BarrierTask(enum.Enum, shape=3):
    """What the unit does. An instruction is one of the first four."""

    ARRIVE = 0
    """BAR."""
    READ = 1
    """B2R."""
    WRITE = 2
    """R2B."""
    NOTHING = 3
    """An instruction that no thread executes, or that has an error."""
    SETTLE = 4
    """Checks all used barriers of a CTA one of whose warps has terminated."""
    WITHDRAW = 5
    """Takes the arrival of a warp back."""


class WaitChange(enum.Enum, shape=2):
    """What a cycle changes in the set of warps that wait at the barrier."""

    NONE = 0
    JOIN = 1
    """The warp that arrives begins to wait."""
    LEAVE = 2
    """A warp's arrival is withdrawn."""


class Destination(data.Struct):
    """What B2R writes."""

    register: unsigned(8)
    """RZ: none."""
    predicate: unsigned(3)
    """PT: none."""


def barrier_request(params: SmParams) -> data.StructLayout:
    """Queue to unit: an instruction of a warp, decoded, its threads counted.

    Fields
    ------
    warp, sequence, pc
    operation : BarrierTask
        One of the first three.
    mode, reduction : BarrierMode, BarrierReduction
        Of BAR.
    selection : BarrierRead
        What B2R reads, or R2B writes.
    executes : 1
        A thread executes the instruction, or none has to: BAR.SYNCALL.
    number : 0 to 16
        The barrier's; 16 is BAR.SYNCALL's, and every number without a barrier.
    count : COUNT_BITS
        Warps that BAR names; 0: all of the CTA.
    count_is_wrong : 1
        BAR names no whole number of warps, or more than can be counted.
    population : 0 to 32
        Threads whose predicate is true.
    some_true, some_false : 1
        The predicate of some thread is true; of some thread it is false.
    content : 32
        The value of R2B, or the threads that execute B2R.
    destination : Destination
        What B2R writes.
    write_barrier, read_barrier : 3
        Scoreboards.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "pc": 32,
        "operation": BarrierTask,
        "mode": BarrierMode,
        "reduction": BarrierReduction,
        "selection": BarrierRead,
        "executes": 1,
        "number": range(BARRIERS + 1),
        "count": COUNT_BITS,
        "count_is_wrong": 1,
        "population": range(WARP_THREADS + 1),
        "some_true": 1,
        "some_false": 1,
        "content": 32,
        "destination": Destination,
        "write_barrier": 3,
        "read_barrier": 3,
    })


def barrier_address(params: SmParams) -> data.StructLayout:
    """Where a barrier is: the slot of its CTA, and its number."""
    return data.StructLayout({"cta": params.warp_bits, "number": range(BARRIERS_OF_CTA)})


def barrier_row(params: SmParams) -> data.StructLayout:
    """A barrier of a CTA.

    Fields
    ------
    state : BarrierState
        What B2R reads: arrivals, how many are expected, what they have reduced.
    waiting : warps
        The warps that wait there.
    has_reduction : 1
        A warp that has arrived takes part in a reduction.
    false_warps, true_warps : 0 to all warps
        Warps that have arrived with a predicate that is false, or true, in some thread.
    """
    count = range(params.warps + 1)
    return data.StructLayout({
        "state": BarrierState,
        "waiting": params.warps,
        "has_reduction": 1,
        "false_warps": count,
        "true_warps": count,
    })


def arrival(params: SmParams) -> data.StructLayout:
    """The last arrival of a warp: the barrier, and what the warp contributed to it. A withdrawal
    undoes the arrival with this.

    Fields
    ------
    number : 0 to 16
        The barrier's.
    is_reduction, reduction : 1, BarrierReduction
        The warp gets the result of this reduction.
    population, some_false, some_true
        See :func:`barrier_request`; 0 if the warp takes part in no reduction.
    """
    return data.StructLayout({
        "number": range(BARRIERS_OF_CTA),
        "is_reduction": 1,
        "reduction": BarrierReduction,
        "population": range(WARP_THREADS + 1),
        "some_false": 1,
        "some_true": 1,
    })


def barrier_work(params: SmParams, request: data.StructLayout) -> data.StructLayout:
    """The task under way, as each step hands it to the next one.

    Parameters
    ----------
    params : SmParams
    request : StructLayout
        What the queue hands to the unit.

    Fields
    ------
    task : BarrierTask
        From SELECT on; of an instruction from CHECK on.
    request : barrier_request
        From SELECT on. Of a warp that is withdrawn only ``warp`` counts.
    error : WarpError
        From CHECK on: the error that is reported.
    barrier : barrier_address
        From CHECK, LOCATE or SETTLE_NEXT on: the barrier.
    row : barrier_row
        Its old value from READ on, its new value from UPDATE on.
    completes : 1
        From DECIDE on: enough warps have arrived.
    """
    return data.StructLayout({
        "task": BarrierTask,
        "request": request,
        "error": WarpError,
        "barrier": barrier_address(params),
        "row": barrier_row(params),
        "completes": 1,
    })
