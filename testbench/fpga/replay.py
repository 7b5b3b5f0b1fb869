"""The machine in other tools, against the machine in simulation: inputs are replayed, outputs
compared in every cycle.

:func:`record` runs a launch in the project's simulation, whose final memory must be that of the
warp model, and records all ports of the machine. :func:`build` makes a program of Verilog with the
ports of :class:`~rtl.fpga.flat.FlatSm`, with Verilator, and :func:`play` replays the recording on
it.
"""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from amaranth.lib import wiring
from numpy.typing import NDArray

from rtl.fpga.bare import PORTS
from rtl.fpga.flat import plain_ports
from rtl.params import SmParams
from rtl.sm import Sm
from sim.engine import Change, Engine
from sim.launch import Launch, prepare
from sim.launch.arguments import parse_arguments
from sim.launch.programs import read_program
from sim.machine.comparison import memory_difference
from sim.machine.hardware import Hardware, Watched
from sim.model.warp.model import WarpModel
from testbench.programs import RECURSION

_WORD_BITS = 32
_RENAMED = {"interrupt": "__SYM__interrupt"}
"""Ports whose names are keywords of a C++ dialect, and Verilator's names for them."""
_LIMIT = 1_000_000
_OPTIONS = (
    "-O3",
    "--x-assign",
    "0",
    "--x-initial",
    "0",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "-Wno-PINMISSING",
    "-Wno-UNOPTFLAT",
)
QUICK_TO_BUILD = "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
"""Options of make for a model that runs once."""
QUICK_TO_RUN = "OPT_FAST=-O2 OPT_SLOW=-O1 OPT_GLOBAL=-O2"
"""Options of make for a model that must be fast."""


class ReplayError(Exception):
    """A difference in a run, or a tool that fails; the message is one line."""


