"""A machine in simulation that runs loops of assembly text and counts."""

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
"""Machines that can be measured: the presets with all counters, and ``full``'s width with 8 warps, which is built in
less time."""
COUNTER = "R0"
"""The register that counts a loop's iterations."""
LOOP_PREDICATE = "P6"
"""The predicate that ends a loop."""
_LIMIT = 5_000_000
_BUFFER = bytes(4096)


class BenchmarkError(CommandError):
    """A program of a benchmark that does not run to its end: one line with its name, and how it
    ended."""


@dataclass(frozen=True)
class LoopKernel:
    """A kernel that runs a body so many times: ``turns`` is its first parameter, a buffer of 4 KiB its second.

    ``before`` is executed once by each warp, ``behind`` follows the kernel's EXIT. ``tail`` are the
    control codes of the loop's own three instructions; without them the assembler finds some.
    """

    name: str
    body: str
    before: str = ""
    behind: str = ""
    directives: str = ""
    tail: tuple[str, str, str] = ("", "", "")

    def text(self) -> str:
        """The program."""
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
        """The program, assembled."""
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
    """One CTA of so many warps that runs a loop; the others as of :func:`~sim.launch.prepare`."""
    return prepare(
        module,
        [Scalar(iterations, 4), Buffer("buffer", _BUFFER)],
        block=(WARP_THREADS * warps, 1, 1),
        local=local,
        crs=crs,
        memory=memory,
    )


def stall_cycles(module: Module) -> int:
    """The sum of all stall counts in a program; one of 0 takes a cycle, too."""
    content = module.code.content
    return sum(
        max(code.stall, 1)
        for at in range(0, len(content), GROUP_BYTES)
        for code in unpack(
            int.from_bytes(content[at : at + GROUP_BYTES // (GROUP_INSTRUCTIONS + 1)], "little")
        )
    )


class BenchmarkMachine:
    """A machine, built once, for one launch after the other.

    Parameters:
        engine: What simulates it, or a board that has it.
        watched: What of a machine in simulation is observed; see :class:`~sim.machine.hardware.Hardware`.

    Attributes:
        cycles: Simulated in the last run, with what comes before and after the grid.
        requests: To memory, in the last run.
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
        """Runs a launch to its end; BenchmarkError when it has another one."""
        result = self._hardware.run(launch, _LIMIT)
        self.cycles = self._hardware.cycles
        if isinstance(self._hardware, Hardware):
            self.requests = self._hardware.requests
        if result.status != "ok":
            raise BenchmarkError(f"{launch.kernel.name}: {result.status} {result.reason}".rstrip())
        return result

    @property
    def memory(self) -> Memory:
        """What the last run has left."""
        return self._hardware.memory

    def tape(self, launch: Launch) -> tuple[Path, Tape] | None:
        """The compiled model's library, and what a run of a launch does to it; None on an engine without one."""
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
        """The differences of the counters for more iterations of a loop: the cost of a launch's
        begin and end cancels out."""
        short, long = (
            self.run(self._loop(module, number, warps)).counters for number in iterations
        )
        return {name: long[name] - short[name] for name in long}

    def _loop(self, module: Module, turns: int, warps: int) -> Launch:
        """The launch of a loop; on a board it has to fit into its memory."""

        def place(local: int | None, crs: int | None, memory: Memory) -> tuple[Launch, Launch]:
            launch = launch_loop(module, turns, warps, local=local, crs=crs, memory=memory)
            return launch, launch

        if not isinstance(self._hardware, Board):
            return launch_loop(module, turns, warps)
        return fit(place, self._hardware.size, self.params.warps)
