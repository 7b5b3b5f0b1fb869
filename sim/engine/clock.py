"""Letting the clock run, from a testbench, without waking it every cycle."""

from typing import Any, NamedTuple

from amaranth.hdl import Signal

from sim.engine.base import Engine

__all__ = ["Ran", "run_cycles"]


class Ran(NamedTuple):
    """How far :func:`run_cycles` came: the cycles that passed, and whether the last edge found ``until`` at 1."""

    cycles: int
    hit: bool


async def run_cycles(ctx: Any, count: int, *, until: Signal | None = None, domain: str = "sync") -> Ran:
    """Lets ``count`` clock cycles pass, or fewer: up to the edge that finds the one-bit signal ``until`` at 1.

    The same as ``await ctx.tick()`` in a loop. Where the engine can, and while nothing else waits for the clock (other
    testbenches may wait for a delay, and traces are recorded), the whole loop runs in the compiled model.
    """
    if until is not None and len(until) != 1:
        raise ValueError(f"until must have one bit, signal {until.name} has {len(until)}")
    tick = ctx.tick(domain)
    if until is not None:
        tick = tick.sample(until)
    engine, passed, hit = ctx._engine, 0, False
    while passed < count and not hit:
        cycles = 0
        if isinstance(engine, Engine):
            cycles, hit = engine.leap(ctx._process, tick._domain, count - passed, until)
        if not cycles:
            _, _, *values = await tick
            cycles, hit = 1, until is not None and bool(values[0])
        passed += cycles
    return Ran(passed, hit)
