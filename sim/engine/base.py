"""Extensions of Amaranth's simulator that both engines share: observers, and a fast way to run the
clock.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from amaranth.hdl import Elaboratable, Signal
from amaranth.sim import Simulator

from sim.engine.internals import PySimEngine
from sim.support.garbage_collection import without_garbage_collection

__all__ = ["Change", "Engine", "Observer", "Sink", "make_simulator"]

Change = tuple[int, int, int]
"""Cycle, index of the observed signal, new value (unsigned)."""
Sink = Callable[[list[Change]], None]
BATCH = 4096
"""Approximate number of changes in a batch."""


class Observer:
    """Samples signals once a clock cycle, right before the rising edge, and passes the changes to a
    sink.

    Cycle 0 ends with the first edge; its sample has every signal, later ones those that changed
    since the previous sample. Changes arrive in order of cycle and index of the signal, in batches,
    some time after they happened.
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
        """Registers a signal to have its changes recorded."""

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
        """Samples the signals. The engine calls it as a trigger, at the clock edge, before the
        design reacts.
        """
        self._sample()
        if len(self._changes) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Passes pending changes to the sink, in batches."""
        self._sink(self._changes)
        self._changes = []

    def restart(self) -> None:
        """Restarts at cycle 0, after a reset of the simulation."""
        self._cycle = 0
        self._changes = []
        self._last = [None] * len(self._last)
        self._touched = set(range(len(self._last)))

    def finish(self) -> int:
        """Samples the last, unfinished cycle and passes on the rest; returns the index of that
        cycle.
        """
        self._sample()
        self.flush()
        return self._cycle - 1


class Engine(PySimEngine):
    """An engine of Amaranth's simulator: ``Simulator(design, engine=...)``.

    Testbenches behave the same on every engine, cycle by cycle.
    """

    name: ClassVar[str]
    """The name in the option ``--engine``."""

    @classmethod
    def missing(cls) -> str | None:
        """Returns the reason why the engine cannot be used here, in one line; None if it can."""
        return None

    @classmethod
    def simulator(cls, design: Any) -> Simulator:
        """Returns a simulator of a design on this engine; EngineError if the engine does not
        support the design.
        """
        return Simulator(design, engine=cls)  # pyright: ignore[reportArgumentType]

    def observe(self, clock: Signal, signals: Sequence[Signal], sink: Sink) -> Observer:
        """Passes the changes of ``signals``, sampled once a cycle of ``clock``, to ``sink``. Call
        it before the run.
        """
        return Observer(self, clock, signals, sink)

    def leap(
        self, _process: Any, _domain: Any, _count: int, _until: Signal | None
    ) -> tuple[int, bool]:
        """Runs up to ``count`` clock cycles at once, if no process but ``process`` depends on them.

        Returns:
            The number of cycles that passed, 0 if they must be simulated one by one; and whether
            ``until`` was 1 before the last edge.
        """
        return 0, False


def make_simulator(design: Elaboratable, engine: type[Engine]) -> Simulator:
    """Returns a simulator of the design on this engine; EngineError if the engine does not support
    the design.
    """
    with without_garbage_collection():
        return engine.simulator(design)
