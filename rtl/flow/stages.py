"""What the stages of the flow unit hand to each other.

========  ==================  ============================================
from      to                  struct
========  ==================  ============================================
memory    gather, conclude    :func:`thread_state`
resolver  gather              :class:`ResolvedTarget`
gather    decide              :func:`gathered_instruction`
decide    conclude            :func:`decided_outcome`
========  ==================  ============================================

An outcome travels to the conclude stage beside the stack's pipeline. Of one whose stack operation
takes longer only its :class:`BasicOutcome` is kept.
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
    """What is kept of a warp.

    Fields
    ------
    active : 32 threads
    codes : ThreadCodes
        Why the other threads are not active.
    """
    return data.StructLayout({"active": WARP_THREADS, "codes": ThreadCodes})


def living_threads(codes: Any) -> Value:
    """The threads that have neither exited nor been killed."""
    return Cat(~code.is_dead for code in codes)


class ResolvedTarget(data.Struct):
    """Where a flow instruction goes."""

    pc: unsigned(PC_BITS)
    error: WarpError
    """Why that is no target; see :class:`~rtl.flow.target.TargetResolver`."""


def gathered_instruction(params: SmParams) -> data.StructLayout:
    """Gather to decide: an instruction, and which threads execute it.

    Fields
    ------
    request : flow_request
        A launch has the operation LAUNCH.
    group : 32 threads
        Those that execute the instruction; of an indexed branch those that share its target.
    deferred : 32 threads
        Those that execute an indexed branch with another target: they branch later.
    remaining : 32 threads
        The active threads that do not execute the instruction.
    is_executed : 1
        Some thread executes it: of ``group`` or of ``deferred``.
    has_deferred, has_remaining : 1, 1
        Whether there are such threads.
    codes : ThreadCodes
        The threads' codes before the instruction; without meaning for a launch.
    configuration : StackConfiguration
        Of a launch; ``base`` also of SET_BASE.
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
    """What counts of a :func:`decided_outcome` also when the stack takes longer than usual: for an
    unwind or a write-back. Neither jumps to a target, and the stack says which threads go on."""

    pc: unsigned(PC_BITS)
    """Of the instruction."""
    next_pc: unsigned(PC_BITS)
    """Of the one behind it."""
    retries: unsigned(1)
    """Where no jump and no unwind takes the warp elsewhere, it goes on at ``pc``, and not at
    ``next_pc``: if what the trap unit makes it do fails, and behind a LEAVE_TRAP."""
    is_pop_quad: unsigned(1)
    """An unwind that ends at a QUAD token: the warp goes on behind the instruction."""
    keeps_reference: unsigned(1)
    """Threads execute EXIT.KEEPREFCOUNT."""


def decided_outcome(params: SmParams) -> data.StructLayout:
    """Decide to conclude: what the instruction does, if the stack does not refuse its request.

    Fields
    ------
    warp
    basic : BasicOutcome
    target : PC_BITS
    jumps : 1
        The warp goes on at ``target``.
    target_is_next : 1
        ``target`` and ``next_pc`` are the same instruction. Known one cycle before the result.
    predicted : 1
        Fetch has continued at ``target``, and not at ``next_pc``.
    unwinds_to_next : 1
        The pc of the stack's result is that of the next instruction. Known with the result.
    sets_active, active : 1, 32 threads
        The active threads become these.
    sets_codes : 1
        The threads' codes become those of the request to the stack.
    has_no_result : 1
        Another request of the same instruction has its result.
    reports_error : 1
        An error has to be reported: of ENTER_TRAP any error, whatever the report mask says. One
        cycle before the result also, if the report mask has it, the ``error`` of any instruction.
    error : WarpError
        Why the instruction fails, whatever the stack says.
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
