"""Child processes of a command: compilers, solvers, tools for FPGAs. They end when the command
does.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from sim.support.interrupt import deferred
from sim.support.scratch import cache_home

__all__ = ["Children", "end_group", "run_child"]

_PATIENCE = 3.0
"""Seconds that a program has to end by itself, and to remove its temporary files, before it is
killed.
"""


def end_group(process: subprocess.Popen[Any], patience: float = _PATIENCE) -> None:
    """Ends a program that was started in its own session, with its child processes: by SIGTERM,
    then by SIGKILL if it does not end.
    """
    for number, seconds in (
        (signal.SIGTERM, patience),
        (getattr(signal, "SIGKILL", signal.SIGTERM), None),
    ):
        if process.poll() is None or number != signal.SIGTERM:  # Its child processes may outlive it
            with suppress(ProcessLookupError, PermissionError):
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, number)
                else:
                    process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def _environment(environment: Mapping[str, str], temporary: str) -> dict[str, str]:
    """Returns the environment of a program, with a folder for its temporary files, and one for its
    caches if the user has none.
    """
    home = cache_home()
    return {
        **environment,
        "TMPDIR": temporary,
        **({} if home is None else {"XDG_CACHE_HOME": str(home)}),
    }


class Children:
    """Programs, run from one or several threads.

    If this context is left by an exception, the programs that still run are ended, and no others
    are started. Each program has its own session, so that Ctrl-C at a terminal reaches only the
    command, and a folder for its temporary files, which is removed with it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[subprocess.Popen[Any]] = set()
        self._over = False

    def run(
        self,
        command: Sequence[str | Path],
        *,
        text: bool = True,
        env: Mapping[str, str] = os.environ,
        **how: Any,
    ) -> subprocess.CompletedProcess[Any]:
        """Runs a program to its end. ``how`` are arguments of Popen. OSError if it cannot be
        started.
        """
        with TemporaryDirectory(prefix="warpstack-", ignore_cleanup_errors=True) as temporary:
            return self._run(command, text=text, env=_environment(env, temporary), **how)

    def _run(self, command: Sequence[str | Path], **how: Any) -> subprocess.CompletedProcess[Any]:
        process: subprocess.Popen[Any] | None = None
        try:
            # A signal between start and registration would leave a program that is never ended.
            with self._lock, deferred():
                if self._over:
                    raise ChildProcessError("the command is over")
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, start_new_session=True, **how
                )
                self._running.add(process)
            out, errors = process.communicate()
            return subprocess.CompletedProcess(command, process.wait(), out, errors)
        finally:
            if process is not None:
                if process.returncode is None:
                    end_group(process)
                with self._lock:
                    self._running.discard(process)

    def __enter__(self) -> "Children":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        with self._lock:
            self._over = True
            running = list(self._running)
        for process in running:
            end_group(process)


def run_child(
    command: Sequence[str | Path], *, text: bool = True, **how: Any
) -> subprocess.CompletedProcess[Any]:
    """Runs one program to its end, or ends it with the command; see :meth:`Children.run`."""
    return Children().run(command, text=text, **how)
