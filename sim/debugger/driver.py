"""Register sequences of drivers and debuggers, as in NVIDIA's and the Linux kernel's open drivers.

A sequence uses registers only. Slots are masks: bit n is warp slot n.
"""

from collections.abc import Awaitable, Callable

from rtl.isa.registers import GlobalError
from sim.machine.host import HardwareHost

__all__ = [
    "EXPECTED",
    "PATIENCE",
    "POLL",
    "all_paused",
    "attach",
    "clear_errors",
    "clear_errors_nouveau",
    "detach",
    "fully_stopped",
    "grid_over",
    "in_trap",
    "invalidate_caches",
    "is_attached",
    "live_warps",
    "locked_down",
    "not_in_trap",
    "nothing_pending",
    "paused_warps",
    "resume",
    "resume_paused",
    "single_step",
    "stop_all",
    "suspend",
    "wait",
    "wait_for_lock_down",
    "wake",
]

PATIENCE = 100_000
"""Cycles after which a driver stops waiting for lock-down (ours)."""
EXPECTED = sum(
    1 << error.value
    for error in (GlobalError.BPT_INT, GlobalError.BPT_PAUSE, GlobalError.SINGLE_STEP_COMPLETE)
)
"""Bits of the global error status that are no reason to lock the machine down."""
POLL = 256
"""Cycles between two reads of the status, if no interrupt ends the wait."""
_REACTION = 4
"""Cycles after which the status shows that warps have been woken (ours)."""
_WORD_BITS = 32
_WORD = (1 << _WORD_BITS) - 1


async def attach(host: HardwareHost) -> None:
    """Attaches a debugger: it handles traps, and no other part of the chip stops for them."""
    await host.modify("DBGR_CONTROL0", DEBUGGER_MODE=1, STOP_ON_ANY_WARP=0, STOP_ON_ANY_SM=0)


async def detach(host: HardwareHost) -> None:
    """Detaches the debugger; no warp is stopped or stepped any more."""
    await host.modify(
        "DBGR_CONTROL0", DEBUGGER_MODE=0, STOP_ON_ANY_WARP=1, SINGLE_STEP_MODE=0, STOP_TRIGGER=0
    )


async def is_attached(host: HardwareHost) -> bool:
    """Whether a debugger is attached."""
    return bool(await host.field("DBGR_CONTROL0", "DEBUGGER_MODE"))


async def locked_down(host: HardwareHost) -> bool:
    """Whether the machine is trapped and no warp of it runs."""
    return bool(await host.field("DBGR_STATUS0", "LOCKED_DOWN"))


async def grid_over(host: HardwareHost) -> bool:
    """Whether the grid has ended, or was rejected."""
    return bool(await host.field("STATUS", "DONE"))


async def _both_words(host: HardwareHost, register: str) -> int:
    return await host.read(register) | await host.read(f"{register}_1") << _WORD_BITS


async def live_warps(host: HardwareHost) -> int:
    """Returns the slots whose warp has not ended."""
    return await _both_words(host, "WARP_VALID_MASK")


async def paused_warps(host: HardwareHost) -> int:
    """Returns the slots whose warp is paused."""
    return await _both_words(host, "BPT_PAUSE_MASK")


async def in_trap(host: HardwareHost) -> bool:
    """Whether warps enter the trap handler or are in it."""
    return bool(await host.field("DBGR_STATUS0", "SM_IN_TRAP_MODE"))


async def not_in_trap(host: HardwareHost) -> bool:
    """Whether warps execute the program."""
    return not await in_trap(host)


async def fully_stopped(host: HardwareHost) -> bool:
    """Whether the machine is trapped with all its warps paused."""
    return await in_trap(host) and await live_warps(host) == await paused_warps(host)


async def nothing_pending(host: HardwareHost) -> bool:
    """Whether no error waits for the driver, apart from events that debuggers request."""
    error = await host.field("HWW_WARP_ESR", "ERROR")
    return not error and not await host.read("HWW_GLOBAL_ESR") & ~EXPECTED


