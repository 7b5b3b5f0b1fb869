"""Everything that runs the hardware: engines, models, toolchain, waveforms, the commands.

From Python: ``from sim import Machine``, and ``SmParams`` for a machine that is no preset.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtl.params import SmParams
    from sim.api import Machine

__all__ = ["Machine", "SmParams"]

if sys.argv[:1] == ["-m"]:  # that is what it is while ``python -m`` imports the package of a module
    if sys.version_info < (3, 11):  # noqa: UP036
        sys.exit(
            f"this project needs Python 3.11 or newer, this is {sys.version_info[0]}.{sys.version_info[1]}"
        )

    from sim.support.entry import begin

    begin()


def __getattr__(name: str) -> Any:
    """The machine of :mod:`sim.api` and its parameters, which commands do without."""
    if name == "Machine":
        from sim.api import Machine

        return Machine
    if name == "SmParams":
        from rtl.params import SmParams

        return SmParams
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
