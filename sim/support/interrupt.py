"""Ctrl-C, and the signals that end a program: how a command handles them.

In a command, under :func:`handled`, such a signal is raised in the main thread as
:class:`Interrupted`; active code cleans up and lets it pass. A simulation must not be interrupted
in the middle of a step, because its state is still to be shown: within :func:`deferred` a signal is
only recorded, and :func:`raise_noted` raises it at the next clock edge.

Only the main thread receives signals. Work in another thread, such as a launch in a server,
continues until :func:`stop_threads` requests its end, which :func:`raise_noted` raises there.

If it is used as a library this package leaves signals alone: Python raises KeyboardInterrupt.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = [
    "Interrupted",
    "at_once",
    "deferred",
    "handled",
    "interrupted",
    "raise_noted",
    "stop_threads",
    "telling",
]

_WORDS = {
    "SIGINT": "interrupted",
    "SIGTERM": "terminated",
    "SIGHUP": "terminated: its terminal is gone",
}
"""Description of an ended command by signal, where the system has it."""
_BY_NUMBER = {
    int(getattr(signal, name)): word for name, word in _WORDS.items() if hasattr(signal, name)
}
_SAME = 2.0
"""Signals less than this many seconds apart are one request: a second one must not interrupt the
cleanup.
"""
_EXIT_CODE = 128
"""A shell's exit code for a program that a signal has ended is this plus the signal's number."""


class Interrupted(KeyboardInterrupt):
    """A request to end the program.

    Attributes:
        number: Number of the signal.
        after: Progress of the command, "" if it is not known.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(int(number))
        self.number = int(number)
        self.after = ""

    @property
    def line(self) -> str:
        """Returns the message about the end of the command."""
        return f"{_BY_NUMBER[self.number]}{self.after and f' {self.after}'}"

    @property
    def code(self) -> int:
        """The exit code: 130 after Ctrl-C."""
        return _EXIT_CODE + self.number


class _DeferredInterrupts:
    """The state of signals in this process.

    Attributes:
        depth: Number of open :func:`deferred` contexts.
        noted: The recorded signal.
        last: Time of the last signal.
        threads: The signal to raise in other threads than the main one.
    """

    def __init__(self) -> None:
        self.depth, self.noted, self.threads = 0, 0, 0
        self.last = -_SAME


_state = _DeferredInterrupts()


def interrupted(request: KeyboardInterrupt) -> Interrupted:
    """Returns the request; Python's KeyboardInterrupt is converted to one of Ctrl-C."""
    return request if isinstance(request, Interrupted) else Interrupted()


def _receive(number: int, _frame: object) -> None:
    """Handles a signal."""
    now = time.monotonic()
    is_new = now - _state.last >= _SAME
    _state.last = now
    if not is_new:
        return
    if _state.depth and not _state.noted:
        _state.noted = number
        return
    _state.noted = 0
    raise Interrupted(number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def stop_threads(number: int) -> None:
    """Makes the next :func:`raise_noted` in another thread than the main one raise this signal; 0
    cancels that.
    """
    _state.threads = number


def raise_noted() -> None:
    """Raises the recorded signal, if there is one."""
    if not _in_main_thread():
        if number := _state.threads:
            _state.threads = 0
            raise Interrupted(number)
        return
    if number := _state.noted:
        _state.noted = 0
        raise Interrupted(number)


@contextmanager
def deferred() -> Iterator[None]:
    """A context in which a signal is recorded for :func:`raise_noted`.

    Another signal, long after the first, is raised immediately. In other threads than the main one,
    which receives signals, the context has no effect.
    """
    if not _in_main_thread():
        yield
        return
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
    if not _state.depth:
        raise_noted()


@contextmanager
def at_once() -> Iterator[None]:
    """A context inside of :func:`deferred` in which signals are raised immediately, for example
    during input from a terminal.
    """
    raise_noted()
    depth, _state.depth = _state.depth, 0
    try:
        yield
    finally:
        _state.depth = depth


@contextmanager
def handled() -> Iterator[None]:
    """A context in which signals are raised as Interrupted. Ignored signals stay ignored, as
    ``nohup`` requires.

    After an Interrupted all are ignored: the program ends.
    """
    if not _in_main_thread():
        yield
        return
    before = {}
    for number in _BY_NUMBER:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, _receive)
    _state.last, _state.noted, _state.threads = -_SAME, 0, 0
    try:
        yield
    except KeyboardInterrupt:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise
    except BaseException:
        _restore(before)
        raise
    _restore(before)


def _restore(before: dict[int, object]) -> None:
    for number, handler in before.items():
        with suppress(TypeError):  # The old handler is not Python's
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]


@contextmanager
def telling(how_far: Callable[[], str]) -> Iterator[None]:
    """A context that adds the command's progress to an Interrupted that passes, if it has none yet."""
    try:
        yield
    except Interrupted as request:
        request.after = request.after or how_far()
        raise
