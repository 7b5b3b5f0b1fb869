"""The traces of a waveform of the whole machine."""

from collections.abc import Callable
from typing import Any

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from rtl.layouts import DEPTH_BITS, InstructionKind, errors_by_source
from rtl.serial.core import SerialCore
from sim.waves import Mark, Text, Trace, View, error_text, instruction_text

__all__ = ["StackDepth", "machine_traces"]

_SHOWN_WARPS = 4
"""Number of warps whose group of traces is initially open."""
_CYCLE_PIXELS = 22
"""Zoom: about ten cycles are between two instructions of a warp, which leaves room for the text of
one.
"""
_INJECTED = {InstructionKind.ENTER: "enters the trap", InstructionKind.LEAVE: "leaves the trap"}


def _instruction(warp: int) -> Callable[..., str | None]:
    """Shows the last instruction that a warp has issued, or the operation that the trap unit
    inserted instead.
    """

    def decode(valid: int, issuer: int, pc: int, word: int, kind: int) -> str | None:
        if not valid or issuer != warp:
            return None
        return _INJECTED.get(InstructionKind(kind)) or instruction_text(word, pc)

    return decode


def _active(warp: int) -> Callable[..., str | None]:
    """Shows the threads with which a warp continues."""

    def decode(valid: int, teller: int, active: int, terminated: int) -> str | None:
        if not valid or teller != warp:
            return None
        return "ended" if terminated else f"{active:08x}"

    return decode


def _token(warp: int) -> Callable[..., str | None]:
    """Shows the token that a warp has pushed (+) last, or popped (-) from its stack. The text is short
    because it is two cycles wide.
    """

    def decode(
        pushed: int, pusher: int, kind: int, result: int, teller: int, resume: int, found: int
    ) -> str | None:
        if result and teller == warp and resume:
            return f"-{TokenKind(found).name}"
        return f"+{TokenKind(kind).name}" if pushed and pusher == warp else None

    return decode


class StackDepth:
    """The depth of a warp's stack: a push reports its own token, any other change the token that is
    then on top.
    """

    def __init__(self, warp: int) -> None:
        self._warp, self._tokens = warp, 0

    def __call__(self, pushed: int, pusher: int, committed: int, whose: int, last: int) -> str:
        """The number of tokens, as text."""
        if committed and whose == self._warp:
            self._tokens = (last + 1) % (1 << DEPTH_BITS)
        if pushed and pusher == self._warp:
            self._tokens += 1
        return str(self._tokens)


def _trap(inside: int, paused: int) -> str:
    """Shows the trap state of a warp."""
    return "paused" if paused else "in the handler" if inside else "outside"


def _machine_trap(trapping: int, locked_down: int) -> str:
    """Shows the trap state of the machine."""
    return "LOCKED_DOWN" if locked_down else "TRAPPING" if trapping else "RUNNING"


class _Error:
    """The last error of a warp, with the address of its instruction. The text stays until the trap
    that the error has caused is over, because an error is reported for one cycle only."""

    def __init__(self) -> None:
        self._trapping = 0

    def __call__(self, trapping: int, *events: int) -> str | None:
        trap_is_over = self._trapping and not trapping
        self._trapping = trapping
        reported = [
            f"warp {warp}: {pc:04x} {WarpError(error).name}"
            for valid, warp, pc, error in zip(*[iter(events)] * 4, strict=True)
            if valid
        ]
        return ", ".join(reported) or ("" if trap_is_over else None)


def _warp(core: Any, warp: int) -> dict[str, Any]:
    """The traces of a warp."""
    issued, flow, state = core.retired.issued, core.retired.flow, core.trap_state
    stack, committed = core.flow.stack, core.stack.committed
    pushed = stack.pushed
    if isinstance(core, SerialCore):
        result, found = stack.result, (stack.request.ready, stack.request.payload.warp)
    else:
        result, found = stack.result.payload, (stack.result.valid, stack.result.payload.warp)
    return {
        "instruction": Text(
            _instruction(warp),
            (
                issued.valid,
                issued.payload.warp,
                issued.payload.pc,
                issued.payload.word,
                issued.payload.kind,
            ),
        ),
        "waits": core.reasons[warp],
        "active": Text(
            _active(warp),
            (flow.valid, flow.payload.warp, flow.payload.active, flow.payload.terminated),
        ),
        "token": Text(
            _token(warp),
            (
                pushed.valid,
                pushed.payload.warp,
                pushed.payload.kind,
                *found,
                result.resume,
                result.kind,
            ),
        ),
        "depth": Text(
            StackDepth(warp),
            (
                pushed.valid,
                pushed.payload.warp,
                committed.valid,
                committed.payload.warp,
                committed.payload.last,
            ),
        ),
        "trap": Text(_trap, (core.trap.inside[warp], state.paused[warp])),
    }


