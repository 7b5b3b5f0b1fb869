"""Runs launches on a board, as :mod:`sim.machine.hardware` does in simulation."""

from collections.abc import Callable, Container, Coroutine, Iterable
from dataclasses import asdict

from rtl.fpga.machine import MEMORY_BASE
from rtl.fpga.registers import BOARD_BLOCK, BOARD_REGISTERS, IDENTITY, PARTS, SIZES
from rtl.isa.errors import REPORT_MASK_RESET
from rtl.isa.registers import COUNTER_BLOCK, COUNTERS, WORK_REGISTERS
from rtl.isa.tokens import CACHED_TOKENS
from rtl.layouts import Policy
from rtl.params import PRESETS, SmParams
from sim.launch import Launch
from sim.launch.runtime import output_range
from sim.machine.base import BaseMachine, HardwareResult
from sim.machine.host import REGISTERS, Driver
from sim.support.interrupt import deferred, raise_noted

from .errors import BoardError
from .link import Link
from .memory import BoardImage, BoardMemory

__all__ = ["Board"]

_WORD = 4
_RESET_LOOKS = 1000
"""Number of reads of the status while the machine is in reset."""


def _at(name: str) -> int:
    """Returns the address of a register of the board's block."""
    return BOARD_BLOCK + BOARD_REGISTERS[name].offset


def _machine(size: int, parts: int) -> SmParams:
    """Returns the parameters of the machine that the registers SIZE and PARTS describe."""
    sizes, others = BOARD_REGISTERS["SIZE"], BOARD_REGISTERS["PARTS"]
    tokens = others.get("STACK_TOKENS", parts)
    return SmParams(
        stack_tokens=1 << tokens if tokens else CACHED_TOKENS,
        **{name: 1 << sizes.get(name.upper(), size) for name in SIZES},
        **{name: bool(others.get(name.upper(), parts)) for name in PARTS},
    )


