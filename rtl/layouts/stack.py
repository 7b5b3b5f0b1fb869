"""The call/return stack: its requests and its results."""

from amaranth.hdl import Value, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.tokens import CRS_GRANULE, TOKENS_PER_LINE, MemoryToken, TokenKind
from rtl.params import ADDRESS_BITS, WARP_THREADS, SmParams

from .event import Event

__all__ = [
    "BLOCK_ADDRESS_BITS",
    "CRS_GRANULE_BITS",
    "DEPTH_BITS",
    "ENTER_IF_ROOM",
    "FRAME_MASK_CODES",
    "FRAME_PC_CODES",
    "FRAME_WORD_CODES",
    "LINE_BITS",
    "STACK_RESULT_CYCLES",
    "TRAP_FRAME",
    "SerialStackPort",
    "SerialStackResult",
    "StackConfiguration",
    "StackEvents",
    "StackOperation",
    "StackPointer",
    "StackPort",
    "ThreadCode",
    "ThreadCodes",
    "TokenLine",
    "serial_stack_request",
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


class ThreadCodeView(enum.EnumView):
    """A :class:`ThreadCode` in hardware, with its predicate."""

    @property
    def is_dead(self) -> Value:
        """Whether the thread has exited or was killed: only a trap frame's token makes it active
        again."""
        return self.as_value().matches(ThreadCode.EXIT.value, ThreadCode.KILLED.value)


class ThreadCode(enum.Enum, shape=3, view_class=ThreadCodeView):
    """Why a thread is not active: the kind of token that it waits for. Numbered as the kinds of
    tokens.

    A thread with NONE that is not active waits at a SYNC or DIVERGE token. A thread that the launch
    did not make is KILLED (ours).
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
"""A line of the stack in the format of memory."""


TRAP_FRAME = (
    (ThreadCode.BREAK, ThreadCode.CONTINUE),
    (ThreadCode.RETURN, ThreadCode.LONGJMP),
    (ThreadCode.EXIT, ThreadCode.KILLED))
"""The codes of the threads that the three MASKS tokens of a trap frame store: those in the token's
mask, and those in place of its pc. Below them, in the same line, is the TRAP token, whose mask is
the active threads."""
FRAME_MASK_CODES = (ThreadCode.NONE, *(in_mask for in_mask, _ in TRAP_FRAME))
"""The code of the threads in the mask of each token of a trap frame; the TRAP token has none."""
FRAME_PC_CODES = (ThreadCode.NONE, *(in_pc for _, in_pc in TRAP_FRAME))
"""The code of the threads in place of each token's pc; the TRAP token has a pc."""
FRAME_WORD_CODES = tuple(
    code for token in zip(FRAME_MASK_CODES, FRAME_PC_CODES, strict=True) for code in token)
"""Both in the order of a frame's words: of each token its mask, then what is in place of its pc."""


class StackPointer(data.Struct):
    """The value that GETCRSPTR reads and SETCRSPTR writes, at full precision."""

    depth: unsigned(DEPTH_BITS)
    """Tokens on the stack."""
    calls: unsigned(8)
    """API call depth."""
    kill: unsigned(1)
    """The kill bit: limited branches are not taken."""


class StackOperation(enum.Enum, shape=4):
    """The operation that a flow instruction requests of the stack."""

    NONE = 0
    """No operation: the request still has a result, which keeps results in order."""
    PUSH = 1
    """Push a token."""
    CALL = 2
    """Push a token that counts as a call; refused at the limit of calls."""
    PREPARE_CALL = 3
    """Push a token that counts as a call, and clear the kill bit; at the limit push nothing and set
    the kill bit."""
    UNWIND = 4
    """Pop tokens until one makes a thread active."""
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
    RESTORE = 13
    """Leave the trap handler, and pop tokens up to and including the topmost trap frame."""
    CLEAR = 14
    """Empty the stack of a warp that ends: an unwind that ignores all tokens."""


ENTER_IF_ROOM = 0b11
"""Lowest bits of the operand of a SET_MODE that enters the trap handler if its frame has room."""


class StackConfiguration(data.Struct):
    """A warp's stack in memory, as its launch configures it; addresses and sizes in units of the
    CRS granule."""

    base: unsigned(BLOCK_ADDRESS_BITS)
    """Where the warp's block of local memory begins."""
    local: unsigned(BLOCK_ADDRESS_BITS)
    """Size of its threads' local memory; the stack follows it."""
    size: unsigned(CRS_GRANULE_BITS)
    """Size of the stack's region; 0 when it has none."""
    check_calls: unsigned(1)
    """Whether the API call depth is limited."""


def stack_request(params: SmParams) -> data.StructLayout:
    """One operation on one warp's stack.

    Fields
    ------
    warp
    operation : StackOperation
    enable : 1
        Late in the cycle; if it is 0, the operation is NONE.
    pair : 1
        Another push of the same instruction follows: both must fit.
    kind : TokenKind
        Of the token to push.
    operand : 32
        The token's pc, or the value of a SET operation; of SET_MODE bit 0 to enter, bit 1 to do so
        only if there is room for the frame.
    mask : 32 threads
        The token's mask.
    codes : ThreadCodes
        The threads' codes after the instruction took threads out of the active mask; for POP_QUAD,
        NONE for all threads that live, for RESTORE, NONE for all, for CLEAR, EXIT for all.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "operation": StackOperation,
        "enable": 1,
        "pair": 1,
        "kind": TokenKind,
        "operand": 32,
        "mask": WARP_THREADS,
        "codes": ThreadCodes,
    })


def stack_result(params: SmParams) -> data.StructLayout:
    """The outcome of an operation; one for each request, in the order of completion.

    Fields
    ------
    warp
    resume : 1
        An unwind has found threads that continue, at ``pc`` with ``mask``.
    empty : 1
        The stack is empty and the warp ends.
    error : WarpError
        With an error nothing has happened, with three exceptions: RET_EMPTY_STACK_ERROR ends the
        warp as well, a RESTORE leaves the mode of the trap handler all the same, and a SET_POINTER
        without a region empties the stack.
    kind, pc, mask
        The kind of the token at which the threads continue.
    codes : ThreadCodes
        The threads' codes after an UNWIND, those of the frame after a RESTORE, else those of the
        request.
    value : 32
        What a GET operation reads.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "resume": 1,
        "empty": 1,
        "error": WarpError,
        "kind": TokenKind,
        "pc": 32,
        "mask": WARP_THREADS,
        "codes": ThreadCodes,
        "value": 32,
    })


