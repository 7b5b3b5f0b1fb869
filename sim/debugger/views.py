"""The text that the debugger shows, made from the state that the trap handler saved and from the
registers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.tokens import TokenKind
from rtl.params import WARP_THREADS
from sim.firmware.save_area import SavedWarp
from sim.launch.memory import Memory, MemoryFaultError
from sim.report.error_status import decode, traps_text
from sim.toolchain.assembly.spelling import spell

from .addresses import FunctionAddresses
from .breakpoints import Breakpoints

__all__ = [
    "Disassembly",
    "error_lines",
    "mask_lines",
    "memory_lines",
    "predicate_lines",
    "register_lines",
    "stack_lines",
    "thread_lines",
    "threads_of",
]

_AROUND = 4
"""Number of instructions shown before the current one of a warp."""
_WORD_BYTES = 4
_IN_ROW = 4
_THREADS_IN_ROW = 8
_PREDICATES = 7
_FLAGS = ("zero", "sign", "carry", "overflow")


def threads_of(mask: int) -> list[int]:
    """Returns the threads in a mask."""
    return [thread for thread in range(WARP_THREADS) if mask >> thread & 1]


class Disassembly:
    """The disassembly of the program, without breakpoints."""

    def __init__(
        self, breakpoints: Breakpoints, functions: FunctionAddresses, memory: Memory
    ) -> None:
        self._breakpoints, self._functions, self._memory = breakpoints, functions, memory

    def location(self, address: int) -> str:
        """Returns an address with its function."""
        name = self._functions.name(address)
        return f"{address:#06x}" + (f" {name}" if name else "")

    def instruction(self, address: int) -> str:
        """Returns the text of an instruction."""
        try:
            return spell(self._breakpoints.word(self._memory, address), address)
        except MemoryFaultError:
            return "nothing is there"

    def line(self, address: int, mark: str = "") -> str:
        """Returns a line with an instruction. ``->`` marks the current one of a warp, ``*`` a
        breakpoint.
        """
        try:
            word = f"{self._breakpoints.word(self._memory, address):016x}"
        except MemoryFaultError:
            word = f"{'':16}"
        point = "*" if address in self._breakpoints else " "
        return f"{mark:>4} {point}{address:#06x}  {word}  {self.instruction(address)}"

    def lines(self, pc: int, count: int, current: int | None) -> list[str]:
        """Returns ``count`` instructions from one on, with the names of functions before their
        first ones.
        """
        lines, address, function = [], pc, None
        while count:
            if address % GROUP_BYTES:
                name = self._functions.name(address).partition("+")[0]
                if name != function and name:
                    lines.append(f"{name}:")
                function = name
                lines.append(self.line(address, "->" if address == current else ""))
                count -= 1
            address += INSTRUCTION_BYTES
        return lines

    def around(self, pc: int, count: int) -> list[str]:
        """Returns ``count`` instructions around the current one of a warp."""
        first, steps = pc, 0
        while first > INSTRUCTION_BYTES and steps < _AROUND:
            first -= INSTRUCTION_BYTES
            steps += first % GROUP_BYTES != 0
        return self.lines(first, count, pc)


def _masks(warp: SavedWarp) -> dict[str, int]:
    """Returns the masks that are not empty; ``waiting`` are the threads that a token holds."""
    waiting = warp.live & ~warp.masks.active & ~warp.masks.disabled
    return {name: mask for name, mask in {**asdict(warp.masks), "waiting": waiting}.items() if mask}


def mask_lines(warp: SavedWarp) -> list[str]:
    """Returns the masks of a warp as text: active, disabled, and the threads that wait for a token."""
    return [f"{name:<11} {mask:08x}" for name, mask in _masks(warp).items()]


def stack_lines(warp: SavedWarp, code: Disassembly) -> list[str]:
    """Returns the tokens of a warp as text, top first."""
    tokens = warp.stack
    calls = sum(token.counted for token in tokens)
    lines = [f"{len(tokens)} tokens, {calls} counted calls open" + ", top first" * bool(tokens)]
    for index, token in reversed(list(enumerate(tokens))):
        if token.kind is TokenKind.NONE:
            lines.append(f"{index:>5}  NONE")
        else:
            lines.append(
                f"{index:>5}  {token.kind.name:<9} mask {token.mask:08x}  pc {code.location(token.pc)}"
                + "  counted" * token.counted
            )
    return lines


def thread_lines(warp: SavedWarp) -> list[str]:
    """Returns the state of each thread of a warp as text."""
    return [f"{name:<11} {_ranges(mask)}" for name, mask in _masks(warp).items()]


def _ranges(mask: int) -> str:
    """Returns the threads in a mask as text, with consecutive ones as ranges."""
    texts, threads = [], threads_of(mask)
    for at, thread in enumerate(threads):
        if at and threads[at - 1] == thread - 1:
            texts[-1] = f"{texts[-1].partition('-')[0]}-{thread}"
        else:
            texts.append(str(thread))
    return " ".join(texts)


def register_lines(warp: SavedWarp, thread: int, numbers: Sequence[int], every: bool) -> list[str]:
    """Returns registers of a thread as text; with ``every``, of each thread that the handler saved."""
    if not every:
        cells = [f"{f'R{number}':<4} {warp.register(thread, number):08x}" for number in numbers]
        return ["   ".join(cells[at : at + _IN_ROW]) for at in range(0, len(cells), _IN_ROW)]
    lines = []
    for number in numbers:
        for first in range(0, WARP_THREADS, _THREADS_IN_ROW):
            values = [
                f"{warp.register(one, number):08x}" if warp.live >> one & 1 else f"{'-':>8}"
                for one in range(first, first + _THREADS_IN_ROW)
            ]
            lines.append(f"{f'R{number}' if not first else '':<4} {first:>2}: {' '.join(values)}")
    return lines


def predicate_lines(warp: SavedWarp, thread: int) -> list[str]:
    """Returns predicates and CC as text: masks of all threads, and the values of one thread."""
    live = threads_of(warp.live)

    def row(name: str, holds: Mapping[int, bool]) -> str:
        mask = sum(1 << one for one, value in holds.items() if value)
        return f"{name:<8} {mask:08x}  {int(holds[thread]) if thread in holds else '-'}"

    rows = [
        row(f"P{number}", {one: bool(warp.predicates(one) >> number & 1) for one in live})
        for number in range(_PREDICATES)
    ]
    rows += [
        row(name, {one: bool(warp.condition(one) >> bit & 1) for one in live})
        for bit, name in enumerate(_FLAGS)
    ]
    return [f"{'':8} threads   thread {thread}", *rows]


def memory_lines(memory: Memory, address: int, count: int) -> list[str]:
    """Returns words of memory as text; MemoryFaultError if an address is unmapped."""
    words = [
        memory.read_number(address + _WORD_BYTES * number, _WORD_BYTES) for number in range(count)
    ]
    return [
        f"{address + _WORD_BYTES * at:#012x}  "
        + " ".join(f"{word:08x}" for word in words[at : at + _IN_ROW])
        for at in range(0, count, _IN_ROW)
    ]


def error_lines(
    registers: Mapping[str, int],
    code: Disassembly,
    *,
    ended: bool = False,
    stopped_at: Collection[int] = (),
) -> list[str]:
    """Returns the error status as text, for a grid that has ``ended`` or not.

    ``stopped_at`` are the reasons of the program's own traps, which may have been cleared in the
    registers.
    """
    status = decode(registers, ended=ended)
    lines = status.log_lines()
    if status.exception is not None:
        lines.append(f"{status.exception.symbol}, {status.exception.meaning}")
    if ended and (reasons := {*status.reasons, *stopped_at}):
        lines.append(f"{traps_text(reasons)}: the debugger stopped there")
    if status.stopped:
        lines += [
            f"{status.cause()}, warp {status.warp} at {code.location(status.pc)}",
            code.line(status.pc, "->"),
        ]
    if status.events:
        lines.append(f"global events: {' '.join(status.events)}")
    return lines or ["no errors"]
