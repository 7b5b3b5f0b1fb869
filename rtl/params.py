"""Sizes of the machine: what is fixed by the architecture, and the knobs of :class:`SmParams`."""

from dataclasses import dataclass

from amaranth.utils import ceil_log2

from rtl.isa.tokens import LINE_BYTES

__all__ = ["ADDRESS_BITS", "LINE_ADDRESS_BITS", "PRESETS", "WARP_THREADS", "SmParams"]

WARP_THREADS = 32
"""Threads of a warp."""
ADDRESS_BITS = 40
"""Width of a byte address in memory."""
LINE_ADDRESS_BITS = ADDRESS_BITS - ceil_log2(LINE_BYTES)
"""Width of the address of a line, the unit of the memory port."""


@dataclass(frozen=True)
class SmParams:
    """A streaming multiprocessor's knobs.

    Parameters
    ----------
    warps : int
        Warp slots: a power of two from 1 to 64.
    lanes : int
        Threads of a warp that compute in one cycle: a power of two from 4 to 32.
    """

    warps: int = 8
    lanes: int = 8

    def __post_init__(self) -> None:
        if self.warps not in (1, 2, 4, 8, 16, 32, 64):
            raise ValueError(f"warps must be a power of two from 1 to 64, not {self.warps!r}")
        if self.lanes not in (4, 8, 16, 32):
            raise ValueError(f"lanes must be a power of two from 4 to 32, not {self.lanes!r}")

    @property
    def warp_bits(self) -> int:
        """Width of a warp number."""
        return ceil_log2(self.warps)


PRESETS: dict[str, SmParams] = {
    "tiny": SmParams(warps=2, lanes=4),
    "small": SmParams(warps=4, lanes=8),
    "default": SmParams(warps=8, lanes=8),
    "full": SmParams(warps=64, lanes=32),
}
"""Named machines: for proofs, small boards, the reference board and tests, and the real one's size."""
