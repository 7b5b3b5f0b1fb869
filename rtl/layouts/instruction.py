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
"""Width of an instruction's sequence number. It is for whoever listens to the retirement interface;
no unit needs it."""


class ControlBits(data.Struct):
    """A control code, as it lies in the control word; see
    :class:`~rtl.isa.control_code.ControlCode`."""

    stall: unsigned(4)
    no_yield: unsigned(1)
    write_barrier: unsigned(3)
    read_barrier: unsigned(3)
    wait: unsigned(6)
    reuse: unsigned(4)


assert ControlBits.as_shape().size == CODE_BITS


class FetchedInstruction(data.Struct):
    """An instruction on its way to issue."""

    word: unsigned(WORD_BITS)
    control: ControlBits
    kind: InstructionKind
    quarter: unsigned(1)
    """Only a full lane, every fourth one (see rtl.execute.lanes), can compute it, so it takes four
    times as long; which ones: rtl.isa.rate. Counts only if it is for the lanes."""
    error: WarpError
    """Why it cannot be executed, for REFUSED."""
    constant: unsigned(32)
    """What its constant operand reads, if it has one at a fixed address; 0 beyond the end of the
    bank."""
    constant_missing: unsigned(1)
    """Its constant operand is outside the bank."""


def fetched_group(params: SmParams) -> data.StructLayout:
    """A group of three instructions of a warp. ``pc`` is that of the group; the warp begins at
    number ``first``."""
    return _instructions(params, GROUP_INSTRUCTIONS)


def fetched_instruction(params: SmParams) -> data.StructLayout:
    """The same of the serial machine: one instruction alone, with its own address, and without its
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
    """An instruction that was issued. ``pc`` is its own address, never a group's. ``quarter``: of
    one for the lanes, only full lanes can execute it; see FetchedInstruction."""
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
    """An instruction that goes to a unit beside the lanes, with the values of everything that it
    reads except registers.

    ``active`` are the warp's active threads, ``guard`` those whose guard predicate holds, and of a
    flow instruction the test of CC (all where there is neither). ``predicate`` is the predicate
    operand of BAR, or of double precision, after its negation, all ones elsewhere. For FLOW_INDEXED
    and BARRIER_INDEXED ``operands`` are the values of registers Ra and Rb in the lowest thread that
    executes the instruction (of the active ones in ``guard``), and ``same`` the executing threads
    whose Ra has that value; of a field that holds no register the value means nothing. For other
    kinds operand 0 is the constant operand, the lower word of one of 64 bits, and ``same`` is all
    threads. ``fault`` tells why the constant could not be read.
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
    """An instruction that is not complete has read its registers: scoreboard ``barrier`` goes down
    by one, if it is one."""
    return data.StructLayout({"warp": params.warp_bits, "barrier": 3})


def completion(params: SmParams) -> data.StructLayout:
    """An instruction is complete: what it writes is written, and both scoreboards go down by one,
    where they are scoreboards (not 7)."""
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "write_barrier": 3,
        "read_barrier": 3,
    })


def scoreboard_event(params: SmParams) -> data.StructLayout:
    """An instruction lets go of registers: as early as issue may know of it, so that a later
    instruction of the warp finds everything read or written.

    Scoreboards ``write_barrier`` and ``read_barrier`` go down by one, where they are scoreboards
    (not 7). With ``completes`` the instruction is complete.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "completes": 1,
        "write_barrier": 3,
        "read_barrier": 3,
    })


def indexed_request() -> data.StructLayout:
    """A word of a constant bank that is wanted; ``address`` counts bytes, its lowest two bits do
    not matter."""
    return data.StructLayout({"bank": 5, "address": 32})


def indexed_response() -> data.StructLayout:
    """The word; ``missing``: it is outside the bank, and ``value`` is 0."""
    return data.StructLayout({"value": 32, "missing": 1})
