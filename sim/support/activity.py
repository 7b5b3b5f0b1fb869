"""Shows the current preparation step before anything is simulated: at a terminal with the seconds,
else in one line.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ANNOUNCED_AFTER", "activity", "announced", "shown"]

shown = True
"""Whether this process shows activities; workers of a command do not."""

_DELAY = 1.0
"""Activities shorter than this, in seconds, are not shown."""
ANNOUNCED_AFTER = 5.0
"""Seconds after which a line announces an activity where there is no terminal."""


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


@contextmanager
def announced(line: str) -> Iterator[None]:
    """Prints a line on standard error when this takes long, if that is no terminal. At a terminal
    :func:`activity` shows each step."""
    if not shown or sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(ANNOUNCED_AFTER, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
