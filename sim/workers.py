"""Work spread over the cores of this machine, or over a cluster."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any, TypeVar

from sim.command import CommandError

__all__ = ["WorkersError", "results_of"]

T = TypeVar("T")
_AHEAD = 2
"""Tasks for each worker that are under way."""


class WorkersError(CommandError):
    """Workers that are not there any more; one line that says why."""


@contextmanager
def _workers(count: int, scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    """Processes of this machine, which inherit nothing, or the workers of a cluster of dask; and how many they are. A
    task whose worker a cluster loses is done by another one."""
    if scheduler is None:
        with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as executor:
            yield executor, count
        return
    distributed: Any = import_module("distributed")     # of the extra 'cluster'
    with distributed.Client(scheduler) as client, client.get_executor(pure=False) as executor:
        yield executor, max(1, sum(client.nthreads().values()))


def results_of(work: Callable[..., T], tasks: Iterator[tuple[Any, ...]], goes_on: Callable[[], bool], *,
               workers: int = 1, scheduler: str | None = None, ahead: int = _AHEAD) -> Iterator[T]:
    """What a function gives for tasks, which are its arguments, in the order in which they are done. A task is taken
    when a worker is about to need it. WorkersError when workers are lost; what they gave before was given.

    Parameters:
        goes_on: Whether another task is taken; what is under way when it says no is awaited.
        workers: Processes of this machine.
        scheduler: Address of a cluster of dask, whose workers do it instead.
        ahead: Tasks for each worker that are under way.
    """
    try:
        with _workers(workers, scheduler) as (executor, count):
            under_way: set[Future[T]] = set()
            while True:
                while len(under_way) < ahead * count and goes_on() and (task := next(tasks, None)) is not None:
                    under_way.add(executor.submit(work, *task))
                if not under_way:
                    return
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
    except (BrokenExecutor, OSError) as error:
        raise WorkersError(f"workers were lost, what they told before is kept: {error}") from error
