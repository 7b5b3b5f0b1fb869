"""Latencies of CUDA programs: launches, copies, and a whole small program, on the warp model and on
the machine in simulation.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rtl.params import SmParams
from sim.checks.benchmarks.cuda_client import footprint
from sim.checks.benchmarks.table import table
from sim.cuda.device import Device
from sim.cuda.server import Server
from sim.cuda.setup import environment
from sim.engine import Engine
from sim.runner import HardwareRunner, ModelRunner, Runner
from sim.support.command import CommandError

__all__ = [
    "GROWTH_LAUNCHES",
    "CudaRow",
    "GrowthRow",
    "cuda_rows",
    "cuda_text",
    "growth_rows",
    "growth_text",
    "measure",
]

_CLIENT = Path(__file__).with_name("cuda_client.py")
_PROGRAM = Path(__file__).parents[3] / "docs" / "examples" / "numba_add.py"
_MEMORY = 1 << 30
_LIMIT = 1_000_000_000
GROWTH_LAUNCHES = 10_000
_LAUNCHES = {"model": 200, "compiled": 50, "pysim": 1}
_AIMS = {
    ("launch", "model"): 0.002,
    ("launch", "compiled"): 0.010,
    ("up", "model"): 0.2,
    ("down", "model"): 0.2,
    ("up", "compiled"): 0.2,
    ("down", "compiled"): 0.2,
    ("program", "model"): 3,
    ("program", "compiled"): 5,
}
_TEXTS = {
    "launch": "launch of an empty kernel",
    "up": "128 MiB to the device",
    "down": "128 MiB from the device",
    "program": "numba's vector addition, the whole process",
}


@dataclass(frozen=True)
class CudaRow:
    """A measured duration in seconds, its engine, and its target; ``aim`` is None without one."""

    what: str
    engine: str
    seconds: float
    aim: float | None

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class GrowthRow:
    """Growth of a process's main memory in bytes and of its open files after a number of launches;
    ``files`` is None if they are not counted.
    """

    what: str
    launches: int
    memory: int
    files: int | None = None

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self)


def _run(server: Server, command: Sequence[str]) -> str:
    """Runs a program to its end; returns what it has printed."""
    done = subprocess.run(
        command,
        env=os.environ | environment(server.name, command),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(
            f"{Path(command[1]).name}: {(done.stderr.splitlines() or ['no message'])[-1]}"
        )
    return done.stdout


def measure(name: str, runner: Runner, program: str | None) -> Iterator[CudaRow]:
    """Yields all rows of one engine."""
    server = Server(Device(runner, _MEMORY, _LIMIT))
    try:
        figures = json.loads(
            _run(server, [sys.executable, str(_CLIENT), "times", str(_LAUNCHES[name])])
        )
        if program is not None:
            command = [program, str(_PROGRAM)]
            _run(server, command)  # Afterwards its compiled kernel is in the cache
            begin = time.perf_counter()
            _run(server, command)
            figures["program"] = time.perf_counter() - begin
    finally:
        server.close()
        server.device.memory.close()
    for what, seconds in figures.items():
        yield CudaRow(_TEXTS[what], name, seconds, _AIMS.get((what, name)))


def cuda_rows(params: SmParams, engine: type[Engine], python: str | None) -> list[CudaRow]:
    """Returns the rows of the warp model and of the machine in simulation.

    ``python`` is a Python that has numba, None for no row of numba. The row of a program is of its
    second run in a server: the machine's model and the program's kernel are compiled.
    """
    makers: dict[str, Callable[[], Runner]] = {
        "model": lambda: ModelRunner(params),
        engine.name: lambda: HardwareRunner(params, engine),
    }
    return [row for name, make in makers.items() for row in measure(name, make(), python)]


def growth_rows(params: SmParams, launches: int) -> list[GrowthRow]:
    """Returns the growth after a number of launches on the warp model: of the server, of the
    program while it runs, and of device memory after its end.

    The growth of the server includes the table of launches.
    """
    server = Server(Device(ModelRunner(params), _MEMORY, _LIMIT))
    try:
        _run(
            server, [sys.executable, str(_CLIENT), "growth", "1"]
        )  # Afterwards everything that is made once exists
        memory, files = footprint()
        room = _device_bytes(server)
        client = json.loads(_run(server, [sys.executable, str(_CLIENT), "growth", str(launches)]))
        while server.programs:
            time.sleep(0.01)
        later_memory, later_files = footprint()
        return [
            GrowthRow("the server", launches, later_memory - memory, later_files - files),
            GrowthRow("the program", launches, client["memory"], client["files"]),
            GrowthRow("device memory", launches, _device_bytes(server) - room),
        ]
    finally:
        server.close()
        server.device.memory.close()


def _device_bytes(server: Server) -> int:
    """Returns the bytes of main memory that device memory occupies."""
    return os.fstat(server.device.memory.file).st_blocks * 512


def cuda_text(rows: list[CudaRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (row.what, row.engine, f"{row.seconds:.4f}", "" if row.aim is None else f"{row.aim:g}")
        for row in rows
    ]
    return table("What a CUDA program waits for", ("what", "engine", "seconds", "aim"), lines)


def growth_text(rows: list[GrowthRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.what,
            f"{row.launches:,}",
            f"{row.memory:,}",
            f"{row.memory / row.launches:,.0f}",
            "" if row.files is None else str(row.files),
        )
        for row in rows
    ]
    return table(
        "What launches on the warp model leave behind",
        ("where", "launches", "bytes", "bytes/launch", "files"),
        lines,
    )
