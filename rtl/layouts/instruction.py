"""An instruction's way from fetch through issue to the unit that executes it."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.control_code import CODE_BITS, GROUP_INSTRUCTIONS
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS
from rtl.params import WARP_THREADS, SmParams

from .kinds import InstructionKind

__all__ = [
    "SEQUENCE_BITS",
    "ControlBits",
    "FetchedInstruction",
    "completion",
    "dispatched",
    "fetched_group",
    "fetched_instruction",
    "indexed_request",
    "indexed_response",
    "issued",
    "operands_read",
    "redirect",
    "scoreboard_event",
]

SEQUENCE_BITS = 16
"""Width of an instruction's sequence number. Units only copy it, for the retirement interface."""


class ControlBits(data.Struct):
    """A control code, as encoded in the control word; see
    :class:`~rtl.isa.control_code.ControlCode`."""

    stall: unsigned(4)
    no_yield: unsigned(1)
    write_barrier: unsigned(3)
    read_barrier: unsigned(3)
    wait: unsigned(6)
    reuse: unsigned(4)


assert ControlBits.as_shape().size == CODE_BITS


class FetchedInstruction(data.Struct):
    """An instruction that is sent to issue."""

    word: unsigned(WORD_BITS)
    control: ControlBits
    kind: InstructionKind
    quarter: unsigned(1)
    """Only a full lane, one of four (see rtl.execute.lanes), can compute it, so it takes four times
    as long; rtl.isa.rate lists these instructions. Without effect unless the kind is LANES."""
    error: WarpError
    """Why it cannot be executed, for REFUSED."""
    constant: unsigned(32)
    """The value of its constant operand, if it has one at a fixed address; 0 if that is outside the
    bank."""
    constant_missing: unsigned(1)
    """Its constant operand is outside the bank."""


def fetched_group(params: SmParams) -> data.StructLayout:
    """A group of three instructions of a warp. ``pc`` is that of the group; ``first`` is the number
    of the first instruction in it that the warp executes."""
    return _instructions(params, GROUP_INSTRUCTIONS)


def fetched_instruction(params: SmParams) -> data.StructLayout:
    """The same of the serial machine: a single instruction. ``pc`` is its address; it has no
    control code."""
    return _instructions(params, 1)


def _instructions(params: SmParams, count: int) -> data.StructLayout:
    return data.StructLayout({
        "warp": params.warp_bits, "pc": 32, "first": range(count),
        "instructions": data.ArrayLayout(FetchedInstruction, count)})


def redirect(params: SmParams) -> data.StructLayout:
    """A warp continues at ``pc``; instructions fetched or in flight for it are discarded."""
    return data.StructLayout({"warp": params.warp_bits, "pc": 32})


def issued(params: SmParams) -> data.StructLayout:
    """An instruction that was issued. ``pc`` is its address, not that of its group. ``quarter``,
    ``error``, ``constant`` and ``constant_missing`` as of a FetchedInstruction."""
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "pc": 32,
        "word": WORD_BITS,
        "kind": InstructionKind,
        "quarter": 1,
        "error": WarpError,
        "constant": 32,
        "constant_missing": 1,
        "write_barrier": 3,
        "read_barrier": 3,
    })


def dispatched(params: SmParams) -> data.StructLayout:
    """An instruction that is dispatched to a unit beside the lanes, with the values of all that it
    reads except registers, which the unit gathers.

    ``active`` are the warp's active threads. ``guard`` are the threads whose guard predicate holds
    and, if a flow instruction tests CC, that pass the test; all threads if there is neither. The
    threads that execute the instruction are in both. ``predicate`` is the predicate operand of BAR
    or of an instruction of double precision, after its negation; all ones for others.

    For FLOW_INDEXED and BARRIER_INDEXED, ``operands`` are the values of registers Ra and Rb in the
    lowest thread that executes the instruction, and ``same`` are the executing threads whose Ra has
    that value. The value of a field that is no register operand is undefined, and so are both if no
    thread executes the instruction. For other kinds, operand 0 is the constant operand (the lower
    word of one of 64 bits), and ``same`` is all threads. ``fault`` is the error of the constant
    operand, or NONE.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "pc": 32,
        "word": WORD_BITS,
        "kind": InstructionKind,
        "active": WARP_THREADS,
        "guard": WARP_THREADS,
        "predicate": WARP_THREADS,
        "operands": data.ArrayLayout(32, 2),
        "same": WARP_THREADS,
        "fault": WarpError,
        "write_barrier": 3,
        "read_barrier": 3,
    })


def operands_read(params: SmParams) -> data.StructLayout:
    """An instruction that is not complete yet has read its registers: scoreboard ``barrier`` is
    lowered by one; 7 is none."""
    return data.StructLayout({"warp": params.warp_bits, "barrier": 3})


def completion(params: SmParams) -> data.StructLayout:
    """An instruction is complete: all that it writes is written, and both scoreboards are lowered
    by one; 7 is none."""
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "write_barrier": 3,
        "read_barrier": 3,
    })


def scoreboard_event(params: SmParams) -> data.StructLayout:
    """An instruction releases registers. It is the event that issue uses, which may precede the
    completion: it is as early as possible, so that all registers are read or written when an
    instruction that it releases reads its operands.

    Scoreboards ``write_barrier`` and ``read_barrier`` are lowered by one; 7 is none. With
    ``completes`` the instruction counts as complete.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "completes": 1,
        "write_barrier": 3,
        "read_barrier": 3,
    })


def indexed_request() -> data.StructLayout:
    """A request for a word of a constant bank; ``address`` counts bytes, its lowest two bits are
    ignored."""
    return data.StructLayout({"bank": 5, "address": 32})


def indexed_response() -> data.StructLayout:
    """The response, with the word; ``missing``: it is outside the bank, and ``value`` is 0."""
    return data.StructLayout({"value": 32, "missing": 1})
