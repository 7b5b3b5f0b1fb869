"""Resets of the whole machine at any time: afterwards it runs programs in lockstep, with any
content of its memories.

A program is cut off by a reset in some cycle, from its host's first register write on; then programs run to their ends,
each from a reset. Memories hold random words at power-up. The waveform shows a sweep.
"""

from collections.abc import Iterable
from random import Random
from typing import Any

from amaranth.hdl import Module, ResetInserter
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import PRESETS, SmParams
from rtl.sweep import Sweep
from rtl.words import Words
from sim.checks.testbench import Bench
from sim.engine import Engine, PysimEngine
from sim.launch import Launch
from sim.machine.host import Driver
from testbench.driver import MachineDriver
from testbench.reset.machine import ResettableMachine
from testbench.reset.programs import PROGRAMS, Program

MACHINES = ("tiny", "least")
_RESETS, _SHORT = 200, 20
_LIMIT = 10_000_000
"""Cycles that no program takes."""
_DEPTH, _INITIAL = 8, 5
_WORD_BITS = 4


class ResetDriver(MachineDriver):
    """Runs programs on a machine that is reset before each of them.

    Attributes:
        machine: That machine.
        cycles: Of each program that has run to its end: from its host's first write to there.
    """

    def __init__(
        self, params: SmParams, engine: type[Engine], contents: Random | None = None
    ) -> None:
        super().__init__(params)
        self.machine = ResettableMachine(params, engine, contents)
        self.cycles: dict[str, int] = {}

    def run(self, bench: Bench, name: str) -> None:
        """Runs a program to its end, in lockstep; it takes as many cycles as it did before."""
        program = PROGRAMS[name]()
        self._play(bench, name, program.launch, program.driver)
        if program.resumed is not None:
            self._play(bench, f"{name}, resumed", program.resumed(self.machine.memory))

    def _play(self, bench: Bench, what: str, launch: Launch, driver: Driver | None = None) -> None:
        """Runs a launch. Where a host stops it, that is how it may end."""
        result = self.machine.run(launch, _LIMIT, driver=driver)
        status = "ok" if driver is None or result.status != "error" else "error"
        self.compare(bench, f"{what} after a reset", self.machine, result, status)
        bench.expect(
            f"{what}: cycles",
            self.machine.cycles,
            self.cycles.setdefault(what, self.machine.cycles),
        )
        bench.checked("programs after a reset")

    def cut(self, bench: Bench, name: str, cycles: int) -> None:
        """Lets a program run for so many cycles, which another run's reset ends."""
        program: Program = PROGRAMS[name]()
        self.machine.cut(program.launch, cycles, program.driver)
        bench.checked("resets while a program runs")


def check_power_up(bench: Bench, driver: ResetDriver) -> None:
    """All programs on a machine whose memories held anything."""
    for name in PROGRAMS:
        driver.run(bench, name)


def check_resets(
    bench: Bench, driver: ResetDriver, count: int, *, after: int = len(PROGRAMS)
) -> None:
    """So many resets, in each program alike, at any of its cycles; ``after`` each of them so many programs run."""
    names = list(PROGRAMS)
    for number in bench.progress(range(count), f"resets of {driver.params.warps} warps"):
        name = names[number % len(names)]
        cycles = bench.random.randrange(1, driver.cycles[name])
        driver.cut(bench, name, cycles)
        for place in range(after):
            try:
                driver.run(bench, names[(number // len(names) + place) % len(names)])
            except Exception as error:
                error.add_note(f"after a reset of {name} in cycle {cycles}")
                raise


class SweptWords(Component):
    """Words with a sweep that is reset by ``reset``."""

    def __init__(self) -> None:
        super().__init__(
            {
                "reset": In(1),
                "write": In(1),
                "number": In(range(_DEPTH)),
                "word": In(_WORD_BITS),
                "read": In(range(_DEPTH)),
                "content": Out(_WORD_BITS),
            }
        )
        self.sweep = Sweep(_DEPTH)
        self.words = Words(_WORD_BITS, _DEPTH, self.sweep, _INITIAL)

    def elaborate(self, platform: object) -> Module:
        """The words, and a port of each kind."""
        m = Module()
        m.submodules.sweep, m.submodules.words = ResetInserter(self.reset)(self.sweep), self.words
        self.words.write(m, self.write, self.number, self.word)
        m.d.comb += self.content.eq(self.words.read(m, self.read))
        return m


def check_sweep(bench: Bench) -> None:
    """With any content of words, a reset restores their initial content in as many cycles as there
    are words; then they have the values written."""
    dut, random = SweptWords(), Random(bench.seed)

    async def testbench(ctx: Any) -> None:
        for _ in range(4):
            for row in range(_DEPTH):
                ctx.set(dut.words.data[row], random.randrange(1 << _WORD_BITS))
            ctx.set(dut.reset, 1)
            await ctx.tick()
            ctx.set(dut.reset, 0)
            for _ in range(_DEPTH):
                bench.expect("the sweep is under way", ctx.get(dut.sweep.active), 1)
                await ctx.tick()
            bench.expect("the sweep is under way", ctx.get(dut.sweep.active), 0)
            bench.expect(
                "what the words hold",
                [ctx.get(dut.words.data[row]) for row in range(_DEPTH)],
                [_INITIAL] * _DEPTH,
            )
            expected = [_INITIAL] * _DEPTH
            for _ in range(20):
                number, word, read = (
                    random.randrange(size) for size in (_DEPTH, 1 << _WORD_BITS, _DEPTH)
                )
                for signal, value in (
                    (dut.write, 1),
                    (dut.number, number),
                    (dut.word, word),
                    (dut.read, read),
                ):
                    ctx.set(signal, value)
                bench.expect("a word", ctx.get(dut.content), expected[read])
                await ctx.tick()
                expected[number] = word
            ctx.set(dut.write, 0)
            bench.checked("sweeps")

    bench.simulate(
        dut,
        [testbench],
        traces={
            "reset": dut.reset,
            "sweep": {"active": dut.sweep.active, "number": dut.sweep.number},
            "words": {
                "write": dut.write,
                "number": dut.number,
                "word": dut.word,
                "read": dut.read,
                "content": dut.content,
            },
        },
    )


def check_machines(bench: Bench, names: Iterable[str], count: int) -> None:
    """Machines of these presets."""
    for name in names:
        driver = ResetDriver(PRESETS[name], bench.engine, Random(f"{bench.seed} {name}"))
        check_power_up(bench, driver)
        check_resets(bench, driver, count)


def record(bench: Bench) -> None:
    """A sweep, for the waveform."""
    check_sweep(bench)


def run(bench: Bench) -> None:
    """The testbench."""
    check_sweep(bench)
    if bench.engine is PysimEngine:
        driver = ResetDriver(PRESETS["tiny"], bench.engine, Random(bench.seed))
        driver.run(bench, "traps")
        driver.cut(bench, "traps", bench.random.randrange(1, driver.cycles["traps"]))
        driver.run(bench, "traps")
        return
    check_machines(
        bench,
        ("tiny", "default", "least") if bench.thorough else MACHINES,
        _RESETS if bench.thorough else _SHORT,
    )
