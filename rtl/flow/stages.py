"""What the stages of the flow unit hand to each other, and what it keeps of warps."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.errors import WarpError
from rtl.layouts import FlowInstruction, StackConfiguration, ThreadCodes
from rtl.params import WARP_THREADS, SmParams

__all__ = ["WaitingUnwind", "WarpState", "decide_stage", "outcome_stage"]


class WarpState(data.Struct):
    """A warp's threads: which are active, and why the others are not."""

    active: WARP_THREADS
    codes: ThreadCodes


def decide_stage(params: SmParams) -> data.StructLayout:
    """From the gathering of threads and target.

    ``group`` are the threads that execute the instruction, of an indexed branch those that share its target;
    ``rest`` the others that want to branch; ``left`` the active threads that do not execute it. ``codes`` are the
    threads' codes before it; of a launch they mean nothing.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "instruction": FlowInstruction, "pc": 32, "operand": 32, "fault": WarpError,
        "group": WARP_THREADS, "rest": WARP_THREADS, "left": WARP_THREADS, "codes": ThreadCodes,
        "stack": StackConfiguration})


def outcome_stage(params: SmParams) -> data.StructLayout:
    """From the decision, what holds unless the stack says otherwise; it travels beside the stack's request.

    ``moves``: the active threads become those of ``active``, unless the stack refuses. ``marks``: the threads' codes
    become those that the stack was given. The warp goes on at ``target`` if it ``jumps``, at ``pc`` if it ``stays``, or
    else at ``following``; ``near``: it jumps there. ``mute``: another request of the same instruction tells everything.
    ``loud``: an error is told whether it is reported or not; behind the wait, also one of the decision that is
    reported.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "pc": 32, "following": 32, "target": 32, "jumps": 1, "near": 1, "stays": 1,
        "active": WARP_THREADS, "moves": 1, "marks": 1, "quad": 1, "kept": 1, "mute": 1, "loud": 1, "error": WarpError})


class WaitingUnwind(data.Struct):
    """What is kept of an instruction while the stack needs more steps than usual."""

    pc: unsigned(32)
    """The instruction's own address."""
    following: unsigned(32)
    """The address behind it."""
    quad: unsigned(1)
    """It pops a QUAD token."""
    kept: unsigned(1)
    """It is an EXIT.KEEPREFCOUNT."""
