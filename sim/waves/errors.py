"""Errors as text in waveforms."""

from typing import Any

from rtl.isa.errors import WarpError
from sim.waves.traces import Text

__all__ = ["error_text"]


def error_text(valid: Any, error: Any) -> Text:
    """Returns a trace with the name of the warp error in a signal; empty while it is not valid."""

    def decode(given: int, code: int) -> str:
        return WarpError(code).name if given else ""

    return Text(decode, (valid, error))
