"""Ctrl-C, and the signals that end a program: how a command handles them.

In a command, under :func:`handled`, such a signal is raised where the program is, as
:class:`Interrupted`; active code cleans up and lets it pass. A simulation must not be left in the
middle of a step, because its state is still to be shown: within :func:`deferred` a signal is noted,
and :func:`raise_noted` raises it at the next clock edge.

Signals come to the main thread alone. Work in another thread, such as a launch in a server,
continues until :func:`stop_threads` requests its end, which :func:`raise_noted` raises there.

As a library this package leaves signals alone: KeyboardInterrupt is raised as Python does it.
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
"""Signal -> what has become of a command, where a system has such a signal."""
_BY_NUMBER = {
    int(getattr(signal, name)): word for name, word in _WORDS.items() if hasattr(signal, name)
}
_SAME = 2.0
"""Signals that are not so many seconds apart are one request: a second one must not break the cleaning up."""
_EXIT_CODE = 128
"""A shell's exit code of a program that a signal has ended is this and the signal's number."""


class Interrupted(KeyboardInterrupt):
    """A request to end the program.

    Attributes:
        number: Of the signal.
        after: How far the command came, "" where that is not known.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(int(number))
        self.number = int(number)
        self.after = ""

    @property
    def line(self) -> str:
        """What has become of the command."""
        return f"{_BY_NUMBER[self.number]}{self.after and f' {self.after}'}"

    @property
    def code(self) -> int:
        """The exit code: 130 after Ctrl-C."""
        return _EXIT_CODE + self.number


class _DeferredInterrupts:
    """Of this process: how many :func:`deferred` are open, the signal that was noted, when the last one came;
    ``threads`` is the signal that is raised in another thread than the main one."""

    def __init__(self) -> None:
        self.depth, self.noted, self.threads = 0, 0, 0
        self.last = -_SAME


_state = _DeferredInterrupts()


def interrupted(request: KeyboardInterrupt) -> Interrupted:
    """The request; for Python's KeyboardInterrupt it is Ctrl-C's."""
    return request if isinstance(request, Interrupted) else Interrupted()


def _receive(number: int, _frame: object) -> None:
    """The handler of the signals."""
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
    """The next :func:`raise_noted` in another thread than the main one raises this signal; 0: it raises none."""
    _state.threads = number


def raise_noted() -> None:
    """Raises the signal that was noted, if there is one."""
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
    """Within, a signal is noted for :func:`raise_noted`. Another one, long after it, is raised all the same. Nothing is
    changed in another thread than the main one, to which signals come."""
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
    """Within a :func:`deferred`: a signal is raised where the program is, as while it waits for what a person types."""
    raise_noted()
    depth, _state.depth = _state.depth, 0
    try:
        yield
    finally:
        _state.depth = depth


@contextmanager
def handled() -> Iterator[None]:
    """Within, signals are raised as Interrupted. Those that are ignored stay ignored, as ``nohup``
    requires.

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
        with suppress(TypeError):  # a handler that is not Python's
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]


@contextmanager
def telling(how_far: Callable[[], str]) -> Iterator[None]:
    """Adds to a request that passes the command's progress, if it has none yet."""
    try:
        yield
    except Interrupted as request:
        request.after = request.after or how_far()
        raise
