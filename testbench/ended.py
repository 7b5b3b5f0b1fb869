"""Launches that end without an error: on both models, and on the hardware in lockstep with the warp
model.
"""

from dataclasses import replace

from sim.launch import Launch
from sim.machine.hardware import Hardware
from sim.model.thread.run import MAX_INSTRUCTIONS
from sim.model.thread.run import run as run_threads
from sim.model.warp.model import WarpModel

_LIMIT = 1_000_000
"""Default limit of instructions (models) or cycles (hardware) of a launch."""


def on_threads(launch: Launch, limit: int = MAX_INSTRUCTIONS) -> Launch:
    """Runs the launch on the thread model and returns it."""
    assert run_threads(launch, max_instructions=limit).trap is None
    return launch


def on_warps(launch: Launch, limit: int = _LIMIT) -> Launch:
    """Runs the launch on the warp model and returns it."""
    result = WarpModel(launch, warps=64).run(limit)
    assert result.status == "ok", (result.reason, result.error_status)
    return launch


def in_lockstep(hardware: Hardware, launch: Launch, limit: int = _LIMIT) -> Launch:
    """Runs the launch on the hardware in lockstep with the warp model, and returns it with the
    hardware's memory.

    Both must agree on every instruction and on the final memory.
    """
    result, lockstep = hardware.run(launch, limit), hardware.lockstep
    assert lockstep is not None
    assert lockstep.difference is None
    assert result.status == "ok", (result.reason, result.diagnosis)
    assert lockstep.compared == result.instructions > 0
    assert not lockstep.pending()
    assert not lockstep.compare_memory(hardware.memory)
    return replace(launch, memory=hardware.memory)
