"""Programs that trap, and trap handlers, as assembly text."""

from sim.launch import Launch, with_trap_handler
from sim.toolchain.assembler import assemble
from sim.toolchain.cubin import load
from testbench.sm.errors import launch_text

RETURN = ("RTT",)
"""The handler that does nothing."""
CLOBBER = (
    "SSY away", "PEXIT away", "PRET away", "PBK out", "@P0 BRK", "CAL deeper", "BRK", "out:", "SAM", "CAL deeper",
    "PCNT away", "@!P1 CONT", "away:", "NOP", "RTT", "deeper:", "SSY met", "@P2 BRA other", "NOP", "SYNC", "other:",
    "PRET back", "@P3 RET", "RET", "back:", "SYNC", "met:", "RET")
"""A handler that writes no register, but whose threads part, meet, and leave tokens of every kind behind: some are
still parted when it returns."""


def kernel(*lines: str, warps: int = 1, crs: int = 512, grid: int = 1) -> Launch:
    """A launch of warps that execute these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return launch_text(f".kernel k\n.param out 8\n.registers 32\n.shared 256\n{body}", words=64, block=32 * warps,
                       grid=grid, crs=crs)


def with_handler(launch: Launch, *lines: str) -> Launch:
    """The launch with these lines for its trap handler."""
    body = "".join(f"    {line}\n" for line in lines)
    return with_trap_handler(launch, load(assemble(f".kernel handler\n.registers 32\n{body}", "handler.sass")))
