"""Everything that runs the hardware: engines, models, toolchain, waveforms, the commands.

From Python: ``from sim import Machine``, and ``SmParams`` for a machine that is no preset.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtl.params import SmParams
    from sim.api import Machine

__all__ = ["Machine", "SmParams"]

# The value of argv[0] while ``python -m`` imports the package of a module
if sys.argv[:1] == ["-m"]:
    if sys.version_info < (3, 11):  # noqa: UP036
        sys.exit(
            f"this project needs Python 3.11 or newer, this is {sys.version_info[0]}.{sys.version_info[1]}"
        )

    from sim.support.entry import begin

    begin()


def __getattr__(name: str) -> Any:
    """Imports the names of :mod:`sim.api` on demand, since commands do not need them."""
    if name == "Machine":
        from sim.api import Machine

        return Machine
    if name == "SmParams":
        from rtl.params import SmParams

        return SmParams
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
