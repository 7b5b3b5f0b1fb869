"""Base classes of drivers.

A :class:`UnitDriver` drives one unit: it counts cycles, sets ports, and fails when nothing happens.
A :class:`MachineDriver` runs launches on the whole machine and compares it with the warp model.
"""

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
    """Sets an event or the payload of a stream to be valid; with None, to be not valid."""
    ctx.set(port.valid, payload is not None)
    if payload is not None:
        ctx.set(port.payload, payload)


def set_errors(ctx: Any, errors: Any, happen: Mapping[str, Any]) -> None:
    """Sets the error signals of a cycle, by their sources; errors of other sources are cleared."""
    for source, event in errors_by_source(errors).items():
        offer(ctx, event, happen.get(source))


def as_struct(event: Any) -> Any:
    """Returns an event as one value that can be sampled: a struct of ``valid`` and the payload's
    fields or ``payload``.
    """
    shape = event.payload.shape()
    try:
        fields = {str(name): field.shape for name, field in data.Layout.cast(shape)}
    except TypeError:
        fields = {"payload": shape}
    return data.View(data.StructLayout({"valid": 1, **fields}), Cat(event.valid, event.payload))


@cache
def flags_in(struct: Any, bits: int) -> frozenset[str]:
    """Returns the names of the fields of a structure of flags that are 1 in ``bits``."""
    return frozenset(name for name, field in struct.as_shape() if bits >> field.offset & 1)


class UnitDriver(ABC):
    """Drives a unit. A subclass defines the testbench as :meth:`_drive`, which counts cycles with
    :meth:`_ticks` or :meth:`_tick`.

    ``servers`` are objects with an endless testbench ``serve``, which runs beside the driver and
    before it in each cycle. ``top`` is the component to simulate if the unit is a part of it.

    Attributes:
        cycle: Number of clock edges so far.
    """

    patience = 20_000
    """Number of cycles without an event after which the testbench fails."""
    limit = 1_000_000
    """Number of cycles after which a run fails."""

    def __init__(self, bench: Bench, dut: Any, *servers: Any) -> None:
        self.bench, self.dut = bench, dut
        self.cycle = self._happened_at = 0
        self._servers = servers

    def observe(self, observer: Any) -> None:
        """Adds an observer, whose testbench ``serve`` runs beside the driver."""
        self._servers += (observer,)

    def run(
        self, *arguments: Any, top: Any = None, traces: View | None = None, name: str = ""
    ) -> int:
        """Simulates until the driver, called with ``arguments``, has ended; returns the number of
        cycles.
        """

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
        """The testbench of the driver."""

    def _due(self) -> Iterable[str]:
        """Returns what the unit has not done yet, for the message of a failure."""
        return ()

    def _happened(self) -> None:
        """Restarts the timeout: something has happened in this cycle."""
        self._happened_at = self.cycle

    async def _ticks(self, ctx: Any, *signals: Any) -> AsyncIterator[list[Any]]:
        """Yields the values of the signals in each cycle; fails when nothing happens."""
        async for _, _, *seen in ctx.tick().sample(*signals):
            self.cycle += 1
            yield seen
            self._check_patience()

    async def _tick(self, ctx: Any, *signals: Any) -> list[Any]:
        """Advances one cycle and returns the values of the signals; fails when nothing happens."""
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
    """Runs launches on the whole machine with the given parameters."""

    def __init__(self, params: SmParams) -> None:
        self.params = params

    def fits(self, launch: Launch) -> bool:
        """Returns whether a CTA of the launch fits on the machine."""
        return lacking(launch, self.params) is None

    @staticmethod
    def compare(
        bench: Bench, what: str, hardware: Hardware, result: HardwareResult, status: str
    ) -> None:
        """Fails at the first difference from the warp model, if that has run beside the hardware,
        in instructions or memory; if an instruction has not completed; and if the run's status is
        not ``status``.
        """
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
