"""Random operations of the trap unit on a warp, executed by the warp model."""

from random import Random

from rtl.isa.control_code import INSTRUCTION_BYTES, instruction_address
from rtl.isa.errors import WarpError
from rtl.layouts import FlowOperation
from sim.model.warp.faults import WarpFaultError
from sim.model.warp.model import WarpModel
from sim.model.warp.state import Warp
from sim.model.warp.trap_frame import leave_frame, push_frame, restore_frame, terminate
from sim.model.warp.unwind import check_pc
from testbench.flow.steps import FlowStep, codes_of

_RARE = 0.05


def _chosen(source: Random, warp: Warp) -> FlowOperation:
    """Mostly an entry outside of the handler, and a return in it."""
    if source.random() < _RARE:
        return source.choice(
            [
                FlowOperation.BRANCH,
                FlowOperation.LEAVE_TRAP,
                FlowOperation.RESTORE,
                FlowOperation.TERMINATE,
            ]
        )
    if not warp.stack.in_trap:
        return FlowOperation.ENTER_TRAP
    return source.choice([FlowOperation.RESTORE] * 5 + [FlowOperation.LEAVE_TRAP])


def _target(source: Random) -> int:
    return source.getrandbits(32) & -INSTRUCTION_BYTES | (4 if source.random() < _RARE else 0)


def trap_step(source: Random, made: WarpModel, warp: Warp) -> FlowStep:
    """Makes a warp enter or leave its trap handler, or end, in any state; returns the step."""
    operation, target = _chosen(source, warp), _target(source)
    pc = instruction_address(warp.pc)
    if operation is FlowOperation.ENTER_TRAP:
        pc = source.choice([pc, source.getrandbits(32) & -INSTRUCTION_BYTES])
    error = WarpError.NONE
    try:
        after = _applied(operation, warp, pc, target)
    except WarpFaultError as fault:
        error, after = fault.error, pc
        if not made.reports(error) and operation is not FlowOperation.ENTER_TRAP:
            error = WarpError.NONE
    if error is WarpError.NONE:
        warp.pc = after
    return FlowStep(
        source.getrandbits(64),
        pc,
        after,
        warp.masks.active,
        codes_of(warp.masks),
        warp.stack.depth,
        guard=source.getrandbits(32),
        conditions=source.getrandbits(128),
        operand=source.getrandbits(32),
        same=source.getrandbits(32),
        fault=source.choice([WarpError.NONE, WarpError.INVALID_CONST_ADDR]),
        terminated=warp.terminated,
        error=error,
        move=operation,
        target=target,
    )


def _applied(operation: FlowOperation, warp: Warp, pc: int, target: int) -> int:
    """Applies an operation to a warp; returns the pc at which it continues."""
    match operation:
        case FlowOperation.BRANCH:
            return check_pc(target)
        case FlowOperation.ENTER_TRAP:
            check_pc(target)
            push_frame(warp, pc)
            return target
        case FlowOperation.LEAVE_TRAP:
            leave_frame(warp)
            return pc
        case FlowOperation.RESTORE:
            return restore_frame(warp)
        case _:
            terminate(warp)
            return pc
