"""The whole machine: its testbench, and differences that the comparison must detect."""

from functools import partial
from random import Random

import pytest

import sim.machine.base
import sim.machine.hardware
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead
from rtl.layouts import InstructionKind
from rtl.params import PRESETS
from sim.engine import PysimEngine
from sim.machine.lockstep import Lockstep
from sim.machine.retirement_events import RetirementEvent
from testbench import simulation
from testbench.handmade import encode, launch
from testbench.kernels.manifest import RUNS, build
from testbench.simulation import ENGINE
from testbench.sm import tb_sm
from testbench.sm.driver import SmDriver
from testbench.sm.errors import error_cases
from testbench.sm.random_programs import random_program, shrink
from testbench.words import address

SLOW = ENGINE is PysimEngine
LEAST = (
    "k08_fib_recursion",
    "k14_transpose_shared",
    "k18_atomics_global",
    "k22_alu64",
    "k44_bar_variants",
)
NAMES = tb_sm.FEW if SLOW else tb_sm.SHORT
fast = pytest.mark.skipif(SLOW, reason="takes minutes without a C++ compiler")


@pytest.fixture(scope="module")
def driver():
    return tb_sm.machine_for(ENGINE)


failure_of = partial(simulation.failure, "sm")
passes = partial(simulation.passes, "sm")


def test_kernels_leave_the_results_of_the_manifest(driver):
    passes(lambda bench: tb_sm.check_kernels(bench, driver, [(name, "O3") for name in NAMES]))


@fast
def test_any_policy_and_any_latency_leave_the_same(driver):
    passes(
        lambda bench: tb_sm.check_schedules(
            bench, driver, ["k15_shared_reduce", "k32_bitonic"], (1, 200)
        )
    )


@fast
def test_more_ctas_than_there_is_room_for(driver):
    passes(lambda bench: tb_sm.check_grid(bench, driver))


@pytest.fixture(scope="module")
def least():
    return SmDriver(PRESETS["least"], ENGINE)


@fast
def test_kernels_on_the_smallest_machine(least):
    passes(
        lambda bench: tb_sm.check_kernels(
            bench, least, [(name, "O3") for name in (*LEAST, *tb_sm.FEW)]
        )
    )


@fast
@pytest.mark.parametrize("preset", ["tiny", "default"])
def test_what_passes_the_full_lanes_only(preset):
    driver = SmDriver(PRESETS[preset], ENGINE)
    passes(lambda bench: tb_sm.check_close(bench, driver))


@fast
def test_every_warp_error_is_raised_at_its_instruction(driver):
    passes(lambda bench: tb_sm.check_errors(bench, driver, error_cases()))


@fast
def test_errors_on_the_smallest_machine(least):
    passes(lambda bench: tb_sm.check_errors(bench, least, error_cases()))


def test_every_error_that_can_be_raised_is():
    assert {case.error for case in error_cases()} == set(WarpError) - tb_sm.NEVER_RAISED


@fast
def test_random_programs(driver):
    passes(lambda bench: tb_sm.check_random(bench, driver, 8, 12))


# Faults that must be detected


def test_an_input_that_differs_is_found_where_it_is_loaded(driver, monkeypatch):
    def place(launch, memory):
        base, _ = launch.buffers["a"]
        memory.write(base, bytes([memory.read(base, 1)[0] ^ 1]))
        return place_descriptor(launch, memory)

    place_descriptor = sim.machine.base.place_descriptor
    monkeypatch.setattr(sim.machine.base, "place_descriptor", place)
    failure = failure_of(lambda bench: driver.run(bench, "k01", build(RUNS["k01_vecadd"], "O3")))
    assert "of thread 0" in failure
    assert "LDG.E" in failure


@pytest.mark.parametrize(
    ("what", "field", "message"),
    [
        ("issued", "pc", "pc"),
        ("issued", "word", "instruction word"),
        ("written", "values", "of thread"),
        ("written", "lanes", "threads that write"),
        ("written", "register", "registers written"),
        ("flow", "active", "threads active"),
        ("flow", "terminated", "the warp's end"),
    ],
)
def test_an_event_that_differs_is_found(driver, monkeypatch, what, field, message):
    def altered(self, event):
        old = event.fields[field]
        event.fields[field] = (
            [value ^ 1 for value in old] if isinstance(old, list | tuple) else old ^ 1
        )
        take(self, event)

    take = getattr(Lockstep, f"_take_{what}")
    monkeypatch.setattr(Lockstep, f"_take_{what}", altered)
    failure = failure_of(lambda bench: driver.run(bench, "k01", build(RUNS["k01_vecadd"], "O3")))
    assert message in failure


