"""The waveform of a simulation as a VCD file, the same bytes in every run and on every engine.

Signals are sampled once a clock cycle. Cycle n takes the time from n to n + 1 periods and shows what the clock edge at
its end finds; its own rising edge of ``clk`` is at its beginning. So values change with the clock, as in hardware whose
gates take no time.
"""

from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from amaranth.hdl import Signal
from vcd import VCDWriter

from sim.command import OutputFile
from sim.engine import Change, Sink, observe_all
from sim.waves.traces import Leaf, Traces, flatten

__all__ = ["CLOCK", "NUMBER", "Tracer", "timescale"]

CLOCK = "clk"
"""The name of the clock in the root scope."""
NUMBER = "_bits"
"""What the name of an enumeration's number ends with; the name itself is that of the text."""
_UNITS = ("s", "ms", "us", "ns", "ps", "fs")


def timescale(period: float) -> tuple[str, int]:
    """The coarsest VCD timescale that half of ``period`` seconds is a multiple of, and the period in its units."""
    femtoseconds = round(period * 1e15)
    for exponent in range(15, -1, -1):
        if femtoseconds % (2 * 10**exponent) == 0:
            magnitude, unit = 10 ** (exponent % 3), _UNITS[5 - exponent // 3]
            return f"{magnitude} {unit}", femtoseconds // 10**exponent
    raise ValueError(f"a clock period of {period} s is not a multiple of 2 fs")


class _Leaf:
    """The variables of a leaf: its number, and its text where it is an enumeration."""

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
        """What the text shows; the number where it has no name."""
        assert self.names is not None
        return self.names.get(bits) or hex(bits)


class _Signal:
    """A traced signal: its leaves, and its value now."""

    def __init__(self) -> None:
        self.leaves: list[_Leaf] = []
        self._value = 0

    def begin(self, writer: VCDWriter, value: int) -> None:
        """Sets the first value."""
        self._value = value
        for leaf in self.leaves:
            bits = value >> leaf.start & leaf.mask
            writer.change(leaf.number, 0, bits)
            if leaf.text is not None:
                writer.change(leaf.text, 0, leaf.name(bits))

    def change(self, value: int, lines: list[str]) -> None:
        """Adds the lines for what is new in ``value``."""
        new = self._value ^ value
        self._value = value
        for leaf in self.leaves:
            if new >> leaf.start & leaf.mask:
                bits = value >> leaf.start & leaf.mask
                lines.append(f"{leaf.prefix}{bits:b}{leaf.suffix}")
                if leaf.text is not None:
                    lines.append(f"s{leaf.name(bits)} {leaf.text.ident}")


class Tracer:
    """Writes the waveform of one simulation. Make it before the simulation runs, close it whatever happens.

    Parameters:
        simulator: With an engine of :mod:`sim.engine`.
        traces: What to record.
        path: The file; it appears when the tracer is closed.
        period: Of the clock, in seconds.
        root: The scope around everything.
        domain: The clock domain whose cycles are recorded.
        beside (sequence of signals and sink): What else is to be observed, by others.
    """

    def __init__(self, simulator: Any, traces: Traces, path: Path, *, period: float, root: str = "top",
                 domain: str = "sync", beside: Sequence[tuple[Sequence[Signal], Sink]] = ()) -> None:
        self.path = path
        self._signals: list[_Signal] = []
        leaves = flatten(traces)
        unit, self._period = timescale(period)
        self._file = OutputFile(path, folders=True)
        # pyvcd writes the header and cycle 0; the rest, which is most of the work, is simple.
        self._beginning = StringIO()
        self._header = writer = VCDWriter(self._beginning, timescale=unit, date="", comment="", version="")
        self._clock = writer.register_var((root,), CLOCK, "wire", size=1, init=1).ident
        self._cycle = 0
        numbers: dict[int, int] = {}
        signals = []
        for leaf in leaves:
            if id(leaf.signal) not in numbers:
                numbers[id(leaf.signal)] = len(signals)
                signals.append(leaf.signal)
                self._signals.append(_Signal())
            self._signals[numbers[id(leaf.signal)]].leaves.append(_Leaf(writer, root, leaf))
        self._observer = observe_all(simulator, [(signals, self._take), *beside], domain=domain)

    def _tick_to(self, cycle: int, lines: list[str]) -> None:
        """Adds the clock's edges up to the rising one of ``cycle``."""
        clock, period = self._clock, self._period
        lines.extend(f"#{passed * period - period // 2}\n0{clock}\n#{passed * period}\n1{clock}"
                     for passed in range(self._cycle + 1, cycle + 1))
        self._cycle = cycle

    def _take(self, changes: list[Change]) -> None:
        """Writes changes, in their order."""
        lines: list[str] = []
        for cycle, number, value in changes:
            if cycle == 0:
                self._signals[number].begin(self._header, value)
                continue
            if cycle != self._cycle:
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
        """Records the last cycle, as far as it came, and puts the file in its place."""
        last = self._observer.finish()
        if self._cycle == 0:
            self._write_beginning()
        lines: list[str] = []
        self._tick_to(last, lines)
        lines.append(f"#{last * self._period + self._period // 2}\n0{self._clock}\n#{(last + 1) * self._period}")
        self._write(lines)
        self._file.close()
