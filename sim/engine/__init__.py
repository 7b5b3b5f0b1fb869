"""Simulation engines: two implementations that run the same testbenches, with equal results in
every cycle.

========  ===========================================================  ==============================================
engine    how                                                          needs
========  ===========================================================  ==============================================
pysim     Amaranth's simulator: the design as Python code              nothing
compiled  the design as C++, made from Amaranth's netlist, under        a C++ compiler: g++, clang++, or that of the
          Amaranth's scheduler of testbenches; compiled once            extra ``fast``
========  ===========================================================  ==============================================

Testbenches are Amaranth's: ``async def testbench(ctx)``. :func:`choose` returns the engine that a
user selected, :func:`run_cycles` lets the clock run without waking the testbench, :func:`observe`
samples signals once a cycle.

How a simulation on the compiled engine begins: :mod:`~sim.engine.identity` identifies a design by
its object and the source files. If the :mod:`~sim.engine.cache` has a record of it,
:mod:`~sim.engine.restore` makes the simulator from the :mod:`~sim.engine.layout` in that. Otherwise
the design is elaborated, and :mod:`~sim.engine.translate` translates it to C++ in these steps:

- :mod:`~sim.engine.netlist` has Amaranth flatten it into cells.
- :mod:`~sim.engine.lower` turns these into a :mod:`~sim.engine.graph` of 64-bit words, whose
  :mod:`~sim.engine.nodes` are operations.
- :mod:`~sim.engine.packing` merges operations on neighbouring bits.
- :mod:`~sim.engine.switches` turns switches into selections by index.
- :mod:`~sim.engine.schedule` groups the words into clusters that are computed only when bits that
  they read have changed (:mod:`~sim.engine.wakes`).
- :mod:`~sim.engine.emit` writes the C++, with the :mod:`~sim.engine.edges` of clocks and their
  :mod:`~sim.engine.registers`.
- :mod:`~sim.engine.build` compiles it.

The engines differ in two points: on the compiled engine a wait for a change of a signal
(``ctx.changed``, ``ctx.edge``) sees settled values only, never glitches, and clocks that the design
generates itself are refused.
"""

from collections.abc import Callable
from typing import Any

from sim.engine.base import Change, Engine, Observer, Sink, make_simulator
from sim.engine.cache import switch
from sim.engine.clock import Ran, engine_of, observe, observe_all, run_cycles, stop
from sim.engine.compiled import CompiledEngine
from sim.engine.errors import EngineError
from sim.engine.internals import CombinationalCycle
from sim.engine.pysim import PysimEngine
from sim.support.command import print_text

__all__ = [
    "ENGINES",
    "Change",
    "CombinationalCycle",
    "CompiledEngine",
    "Engine",
    "EngineError",
    "Observer",
    "PysimEngine",
    "Ran",
    "Sink",
    "choose",
    "chosen_engine",
    "current_name",
    "engine_of",
    "make_simulator",
    "observe",
    "observe_all",
    "run_cycles",
    "stop",
]

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (PysimEngine, CompiledEngine)}
"""Engines by name."""
_OTHER_NAMES = {"cxxrtl": CompiledEngine.name}
"""Former names of engines."""


def current_name(name: str) -> str:
    """Returns the current name of an engine, from any name that it had."""
    return _OTHER_NAMES.get(name, name)


def choose(name: str = "auto", *, cached: bool = True) -> tuple[type[Engine], str | None]:
    """Returns the engine called ``name``, and for ``auto`` a hint how to get a faster one, where
    there is one.

    Args:
        name: The engine; ``auto`` selects the compiled engine where it can be used.
        cached: Whether models that were compiled earlier may be used, and new ones are cached.

    Raises:
        EngineError: A named engine does not exist or cannot be used here.
    """
    switch(cached)
    if name == "auto":
        reason = CompiledEngine.missing()
        if reason is None:
            return CompiledEngine, None
        return PysimEngine, f"engine pysim; compiled would be faster, but {reason}"
    name = current_name(name)
    if name not in ENGINES:
        raise EngineError(f"no engine {name}; there are auto, {', '.join(ENGINES)}")
    if reason := ENGINES[name].missing():
        raise EngineError(f"engine {name}: {reason}")
    return ENGINES[name], None


def chosen_engine(options: Any, tell: Callable[[str], object] = print_text) -> type[Engine]:
    """Returns the engine that a command line selects by its options ``engine`` and ``cached``;
    prints a hint where there is a faster one.
    """
    engine, advice = choose(options.engine, cached=options.cached)
    if advice is not None:
        tell(f"{advice}\n")
    return engine
