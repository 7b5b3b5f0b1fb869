"""Distributes work over the cores of this machine, or over a cluster."""

import signal
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import ExitStack, contextmanager
from importlib import import_module
from multiprocessing import get_context
from threading import Timer
from typing import Any, TypeVar

from sim.support import activity
from sim.support.command import CommandError
from sim.support.interrupt import Interrupted, handled

__all__ = ["WorkersError", "results_of"]

T = TypeVar("T")
_AHEAD = 2
"""Number of tasks in flight per worker."""
_BLOCKED = {signal.SIGINT}
"""Signals that are blocked while a process starts."""
_PATIENCE = 10.0
"""Seconds that workers have to end their tasks when the command is interrupted, before they are
killed.
"""


class WorkersError(CommandError):
    """Workers that were lost. The message is one line with the reason."""


class _Worker:
    """A process that executes tasks. It ignores Ctrl-C at the terminal, which reaches all
    processes; the command ends its workers by SIGTERM.
    """

    over = False
    """Whether this process accepts no more tasks."""

    @classmethod
    def begin(cls) -> None:
        """Initialises a new process."""
        signal.signal(
            signal.SIGINT, lambda *_: None
        )  # Unlike with SIG_IGN, programs that it runs receive Ctrl-C
        signal.signal(signal.SIGTERM, lambda *_: setattr(cls, "over", True))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        activity.shown = False  # Only the command writes to the terminal

    @classmethod
    def do(cls, work: Callable[..., T], task: tuple[Any, ...]) -> T:
        """Executes a task; Interrupted if the command has ended."""
        before = signal.getsignal(signal.SIGTERM)
        try:
            with handled():
                if cls.over:
                    raise Interrupted(signal.SIGTERM)
                return work(*task)
        except Interrupted as request:
            cls.over = True
            raise Interrupted(
                request.number
            ) from None  # The exception is sent through a pipe, which needs one without a cause
        finally:
            signal.signal(signal.SIGTERM, before)


def _submit(executor: Executor, work: Callable[..., T], task: tuple[Any, ...]) -> Future[T]:
    """Submits a task to the processes of this machine. A process that is started for it does not
    receive Ctrl-C while it starts.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    try:
        return executor.submit(_Worker.do, work, task)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)


def _end(executor: ProcessPoolExecutor) -> None:
    """Ends the processes and their tasks."""
    processes = list((executor._processes or {}).values())
    for process in processes:
        process.terminate()
    killer = Timer(_PATIENCE, lambda: [process.kill() for process in processes])
    killer.start()
    try:
        executor.shutdown(cancel_futures=True)
    finally:
        killer.cancel()


Submit = Callable[[Callable[..., T], tuple[Any, ...]], "Future[T]"]


@contextmanager
def _workers(count: int, scheduler: str | None) -> Iterator[tuple[Submit[Any], int]]:
    """A context with a function that submits tasks, and the number of workers.

    The workers are processes of this machine, which inherit nothing, or those of a dask cluster. A
    task whose worker a cluster loses is executed by another one.
    """
    with ExitStack() as stack:
        if scheduler is None:
            executor = ProcessPoolExecutor(
                count, mp_context=get_context("spawn"), initializer=_Worker.begin
            )
            stack.enter_context(executor)
            try:
                yield lambda work, task: _submit(executor, work, task), count
            except (KeyboardInterrupt, GeneratorExit):
                _end(executor)
                raise
            return
        distributed: Any = import_module("distributed")  # Of the extra 'cluster'
        client = stack.enter_context(distributed.Client(scheduler))
        cluster = stack.enter_context(client.get_executor(pure=False))
        yield (
            lambda work, task: cluster.submit(work, *task),
            max(1, sum(client.nthreads().values())),
        )


def results_of(
    work: Callable[..., T],
    tasks: Iterator[tuple[Any, ...]],
    goes_on: Callable[[], bool],
    *,
    workers: int = 1,
    scheduler: str | None = None,
    ahead: int = _AHEAD,
) -> Generator[T, None, None]:
    """Yields the results of a function for tasks, which are its arguments, in the order of
    completion.

    A task is taken when a worker is about to need it. Raises WorkersError if workers are lost,
    after the results so far. When it is interrupted, or closed before its end, it ends its
    processes.

    Parameters:
        work: The function.
        tasks: Its arguments.
        goes_on: Whether another task is taken; after a False, tasks in flight are awaited.
        workers: Number of processes on this machine.
        scheduler: Address of a dask cluster, whose workers are used instead.
        ahead: Number of tasks in flight per worker.
    """
    try:
        with _workers(workers, scheduler) as (submit, count):
            under_way: set[Future[T]] = set()
            while True:
                while (
                    len(under_way) < ahead * count
                    and goes_on()
                    and (task := next(tasks, None)) is not None
                ):
                    under_way.add(submit(work, task))
                if not under_way:
                    return
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
    except (BrokenExecutor, OSError) as error:
        raise WorkersError(f"workers were lost, their earlier results are kept: {error}") from error
