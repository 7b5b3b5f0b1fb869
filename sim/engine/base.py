"""Additions of both engines to Amaranth's simulator: observers, and a fast way to run the clock."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from amaranth.hdl import Elaboratable, Signal
from amaranth.sim import Simulator

from sim.engine.internals import PySimEngine
from sim.support.garbage_collection import without_garbage_collection

__all__ = ["Change", "Engine", "Observer", "Sink", "make_simulator"]

Change = tuple[int, int, int]
"""Cycle, number of the observed signal, new value (unsigned)."""
Sink = Callable[[list[Change]], None]
BATCH = 4096
"""Changes are handed over in batches of about this many."""


class Observer:
    """Samples signals once a clock cycle, right before the rising edge, and hands the changes to a sink.

    Cycle 0 ends with the first edge; its sample has every signal, later ones those that changed since the sample
    before. Changes come in order of cycle and number of the signal, some time after they happened, in batches.
    """

    def __init__(
        self, engine: "Engine", clock: Signal, signals: Sequence[Signal], sink: Sink
    ) -> None:
        self._engine: Any = engine
        self._sink = sink
        self._cycle = 0
        self._changes: list[Change] = []
        self._states: list[Any] = []
        self._masks = [(1 << len(signal)) - 1 for signal in signals]
        self._last: list[int | None] = [None] * len(signals)
        self._touched = set(range(len(signals)))
        for number, signal in enumerate(signals):
            self._watch(number, signal)
        engine.state.add_signal_waker(clock, self._clock_changes)

    def _watch(self, number: int, signal: Signal) -> None:
        """Has changes of a signal noted."""

        def touch(_current: int, _next: int) -> bool:
            self._touched.add(number)
            return True

        state = self._engine.state
        self._states.append(state.slots[state.get_signal(signal)])
        state.add_signal_waker(signal, touch)

    def _clock_changes(self, _current: int, level: int) -> bool:
        if level:
            # run() is called before any process is resumed by the edge
            self._engine._active_triggers.add(self)
        return True

    def _sample(self) -> None:
        for number in sorted(self._touched):
            value = self._states[number].curr & self._masks[number]
            if value != self._last[number]:
                self._last[number] = value
                self._changes.append((self._cycle, number, value))
        self._touched.clear()
        self._cycle += 1

    def run(self) -> None:
        """Called by the engine, as it calls triggers: at the clock edge, before the design reacts."""
        self._sample()
        if len(self._changes) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Delivers pending changes, in batches."""
        self._sink(self._changes)
        self._changes = []

    def restart(self) -> None:
        """Begins again at cycle 0, after a reset of the simulation."""
        self._cycle = 0
        self._changes = []
        self._last = [None] * len(self._last)
        self._touched = set(range(len(self._last)))

    def finish(self) -> int:
        """Samples the last, unfinished cycle and delivers the rest; returns the number of that
        cycle."""
        self._sample()
        self.flush()
        return self._cycle - 1


class Engine(PySimEngine):
    """An engine of Amaranth's simulator: ``Simulator(design, engine=...)``.

    Testbenches behave the same on every engine, cycle by cycle.
    """

    name: ClassVar[str]
    """What ``--engine`` calls it."""

    @classmethod
    def missing(cls) -> str | None:
        """Why the engine cannot be used here, in one line; None when it can."""
        return None

    @classmethod
    def simulator(cls, design: Any) -> Simulator:
        """A simulator of a design on this engine. EngineError when it has none for it."""
        return Simulator(design, engine=cls)  # pyright: ignore[reportArgumentType]

    def observe(self, clock: Signal, signals: Sequence[Signal], sink: Sink) -> Observer:
        """Hands the changes of ``signals`` to ``sink``, sampled once a cycle of ``clock``. Call it before the run."""
        return Observer(self, clock, signals, sink)

    def leap(
        self, _process: Any, _domain: Any, _count: int, _until: Signal | None
    ) -> tuple[int, bool]:
        """Lets up to ``count`` clock cycles pass at once, if no process but ``process`` depends on
        them.

        Returns the cycles that passed, 0 when they have to be taken one by one, and whether ``until`` was 1 before the
        last edge.
        """
        return 0, False


def make_simulator(design: Elaboratable, engine: type[Engine]) -> Simulator:
    """A simulator of the design on this engine. EngineError when it has none for it."""
    with without_garbage_collection():
        return engine.simulator(design)
