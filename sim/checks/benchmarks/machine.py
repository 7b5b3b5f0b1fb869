"""A machine that runs loops of assembly text, and reports its counters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, unpack
from rtl.params import PRESETS, WARP_THREADS, SmParams
from rtl.sm import Sm
from sim.board.machine import Board
from sim.board.placing import fit
from sim.engine import CompiledEngine, Engine
from sim.engine.tape import Tape
from sim.launch import Buffer, Launch, Scalar, prepare
from sim.launch.memory import Memory
from sim.machine.base import BaseMachine, HardwareResult
from sim.machine.hardware import Hardware, Watched
from sim.support.command import CommandError
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import Module

__all__ = [
    "COUNTER",
    "LOOP_PREDICATE",
    "MACHINES",
    "BenchmarkError",
    "BenchmarkMachine",
    "LoopKernel",
    "launch_loop",
    "stall_cycles",
]

MACHINES: Mapping[str, SmParams] = MappingProxyType(
    {name: params for name, params in PRESETS.items() if params.counters}
    | {"wide": SmParams(warps=8, lanes=WARP_THREADS, registers=1024)}
)
"""Machines that can be measured: the presets with all counters, and ``full``'s width with 8 warps,
which takes less time to build.
"""
COUNTER = "R0"
"""The register that counts a loop's iterations."""
LOOP_PREDICATE = "P6"
"""The predicate that ends a loop."""
_LIMIT = 5_000_000
_BUFFER = bytes(4096)


class BenchmarkError(CommandError):
    """A program of a benchmark that fails. The message is one line with its name, and how it ended."""


@dataclass(frozen=True)
class LoopKernel:
    """A kernel that executes a body in a loop: the number of iterations is its first parameter, a
    buffer of 4 KiB its second.

    ``before`` is executed once by each warp, ``behind`` follows the kernel's EXIT. ``tail`` are the
    control codes of the loop's own three instructions; without them the assembler chooses some.
    """

    name: str
    body: str
    before: str = ""
    behind: str = ""
    directives: str = ""
    tail: tuple[str, str, str] = ("", "", "")

    def text(self) -> str:
        """Returns the program's text."""
        count, test, branch = self.tail
        return "\n".join(
            [
                ".kernel loop",
                ".param turns 4",
                ".param buffer 8",
                self.directives,
                f"MOV {COUNTER}, c[0x0][turns]",
                self.before,
                "turn:",
                self.body,
                f"{count} IADD32I {COUNTER}, {COUNTER}, -0x1",
                f"{test} ISETP.NE.AND {LOOP_PREDICATE}, PT, {COUNTER}, RZ, PT",
                f"{branch} @{LOOP_PREDICATE} BRA turn",
                "EXIT",
                self.behind,
                "",
            ]
        )

    def module(self) -> Module:
        """Returns the assembled program."""
        return load(assemble(self.text(), self.name))


def launch_loop(
    module: Module,
    iterations: int,
    warps: int,
    *,
    local: int | None = None,
    crs: int | None = None,
    memory: Memory | None = None,
) -> Launch:
    """Returns the launch of a loop on one CTA with this many warps; the other arguments are those
    of :func:`~sim.launch.prepare`.
    """
    return prepare(
        module,
        [Scalar(iterations, 4), Buffer("buffer", _BUFFER)],
        block=(WARP_THREADS * warps, 1, 1),
        local=local,
        crs=crs,
        memory=memory,
    )


def stall_cycles(module: Module) -> int:
    """Returns the sum of all stall counts in a program; a stall count of 0 takes a cycle, too."""
    content = module.code.content
    return sum(
        max(code.stall, 1)
        for at in range(0, len(content), GROUP_BYTES)
        for code in unpack(
            int.from_bytes(content[at : at + GROUP_BYTES // (GROUP_INSTRUCTIONS + 1)], "little")
        )
    )


class BenchmarkMachine:
    """A machine, built once, that runs one launch after the other.

    Parameters:
        engine: The simulation engine, or a board with the machine.
        watched: Observed signals of a machine in simulation; see
            :class:`~sim.machine.hardware.Hardware`.

    Attributes:
        cycles: Simulated cycles of the last run, including those before and after the grid.
        requests: Memory requests of the last run.
    """

    def __init__(
        self,
        params: SmParams,
        engine: type[Engine] | Board,
        watched: Callable[[Sm], Sequence[Watched]] = lambda _sm: (),
    ) -> None:
        self.params = params
        self._hardware: BaseMachine = (
            engine if isinstance(engine, Board) else Hardware(params, engine, watched=watched)
        )
        self.cycles = self.requests = 0

    def run(self, launch: Launch) -> HardwareResult:
        """Runs a launch to its end; BenchmarkError if it ends otherwise."""
        result = self._hardware.run(launch, _LIMIT)
        self.cycles = self._hardware.cycles
        if isinstance(self._hardware, Hardware):
            self.requests = self._hardware.requests
        if result.status != "ok":
            raise BenchmarkError(f"{launch.kernel.name}: {result.status} {result.reason}".rstrip())
        return result

    @property
    def memory(self) -> Memory:
        """The memory with the results of the last run."""
        return self._hardware.memory

    def tape(self, launch: Launch) -> tuple[Path, Tape] | None:
        """Returns the compiled model's library, and the recording of a launch's run; None on an
        engine without one.
        """
        engine = self._hardware.engine if isinstance(self._hardware, Hardware) else None
        if not isinstance(engine, CompiledEngine):
            return None
        tape = engine.model.record()
        try:
            self.run(launch)
        finally:
            engine.model.stop(tape)
        return engine.model.path, tape

    def steady(self, module: Module, warps: int, iterations: tuple[int, int]) -> dict[str, int]:
        """Returns the differences of the counters between two numbers of iterations of a loop; the
        cost of a launch's start and end cancels out.
        """
        short, long = (
            self.run(self._loop(module, number, warps)).counters for number in iterations
        )
        return {name: long[name] - short[name] for name in long}

    def _loop(self, module: Module, turns: int, warps: int) -> Launch:
        """Returns the launch of a loop; on a board it is fitted into its memory."""

        def place(local: int | None, crs: int | None, memory: Memory) -> tuple[Launch, Launch]:
            launch = launch_loop(module, turns, warps, local=local, crs=crs, memory=memory)
            return launch, launch

        if not isinstance(self._hardware, Board):
            return launch_loop(module, turns, warps)
        return fit(place, self._hardware.size, self.params.warps)
