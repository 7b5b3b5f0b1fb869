"""Simulation engines: two ways to run the same testbenches, cycle by cycle alike.

========  ===========================================================  ==============================================
engine    how                                                          needs
========  ===========================================================  ==============================================
pysim     Amaranth's simulator: the design as Python code              nothing
cxxrtl    the design as C++, made from Amaranth's netlist, under        a C++ compiler: g++, clang++, or that of the
          Amaranth's scheduler of testbenches; compiled once            extra ``fast``
========  ===========================================================  ==============================================

Testbenches are Amaranth's: ``async def testbench(ctx)``. :func:`choose` finds the engine that a user asked for,
:func:`run_cycles` lets the clock run without waking the testbench, :func:`observe` samples signals once a cycle.

How a design becomes C++ (cxxrtl): :mod:`~sim.engine.netlist` has Amaranth flatten it into cells,
:mod:`~sim.engine.lower` turns these into a :mod:`~sim.engine.graph` of 64-bit words, :mod:`~sim.engine.schedule` puts
the words into clusters that are computed only when an input has changed, :mod:`~sim.engine.emit` writes them down with
the :mod:`~sim.engine.edges` of clocks, :mod:`~sim.engine.build` has them compiled and caches the result.

What differs: on cxxrtl a wait for a change of a signal (``ctx.changed``, ``ctx.edge``) sees settled values only, never
glitches, and clocks that the design makes itself are refused.
"""

from sim.engine.base import Change, Engine, Observer, Sink
from sim.engine.clock import Ran, engine_of, observe, observe_all, run_cycles, stop
from sim.engine.cxxrtl import CxxrtlEngine
from sim.engine.errors import EngineError
from sim.engine.internals import CombinationalCycle
from sim.engine.pysim import PysimEngine
from sim.engine.start import make_simulator

__all__ = ["ENGINES", "Change", "CombinationalCycle", "CxxrtlEngine", "Engine", "EngineError", "Observer",
           "PysimEngine", "Ran", "Sink", "choose", "engine_of", "make_simulator", "observe", "observe_all",
           "run_cycles", "stop"]

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (PysimEngine, CxxrtlEngine)}
"""Name -> engine."""


def choose(name: str = "auto") -> tuple[type[Engine], str | None]:
    """The engine called ``name``, and for ``auto`` a line that says how to get a faster one, where there is one.

    ``auto`` takes cxxrtl where it can be used. EngineError when a named engine does not exist or cannot be used here.
    """
    if name == "auto":
        reason = CxxrtlEngine.missing()
        if reason is None:
            return CxxrtlEngine, None
        return PysimEngine, f"engine pysim; cxxrtl would be faster, but {reason}"
    if name not in ENGINES:
        raise EngineError(f"no engine {name}; there are auto, {', '.join(ENGINES)}")
    if reason := ENGINES[name].missing():
        raise EngineError(f"engine {name}: {reason}")
    return ENGINES[name], None
