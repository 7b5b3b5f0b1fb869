"""The field catalogue: every payload that two units exchange, each field once, with its meaning.

Layouts that depend on the machine's size are functions of :class:`~rtl.params.SmParams`.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import Flags
from rtl.isa.errors import WarpError
from rtl.isa.tokens import CRS_GRANULE, LINE_BYTES, TOKENS_PER_LINE, MemoryToken, TokenKind
from rtl.params import ADDRESS_BITS, LINE_ADDRESS_BITS, WARP_THREADS, SmParams

__all__ = [
    "BLOCK_ADDRESS_BITS",
    "CRS_GRANULE_BITS",
    "DEPTH_BITS",
    "LINE_BITS",
    "STACK_RESULT_CYCLES",
    "FlowInstruction",
    "FlowOperation",
    "MemoryPort",
    "StackConfiguration",
    "StackEvents",
    "StackOperation",
    "StackPointer",
    "StackPort",
    "ThreadCode",
    "ThreadCodes",
    "TokenLine",
    "flow_launch",
    "flow_request",
    "flow_result",
    "memory_request",
    "memory_response",
    "stack_request",
    "stack_result",
]

DEPTH_BITS = 17
"""Width of a stack pointer: tokens on the stack, in memory and on chip together."""
LINE_BITS = DEPTH_BITS - 2
"""Width of the number of a line of the stack."""
BLOCK_ADDRESS_BITS = ADDRESS_BITS - (CRS_GRANULE - 1).bit_length()
"""Width of a local memory address in units of the CRS granule."""
CRS_GRANULE_BITS = 12
"""Width of a stack region's size in units of the CRS granule."""
STACK_RESULT_CYCLES = 3
"""Cycles from a request to the stack to its result, unless the stack needs more steps for it."""


# Memory port -------------------------------------------------------------------------------------------------


def memory_request(tag_bits: int) -> data.StructLayout:
    """A line to read or write.

    ``address`` counts lines. ``data`` and ``mask`` (one bit a byte) are for writes. Requests of one tag are
    performed and answered in the order they were made; between tags there is no order.
    """
    return data.StructLayout({
        "write": 1, "tag": tag_bits, "address": LINE_ADDRESS_BITS, "data": 8 * LINE_BYTES, "mask": LINE_BYTES})


def memory_response(tag_bits: int) -> data.StructLayout:
    """The answer to a request: every read and every write has one. ``error``: nothing is mapped there."""
    return data.StructLayout({"write": 1, "tag": tag_bits, "error": 1, "data": 8 * LINE_BYTES})


class MemoryPort(wiring.Signature):
    """What a unit sees of memory: lines of 64 bytes, tagged, with any latency.

    Members
    -------
    request : Out(stream of memory_request)
    response : In(stream of memory_response)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({
            "request": Out(stream.Signature(memory_request(tag_bits))),
            "response": In(stream.Signature(memory_response(tag_bits)))})


# Call/return stack ---------------------------------------------------------------------------------------------


class ThreadCode(enum.Enum, shape=3):
    """Why a thread is not active: the kind of token that it waits for. Numbered as the kinds of tokens.

    A thread with NONE that is not active waits at a SYNC or DIVERGE token. A thread that the launch did not
    make is KILLED (ours).
    """

    NONE = 0
    KILLED = 1
    BREAK = TokenKind.BREAK.value
    CONTINUE = TokenKind.CONTINUE.value
    RETURN = TokenKind.RETURN.value
    EXIT = TokenKind.EXIT.value
    LONGJMP = TokenKind.LONGJMP.value


ThreadCodes = data.ArrayLayout(ThreadCode, WARP_THREADS)
"""One code a thread: all the disabled masks of a warp, of which a thread is in at most one."""

TokenLine = data.ArrayLayout(MemoryToken, TOKENS_PER_LINE)
"""A line of the stack as it lies in memory."""


class StackPointer(data.Struct):
    """What GETCRSPTR tells and SETCRSPTR sets, but exact."""

    depth: unsigned(DEPTH_BITS)
    """Tokens on the stack."""
    calls: unsigned(8)
    """API call depth."""
    kill: unsigned(1)
    """Whether limited branches are killed."""


class StackOperation(enum.Enum, shape=4):
    """What a flow instruction wants of the stack."""

    NONE = 0
    """Nothing: the request only passes through, so that results stay in order."""
    PUSH = 1
    """Push a token."""
    CALL = 2
    """Push a token that counts as a call; refused at the limit of calls."""
    PREPARE_CALL = 3
    """Push a token that counts as a call; at the limit nothing is pushed and the kill bit is set."""
    UNWIND = 4
    """Pop tokens until one leaves a thread active."""
    POP_QUAD = 5
    """Pop the QUAD token that must be on top."""
    GET_POINTER = 6
    SET_POINTER = 7
    GET_BASE = 8
    SET_BASE = 9
    WRITE_BACK = 10
    """Write all dirty lines to memory and wait until it has them."""
    LAUNCH = 11
    """Empty the stack for a new warp, in user mode."""
    SET_MODE = 12
    """Enter the trap handler, which may fill the reserved entries, or leave it."""


class StackConfiguration(data.Struct):
    """A warp's stack in memory, as the launch gives it; addresses and sizes in units of the CRS granule."""

    base: unsigned(BLOCK_ADDRESS_BITS)
    """Where the warp's block of local memory begins."""
    local: unsigned(BLOCK_ADDRESS_BITS)
    """Size of its threads' local memory; the stack lies behind it."""
    size: unsigned(CRS_GRANULE_BITS)
    """Size of the stack's region; 0 when it has none."""
    check_calls: unsigned(1)
    """Whether the API call depth is limited."""


