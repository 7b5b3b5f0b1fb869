"""Work spread over the cores of this machine, or over a cluster."""

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
"""Tasks for each worker that are under way."""
_BLOCKED = {signal.SIGINT}
"""Signals that are blocked while a process starts."""
_PATIENCE = 10.0
"""Seconds that workers have to end their tasks when the command is interrupted, before they are killed."""


class WorkersError(CommandError):
    """Workers that were lost; one line with the reason."""


class _Worker:
    """A process that does tasks. Ctrl-C at the terminal, which all processes get, is the command's alone; that ends its
    workers by SIGTERM."""

    over = False
    """This process takes no task any more."""

    @classmethod
    def begin(cls) -> None:
        """Called in a new process."""
        signal.signal(
            signal.SIGINT, lambda *_: None
        )  # what it runs gets Ctrl-C again, unlike with SIG_IGN
        signal.signal(signal.SIGTERM, lambda *_: setattr(cls, "over", True))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        activity.shown = False  # a line at the terminal is the command's

    @classmethod
    def do(cls, work: Callable[..., T], task: tuple[Any, ...]) -> T:
        """Does a task. Interrupted when the command is over."""
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
            ) from None  # which is sent through a pipe, for any exception
        finally:
            signal.signal(signal.SIGTERM, before)


def _submit(executor: Executor, work: Callable[..., T], task: tuple[Any, ...]) -> Future[T]:
    """Hands a task to the processes of this machine. One that is started for it is not hit by
    Ctrl-C while it starts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    try:
        return executor.submit(_Worker.do, work, task)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)


def _end(executor: ProcessPoolExecutor) -> None:
    """Ends the processes with what they are at."""
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
    """What takes tasks: processes of this machine, which inherit nothing, or the workers of a cluster of dask; and how
    many they are. A task whose worker a cluster loses is done by another one."""
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
        distributed: Any = import_module("distributed")  # of the extra 'cluster'
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
    """What a function gives for tasks, which are its arguments, in the order in which they are done. A task is taken
    when a worker is about to need it. WorkersError when workers are lost; what they gave before was given. Interrupted,
    or closed before its end, it ends its processes.

    Parameters:
        goes_on: Whether another task is taken; what is under way when it says no is awaited.
        workers: Processes of this machine.
        scheduler: Address of a cluster of dask, whose workers do it instead.
        ahead: Tasks for each worker that are under way.
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
