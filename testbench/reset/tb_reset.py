"""Resets of the whole machine at any time, with any content of its memories.

A program is cut off by a reset in a random cycle, from its host's first register write on. Then
programs run to their ends in lockstep, each from a reset. Memories hold random words at power-up.
The waveform shows a sweep.
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
"""Timeout in cycles of a program."""
_DEPTH, _INITIAL = 8, 5
_WORD_BITS = 4


class ResetDriver(MachineDriver):
    """Runs programs on a machine that is reset before each of them.

    Attributes:
        machine: The machine.
        cycles: For each program, the cycles from its host's first write to its end.
    """

    def __init__(
        self, params: SmParams, engine: type[Engine], contents: Random | None = None
    ) -> None:
        super().__init__(params)
        self.machine = ResettableMachine(params, engine, contents)
        self.cycles: dict[str, int] = {}

    def run(self, bench: Bench, name: str) -> None:
        """Runs a program to its end, in lockstep. It must take as many cycles as in every other
        run.
        """
        program = PROGRAMS[name]()
        self._play(bench, name, program.launch, program.driver)
        if program.resumed is not None:
            self._play(bench, f"{name}, resumed", program.resumed(self.machine.memory))

    def _play(self, bench: Bench, what: str, launch: Launch, driver: Driver | None = None) -> None:
        """Runs a launch. It may end with an error if a host stops it."""
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
        """Runs a program for ``cycles`` cycles; the reset of the next run cuts it off."""
        program: Program = PROGRAMS[name]()
        self.machine.cut(program.launch, cycles, program.driver)
        bench.checked("resets while a program runs")


def check_power_up(bench: Bench, driver: ResetDriver) -> None:
    """All programs on a machine whose memories have random content."""
    for name in PROGRAMS:
        driver.run(bench, name)


def check_resets(
    bench: Bench, driver: ResetDriver, count: int, *, after: int = len(PROGRAMS)
) -> None:
    """``count`` resets, distributed over all programs, in random cycles. After each of them
    ``after`` programs run.
    """
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
    """Words with a sweep that ``reset`` restarts."""

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
        """Connects the write port and the read port of the words."""
        m = Module()
        m.submodules.sweep, m.submodules.words = ResetInserter(self.reset)(self.sweep), self.words
        self.words.write(m, self.write, self.number, self.word)
        m.d.comb += self.content.eq(self.words.read(m, self.read))
        return m


def check_sweep(bench: Bench) -> None:
    """After a reset a sweep restores the initial content of all words, one per cycle, whatever they
    held; then they can be written and read.
    """
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
    """Power-up and resets of the machines of these presets."""
    for name in names:
        driver = ResetDriver(PRESETS[name], bench.engine, Random(f"{bench.seed} {name}"))
        check_power_up(bench, driver)
        check_resets(bench, driver, count)


def record(bench: Bench) -> None:
    """Runs a sweep for the waveform."""
    check_sweep(bench)


def run(bench: Bench) -> None:
    """Runs the testbench."""
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