@dataclass(frozen=True)
class Port:
    """A port. Its values are in consecutive words of a recording's row, the first of which is
    ``first``.
    """

    name: str
    is_input: bool
    width: int
    first: int

    @property
    def words(self) -> int:
        """Number of words."""
        return -(-self.width // _WORD_BITS)


@dataclass
class Recording:
    """The values of a machine's ports just before each rising edge of the clock: a row of words for
    each cycle.
    """

    ports: list[Port]
    rows: NDArray[np.uint32]


@dataclass(frozen=True)
class Played:
    """Number of cycles in which the outputs were those of a recording, and the processor time in
    seconds.
    """

    cycles: int
    seconds: float


class Recorder:
    """Records the ports of a component in simulation, or those of some of its members.

    Attributes:
        signals: The signals to observe.
    """

    def __init__(self, component: wiring.Component, members: Sequence[str] = ()) -> None:
        self._ports = list(plain_ports(component, members))
        self.signals = list({id(port.signal): port.signal for port in self._ports}.values())
        self._changes: list[list[tuple[int, int]]] = [[] for _ in self.signals]

    def take(self, changes: list[Change]) -> None:
        """Records the changes from an observer of the signals."""
        for cycle, number, value in changes:
            self._changes[number].append((cycle, value))

    def recording(self, cycles: int) -> Recording:
        """Returns the recording of this number of cycles."""
        ports: list[Port] = []
        for port in self._ports:
            first = ports[-1].first + ports[-1].words if ports else 0
            ports.append(Port(port.name, port.flow is wiring.In, port.shape.width, first))
        rows = np.zeros((cycles, ports[-1].first + ports[-1].words), np.uint32)
        numbers = {id(signal): number for number, signal in enumerate(self.signals)}
        for plain, port in zip(self._ports, ports, strict=True):
            changes = self._changes[numbers[id(plain.signal)]]
            for (cycle, value), (end, _) in zip(changes, [*changes[1:], (cycles, 0)], strict=True):
                part = (value >> plain.offset & (1 << port.width) - 1).to_bytes(
                    4 * port.words, "little"
                )
                rows[cycle:end, port.first : port.first + port.words] = np.frombuffer(part, "<u4")
        return Recording(ports, rows)


def recursion(threads: int) -> Launch:
    """Returns a launch that computes Fibonacci numbers by divergent calls."""
    return prepare(
        read_program(RECURSION), parse_arguments([f"buf:OUT=u32[{threads}]"]), block=(threads, 1, 1)
    )


def record(params: SmParams, engine: type[Engine], launch: Launch) -> Recording:
    """Runs a launch and records the ports of the machine, except its retirement interface.

    Raises ReplayError if it does not end, or if its memory differs from the warp model's.
    """
    recorders: list[Recorder] = []

    def watched(sm: Sm) -> list[Watched]:
        recorders.append(Recorder(sm, PORTS))
        return [(recorders[0].signals, recorders[0].take)]

    hardware = Hardware(params, engine, watched=watched)
    result = hardware.run(launch, _LIMIT)
    model = WarpModel(launch, warps=params.warps)
    if result.status != "ok" or model.run(_LIMIT).status != "ok":
        raise ReplayError(f"the run to record does not end: {result.status} {result.reason}")
    if (where := memory_difference(hardware.memory, model.memory)) is not None:
        raise ReplayError(f"the run to record leaves another memory than the warp model: {where}")
    return recorders[0].recording(hardware.cycles)


def _driver(ports: Sequence[Port]) -> str:
    """Returns the C++ program that replays a recording.

    Its exit code is 0 and its output the number of cycles and the processor time in seconds, or 1
    and the first difference.
    """
    put, compare = [], []
    for port in ports:
        name, at = f"top.{_RENAMED.get(port.name, port.name)}", port.first
        if port.words > 2:
            put.append(f"for (int n = 0; n < {port.words}; n++) {name}[n] = row[{at} + n];")
            compare.append(
                f'for (int n = 0; n < {port.words}; n++) same("{port.name}", {name}[n], row[{at} + n]);'
            )
        else:
            value = f"row[{at}]" + (f" | (uint64_t)row[{at + 1}] << 32" if port.words == 2 else "")
            put.append(f"{name} = {value};")
            compare.append(f'same("{port.name}", {name}, {value});')
    inputs = "\n        ".join(line for line, port in zip(put, ports, strict=True) if port.is_input)
    outputs = "\n        ".join(
        line for line, port in zip(compare, ports, strict=True) if not port.is_input
    )
    return f"""\
#include "Vtop.h"
#include "verilated.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

static unsigned long cycle;

static void same(const char *name, uint64_t found, uint64_t expected) {{
    if (found != expected) {{
        printf("cycle %lu: %s is %#llx, not %#llx\\n", cycle, name, (unsigned long long)found,
               (unsigned long long)expected);
        exit(1);
    }}
}}

int main(int, char **arguments) {{
    const size_t words = {ports[-1].first + ports[-1].words};
    static Vtop top;
    FILE *file = fopen(arguments[1], "rb");
    fseek(file, 0, SEEK_END);
    const size_t cycles = ftell(file) / (words * sizeof(uint32_t));
    rewind(file);
    std::vector<uint32_t> rows(cycles * words);
    if (fread(rows.data(), words * sizeof(uint32_t), cycles, file) != cycles)
        return 1;
    const clock_t begin = clock();
    top.rst = 0;
    for (; cycle < cycles; cycle++) {{
        const uint32_t *row = &rows[cycle * words];
        {inputs}
        top.clk = 0;
        top.eval();
        {outputs}
        top.clk = 1;
        top.eval();
    }}
    printf("%lu %.6f\\n", cycle, double(clock() - begin) / CLOCKS_PER_SEC);
    return 0;
}}
"""


def build(
    sources: Sequence[Path], recording: Recording, folder: Path, options: str = QUICK_TO_BUILD
) -> Path:
    """Builds a program that replays recordings on Verilog with the top module ``top`` and the
    recording's ports.

    The tools' files are left in ``folder``; ``options`` are those of make. Raises ReplayError if a
    tool fails.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "driver.cc").write_text(_driver(recording.ports), encoding="utf-8")
    _run(
        [
            "verilator",
            "--cc",
            "--exe",
            "--build",
            "-j",
            "2",
            "--top-module",
            "top",
            "--Mdir",
            "model",
            *_OPTIONS,
            "-MAKEFLAGS",
            options,
            *(str(source.resolve()) for source in sources),
            "driver.cc",
        ],
        folder,
    )
    return folder / "model" / "Vtop"


def play(program: Path, recording: Recording) -> Played:
    """Replays a recording. Raises ReplayError with the first difference."""
    with tempfile.NamedTemporaryFile() as rows:
        recording.rows.astype("<u4").tofile(rows.name)
        cycles, seconds = _run([str(program), rows.name], program.parent).split()
    return Played(int(cycles), float(seconds))


def _run(command: list[str], folder: Path) -> str:
    """Runs a tool and returns its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        errors = [line for line in lines if "error" in line.lower()] or lines[-1:] or ["no output"]
        raise ReplayError(f"{Path(command[0]).name}: {errors[0]}")
    return done.stdout
