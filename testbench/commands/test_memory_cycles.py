"""Cycles of the memory unit, in docs, are those of the hardware."""

from typing import Any

import pytest

from rtl.isa.kinds import AtomicOperation, AtomicType, MemorySize, ShuffleMode
from rtl.params import WARP_THREADS, SmParams
from sim.machine.memory_port import MemoryBehaviour
from testbench import simulation
from testbench.commands.test_figures import table
from testbench.commands.test_unit_cycles import cycles
from testbench.handmade import ALL, encode
from testbench.memory.cases import POINTER
from testbench.memory.driver import PARAMS, MemoryDriver
from testbench.memory.tb_memory import ALL_LANES, ALL_REPORTED, HANDS_OFF, SERIAL
from testbench.memory.world import WARPS, MemoryStep, MemoryWorld, buffer_of
from testbench.project.test_manual import DOCS
from testbench.watch import Watch

PAGE = DOCS / "memory.md"
SHARED, PAIRS = POINTER + 2, POINTER + 3
"""Registers with addresses of shared memory: of words, and of places for two words, one after the other."""
DATA, RESULT = 64, 128
WORD, PAIR = MemorySize.B32.value, MemorySize.B64.value
ADD = AtomicOperation.ADD.value
LDG = encode("LDG", Ra=POINTER, Rd=RESULT, wide=1, size=WORD)
STG = encode("STG", Ra=POINTER, Rd=DATA, wide=1, size=WORD)
LDS = encode("LDS", Ra=SHARED, Rd=RESULT, uniform_size=WORD)
STS = encode("STS", Ra=SHARED, Rd=DATA, size=WORD)
ATOMS = encode("ATOMS", "", Ra=SHARED, Rb=DATA, Rd=RESULT, type=0, operation=ADD)
FLOATS = encode("RED", "", Ra=POINTER, Rd=DATA, wide=1, type=AtomicType.F32.value, operation=ADD)
SHFL = encode("SHFL", "ii", Rd=RESULT, Ra=DATA, Pd=3, mode=ShuffleMode.BFLY.value, lane=9, clamp=31)
HALF = 0xFF
"""Threads whose words are in half a line."""


def world() -> MemoryWorld:
    """Neighbouring threads access neighbouring words."""
    made = MemoryWorld(ALL_REPORTED, seed=0)
    for slot in range(WARPS):
        threads = range(WARP_THREADS)
        made.set_pair(slot, POINTER, [buffer_of(slot) + 4 * thread for thread in threads])
        made.set_register(slot, SHARED, [4 * thread for thread in threads])
        made.set_register(slot, PAIRS, [8 * thread for thread in threads])
        made.set_register(slot, DATA, [*threads])
    return made


def run(params: SmParams, steps: list[MemoryStep], latency: int, **how: Any) -> tuple[Any, Watch]:
    """The driver that has played these steps, and what it saw."""
    runs = list[tuple[Any, Watch]]()

    def body(bench: Any) -> None:
        made = world()
        for step in steps:
            made.execute(step)
        behaviour = MemoryBehaviour(latency=(latency, latency))
        driver = MemoryDriver(bench, made, params, behaviour=behaviour, **how)
        dut = driver.dut
        signals = {
            "dispatch": dut.dispatch.valid,
            "gathered": dut.port.data.gathered.valid,
            "request": dut.memory.request.valid,
        }
        if not params.serial:
            signals["judged"] = dut.access.is_judged
        watch = Watch(**signals)
        driver.observe(watch)
        driver.run()
        runs.append((driver, watch))

    simulation.passes("memory", body)
    return runs[0]


def alone(params: SmParams, *instructions: tuple[int, int]) -> list[int]:
    """Cycles from dispatch to the end, of instructions of one warp that follow each other: word and threads."""
    steps = [MemoryStep(0, word, threads) for word, threads in instructions]
    driver, watch = run(params, steps, HANDS_OFF.latency[0], alone=True)
    return [
        end.cycle - start for end, start in zip(driver.ends, watch.cycles("dispatch"), strict=True)
    ]


def rate(params: SmParams, word: int, threads: int = ALL) -> float:
    """Cycles for each of many independent instructions of all warps; memory answers after 20."""
    steps = [MemoryStep(slot, word, threads) for _ in range(6) for slot in range(WARPS)]
    driver, _ = run(params, steps, 20)
    half = len(driver.ends) // 2
    return (driver.ends[-1].cycle - driver.ends[half].cycle) / (len(driver.ends) - 1 - half)


def test_a_load_takes_the_cycles_of_the_manual():
    _, watch = run(PARAMS, [MemoryStep(0, LDG)], 1, alone=True)
    beats = watch.cycles("gathered")
    row = cycles("memory", "addresses")
    assert row.startswith(f"{watch.first('judged') - beats[-1]} after the last beat of registers")
    row = cycles("memory", "the first line of a load is requested")
    assert row.startswith(f"{watch.first('request') - beats[0]} after the first beat of registers")


def test_a_shuffle_takes_the_cycles_of_the_manual():
    between = 1
    row = cycles("memory", "shuffle")
    assert f"row a beat: {rate(PARAMS, SHFL) - between:g} cycles with {PARAMS.lanes} lanes" in row


def test_an_atomic_operation_takes_the_cycles_of_the_manual():
    row = cycles("memory", "atomic operation")
    all_threads, some = rate(PARAMS, ATOMS), rate(PARAMS, ATOMS, HALF)
    each = (all_threads - some) / (WARP_THREADS - HALF.bit_count())
    assert row.startswith(f"{each:g} for each thread, or")
    assert f", plus {all_threads - each * WARP_THREADS:g};" in row
    eight, one = alone(PARAMS, (FLOATS, HALF), (FLOATS, 1))
    each, rest = divmod(eight - one, HALF.bit_count() - 1)
    assert not rest
    assert f"A floating-point sum: {each} for each thread" in row
    words = ("", "one", "two", "three", "four", "five")
    assert f"A floating-point sum takes {words[each]} cycles a thread." in PAGE.read_text()


def test_accesses_take_the_cycles_of_the_manual():
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"A store of two lines takes {rate(PARAMS, STG):g} cycles, five for each." in text
    assert f"With 32 lanes an access to shared memory takes {rate(ALL_LANES, LDS):g} cycles" in text
    assert f"A load of two lines takes {rate(ALL_LANES, LDG):g}:" in text


@pytest.mark.parametrize(
    ("row", "name", "word", "further"),
    [
        (
            "a load from shared memory",
            "LDS",
            LDS,
            encode("LDS", Ra=PAIRS, Rd=RESULT, uniform_size=PAIR),
        ),
        ("a store to shared memory", "STS", STS, encode("STS", Ra=PAIRS, Rd=DATA, size=PAIR)),
        ("an atomic operation in shared memory", "ATOMS", ATOMS, None),
        ("a load from memory", "LDG", LDG, None),
    ],
)
def test_a_serial_access_takes_the_cycles_of_the_manual(row, name, word, further):
    def each(instruction: int) -> int:
        """Cycles more for a thread that executes it than for one that does not."""
        all_threads, one = alone(SERIAL, (instruction, ALL), (instruction, 1))
        more, rest = divmod(all_threads - one, WARP_THREADS - 1)
        assert not rest
        return more

    page = {cells[0]: cells[1] for cells in table(PAGE, "## On one lane", "instruction")}
    first = each(word)
    expected = f"{first}" if further is None else f"{first}; {each(further) - first}"
    if row == "a load from memory":
        expected = f"{first - HANDS_OFF.latency[0]} and the latency of memory"
    assert page[row] == expected
