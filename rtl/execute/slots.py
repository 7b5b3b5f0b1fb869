"""What the stages around the lanes hand to each other."""

from amaranth.lib import data

from rtl.isa.condition import Flags
from rtl.isa.special_registers import OF_THREADS
from rtl.isa.syntax import PT
from rtl.layouts import (
    GATHER_REGISTERS,
    SERIAL_BITS,
    LaneClient,
    issued,
    offered_operation,
    register_gather,
    register_write,
)
from rtl.params import WARP_THREADS, SmParams

from .common import CommonInstruction
from .instruction import LaneInstruction
from .vote import VOTE_PARTS

__all__ = ["beat_place", "beat_stage", "beat_write", "decoded_stage", "lane_slot"]


def decoded_stage(params: SmParams) -> data.StructLayout:
    """An ``instruction``, a ``gather``, a ``write`` or both of these, from S2 to S3.

    An instruction ``computes`` in the lanes, ``collects`` registers for another unit, goes there ``directly`` or is
    ``refused``; it means to the lanes what ``lanes`` says, which lets operands pass unless it computes, and to all what
    ``common`` says. Otherwise the unit ``gathers``, ``writes`` or does both. ``warp`` is that whose state is wanted,
    ``registers`` are those to be read.
    """
    return data.StructLayout({
        "computes": 1, "collects": 1, "directly": 1, "refused": 1, "gathers": 1, "writes": 1,
        "instruction": issued(params), "lanes": LaneInstruction, "common": CommonInstruction,
        "gather": offered_operation(register_gather(params)), "write": offered_operation(register_write(params)),
        "warp": params.warp_bits, "registers": data.ArrayLayout(8, GATHER_REGISTERS)})


def lane_slot(params: SmParams) -> data.StructLayout:
    """An instruction or an operation of a unit that begins to pass the lanes, from S3 to S4.

    ``threads`` execute it. ``agrees`` and ``objects`` are a Vote's. ``own``: operand a is this one of OF_THREADS.
    ``first_row`` is that of the warp's R0, ``rows`` are those of
    its register operands. ``constant`` is its constant operand; ``uniform`` is operand a where it is no register and
    the same in all threads. ``collects``: it reads for the collector, and writes nothing. ``quarter``: it passes the
    full lanes only.

    Operations of units: a ``gather`` reads ``rows`` for ``reader``, who has marked it with ``read_index``, and writes
    nothing by itself. What is written may be ``supplied``: ``client``, who has marked it with ``index``, has the
    values, and those of the predicate and of CC.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "serial": SERIAL_BITS, "instruction": LaneInstruction, "threads": WARP_THREADS,
        "agrees": VOTE_PARTS, "objects": VOTE_PARTS, "own": len(OF_THREADS), "first_row": params.row_bits,
        "rows": data.ArrayLayout(params.row_bits, GATHER_REGISTERS), "constant": 32, "uniform": 32, "collects": 1,
        "quarter": 1, "gather": 1, "reader": LaneClient, "read_index": 4, "supplied": 1, "client": LaneClient,
        "index": 4})


def beat_stage(params: SmParams) -> data.StructLayout:
    """What goes with a beat beside the lanes, from S5 to S8.

    ``threads`` of the beat execute the instruction. ``row`` is that of ``register``; ``p``, ``q`` and ``writes_cc`` are
    those of a LaneInstruction. ``supplied``: CC does not come from the lanes. What only reads is not ``writing``.
    """
    return data.StructLayout({
        "writing": 1, "collects": 1, "place": beat_place(params), "serial": SERIAL_BITS,
        "threads": params.lanes, "row": params.row_bits, "register": 8, "p": 3, "q": 3, "writes_cc": 1,
        "supplied": 1})


def beat_place(params: SmParams) -> data.StructLayout:
    """Threads of a warp: those of one beat."""
    return data.StructLayout({"beat": range(params.beats), "warp": params.warp_bits})


def beat_write(params: SmParams) -> data.StructLayout:
    """What a beat writes, in S8.

    An instruction that ``fills`` writes ``values`` to ``row``, in the lanes ``registers``. Of each lane: ``written``
    are the predicates that it writes, ``predicates`` their new values. Lanes that are ``conditional`` write CC,
    ``conditions``.
    """
    lanes = params.lanes
    return data.StructLayout({
        "place": beat_place(params), "fills": 1, "row": params.row_bits, "registers": lanes,
        "values": data.ArrayLayout(32, lanes), "written": data.ArrayLayout(PT, lanes),
        "predicates": data.ArrayLayout(PT, lanes), "conditional": lanes, "conditions": data.ArrayLayout(Flags, lanes)})
