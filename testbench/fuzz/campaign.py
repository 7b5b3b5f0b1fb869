"""Runs many cases, on all cores of this machine or on a cluster."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path

from rtl.params import PRESETS
from sim.checks.workers import results_of
from sim.engine import ENGINES, CompiledEngine
from testbench.fuzz.cases import Case, case_of
from testbench.fuzz.player import Outcome, Player
from testbench.fuzz.store import Store

__all__ = ["Campaign", "play", "save"]

_BATCH = 2
"""Number of cases that a worker runs before it reports them."""


@dataclass(frozen=True)
class Campaign:
    """Seed and machine, which with a case's number define the case. ``engine`` is a name of
    ENGINES.
    """

    seed: int
    preset: str
    engine: str

    def case(self, number: int) -> Case:
        """Returns the case with this number."""
        params = PRESETS[self.preset]
        return case_of(self.seed, number, floats=params.floats, doubles=params.doubles)


@cache
def _player(preset: str, engine: str) -> Player:
    """Returns the worker's player; a process makes its machine once."""
    return Player(preset, ENGINES[engine])


def _batch(campaign: Campaign, numbers: tuple[int, ...]) -> list[Outcome]:
    """Runs cases in a worker."""
    player = _player(campaign.preset, campaign.engine)
    return [player.play(campaign.case(number)) for number in numbers]


def play(
    campaign: Campaign,
    store: Store,
    seconds: float,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    cases: int | None = None,
    on_outcome: Callable[[Outcome], object] = lambda outcome: None,
) -> None:
    """Runs cases that have not run yet, for ``seconds`` or until ``cases`` have run.

    Args:
        workers: Number of processes on this machine.
        scheduler: Address of a dask cluster, whose workers run the cases instead.
        on_outcome: Called with each outcome.
    """
    if scheduler is None and ENGINES[campaign.engine] is CompiledEngine:
        _player(
            campaign.preset, campaign.engine
        )  # compiles the model once, before several workers need it
    end, numbers = time.monotonic() + seconds, islice(store.missing(), cases)
    batches = iter(lambda: tuple(islice(numbers, _BATCH)), ())
    with closing(
        results_of(
            _batch,
            ((campaign, batch) for batch in batches),
            lambda: time.monotonic() < end,
            workers=workers,
            scheduler=scheduler,
        )
    ) as results:
        for outcomes in results:
            for outcome in outcomes:
                store.add(outcome)
                on_outcome(outcome)


def save(campaign: Campaign, number: int, folder: Path) -> Path:
    """Writes the smallest program of a case that still fails, as assembly text with the settings
    that reproduce the failure. Returns the file.
    """
    player, case = _player(campaign.preset, campaign.engine), campaign.case(number)
    program = player.smallest(case)
    head = [
        f"// Case {number} of seed {campaign.seed}: {case.kind.value}.",
        f"// Preset {campaign.preset}, {case.policy.name}, memory takes {case.latency} cycles"
        f"{'' if case.disorder is None else f', in disorder {case.disorder}'}"
        f"{'' if case.codes is None else '; some control codes stall and wait for longer'}.",
        f"// python -m sim.fuzz --seed {campaign.seed} --preset {campaign.preset} --case {number}",
        f"// {program.block} threads a block, {program.grid} blocks.",
    ]
    if program.handler:
        handler = "\n".join([".kernel handler", ".registers 32", *program.handler_lines, ""])
        beside = _write_beside(
            folder / f"fuzz-{campaign.seed}-{number}-handler.sass", "\n".join([*head, handler])
        )
        head.append(f"// Its trap handler is {beside.name}.")
    return _write_beside(
        folder / f"fuzz-{campaign.seed}-{number}.sass", "\n".join([*head, program.text])
    )


def _write_beside(path: Path, text: str) -> Path:
    """Writes a file, under the next free name if there is another text in it: somebody may have changed it to find the
    fault. Returns its path."""
    for number in count(2):
        if not path.exists():
            path.write_text(text, encoding="utf-8")
        if path.read_text(encoding="utf-8", errors="replace") == text:
            return path
        path = path.with_stem(f"{path.stem.rpartition('~')[0] or path.stem}~{number}")
    raise AssertionError("there is always a free name")
