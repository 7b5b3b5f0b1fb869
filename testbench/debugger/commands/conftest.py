"""A session with two stopped warps, and a machine that has locked down."""

from typing import Any

import pytest

from rtl.isa.registers import SM_REGISTERS
from rtl.isa.tokens import TokenKind
from sim.debugger import driver
from sim.debugger.addresses import FunctionAddresses
from sim.debugger.breakpoints import Breakpoints
from sim.debugger.machine import DebuggedMachine, MachineState, StopReason
from sim.debugger.session import DebuggerSession
from sim.debugger.watch import Watch
from sim.launch import prepare
from sim.model.warp.retirement import StackToken
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from testbench.debugger.commands.fake_machine import (
    TEXT,
    answer,
    fake_host,
    stopped_warp,
)
from testbench.fakes import fake


@pytest.fixture
def session():
    launch = prepare(load(assemble(TEXT, "k.sass")))
    memory = launch.memory
    base = memory.allocate("out", 40)
    for at in range(10):
        memory.write_number(base + 4 * at, 4, 0x1000 + at)
    launch = fake(program_base=launch.program_base, buffers={"out": (base, 38)}, output=None)
    area = fake(launch=launch, threads=fake(registers=6))
    session: Any = DebuggerSession(
        area, FunctionAddresses({"k": 0, "$k$inner": 0x28, "z": 0x48}, 0x80), Watch()
    )
    tokens = (
        StackToken(TokenKind.SYNC, 0x30, 0xFF),
        StackToken(TokenKind.NONE, 0, 0),
        StackToken(TokenKind.RETURN, 0x10, 0xF, True),
    )
    warps = {
        1: stopped_warp(0x10, 0x0000_000F, 0x30, 0xC0, tokens, ((1, 2, 3), 4)),
        3: stopped_warp(0x4000_0000, 0x8000_0001),
    }
    registers = dict.fromkeys(SM_REGISTERS, 0)

    host = fake(cycles=1234, remote=False)
    session._machine = fake(
        state=MachineState.STOPPED,
        warps=warps,
        traps={1},
        memory=memory,
        host=host,
        stop_reason=lambda slot, warp: StopReason(breakpoint=2) if slot == 1 else StopReason(),
        reasons=lambda: {1: StopReason(breakpoint=2)},
        registers=lambda: answer(registers),
    )
    return session


@pytest.fixture
def debugged(session, monkeypatch):
    """A machine that has locked down with given warps; it records the actions of the driver."""
    host = fake_host()
    host.memory = session.machine.memory
    host.field = lambda register, name: answer(0)
    points = Breakpoints(session.area.launch.program_base)
    warps, done_ = {}, []
    area = fake(warps=lambda memory: warps)
    found: Any = DebuggedMachine(host, area, points, lambda cycles: False)
    found.all, found.done = warps, done_
    for name, value in (("grid_over", False), ("locked_down", True), ("live_warps", 0)):
        monkeypatch.setattr(driver, name, lambda host, value=value: answer(value))
    for name in ("single_step", "wake", "resume", "invalidate_caches", "wait"):

        async def note(host, *arguments, name=name):
            done_.append((name, *(one for one in arguments if isinstance(one, int))))

        monkeypatch.setattr(driver, name, note)
    return found
