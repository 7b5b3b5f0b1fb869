"""The error status registers of the warp model, against a simple model of their contents."""

import random

import pytest

from rtl.isa.control_code import next_address
from rtl.isa.errors import WarpError
from testbench.handmade import launch as launch_words
from testbench.host.esr_formula import EVENTS, Status
from testbench.model.trap_machine import on
from testbench.words import NOP, address


@pytest.mark.parametrize("seed", range(4))
def test_the_error_status_says_what_happened_where(seed):
    source, expected = random.Random(seed), Status()
    machine, host = on(launch_words([NOP]))
    log, seen = machine.log, set()
    for _ in range(2000):
        written, errors, trap = ("", 0), [], ("", 0, 0, 0)
        warp, pc = source.randrange(8), address(source.randrange(1000))
        match source.randrange(4):
            case 0:
                error = source.choice(
                    [WarpError.STACK_OVERFLOW, WarpError.DIVERGENT, WarpError.OOR_ADDR]
                )
                log.note_error(error, warp, pc)
                errors.append((warp, pc, error))
            case 1:
                reason = source.randint(1, 7)
                log.note_trap(reason, warp, pc)
                trap = ("trap", warp, next_address(pc), reason)
            case 2:
                event = source.choice(list(EVENTS))
                log.raised.add(EVENTS[event].name)
                trap = (event, 0, 0, 0)
            case _:
                written = (
                    source.choice([*expected.registers, "HWW_WARP_ESR", "HWW_GLOBAL_ESR"]),
                    source.choice([0, 0xFFFF_FFFF, source.getrandbits(32)]),
                )
                if host.writes(written[0]):
                    host.write(*written)
        expected.cycle(errors, trap, written)
        assert {name: host.read(name) for name in expected.registers} == expected.registers
        assert host.interrupted == expected.interrupt
        seen.add(expected.interrupt)
    assert seen == {False, True}
