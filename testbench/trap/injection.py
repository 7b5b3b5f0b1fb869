"""Traps at any time: programs stopped by the host many times leave the same results as undisturbed
ones, and no trap is lost.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from rtl.isa.errors import WarpError
from rtl.isa.special_registers import VIRTUAL_WARP_AT
from sim.checks.testbench import Bench
from sim.launch import Launch
from sim.machine.host import HardwareHost
from testbench.sm.errors import launch_text
from testbench.trap.driver import TrapDriver
from testbench.trap.programs import CLOBBER, RETURN, kernel_text, with_handler

HANDLERS = (RETURN, CLOBBER)
"""The ends of a handler that counts its entries: RTT at once, or after branches, calls and tokens
of every kind.
"""
_PATIENCE = 100_000
"""Timeout in cycles for a warp to enter the trap and reach RTT."""
_LIMIT = 1_000_000
"""Timeout in cycles for a program after its last stop."""
_REGISTERS = 4
"""Registers of the handler above those of the program."""
_WORDS = 256
_STACK = 1024
"""Size of the stack's region in bytes: just enough, so that tokens left on the stack by a trap
would overflow it.
"""
_MOST_SLOTS = 64
_WORD_BYTES = 4
_PER_WORD = _WORD_BYTES.bit_length() - 1


@dataclass
class Counted:
    """A launch whose trap handler counts the entries of each warp slot.

    Attributes:
        traps_itself: The program has traps of its own, so that it may be in the trap when the host
            stops it.
        traps: How often the host has stopped all warps.
        entries: Entries seen by the host.
    """

    launch: Launch
    counters: int
    traps_itself: bool = False
    traps: int = 0
    entries: int = 0

    def counts(self, host: HardwareHost) -> list[int]:
        """The counted entries of each slot."""
        return [
            host.memory.read_number(self.counters + _WORD_BYTES * slot, _WORD_BYTES)
            for slot in range(_MOST_SLOTS)
        ]


def counted(
    launch: Launch, ending: Sequence[str] = RETURN, *, traps_itself: bool = False
) -> Counted:
    """The launch with a handler that counts its entry and then executes ``ending``.

    The handler uses registers that the program does not have, and preserves predicates and CC.
    """
    counters = launch.memory.allocate("trap counters", _WORD_BYTES * _MOST_SLOTS)
    low = launch.registers + launch.registers % 2
    high, number = low + 1, low + 2
    lines = (
        f"S2R R{low}, SR_VIRTID",
        f"LOP32I.AND R{low}, R{low}, {_MOST_SLOTS - 1 << VIRTUAL_WARP_AT:#x}",
        f"SHR.U32 R{low}, R{low}, {VIRTUAL_WARP_AT - _PER_WORD:#x}",
        f"IADD32I R{low}, R{low}, {counters & 0x7FFF_FFFF:#x}",
        f"MOV32I R{high}, {counters >> 32:#x}",
        f"LDG.E R{number}, [R{low}]",
        f"IADD32I R{number}, R{number}, 0x1",
        f"STG.E [R{low}], R{number}",
        "BPT.DRAIN",
        *ending,
    )
    assert counters & 0xFFFF_FFFF < 0x8000_0000
    return Counted(with_handler(launch, *lines, registers=low + _REGISTERS), counters, traps_itself)


# The host


async def _stop(bench: Bench, what: str, host: HardwareHost, run: Counted) -> None:
    """Stops all warps, checks that each live one and no other has entered once, and resumes
    them.
    """
    before = run.counts(host)
    await host.modify("DBGR_CONTROL0", STOP_TRIGGER=1)
    if not await host.until(lambda host: host.locked_down, _PATIENCE):
        if not host.failed:
            bench.fail(f"{what}: not locked down after {_PATIENCE} cycles")
        return
    live = await host.read("WARP_VALID_MASK") | await host.read("WARP_VALID_MASK_1") << 32
    entered = [after - count for after, count in zip(run.counts(host), before, strict=True)]
    if not run.traps_itself:
        bench.expect(
            f"{what}: entries by slot", entered, [live >> slot & 1 for slot in range(_MOST_SLOTS)]
        )
    run.traps += 1
    run.entries += sum(entered)
    await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)


async def _see_no_error(bench: Bench, what: str, host: HardwareHost) -> None:
    """Fails if an error is reported: the warp would return to the failed instruction again and
    again, without end.
    """
    if not host.failed and (error := await host.field("HWW_WARP_ESR", "ERROR")):
        bench.fail(f"{what}: {WarpError(error).name} at {await host.read('HWW_WARP_ESR_PC'):#06x}")


async def _run(host: HardwareHost, cycles: int) -> None:
    """Waits for ``cycles`` cycles, or until the grid ends."""
    end = host.cycles + cycles
    while host.cycles < end and not host.ended and not host.failed:
        await host.run(end - host.cycles)


async def _issue(host: HardwareHost, count: int) -> None:
    """Waits until ``count`` more instructions have issued, or until the grid ends. At most one
    issues in a cycle.
    """
    end = await host.read("instructions") + count
    while (
        (left := end - await host.read("instructions")) > 0 and not host.ended and not host.failed
    ):
        await _run(host, left)


def inject(
    bench: Bench,
    driver: TrapDriver,
    what: str,
    run: Counted,
    gaps: Iterator[int],
    *,
    steps: int = 0,
    instructions: bool = False,
    check: bool = False,
) -> Launch:
    """Runs a launch and stops it after each of the ``gaps``, in cycles or issued ``instructions``;
    then lets it end.

    With ``steps`` every second stop is followed by that many cycles of single steps. Returns the
    results.
    """
    wait = _issue if instructions else _run

    async def host_of(host: HardwareHost) -> None:
        for number, gap in enumerate(gaps):
            await wait(host, gap)
            if host.ended or host.failed:
                break
            await _stop(bench, what, host, run)
            if not run.traps_itself:
                await _see_no_error(bench, what, host)
            if steps and number % 2:
                await _step(host, steps)
        if not await host.until(lambda host: host.ended, _LIMIT) and not host.failed:
            bench.fail(f"{what}: no end of the grid")

    _, finished = driver.run(bench, what, run.launch, host_of, check=check)
    bench.checked("traps injected", run.traps)
    bench.checked("warps that entered for them, once each", run.entries)
    return finished


async def _step(host: HardwareHost, cycles: int) -> None:
    """Executes single steps for ``cycles`` cycles: the handler does not pause, so each step leads
    to the next one.

    Before and after them all warps are stopped once, so that no warp has a step left.
    """
    for mode in (1, 0):
        await host.modify("DBGR_CONTROL0", SINGLE_STEP_MODE=mode, STOP_TRIGGER=1)
        await host.until(lambda host: host.locked_down, _PATIENCE)
        await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)
        await _run(host, cycles * mode)


def stops_often(source: Random, most: int) -> Iterator[int]:
    """Endless random stops, at most ``most`` cycles or instructions apart."""
    while True:
        yield source.randrange(1, most)


# Short programs whose results do not depend on timing.

_HEAD = (
    "S2R R0, SR_TID.X",
    "MOV R3, c[0x0][out+4]",
    "MOV R2, c[0x0][out]",
    "ISCADD R2, R0, R2, 0x2",
)
_TAIL = ("STG.E [R2], R4", "EXIT")
PROGRAMS: dict[str, Sequence[str]] = {
    "nested divergence": (
        "LOP32I.AND R5, R0, 0x3",
        "MOV R4, RZ",
        "SSY outer",
        "ISETP.LT.U32.AND P0, PT, R5, 0x2, PT",
        "@P0 BRA low",
        "SSY high_met",
        "ISETP.EQ.U32.AND P1, PT, R5, 0x2, PT",
        "@P1 BRA two",
        "IADD32I R4, R4, 0x300",
        "SYNC",
        "two:",
        "IADD32I R4, R4, 0x200",
        "SYNC",
        "high_met:",
        "PBK left",
        "loop:",
        "IADD32I R5, R5, -0x1",
        "ISETP.EQ.U32.AND P2, PT, R5, RZ, PT",
        "@P2 BRK",
        "IADD32I R4, R4, 0x1",
        "BRA loop",
        "left:",
        "SYNC",
        "low:",
        "SSY low_met",
        "ISETP.EQ.U32.AND P1, PT, R5, RZ, PT",
        "@P1 SYNC",
        "IADD32I R4, R4, 0x100",
        "SYNC",
        "low_met:",
        "IADD32I R4, R4, 0x10",
        "SYNC",
        "outer:",
        "IADD R4, R4, R0",
    ),
    "recursion": (
        "LOP32I.AND R5, R0, 0x7",
        "MOV R4, RZ",
        "CAL sum",
        "BRA done",
        "sum:",
        "SSY met",
        "ISETP.EQ.U32.AND P0, PT, R5, RZ, PT",
        "@P0 SYNC",
        "IADD R4, R4, R5",
        "IADD32I R5, R5, -0x1",
        "CAL sum",
        "SYNC",
        "met:",
        "RET",
        "done:",
        "IADD R4, R4, R0",
    ),
    "barriers": (
        "SHL R6, R0, 0x2",
        "LOP32I.XOR R7, R6, 0x80",
        "STS [R6], R0",
        "BAR.SYNC 0x0",
        "LDS.U.32 R4, [R7]",
        "BAR.SYNC 0x0",
        "STS [R7], R4",
        "BAR.SYNC 0x1",
        "LDS.U.32 R5, [R6]",
        "BAR.SYNC 0x0",
        "IADD R4, R4, R5",
    ),
    "atomics": (
        "MOV R4, RZ",
        "MOV32I R5, 0x1",
        "MOV R8, c[0x0][out]",
        "IADD32I R8, R8, 0x200",
        "MOV R9, R3",
        "RED.E.ADD [R8], R5",
        "ATOM.E.ADD R6, [R8+0x4], R5",
        "RED.E.ADD [R8], R0",
        "MOV R7, RZ",
        "ATOMS.ADD R6, [R7], R5",
        "MOV R4, R0",
    ),
}
"""The bodies of the programs. Before them R0 is the thread number and R2, R3 the address of the
thread's word; R4 is the result.
"""


_STATES = (
    "SHR.U32 R5, R0, 0x5",
    "LOP32I.AND R7, R0, 0x10",
    "ISETP.EQ.U32.AND P1, PT, R7, RZ, PT",
    "MOV R4, R0",
    "ISETP.EQ.U32.AND P0, PT, R5, RZ, PT",
    "@P0 BRA waits",
    *(
        line
        for warp, label in enumerate(("parts", "traps", "revives"), 1)
        for line in (f"ISETP.EQ.U32.AND P0, PT, R5, {warp:#x}, PT", f"@P0 BRA {label}")
    ),
    "EXIT",
    "waits:",
    "BAR.SYNC 0x0, 0x40",
    "BRA ends",
    "parts:",
    "SSY met",
    "@P1 BRA low",
    "IADD32I R4, R4, 0x100",
    "SYNC",
    "low:",
    "IADD32I R4, R4, 0x200",
    "SYNC",
    "met:",
    "BAR.SYNC 0x0, 0x40",
    "BRA ends",
    "traps:",
    "BPT.TRAP 0x1",
    "IADD32I R4, R4, 0x300",
    "BPT.TRAP 0x2",
    "BRA ends",
    "revives:",
    "PEXIT ends",
    "@P1 EXIT",
    "IADD32I R4, R4, 0x400",
    "EXIT",
    "ends:",
)
_STATE_WARPS = 5


def in_every_state() -> Launch:
    """A launch of one CTA with warps in different states: waiting at a barrier, diverged before the
    barrier, trapping, with threads revived by their exit token, and ended.
    """
    return _launch(_STATES, _STATE_WARPS, 1)


def programs(warps: int, grid: int = 1) -> dict[str, Callable[[], Launch]]:
    """The programs as launches of CTAs of ``warps`` warps. All CTAs of a launch have the same
    results.
    """
    return {name: partial(_launch, lines, warps, grid) for name, lines in PROGRAMS.items()}


def _launch(lines: Sequence[str], warps: int, grid: int) -> Launch:
    text = kernel_text((*_HEAD, *lines, *_TAIL), registers=12, shared=512)
    return launch_text(text, words=_WORDS, block=32 * warps, grid=grid, crs=_STACK)
