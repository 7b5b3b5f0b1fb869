"""Hardware and warp model are compared field by field, and messages name each difference."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from rtl.isa.errors import WarpError
from rtl.isa.special_registers import SpecialRegister
from rtl.layouts import InstructionKind, MemoryPort
from rtl.params import PRESETS
from rtl.retire import RetirementPort
from sim.launch.memory import Memory
from sim.machine import hardware as hardware_module
from sim.machine.base import HardwareResult, RunInterrupted
from sim.machine.comparison import (
    Difference,
    MismatchError,
    WrittenFlags,
    compare,
    compare_flow,
    condition_nibbles,
    lowest_bit,
    memory_difference,
)
from sim.machine.hardware_instructions import HardwareInstruction
from sim.machine.lockstep import reads_time
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from sim.model.warp.retirement import Retirement, WarpMasks
from sim.model.warp.vector.lanes import Condition
from testbench.fakes import fake
from testbench.simulation import simulate
from testbench.words import encode

ALL = (1 << 32) - 1
MASKS = WarpMasks(0xFF, exited=0xF00)


def hardware(**fields):
    """Returns an instruction of the hardware that has written nothing."""
    made = HardwareInstruction(3, 100, 0x48, encode("NOP"), InstructionKind.LANES)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def reference(**fields):
    """Returns a record of the warp model of an instruction that has written nothing."""
    return Retirement(
        0, 0x48, encode("NOP"), MASKS, fields.pop("after", MASKS), 0x50, 0, 0, **fields
    )


def warp(rows=None, predicates=(0,) * 7, condition=None):
    """Returns a warp of the warp model, with registers by number as 32 words each."""
    rows = {number: np.array(words, np.uint32) for number, words in (rows or {}).items()}
    return fake(rows=rows, predicates=list(predicates), condition=condition or Condition())


def said(call):
    """Returns the difference that a call reports, with the values of both sides; None if there is
    none.
    """
    try:
        call()
    except MismatchError as error:
        return error.args
    return None


def packed(words):
    return sum(word << 32 * thread for thread, word in enumerate(words))


def test_an_instruction_begins_with_nothing_known_of_it():
    made = HardwareInstruction(3, 100, 0x48, 7, InstructionKind.LANES)
    assert (made.sequence, made.cycle, made.pc, made.word) == (3, 100, 0x48, 7)
    assert (made.registers, made.predicates, made.conditions) == ({}, [], [])
    assert (made.complete, made.terminated, made.error) == (False, False, WarpError.NONE)
    assert (made.next_pc, made.masks) == (None, None)


def test_registers_are_compared_by_number_threads_and_values():
    words = [7 * thread for thread in range(32)]
    same = warp({4: words})
    for mask, values, expected in (
        (0xFF, packed(words[:8]), None),
        (0xFE, packed([0, *words[1:8]]), ("threads that write R4", "000000fe", "000000ff")),
        (
            0xFF,
            packed([*words[:5], 1 << 31, *words[6:8]]),
            ("R4 of thread 5", "0x80000000", "0x00000023"),
        ),
        (0, 0, ("registers written", "none", "R4")),
    ):
        made = hardware(registers={4: (mask, values)})
        record = reference(registers={4: (0xFF, tuple(words))})
        assert said(lambda m=made, r=record: compare(m, WrittenFlags(), same, r)) == expected
    two = hardware(registers={9: (1, 3), 4: (1, 0), 10: (0, 0)})
    assert said(lambda: compare(two, WrittenFlags(), same, reference())) == (
        "registers written",
        "R4 R9",
        "none",
    )
    unwritten = reference(registers={4: (0, (0,) * 32)})
    assert said(lambda: compare(hardware(), WrittenFlags(), same, unwritten)) is None


def test_predicates_are_those_that_all_writes_so_far_made():
    flags = WrittenFlags()
    first = hardware(predicates=[(2, 0xFF, 0xF0), (6, 0xF, 0x5)])
    now = warp(predicates=(0, 0, 0xF0, 0, 0, 0, 5))
    assert said(lambda: compare(first, flags, now, reference())) is None
    second = hardware(predicates=[(2, 0xF0, 0x30)])
    wrong = warp(predicates=(0, 0, 0x70, 0, 0, 0, 5))
    assert said(lambda: compare(second, flags, wrong, reference())) == (
        "P2",
        "00000030",
        "00000070",
    )
    assert flags.predicates == [0, 0, 0x30, 0, 0, 0, 5]


def test_condition_codes_are_a_nibble_of_each_thread():
    condition = Condition(zero=0b0001, sign=0b0010, carry=0b0101, overflow=1 << 31)
    bits = condition_nibbles(condition)
    assert bits & 0xFFFF == 0x0425 and bits >> 124 == 8 and bits >> 16 & (1 << 108) - 1 == 0
    flags = WrittenFlags(conditions=bits)
    now = warp(condition=condition)
    written = hardware(conditions=[(0b10, 0x20)])
    assert said(lambda: compare(written, flags, now, reference())) is None
    wrong = hardware(conditions=[(0b110, 0x620)])
    assert said(lambda: compare(wrong, flags, now, reference())) == (
        "CC of thread 2",
        "0110",
        "0100",
    )
    stale = WrittenFlags(conditions=bits ^ 1)
    assert said(lambda: compare(hardware(), stale, now, reference())) is None  # nothing writes CC
    condition_of = reference(condition=(1, (0,) * 32))
    assert said(lambda: compare(hardware(), stale, now, condition_of)) == (
        "CC of thread 0",
        "0100",
        "0101",
    )


def test_an_instruction_with_an_error_is_compared_with_its_code_only():
    bad = hardware(error=WarpError.OOR_REG, registers={4: (1, 1)})
    failed = reference(error=WarpError.OOR_REG)
    assert said(lambda: compare(bad, WrittenFlags(), warp(), failed)) is None
    other = reference(error=WarpError.MMU_FAULT)
    assert said(lambda: compare(bad, WrittenFlags(), warp(), other)) == (
        "error",
        "OOR_REG",
        "MMU_FAULT",
    )
    ended = reference(error=WarpError.OOR_REG, terminated=True)
    assert said(lambda: compare(bad, WrittenFlags(), warp(), ended)) == (
        "registers written",
        "R4",
        "none",
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"next_pc": None}, None),
        ({"next_pc": 0x58}, ("next pc", "0x58", "0x50")),
        ({"terminated": True}, ("the warp's end", True, False)),
        (
            {"masks": WarpMasks(0xFE, exited=0xF00)},
            ("threads active", "000000fe", "000000ff"),
        ),
        (
            {"masks": WarpMasks(0xFF, exited=0xF01)},
            ("threads exited", "00000f01", "00000f00"),
        ),
        (
            {"masks": WarpMasks(0xFF, exited=0xF00, killed=1 << 31)},
            ("threads killed", "80000000", "00000000"),
        ),
    ],
)
def test_a_flow_result_is_compared_with_pc_end_and_all_masks(fields, expected):
    made = hardware(**{"next_pc": 0x50, "masks": MASKS, **fields})
    assert said(lambda: compare_flow(made, reference())) == expected
    assert said(lambda: compare(made, WrittenFlags(), warp(), reference())) == expected


def test_nothing_more_is_compared_of_a_warp_that_has_ended_and_of_what_is_no_flow():
    made = hardware(terminated=True, next_pc=0x999, masks=WarpMasks(1))
    assert said(lambda: compare_flow(made, reference(terminated=True))) is None
    assert said(lambda: compare(hardware(), WrittenFlags(), warp(), reference())) is None


@pytest.mark.parametrize(("bits", "lowest"), [(1, 0), (2, 1), (0b1100, 2), (1 << 100, 100)])
def test_the_lowest_bit(bits, lowest):
    assert lowest_bit(bits) == lowest


def test_a_difference_as_text():
    made = Difference(1234, 3, 0x48, 0xAB, "P2", "00", "01", "NOP", ("     SYNC",))
    assert str(made).splitlines() == [
        "difference    cycle 1234, warp 3: P2",
        "instruction   0x0048  00000000000000ab  NOP",
        "hardware      00",
        "reference     01",
        "     SYNC",
    ]


def test_regions_can_be_left_out_of_the_comparison_of_memory():
    ours, theirs = Memory(), Memory()
    for memory in (ours, theirs):
        memory.map("a", 0x1000, 64)
        memory.map("b", 0x2000, 64)
    ours.write(0x1003, b"\x05")
    ours.write(0x2000, b"\xff")
    assert memory_difference(ours, theirs) == (
        "a, byte 0x3 at 0x1003: hardware 0x05, reference 0x00"
    )
    assert memory_difference(ours, theirs, {"a"}) == (
        "b, byte 0x0 at 0x2000: hardware 0xff, reference 0x00"
    )
    assert memory_difference(ours, theirs, {"a", "b"}) is None


@pytest.mark.parametrize(
    ("register", "timed"),
    [
        (SpecialRegister.CLOCKLO, True),
        (SpecialRegister.CLOCKHI, True),
        (SpecialRegister.GLOBALTIMERLO, True),
        (SpecialRegister.GLOBALTIMERHI, True),
        (SpecialRegister.GLOBALERRORSTATUS, True),
        (SpecialRegister.LANEID, False),
    ],
)
def test_registers_of_clocks_depend_on_when_they_are_read(register, timed):
    assert reads_time(encode("S2R", special=register.value)) is timed
    assert not reads_time(encode("NOP")) and not reads_time(0)


# The machine in simulation


def test_a_machine_differs_where_its_comparison_has_a_difference():
    differs: Any = hardware_module.Hardware.differs
    for lockstep, expected in (
        (None, False),
        (SimpleNamespace(difference=None), False),
        (SimpleNamespace(difference="P2"), True),
    ):
        assert differs.fget(SimpleNamespace(lockstep=lockstep)) is expected


@pytest.mark.parametrize("check", [False, True])
def test_what_is_observed_is_what_was_asked_for_and_the_events_that_are_compared(
    monkeypatch, check
):
    seen = []
    monkeypatch.setattr(
        hardware_module, "observe_all", lambda _simulator, observed: seen.append(list(observed))
    )
    monkeypatch.setattr(
        hardware_module,
        "make_simulator",
        lambda _harness, _engine: fake(add_clock=lambda period: seen.append(period)),
    )
    retired = RetirementPort(PRESETS["tiny"]).create()
    monkeypatch.setattr(hardware_module, "Harness", lambda _params: fake(sm=fake(retired=retired)))
    engine: Any = None
    watched = ([Signal(name="one")], seen.append)
    made = hardware_module.Hardware(
        PRESETS["tiny"], engine, check=check, watched=lambda _sm: [watched]
    )
    assert seen[0] == 1e-8
    assert seen[1][0] is watched and len(seen[1]) == 1 + check
    if check:
        assert made._reader is not None
        assert seen[1][1] == (made._reader.signals, made._reader.changes)
    assert (made.cycles, made.lockstep, made.in_place) == (0, None, False)
    hardware_module.Hardware(PRESETS["tiny"], engine)
    assert len(seen) == 3  # only its clock: no signal is observed


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (HardwareResult("ok", 5), "ok"),
        (HardwareResult("timeout", 5, "not over"), "timeout: not over"),
        (HardwareResult("interrupted", 12_345, "not over"), "interrupted after 12,345 cycles"),
    ],
)
def test_the_outcome_of_a_run_in_one_line(result, text):
    assert result.outcome == text and result.instructions == 0
    assert RunInterrupted(2, result).after == f"after {result.cycles:,} cycles"


# The memory of the port, cycle by cycle


class Port:
    """A memory port and a clock."""

    def __init__(self):
        self.port: Any = MemoryPort(3).create()
        self.module = Module()
        passed = Signal()
        self.module.d.sync += passed.eq(~passed)


def port_times(behaviour, count, random):
    """Returns the cycles in which requests are accepted and answers sent, and the number of
    requests in flight.
    """
    made, memory = Port(), Memory()
    memory.map("lines", 0, 64)
    server = MemoryServer(made.port, memory, behaviour, random)
    taken, given = [], []

    async def body(ctx):
        port = made.port
        ctx.set(port.request.valid, 1)
        ctx.set(port.response.ready, 1)
        for cycle in range(1, 200):
            ready, valid = ctx.get(port.request.ready), ctx.get(port.response.valid)
            await ctx.tick()
            if ready and len(taken) < count:
                taken.append(cycle)
                ctx.set(port.request.valid, len(taken) < count)
            if valid:
                given.append(cycle)
            if len(given) == count:
                return

    simulate(made.module, body, background=(server.serve,))
    return taken, given, server.depths


def test_an_answer_is_given_so_many_cycles_after_its_request():
    random = fake(random=lambda: 0.5, randint=lambda low, high: high)
    for latency in (1, 2, 5, 30):
        taken, given, depths = port_times(MemoryBehaviour((1, latency)), 1, random)
        assert given[0] - taken[0] == max(latency, 1)
        assert depths == {1: 1}


def test_a_request_is_stalled_where_the_chance_says_so():
    chances = iter([0.2, 0.2, 0.3, 0.29, 0.2, *[0.9] * 100])
    random = fake(random=lambda: next(chances), randint=lambda low, _high: low)
    behaviour = MemoryBehaviour((1, 1), stall=0.3)
    taken, _, _ = port_times(behaviour, 3, random)
    first = taken[0]
    assert [cycle - first for cycle in taken] == [0, 3, 4]
    assert port_times(MemoryBehaviour((1, 1)), 3, fake(random=lambda: 0.0, randint=min))[0] == [
        2, 3, 4,
    ]  # fmt: skip


def test_requests_that_wait_are_counted_with_the_one_that_is_taken():
    random = fake(random=lambda: 0.5, randint=lambda low, high: high)
    _, given, depths = port_times(MemoryBehaviour((1, 10)), 4, random)
    assert depths == {1: 1, 2: 1, 3: 1, 4: 1}
    assert [cycle - given[0] for cycle in given] == [0, 1, 2, 3]


def test_the_default_memory_answers_after_four_cycles_in_order_and_at_once():
    behaviour = MemoryBehaviour()
    assert (behaviour.latency, behaviour.interval, behaviour.stall) == ((4, 4), 1, 0.0)
    assert not behaviour.reorder and not behaviour.late
