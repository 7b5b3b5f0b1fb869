"""Why a machine does not go on: what each warp is at, and what it waits for."""

from typing import Any

from rtl.crs.lines import CACHED_LINES
from rtl.crs.pointers import LOW_BITS
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.issue import WaitReason
from rtl.layouts import DEPTH_BITS, ThreadCode
from sim.launch import Launch
from sim.memory import Memory, MemoryFaultError
from sim.report import before
from sim.toolchain.spelling import spell

__all__ = ["diagnose"]

_WORDS = {
    WaitReason.FLOW: "its flow instruction has no result", WaitReason.DRAIN: "an instruction is not complete",
    WaitReason.RESUME: "nobody lets it go", WaitReason.FETCH: "its instructions have not come",
    WaitReason.STALL: "its stall count runs", WaitReason.SCOREBOARD: "scoreboards are up",
    WaitReason.LANES: "others have the lanes", WaitReason.UNIT: "its unit has no room",
    WaitReason.READY: "it can issue"}


def diagnose(ctx: Any, sm: Any, launch: Launch, memory: Memory) -> list[str]:
    """A few lines for each live warp, from the machine's state in simulation."""
    core, lines = sm.core, []
    barrier = ctx.get(core.barrier.waiting)
    for warp in range(len(core.reasons)):
        reason = WaitReason(ctx.get(core.reasons[warp]))
        if reason is WaitReason.NOT_LIVE:
            continue
        text = _WORDS[reason]
        if barrier >> warp & 1:
            text = f"waits at barrier {ctx.get(core.barrier.places[warp])}"
        lines.append(f"warp {warp}: {text}")
        behind = ctx.get(core.issue.store.behind.data[warp]) * INSTRUCTION_BYTES
        lines.append(f"  issued last {_instruction(launch, memory, before(behind))}" if behind else "  issued nothing")
        state = ctx.get(core.control_flow.flow.states.states.data[warp])
        codes = [ThreadCode(code) for code in state.codes]
        masks = {code.name.lower(): sum(1 << thread for thread, one in enumerate(codes) if one is code)
                 for code in ThreadCode if code is not ThreadCode.NONE}
        named = " ".join(f"{name} {mask:08x}" for name, mask in masks.items() if mask)
        lines.append(f"  masks       active {state.active:08x} {named}".rstrip())
        lines.append(f"  stack       {_top(ctx, core.control_flow.stack, warp)}")
    return lines


def _instruction(launch: Launch, memory: Memory, address: int) -> str:
    """An instruction with its disassembly."""
    try:
        word = memory.read_number(launch.program_base + address, INSTRUCTION_BYTES)
    except MemoryFaultError:
        return f"{address:#06x}  nothing is there"
    return f"{address:#06x}  {word:016x}  {spell(word, address)}"


def _top(ctx: Any, stack: Any, warp: int) -> str:
    """How deep the stack is, and its topmost token if that is on chip."""
    pointers = stack.pointers
    latest = pointers.by_push if ctx.get(pointers.push_is_latest[warp]) else pointers.by_commit
    window = stack.windows.windows[warp]
    number = ctx.get(latest.data[warp]).high << LOW_BITS | ctx.get(window.last)
    if number >> DEPTH_BITS - 1:
        return "empty"
    if not ctx.get(window.cached):
        return f"{number + 1} tokens, none on chip"
    line, place = divmod(number, TOKENS_PER_LINE)
    token = ctx.get(stack.cache.store.banks[place].data[warp * CACHED_LINES + line % CACHED_LINES])
    return f"{number + 1} tokens, on top {TokenKind(token.kind).name} pc={token.pc:#06x} mask={token.mask:08x}"
