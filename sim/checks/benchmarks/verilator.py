"""Speed of the compiled engine's model compared with Verilator's model of the same machine.

Both replay the recording of a run, without Python, a memory or a testbench. Verilator's model is
that of the machine without its retirement interface; its outputs are compared with the recorded
ones in every cycle.
"""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from rtl.fpga.flat import FlatSm
from sim.checks.benchmarks.machine import BenchmarkError, BenchmarkMachine
from sim.checks.benchmarks.speed import speed_programs
from sim.checks.benchmarks.table import table
from sim.engine import CompiledEngine
from sim.engine.tape import build_replay, replayed_seconds
from sim.fpga.ecp5 import missing_tool
from sim.fpga.verilog import verilog_of
from sim.launch import Launch
from testbench.fpga.replay import QUICK_TO_RUN, Recording, ReplayError, build, play, record

__all__ = [
    "VerilatorRow",
    "missing_verilator",
    "verilator_rows",
    "verilator_text",
]

_TURNS = 3
"""Number of replays of each run by each model, alternately; the fastest is reported."""


@dataclass(frozen=True)
class VerilatorRow:
    """A program, and the simulated cycles and processor seconds of each model. The models' cycles
    differ by those of the reset.
    """

    program: str
    compiled_cycles: int
    compiled_seconds: float
    verilator_cycles: int
    verilator_seconds: float

    @property
    def compiled_per_second(self) -> float:
        """Cycles per second of the compiled engine's model."""
        return self.compiled_cycles / self.compiled_seconds

    @property
    def verilator_per_second(self) -> float:
        """Cycles per second of Verilator's model."""
        return self.verilator_cycles / self.verilator_seconds

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {
            "compiled_per_second": self.compiled_per_second,
            "verilator_per_second": self.verilator_per_second,
        }


def missing_verilator() -> str | None:
    """Returns the reason why Verilator cannot be used here, in one line; None if it can."""
    if shutil.which("verilator") is None:
        return "verilator is not installed"
    return missing_tool("yosys")


def verilator_rows(
    machine: BenchmarkMachine, iterations: int, brief: bool, say: Callable[[str], None]
) -> list[VerilatorRow]:
    """Returns a row for every program of the benchmark ``speed``, or only for the first one.
    ``say`` reports long steps.

    Raises BenchmarkError if a tool fails, or if the outputs of Verilator's model differ.
    """

    def programs() -> Iterable[tuple[str, Launch]]:
        return speed_programs(machine, CompiledEngine.name, iterations, brief)

    with TemporaryDirectory() as name:
        folder = Path(name)
        try:
            # The warp model, with which a recording is compared, changes the memory of its launch.
            recordings = [_recorded(machine, launch, say) for _, launch in programs()]
            verilated = _verilated(machine, recordings[0], folder, say)
            replay = folder / "replay"
            build_replay(replay)
            return [
                _row(program, machine, launch, recording, replay, verilated)
                for (program, launch), recording in zip(programs(), recordings, strict=True)
            ]
        except ReplayError as error:
            raise BenchmarkError(str(error)) from None


def _recorded(machine: BenchmarkMachine, launch: Launch, say: Callable[[str], None]) -> Recording:
    """Records the values at the machine's ports in a run."""
    say(f"{launch.kernel.name}: a run to record")
    return record(machine.params, CompiledEngine, launch)


def _verilated(
    machine: BenchmarkMachine, recording: Recording, folder: Path, say: Callable[[str], None]
) -> Path:
    """Returns the program that replays recordings on Verilator's model of the machine."""
    source = folder / "top.v"
    source.write_text(verilog_of(FlatSm(machine.params), folder, say), encoding="utf-8")
    say("Verilator's model")
    begin = perf_counter()
    program = build([source], recording, folder, QUICK_TO_RUN)
    say(f"Verilator's model took {perf_counter() - begin:.0f} s to build")
    return program


def _row(
    program: str,
    machine: BenchmarkMachine,
    launch: Launch,
    recording: Recording,
    replay: Path,
    verilated: Path,
) -> VerilatorRow:
    """Replays a run on both models."""
    taped = machine.tape(launch)
    assert taped is not None
    library, tape = taped
    path = replay.with_name("run.tape")
    tape.write(path)
    compiled, played = [], []
    for _ in range(_TURNS):
        compiled.append(replayed_seconds(replay, library, path, tape.cycles))
        played.append(play(verilated, recording))
    return VerilatorRow(
        program,
        tape.cycles,
        min(compiled),
        played[0].cycles,
        min(each.seconds for each in played),
    )


def verilator_text(rows: list[VerilatorRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.program,
            f"{row.compiled_cycles:,}",
            f"{row.compiled_per_second:,.0f}",
            f"{row.verilator_per_second:,.0f}",
            f"{row.compiled_per_second / row.verilator_per_second:.2f}",
        )
        for row in rows
    ]
    return table(
        "Speed of the model alone, by second of processor, the best of several runs",
        ("program", "cycles", "compiled: cycles/second", "Verilator: cycles/second", "ratio"),
        lines,
    )
