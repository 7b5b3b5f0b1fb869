"""Signals of a unit, cycle by cycle, from which tests read the cycles that lie between two events."""

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
    """Samples signals in every cycle, beside a driver: ``driver.observe(watch)``.

    Parameters:
        signals: By the names under which they are found again.

    Attributes:
        rows: The values of each cycle.
    """

    def __init__(self, **signals: Any) -> None:
        self._signals = signals
        self.rows: list[dict[str, Any]] = []

    async def serve(self, ctx: Any) -> None:
        """The testbench, which does not end."""
        async for _, _, *values in ctx.tick().sample(*self._signals.values()):
            self.rows.append(dict(zip(self._signals, values, strict=True)))

    def cycles(self, name: str) -> list[int]:
        """The cycles in which a signal is not 0."""
        return [cycle for cycle, row in enumerate(self.rows) if row[name]]

    def first(self, name: str, start: int = 0) -> int:
        """The first of these cycles, from ``start`` on."""
        return next(cycle for cycle in self.cycles(name) if cycle >= start)

    def last(self, name: str) -> int:
        """The last of these cycles."""
        return self.cycles(name)[-1]


def watched(
    unit: str,
    make: Callable[[Bench], UnitDriver],
    signals: Callable[[Any], dict[str, Any]],
    *arguments: Any,
) -> tuple[Any, Watch]:
    """A driver that has run without a failure, and what was seen of its unit.

    Parameters:
        unit: Name of the testbench.
        make: Makes the driver.
        signals: Those that are sampled, by name, of the driver's unit.
        arguments: Of the driver's ``run``.
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
    """The same of the whole machine: ``Hardware(..., watched=watch.watched)``, for one run.

    Parameters:
        signals: Those that are sampled, by name, of the machine; each is a signal or a part of one.
    """

    def __init__(self, signals: Callable[[Sm], dict[str, Any]]) -> None:
        super().__init__()
        self._choose = signals
        self._parts: list[tuple[str, int, int, int]] = []

    def watched(self, sm: Sm) -> Sequence[Watched]:
        """What the machine observes."""
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
        """Changes, in order of cycles."""
        for cycle, number, value in changes:
            while len(self.rows) <= cycle:
                self.rows.append(dict(self.rows[-1]))
            for name, changed, start, mask in self._parts:
                if changed == number:
                    self.rows[cycle][name] = value >> start & mask
