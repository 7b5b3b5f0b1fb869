"""Access of other units to registers, by operations of the lanes: gathers and writes.

A warp's 32 threads pass the lanes in beats, as many at a time as there are lanes: beat ``beat`` has
thread ``beat * lanes + lane`` in each lane. The beats of one instruction or operation are in
consecutive cycles; in the serial machine there are gaps between them.
"""

from amaranth.hdl import ShapeLike
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import WARP_THREADS, SmParams

from .event import Event
from .instruction import SEQUENCE_BITS

__all__ = [
    "GATHERING",
    "GATHER_REGISTERS",
    "LaneClient",
    "LaneClientPort",
    "LaneData",
    "LaneWriteData",
    "LaneWriterPort",
    "gathered_beat",
    "lane_write",
    "offered_operation",
    "operation_beat",
    "register_gather",
    "register_write",
]

GATHER_REGISTERS = 3
"""Registers that one operation can read."""


class LaneClient(enum.Enum, shape=2):
    """The units that request operations of the lanes."""

    MEMORY = 0
    CONVERSION = 1
    BARRIER = 2
    FLOW = 3


GATHERING = (LaneClient.MEMORY, LaneClient.CONVERSION)
"""The clients that read registers; all of them write registers."""


def _operation(params: SmParams) -> dict[str, ShapeLike]:
    return {
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "index": 4,
        "last": 1,
        "barrier": 3,
    }


def register_gather(params: SmParams) -> data.StructLayout:
    """A unit reads up to three registers of a warp, ``registers``; RZ for those that it does not
    need. All 32 threads are read.

    ``index`` is a number of the unit's choice, which is returned with the data. The ``last`` gather
    of an instruction lowers scoreboard ``barrier`` by one; 7 is none.
    """
    registers = data.ArrayLayout(8, GATHER_REGISTERS)
    return data.StructLayout(_operation(params) | {"registers": registers})


def register_write(params: SmParams) -> data.StructLayout:
    """A unit writes ``register`` of a warp's ``threads``; and predicate ``predicate``, if it is not
    PT; and CC, if ``conditional``.

    ``index``, ``last`` and ``barrier`` as of a :func:`register_gather`; the ``last`` write also
    completes the instruction.
    """
    return data.StructLayout(_operation(params) | {
        "register": 8, "predicate": 3, "conditional": 1, "threads": WARP_THREADS})


def offered_operation(operation: data.StructLayout) -> data.StructLayout:
    """A gather or a write of ``client`` that issue has granted. Operations alternate with
    instructions; among gathers, and among writes, the clients are served round robin. See
    rtl.issue.operations."""
    return data.StructLayout({"client": LaneClient, "operation": operation})


def operation_beat(params: SmParams) -> data.StructLayout:
    """A beat of an operation with that ``index``."""
    return data.StructLayout({"index": 4, "beat": range(params.beats)})


def gathered_beat(params: SmParams) -> data.StructLayout:
    """A beat of a gather with that ``index``: three values for each lane."""
    registers = data.ArrayLayout(32, GATHER_REGISTERS)
    return data.StructLayout({
        "index": 4,
        "beat": range(params.beats),
        "values": data.ArrayLayout(registers, params.lanes),
    })


class LaneWriteData(wiring.Signature):
    """The data of a unit that only writes registers, directions are those of the unit.

    Members
    -------
    wanted : In(Event(operation_beat))
        A request for the data of this beat of a write: the unit drives them in the next cycle.
    values, flags, conditions : Out
        The values for the register, the predicate and CC of each lane; in the cycle after
        ``wanted``.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "wanted": In(Event(operation_beat(params))),
            "values": Out(data.ArrayLayout(32, params.lanes)),
            "flags": Out(params.lanes),
            "conditions": Out(data.ArrayLayout(Flags, params.lanes)),
        })


class LaneData(wiring.Signature):
    """The data of a unit that reads and writes registers, directions are those of the unit.

    Members
    -------
    wanted, values, flags, conditions
        See LaneWriteData.
    gathered : In(Event(gathered_beat))
        Data of a gather: three values for each lane, a beat a cycle.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            **LaneWriteData(params).members,
            "gathered": In(Event(gathered_beat(params))),
        })


class LaneWriterPort(wiring.Signature):
    """Access to registers of a unit that only writes, directions are those of the unit.

    Members
    -------
    write : Out(stream of register_write)
        Granted by issue when the lanes are free, see rtl.issue.operations: the beats begin a few
        cycles after the transfer.
    data : Out(LaneWriteData)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "write": Out(stream.Signature(register_write(params))),
            "data": Out(LaneWriteData(params)),
        })


class LaneClientPort(wiring.Signature):
    """Access to registers of a unit that reads and writes, directions are those of the unit.

    Members
    -------
    write
        See LaneWriterPort.
    gather : Out(stream of register_gather)
        Granted like a write, at the earliest one cycle after ``valid`` becomes 1; the payload of
        that first cycle is ignored.
    data : Out(LaneData)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "write": Out(stream.Signature(register_write(params))),
            "gather": Out(stream.Signature(register_gather(params))),
            "data": Out(LaneData(params)),
        })


def lane_write(params: SmParams) -> data.StructLayout:
    """The writes of a beat, for the retirement interface. ``lanes`` are the lanes that write.

    ``register`` RZ: no register is written. ``predicates`` are the predicates that are written in
    some lane; ``flags`` are the values of P0 to P6 of each lane after the write. ``conditional``:
    CC is written, with ``conditions``.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "beat": range(params.beats),
        "lanes": params.lanes,
        "register": 8,
        "values": data.ArrayLayout(32, params.lanes),
        "predicates": PT,
        "flags": data.ArrayLayout(PT, params.lanes),
        "conditional": 1,
        "conditions": data.ArrayLayout(Flags, params.lanes),
    })
