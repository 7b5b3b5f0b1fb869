"""The structs between the stages of the flow unit.

========  ==================  ============================================
from      to                  struct
========  ==================  ============================================
memory    gather, conclude    :func:`thread_state`
resolver  gather              :class:`ResolvedTarget`
gather    decide              :func:`gathered_instruction`
decide    conclude            :func:`decided_outcome`
========  ==================  ============================================

An outcome is stored until the stack has executed its request, see
:class:`~rtl.flow.in_flight.OutcomesInFlight`. If the stack operation takes longer than usual, only
its :class:`BasicOutcome` is stored.
"""

from typing import Any

from amaranth.hdl import Cat, Value, unsigned
from amaranth.lib import data

from rtl.isa.errors import WarpError
from rtl.layouts import StackConfiguration, ThreadCodes, flow_request
from rtl.params import WARP_THREADS, SmParams

__all__ = [
    "PC_BITS",
    "BasicOutcome",
    "ResolvedTarget",
    "decided_outcome",
    "gathered_instruction",
    "living_threads",
    "thread_state",
]

PC_BITS = 32
"""Width of a program counter."""


def thread_state() -> data.StructLayout:
    """The state of a warp's threads.

    Fields
    ------
    active : 32 threads
    codes : ThreadCodes
        For each thread that is not active, the reason.
    """
    return data.StructLayout({"active": WARP_THREADS, "codes": ThreadCodes})


def living_threads(codes: Any) -> Value:
    """The threads that have neither exited nor been killed."""
    return Cat(~code.is_dead for code in codes)


class ResolvedTarget(data.Struct):
    """The target of a flow instruction."""

    pc: unsigned(PC_BITS)
    error: WarpError
    """Why ``pc`` is no target, or NONE; see :class:`~rtl.flow.target.TargetResolver`."""


def gathered_instruction(params: SmParams) -> data.StructLayout:
    """Gather to decide: an instruction, and the threads that execute it.

    Fields
    ------
    request : flow_request
        A launch has the operation LAUNCH.
    group : 32 threads
        The threads that execute the instruction; for an indexed branch, those that branch now,
        since their register equals the operand.
    deferred : 32 threads
        For an indexed branch, the threads that branch to another target, later.
    remaining : 32 threads
        The active threads that do not execute the instruction.
    is_executed : 1
        ``group`` or ``deferred`` has a thread.
    has_deferred, has_remaining : 1, 1
        ``deferred``, ``remaining`` has a thread.
    codes : ThreadCodes
        The threads' codes before the instruction; undefined for a launch.
    configuration : StackConfiguration
        For a launch; SET_BASE uses the field ``base``.
    target : ResolvedTarget
    """
    return data.StructLayout({
        "request": flow_request(params),
        "group": WARP_THREADS,
        "deferred": WARP_THREADS,
        "remaining": WARP_THREADS,
        "is_executed": 1,
        "has_deferred": 1,
        "has_remaining": 1,
        "codes": ThreadCodes,
        "configuration": StackConfiguration,
        "target": ResolvedTarget,
    })


class BasicOutcome(data.Struct):
    """The part of a :func:`decided_outcome` that is also needed when the stack operation takes
    longer than usual. Such an operation is an unwind or a write-back: it does not jump to a target,
    and the stack's result contains the threads that continue."""

    pc: unsigned(PC_BITS)
    """The instruction's address."""
    next_pc: unsigned(PC_BITS)
    """The next instruction's address."""
    retries: unsigned(1)
    """Without a jump and an unwind, the warp continues at ``pc``, not at ``next_pc``: after a
    LEAVE_TRAP, and after a failed operation of the trap unit."""
    is_pop_quad: unsigned(1)
    """An unwind that ends at a QUAD token: the warp continues at ``next_pc``."""
    keeps_reference: unsigned(1)
    """Threads execute EXIT.KEEPREFCOUNT."""


def decided_outcome(params: SmParams) -> data.StructLayout:
    """Decide to conclude: the outcome of an instruction, if the stack does not refuse its request.

    Fields
    ------
    warp
    basic : BasicOutcome
    target : PC_BITS
    jumps : 1
        The warp continues at ``target``.
    target_is_next : 1
        ``target`` and ``next_pc`` are the same instruction. OutcomesInFlight computes it one cycle
        before the result.
    predicted : 1
        Fetch has continued at ``target``, not at ``next_pc``.
    unwinds_to_next : 1
        The pc of the stack's result is ``next_pc``. OutcomesInFlight computes it in the cycle of
        the result.
    sets_active, active : 1, 32 threads
        The active threads become ``active``.
    sets_codes : 1
        The threads' codes become those of the request to the stack.
    has_no_result : 1
        Another request of the same instruction makes the flow result.
    reports_error : 1
        An error is reported. For ENTER_TRAP this is always 1: the report mask does not apply. For
        other instructions OutcomesInFlight applies the report mask to ``error``, one cycle before
        the result.
    error : WarpError
        Why the instruction fails, regardless of the stack's result.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "basic": BasicOutcome,
        "target": PC_BITS,
        "jumps": 1,
        "target_is_next": 1,
        "predicted": 1,
        "unwinds_to_next": 1,
        "sets_active": 1,
        "active": WARP_THREADS,
        "sets_codes": 1,
        "has_no_result": 1,
        "reports_error": 1,
        "error": WarpError,
    })
