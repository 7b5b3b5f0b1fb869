"""Many cases, on all cores of this machine or on a cluster."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rtl.params import PRESETS
from sim.engine import ENGINES
from testbench.fuzz.cases import Case, case_of
from testbench.fuzz.player import Outcome, Player
from testbench.fuzz.store import Store

__all__ = ["Campaign", "play", "save"]

_BATCH = 2
"""Cases that a worker plays before it tells of them."""
_AHEAD = 2
"""Batches for each worker that are under way."""


@dataclass(frozen=True)
class Campaign:
    """Seed and machine: with a case's number they say all about it. ``engine`` is a name of ENGINES."""

    seed: int
    preset: str
    engine: str

    def case(self, number: int) -> Case:
        """One of its cases."""
        params = PRESETS[self.preset]
        return case_of(self.seed, number, floats=params.floats, doubles=params.doubles)


@cache
def _player(preset: str, engine: str) -> Player:
    """A worker's machine, which it makes once."""
    return Player(preset, ENGINES[engine])


def _batch(campaign: Campaign, numbers: tuple[int, ...]) -> list[Outcome]:
    """Plays cases; what a worker does."""
    player = _player(campaign.preset, campaign.engine)
    return [player.play(campaign.case(number)) for number in numbers]


@contextmanager
def _workers(count: int, scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    """Processes of this machine, which inherit nothing, or the workers of a cluster of dask; and how many they are. A
    batch whose worker a cluster loses is played by another one."""
    if scheduler is None:
        with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as executor:
            yield executor, count
        return
    distributed: Any = import_module("distributed")     # of the extra 'cluster'
    with distributed.Client(scheduler) as client, client.get_executor(pure=False) as executor:
        yield executor, max(1, sum(client.nthreads().values()))


def _outcomes(campaign: Campaign, numbers: Iterator[int], executor: Executor, workers: int,
              goes_on: Callable[[], bool]) -> Iterator[Outcome]:
    """Plays cases until nobody wants more; what is under way then is awaited."""
    under_way: set[Future[list[Outcome]]] = set()
    while True:
        while len(under_way) < _AHEAD * workers and goes_on() and (batch := tuple(islice(numbers, _BATCH))):
            under_way.add(executor.submit(_batch, campaign, batch))
        if not under_way:
            return
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            yield from future.result()


def play(campaign: Campaign, store: Store, seconds: float, *, workers: int = 1, scheduler: str | None = None,
         cases: int | None = None, told: Callable[[Outcome], object] = lambda outcome: None) -> None:
    """Plays cases that have not been played, for so many seconds, or so many ``cases`` at most.

    Parameters:
        workers: Processes of this machine.
        scheduler: Address of a cluster of dask, whose workers do it instead.
        told: Of each outcome.
    """
    end, numbers = time.monotonic() + seconds, islice(store.missing(), cases)
    with _workers(workers, scheduler) as (executor, count):
        for outcome in _outcomes(campaign, numbers, executor, count, lambda: time.monotonic() < end):
            store.add(outcome)
            told(outcome)


def save(campaign: Campaign, number: int, folder: Path) -> Path:
    """Writes the smallest program of a case that still fails, as assembly text with what it takes to see it."""
    player, case = _player(campaign.preset, campaign.engine), campaign.case(number)
    program = player.smallest(case)
    head = [f"// Case {number} of seed {campaign.seed}: {case.kind.value}.",
            f"// Preset {campaign.preset}, {case.policy.name}, memory takes {case.latency} cycles"
            f"{'' if case.disorder is None else f', in disorder {case.disorder}'}"
            f"{'' if case.codes is None else '; some control codes stall and wait for longer'}.",
            f"// python -m sim.fuzz --seed {campaign.seed} --preset {campaign.preset} --case {number}",
            f"// {program.block} threads a block, {program.grid} blocks."]
    if program.handler:
        handler = "\n".join([".kernel handler", ".registers 32", *program.handler_lines, ""])
        beside = folder / f"fuzz-{campaign.seed}-{number}-handler.sass"
        beside.write_text("\n".join([*head, handler]), encoding="utf-8")
        head.append(f"// Its trap handler is {beside.name}.")
    path = folder / f"fuzz-{campaign.seed}-{number}.sass"
    path.write_text("\n".join([*head, program.text]), encoding="utf-8")
    return path
