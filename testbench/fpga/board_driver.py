"""Simulations of parts of a board."""

from typing import Any

from sim.engine import PysimEngine, make_simulator

__all__ = ["simulate"]


def simulate(dut: Any, *testbenches: Any) -> None:
    """Runs testbenches beside a part, on Amaranth's simulator."""
    simulator = make_simulator(dut, PysimEngine)
    simulator.add_clock(1e-8)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()