async def all_paused(host: HardwareHost) -> bool:
    """Whether there are warps, and all of them are paused. This is possible without a trap, too."""
    live = await live_warps(host)
    return bool(live) and live == await paused_warps(host)


async def wait(
    host: HardwareHost, until: Callable[[HardwareHost], Awaitable[bool]], cycles: int = PATIENCE
) -> bool:
    """Runs the machine until a polled status holds, for at most ``cycles``; returns whether it
    holds.
    """
    end = host.cycles + cycles
    while not await until(host):
        if host.cycles >= end or host.failed:
            return False
        await host.run(min(POLL, end - host.cycles))
    return True


async def wait_for_lock_down(
    host: HardwareHost, cycles: int = PATIENCE, *, check_errors: bool = False
) -> bool:
    """Waits until the machine is locked down, for at most ``cycles``.

    With ``check_errors`` the wait also succeeds if no error is pending. Returns whether it
    succeeded.
    """

    async def reached(host: HardwareHost) -> bool:
        return await locked_down(host) or (check_errors and await nothing_pending(host))

    return await wait(host, reached, cycles)


async def suspend(host: HardwareHost, cycles: int = PATIENCE) -> bool:
    """Stops all warps; returns whether the machine locked down within ``cycles``."""
    await host.modify("DBGR_CONTROL0", STOP_TRIGGER=1)
    return await wait_for_lock_down(host, cycles)


async def stop_all(host: HardwareHost, cycles: int = PATIENCE) -> bool:
    """Stops all warps in the trap handler's pause; returns whether they are there within
    ``cycles``.

    A stop while warps are leaving the handler holds them at their exit. These are released, and
    stopped again at once (ours: drivers leave that to the handler).
    """
    end = host.cycles + cycles
    while await suspend(host, end - host.cycles):
        if await fully_stopped(host):
            return True
        await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)
    return False


async def resume(host: HardwareHost) -> None:
    """Resumes all warps, in two writes: the stop trigger must be cleared before the warps are
    woken.
    """
    await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)
    await host.modify("DBGR_CONTROL0", RUN_TRIGGER=1)
    await host.run(_REACTION)


async def resume_paused(host: HardwareHost) -> None:
    """Resumes warps that are paused by BPT.PAUSE, then all."""
    await wake(host, (1 << 2 * _WORD_BITS) - 1)
    await resume(host)


async def wake(host: HardwareHost, slots: int) -> None:
    """Wakes only the paused warps in these slots."""
    await host.write("BPT_PAUSE_MASK", ~slots & _WORD)
    await host.write("BPT_PAUSE_MASK_1", ~slots >> _WORD_BITS & _WORD)
    await host.run(_REACTION)


async def single_step(host: HardwareHost, slots: int) -> None:
    """Has the paused warps in these slots execute one instruction each, while the others stay
    stopped. The machine then locks down again.
    """
    await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0, SINGLE_STEP_MODE=1)
    await wake(host, slots)


async def clear_errors(host: HardwareHost) -> None:
    """Clears the error status: the global bits that were read, then the warp's (the order of
    NVIDIA's driver).
    """
    await host.write("HWW_GLOBAL_ESR", await host.read("HWW_GLOBAL_ESR"))
    await host.write("HWW_WARP_ESR", 0)


async def clear_errors_nouveau(host: HardwareHost) -> None:
    """Clears the error status: the warp's, then the global bits that were read before (the Linux kernel's order)."""
    happened = await host.read("HWW_GLOBAL_ESR")
    await host.write("HWW_WARP_ESR", 0)
    await host.write("HWW_GLOBAL_ESR", happened)


async def invalidate_caches(host: HardwareHost) -> None:
    """Invalidates the instruction and constant caches, after code in memory has changed."""
    await host.modify("CACHE_CONTROL", INVALIDATE=1)
