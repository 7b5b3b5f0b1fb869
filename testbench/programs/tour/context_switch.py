"""A context switch: a grid is removed from the machine while it runs, and continues later.

The host stops all warps, whose trap handler writes all of their state to memory: registers, masks,
stacks. The grid that is launched from there continues as if it had not been interrupted.

    python testbench/programs/tour/context_switch.py
"""

from pathlib import Path

from rtl.params import PRESETS
from sim.engine import choose
from sim.firmware import install_context_switch, resumed, save_grid
from sim.launch import prepare
from sim.launch.arguments import parse_arguments
from sim.launch.programs import read_program
from sim.machine.hardware import Hardware
from sim.machine.host import HardwareHost
from sim.toolchain.assembly.spelling import spell

_PROGRAM = Path(__file__).with_name("recursion.sass")
_CYCLES = 900
"""Cycles until the grid is stopped."""
_LIMIT = 1_000_000
_THREADS = 8


def main() -> None:
    """Runs the example."""
    arguments = parse_arguments([f"buf:OUT=u32[{_THREADS}]"])
    image = install_context_switch(
        prepare(read_program(str(_PROGRAM)), arguments, block=(_THREADS, 1, 1), crs=1024)
    )
    hardware = Hardware(PRESETS["tiny"], choose()[0])

    async def leave(host: HardwareHost) -> None:
        await host.run(_CYCLES)
        await save_grid(host, image, _LIMIT)

    hardware.run(image.launch, 2 * _LIMIT, driver=leave)
    warp = image.warp(hardware.memory, 0, 0)
    at = hardware.memory.read_number(image.launch.program_base + warp.pc, 8)
    print(
        f"saved    warp 0, before {warp.pc:#06x} {spell(at, warp.pc)}, {warp.depth} tokens on its stack"
    )
    print(f"R2       {[warp.register(thread, 2) for thread in range(_THREADS)]}")
    image = resumed(image, hardware.memory)
    result = hardware.run(image.launch, _LIMIT)
    base, size = image.launch.buffers["OUT"]
    left = hardware.memory.read(base, size)
    print(
        f"{result.status}       {[int.from_bytes(left[at : at + 4], 'little') for at in range(0, size, 4)]}"
    )


if __name__ == "__main__":
    main()