def _machine(sm: Any) -> dict[str, Any]:
    """The traces of the machine as a whole."""
    core, trap = sm.core, sm.core.trap_state
    reported = [
        part
        for error in errors_by_source(core.retired.errors).values()
        for part in (error.valid, error.payload.warp, error.payload.pc, error.payload.error)
    ]
    return {
        "busy": sm.distributor.control.busy,
        "trap": Text(_machine_trap, (trap.trapping, trap.locked_down)),
        "error": Text(_Error(), (trap.trapping, *reported)),
        "interrupt": sm.interrupt,
        "spill": core.stack_events.spill,
        "fill": core.stack_events.fill,
        "diverged": core.diverged,
    }


def _retirement(retired: Any) -> dict[str, Any]:
    """What instructions do: they are issued, write registers, and change the flow."""
    issued, written, flow = retired.issued, retired.written.payload, retired.flow
    return {
        "issue": {
            "valid": issued.valid,
            "warp": Trace(issued.payload.warp, "dec"),
            "pc": issued.payload.pc,
            "kind": issued.payload.kind,
            "word": issued.payload.word,
            "sequence": Trace(issued.payload.sequence, "dec"),
        },
        "write": {
            "valid": retired.written.valid,
            "warp": Trace(written.warp, "dec"),
            "beat": Trace(written.beat, "dec"),
            "lanes": Trace(written.lanes, "bin"),
            "register": Trace(written.register, "dec"),
            "values": written.values,
        },
        "flow": {
            "valid": flow.valid,
            "warp": Trace(flow.payload.warp, "dec"),
            "pc": flow.payload.pc,
            "active": flow.payload.active,
            "terminated": flow.payload.terminated,
            "error": error_text(flow.valid, flow.payload.error),
        },
    }


def _memory(core: Any, arbiter: Any) -> dict[str, Any]:
    """The requests of each client of memory, and the port that they share."""
    port = arbiter.port
    return {
        "memory": {
            "request": core.unit_memory.request.valid,
            "address": core.unit_memory.request.payload.address,
            "write": core.unit_memory.request.payload.write,
        },
        "stack": {
            "request": core.stack_memory.request.valid,
            "address": core.stack_memory.request.payload.address,
            "write": core.stack_memory.request.payload.write,
        },
        "fetch": {
            "request": core.fetch_memory.request.valid,
            "address": core.fetch_memory.request.payload.address,
        },
        "port": {
            "turn": Trace(arbiter.turn, "dec"),
            "request": port.request.valid,
            "ready": port.request.ready,
            "tag": port.request.payload.tag,
            "write": port.request.payload.write,
            "answer": port.response.valid,
            "answered": port.response.payload.tag,
        },
    }


def machine_traces(harness: Any) -> View:
    """The traces of each warp and of the machine, and those of issue, lanes, flow and memory.

    The view begins where a warp traps or fails, else where one spills or diverges, else with the
    first instruction.
    """
    core, distributor = harness.sm.core, harness.sm.distributor
    trap, retired = core.trap_state, core.retired
    bus = harness.sm.registers.bus
    errors = errors_by_source(retired.errors).values()
    warps = {f"warp{number}": _warp(core, number) for number in range(len(core.reasons))}
    traces: dict[str, Any] = {
        "machine": _machine(harness.sm),
        **warps,
        "launch": {
            "running": Trace(distributor.running, "bin"),
            "valid": core.launch.valid,
            "warp": core.launch.payload,
        },
        **_retirement(retired),
        **_memory(core, harness.sm.arbiter),
        "host": {
            "read": bus.read,
            "write": bus.write,
            "address": bus.address,
            "data": bus.data,
            "value": bus.value,
        },
        "trap": {
            "trapping": trap.trapping,
            "locked_down": trap.locked_down,
            "inside": Trace(core.trap.inside, "bin"),
            "paused": Trace(trap.paused, "bin"),
            "barrier": Trace(core.waiting, "bin"),
            "events": core.trap.events,
        },
    }
    return View(
        traces,
        ("machine", *list(warps)[:_SHOWN_WARPS]),
        (
            Mark("trap", (trap.trapping,)),
            Mark("error", [error.valid for error in errors], lambda *valid: any(valid)),
            Mark("spill", (core.stack_events.spill,)),
            Mark("divergence", (core.diverged,)),
            Mark("start", (retired.issued.valid,)),
        ),
        _CYCLE_PIXELS,
    )
