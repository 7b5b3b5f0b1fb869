"""The base of testbenches: files ``tb_<unit>.py``, run by ``python -m sim.run_tb <unit>`` and by
pytest.

A testbench is a module with a function ``run(bench)``; the first line of its docstring is the
title. It simulates through its :class:`Bench`, and reports checks and measurements to it; the
result is a :class:`Report`.

::

    def run(bench: Bench) -> None:
        dut = Counter()

        async def count(ctx: Any) -> None:
            for number in bench.progress(range(1000), "counting"):
                bench.expect("the count", ctx.get(dut.count), number)
                await ctx.tick()

        cycles = bench.simulate(dut, [count], traces={"count": dut.count})
        bench.checked("counts up", cycles)
        bench.figure("counts per cycle", 1000 / cycles)
"""

import random
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from amaranth.sim import Simulator
from tqdm import tqdm

from sim.checks.report import Report, near
from sim.engine import CombinationalCycle, Engine, engine_of, make_simulator, stop
from sim.support.interrupt import Interrupted, deferred, raise_noted, telling
from sim.waves import Tracer, Traces, View, save_file_of, write_save_file

__all__ = ["Bench", "CheckError", "run"]

T = TypeVar("T")
Testbench = Callable[[Any], Any]
"""An ``async def testbench(ctx)``."""
PERIOD = 1e-8
"""Default clock period in seconds."""
BAR_DELAY = 1.0
"""A simulation that takes longer, in seconds, shows a progress bar."""
BAR_STEP = 1024
"""Steps of the simulator between two updates of the bar and checks of the limit."""


class CheckError(Exception):
    """A failed check of the hardware: the message is the first difference."""


