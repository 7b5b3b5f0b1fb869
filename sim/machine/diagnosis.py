"""Why a machine does not go on: what each warp is at, and what it waits for; its masks and its stack."""

from typing import Any

from rtl.crs.records import COUNT_BITS, StackState
from rtl.crs.tokens import BODY_BITS, StoredToken
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.tokens import CACHED_TOKENS, TOKEN_BYTES, TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, ThreadCode, WaitReason
from rtl.params import WARP_THREADS
from sim.launch import LOCAL_MEMORY, Launch
from sim.launch.memory import Memory, MemoryFaultError
from sim.machine.warp_state import MASK_OF, SHOWN_TOKENS, WarpState
from sim.model.retirement import StackToken, WarpMasks
from sim.model.stack import decode_token
from sim.toolchain.spelling import spell

__all__ = ["diagnose", "warp_states"]

_WORDS = {
    WaitReason.FLOW: "its flow instruction has no result", WaitReason.DRAIN: "an instruction is not complete",
    WaitReason.RESUME: "nobody lets it go", WaitReason.FETCH: "its instructions have not come",
    WaitReason.STALL: "its stall count runs", WaitReason.SCOREBOARD: "scoreboards are up",
    WaitReason.LANES: "others have the lanes", WaitReason.UNIT: "its unit has no room",
    WaitReason.TRAP: "the trap holds it", WaitReason.READY: "it can issue"}



def diagnose(ctx: Any, sm: Any, launch: Launch, memory: Memory) -> list[str]:
    """A few lines for each live warp, from the machine's state in simulation."""
    core, lines = sm.core, []
    barrier = ctx.get(core.front_end.barrier.waiting)
    for warp, state in warp_states(ctx, sm, launch, memory).items():
        text = _WORDS[WaitReason(ctx.get(core.reasons[warp]))]
        if barrier >> warp & 1:
            text = f"waits at barrier {ctx.get(core.front_end.barrier.arrivals.data[warp]).number}"
        lines.append(f"warp {warp}: {text}")
        last = ctx.get(core.front_end.issue.last.data[warp])
        lines.append(f"  issued last {_instruction(launch, memory, last)}" if last else "  issued nothing")
        lines += [f"  {line}" for line in state.lines()]
    return lines


def warp_states(ctx: Any, sm: Any, launch: Launch, memory: Memory) -> dict[int, WarpState]:
    """Masks and stack of each live warp, by slot. Tokens that are not on chip are looked up in the block of local
    memory that the launch gave the slot.
    """
    core = sm.core
    return {warp: _state(ctx, core, launch, memory, warp) for warp in range(len(core.reasons))
            if WaitReason(ctx.get(core.reasons[warp])) is not WaitReason.NOT_LIVE}


def _state(ctx: Any, core: Any, launch: Launch, memory: Memory, warp: int) -> WarpState:
    """Of one warp."""
    state = ctx.get(core.front_end.control_flow.flow.states.data[warp])
    masks = dict.fromkeys(MASK_OF.values(), 0)
    for thread, code in enumerate(state.codes):
        if (name := MASK_OF.get(ThreadCode(code))) is not None:
            masks[name] |= 1 << thread
    stack = core.front_end.control_flow.stack
    pushed, committed = (ctx.get(part.data[warp]) for part in stack.states.states.parts)
    latest = StackState.from_bits(pushed.as_bits() ^ committed.as_bits())
    depth = (latest.last + 1) % (1 << DEPTH_BITS)
    lines = (latest.entered - ctx.get(stack.states.below.data[warp])) % (1 << COUNT_BITS)
    region = memory.regions[LOCAL_MEMORY][0] + warp * launch.warp_block + launch.local * WARP_THREADS
    first = (-(-depth // TOKENS_PER_LINE) - lines) * TOKENS_PER_LINE
    tokens, unreadable = [], ""
    for index in reversed(range(max(0, depth - SHOWN_TOKENS), depth)):
        try:
            tokens.append(_on_chip(ctx, stack, warp, index) if index >= first else
                          decode_token(memory.read(region + index * TOKEN_BYTES, TOKEN_BYTES)))
        except MemoryFaultError as fault:
            unreadable = str(fault)
            break
    return WarpState(WarpMasks(state.active, **masks), depth, latest.calls, tuple(tokens), unreadable)


def _on_chip(ctx: Any, stack: Any, warp: int, index: int) -> StackToken:
    """A token in the cache."""
    line, place = divmod(warp * CACHED_TOKENS + index % CACHED_TOKENS, TOKENS_PER_LINE)
    body, kind = (ctx.get(stored[place].data[line]) for stored in (stack.tokens.bodies, stack.tokens.kinds))
    token = StoredToken.from_bits(body | kind << BODY_BITS)
    return StackToken(TokenKind(token.kind), token.pc, token.mask, bool(token.counted))


def _instruction(launch: Launch, memory: Memory, address: int) -> str:
    """An instruction with its disassembly."""
    try:
        word = memory.read_number(launch.program_base + address, INSTRUCTION_BYTES)
    except MemoryFaultError:
        return f"{address:#06x}  nothing is there"
    return f"{address:#06x}  {word:016x}  {spell(word, address)}"
