"""Simulators of designs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator

from sim.engine.base import Engine

__all__ = ["make_simulator"]


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keeps Python from looking for garbage: a design is some million objects, and none of them is."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def make_simulator(design: Elaboratable, engine: type[Engine]) -> Simulator:
    """A simulator of the design on this engine. EngineError when it has none for it."""
    with _collector_off():
        return Simulator(design, engine=engine)    # pyright: ignore[reportArgumentType]
