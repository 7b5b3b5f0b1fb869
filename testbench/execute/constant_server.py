"""A model of the constant banks for a unit that requests words of them."""

from collections import deque
from typing import Any

from sim.checks.testbench import Bench

__all__ = ["ConstantServer"]


class ConstantServer:
    """Answers the requests of a unit, one at a time, and compares them with the expected ones.

    Parameters:
        bench: Source of random numbers for the times of requests and answers; reports differences.
        dut: A unit with the ports ``indexed`` and ``value``.
        idle: Probability, from 0 to less than 1, that it is not ready in a cycle.
    """

    def __init__(self, bench: Bench, dut: Any, idle: float) -> None:
        self._bench, self._dut, self._idle = bench, dut, idle
        self._due: deque[tuple[str, int, int, int]] = deque()

    def expect(self, what: str, bank: int, address: int, value: int) -> None:
        """Expects a request for this word, after the ones expected before; ``value`` is the
        answer.
        """
        self._due.append((what, bank, address, value))

    async def serve(self, ctx: Any) -> None:
        """The testbench process, which does not end."""
        indexed, value, answer = self._dut.indexed, self._dut.value, None
        while True:
            gives = answer is not None and self._busy()
            ctx.set(value.valid, gives)
            if gives:
                ctx.set(value.payload, {"value": answer, "missing": 0})
            ctx.set(indexed.ready, answer is None and self._busy())
            _, _, asked, ready, wanted, given, taken = await ctx.tick().sample(
                indexed.valid, indexed.ready, indexed.payload, value.valid, value.ready
            )
            if given and taken:
                answer = None
            if asked and ready:
                if not self._due:
                    self._bench.fail(
                        f"asks for {wanted.address:#x} of bank {wanted.bank}, which nobody needs"
                    )
                what, bank, address, answer = self._due.popleft()
                self._bench.expect(
                    f"{what}: asks for", (wanted.bank, wanted.address), (bank, address)
                )

    def _busy(self) -> bool:
        return self._bench.random.random() >= self._idle
