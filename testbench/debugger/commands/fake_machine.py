"""A program, stopped warps and the registers of a machine, all fakes."""

from typing import Any

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.table import BY_NAME
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus
from sim.debugger.commands import execute
from sim.debugger.errors import DebuggerError
from sim.firmware.trap_handler import WakeCommand
from sim.model.warp.retirement import WarpMasks
from testbench.fakes import fake

TEXT = ".kernel k\n" + "".join(f"MOV32I R{at}, 0x{at:x}\n" for at in range(12)) + "EXIT\n"
BARRIER = BY_NAME["BAR"][0].default
INSTRUCTIONS = [at for at in range(0x08, 0x100, 8) if at % 0x20]
"""Addresses of instructions: each group of four words begins with a control word."""


def stopped_warp(pc, active, broken=0, waiting=0, tokens=(), place=((0, 0, 0), 0)):
    """Returns a stopped warp: R<n> of thread t is 100 n + t; P<n> is true in threads with bit n; CC
    is the upper bits.
    """
    masks = WarpMasks(active, broken)
    return fake(
        pc=pc,
        masks=masks,
        live=active | broken | waiting,
        stack=tokens,
        position=place,
        register=lambda thread, number: 100 * number + thread,
        predicates=lambda thread: thread & 0x7F,
        condition=lambda thread: thread >> 1 & 0xF,
    )


async def answer(value):
    return value


def done(coroutine):
    """Runs a coroutine that never suspends and returns its result."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


def run(session, line):
    return done(execute(session, line))


def refusal(session, line):
    with pytest.raises(DebuggerError) as refused:
        execute(session, line).send(None)
    return str(refused.value)


class FakeHost:
    """Registers that are written and read; the machine's time advances by itself."""

    def __init__(self, **values):
        self.values, self.written, self.cycles, self.failed = values, [], 0, False
        self.memory, self.remote = None, False

    async def read(self, name):
        return self.values.get(name, 0)

    async def write(self, name, value):
        self.written.append((name, value))

    async def modify(self, name, **fields):
        self.written.append((name, fields))

    async def run(self, cycles):
        self.cycles += cycles


def fake_host(**values: Any) -> Any:
    """Returns a FakeHost that replaces a host of the hardware."""
    return FakeHost(**values)


class FakeWarp:
    """A warp in the save area at a pc, with its trap reasons and the host's command."""

    def __init__(self, pc, reasons=(), command=WakeCommand.LEAVE, *, stepped=False, error=0):
        self.pc = pc
        bits = sum(1 << reason - TRAP_REASONS.start for reason in reasons)
        status = WarpStatus.const(
            {"failed": bool(error), "reasons": bits, "stepped": stepped, "error": WarpError(error)}
        )
        self.words = {"STATUS": status.as_bits(), "COMMAND": command}

    def word(self, name):
        return self.words[name]

    def set_word(self, name, value):
        self.words[name] = value
