"""Simulators of designs."""

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator

from sim.engine.base import Engine
from sim.support.garbage_collection import collector_off

__all__ = ["make_simulator"]


def make_simulator(design: Elaboratable, engine: type[Engine]) -> Simulator:
    """A simulator of the design on this engine. EngineError when it has none for it."""
    with collector_off():
        return engine.simulator(design)
