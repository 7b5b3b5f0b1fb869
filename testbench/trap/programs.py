"""Programs that trap, and trap handlers, as assembly text."""

from collections.abc import Sequence

from sim.launch import Launch, with_trap_handler
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from testbench.sm.errors import launch_text

RETURN = ("RTT",)
"""A handler that only returns."""
CLOBBER = (
    "SSY away",
    "PEXIT away",
    "PRET away",
    "PBK out",
    "@P0 BRK",
    "CAL deeper",
    "BRK",
    "out:",
    "SAM",
    "CAL deeper",
    "PCNT away",
    "@!P1 CONT",
    "away:",
    "NOP",
    "RTT",
    "deeper:",
    "SSY met",
    "@P2 BRA other",
    "NOP",
    "SYNC",
    "other:",
    "PRET back",
    "@P3 RET",
    "RET",
    "back:",
    "SYNC",
    "met:",
    "RET",
)
"""A handler that writes no register, but whose threads diverge, reconverge and leave tokens of
every kind on the stack. Some threads are still diverged when it returns.
"""


def kernel(
    *lines: str, warps: int = 1, crs: int = 512, grid: int = 1, registers: int = 32
) -> Launch:
    """A launch of ``warps`` warps that execute these lines."""
    text = kernel_text(lines, registers=registers, shared=256)
    return launch_text(text, words=64, block=32 * warps, grid=grid, crs=crs)


def kernel_text(lines: Sequence[str], *, registers: int, shared: int) -> str:
    """The text of a kernel with a buffer ``out``."""
    return "\n".join(
        [".kernel k", ".param out 8", f".registers {registers}", f".shared {shared}", *lines, ""]
    )


def with_handler(launch: Launch, *lines: str, registers: int = 32) -> Launch:
    """The launch with these lines as its trap handler."""
    text = "\n".join([".kernel handler", f".registers {registers}", *lines, ""])
    return with_trap_handler(launch, load(assemble(text, "handler.sass")))
