"""What the stages around the lanes hand to each other.

================  ================  ===========================
from              to                struct
================  ================  ===========================
DecodeStage       DispatchStage     :func:`decoded_stage`
DispatchStage     OperandStage      :func:`lane_slot`
OperandStage      WriteBack         :func:`beat_stage`
================  ================  ===========================
"""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.condition import Flags
from rtl.isa.special_registers import OF_THREADS
from rtl.layouts import (
    GATHER_REGISTERS,
    SEQUENCE_BITS,
    LaneClient,
    issued,
)
from rtl.params import WARP_THREADS, SmParams

from .common import CommonInstruction
from .instruction import LaneDestination, LaneInstruction
from .vote import Votes

__all__ = [
    "SlotOperation",
    "beat_place",
    "beat_record",
    "beat_stage",
    "decoded_stage",
    "lane_slot",
    "slot_owner",
]


def decoded_stage(params: SmParams) -> data.StructLayout:
    """S2 to S3: an instruction, or what is read for a gather.

    Fields
    ------
    computes : 1
        An instruction for the lanes.
    collects : 1
        An instruction for another unit, whose registers the lanes collect first.
    is_direct : 1
        An instruction for another unit, which is dispatched at once.
    is_refused : 1
        An instruction that nobody executes.
    instruction : issued
    lanes : LaneInstruction
        The instruction as the lanes execute it; lets operands pass unless it ``computes``.
    common : CommonInstruction
        What is known of every instruction.
    warp
        Whose state is read: the instruction's, or that of the gather.
    registers : 3 of 8 bits
        The registers to be read.
    """
    return data.StructLayout({
        "computes": 1,
        "collects": 1,
        "is_direct": 1,
        "is_refused": 1,
        "instruction": issued(params),
        "lanes": LaneInstruction,
        "common": CommonInstruction,
        "warp": params.warp_bits,
        "registers": data.ArrayLayout(8, GATHER_REGISTERS),
    })


def slot_owner(params: SmParams) -> data.StructLayout:
    """Whose slot it is.

    Fields
    ------
    warp
    sequence : 16
    first_row
        The row of the register file that has the warp's R0.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "first_row": params.row_bits,
    })


class SlotOperation(data.Struct):
    """An operation of a unit in a slot."""

    is_present: unsigned(1)
    """There is one."""
    client: LaneClient
    """The unit."""
    index: unsigned(4)
    """The unit's own mark of it, which goes back to the unit beside the data."""


def lane_slot(params: SmParams) -> data.StructLayout:
    """S3 to S4: an instruction, or operations of a unit, which begin to pass the lanes.

    Fields
    ------
    owner : slot_owner
    instruction : LaneInstruction
    threads : 32
        Those that execute it.
    votes : Votes
    thread_register : 1 bit for each of OF_THREADS
        Operand a is that special register, which differs from thread to thread.
    rows
        The rows of its register operands.
    constant : 32
        Its constant operand.
    uniform : 32
        Operand a, where it is no register and the same in all threads.
    collects : 1
        It reads registers for the collector, and writes nothing.
    quarter : 1
        It passes the full lanes only.
    gather : SlotOperation
        It reads registers for a unit; that writes nothing.
    write : SlotOperation
        It writes what a unit supplies: a register, a predicate and CC.
    """
    return data.StructLayout({
        "owner": slot_owner(params),
        "instruction": LaneInstruction,
        "threads": WARP_THREADS,
        "votes": Votes,
        "thread_register": len(OF_THREADS),
        "rows": data.ArrayLayout(params.row_bits, GATHER_REGISTERS),
        "constant": 32,
        "uniform": 32,
        "collects": 1,
        "quarter": 1,
        "gather": SlotOperation,
        "write": SlotOperation,
    })


def beat_record(params: SmParams) -> data.StructLayout:
    """What a beat is.

    Fields
    ------
    writes : 1
        It writes; other beats only read.
    collects : 1
        It reads for the collector.
    place : beat_place
    sequence
    threads : 1 bit for each lane
        The beat's threads that execute the instruction.
    row
        The row of the register that is written.
    destination : LaneDestination
    is_supplied : 1
        A unit supplies what is written.
    """
    return data.StructLayout({
        "writes": 1,
        "collects": 1,
        "place": beat_place(params),
        "sequence": SEQUENCE_BITS,
        "threads": params.lanes,
        "row": params.row_bits,
        "destination": LaneDestination,
        "is_supplied": 1,
    })


def beat_stage(params: SmParams) -> data.StructLayout:
    """S5 to S8: what goes with a beat beside the lanes.

    Fields
    ------
    record : beat_record
    supplied_conditions : Flags for each lane
        CC, if a unit supplies it.
    """
    return data.StructLayout({
        "record": beat_record(params),
        "supplied_conditions": data.ArrayLayout(Flags, params.lanes),
    })


def beat_place(params: SmParams) -> data.StructLayout:
    """Threads of a warp: those of one beat."""
    return data.StructLayout({
        "beat": range(params.beats),
        "warp": params.warp_bits,
    })
