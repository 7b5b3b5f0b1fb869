"""Writes the waveform of a simulation as a VCD file, identical in every run and on every engine; or
as FST, converted from it.

Signals are sampled once a clock cycle. Cycle n extends from n to n + 1 periods and shows the values
that the clock edge at its end sees; its rising edge of ``clk`` is at its beginning. So values
change with the clock, as in hardware whose gates have no delay.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from amaranth.hdl import Signal
from vcd import VCDWriter

from sim.engine import Change, Sink, observe_all
from sim.support.command import OutputFile
from sim.waves.fst import FstFile, is_fst
from sim.waves.traces import Bits, Leaf, Mark, TextLeaf, Traces, View, bits_of, flatten, view_of

__all__ = ["CLOCK", "NUMBER", "Tracer", "timescale"]

CLOCK = "clk"
"""The name of the clock in the root scope."""
NUMBER = "_bits"
"""Suffix of the name of an enumeration's number; the name without it is that of its text."""
_UNITS = ("s", "ms", "us", "ns", "ps", "fs")


def timescale(period: float) -> tuple[str, int]:
    """Returns the coarsest VCD timescale of which half of ``period`` seconds is a multiple, and the
    period in its units.
    """
    femtoseconds = round(period * 1e15)
    for exponent in range(15, -1, -1):
        if femtoseconds % (2 * 10**exponent) == 0:
            magnitude, unit = 10 ** (exponent % 3), _UNITS[5 - exponent // 3]
            return f"{magnitude} {unit}", femtoseconds // 10**exponent
    raise ValueError(f"a clock period of {period} s is not a multiple of 2 fs")


class _Leaf:
    """The variables of a leaf: its number, and its text if it is an enumeration."""

    def __init__(self, writer: VCDWriter, root: str, leaf: Leaf) -> None:
        scope, name = (root, *leaf.path[:-1]), leaf.path[-1]
        self.names = leaf.names
        self.text = None
        if leaf.names is not None:
            self.text = writer.register_var(scope, name, "string", init="")
            name += NUMBER
        self.number = writer.register_var(scope, name, "wire", size=leaf.width, init=0)
        self.start, self.mask = leaf.start, (1 << leaf.width) - 1
        self.prefix, separator = ("", "") if leaf.width == 1 else ("b", " ")
        self.suffix = separator + self.number.ident

    def name(self, bits: int) -> str:
        """Returns the text of a value; the number if it has no name."""
        assert self.names is not None
        return self.names.get(bits) or hex(bits)


class _Watcher(ABC):
    """Evaluates the values of some signals in the cycles in which one of them has changed."""

    variable: Any = None
    """The VCD variable of its text, if it has one."""

    def __init__(self, sources: Sequence[Bits]) -> None:
        self.sources = sources
        self.numbers = [-1] * len(sources)  # No value is known before cycle 0.
        self.new = False

    def take(self, place: int, value: int) -> None:
        """Sets the new value of the signal of a source."""
        _, start, width = self.sources[place]
        number = value >> start & (1 << width) - 1
        if number != self.numbers[place]:
            self.numbers[place], self.new = number, True

    @abstractmethod
    def look(self, cycle: int) -> str | None:
        """Evaluates the values at the end of a cycle; returns the new text, None if it has not
        changed.
        """


class _TextVariable(_Watcher):
    """Text that is computed from signals."""

    def __init__(self, writer: VCDWriter, root: str, leaf: TextLeaf) -> None:
        super().__init__(leaf.sources)
        self.variable = writer.register_var(
            (root, *leaf.path[:-1]), leaf.path[-1], "string", init=""
        )
        self._decode, self._shown = leaf.decode, ""

    def look(self, cycle: int) -> str | None:
        text = self._decode(*self.numbers)
        if text is None or text == self._shown:
            return None
        self._shown = text
        return text


class _Mark(_Watcher):
    """An event that is awaited, for a marker."""

    def __init__(self, mark: Mark) -> None:
        super().__init__([bits_of(signal, mark.name) for signal in mark.signals])
        self.mark = mark
        self.cycle: int | None = None

    def look(self, cycle: int) -> str | None:
        if self.cycle is None and self.mark.holds(self.numbers):
            self.cycle = cycle


class _Signal:
    """A traced signal: its leaves, and its current value."""

    def __init__(self) -> None:
        self.leaves: list[_Leaf] = []
        self.watchers: list[tuple[_Watcher, int]] = []
        self._value = 0

    def begin(self, writer: VCDWriter, value: int) -> None:
        """Writes the first value."""
        self._value = value
        for watcher, place in self.watchers:
            watcher.take(place, value)
        for leaf in self.leaves:
            bits = value >> leaf.start & leaf.mask
            writer.change(leaf.number, 0, bits)
            if leaf.text is not None:
                writer.change(leaf.text, 0, leaf.name(bits))

    def change(self, value: int, lines: list[str]) -> None:
        """Appends the VCD lines for the changes in ``value``."""
        new = self._value ^ value
        self._value = value
        for watcher, place in self.watchers:
            watcher.take(place, value)
        for leaf in self.leaves:
            if new >> leaf.start & leaf.mask:
                bits = value >> leaf.start & leaf.mask
                lines.append(f"{leaf.prefix}{bits:b}{leaf.suffix}")
                if leaf.text is not None:
                    lines.append(f"s{leaf.name(bits)} {leaf.text.ident}")


class Tracer:
    """Writes the waveform of one simulation. Make it before the simulation runs, and close it in
    every case.

    Parameters:
        simulator: A simulator with an engine of :mod:`sim.engine`.
        traces: The traces to record.
        path: The file, which appears when the tracer is closed. With the suffix of FST it is an
            FST.
        period: Clock period in seconds.
        root: Name of the scope around all traces.
        domain: The clock domain whose cycles are recorded.
        beside (sequence of signals and sink): Further signals to observe, with their receivers.
    """

    def __init__(
        self,
        simulator: Any,
        traces: Traces | View,
        path: Path,
        *,
        period: float,
        root: str = "top",
        domain: str = "sync",
        beside: Sequence[tuple[Sequence[Signal], Sink]] = (),
    ) -> None:
        self.path = path
        self._signals: list[_Signal] = []
        view = view_of(traces)
        unit, self._period = timescale(period)
        self._file = FstFile(path) if is_fst(path) else OutputFile(path)
        # pyvcd writes the header and cycle 0; the rest, which is most of the work, is simple.
        self._beginning = StringIO()
        self._header = writer = VCDWriter(
            self._beginning, timescale=unit, date="", comment="", version=""
        )
        self._clock = writer.register_var((root,), CLOCK, "wire", size=1, init=1).ident
        self._cycle = 0
        self._numbers: dict[int, int] = {}
        self._observed: list[Signal] = []
        self._marks = [_Mark(mark) for mark in view.marks]
        self._watchers: list[_Watcher] = []
        for leaf in flatten(view.traces):
            if isinstance(leaf, TextLeaf):
                self._watch(_TextVariable(writer, root, leaf))
            else:
                self._signal(leaf.signal).leaves.append(_Leaf(writer, root, leaf))
        for mark in self._marks:
            self._watch(mark)
        self._observer = observe_all(
            simulator, [(self._observed, self._take), *beside], domain=domain
        )

    @property
    def marked_cycles(self) -> dict[str, int]:
        """The cycles of the marked events that have happened."""
        return {mark.mark.name: mark.cycle for mark in self._marks if mark.cycle is not None}

    def _signal(self, signal: Signal) -> _Signal:
        """Returns the traced signal, which is observed from now on."""
        number = self._numbers.setdefault(id(signal), len(self._observed))
        if number == len(self._observed):
            self._observed.append(signal)
            self._signals.append(_Signal())
        return self._signals[number]

    def _watch(self, watcher: _Watcher) -> None:
        self._watchers.append(watcher)
        for place, (signal, *_) in enumerate(watcher.sources):
            self._signal(signal).watchers.append((watcher, place))

    def _look(self, lines: list[str]) -> None:
        """Ends a cycle for the watchers."""
        for watcher in self._watchers:
            if watcher.new:
                watcher.new = False
                if (text := watcher.look(self._cycle)) is None:
                    continue
                if self._cycle == 0:
                    self._header.change(watcher.variable, 0, text)
                else:
                    lines.append(watcher.variable.format_value(text))

    def _tick_to(self, cycle: int, lines: list[str]) -> None:
        """Appends the clock's edges up to the rising one of ``cycle``."""
        clock, period = self._clock, self._period
        lines.extend(
            f"#{passed * period - period // 2}\n0{clock}\n#{passed * period}\n1{clock}"
            for passed in range(self._cycle + 1, cycle + 1)
        )
        self._cycle = cycle

    def _take(self, changes: list[Change]) -> None:
        """Writes changes, in their order."""
        lines: list[str] = []
        for cycle, number, value in changes:
            if cycle == 0:
                self._signals[number].begin(self._header, value)
                continue
            if cycle != self._cycle:
                self._look(lines)
                if self._cycle == 0:
                    self._write_beginning()
                self._tick_to(cycle, lines)
            self._signals[number].change(value, lines)
        self._write(lines)

    def _write_beginning(self) -> None:
        self._header.flush()
        self._file.write(self._beginning.getvalue().encode())

    def _write(self, lines: Iterable[str]) -> None:
        self._file.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Records the last cycle, as far as it was simulated, and moves the file into place."""
        last = self._observer.finish()
        lines: list[str] = []
        self._look(lines)
        if self._cycle == 0:
            self._write_beginning()
        self._tick_to(last, lines)
        lines.append(
            f"#{last * self._period + self._period // 2}\n0{self._clock}\n#{(last + 1) * self._period}"
        )
        self._write(lines)
        self._file.close()
