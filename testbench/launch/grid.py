"""A launch in the work distributor's testbench."""

from dataclasses import dataclass, field
from typing import Any

from rtl.isa.qmd import descriptor
from rtl.layouts import LaunchRejection
from rtl.params import WARP_THREADS


@dataclass(frozen=True)
class Grid:
    """A launch.

    Attributes:
        fields: Additional fields of the descriptor.
        rejection: The expected outcome.
    """

    size: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    registers: int = 8
    shared: int = 0
    local: int = 16
    crs: int = 512
    fields: dict[str, Any] = field(default_factory=dict)
    rejection: LaunchRejection = LaunchRejection.NONE
    address: int | None = None
    """The address of the descriptor; None for any."""

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP_THREADS)

    def descriptor(self) -> bytes:
        names = (
            "CTA_RASTER_WIDTH",
            "CTA_RASTER_HEIGHT",
            "CTA_RASTER_DEPTH",
            "CTA_THREAD_DIMENSION0",
            "CTA_THREAD_DIMENSION1",
            "CTA_THREAD_DIMENSION2",
        )
        return descriptor(
            {
                **dict(zip(names, (*self.size, *self.block), strict=True)),
                "REGISTER_COUNT": self.registers,
                "SHARED_MEMORY_SIZE": self.shared,
                "SHADER_LOCAL_MEMORY_LOW_SIZE": self.local,
                "SHADER_LOCAL_MEMORY_CRS_SIZE": self.crs,
                **self.fields,
            }
        )
