"""The user interface while the machine runs: a progress bar, and Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tqdm import tqdm

__all__ = ["Watch"]

_BAR_AFTER = 1.0
"""Seconds that the machine runs before there is a progress bar."""


class Watch:
    """Ctrl-C stops the machine while it runs; a second one before it has stopped ends the program."""

    def __init__(self) -> None:
        self._stop_requested = False
        self._bar: tqdm | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Ctrl-C comes here."""
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
        """Called when so many cycles have passed; returns whether the user wants the machine to
        stop."""
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
        """The machine does not run any more."""
        if self._bar is not None:
            self._bar.close()
        self._bar, self._stop_requested = None, False
