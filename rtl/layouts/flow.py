"""The flow unit: its requests and its results."""

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
        """Whether the operation has no guard, so that all active threads execute it, and pushes a
        token."""
        return self._is_one_of(
            FlowOperation.PUSH, FlowOperation.CALL, FlowOperation.PUSH_QUAD,
            FlowOperation.ENTER_TRAP)

    @property
    def retries_on_error(self) -> Value:
        """Whether the trap unit injects the operation, to enter or leave the handler. If it fails,
        the warp continues at the request's pc, not at the next instruction; after a LEAVE_TRAP in
        any case."""
        return self._is_one_of(
            FlowOperation.ENTER_TRAP, FlowOperation.LEAVE_TRAP, FlowOperation.RESTORE)

    @property
    def gives_code(self) -> Value:
        """Whether the threads that execute the operation become inactive, with the instruction's
        code."""
        return self._is_one_of(FlowOperation.LEAVE, FlowOperation.LAUNCH)

    @property
    def ends_warp(self) -> Value:
        """Whether the operation ends the warp: all threads get the instruction's code."""
        return self._is_one_of(FlowOperation.TERMINATE)

    @property
    def clears_codes(self) -> Value:
        """Whether the codes of all threads become NONE, except of those that the operation makes
        inactive."""
        return self._is_one_of(FlowOperation.RESTORE, FlowOperation.LAUNCH)

    @property
    def clears_living_codes(self) -> Value:
        """Whether the codes of all live threads become NONE; see ThreadCode.is_dead."""
        return self._is_one_of(FlowOperation.ENTER_TRAP, FlowOperation.POP_QUAD)

    def _is_one_of(self, *operations: "FlowOperation") -> Value:
        return self.as_value().matches(*(each.value for each in operations))


class FlowOperation(enum.Enum, shape=5, view_class=FlowOperationView):
    """What a flow instruction does, without the source of its target."""

    NONE = 0
    """Not a flow instruction."""
    BRANCH = 1
    """The threads that take it continue at the target, the others wait in a DIVERGE token."""
    CALL = 2
    """A RETURN token for the next instruction is pushed, and all active threads continue at the
    target."""
    PUSH = 3
    """A token for the target is pushed."""
    LEAVE = 4
    """Threads become inactive: they wait for a token of a kind, or have exited. The stack is
    unwound if no active thread remains."""
    PUSH_QUAD = 5
    """A QUAD token is pushed, and all live threads become active."""
    POP_QUAD = 6
    """The QUAD token is popped, and its threads become the active ones."""
    GET_POINTER = 7
    SET_POINTER = 8
    GET_BASE = 9
    SET_BASE = 10
    WRITE_BACK = 11
    LAUNCH = 12
    """A new warp; not an instruction."""
    ENTER_TRAP = 13
    """The trap frame is pushed, and all live threads continue at the target, which is the operand.
    The frame's pc is the request's. Not an instruction, nor are those below: the trap unit injects
    them."""
    LEAVE_TRAP = 14
    """The warp leaves the handler. Its stack is unchanged; it continues at the request's pc."""
    RESTORE = 15
    """The warp leaves the handler, and its state is restored from the topmost trap frame."""
    TERMINATE = 16
    """The warp ends; its stack is emptied."""


class FlowInstruction(data.Struct):
    """A decoded flow instruction."""

    operation: FlowOperation
    stack_operation: StackOperation
    """The operation that it requests of the stack."""
    kind: TokenKind
    """The kind of the token that it pushes."""
    code: ThreadCode
    """The code of the threads that become inactive; NONE for SYNC."""
    counted: unsigned(1)
    """The token counts as an API call."""
    relative: unsigned(1)
    """The target is relative to the next instruction."""
    indexed: unsigned(1)
    """The target includes the operand, and may differ from thread to thread."""
    constant: unsigned(1)
    """The target is the operand, without the offset."""
    uniform: unsigned(1)
    """It is an error if some active threads take the branch and others do not. An indexed branch
    may have several targets."""
    limited: unsigned(1)
    """No thread takes the branch while the kill bit is set."""
    keep_reference: unsigned(1)
    """An EXIT whose CTA keeps its reference count."""
    predicted: unsigned(1)
    """A direct branch or call at whose target fetch continues when it issues. Ignored by a machine
    that does not predict branches."""
    offset: unsigned(32)
    """The target, or what is added to it."""

    @property
    def is_trap_move(self) -> Value:
        """Whether the trap unit injected the instruction. FlowQueue marks it with the code EXIT,
        which otherwise only LEAVE instructions have."""
        operation: Any = self.operation
        return (operation != FlowOperation.LEAVE) & (self.code == ThreadCode.EXIT)


class TrapMove(data.Struct):
    """What the flow unit does for an ENTER or a LEAVE that was dispatched."""

    operation: FlowOperation
    """ENTER_TRAP or one of those after it; or BRANCH, a jump of all active threads."""
    pc: unsigned(32)
    """Of ENTER: the pc of the request, which the frame stores."""
    target: unsigned(32)
    """Of ENTER: the pc at which the warp continues."""


def flow_request(params: SmParams) -> data.StructLayout:
    """A flow instruction of one warp, with what it reads.

    Fields
    ------
    warp
    pc : 32
        The instruction's address.
    instruction : FlowInstruction
    guard : 32 threads
        The threads whose guard and test of CC hold; not all of them need be active.
    operand : 32
        The value of the register operand, in the lowest thread that executes the instruction, or of
        the constant operand.
    same : 32 threads
        The executing threads whose register has that value; all threads for other operands.
    fault : WarpError
        The error of the operand, or NONE.
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
    """A new warp: its threads, the pc at which it starts, and its stack."""
    return data.StructLayout({
        "warp": params.warp_bits,
        "threads": WARP_THREADS,
        "pc": 32,
        "stack": StackConfiguration,
    })


def flow_result(params: SmParams) -> data.StructLayout:
    """The result of a flow instruction or of a launch: the warp's new pc and active mask.

    Fields
    ------
    warp
    pc : 32
        The pc at which the warp continues. With an error it is that of the next instruction in
        memory (ours); if what the trap unit injected fails, it is the pc of the request.
    active, codes : 32 threads, ThreadCodes
        The threads that continue, and why the others are not active.
    terminated : 1
        The warp has ended.
    error : WarpError
        With an error the instruction has no other effect, with three exceptions:
        RET_EMPTY_STACK_ERROR also ends the warp, a RESTORE leaves the trap handler's mode, and a
        SET_POINTER without a region empties the stack. An error of ENTER_TRAP ignores the report
        mask.
    request_pc : 32
        The pc of the request: with an error, the pc of the instruction that failed.
    value : 32
        For the destination register of an instruction that has one.
    kept : 1
        Some thread has executed EXIT.KEEPREFCOUNT: the CTA keeps its reference count.
    as_predicted : 1
        ``pc`` is where fetch has continued after this instruction, so that what was fetched remains
        valid: the target of a branch that was ``predicted``, else the next instruction in memory. 0
        if there is an error, or the warp enters or leaves the trap.
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
        "as_predicted": 1,
    })
