"""Each field of a launch descriptor is made invalid, one at a time."""

from collections.abc import Iterable, Iterator
from functools import partial
from random import Random

from rtl.isa.qmd import QMD, QMD_BYTES
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.debugger.driver import clear_errors, grid_over, locked_down, wait
from sim.engine import Engine
from sim.machine.hardware import Hardware
from sim.machine.host import HardwareHost
from testbench.faults.victim import THREADS, UNTOUCHED, Victim, victim

__all__ = ["Wrong", "check_descriptors", "wrong_values"]

Wrong = tuple[str, int, int]
"""A field's name, its index if there are several, and its value."""
_PATIENCE = 6_000
"""Number of cycles after which a grid that still runs may be one of many CTAs."""
_LIMIT = 60_000
_STARTS = frozenset({"CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH"})
"""Fields that can make a grid too large to wait for its end."""


def wrong_values(source: Random) -> Iterator[Wrong]:
    """Yields for each field: all zeros, all ones, a random value."""
    for name, field in QMD.items():
        for index in range(field.count):
            for value in dict.fromkeys(
                (0, (1 << field.width) - 1, source.getrandbits(field.width))
            ):
                yield name, index, value


def check_descriptors(
    bench: Bench, params: SmParams, engine: type[Engine], wrongs: Iterable[Wrong]
) -> None:
    """Launches descriptors with one invalid field. The grid is rejected, ends, or is held by an
    error, and the next valid one must succeed. Only a grid that is too large, or held, needs the
    machine's reset.
    """
    hardware, waiting = Hardware(params, engine), list(wrongs)
    while waiting:
        made = victim()
        hardware.run(made.launch, _LIMIT, driver=partial(_launch_wrong_ones, bench, made, waiting))
        bench.report.cycles += hardware.cycles


async def _launch_wrong_ones(
    bench: Bench, made: Victim, waiting: list[Wrong], host: HardwareHost
) -> None:
    """Launches descriptors from ``waiting`` until the machine needs its reset."""
    await wait(host, grid_over, _LIMIT)
    right = await host.read("QMD_ADDRESS_A") << 32 | await host.read("QMD_ADDRESS_B")
    content = int.from_bytes(host.memory.read(right, QMD_BYTES), "little")
    place = host.memory.allocate("wrong descriptor", QMD_BYTES, QMD_BYTES)
    out, size = made.launch.buffers["out"]
    expected = b"".join(word.to_bytes(4, "little") for word in made.expected)
    while waiting:
        name, index, value = waiting.pop(0)
        host.memory.write(place, QMD[name].put(content, value, index).to_bytes(QMD_BYTES, "little"))
        how = await _launch(host, place)
        bench.checked(f"descriptors: {how}")
        if how == "still runs" and name not in _STARTS:
            bench.fail(f"{name}[{index}] = {value:#x}: {how}")
        if how in ("still runs", "held by an error"):
            return
        await clear_errors(host)
        host.memory.write(out, UNTOUCHED.to_bytes(4, "little") * THREADS)
        again = await _launch(host, right)
        if again != "ended" or host.memory.read(out, size) != expected:
            bench.fail(
                f"behind {name}[{index}] = {value:#x}, which {how}, a right grid {again} and leaves something "
                f"wrong"
            )


async def _launch(host: HardwareHost, address: int) -> str:
    """Launches a descriptor; returns the outcome."""
    await host.write("QMD_ADDRESS_A", address >> 32)
    await host.write("QMD_ADDRESS_B", address & 0xFFFF_FFFF)
    await host.write("LAUNCH", 1)
    await host.run(20)

    async def over(host: HardwareHost) -> bool:
        return await grid_over(host) or await locked_down(host)

    if not await wait(host, over, _PATIENCE):
        return "still runs"
    if not await grid_over(host):
        return "held by an error"
    if await host.field("STATUS", "REJECTION"):
        return "rejected"
    return "ended with an error" if await host.field("HWW_WARP_ESR", "ERROR") else "ended"