class StackPort(wiring.Signature):
    """The flow unit's port to the call/return stack; the members are those of CallReturnStack.

    Members
    -------
    request : Out(stream of stack_request)
    configuration : Out(StackConfiguration)
    killed : In(1)
    pushed : In(Event(warp, kind))
        The request that was accepted a cycle ago has pushed its token.
    holes : In(2)
        How many more tokens fit into the topmost line of that request's warp.
    entry : In(WarpError)
        After a SET_MODE: why the warp cannot enter the trap handler, or NONE.
    result : In(Event(stack_result))
    """

    def __init__(self, params: SmParams) -> None:
        pushed = data.StructLayout({"warp": params.warp_bits, "kind": TokenKind})
        super().__init__({
            "request": Out(stream.Signature(stack_request(params))),
            "configuration": Out(StackConfiguration),
            "killed": In(1),
            "holes": In(range(TOKENS_PER_LINE)),
            "entry": In(WarpError),
            "pushed": In(Event(pushed)),
            "result": In(Event(stack_result(params))),
        })


class StackEvents(data.Struct):
    """What happened in one cycle, for counters."""

    push: unsigned(1)
    """A token was pushed."""
    hit: unsigned(1)
    """An unwind ended in the stack cache."""
    miss: unsigned(1)
    """An unwind missed: its line is not in the cache."""
    spill: unsigned(1)
    """A line was written to memory."""
    fill: unsigned(1)
    """A line was read from memory."""
    full: unsigned(1)
    """A push waits for a line of the cache."""
    taken: unsigned(1)
    """A request waits because the stack itself uses the pipeline."""


def serial_stack_request(params: SmParams) -> data.StructLayout:
    """One operation on one warp's stack, in the serial machine: as ``stack_request``, but without
    the threads' codes, which are read one by one."""
    return data.StructLayout({
        "warp": params.warp_bits,
        "operation": StackOperation,
        "enable": 1,
        "pair": 1,
        "kind": TokenKind,
        "operand": 32,
        "mask": WARP_THREADS,
    })


SerialStackResult = data.StructLayout({
    "resume": 1,
    "empty": 1,
    "error": WarpError,
    "kind": TokenKind,
    "pc": 32,
    "value": 32,
})
"""The outcome of an operation: as ``stack_result``. A SET_MODE that enters the trap handler has an
error if it cannot."""


class SerialStackPort(wiring.Signature):
    """The port of a serial machine's flow unit to its call/return stack.

    The codes of threads are examined in *passes*: a thread a cycle, from thread 0 to 31. The flow
    unit has the thread counter, for its passes and for those of the stack.

    Members
    -------
    request : Out(stream of serial_stack_request)
        The transfer happens in the cycle in which the operation is complete. The payload must be
        stable until then, except that ``enable`` may depend on ``killed``.
    configuration : Out(StackConfiguration)
    killed, holes : In(1), In(2)
        Of the request's warp: the kill bit; how many more tokens fit into the topmost line. Valid
        from the transfer until the next request.
    pushed : In(Event(warp, kind))
    result : In(SerialStackResult)
        Valid for the same time, but ``pc`` and ``value`` only in the cycle of the transfer and in
        the next one.
    looks : In(1)
        The stack requests a pass.
    thread, step, code : Out(5), Out(1), Out(ThreadCode)
        In a ``step``: the thread that is examined, and its code after the request.
    revived : In(1)
        The result of an unwind's pass: in each step of the pass after it, from thread 0 on, whether
        the thread continues. In a RESTORE, whether it is active.
    word, bit : Out(range(8)), In(1)
        After a RESTORE, while there is no request and the warp has not changed: ``word`` selects
        the word of the frame that is read from the next cycle on, even numbers for masks, odd ones
        for what is in place of a pc. ``bit``: that word has the thread of the step.
    """

    def __init__(self, params: SmParams) -> None:
        pushed = data.StructLayout({"warp": params.warp_bits, "kind": TokenKind})
        super().__init__({
            "request": Out(stream.Signature(serial_stack_request(params))),
            "configuration": Out(StackConfiguration),
            "killed": In(1),
            "holes": In(range(TOKENS_PER_LINE)),
            "pushed": In(Event(pushed)),
            "result": In(SerialStackResult),
            "looks": In(1),
            "thread": Out(range(WARP_THREADS)),
            "step": Out(1),
            "code": Out(ThreadCode),
            "revived": In(1),
            "word": Out(range(2 * TOKENS_PER_LINE)),
            "bit": In(1),
        })
