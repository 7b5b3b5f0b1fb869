"""Cycles of the flow unit and the stack in a serial machine: the rows of the table in
docs/control_flow.md.
"""

from collections.abc import Iterator
from typing import Any

from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE
from rtl.layouts import FlowOperation
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour
from testbench.flow.cases import LOW, NEXT, PC, TARGET, WRITE_BACK, Life
from testbench.flow.driver import FlowDriver
from testbench.flow.steps import ALL, FlowStep
from testbench.handmade import encode

__all__ = ["SERIAL_CYCLES", "check_serial_cycles"]

LATENCY = 1
"""Latency of the memory in cycles."""
SERIAL_CYCLES = {
    "leave, other threads remain": 79,
    "branch, all threads": 112,
    "push": 114,
    "divergent branch": 114,
    "call": 114,
    "unwind to the topmost token": 118,
    "each further token": 38,
    "each hole": 4,
    "exit of the last thread": 116,
    "entry": 251,
    "each hole under a frame": 43,
    "restore": 337,
    "line written": 26 + LATENCY,
    "line read": 18 + LATENCY,
}
"""Cycles from the dispatch of an instruction to its flow result, or the additional cycles of a row.
"""
_LOW_HALF_BRANCHES: Any = {"guard": LOW, "active": LOW, "pushed": 1}


class _TimedDriver(FlowDriver):
    """Records the cycles of each instruction, in order.

    Attributes:
        times: Cycles from dispatch to result of each instruction.
    """

    def __init__(self, bench: Bench, life: Life) -> None:
        behaviour = MemoryBehaviour(latency=(LATENCY, LATENCY))
        super().__init__(bench, 1, [life.stream], behaviour, idle=0.0, lanes=1)
        self.times: list[int] = []

    def _result(self, bits: int) -> None:
        item, accepted = self._warps[0].flying[0]
        if isinstance(item, FlowStep):
            self.times.append(self.cycle - accepted)
        super()._result(bits)


def _last(bench: Bench, life: Life) -> int:
    """Cycles of the last instruction of a sequence."""
    driver = _TimedDriver(bench, life)
    driver.run()
    return driver.times[-1]


def _branch(*, threads: int) -> Life:
    """A branch that these threads take."""
    word = encode("BRA", "i", target=TARGET - NEXT, guard=0)
    if threads == ALL:
        return Life("all branch")(word, TARGET)
    return Life("some branch")(word, TARGET, guard=threads, pushed=1, active=threads)


def _unwind(further: int) -> Life:
    """A BRK of all threads that unwinds over ``further`` tokens whose threads have all left."""
    life = Life("unwind").push("PBK")
    for _ in range(further):
        life.push("SSY")
    return life(encode("BRK"), TARGET, depth=0, active=ALL, broken=0)


def _over_holes(tokens: int) -> Life:
    """An unwind that begins above holes: SETCRSPTR has set the depth to a full line."""
    life = Life("holes").push("SSY", times=tokens)(WRITE_BACK)
    life(encode("SETCRSPTR", Ra=1), operand=TOKENS_PER_LINE, depth=TOKENS_PER_LINE)
    return life(encode("SYNC"), TARGET, depth=tokens - 1)


def _trap(tokens: int, *, restores: bool = False) -> Life:
    """A warp with ``tokens`` tokens enters the trap handler, and with ``restores`` returns from
    it.
    """
    life = Life("trap").push("SSY", times=tokens).enter(1 + -(-tokens // TOKENS_PER_LINE))
    if restores:
        life.move(FlowOperation.RESTORE, PC, depth=tokens)
    return life


def _deep(tokens: int, *, unwinds: int = 0) -> Life:
    """Pushes, then ``unwinds`` unwinds of one token each."""
    life = Life("deep").push("SSY", times=tokens)
    for depth in reversed(range(tokens - unwinds, tokens)):
        life(encode("SYNC"), TARGET, depth=depth)
    return life


def _measure(bench: Bench) -> Iterator[tuple[str, int]]:
    """The name of each row and its measured cycles."""
    some_leave = Life("some leave").push("PBK")
    some_leave(encode("BRK", guard=0), guard=LOW, active=ALL & ~LOW, broken=LOW)
    yield "leave, other threads remain", _last(bench, some_leave)
    yield "branch, all threads", _last(bench, _branch(threads=ALL))
    push = _last(bench, _deep(1))
    yield "push", push
    yield "divergent branch", _last(bench, _branch(threads=LOW))
    call = encode("CAL", "i", target=TARGET - NEXT)
    yield "call", _last(bench, Life("call")(call, TARGET, pushed=1))
    unwind = _last(bench, _unwind(0))
    yield "unwind to the topmost token", unwind
    yield "each further token", (_last(bench, _unwind(2)) - unwind) // 2
    one_hole, three_holes = (_last(bench, _over_holes(tokens)) for tokens in (3, 1))
    yield "each hole", (three_holes - one_hole) // 2
    exits = Life("exit")(encode("EXIT"), 0, terminated=True, active=0, exited=ALL)
    yield "exit of the last thread", _last(bench, exits)
    entry = _last(bench, _trap(0))
    yield "entry", entry
    yield "each hole under a frame", (_last(bench, _trap(1)) - entry) // (TOKENS_PER_LINE - 1)
    yield "restore", _last(bench, _trap(0, restores=True))
    yield "line written", _last(bench, _deep(CACHED_TOKENS + 1)) - push
    # The lowest line was spilled by the push that began the fifth line; the last unwind fills it.
    depth = CACHED_TOKENS + 1
    yield "line read", _last(bench, _deep(depth, unwinds=depth - TOKENS_PER_LINE + 1)) - unwind


def check_serial_cycles(bench: Bench) -> None:
    """Compares the cycles of each row with the table."""
    measured = dict(_measure(bench))
    bench.table(
        f"serial machine, cycles from dispatch to result, memory answers after {LATENCY}",
        ["", "cycles"],
        [[name, cycles] for name, cycles in measured.items()],
    )
    bench.expect("cycles of the serial machine", measured, SERIAL_CYCLES)
