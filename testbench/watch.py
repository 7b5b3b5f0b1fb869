"""Signals of a unit sampled in every cycle, for tests that count the cycles between two events."""

from collections.abc import Callable, Sequence
from typing import Any

from amaranth.hdl import Signal

from rtl.sm import Sm
from sim.checks.testbench import Bench
from sim.engine import Change
from sim.machine.hardware import Watched
from sim.waves.traces import bits_of
from testbench import simulation
from testbench.driver import UnitDriver

__all__ = ["MachineWatch", "Watch", "watched"]


class Watch:
    """Samples signals in every cycle beside a driver: ``driver.observe(watch)``.

    Args:
        signals: The signals, by the names that the methods use for them.

    Attributes:
        rows: The values of each cycle.
    """

    def __init__(self, **signals: Any) -> None:
        self._signals = signals
        self.rows: list[dict[str, Any]] = []

    async def serve(self, ctx: Any) -> None:
        """Samples the signals in every cycle, without end."""
        async for _, _, *values in ctx.tick().sample(*self._signals.values()):
            self.rows.append(dict(zip(self._signals, values, strict=True)))

    def cycles(self, name: str) -> list[int]:
        """Returns the cycles in which a signal is not 0."""
        return [cycle for cycle, row in enumerate(self.rows) if row[name]]

    def first(self, name: str, start: int = 0) -> int:
        """Returns the first cycle from ``start`` on in which a signal is not 0."""
        return next(cycle for cycle in self.cycles(name) if cycle >= start)

    def last(self, name: str) -> int:
        """Returns the last cycle in which a signal is not 0."""
        return self.cycles(name)[-1]


def watched(
    unit: str,
    make: Callable[[Bench], UnitDriver],
    signals: Callable[[Any], dict[str, Any]],
    *arguments: Any,
) -> tuple[Any, Watch]:
    """Runs a driver, which must not fail, and returns it with the samples of its unit.

    Args:
        unit: Name of the testbench.
        make: Makes the driver.
        signals: Returns the signals to sample, by name, from the driver's unit.
        arguments: Arguments of the driver's ``run``.
    """
    found = list[tuple[Any, Watch]]()

    def body(bench: Bench) -> None:
        driver = make(bench)
        watch = Watch(**signals(driver.dut))
        driver.observe(watch)
        driver.run(*arguments)
        found.append((driver, watch))

    simulation.passes(unit, body)
    return found[0]


class MachineWatch(Watch):
    """Samples signals of the whole machine in one run: ``Hardware(..., watched=watch.watched)``.

    Args:
        signals: Returns the signals to sample, by name, from the machine; each is a signal or a
            part of one.
    """

    def __init__(self, signals: Callable[[Sm], dict[str, Any]]) -> None:
        super().__init__()
        self._choose = signals
        self._parts: list[tuple[str, int, int, int]] = []

    def watched(self, sm: Sm) -> Sequence[Watched]:
        """Returns the signals and the listener, in the form that ``Hardware`` takes."""
        signals: list[Signal] = []
        for name, part in self._choose(sm).items():
            signal, start, width = bits_of(part, name)
            if all(signal is not other for other in signals):
                signals.append(signal)
            number = next(at for at, other in enumerate(signals) if other is signal)
            self._parts.append((name, number, start, (1 << width) - 1))
        self.rows = [{name: 0 for name, *_ in self._parts}]
        return [(signals, self._take)]

    def _take(self, changes: Sequence[Change]) -> None:
        """Records changes of the signals, in order of cycles."""
        for cycle, number, value in changes:
            while len(self.rows) <= cycle:
                self.rows.append(dict(self.rows[-1]))
            for name, changed, start, mask in self._parts:
                if changed == number:
                    self.rows[cycle][name] = value >> start & mask
