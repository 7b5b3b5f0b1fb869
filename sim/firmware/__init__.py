"""Firmware: code that runs in the trap handler, and the host's side of it.

A handler starts with no free register. It saves the first ones to a part of each thread's local
memory that the kernel does not use (:class:`ThreadArea`), at fixed addresses; a warp's state is
stored in a record in global memory. Firmware is assembled for each launch, which determines these
addresses, by this project's assembler and scheduler. ``docs/trap_handlers.md`` is a tutorial, with
a smaller handler.

==================  ===============================================================================================
file                content
==================  ===============================================================================================
registers.sass      shared by handlers: saves and restores all registers, predicates and CC of the live threads
trap_handler.sass   saves a warp, pauses until the host wakes it, and resumes it with the state in the save area
context_switch.sass saves a grid to an image and ends its warps; restores the image in the warps of the same grid,
                    launched again
resume.sass         the entry of those warps
source              texts, assembled with the numbers of a launch
save_area           addresses of everything, and a saved warp for a debugger: registers, predicates, CC, masks, pc and
                    stack, read and written in memory
trap_handler        :func:`install_trap_handler`
context             :func:`install_context_switch`, :func:`save_grid`, :func:`resumed`
switching           :class:`GridSwitch`, the same for a host that only chooses the time:
                    ``sim.run --switch``
==================  ===============================================================================================

With the trap handler, a warp that traps is held until the host wakes it::

    area = install_trap_handler(prepare(module, arguments))

    async def driver(host):
        while await host.until(lambda host: host.ended or host.locked_down, 1_000_000) and not host.ended:
            for slot, warp in area.warps(host.memory).items():
                print(slot, hex(warp.pc), warp.masks)
            await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)
            await host.modify("DBGR_CONTROL0", RUN_TRIGGER=1)
            await host.until(lambda host: not host.locked_down, 100)

    hardware.run(area.launch, 1_000_000, driver=driver)

With the context switch, a grid can be removed from the machine at any time, and continue later or
on another machine::

    image = install_context_switch(prepare(module, arguments))

    async def driver(host):
        await host.run(10_000)
        await save_grid(host, image, 1_000_000)

    hardware.run(image.launch, 2_000_000, driver=driver)
    image = resumed(image, hardware.memory)
    hardware.run(image.launch, 1_000_000)

Limits: global memory and the blocks of local memory are not moved; clocks are the running
machine's. A stop does not reach a warp that masks it (IDE.DI), so the mask of IDE is not saved; a
warp that had an error while it masked traps is restored without its mask. Stacks that exist on chip
alone cannot be saved.
"""

from .context import (
    ContextCommand,
    ContextImage,
    WarpContext,
    install_context_switch,
    resumed,
    save_grid,
)
from .save_area import SavedWarp, ThreadArea
from .trap_handler import SaveArea, WakeCommand, install_trap_handler

__all__ = [
    "ContextCommand",
    "ContextImage",
    "SaveArea",
    "SavedWarp",
    "ThreadArea",
    "WakeCommand",
    "WarpContext",
    "install_context_switch",
    "install_trap_handler",
    "resumed",
    "save_grid",
]
