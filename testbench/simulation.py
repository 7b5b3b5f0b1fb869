"""Short simulations of single parts, and testbenches that have to pass."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from amaranth.sim import Simulator

from sim.checks.report import Report
from sim.checks.testbench import Bench, run
from sim.engine import Engine, choose, make_simulator, stop

CLOCK = MappingProxyType({"sync": 1e-8})
"""Domain -> period of its clock, in seconds."""
ENGINE, _ = choose()
"""What simulates where nothing else is said."""


def as_here(printed: str) -> str:
    """What a page shows that a command prints, with the engine that is installed here: pages show the compiled one."""
    return printed.replace("compiled engine", f"{ENGINE.name} engine")


def simulate(
    dut: Any,
    *testbenches: Any,
    background: Iterable[Any] = (),
    clocks: Mapping[str, float] = CLOCK,
    engine: type[Engine] | None = None,
) -> Simulator:
    """Runs testbenches, and others beside them, until the former have ended: in Amaranth's simulator, or on another
    engine.
    """
    simulator = Simulator(dut) if engine is None else make_simulator(dut, engine)
    for domain, period in clocks.items():
        simulator.add_clock(period, domain=domain)
    for testbench in background:
        simulator.add_testbench(testbench, background=True)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    try:
        simulator.run()
    finally:
        stop(simulator)
    return simulator


def combinational(dut: Any, body: Any) -> None:
    """Runs a testbench of what has no clock."""
    simulate(dut, body, clocks={})


def passes(
    unit: str, body: Callable[[Bench], Any], seed: int = 0, engine: type[Engine] | None = None
) -> Report:
    """The report of a part of a testbench, which passes."""
    report = run(unit, body, engine or ENGINE, seed=seed)
    assert report.passed, report.failure
    return report


def failure(unit: str, body: Callable[[Bench], Any], engine: type[Engine] | None = None) -> str:
    """Why a part of a testbench fails, which it does."""
    report = run(unit, body, engine or ENGINE)
    assert report.failure is not None
    return report.failure
