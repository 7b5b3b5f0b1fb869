"""The machine in simulations: its interface to the host, and when it requests attention."""

from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import BEATS, BeatPort, HostBus, MemoryPort
from rtl.params import PRESETS
from sim.machine import harness as harness_module
from sim.machine.harness import Harness
from testbench.fakes import fake
from testbench.simulation import simulate

TAG_BITS = 3


class Machine(Component):
    """The ports of a machine without its logic: a register reads as its address plus one."""

    def __init__(self, params):
        port = BeatPort if params.serial else MemoryPort
        super().__init__({"host": In(HostBus()), "memory": Out(port(TAG_BITS))})
        self.tag_bits = TAG_BITS
        self.busy, self.interrupt, self.locked_down = Signal(), Signal(), Signal()
        self.core = fake(trap_state=fake(locked_down=self.locked_down))

    def elaborate(self, platform):
        m, host = Module(), self.host
        m.d.comb += host.value.eq(host.address + 1)
        return m


@pytest.fixture(params=["tiny", "least"])
def machine(request, monkeypatch):
    """Both kinds of machine: with a memory port of lines, and with one of beats."""
    monkeypatch.setattr(harness_module, "Sm", Machine)
    made: Any = Harness(PRESETS[request.param])
    return made, made.sm, request.param == "least"


def test_the_grid_is_over_when_the_machine_is_idle_again(machine):
    dut, sm, _ = machine

    async def body(ctx):
        found = []
        for busy in (0, 0, 1, 1, 0, 0, 1, 0):
            ctx.set(sm.busy, busy)
            found.append(ctx.get(dut.ended))
            await ctx.tick()
        assert found == [0, 0, 0, 0, 1, 1, 0, 1]

    simulate(dut, body)


def test_a_level_that_begins_wakes_the_host_for_a_cycle(machine):
    dut, sm, _ = machine

    async def body(ctx):
        seen = []
        for locked_down, interrupt, busy in (
            (0, 0, 1), (1, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1), (0, 1, 0), (0, 0, 0), (0, 1, 0),
        ):  # fmt: skip
            ctx.set(sm.locked_down, locked_down)
            ctx.set(sm.interrupt, interrupt)
            ctx.set(sm.busy, busy)
            assert ctx.get(dut.locked_down) == locked_down
            seen.append((ctx.get(dut.levels), ctx.get(dut.wake)))
            await ctx.tick()
        assert seen == [
            (0b000, 0), (0b001, 1), (0b001, 0), (0b101, 1), (0b100, 0), (0b110, 1), (0b010, 0), (0b110, 1),
        ]  # fmt: skip

    simulate(dut, body)


def test_the_hosts_bus_is_that_of_the_machine(machine):
    dut, sm, _ = machine

    async def body(ctx):
        for name, value in (("address", 0x48), ("data", 7), ("write", 1), ("read", 1)):
            ctx.set(getattr(dut.host, name), value)
            assert ctx.get(getattr(sm.host, name)) == value
        assert ctx.get(dut.host.value) == 0x49

    simulate(dut, body)


def test_a_request_to_memory_wakes_the_host_and_its_answer_reaches_the_machine(machine):
    """A machine of one lane splits a line into beats: the last beat of a write makes the request."""
    dut, sm, is_serial = machine

    async def body(ctx):
        port, woken = sm.memory, []
        for beat in range(BEATS if is_serial else 1):
            fields = {"write": 1, "tag": 5, "address": 9, "data": beat + 1, "mask": 1}
            ctx.set(port.request.payload, fields | ({"beat": beat} if is_serial else {}))
            ctx.set(port.request.valid, 1)
            assert ctx.get(port.request.ready)
            woken.append(ctx.get(dut.wake))
            await ctx.tick()
        ctx.set(port.request.valid, 0)
        if is_serial:
            woken.append(ctx.get(dut.wake))
            await ctx.tick()
        assert woken == [0] * (len(woken) - 1) + [1] and not ctx.get(dut.wake)
        kept = ctx.get(dut.latch.request)
        assert (kept.write, kept.tag, kept.address) == (1, 5, 9)
        ones = range(BEATS if is_serial else 1)
        assert kept.data == sum(beat + 1 << 64 * beat for beat in ones)
        assert kept.mask == sum(1 << 8 * beat for beat in ones)
        ctx.set(dut.latch.answer, {"turn": 1, "payload": {"write": 1, "tag": 5, "error": 1}})
        assert ctx.get(port.response.valid)
        answer = ctx.get(port.response.payload)
        assert (answer.write, answer.tag, answer.error) == (1, 5, 1)
        assert not ctx.get(dut.wake)

    simulate(dut, body)