def test_memory_that_differs_in_the_end_is_found(driver, monkeypatch):
    def spoilt(self, memory):
        base, _ = self.machine.launch.buffers["c"]
        memory.write(base, bytes([memory.read(base, 1)[0] ^ 1]))
        return compare(self, memory)

    compare = Lockstep.compare_memory
    monkeypatch.setattr(Lockstep, "compare_memory", spoilt)
    failure = failure_of(lambda bench: driver.run(bench, "k01", build(RUNS["k01_vecadd"], "O3")))
    assert "c, byte 0x0" in failure


def test_an_error_status_that_differs_is_found(driver, monkeypatch):
    def other(self, *arguments, **options):
        result = original(self, *arguments, **options)
        result.registers["HWW_WARP_ESR_PC"] += 8
        return result

    original = sim.machine.hardware.Hardware.run
    monkeypatch.setattr(sim.machine.hardware.Hardware, "run", other)
    case = next(error_cases())
    failure = failure_of(lambda bench: tb_sm.check_errors(bench, driver, [case]))
    assert "its pc" in failure


def test_programs_become_small():
    programs = [random_program(Random(seed), 12) for seed in range(10)]
    program = next(program for program in programs if "SHFL" in program.text)
    least = shrink(program, lambda smaller: "SHFL" in smaller.text, 1000)
    assert len(least.body) + sum(map(len, least.functions)) == 1
    assert (least.block, least.grid) == (1, 1)


class _RecordedEvents:
    """A lockstep comparison of two warps that begin with R2B and BAR. The test supplies the
    hardware's events, one per cycle.
    """

    WORDS = (
        encode("R2B", mode=BarrierRead.RESULT.value, barrier=0, Rb=1),
        encode("BAR", "ii", mode=BarrierMode.SYNC.value, barrier=0, Pc=7),
    )

    def __init__(self):
        self.lockstep, self.cycle = (
            Lockstep(launch(list(self.WORDS), block=(32, 2, 1)), PRESETS["tiny"]),
            0,
        )
        for warp in range(2):
            self.take(
                "launched", warp=warp, number=warp, cta_warps=2, index={"x": 0, "y": 0, "z": 0}
            )

    def take(self, what, **fields):
        self.lockstep.take(RetirementEvent(self.cycle, what, fields))
        self.cycle += 1

    def issued(self, warp, number):
        kind = (InstructionKind.BARRIER_INDEXED, InstructionKind.BARRIER)[number]
        self.take(
            "issued",
            warp=warp,
            sequence=number,
            pc=address(number),
            word=self.WORDS[number],
            kind=kind.value,
        )


def test_an_arrival_is_withdrawn_after_itself():
    """It is withdrawn although an older instruction of another warp reaches the barrier unit later,
    for its operand.
    """
    events = _RecordedEvents()
    events.issued(1, 0)
    events.take("completed", warp=1, sequence=0)
    events.issued(0, 0)
    events.issued(1, 1)
    events.take("completed", warp=1, sequence=1)
    events.take("withdrawn", warp=1)
    assert events.lockstep.compared == 1
    events.take("completed", warp=0, sequence=0)
    assert (events.lockstep.difference, events.lockstep.compared) == (None, 3)
    assert [warp and warp.barrier for warp in events.lockstep.machine.warps[:2]] == [None, None]


def test_an_arrival_that_is_none_is_a_difference():
    events = _RecordedEvents()
    events.take("withdrawn", warp=1)
    difference = events.lockstep.difference
    assert difference is not None
    assert (difference.cycle, difference.warp, difference.pc) == (2, 1, address(0))
    assert str(difference).splitlines()[2:] == [
        "hardware      taken back",
        "reference     the warp in slot 1 waits at no barrier that it could be taken back from",
    ]
