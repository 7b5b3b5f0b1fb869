"""Launches that end without an error: on both models, and on the hardware in lockstep with the
first."""

from dataclasses import replace

from sim.launch import Launch
from sim.machine.hardware import Hardware
from sim.model.thread.run import MAX_INSTRUCTIONS
from sim.model.thread.run import run as run_threads
from sim.model.warp.model import WarpModel

_LIMIT = 1_000_000
"""Instructions, or cycles, that no launch takes which says nothing else."""


def on_threads(launch: Launch, limit: int = MAX_INSTRUCTIONS) -> Launch:
    """The launch, after threads that run alone."""
    assert run_threads(launch, max_instructions=limit).trap is None
    return launch


def on_warps(launch: Launch, limit: int = _LIMIT) -> Launch:
    """The launch, after the warp model has run it."""
    result = WarpModel(launch, warps=64).run(limit)
    assert result.status == "ok", (result.reason, result.error_status)
    return launch


def in_lockstep(hardware: Hardware, launch: Launch, limit: int = _LIMIT) -> Launch:
    """The launch with what the hardware has left in memory, which is what the warp model leaves; they have agreed on
    every instruction."""
    result, lockstep = hardware.run(launch, limit), hardware.lockstep
    assert lockstep is not None
    assert lockstep.difference is None
    assert result.status == "ok", (result.reason, result.diagnosis)
    assert lockstep.compared == result.instructions > 0
    assert not lockstep.pending()
    assert not lockstep.compare_memory(hardware.memory)
    return replace(launch, memory=hardware.memory)
