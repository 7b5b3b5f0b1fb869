"""What drivers are built on: of a unit, cycles that are counted, ports that are set, an end when nothing happens; of
the whole machine, the comparison with the warp model."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import cache
from typing import Any

from amaranth.hdl import Cat
from amaranth.lib import data

from rtl.layouts import errors_by_source
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.launch import Launch, lacking
from sim.machine.hardware import Hardware, HardwareResult
from sim.waves import View


def offer(ctx: Any, port: Any, payload: Any) -> None:
    """Sets an event, or what a stream offers; None takes it back."""
    ctx.set(port.valid, payload is not None)
    if payload is not None:
        ctx.set(port.payload, payload)


def set_errors(ctx: Any, errors: Any, happen: Mapping[str, Any]) -> None:
    """Sets the errors of a cycle, by their sources; errors of other sources are cleared."""
    for source, event in errors_by_source(errors).items():
        offer(ctx, event, happen.get(source))


def as_struct(event: Any) -> Any:
    """An event as one value, to be sampled: a struct of ``valid`` and the fields of its payload, or ``payload``."""
    shape = event.payload.shape()
    try:
        fields = {str(name): field.shape for name, field in data.Layout.cast(shape)}
    except TypeError:
        fields = {"payload": shape}
    return data.View(data.StructLayout({"valid": 1, **fields}), Cat(event.valid, event.payload))


@cache
def flags_in(struct: Any, bits: int) -> frozenset[str]:
    """The names of those fields of a structure of flags that are 1 in its bits."""
    return frozenset(name for name, field in struct.as_shape() if bits >> field.offset & 1)


class UnitDriver(ABC):
    """Drives a unit: the testbench is :meth:`_drive`, whose cycles are :meth:`_ticks` or :meth:`_tick`.

    ``servers`` act beside it and before it in each cycle: what has a testbench ``serve`` that never ends. ``top`` is
    what to simulate when the unit is a part of it.

    Attributes:
        cycle: Clock edges that were seen.
    """

    patience = 20_000
    """Cycles in which nothing happens until the testbench fails."""
    limit = 1_000_000
    """Cycles that no run takes."""

    def __init__(self, bench: Bench, dut: Any, *servers: Any) -> None:
        self.bench, self.dut = bench, dut
        self.cycle = self._happened_at = 0
        self._servers = servers

    def observe(self, observer: Any) -> None:
        """Has an observer ``serve`` beside the driver as well."""
        self._servers += (observer,)

    def run(
        self, *arguments: Any, top: Any = None, traces: View | None = None, name: str = ""
    ) -> int:
        """Simulates until the driver, which gets the arguments, has ended; returns the cycles."""

        async def drive(ctx: Any) -> None:
            await self._drive(ctx, *arguments)

        return self.bench.simulate(
            self.dut if top is None else top,
            [drive],
            background=[server.serve for server in self._servers],
            traces=traces,
            name=name,
            limit=self.limit,
        )

    @abstractmethod
    async def _drive(self, ctx: Any, *arguments: Any) -> None:
        """The testbench."""

    def _due(self) -> Iterable[str]:
        """What the unit has yet to do, for a message."""
        return ()

    def _happened(self) -> None:
        """Notes that something has happened in this cycle."""
        self._happened_at = self.cycle

    async def _ticks(self, ctx: Any, *signals: Any) -> AsyncIterator[list[Any]]:
        """The cycles, each as the values of the signals; fails when nothing happens."""
        async for _, _, *seen in ctx.tick().sample(*signals):
            self.cycle += 1
            yield seen
            self._check_patience()

    async def _tick(self, ctx: Any, *signals: Any) -> list[Any]:
        """One cycle, in the same way."""
        self._check_patience()
        _, _, *seen = await ctx.tick().sample(*signals)
        self.cycle += 1
        return seen

    def _check_patience(self) -> None:
        if self.cycle - self._happened_at > self.patience:
            self.bench.fail(
                f"nothing happens for {self.patience:,} cycles; due: {', '.join(self._due()) or 'nothing'}"
            )


class MachineDriver:
    """Runs launches on the whole machine of these parameters."""

    def __init__(self, params: SmParams) -> None:
        self.params = params

    def fits(self, launch: Launch) -> bool:
        """Whether a CTA has room on the machine."""
        return lacking(launch, self.params) is None

    @staticmethod
    def compare(
        bench: Bench, what: str, hardware: Hardware, result: HardwareResult, status: str
    ) -> None:
        """Fails at the first difference from the warp model, in memory too, if that has run beside it; when an
        instruction is left over; and when the run has not ended as ``status`` says."""
        bench.report.cycles += hardware.cycles
        lockstep = hardware.lockstep
        if lockstep is not None and lockstep.difference is not None:
            bench.fail(f"{what}: {lockstep.difference}")
        if result.status != status:
            bench.fail(
                "\n".join(
                    [
                        f"{what}: {result.status} {result.reason}, expected {status}",
                        result.rejection.name,
                        *result.diagnosis,
                    ]
                )
            )
        if lockstep is None:
            return
        if status == "ok" and (left := lockstep.pending()):
            bench.fail(f"{what}: not complete in the end: {left[0]}")
        if difference := lockstep.compare_memory(hardware.memory):
            bench.fail(f"{what}: {difference}")
        bench.checked("instructions in lockstep", lockstep.compared)
