"""Diagnoses why a machine does not continue: for each warp its instruction, what it waits for, its
masks and its stack.
"""

from collections.abc import Callable
from typing import Any

from rtl.crs.records import stack_state
from rtl.crs.tokens import BODY_BITS, StoredToken
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.tokens import TOKEN_BYTES, TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, ThreadCode, WaitReason
from rtl.params import WARP_THREADS
from rtl.serial.core import SerialCore
from rtl.serial.crs import serial_stack_state
from sim.launch import LOCAL_MEMORY, Launch
from sim.launch.memory import Memory, MemoryFaultError
from sim.machine.warp_state import MASK_OF, SHOWN_TOKENS, WarpState
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.model.warp.stack import decode_token
from sim.toolchain.assembly.spelling import spell

__all__ = ["REASON_TEXTS", "diagnose", "instruction_text", "warp_states"]

REASON_TEXTS = {
    WaitReason.READY: "it can issue: it does, or another warp has priority",
    WaitReason.STALL: "its stall count runs",
    WaitReason.SCOREBOARD: "scoreboards that it waits for are up",
    WaitReason.LANES: "others have the lanes",
    WaitReason.UNIT: "its unit has no room",
    WaitReason.FLOW: "its flow instruction has no result",
    WaitReason.FETCH: "its instructions have not arrived",
    WaitReason.DRAIN: "an instruction that it issued is not complete",
    WaitReason.RESUME: "the barrier or the trap unit has not resumed it",
    WaitReason.TRAP: "the trap holds it",
}
"""Descriptions of the reasons why a warp does not issue."""

_Reader = Callable[[Any, Any, int, int], StackToken]


def diagnose(ctx: Any, sm: Any, launch: Launch, memory: Memory) -> list[str]:
    """Returns a few lines for each live warp, from the state of the simulated machine."""
    core, lines = sm.core, []
    barrier = ctx.get(core.barrier.waiting)
    for warp, state in warp_states(ctx, sm, launch, memory).items():
        text = REASON_TEXTS[WaitReason(ctx.get(core.reasons[warp]))]
        if barrier >> warp & 1:
            text = f"waits at barrier {ctx.get(core.barrier.arrivals.data[warp]).number}"
        lines.append(f"warp {warp}: {text}")
        last = ctx.get(core.issue.last.data[warp])
        lines.append(
            f"  issued last {instruction_text(launch, memory, last)}"
            if last
            else "  issued nothing"
        )
        lines += [f"  {line}" for line in state.lines()]
    return lines


def warp_states(ctx: Any, sm: Any, launch: Launch, memory: Memory) -> dict[int, WarpState]:
    """Returns masks and stack of each live warp, by slot.

    Tokens that are not on chip are read from the memory block that the launch gave the slot.
    """
    core = sm.core
    return {
        warp: _state(ctx, core, launch, memory, warp)
        for warp in range(len(core.reasons))
        if WaitReason(ctx.get(core.reasons[warp])) is not WaitReason.NOT_LIVE
    }


def _state(ctx: Any, core: Any, launch: Launch, memory: Memory, warp: int) -> WarpState:
    """Returns masks and stack of one warp."""
    flow, stack = core.flow, core.stack
    threads, kept = (
        (_serial_threads, _serial_stack) if isinstance(core, SerialCore) else (_threads, _stack)
    )
    active, codes = threads(ctx, flow, warp)
    masks = dict.fromkeys(MASK_OF.values(), 0)
    for thread, code in enumerate(codes):
        if (name := MASK_OF.get(ThreadCode(code))) is not None:
            masks[name] |= 1 << thread
    depth, calls, lines, on_chip = kept(ctx, stack, warp)
    region = (
        memory.regions[LOCAL_MEMORY][0] + warp * launch.warp_block + launch.local * WARP_THREADS
    )
    first = (-(-depth // TOKENS_PER_LINE) - lines) * TOKENS_PER_LINE
    tokens, unreadable = [], ""
    for index in reversed(range(max(0, depth - SHOWN_TOKENS), depth)):
        try:
            tokens.append(
                on_chip(ctx, stack, warp, index)
                if index >= first
                else decode_token(memory.read(region + index * TOKEN_BYTES, TOKEN_BYTES))
            )
        except MemoryFaultError as fault:
            unreadable = str(fault)
            break
    return WarpState(WarpMasks(active, **masks), depth, calls, tuple(tokens), unreadable)


def _threads(ctx: Any, flow: Any, warp: int) -> tuple[int, list[int]]:
    """Returns a warp's active threads, and the codes of all threads."""
    state = ctx.get(flow.states.data[warp])
    return state.active, list(state.codes)


def _serial_threads(ctx: Any, flow: Any, warp: int) -> tuple[int, list[int]]:
    """Like :func:`_threads`, for a serial machine."""
    threads = [
        ctx.get(flow.threads.data[warp * WARP_THREADS + thread]) for thread in range(WARP_THREADS)
    ]
    return sum(state.active << thread for thread, state in enumerate(threads)), [
        state.code for state in threads
    ]


def _stack(ctx: Any, stack: Any, warp: int) -> tuple[int, int, int, _Reader]:
    """Returns a stack's depth, its counted calls, its lines on chip, and a reader of a token there."""
    pushed, committed = (ctx.get(part.data[warp]) for part in stack.states.states.parts)
    latest = stack_state(stack.params).from_bits(pushed.as_bits() ^ committed.as_bits())
    lines = (latest.entered - ctx.get(stack.states.below.data[warp])) % (
        1 << stack.params.stack_count_bits
    )
    return (latest.last + 1) % (1 << DEPTH_BITS), latest.calls, lines, _on_chip


def _serial_stack(ctx: Any, stack: Any, warp: int) -> tuple[int, int, int, _Reader]:
    """Like :func:`_stack`, for a serial machine."""
    layout = serial_stack_state(stack.params)
    latest = layout.from_bits(ctx.get(stack.states.memory.data[2 * warp]) & (1 << layout.size) - 1)
    return latest.depth, latest.calls, latest.lines, _serial_on_chip


def _place(stack: Any, warp: int, index: int) -> int:
    """Returns the index of a token among all tokens on chip."""
    tokens = stack.params.stack_tokens
    return warp * tokens + index % tokens


def _on_chip(ctx: Any, stack: Any, warp: int, index: int) -> StackToken:
    """Returns a token in the cache."""
    line, place = divmod(_place(stack, warp, index), TOKENS_PER_LINE)
    body, kind = (
        ctx.get(stored[place].data[line]) for stored in (stack.tokens.bodies, stack.tokens.kinds)
    )
    token = StoredToken.from_bits(body | kind << BODY_BITS)
    return StackToken(TokenKind(token.kind), token.pc, token.mask, bool(token.counted))


def _serial_on_chip(ctx: Any, stack: Any, warp: int, index: int) -> StackToken:
    """Like :func:`_on_chip`, for a serial machine."""
    place = _place(stack, warp, index)
    mask, pc = (ctx.get(stack.tokens.memory.data[2 * place + half]) for half in range(2))
    return StackToken(TokenKind(mask.note), pc.bits, mask.bits, bool(pc.note))


def instruction_text(launch: Launch, memory: Memory, address: int) -> str:
    """Returns an instruction's address and disassembly."""
    try:
        word = memory.read_number(launch.program_base + address, INSTRUCTION_BYTES)
    except MemoryFaultError:
        return f"{address:#06x}  nothing is there"
    return f"{address:#06x}  {word:016x}  {spell(word, address)}"
