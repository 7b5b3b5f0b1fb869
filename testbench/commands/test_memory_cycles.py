"""Cycles of the memory unit, in docs, are those of the hardware."""

from collections.abc import Callable
from typing import Any

import pytest

from rtl.isa.kinds import AtomicOperation, AtomicType, MemorySize, ShuffleMode
from rtl.params import WARP_THREADS, SmParams
from sim.machine.memory_port import MemoryBehaviour
from testbench.commands.test_figures import table
from testbench.commands.test_unit_cycles import cycles
from testbench.handmade import ALL, encode
from testbench.memory.cases import POINTER
from testbench.memory.driver import PARAMS, MemoryDriver
from testbench.memory.tb_memory import ALL_LANES, ALL_REPORTED, HANDS_OFF, SERIAL
from testbench.memory.world import WARPS, MemoryStep, MemoryWorld, buffer_of
from testbench.project.test_manual import DOCS
from testbench.watch import Watch, watched

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


Places = dict[int, Callable[[int], int]]
"""Registers, and what each thread has there."""


def world(places: Places) -> MemoryWorld:
    """Neighbouring threads access neighbouring words. ``places`` are others: those of POINTER are in the warp's
    buffer."""
    made = MemoryWorld(ALL_REPORTED, seed=0)
    usual: Places = {
        POINTER: lambda thread: 4 * thread,
        SHARED: lambda thread: 4 * thread,
        PAIRS: lambda thread: 8 * thread,
        DATA: lambda thread: thread,
    }
    for slot in range(WARPS):
        for register, place in (usual | places).items():
            values = [place(thread) for thread in range(WARP_THREADS)]
            if register == POINTER:
                made.set_pair(slot, register, [buffer_of(slot) + value for value in values])
            else:
                made.set_register(slot, register, values)
    return made


def run(
    params: SmParams,
    steps: list[MemoryStep],
    latency: int,
    places: Places | None = None,
    **how: Any,
) -> tuple[Any, Watch]:
    """The driver that has played these steps, and what it saw."""
    made = world(places or {})
    for step in steps:
        made.execute(step)

    def signals(dut: Any) -> dict[str, Any]:
        request = dut.memory.request
        of_both = {
            "dispatch": dut.dispatch.valid,
            "gathered": dut.port.data.gathered.valid,
            "request": request.valid & request.ready,
            "answer": dut.memory.response.valid & dut.memory.response.ready,
        }
        if params.serial:
            return of_both
        access, queue = dut.access, dut.queue
        return of_both | {
            "judged": access.is_judged,
            "announced": access.announces,
            "complete": access.line_is_complete,
            "accepted": access.found.valid & access.found.ready,
            "half written": queue.fill.valid & queue.fill.ready,
            "beat": queue.answer.valid,
        }

    return watched(
        "memory",
        lambda bench: MemoryDriver(
            bench, made, params, behaviour=MemoryBehaviour(latency=(latency, latency)), **how
        ),
        signals,
    )


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
