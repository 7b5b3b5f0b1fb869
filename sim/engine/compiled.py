"""The fast engine: the design as C++, under the scheduler of Amaranth's simulator.

Testbenches, triggers and time are Amaranth's; one process that steps the compiled model replaces
the processes that simulate the design. Inputs are written to the model when they are committed; all
other values are read from it on access.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from amaranth.hdl import Signal, Value
from amaranth.sim import Simulator

from sim.engine.base import Engine, Observer, Sink
from sim.engine.build import missing_tool
from sim.engine.cache import model_folder
from sim.engine.errors import EngineError
from sim.engine.internals import (
    AsyncProcess,
    BaseProcess,
    Concat,
    DelayTrigger,
    PyClockProcess,
    PyEngineState,
    PyMemoryState,
    PySignalState,
    SampleTrigger,
    Slice,
    pin_blame,
)
from sim.engine.layout import SignalDriver, StateLayout
from sim.engine.messages import Messages
from sim.engine.model import FAILURE, TEXT, CompiledModel, Field, MemoryField
from sim.engine.restore import simulator
from sim.engine.states import ClockState, DrivenState, InputState, MemoryState

__all__ = ["CompiledEngine", "DesignProcess"]

_BATCH = 1 << 14
"""Size in words of a batch of changes for observers."""


class DesignProcess(BaseProcess):
    """The process that runs the design: it steps the model, forwards its prints, and raises its
    failed assertions.
    """

    def __init__(self, model: CompiledModel) -> None:
        self.model = model
        self.watched: list[DrivenState] = []
        self.edges: list[ClockState] = []
        self.runnable = True

    def reset(self) -> None:
        """Resets the model, which has to run then."""
        self.model.reset()
        self.edges.clear()
        self.runnable = True

    def run(self) -> None:
        """Passes the clocks' edges on to the model, and steps it."""
        for clock in self.edges:
            clock.field.write(clock.curr)
        self.edges.clear()
        self.report(self.model.step())
        for state in self.watched:
            state.check()

    def report(self, events: int) -> None:
        """Forwards the prints of a step and raises a failed assertion."""
        if events & TEXT:
            print(self.model.take_text(), end="")
        if events & FAILURE:
            location, message = self.model.failure()
            file, _, line = location.rpartition(":")
            pin_blame((file, int(line)) if file else None, AssertionError(message))

    def input_changed(self) -> None:
        """Notes a change that before the next clock edge affects only combinational logic."""
        if self.watched or self.model.settles:
            self.runnable = True

    def state_changed(self) -> None:
        """Notes a change after which the model must be stepped."""
        self.runnable = True

    def clock_changed(self, clock: ClockState) -> None:
        """Notes a change of a clock; usually only the rising edge has an effect."""
        if clock.curr or self.model.settles:
            self.edges.append(clock)
            self.runnable = True
        else:
            clock.field.write(0)
            self.model.step()


class _Clock(PyClockProcess):
    """A clock whose next edge can be postponed."""

    waker: Any

    def run(self) -> None:
        super().run()
        self.waker = next(reversed(self.state.timeline.wakers))

    def next_edge(self) -> int:
        """Returns the time of the next edge."""
        return self.state.timeline.wakers[self.waker]

    def put_off(self, time: int) -> None:
        """Postpones the next edge to ``time``."""
        self.state.timeline.wakers[self.waker] = time


class _EngineState(PyEngineState):
    """The states of all signals and memories, made on first access."""

    def __init__(self, engine: "CompiledEngine") -> None:
        super().__init__()
        self._engine = engine
        self._numbers: dict[int, int] = {}

    def commit(self, changed: Any = None) -> bool:
        """Applies pending values; returns whether the design has settled, with no trigger left to
        run.
        """
        return super().commit(changed) and not self._engine._active_triggers

    def get_signal(self, signal: Signal) -> int:
        """Returns the index of the signal's slot. It is found by the object, which lives as long as
        :attr:`signals`.
        """
        number = self._numbers.get(id(signal))
        if number is None:
            if signal not in self.signals:
                self.signals[signal] = len(self.slots)
                self.slots.append(self._engine.signal_state(signal, self.pending))
            number = self._numbers[id(signal)] = self.signals[signal]
        return number

    def get_memory(self, memory: Any) -> int:
        """Returns the index of the memory's slot."""
        if memory not in self.memories:
            self.memories[memory] = len(self.slots)
            self.slots.append(self._engine.memory_state(memory, self.pending))
        return self.memories[memory]


