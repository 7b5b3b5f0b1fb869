"""The user interface while the machine runs: a progress bar, and Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tqdm import tqdm

__all__ = ["Watch"]

_BAR_AFTER = 1.0
"""Seconds after which a running machine gets a progress bar."""


class Watch:
    """Handles Ctrl-C while the machine runs: it stops the machine; a second one before that ends
    the program.
    """

    def __init__(self) -> None:
        self._stop_requested = False
        self._bar: tqdm | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """A context in which this object handles Ctrl-C."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self._stop_requested:
            raise KeyboardInterrupt
        self._stop_requested = True

    def look(self, cycles: int) -> bool:
        """Updates the progress after ``cycles`` have passed; returns whether the user requests a
        stop.
        """
        if self._bar is None:
            self._bar = tqdm(
                unit=" cycles",
                unit_scale=True,
                disable=None,
                leave=False,
                delay=_BAR_AFTER,
                initial=cycles,
            )
        self._bar.update(cycles - self._bar.n)
        was_requested, self._stop_requested = self._stop_requested, False
        return was_requested

    def stopped(self) -> None:
        """Records that the machine does not run any more, and removes the progress bar."""
        if self._bar is not None:
            self._bar.close()
        self._bar, self._stop_requested = None, False
