"""The structs between the stages around the lanes.

A *slot* is a use of the lanes for all beats of a warp: by one instruction, or by a gather, a write
or both.

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
        An instruction that cannot be executed.
    instruction : issued
    lanes : LaneInstruction
        The control of the lanes. Unless it ``computes``, operands pass unchanged.
    common : CommonInstruction
        The fields that every instruction has.
    warp
        The warp whose state is read: that of the instruction, or of the gather.
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
    """The instruction or the write to which a slot belongs. A gather beside a write has none.

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
    """An operation of another unit in a slot."""

    is_present: unsigned(1)
    """The slot has such an operation."""
    client: LaneClient
    """The unit."""
    index: unsigned(4)
    """The number that the unit has chosen for it; it is returned to the unit with the data."""


def lane_slot(params: SmParams) -> data.StructLayout:
    """S3 to S4: a slot; it enters the lanes with its first beat.

    Fields
    ------
    owner : slot_owner
    instruction : LaneInstruction
    threads : 32
        The threads that execute it.
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
        An instruction of a quarter of the rate: only the full lanes compute it.
    gather : SlotOperation
        Registers are read for a unit. A slot with a gather alone writes nothing.
    write : SlotOperation
        A register, a predicate and CC are written, with data that a unit supplies.
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
    """What is known of a beat when it is written.

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
    """S5 to S8: the data of a beat that bypass the lanes.

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
    """The warp and number of a beat; as bits, its address in memories with a word a beat."""
    return data.StructLayout({
        "beat": range(params.beats),
        "warp": params.warp_bits,
    })
