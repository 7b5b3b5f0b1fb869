"""Programs that trap, and trap handlers, as assembly text."""

from sim.launch import Launch, with_trap_handler
from sim.toolchain.assembler import assemble
from sim.toolchain.cubin import load
from testbench.sm_errors import launch_text

__all__ = ["CLOBBER", "CLOBBERED", "RETURN", "kernel", "with_handler"]

RETURN = ("RTT",)
"""The handler that does nothing."""
CLOBBERED = range(28, 32)
"""Registers that the handler CLOBBER uses."""
CLOBBER = (
    "SSY away", "PBK away", "PCNT away", "PEXIT away", "PRET away", "SAM", "S2R R28, SR_LANEID", "CAL deeper",
    "LOP32I.AND R28, R28, 0x1", "MOV R29, RZ", "IADD32I R30, R28, 0x1", "CAL deeper", "away:", "RTT", "deeper:",
    "SSY back", "PRET back", "CAL deepest", "back:", "NOP", "RET", "deepest:", "PBK back", "RET")
"""A handler that leaves with tokens of every kind on the stack, after calls."""


def kernel(*lines: str, warps: int = 1, crs: int = 512, grid: int = 1) -> Launch:
    """A launch of warps that execute these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return launch_text(f".kernel k\n.param out 8\n.registers 32\n.shared 256\n{body}", words=64, block=32 * warps,
                       grid=grid, crs=crs)


def with_handler(launch: Launch, *lines: str) -> Launch:
    """The launch with these lines for its trap handler."""
    body = "".join(f"    {line}\n" for line in lines)
    return with_trap_handler(launch, load(assemble(f".kernel handler\n.registers 32\n{body}", "handler.sass")))
