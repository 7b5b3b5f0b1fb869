"""Control flow: branches, calls, pushes, pops, and the instructions that read or change the stack
itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.syntax import Constant, Form, Values
from rtl.isa.tokens import API_CALL_LIMIT, TOKENS_PER_LINE, TokenKind
from sim.support.alignment import round_up

from .action import Action, Core, Maker, constant_address, of_fields
from .faults import WarpFaultError
from .retirement import Retirement, StackToken
from .state import Warp
from .unwind import CALL_DEPTHS, DISABLED_BY, check_pc, continue_or_unwind, moved, push
from .vector.lanes import mask_of, uniform

__all__ = ["FLOW", "target_of", "write_back_action"]

_ABSOLUTE = ("JMP", "JMX", "JCAL")
_PC_LIMIT = 1 << 32
_SIGN = 1 << 31
_CONSTANT_BYTES = 4

# The format of GETCRSPTR and SETCRSPTR: lowest bit and mask of each field.
_DEPTH_MASK = (1 << 17) - 1
_CALLS_AT, _CALLS_MASK = 23, (1 << 8) - 1
_KILL_AT = 31
_BASE_UNIT = 512
"""The unit of GETLMEMBASE and SETLMEMBASE in bytes."""

_TargetOf = Callable[[Core, Retirement, int], int]
"""Computes the target of a record's instruction from the value of its index register."""


def _lowest_thread(threads: int) -> int:
    return (threads & -threads).bit_length() - 1


def _in_range(pc: int) -> int:
    """Returns a computed pc; WarpFaultError with PC_WRAP if it exceeds 32 bits."""
    if not 0 <= pc < _PC_LIMIT:
        raise WarpFaultError(WarpError.PC_WRAP)
    return pc


def _signed(word: int) -> int:
    return word - 2 * (word & _SIGN)


def _constant_word(core: Core, values: Values, operand: Constant, index: int) -> int:
    """Reads the word of a constant bank that holds a target.

    WarpFaultError with MISALIGNED_IMMC_ADDR, or with MISALIGNED_ADDR if a register is involved, at
    an address that is no multiple of 4 (ours).
    """
    address = constant_address(values, operand, index)
    if address % _CONSTANT_BYTES:
        raise WarpFaultError(
            WarpError.MISALIGNED_ADDR if operand.index else WarpError.MISALIGNED_IMMC_ADDR
        )
    return core.constant(
        values[operand.bank], address, _CONSTANT_BYTES, WarpError.INVALID_CONST_ADDR
    )


def target_of(form: Form, values: Values) -> _TargetOf:
    """Returns the function that computes the instruction's target.

    A target relative to the next instruction is a signed offset, from any source: the instruction,
    a constant, an index register (ours). A target relative to the program base is unsigned, except
    that an immediate beside an index register is signed. PC_WRAP if the result is no 32-bit pc.
    """
    operand = form.operands["target"]
    absolute = form.name in _ABSOLUTE

    if isinstance(operand, Constant):

        def from_constant(core: Core, record: Retirement, index: int) -> int:
            word = _constant_word(core, values, operand, index)
            return word if absolute else _in_range(record.pc + INSTRUCTION_BYTES + _signed(word))

        return from_constant

    def from_immediate(core: Core, record: Retirement, index: int) -> int:
        base = index if absolute else record.pc + INSTRUCTION_BYTES + _signed(index)
        return _in_range(base + values["target"])

    return from_immediate


def _branch(form: Form, values: Values) -> Action:
    """BRA and JMP. The threads that take the branch run first; the others wait under a DIVERGE
    token at the next instruction.
    """
    locate, limited, uniform_only = target_of(form, values), values["limited"], values["uniform"]

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads or (limited and warp.kill_future_branch):
            return
        rest = warp.masks.active & ~threads
        if rest and uniform_only:
            raise WarpFaultError(WarpError.DIVERGENT)
        target = check_pc(locate(core, record, 0))
        if rest:
            push(warp, record, StackToken(TokenKind.DIVERGE, record.next_pc, rest))
            warp.masks = replace(warp.masks, active=threads)
        record.next_pc = target

    return run