def stack_request(params: SmParams) -> data.StructLayout:
    """One operation on one warp's stack.

    ``enable`` comes late in the cycle: without it the operation is NONE. ``pair``: another push of the same
    instruction follows, both must fit. ``operand`` is the token's pc, or the value of a SET operation.
    ``mask`` is the token's mask. ``codes`` are the threads' codes after the instruction took threads out of
    the active mask; for POP_QUAD, NONE for all threads that live.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "operation": StackOperation, "enable": 1, "pair": 1, "kind": TokenKind,
        "operand": 32, "mask": WARP_THREADS, "codes": ThreadCodes})


def stack_result(params: SmParams) -> data.StructLayout:
    """What became of an operation; one for each request, in the order of completion.

    ``resume``: an unwind found threads to go on, at ``pc`` with ``mask``; ``kind`` is their token's.
    ``empty``: the stack is empty and the warp ends. ``codes`` are the threads' codes after an UNWIND, else those
    of the request.
    ``value`` is what a GET operation reads. With an ``error`` other than NONE nothing has happened, except
    that RET_EMPTY_STACK_ERROR ends the warp as well.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "resume": 1, "empty": 1, "error": WarpError, "kind": TokenKind, "pc": 32,
        "mask": WARP_THREADS, "codes": ThreadCodes, "value": 32})


class StackPort(wiring.Signature):
    """What the flow unit sees of the call/return stack; the members are those of CallReturnStack.

    Members
    -------
    request : Out(stream of stack_request)
    configuration : Out(StackConfiguration)
    killed : In(1)
    pushed : In(1)
        The request has pushed its token.
    result_valid, result : In(1), In(stack_result)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": Out(stream.Signature(stack_request(params))), "configuration": Out(StackConfiguration),
            "killed": In(1), "pushed": In(1), "result_valid": In(1), "result": In(stack_result(params))})


# Flow -----------------------------------------------------------------------------------------------------------


class FlowOperation(enum.Enum, shape=4):
    """What a flow instruction does, apart from where its target comes from."""

    NONE = 0
    """Not a flow instruction."""
    BRANCH = 1
    """The threads that take it go to the target, the others wait below them."""
    CALL = 2
    """A RETURN token for the next instruction is pushed, and all go to the target."""
    PUSH = 3
    """A token for the target is pushed."""
    LEAVE = 4
    """Threads leave the active mask, to wait for a token of a kind or never to come back."""
    PUSH_QUAD = 5
    """A QUAD token is pushed, and all threads that live become active."""
    POP_QUAD = 6
    """The threads of the QUAD token are active again."""
    GET_POINTER = 7
    SET_POINTER = 8
    GET_BASE = 9
    SET_BASE = 10
    WRITE_BACK = 11
    LAUNCH = 12
    """A new warp; not an instruction."""


class FlowInstruction(data.Struct):
    """A decoded flow instruction."""

    operation: FlowOperation
    kind: TokenKind
    """Of the token pushed."""
    code: ThreadCode
    """Of the threads that leave; NONE for SYNC."""
    counted: unsigned(1)
    """The token counts as an API call."""
    relative: unsigned(1)
    """The target is relative to the next instruction."""
    indexed: unsigned(1)
    """The target includes the operand, and may differ from thread to thread."""
    constant: unsigned(1)
    """The target is the operand, a constant."""
    uniform: unsigned(1)
    """The branch must not diverge."""
    limited: unsigned(1)
    """The kill bit keeps all from taking the branch."""
    keep_reference: unsigned(1)
    """An EXIT whose CTA keeps its reference count."""
    guard_not: unsigned(1)
    test: unsigned(5)
    """Test of CC."""
    offset: unsigned(32)
    """The target, or what is added to it."""


def flow_request(params: SmParams) -> data.StructLayout:
    """A flow instruction of one warp, with what it reads.

    ``pc`` is the instruction's own address. ``guard`` are its threads' guard predicates, ``cc`` their condition
    codes. ``operand`` is what the instruction reads from a register of the lowest thread that executes it, or
    from a constant bank; ``same`` are the threads whose register has that value. ``fault`` tells why the operand
    could not be read.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "pc": 32, "instruction": FlowInstruction, "guard": WARP_THREADS,
        "cc": data.ArrayLayout(Flags, WARP_THREADS), "operand": 32, "same": WARP_THREADS, "fault": WarpError})


def flow_launch(params: SmParams) -> data.StructLayout:
    """A new warp: its threads, where it begins, and its stack."""
    return data.StructLayout({
        "warp": params.warp_bits, "threads": WARP_THREADS, "pc": 32, "stack": StackConfiguration})


def flow_result(params: SmParams) -> data.StructLayout:
    """What a flow instruction has come to: the warp goes on at ``pc`` with the threads of ``active``.

    ``codes`` tells why the others are not active. With a reported ``error`` nothing has happened, and ``pc`` is
    the instruction's own; only RET_EMPTY_STACK_ERROR ends the warp too. ``value`` is for the destination
    register of an instruction that has one. ``kept``: threads have executed EXIT.KEEPREFCOUNT.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "pc": 32, "active": WARP_THREADS, "codes": ThreadCodes, "terminated": 1,
        "error": WarpError, "value": 32, "kept": 1})


class StackEvents(data.Struct):
    """What happened in one cycle, for counters."""

    push: unsigned(1)
    """A token was pushed."""
    hit: unsigned(1)
    """An unwind ended in the stack cache."""
    miss: unsigned(1)
    """An unwind found its line not in the cache."""
    spill: unsigned(1)
    """A line was written to memory."""
    fill: unsigned(1)
    """A line was read from memory."""
    full: unsigned(1)
    """A push waits for a line of the cache."""
    taken: unsigned(1)
    """A request waits because the stack itself uses the pipeline."""
