"""What testbenches are written in: files ``tb_<unit>.py``, run by ``python -m sim.run_tb <unit>`` and by pytest.

A testbench is a module whose docstring's first line is its title, with a function
``run(bench)``. It simulates through its :class:`Bench`, and reports to it what it checked and
measured; the result is a :class:`Report`.

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
"""The clock's period in seconds, by default."""
BAR_DELAY = 1.0
"""A simulation that takes longer, in seconds, shows how far it is."""
BAR_STEP = 1024
"""Steps of the simulator between two looks at the bar and the limit of cycles."""


class CheckError(Exception):
    """The hardware does not do what it should: the message is the first difference."""


class Bench:
    """A testbench's way to simulate and to report.

    Attributes:
        seed: What the random numbers start from.
        random: The random numbers of this run.
        thorough: Whether the long form of the checks was asked for.
        engine: What simulates.
        report: What was found so far.
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
        """The file of the waveform, for a testbench that records it itself; None: not recorded."""
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
        """Simulates ``dut`` until all ``testbenches`` have ended; returns the clock cycles that took.

        Parameters:
            dut: What to simulate; a combinational loop in it is named.
            testbenches, background: Amaranth testbenches, in the order in which they act; ``background`` ones, which
                act first, may go on without end.
            clock: Period of the clock of the domain ``sync``, in seconds.
            traces: What to record, see :mod:`sim.waves.traces`.
            name: Tells the waveforms of several simulations of one testbench apart.
            limit: A run that is not over after so many cycles has failed.
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
        period = int(clock * 1e15)  # in femtoseconds, as the simulator counts
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
        """Runs to the end, or to the limit; ``period`` in femtoseconds."""
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
        """The file of the waveform of the simulation called ``name``."""
        if self._vcd is None or not name:
            return self._vcd
        return self._vcd.with_name(f"{self._vcd.stem}_{name}{self._vcd.suffix}")

    def progress(
        self, steps: Iterable[T], description: str, total: int | None = None
    ) -> Iterable[T]:
        """The steps, with a bar on a terminal that shows how far they are."""
        return tqdm(
            steps,
            desc=description,
            total=total,
            leave=False,
            file=sys.stderr,
            disable=not self._terminal,
        )

    def checked(self, check: str, count: int = 1) -> None:
        """Reports that ``check`` was found true ``count`` times more."""
        self.report.checks[check] = self.report.checks.get(check, 0) + count

    def figure(self, name: str, value: float, unit: str = "") -> None:
        """Reports something measured."""
        self.report.figures[name] = (value, unit)

    def table(self, title: str, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Reports a table of figures."""
        self.report.tables.append((title, [list(headings), *(list(row) for row in rows)]))

    def expect(self, description: str, got: Any, expected: Any) -> None:
        """Fails unless ``got`` equals ``expected``."""
        if got != expected:
            self.fail(f"{description}: {_shown(got)}, expected {_shown(expected)}")

    def fail(self, message: str) -> NoReturn:
        """Ends the testbench: it has failed."""
        raise CheckError(message)


def _edges(simulator: Simulator, period: int) -> int:
    """The clock edges so far; the first comes after half a period."""
    return (engine_of(simulator).now + period // 2) // period


def _shown(value: Any) -> str:
    """A value as a difference shows it: larger numbers in both bases."""
    return f"{value} ({value:#x})" if isinstance(value, int) and abs(value) > 9 else str(value)


def _difference(error: BaseException) -> str:
    """The report of a failed testbench: the message, its place, and its cycle."""
    message = str(error)
    if isinstance(error, AssertionError):
        message = message.partition("\n")[0]  # pytest adds lines
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = Path(frame.filename)
        with suppress(ValueError):
            place = place.relative_to(Path.cwd())
        message = f"{place}:{frame.lineno}: {message or frame.line}"
    return ", ".join([message.strip(), *getattr(error, "__notes__", ())])


def _how_far(report: Report) -> str:
    """What an interrupted testbench has done until then."""
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
    """Runs a testbench. Failed checks and assertions, in it or in the hardware, are reported; other errors are raised.
    So is Interrupted after Ctrl-C, when the waveform was written up to there.

    Parameters:
        name: The unit, as it is called on the command line.
        body: The testbench's ``run``.
        engine: What simulates, see :func:`sim.engine.choose`.
        seed: What its random numbers start from.
        thorough: Whether to run the long form.
        vcd: Where its waveform goes; None: nowhere.
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
