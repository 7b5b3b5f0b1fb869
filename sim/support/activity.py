"""Shows the current preparation step at a terminal, before anything is simulated."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["activity", "shown"]

shown = True
"""Whether this process shows activities; workers of a command do not."""

_DELAY = 1.0
"""Activities shorter than this, in seconds, are not shown."""


@contextmanager
def activity(description: str) -> Iterator[None]:
    """Shows the activity and its duration in seconds, on standard error if that is a terminal; the
    final duration stays on the screen.
    """
    if not (shown and sys.stderr.isatty()):
        yield
        return
    over = threading.Event()
    start = time.monotonic()

    def tell() -> None:
        is_told = False
        while not over.wait(_DELAY):
            is_told = True
            sys.stderr.write(f"\r{description}: {time.monotonic() - start:.0f} s")
            sys.stderr.flush()
        if is_told:
            sys.stderr.write(f"\r{description}: {time.monotonic() - start:.1f} s\n")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
