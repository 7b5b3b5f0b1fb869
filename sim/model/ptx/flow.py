"""Branches, calls and ends of threads."""

from collections.abc import Mapping

from sim.model.threads import ENDED
from sim.toolchain.ptx.module import FunctionRef, PtxLabel, PtxRegister, PtxVariable, Sink

from .site import Maker, Site
from .slots import Slots
from .state import (
    CALLED,
    CallFrame,
    ExecutableFunction,
    Give,
    Operation,
    PtxFaultError,
    PtxThread,
    PtxTrapError,
    Take,
)

__all__ = ["FLOW", "giver", "taker"]

_DEEPEST = 10_000
"""The limit of call depth: deeper recursion is taken to be endless."""


def _branch(site: Site) -> Operation:
    (label,) = site.instruction.operands
    assert isinstance(label, PtxLabel)
    target = site.labels[label]
    return lambda thread, values: target


def _indexed_branch(site: Site) -> Operation:
    (index,) = site.operand_slots
    targets = [site.labels[label] for label in site.instruction.targets]

    def run(thread: PtxThread, values: list[int]) -> int:
        if values[index] >= len(targets):
            raise PtxFaultError(f"target {values[index]} of {len(targets)}")
        return targets[values[index]]

    return run


def _nothing(_: Site) -> Operation:
    """Fences, hints and waits: no operation, because the interpreter executes in program order."""
    return lambda thread, values: None


def _trap(site: Site) -> Operation:
    def run(thread: PtxThread, values: list[int]) -> int:
        raise PtxTrapError

    return run


# Calls.


def giver(slots: Slots, item: object) -> Give:
    """Returns a function that reads an argument or a result from a frame."""
    if isinstance(item, PtxVariable):
        number = slots.parameter(item)
        return lambda frame: bytes(frame.parameters[number])
    place = slots.of_operand(item)  # type: ignore[arg-type]
    return lambda frame: frame.values[place].to_bytes(8, "little")


def taker(slots: Slots, item: PtxRegister | PtxVariable | Sink) -> Take:
    """Returns a function that writes a parameter or a result to a frame."""
    if isinstance(item, PtxVariable):
        number, size = slots.parameter(item), item.size

        def store(frame: CallFrame, content: bytes) -> None:
            frame.parameters[number][:] = content[:size].ljust(size, b"\0")

        return store
    if isinstance(item, Sink):
        return lambda frame, content: None
    place, width = slots.register(item), -(-item.type.bits // 8)

    def put(frame: CallFrame, content: bytes) -> None:
        frame.values[place] = int.from_bytes(content[:width], "little")

    return put


def _call(site: Site) -> Operation:
    call = site.instruction.call
    assert call is not None
    gives = [giver(site.slots, item) for item in call.arguments]
    takes = [taker(site.slots, item) for item in call.results]
    program, target = site.program, call.target
    place = 0 if isinstance(target, FunctionRef) else site.slots.register(target)
    allowed = (
        None
        if call.candidates is None
        else {program.launch.addresses[name] for name in call.candidates}
    )

    def callee(values: list[int]) -> ExecutableFunction:
        if isinstance(target, FunctionRef):
            return program.code(target.name)
        code = program.at_address(values[place])
        if code is None or len(code.takes) != len(gives) or len(code.gives) != len(takes):
            raise PtxFaultError(
                f"{values[place]:#x} is the address of no function that takes and gives the same"
            )
        if allowed is not None and values[place] not in allowed:
            raise PtxFaultError(
                f"{code.function.name} is not among the functions that the call lists"
            )
        return code

    def run(thread: PtxThread, values: list[int]) -> int:
        code, caller = callee(values), thread.frame
        frame = code.frame(thread.top, caller)
        if frame.depth > _DEEPEST or frame.base + code.local > len(thread.local):
            raise PtxFaultError(
                f"calls within calls: {frame.depth} of them, {frame.base} bytes of local memory"
            )
        for give, take in zip(gives, code.takes, strict=True):
            take(frame, give(caller))

        def results(own: CallFrame, back: CallFrame) -> None:
            for give, take in zip(code.gives, takes, strict=True):
                take(back, give(own))

        frame.results = results
        caller.index = site.following
        thread.frame = frame
        thread.top = frame.base + code.local
        return CALLED

    return run


def _return(site: Site) -> Operation:
    def run(thread: PtxThread, values: list[int]) -> int:
        frame = thread.frame
        if frame.caller is None or frame.results is None:
            return ENDED
        frame.results(frame, frame.caller)
        thread.frame = frame.caller
        thread.top = frame.base
        return CALLED

    return run


def _exit(site: Site) -> Operation:
    return lambda thread, values: ENDED


FLOW: Mapping[str, Maker] = {
    "bra": _branch,
    "brx": _indexed_branch,
    "call": _call,
    "ret": _return,
    "exit": _exit,
    # NVIDIA's assembler translates trap and brkpt to the same instruction.
    "trap": _trap,
    "brkpt": _trap,
    **dict.fromkeys(("membar", "prefetch", "prefetchu", "pmevent"), _nothing),
}
"""Makers of operations, by opcode."""