class _ModelObserver(Observer):
    """Has the model sample its signals, and collects their changes from time to time."""

    def __init__(
        self, engine: "CompiledEngine", clock: Signal, signals: Sequence[Signal], sink: Sink
    ) -> None:
        self._model = engine.model
        self._numbers: list[int] = []
        super().__init__(engine, clock, signals, sink)
        self._touched -= set(self._numbers)

    def _watch(self, number: int, signal: Signal) -> None:
        field = self._engine.field(signal)
        if field is None:
            super()._watch(number, signal)
        else:
            self._states.append(None)
            self._numbers.append(number)
            self._model.watch(field, len(signal))

    def run(self) -> None:
        super()._sample()
        if self._model.sample():
            self.flush()

    def passed(self, cycles: int) -> None:
        """Counts cycles that the model has run and sampled by itself; passes on its recorded
        changes, if there are many.
        """
        super()._sample()
        self._cycle += cycles - 1
        if self._model.recorded >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Passes on its own and the model's changes."""
        numbers = self._numbers
        changes = [
            (cycle, numbers[index], value) for cycle, index, value in self._model.take_changes()
        ]
        self._sink(sorted(changes + self._changes) if self._changes else changes)
        self._changes = []

    def restart(self) -> None:
        super().restart()
        self._touched -= set(self._numbers)

    def finish(self) -> int:
        self._model.sample()
        return super().finish()


