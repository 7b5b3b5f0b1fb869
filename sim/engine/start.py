"""Simulators of designs."""

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator

from sim.collector import collector_off
from sim.engine.base import Engine

__all__ = ["make_simulator"]


def make_simulator(design: Elaboratable, engine: type[Engine]) -> Simulator:
    """A simulator of the design on this engine. EngineError when it has none for it."""
    with collector_off():
        return engine.simulator(design)
