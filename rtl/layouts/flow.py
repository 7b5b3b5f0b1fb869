"""The flow unit: instructions in, what becomes of the warp out."""

from typing import Any

from amaranth.hdl import Value, unsigned
from amaranth.lib import data, enum

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from rtl.params import WARP_THREADS, SmParams

from .stack import StackConfiguration, StackOperation, ThreadCode, ThreadCodes

__all__ = [
    "FlowInstruction",
    "FlowOperation",
    "TrapMove",
    "flow_launch",
    "flow_request",
    "flow_result",
]


class FlowOperationView(enum.EnumView):
    """A :class:`FlowOperation` in hardware, with its predicates."""

    @property
    def concerns_all(self) -> Value:
        """All active threads execute it: it has no guard, and pushes a token."""
        return self._is_one_of(
            FlowOperation.PUSH, FlowOperation.CALL, FlowOperation.PUSH_QUAD,
            FlowOperation.ENTER_TRAP)

    @property
    def retries_on_error(self) -> Value:
        """What the trap unit makes a warp do to enter or leave the handler. If it fails, and behind
        a LEAVE_TRAP, the warp goes on at the request's own pc, not at the next instruction."""
        return self._is_one_of(
            FlowOperation.ENTER_TRAP, FlowOperation.LEAVE_TRAP, FlowOperation.RESTORE)

    @property
    def gives_code(self) -> Value:
        """The threads that execute it leave, with the instruction's code."""
        return self._is_one_of(FlowOperation.LEAVE, FlowOperation.LAUNCH)

    @property
    def ends_warp(self) -> Value:
        """All threads get the instruction's code."""
        return self._is_one_of(FlowOperation.TERMINATE)

    @property
    def clears_codes(self) -> Value:
        """All threads lose their code, but those that leave."""
        return self._is_one_of(FlowOperation.RESTORE, FlowOperation.LAUNCH)

    @property
    def clears_living_codes(self) -> Value:
        """Threads that live lose their code."""
        return self._is_one_of(FlowOperation.ENTER_TRAP, FlowOperation.POP_QUAD)

    def _is_one_of(self, *operations: "FlowOperation") -> Value:
        return self.as_value().matches(*(each.value for each in operations))


class FlowOperation(enum.Enum, shape=5, view_class=FlowOperationView):
    """What a flow instruction does, apart from where its target comes from."""

    NONE = 0
    """Not a flow instruction."""
    BRANCH = 1
    """The threads that take it go to the target, the others wait in a DIVERGE token."""
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
    ENTER_TRAP = 13
    """The trap frame is pushed and all threads that live go to the target, which is the operand.
    The frame's pc is the request's. Not an instruction, nor are those below: the trap unit makes
    warps do them."""
    LEAVE_TRAP = 14
    """The handler is left, the stack stays; on at the request's own pc."""
    RESTORE = 15
    """The handler is left, and the topmost trap frame's state is the warp's again."""
    TERMINATE = 16
    """The warp ends, whatever is on its stack."""


class FlowInstruction(data.Struct):
    """A decoded flow instruction."""

    operation: FlowOperation
    stack_operation: StackOperation
    """What it requests of the stack."""
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
    """The target is the operand: a constant, or all that the instruction has."""
    uniform: unsigned(1)
    """If some active thread executes the branch, all must: else it is an error. That an indexed
    branch has several targets is none."""
    limited: unsigned(1)
    """The kill bit keeps all from taking the branch."""
    keep_reference: unsigned(1)
    """An EXIT whose CTA keeps its reference count."""
    offset: unsigned(32)
    """The target, or what is added to it."""

    @property
    def is_trap_move(self) -> Value:
        """The trap unit makes the warp do it: FlowQueue gives it the code EXIT, which no
        instruction has but those by which threads leave."""
        operation: Any = self.operation
        return (operation != FlowOperation.LEAVE) & (self.code == ThreadCode.EXIT)


class TrapMove(data.Struct):
    """What a warp is made to do where an ENTER or a LEAVE was dispatched."""

    operation: FlowOperation
    """ENTER_TRAP or one of those behind it; or BRANCH, a plain jump of all active threads."""
    pc: unsigned(32)
    """Of ENTER: the request's own, for the frame."""
    target: unsigned(32)
    """Of ENTER."""


def flow_request(params: SmParams) -> data.StructLayout:
    """A flow instruction of one warp, with what it reads.

    Fields
    ------
    warp
    pc : 32
        The instruction's address.
    instruction : FlowInstruction
    guard : 32 threads
        Those whose guard and test of CC hold.
    operand : 32
        What the instruction reads from a register of the lowest thread that executes it, or from a
        constant bank.
    same : 32 threads
        Those whose register has that value.
    fault : WarpError
        Why the operand could not be read.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "pc": 32,
        "instruction": FlowInstruction,
        "guard": WARP_THREADS,
        "operand": 32,
        "same": WARP_THREADS,
        "fault": WarpError,
    })


def flow_launch(params: SmParams) -> data.StructLayout:
    """A new warp: its threads, where it begins, and its stack."""
    return data.StructLayout({
        "warp": params.warp_bits,
        "threads": WARP_THREADS,
        "pc": 32,
        "stack": StackConfiguration,
    })


def flow_result(params: SmParams) -> data.StructLayout:
    """The outcome of a flow instruction: where the warp continues, and with which threads.

    Fields
    ------
    warp
    pc : 32
        Where it goes on. With an error that is the instruction behind this one (ours); of what the
        trap unit makes a warp do, if that fails, it is the pc of the request.
    active, codes : 32 threads, ThreadCodes
        The threads that go on, and why the others are not active.
    terminated : 1
        The warp has ended.
    error : WarpError
        With an error the instruction has done nothing; only RET_EMPTY_STACK_ERROR ends the warp
        too, a RESTORE leaves the mode of the handler all the same, and a SET_POINTER without a
        region empties the stack. An error of ENTER_TRAP is reported whatever the report mask says.
    request_pc : 32
        The pc of the request, where ``pc`` is that of what follows: with an error, that of the
        instruction that failed.
    value : 32
        For the destination register of an instruction that has one.
    kept : 1
        Some thread has executed EXIT.KEEPREFCOUNT: the CTA keeps its reference count.
    falls_through : 1
        ``pc`` is that of the next instruction in memory, so that what was fetched after this one
        counts. Never if something has failed, or a trap is entered or left.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "pc": 32,
        "active": WARP_THREADS,
        "codes": ThreadCodes,
        "terminated": 1,
        "error": WarpError,
        "request_pc": 32,
        "value": 32,
        "kept": 1,
        "falls_through": 1,
    })
