"""Short simulations of single components, and testbenches that must pass."""

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
"""The simulation engine that is used by default."""


def as_here(printed: str) -> str:
    """Returns output shown in a document, which was printed with the compiled engine, with the name
    of the installed one.
    """
    return printed.replace("compiled engine", f"{ENGINE.name} engine")


def simulate(
    dut: Any,
    *testbenches: Any,
    background: Iterable[Any] = (),
    clocks: Mapping[str, float] = CLOCK,
    engine: type[Engine] | None = None,
) -> Simulator:
    """Runs testbenches, with ``background`` ones beside them, until the former have ended.

    ``engine`` is the simulation engine; by default it is Amaranth's simulator.
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
    """Runs a testbench of a component without a clock."""
    simulate(dut, body, clocks={})


def passes(
    unit: str, body: Callable[[Bench], Any], seed: int = 0, engine: type[Engine] | None = None
) -> Report:
    """Runs a function as part of a unit's testbench and returns its report, which must be without a
    failure.
    """
    report = run(unit, body, engine or ENGINE, seed=seed)
    assert report.passed, report.failure
    return report


def failure(unit: str, body: Callable[[Bench], Any], engine: type[Engine] | None = None) -> str:
    """Runs a function as part of a unit's testbench, which must fail, and returns the failure's
    message.
    """
    report = run(unit, body, engine or ENGINE)
    assert report.failure is not None
    return report.failure
