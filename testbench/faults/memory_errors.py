"""Each answer of memory in turn is an error, or late."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from rtl.isa.errors import WarpError
from rtl.layouts import LaunchRejection
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.debugger.driver import clear_errors, grid_over, locked_down, wait
from sim.engine import Engine
from sim.machine.hardware import Hardware
from sim.machine.host import HardwareHost
from sim.machine.memory_service import ON_TIME, Trouble
from testbench.faults.victim import UNTOUCHED, victim
from testbench.words import contents

__all__ = ["LATE", "MemoryErrors"]

LATE = 10_000
"""Number of cycles by which answers are late."""
_LIMIT = 400_000
"""Number of cycles in which a program ends, or is held, with any answers of memory."""


class MemoryErrors:
    """A machine whose memory has faults.

    Attributes:
        requests: Number of requests to memory of a program without faults.
        cycles: Number of cycles simulated so far.
    """

    def __init__(self, params: SmParams, engine: type[Engine]) -> None:
        self._hardware = Hardware(params, engine)
        self._left: list[int] = []
        self.requests = self.cycles = 0
        self._play(lambda _number: ON_TIME)

    def _play(self, trouble: Callable[[int], Trouble], *, handler: bool = True) -> str:
        """Runs the program once, and again if the first run has ended; returns the outcome of the
        first run: ``ok``, the error, or the reason of its rejection.

        Raises ValueError if it did not end, or had a wrong effect.
        """
        made, ended = victim(handler=handler), []
        self._hardware.trouble = trouble

        async def drive(host: HardwareHost) -> None:
            over = await wait(host, _over_or_held, _LIMIT)
            if not over:
                raise ValueError("it neither ends nor is held")
            ended.append(await _end(host))
            self.requests = self.requests or self._hardware.requests
            self._left = contents(replace(made.launch, memory=host.memory), "out")
            if not await grid_over(host):
                return
            self._hardware.trouble_over()
            await clear_errors(host)
            await host.write("LAUNCH", 1)
            await host.run(20)
            if not await wait(host, grid_over, _LIMIT) or await _end(host) != "ok":
                raise ValueError("a grid behind it does not end as it should")
            again = contents(replace(made.launch, memory=host.memory), "out")
            if again != list(made.expected):
                raise ValueError("a grid behind it leaves something wrong")

        self._hardware.run(made.launch, _LIMIT, driver=drive)
        self.cycles += self._hardware.cycles
        wrong = [
            thread
            for thread, (word, right) in enumerate(zip(self._left, made.expected, strict=True))
            if word not in (right, UNTOUCHED)
        ]
        if wrong:
            raise ValueError(
                f"thread {wrong[0]} leaves {self._left[wrong[0]]:#x}, not {made.expected[wrong[0]]:#x}"
            )
        if ended[0] == "ok" and self._left != list(made.expected):
            raise ValueError("nothing is said to be wrong, but results are missing")
        return ended[0]

    def check_error(self, bench: Bench, number: int, *, handler: bool = True) -> None:
        """The answer to request ``number`` is an error: the outcome must be MMU_FAULT, a rejection,
        or success if it does not matter.
        """
        what = (
            f"request {number} answered with an error, {'with' if handler else 'without'} a handler"
        )
        try:
            ended = self._play(lambda at: Trouble(error=at == number), handler=handler)
        except ValueError as error:
            bench.fail(f"{what}: {error}")
        if ended not in ("ok", WarpError.MMU_FAULT.name, LaunchRejection.MEMORY.name):
            bench.fail(f"{what}: ends with {ended}")
        bench.checked(f"memory errors that end with {ended}")

    def check_late(self, bench: Bench, numbers: Iterable[int]) -> None:
        """The answers to these requests are late: the result must be the same."""
        late = frozenset(numbers)
        try:
            ended = self._play(lambda at: Trouble(late=LATE * (at in late)))
        except ValueError as error:
            bench.fail(f"answers to {sorted(late)} {LATE:,} cycles late: {error}")
        bench.expect(f"the end, with answers to {sorted(late)} late", ended, "ok")
        bench.checked("late answers", len(late))


async def _over_or_held(host: HardwareHost) -> bool:
    return await grid_over(host) or await locked_down(host)


async def _end(host: HardwareHost) -> str:
    """Returns how a grid has ended."""
    rejection = LaunchRejection(await host.field("STATUS", "REJECTION"))
    if rejection is not LaunchRejection.NONE:
        return rejection.name
    error = WarpError(await host.field("HWW_WARP_ESR", "ERROR"))
    if error is WarpError.NONE:
        return "ok" if await grid_over(host) else "held without an error"
    return error.name
