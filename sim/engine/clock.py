"""The interface of every engine for a simulation and its testbenches."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from amaranth.hdl import Signal

from sim.engine.base import Change, Engine, Observer, Sink
from sim.support.interrupt import raise_noted

__all__ = ["Ran", "engine_of", "observe", "observe_all", "run_cycles", "stop"]


def engine_of(simulator: Any) -> Engine:
    """Returns the engine of a ``Simulator``."""
    return simulator._engine


def observe(
    simulator: Any, signals: Sequence[Signal], sink: Sink, *, domain: str = "sync"
) -> Observer:
    """Samples signals once a cycle of ``domain``, and passes the changes to ``sink``. Call it
    before the run.

    See :class:`Observer`. The signals may be the design's or the testbench's own.
    """
    return engine_of(simulator).observe(
        simulator._design.fragment.domains[domain].clk, signals, sink
    )


def observe_all(
    simulator: Any, observed: Sequence[tuple[Sequence[Signal], Sink]], *, domain: str = "sync"
) -> Observer:
    """Combines several observers into one, for engines that support only one.

    Each sink receives the changes of its own signals, indexed from 0.
    """
    signals = [signal for own, _ in observed for signal in own]
    parts: list[tuple[int, Sink]] = []
    begin = 0
    for own, sink in observed:
        parts += [(begin, sink)] * len(own)
        begin += len(own)

    def sort(changes: list[Change]) -> None:
        batches: dict[int, list[Change]] = {start: [] for start, _ in parts}
        for cycle, number, value in changes:
            start = parts[number][0]
            batches[start].append((cycle, number - start, value))
        for start, sink in dict(parts).items():
            sink(batches[start])

    return observe(simulator, signals, sort, domain=domain)


_LEAP = 1000
"""The most cycles that an engine runs at once: after them pending process signals are checked."""


class Ran(NamedTuple):
    """The result of :func:`run_cycles`: the number of cycles that passed, and whether the last edge
    found ``until`` at 1.
    """

    cycles: int
    hit: bool


def stop(simulator: Any) -> None:
    """Ends the testbenches of a simulation at any point. A failed testbench does not end the others
    by itself.
    """
    for testbench in engine_of(simulator)._testbenches:
        if testbench.coroutine is not None:
            with suppress(
                RuntimeError
            ):  # Amaranth's tick().repeat() cannot be closed in the middle of a step
                testbench.coroutine.close()
            testbench.coroutine = None


async def run_cycles(
    ctx: Any, count: int, *, until: Signal | None = None, domain: str = "sync"
) -> Ran:
    """Lets ``count`` clock cycles pass, or fewer: up to the edge that finds the one-bit signal
    ``until`` at 1.

    The same as ``await ctx.tick()`` in a loop. Where the engine can, and while nothing else waits
    for the clock (other testbenches may wait for a delay, and traces are recorded), the whole loop
    runs in the compiled model. An interrupt that :mod:`sim.support.interrupt` has recorded is
    raised between two cycles.
    """
    if until is not None and len(until) != 1:
        raise ValueError(f"until must have one bit, signal {until.name} has {len(until)}")
    tick = ctx.tick(domain)
    engine, passed, hit = ctx._engine, 0, False
    while passed < count and not hit:
        raise_noted()
        cycles = 0
        if isinstance(engine, Engine):
            cycles, hit = engine.leap(ctx._process, tick._domain, min(count - passed, _LEAP), until)
        if not cycles:
            _, _, *values = await (tick if until is None else tick.sample(until))
            cycles, hit = 1, until is not None and bool(values[0])
        passed += cycles
    return Ran(passed, hit)