def _indexed_branch(form: Form, values: Values) -> Action:
    """BRX and JMX. The threads whose index register equals that of the lowest thread run first
    (ours; this also holds where the register indexes a constant bank).

    The other branching threads wait under a DIVERGE token at this same instruction; below it, the
    threads that do not branch wait at the next one.
    """
    locate, limited, index_register = target_of(form, values), values["limited"], values["Ra"]

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if not threads or (limited and warp.kill_future_branch):
            return
        row = warp.rows[index_register]
        index = int(row[_lowest_thread(threads)])
        group = mask_of(row == index) & threads
        target = check_pc(locate(core, record, index))
        waiting = ((warp.masks.active & ~threads, record.next_pc), (threads & ~group, record.pc))
        push(
            warp, record, *(StackToken(TokenKind.DIVERGE, pc, mask) for mask, pc in waiting if mask)
        )
        warp.masks = replace(warp.masks, active=group)
        record.next_pc = target

    return run


def _at_limit(core: Core, warp: Warp) -> bool:
    return core.launch.check_api_calls and warp.api_call_depth >= API_CALL_LIMIT


def _call(form: Form, values: Values) -> Action:
    """CAL and JCAL push a RETURN token for the next instruction and jump. A counted call at the
    limit is not taken: API_STACK_ERROR.
    """
    locate, counted = target_of(form, values), bool(values["counted"])

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        target = check_pc(locate(core, record, 0))
        if counted and _at_limit(core, warp):
            raise WarpFaultError(WarpError.API_STACK_ERROR)
        push(warp, record, StackToken(TokenKind.RETURN, record.next_pc, warp.masks.active, counted))
        warp.api_call_depth = (warp.api_call_depth + counted) % CALL_DEPTHS
        record.next_pc = target

    return run


def _push(form: Form, values: Values, kind: TokenKind) -> Action:
    """SSY, PBK, PCNT, PRET, PEXIT and PLONGJMP push a token with the active threads and the target.

    A counted PRET sets kill_future_branch to whether the call depth is at its limit; if it is,
    nothing is pushed.
    """
    locate, counted = target_of(form, values), bool(values.get("counted", 0))

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        target = locate(core, record, 0)
        if counted and _at_limit(core, warp):
            warp.kill_future_branch = True
            return
        push(warp, record, StackToken(kind, target, warp.masks.active, counted))
        if counted:
            warp.kill_future_branch = False
            warp.api_call_depth = (warp.api_call_depth + 1) % CALL_DEPTHS

    return run


def _leave(form: Form, values: Values, to: str | None) -> Action:
    """BRK, CONT, RET, EXIT, LONGJMP and KIL move the threads to a disabled mask.

    SYNC moves them to none: they wait for the token that holds them. Without an active thread the
    warp unwinds.
    """
    keeps_reference = values.get("keep_reference", 0)

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        if threads:
            continue_or_unwind(warp, record, moved(warp.masks, threads, to))
            warp.cta.keeps_reference |= bool(keeps_reference)

    return run


@of_fields
def _all_threads(core: Core, warp: Warp, threads: int, record: Retirement, values: Values) -> None:
    """SAM: saves the active mask in a QUAD token and activates every live thread (ours)."""
    push(warp, record, StackToken(TokenKind.QUAD, 0, warp.masks.active))
    warp.masks = replace(warp.masks, active=warp.live)


@of_fields
def _restore_threads(
    core: Core, warp: Warp, threads: int, record: Retirement, values: Values
) -> None:
    """RAM: pops the QUAD token on top, below holes at most, and activates those of its threads that
    still live (ours).

    STACK_ERROR if there is no such token, or if none of its threads lives (ours).
    """
    popped = []
    for index in reversed(range(warp.stack.depth)):
        popped.append(warp.stack.token(index))
        if popped[-1].kind is not TokenKind.NONE:
            break
    if not popped or popped[-1].kind is not TokenKind.QUAD:
        raise WarpFaultError(WarpError.STACK_ERROR)
    if not (active := popped[-1].mask & warp.live):
        raise WarpFaultError(WarpError.STACK_ERROR)
    continue_or_unwind(warp, record, replace(warp.masks, active=active), tuple(popped))