class CompiledEngine(Engine):
    """Runs a compiled model of the design; EngineError if the design cannot be compiled."""

    name: ClassVar[str] = "compiled"

    def __init__(self, design: Any, layout: StateLayout | None = None) -> None:
        if layout is None:
            from sim.engine.translate import compiled  # Most starts do not need the translator.

            layout = compiled(design, model_folder())
        self._layout = layout
        self.model = CompiledModel(layout.library, Messages(layout.messages), layout.settles)
        self._memories = {id(memory): place for memory, place in layout.memories}
        self._clocks: list[_Clock] = []
        self._observer: _ModelObserver | None = None
        self._awaited: tuple[Signal | None, Field | None] = (None, None)
        self._rtl = DesignProcess(self.model)
        # Attributes that the constructor of PySimEngine sets, with the compiled model for its
        # processes.
        self._design = design
        self._state: Any = _EngineState(self)
        self._processes = {self._rtl}
        self._testbenches: list[Any] = []
        self._delta_cycles = 0
        self._vcd_writers: list[Any] = []
        self._active_triggers: set[Any] = set()
        for signal in layout.inputs:
            self._state.get_signal(signal)

    @classmethod
    def missing(cls) -> str | None:
        """Returns what must be installed; None if nothing is missing."""
        return missing_tool()

    @classmethod
    def simulator(cls, design: Any) -> Simulator:
        """Returns a simulator of the design, which is elaborated only if it was not compiled
        earlier.
        """
        return simulator(cls, design)

    def field(self, signal: Signal) -> Field | None:
        """Returns the signal in the model; None for a signal of the testbench alone."""
        trace = self._layout.signals.get(signal)
        return (
            Field(self.model, trace.place)
            if trace is not None and trace.place is not None
            else None
        )

    def signal_state(self, signal: Signal, pending: set[Any]) -> Any:
        """Returns a new state for a signal."""
        field = self.field(signal)
        role = (
            self._layout.signals[signal].role
            if signal in self._layout.signals
            else SignalDriver.INPUT
        )
        if field is None:
            if role in (SignalDriver.REGISTER, SignalDriver.COMBINATIONAL) and len(signal):
                raise EngineError(
                    f"engine compiled: signal {signal.name} is not in the compiled model"
                )
            return PySignalState(signal, pending)
        if role is SignalDriver.CLOCK:
            return ClockState(signal, pending, field, self._rtl.clock_changed)
        if role is SignalDriver.RESET:
            return InputState(signal, pending, field, self._rtl.state_changed)
        if role is SignalDriver.INPUT:
            return InputState(signal, pending, field, self._rtl.input_changed)
        return DrivenState(
            signal,
            field,
            role is SignalDriver.COMBINATIONAL,
            self._rtl.input_changed,
            self._rtl.watched.append,
        )

    def memory_state(self, memory: Any, pending: set[Any]) -> Any:
        """Returns a new state for a memory."""
        if id(memory) in self._memories:
            return MemoryState(
                memory,
                pending,
                MemoryField(self.model, self._memories[id(memory)]),
                self._rtl.input_changed,
            )
        return PyMemoryState(memory, pending)

    def get_value(self, expr: Any) -> int:
        """Returns the value of an expression; signals, slices and concatenations bypass Amaranth's
        evaluation.
        """
        kind = type(expr)
        if kind is Signal:
            return self._state.slots[self._state.get_signal(expr)].curr
        if kind is Slice and type(expr.value) is Signal:
            bits = self._state.slots[self._state.get_signal(expr.value)].curr
            return bits >> expr.start & (1 << expr.stop - expr.start) - 1
        if kind is Concat:
            bits = at = 0
            for part in expr.parts:
                width = len(part)
                bits |= (self.get_value(part) & (1 << width) - 1) << at
                at += width
            return bits
        if not isinstance(expr, Value):
            return self.get_value(Value.cast(expr))
        return super().get_value(expr)

    def set_value(self, expr: Any, value: int) -> None:
        """Sets a signal; Amaranth's own method sets parts of signals."""
        target = Value.cast(expr)
        if type(target) is Signal:
            state = self._state.slots[self._state.get_signal(target)]
            if isinstance(state, InputState) and not state.signed:
                state.update(value & state.mask)
                return
        super().set_value(target, value)

    def step_design(self) -> None:
        """Settles the design; does nothing if no value has changed since."""
        if (
            self._state.pending
            or self._active_triggers
            or any(process.runnable for process in self._processes)
        ):
            super().step_design()

    def add_clock_process(self, clock: Signal, *, phase: int, period: int) -> None:
        """Adds a clock, for Simulator.add_clock."""
        process = _Clock(self._state, clock, phase=phase, period=period)
        self._clocks.append(process)
        self._processes.add(process)

    def observe(self, clock: Signal, signals: Sequence[Signal], sink: Sink) -> Observer:
        """See :meth:`.Engine.observe`; one observer per simulation."""
        if self._observer is not None:
            raise EngineError("engine compiled has one observer at a time")
        self._observer = _ModelObserver(self, clock, signals, sink)
        return self._observer

    def write_vcd(self, **_arguments: Any) -> Any:
        """Refuses Amaranth's own waveforms, which need its own engine."""
        raise EngineError(
            "engine compiled does not write Amaranth's waveforms: use sim.waves, or the engine pysim"
        )

    def leap(self, process: Any, domain: Any, count: int, until: Signal | None) -> tuple[int, bool]:
        """Runs the clock in the model, up to the next moment at which another process is due."""
        if until is not self._awaited[0]:  # It is the same signal for many leaps.
            self._awaited = (until, None if until is None else self.field(until))
        condition = self._awaited[1]
        if not self._alone(process, domain) or (until is not None and condition is None):
            return 0, False
        clock, state, timeline = (
            self._clocks[0],
            self._state.slots[self._clocks[0].slot],
            self._state.timeline,
        )
        half = clock.period // 2
        first = clock.next_edge() + (half if state.curr else 0)
        due = [time for waker, time in timeline.wakers.items() if waker is not clock.waker]
        if due:
            count = min(count, -((first - min(due)) // (2 * half)))
        if count < 1:
            return 0, False
        cycles, ended, events = self.model.run(state.field, count, condition)
        timeline.now = first + (cycles - 1) * 2 * half
        clock.put_off(timeline.now + half)
        state.jump(1)
        if self._observer is not None:
            self._observer.passed(cycles)
        self._rtl.report(events)
        return cycles, ended

    def _alone(self, process: Any, domain: Any) -> bool:
        """Whether only ``process`` waits for the clock or for changes of the design."""
        if len(self._clocks) != 1 or domain.clk_edge != "pos":
            return False
        state = self._state.slots[self._clocks[0].slot]
        if (
            state.signal is not domain.clk
            or self._rtl.runnable
            or self._active_triggers
            or self._state.pending
        ):
            return False
        observers = [] if self._observer is None else [self._observer._clock_changes]
        if state.wakers != observers or any(watched.wakers for watched in self._rtl.watched):
            return False
        others = [
            other
            for other in (*self._processes, *self._testbenches)
            if isinstance(other, AsyncProcess) and other is not process
        ]
        return not any(other.runnable or not _waits_for_time(other) for other in others)


def _waits_for_time(process: Any) -> bool:
    """Whether the process has ended, or waits only for a moment in time."""
    if process.coroutine is None:
        return True
    triggers = process.waits_on._combination._triggers
    return all(isinstance(trigger, (DelayTrigger, SampleTrigger)) for trigger in triggers)
