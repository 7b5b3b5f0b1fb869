"""Everything that runs the hardware: engines, models, toolchain, waveforms, the commands; from Python, ``Machine``."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.api import Machine

__all__ = ["Machine"]


def __getattr__(name: str) -> Any:
    """The machine of :mod:`sim.api`, which commands do without."""
    if name == "Machine":
        from sim.api import Machine

        return Machine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