class Board(BaseMachine):
    """A machine on a board.

    Attributes:
        port: Name of the port.
        clock: Clock frequency in Hz.
        size: Size of the board's memory in bytes.
    """

    remote = True

    def __init__(self, link: Link, name: str, policy: Policy = Policy.GREEDY_THEN_OLDEST) -> None:
        self._link, self.port = link, name
        identity, size, self.clock, self.size = link.read_registers(_at("IDENTITY"), 4)
        if identity != IDENTITY:
            raise BoardError(
                f"port {name}: no board of this project, its identity is {identity:#x}"
            )
        super().__init__(_machine(size, *link.read_registers(_at("PARTS"), 1)), policy)
        self._levels = self._began = 0
        self._image = BoardImage(MEMORY_BASE, self.size)

    @property
    def preset(self) -> str:
        """The name of the machine's preset, or its parameters."""
        parameters = ", ".join(
            f"{value} {name.replace('_', ' ')}" for name, value in asdict(self.params).items()
        )
        return next((name for name, params in PRESETS.items() if params == self.params), parameters)

    @property
    def has_video(self) -> bool:
        """Whether the board shows the framebuffer on a screen."""
        return bool(self._shown("VIDEO"))

    @property
    def underrun(self) -> bool:
        """Whether memory was once too slow for the screen."""
        return bool(self._shown("UNDERRUN"))

    def _shown(self, name: str) -> int:
        word = self._link.read_registers(_at("FRAMEBUFFER_CONTROL"), 1)[0]
        return BOARD_REGISTERS["FRAMEBUFFER_CONTROL"].get(name, word)

    def show(self, address: int, scale: int) -> None:
        """Shows the picture at an address in memory, each pixel as a square of 2**scale screen
        pixels.
        """
        control = BOARD_REGISTERS["FRAMEBUFFER_CONTROL"].put(ENABLE=1, SCALE=scale)
        self._link.write_register(_at("FRAMEBUFFER_ADDRESS"), address - MEMORY_BASE)
        self._link.write_register(_at("FRAMEBUFFER_CONTROL"), control)

    def close(self) -> None:
        """Closes the port."""
        self._link.close()

    def run(
        self,
        launch: Launch,
        limit: int,
        progress: Callable[[int], object] = lambda _cycles: None,
        *,
        report_mask: int = REPORT_MASK_RESET,
        driver: Driver | None = None,
    ) -> HardwareResult:
        """Runs to the end of the grid, an error, a hang, or ``limit`` cycles; see BaseMachine.

        Raises:
            BoardError: The launch's memory does not fit into the board's.
            RunInterrupted: Ctrl-C was pressed.
        """
        self._reset()
        places = self.place(launch)
        if self.memory.end > MEMORY_BASE + self.size:
            raise BoardError(
                f"the launch needs {self.memory.end - MEMORY_BASE:,} bytes of memory, the board has "
                f"{self.size:,}"
            )
        self.memory = memory = BoardMemory(self.memory, self._link, self._image)
        memory.load()
        self._began, self._levels = self._look()[1], 0
        self.cycles = 0
        result = HardwareResult("timeout", 0)
        try:
            with deferred():
                _carry_out(
                    self.serve(
                        launch,
                        places,
                        limit,
                        result,
                        report_mask=report_mask,
                        driver=driver,
                        progress=progress,
                    )
                )
        finally:
            memory.forget()
        return result

    def take_back(
        self, launch: Launch, result: HardwareResult, names: Container[str] | None, *, whole: bool
    ) -> None:
        """Reads the last run's results into its launch's memory; see :meth:`BoardMemory.take_back`.

        With ``whole`` it also reads the kernels' heap, and reads lines even if their content is
        known. After a run that failed, the machine is reset, and the image of the board's memory is
        discarded.
        """
        assert isinstance(self.memory, BoardMemory)
        if failed := result.status != "ok":
            self._reset()
        if whole:
            self.forget()
        if launch.output is not None:
            self.memory.read(*output_range(self.memory, launch.output))
        wrote = whole or failed or result.counters.get("memory_writes", 1) > 0
        self.memory.take_back(names, wrote=wrote, heap=whole)
        if failed:
            self.forget()

    def forget(self) -> None:
        """Discards the image of the board's memory: the next launch is sent completely."""
        self._image.forget(MEMORY_BASE, MEMORY_BASE + self.size)

    def _reset(self) -> None:
        """Resets the machine, and separately its counters, which a reset does not clear."""
        control = BOARD_REGISTERS["CONTROL"]
        self._link.write_register(_at("CONTROL"), control.put(POLICY=self.policy.value, RESET=1))
        for _ in range(_RESET_LOOKS):
            if not control.get("RESET", self._link.read_registers(_at("CONTROL"), 1)[0]):
                break
        else:
            raise BoardError(
                "the board's machine does not leave its reset: a memory answer is outstanding"
            )
        for number in range(len(COUNTERS)):
            self._link.write_register(COUNTER_BLOCK + 2 * _WORD * number, 0)

    def _look(self) -> tuple[int, int]:
        """Reads the state and the cycle counter at the same moment."""
        state, low, high = self._link.read_registers(_at("STATE"), 3)
        return state, low | high << 32

    def _forget(self) -> None:
        if isinstance(self.memory, BoardMemory):
            self.memory.forget()

    # Accesses of the host.

    @property
    def ended(self) -> bool:
        """Whether the grid has ended."""
        (status,) = self._link.read_registers(REGISTERS["STATUS"], 1)
        return bool(WORK_REGISTERS["STATUS"].get("DONE", status))

    @property
    def locked_down(self) -> bool:
        """Whether the machine is in a trap in which no warp runs."""
        return bool(BOARD_REGISTERS["STATE"].get("LOCKED_DOWN", self._look()[0]))

    @property
    def interrupted(self) -> bool:
        """Whether the machine interrupts its host."""
        return bool(BOARD_REGISTERS["STATE"].get("INTERRUPT", self._look()[0]))

    async def advance(self, cycles: int) -> bool:
        """Waits until this many cycles have passed, or the machine requires attention; returns
        whether it does.
        """
        end = self.cycles + cycles
        self._forget()
        while True:
            raise_noted()
            state, now = self._look()
            self.cycles = now - self._began
            idle = not BOARD_REGISTERS["STATE"].get("BUSY", state)
            before, self._levels = self._levels, state >> 1 << 1 | idle
            if self._levels & ~before:
                return True
            if self.cycles >= end:
                return False

    async def write(self, address: int, value: int) -> None:
        """Writes a register."""
        self._forget()
        self._link.write_register(address, value)

    async def read_all(self, addresses: Iterable[int]) -> list[int]:
        """Reads registers, consecutive ones in one request."""
        values: list[int] = []
        run: list[int] = []
        for address in [*addresses, None]:
            if run and (address is None or address != run[-1] + _WORD):
                values += self._link.read_registers(run[0], len(run))
                run = []
            if address is not None:
                run.append(address)
        return values

    async def settle(self) -> None:
        """Does nothing: a board has settled long before it can be read."""

    def examine(self, result: HardwareResult) -> None:
        """Adds which warps are live, and which are paused."""
        for title, name in (("live", "WARP_VALID_MASK"), ("paused", "BPT_PAUSE_MASK")):
            mask = result.registers[name] | result.registers[f"{name}_1"] << 32
            slots = [str(slot) for slot in range(mask.bit_length()) if mask >> slot & 1]
            result.diagnosis.append(f"warps {title}: {' '.join(slots) or 'none'}")


def _carry_out(work: Coroutine[object, None, None]) -> None:
    """Runs a coroutine that never waits, because the link blocks."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("a board's host waits for a simulation")
