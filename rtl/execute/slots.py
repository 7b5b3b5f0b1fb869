"""What the stages around the lanes hand to each other.

================  ================  ===========================
from              to                struct
================  ================  ===========================
DecodeStage       DispatchStage     :func:`decoded_stage`
DispatchStage     OperandStage      :func:`lane_slot`
OperandStage      WriteBack         :func:`beat_stage`
WriteBack         register and      :func:`beat_write`
                  predicate files
================  ================  ===========================
"""

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
    """S2 to S3: an instruction; or a gather, a write or both.

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
    gathers, writes : 1, 1
        There is a ``gather``, a ``write``.
    instruction : issued
    lanes : LaneInstruction
        The instruction as the lanes execute it; lets operands pass unless it ``computes``.
    common : CommonInstruction
        What is known of every instruction.
    gather, write : offered_operation
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
        "gathers": 1,
        "writes": 1,
        "instruction": issued(params),
        "lanes": LaneInstruction,
        "common": CommonInstruction,
        "gather": offered_operation(register_gather(params)),
        "write": offered_operation(register_write(params)),
        "warp": params.warp_bits,
        "registers": data.ArrayLayout(8, GATHER_REGISTERS),
    })


def lane_slot(params: SmParams) -> data.StructLayout:
    """S3 to S4: an instruction, or operations of a unit, which begin to pass the lanes.

    Fields
    ------
    warp, serial
    instruction : LaneInstruction
    threads : 32
        Those that execute it.
    agrees, objects : 1 bit for each part of a warp
        See Vote.
    thread_register : 1 bit for each of OF_THREADS
        Operand a is that special register, which differs from thread to thread.
    first_row
        The row of the register file that has the warp's R0.
    rows
        Those of its register operands.
    constant : 32
        Its constant operand.
    uniform : 32
        Operand a, where it is no register and the same in all threads.
    collects : 1
        It reads registers for the collector, and writes nothing.
    quarter : 1
        It passes the full lanes only.
    gathers, reader, read_index : 1, LaneClient, 4
        It reads registers for a unit, which has marked the operation with ``read_index``; that
        writes nothing.
    is_supplied, client, index : 1, LaneClient, 4
        It writes what a unit supplies: a register, a predicate and CC. The unit has marked the
        operation with ``index``.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "serial": SERIAL_BITS,
        "instruction": LaneInstruction,
        "threads": WARP_THREADS,
        "agrees": VOTE_PARTS,
        "objects": VOTE_PARTS,
        "thread_register": len(OF_THREADS),
        "first_row": params.row_bits,
        "rows": data.ArrayLayout(params.row_bits, GATHER_REGISTERS),
        "constant": 32,
        "uniform": 32,
        "collects": 1,
        "quarter": 1,
        "gathers": 1,
        "reader": LaneClient,
        "read_index": 4,
        "is_supplied": 1,
        "client": LaneClient,
        "index": 4,
    })


def beat_stage(params: SmParams) -> data.StructLayout:
    """S5 to S8: what goes with a beat beside the lanes.

    Fields
    ------
    writes : 1
        It writes; other beats only read.
    collects : 1
        It reads for the collector.
    place : beat_place
    serial
    threads : 1 bit for each lane
        The beat's threads that execute the instruction.
    row
        The row of ``register``.
    register : 8
        The register that is written; RZ: none.
    p, q, writes_cc
        See LaneInstruction.
    is_supplied, supplied_conditions : 1, Flags for each lane
        CC is a unit's, not that of the lanes.
    """
    return data.StructLayout({
        "writes": 1,
        "collects": 1,
        "place": beat_place(params),
        "serial": SERIAL_BITS,
        "threads": params.lanes,
        "row": params.row_bits,
        "register": 8,
        "p": 3,
        "q": 3,
        "writes_cc": 1,
        "is_supplied": 1,
        "supplied_conditions": data.ArrayLayout(Flags, params.lanes),
    })


def beat_place(params: SmParams) -> data.StructLayout:
    """Threads of a warp: those of one beat."""
    return data.StructLayout({
        "beat": range(params.beats),
        "warp": params.warp_bits,
    })


def beat_write(params: SmParams) -> data.StructLayout:
    """S8: what a beat writes.

    Fields
    ------
    place : beat_place
    writes_register : 1
        The instruction writes ``row`` of the register file.
    row
    registers : 1 bit for each lane
        The lanes whose register is written.
    values : 32 bits for each lane
        What is written there; 0 in lanes that do not write.
    predicates_written : P0 to P6 for each lane
        The predicates that are written.
    predicates : P0 to P6 for each lane
        Their new values.
    conditional : 1 bit for each lane
        The lanes whose CC is written.
    conditions : Flags for each lane
    """
    lanes = params.lanes
    return data.StructLayout({
        "place": beat_place(params),
        "writes_register": 1,
        "row": params.row_bits,
        "registers": lanes,
        "values": data.ArrayLayout(32, lanes),
        "predicates_written": data.ArrayLayout(PT, lanes),
        "predicates": data.ArrayLayout(PT, lanes),
        "conditional": lanes,
        "conditions": data.ArrayLayout(Flags, lanes),
    })