class Bench:
    """The interface of a testbench for simulations and reports.

    Attributes:
        seed: Seed of the random numbers.
        random: The random numbers of this run.
        thorough: Whether the long form of the checks was requested.
        engine: The simulation engine.
        report: The results so far.
    """

    def __init__(
        self,
        name: str,
        engine: type[Engine],
        *,
        seed: int = 0,
        thorough: bool = False,
        vcd: Path | None = None,
        title: str = "",
    ) -> None:
        self.engine = engine
        self.seed = seed
        self.random = random.Random(seed)
        self.thorough = thorough
        self.report = Report(name, title, engine.name, seed)
        self._vcd = vcd
        self._terminal = sys.stderr.isatty()

    @property
    def vcd(self) -> Path | None:
        """The path of the waveform, for a testbench that records it itself; None if it is not
        recorded.
        """
        return self._vcd

    def simulate(
        self,
        dut: Any,
        testbenches: Iterable[Testbench],
        *,
        background: Iterable[Testbench] = (),
        clock: float = PERIOD,
        traces: Traces | View | None = None,
        name: str = "",
        limit: int = 1_000_000,
    ) -> int:
        """Simulates ``dut`` until all ``testbenches`` have ended; returns the number of clock
        cycles.

        Parameters:
            dut: The design; the signals of a combinational loop in it are reported.
            testbenches: Amaranth testbenches, in the order in which they act.
            background: Amaranth testbenches that act before them, and may run without end.
            clock: Clock period of the domain ``sync`` in seconds.
            traces: The traces to record, see :mod:`sim.waves.traces`.
            name: Distinguishes the waveforms of several simulations of one testbench.
            limit: The run fails if it has not ended after this many cycles.
        """
        simulator = make_simulator(dut, self.engine)
        simulator.add_clock(clock)
        path, tracer = self._waveform(name), None
        if traces is not None and path is not None:
            tracer = Tracer(simulator, traces, path, period=clock, root=self.report.name)
        for testbench in background:
            simulator.add_testbench(testbench, background=True)
        for testbench in testbenches:
            simulator.add_testbench(testbench)
        period = int(clock * 1e15)  # In femtoseconds, as the simulator counts
        is_whole = True
        try:
            with deferred():
                self._advance(simulator, period, limit, name)
        except Interrupted:
            is_whole = False
            raise
        except Exception as error:
            edge = _edges(simulator, period)
            error.add_note(
                f"at clock edge {edge} ({edge * clock * 1e9:g} ns)"
                + (f" of {name}" if name else "")
            )
            raise
        finally:
            cycles = _edges(simulator, period)
            self.report.cycles += cycles
            stop(simulator)
            if tracer is not None and path is not None and traces is not None:
                tracer.close()
                if (save := save_file_of(path)) is not None and (is_whole or not save.exists()):
                    write_save_file(
                        save,
                        path,
                        traces,
                        period=clock,
                        root=self.report.name,
                        marked_cycles=tracer.marked_cycles,
                    )
                self.report.add_waveform(path, save)
        return cycles

    def _advance(self, simulator: Simulator, period: int, limit: int, name: str) -> None:
        """Runs to the end, or to the limit; ``period`` is in femtoseconds."""
        engine, deadline = engine_of(simulator), limit * period
        with tqdm(
            desc=name or self.report.name,
            unit=" cycles",
            delay=BAR_DELAY,
            leave=False,
            file=sys.stderr,
            disable=not self._terminal,
        ) as bar:
            going = True
            while going:
                for _ in range(BAR_STEP):
                    raise_noted()
                    going = simulator.advance()
                    if not going or engine.now >= deadline:
                        break
                if going and engine.now >= deadline:
                    raise CheckError(f"not over after {limit:,} cycles")
                bar.update(engine.now // period - bar.n)

    def _waveform(self, name: str) -> Path | None:
        """Returns the path of the waveform of the simulation called ``name``."""
        if self._vcd is None or not name:
            return self._vcd
        return self._vcd.with_name(f"{self._vcd.stem}_{name}{self._vcd.suffix}")

    def progress(
        self, steps: Iterable[T], description: str, total: int | None = None
    ) -> Iterable[T]:
        """Iterates over the steps, with a progress bar on a terminal."""
        return tqdm(
            steps,
            desc=description,
            total=total,
            leave=False,
            file=sys.stderr,
            disable=not self._terminal,
        )

    def checked(self, check: str, count: int = 1) -> None:
        """Reports ``count`` more successful checks of ``check``."""
        self.report.checks[check] = self.report.checks.get(check, 0) + count

    def figure(self, name: str, value: float, unit: str = "") -> None:
        """Reports a measured value."""
        self.report.figures[name] = (value, unit)

    def table(self, title: str, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Reports a table of figures."""
        self.report.tables.append((title, [list(headings), *(list(row) for row in rows)]))

    def expect(self, description: str, got: Any, expected: Any) -> None:
        """Fails unless ``got`` equals ``expected``."""
        if got != expected:
            self.fail(f"{description}: {_shown(got)}, expected {_shown(expected)}")

    def fail(self, message: str) -> NoReturn:
        """Ends the testbench as failed."""
        raise CheckError(message)


def _edges(simulator: Simulator, period: int) -> int:
    """Returns the number of clock edges so far; the first comes after half a period."""
    return (engine_of(simulator).now + period // 2) // period


def _shown(value: Any) -> str:
    """Formats a value for a difference: larger numbers in both bases."""
    return f"{value} ({value:#x})" if isinstance(value, int) and abs(value) > 9 else str(value)


def _difference(error: BaseException) -> str:
    """Returns the report of a failed testbench: the message, its place, and its cycle."""
    message = str(error)
    if isinstance(error, AssertionError):
        message = message.partition("\n")[0]  # pytest appends lines
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = Path(frame.filename)
        with suppress(ValueError):
            place = place.relative_to(Path.cwd())
        message = f"{place}:{frame.lineno}: {message or frame.line}"
    return ", ".join([message.strip(), *getattr(error, "__notes__", ())])


def _how_far(report: Report) -> str:
    """Returns the progress of an interrupted testbench."""
    waveforms = "".join(f"; {near(vcd)} goes up to there" for vcd, _ in report.waveforms)
    return f"after {report.cycles:,} cycles{waveforms}"


def run(
    name: str,
    body: Callable[[Bench], None],
    engine: type[Engine],
    *,
    seed: int = 0,
    thorough: bool = False,
    vcd: Path | None = None,
    title: str = "",
) -> Report:
    """Runs a testbench; returns its report.

    Failed checks and assertions, in it or in the hardware, are part of the report; other errors are
    raised. So is Interrupted after Ctrl-C, after the waveform up to there was written.

    Parameters:
        name: The unit, as on the command line.
        body: The testbench's ``run``.
        engine: The simulation engine, see :func:`sim.engine.choose`.
        seed: Seed of its random numbers.
        thorough: Whether to run the long form.
        vcd: Path of its waveform; None: it is not recorded.
        title: What it checks, in one line.
    """
    bench = Bench(name, engine, seed=seed, thorough=thorough, vcd=vcd, title=title)
    start = time.monotonic()
    try:
        with telling(lambda: _how_far(bench.report)):
            body(bench)
    except (CheckError, AssertionError, CombinationalCycle) as error:
        bench.report.failure = _difference(error)
    bench.report.seconds = time.monotonic() - start
    return bench.report