def _rounded_up(depth: int) -> int:
    """Rounds a depth up to whole lines."""
    return round_up(depth, TOKENS_PER_LINE)


@of_fields
def _get_stack_pointer(
    core: Core, warp: Warp, threads: int, record: Retirement, values: Values
) -> None:
    """GETCRSPTR reads kill_future_branch, the API call depth, and the stack's depth in whole lines."""
    number = (
        warp.kill_future_branch << _KILL_AT
        | warp.api_call_depth << _CALLS_AT
        | _rounded_up(warp.stack.depth)
    )
    warp.write_register(record, values["Rd"], uniform(number), threads)


@of_fields
def _set_stack_pointer(
    core: Core, warp: Warp, threads: int, record: Retirement, values: Values
) -> None:
    """SETCRSPTR sets all three from the lowest active thread (ours), clamps the depth to the mode's
    limit and discards every token on chip.

    Without a region in memory the stack is then empty at any depth. That is a STACK_ERROR (ours),
    the only error that changes state.
    """
    number = int(warp.rows[values["Ra"]][_lowest_thread(threads)])
    warp.api_call_depth = number >> _CALLS_AT & _CALLS_MASK
    warp.kill_future_branch = bool(number >> _KILL_AT)
    if not warp.stack.size:
        warp.stack.reset(0)
        raise WarpFaultError(WarpError.STACK_ERROR)
    warp.stack.reset(min(_rounded_up(number & _DEPTH_MASK), warp.stack.limit))


@of_fields
def _get_local_base(
    core: Core, warp: Warp, threads: int, record: Retirement, values: Values
) -> None:
    """GETLMEMBASE reads the address of the warp's memory block, in units of 512 bytes (ours)."""
    warp.write_register(record, values["Rd"], uniform(warp.local_base // _BASE_UNIT), threads)


@of_fields
def _set_local_base(
    core: Core, warp: Warp, threads: int, record: Retirement, values: Values
) -> None:
    """SETLMEMBASE sets the address of the warp's memory block from the lowest active thread (ours)."""
    warp.local_base = int(warp.rows[values["Ra"]][_lowest_thread(threads)]) * _BASE_UNIT


@of_fields
def write_back_action(
    core: Core, warp: Warp, threads: int, record: Retirement, values: Values
) -> None:
    """CCTLL.CRS.WBALL writes all tokens back to memory."""
    if threads:
        warp.stack.write_back()


FLOW: Mapping[str, Maker] = {
    "BRA": _branch,
    "JMP": _branch,
    "BRX": _indexed_branch,
    "JMX": _indexed_branch,
    "CAL": _call,
    "JCAL": _call,
    "SSY": partial(_push, kind=TokenKind.SYNC),
    "PBK": partial(_push, kind=TokenKind.BREAK),
    "PCNT": partial(_push, kind=TokenKind.CONTINUE),
    "PRET": partial(_push, kind=TokenKind.RETURN),
    "PEXIT": partial(_push, kind=TokenKind.EXIT),
    "PLONGJMP": partial(_push, kind=TokenKind.LONGJMP),
    "BRK": partial(_leave, to=DISABLED_BY[TokenKind.BREAK]),
    "CONT": partial(_leave, to=DISABLED_BY[TokenKind.CONTINUE]),
    "RET": partial(_leave, to=DISABLED_BY[TokenKind.RETURN]),
    "EXIT": partial(_leave, to=DISABLED_BY[TokenKind.EXIT]),
    "LONGJMP": partial(_leave, to=DISABLED_BY[TokenKind.LONGJMP]),
    "KIL": partial(_leave, to="killed"),
    "SYNC": partial(_leave, to=None),
    "SAM": _all_threads,
    "RAM": _restore_threads,
    "GETCRSPTR": _get_stack_pointer,
    "SETCRSPTR": _set_stack_pointer,
    "GETLMEMBASE": _get_local_base,
    "SETLMEMBASE": _set_local_base,
}
"""Makers of the flow instructions."""
