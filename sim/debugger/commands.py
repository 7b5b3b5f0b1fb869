"""The debugger's command language: a name, or a prefix of one, and arguments."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rtl.params import WARP_THREADS
from sim.launch.memory import MemoryFaultError

from . import driver
from .addresses import number
from .errors import DebuggerError
from .machine import MachineState, address_of
from .session import DebuggerSession
from .views import (
    error_lines,
    mask_lines,
    memory_lines,
    predicate_lines,
    register_lines,
    stack_lines,
    thread_lines,
    threads_of,
)

__all__ = ["COMMANDS", "Command", "command_of", "execute"]

Action = Callable[[DebuggerSession, Sequence[str]], Awaitable[list[str]]]

_SHOWN_INSTRUCTIONS = 10
_SHOWN_WORDS = 16
_MOST_SHOWN = 4096
"""The most words or instructions that a command shows."""
_MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Command:
    """A command of the language.

    Attributes:
        arguments: Syntax of the arguments.
        most_arguments: The most arguments.
        takes_address: Whether the first argument is an address of code.
    """

    name: str
    arguments: str
    meaning: str
    action: Action
    most_arguments: int
    takes_address: bool = False

    @property
    def usage(self) -> str:
        """Returns the syntax of the command."""
        return f"{self.name} {self.arguments}".rstrip()


_FOUND: dict[str, Command] = {}
COMMANDS: Mapping[str, Command] = MappingProxyType(_FOUND)
"""All commands by name, in the order of the help."""
_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "b": "break",
        "c": "continue",
        "d": "delete",
        "h": "help",
        "m": "memory",
        "p": "predicates",
        "q": "quit",
        "r": "run",
        "s": "step",
        "w": "warps",
    }
)
"""Abbreviations that would otherwise be ambiguous."""


def _command(
    name: str, arguments: str, meaning: str, most: int = 1, *, takes_address: bool = False
) -> Callable[[Action], Action]:
    """Registers the decorated function as a command."""

    def known(action: Action) -> Action:
        _FOUND[name] = Command(name, arguments, meaning, action, most, takes_address)
        return action

    return known


def command_of(word: str) -> Command:
    """Returns the command for a name or prefix; DebuggerError if there is none or more than one."""
    if word in COMMANDS or word in _SHORT:
        return COMMANDS[_SHORT.get(word, word)]
    found = [name for name in COMMANDS if name.startswith(word)]
    if len(found) != 1:
        what = f"could be {' or '.join(found)}" if found else "is no command; help lists them"
        raise DebuggerError(f"{word!r} {what}")
    return COMMANDS[found[0]]


async def execute(session: DebuggerSession, line: str) -> list[str]:
    """Executes a line and returns the text to print; DebuggerError if the command fails.

    An empty line, or a comment behind ``#``, does nothing.
    """
    word, *arguments = line.partition("#")[0].split() or [""]
    if not word:
        return []
    command = command_of(word)
    if len(arguments) > command.most_arguments:
        raise DebuggerError(f"{word} {' '.join(arguments)}: too much; it is {command.usage}")
    try:
        return await command.action(session, arguments)
    except MemoryFaultError as fault:
        raise DebuggerError(str(fault)) from fault


def _count(
    arguments: Sequence[str], at: int, default: int, what: str, most: int = _MOST_SHOWN
) -> int:
    """Returns the argument at an index, a number from 1 to ``most``, or the default."""
    if len(arguments) <= at:
        return default
    value = number(arguments[at], what)
    if not 1 <= value <= most:
        raise DebuggerError(f"{arguments[at]} is no {what}: 1 to {most:,}")
    return value


# Running.


@_command(
    "run",
    "[CYCLES]",
    "starts the grid, or starts it again from the beginning; at most so many cycles of it",
)
async def _run(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    cycles = _cycles(arguments)
    if session.machine.state is not MachineState.HELD:
        session.starts, session.cycles = True, cycles
        return []
    return await session.outcome(interrupted=await session.machine.go(cycles))


def _cycles(arguments: Sequence[str]) -> int | None:
    return _count(arguments, 0, 0, "number of cycles", 1 << 40) or None


@_command("continue", "[CYCLES]", "resumes all warps, until one stops; at most so many cycles")
async def _continue(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    cycles = _cycles(arguments)
    if session.machine.state is not MachineState.RUNNING:
        session.stopped()
    return await session.outcome(interrupted=await session.machine.go(cycles))


@_command("step", "[N] [all]", "N instructions of the warp that is examined, or of every warp", 2)
async def _step(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    everyone = "all" in arguments
    steps = _count(
        [word for word in arguments if word != "all"], 0, 1, "number of steps", _MOST_STEPS
    )
    machine, warps = session.stopped(), session.warps()
    session.warp()
    waiting: set[int] = set()
    for _ in range(steps):
        chosen = set(warps) if everyone else {session.warp_number}
        waiting = await machine.step(chosen)
        warps = machine.warps
        if not chosen <= warps.keys() or waiting == chosen or machine.reasons():
            break
    return await session.outcome(stepped=chosen, waiting=waiting)


@_command("stop", "", "stops all warps where they are", 0)
async def _stop(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    if session.machine.state is not MachineState.RUNNING:
        return [session.machine.state.value]
    await session.machine.stop()
    return await session.outcome()


@_command(
    "detach",
    "",
    "removes the breakpoints and runs the grid to its end without the debugger",
    0,
)
async def _detach(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    if session.machine.state is MachineState.OVER:
        return [session.machine.state.value]
    interrupted = await session.machine.detach()
    for one in session.breakpoints.addresses:
        session.breakpoints.remove(one)
    return await session.outcome(interrupted=interrupted)


@_command("quit", "", "leaves; the grid is aborted", 0)
async def _quit(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    session.leaves = True
    return []


# Breakpoints.


@_command(
    "break",
    "[ADDRESS | FUNCTION[+OFFSET]]",
    "stops warps that reach an instruction; alone: lists breakpoints",
    takes_address=True,
)
async def _break(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    if not arguments:
        listed = session.breakpoints.addresses.items()
        return [
            f"breakpoint {one} at {session.code.location(address)}" for one, address in listed
        ] or ["no breakpoints"]
    address = session.functions.address(arguments[0])
    _check_still(session)
    one = session.breakpoints.add(address)
    await session.machine.plant()
    location = session.code.location(address)
    moved = arguments[0][:1].isdigit() and number(arguments[0], "address") != address
    note = f"; {arguments[0]} is a scheduling word" if moved else ""
    return [f"breakpoint {one} at {location}{note}", session.code.line(address)]


@_command("delete", "[N]", "takes out a breakpoint, or all")
async def _delete(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    known = session.breakpoints.addresses
    chosen = [number(arguments[0], "number of a breakpoint")] if arguments else list(known)
    if not set(chosen) <= known.keys():
        raise DebuggerError(
            f"there is no breakpoint {chosen[0]}; there are {', '.join(map(str, known)) or 'none'}"
        )
    _check_still(session)
    await session.machine.lift()
    for one in chosen:
        session.breakpoints.remove(one)
    await session.machine.plant()
    return [f"breakpoint {one} deleted" for one in chosen]


def _check_still(session: DebuggerSession) -> None:
    """Raises DebuggerError while warps run: code may be changed only while no warp executes it."""
    if session.machine.state is MachineState.RUNNING:
        session.stopped()


# Inspection.


@_command("warps", "", "all warps: where they are, their active threads, and why they stopped", 0)
async def _warps(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    machine, code, rows = session.stopped(), session.code, []
    for slot, warp in session.warps().items():
        (x, y, z), member = warp.position
        address = address_of(warp)
        rows.append(
            (
                "*" if slot == session.warp_number else "",
                f"warp {slot}",
                f"CTA {x},{y},{z} warp {member}",
                code.location(address),
                f"{warp.masks.active:08x}",
                str(machine.stop_reason(slot, warp)),
                code.instruction(address),
            )
        )
    widths = (
        [max((len(row[column]) for row in rows), default=0) for column in range(6)] if rows else []
    )
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    unsaved = await driver.live_warps(machine.host) & ~sum(1 << slot for slot in machine.warps)
    return lines + [
        f"   warp {slot}  stopped, but not saved"
        for slot in range(unsaved.bit_length())
        if unsaved >> slot & 1
    ]


@_command("warp", "[N]", "examines another warp")
async def _warp(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    if arguments:
        chosen, before = number(arguments[0], "number of a warp"), session.warp_number
        try:
            session.look_at(chosen)
        except DebuggerError:
            session.warp_number = before
            raise
    warp = session.warp()
    why = session.machine.stop_reason(session.warp_number, warp)
    address = address_of(warp)
    return [
        f"warp {session.warp_number} at {session.code.location(address)}: {why}",
        session.code.line(address, "->"),
    ]


@_command("thread", "[N]", "examines another thread of the warp; alone: what all threads do")
async def _thread(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    warp = session.warp()
    if not arguments:
        return thread_lines(warp)
    thread = number(arguments[0], "number of a thread")
    if thread >= WARP_THREADS or not warp.live >> thread & 1:
        raise DebuggerError(
            f"there is no thread {thread}; there are {', '.join(map(str, threads_of(warp.live)))}"
        )
    session.thread = thread
    return [f"warp {session.warp_number}, thread {thread}"]


@_command("registers", "[Rn ...]", "registers of the thread; some of them in all threads", 255)
async def _registers(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    warp, count = session.warp(), session.area.threads.registers
    numbers = [number(word[1:] if word[:1] in "rR" else word, "register") for word in arguments]
    if beyond := [one for one in numbers if one >= count]:
        raise DebuggerError(f"there is no R{beyond[0]}; threads have {count} registers")
    return register_lines(warp, session.thread, numbers or range(count), bool(numbers))


@_command("predicates", "", "predicates and CC of the warp's threads", 0)
async def _predicates(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    return predicate_lines(session.warp(), session.thread)


@_command("masks", "", "the warp's active and disabled threads, and those that wait for a token", 0)
async def _masks(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    return mask_lines(session.warp())


@_command("stack", "", "the warp's call/return stack", 0)
async def _stack(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    return stack_lines(session.warp(), session.code)


@_command("memory", "ADDRESS | BUFFER[+OFFSET] [COUNT]", "words of global memory", 2)
async def _memory(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    buffers = session.area.launch.buffers
    if not arguments:
        raise DebuggerError(f"memory of what? buffers: {', '.join(buffers) or 'none'}")
    name, plus, offset = arguments[0].partition("+")
    count = _count(arguments, 1, _SHOWN_WORDS, "number of words")
    if name in buffers:
        base, size = buffers[name]
        skipped = number(offset, "offset") if plus else 0
        if skipped >= size:
            raise DebuggerError(f"{arguments[0]}: the buffer has {size} bytes")
        if len(arguments) == 1:
            count = min(count, -(-(size - skipped) // 4))
        return memory_lines(session.machine.memory, base + skipped, count)
    if not name[:1].isdigit():
        raise DebuggerError(f"no buffer {name}; there are {', '.join(buffers) or 'none'}")
    return memory_lines(session.machine.memory, number(arguments[0], "address"), count)


@_command(
    "disassemble",
    "[ADDRESS | FUNCTION[+OFFSET]] [COUNT]",
    "instructions from there on, or around the warp's pc",
    2,
    takes_address=True,
)
async def _disassemble(session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    count = _count(arguments, 1, _SHOWN_INSTRUCTIONS, "number of instructions")
    pc = address_of(session.warp()) if session.machine.state is MachineState.STOPPED else None
    if arguments:
        return session.code.lines(session.functions.address(arguments[0]), count, pc)
    session.stopped()
    return session.code.around(address_of(session.warp()), count)


@_command("errors", "", "the error status, decoded", 0)
async def _errors(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    return error_lines(await session.machine.registers(), session.code)


@_command("clear", "", "clears the error status", 0)
async def _clear(session: DebuggerSession, _arguments: Sequence[str]) -> list[str]:
    await driver.clear_errors(session.machine.host)
    return []


@_command("help", "[COMMAND]", "this list")
async def _help(_session: DebuggerSession, arguments: Sequence[str]) -> list[str]:
    chosen = [command_of(arguments[0])] if arguments else list(COMMANDS.values())
    width = max(len(command.usage) for command in chosen)
    return [f"{command.usage:{width}}  {command.meaning}" for command in chosen]
