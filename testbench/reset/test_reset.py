"""Resets at any time and memories with any content. Every memory is swept, or the manual has the
reason why not.
"""

from random import Random

import pytest
from amaranth.hdl import Fragment

from rtl.fpga.machine import BoardMachine
from rtl.fpga.sdram import SdramController
from rtl.fpga.video import Video
from rtl.params import PRESETS
from rtl.sm import Sm
from rtl.sweep import LONGEST_SWEEP
from sim.engine import PysimEngine
from testbench.reset import tb_reset
from testbench.reset.memories import described, memories_of
from testbench.simulation import ENGINE, passes

PRESETS_OF_ALL_FORMS = ("default", "least")
CLOCK_HZ = 50e6
fast = pytest.mark.skipif(ENGINE is PysimEngine, reason="takes minutes without a C++ compiler")


@pytest.fixture(scope="module", params=PRESETS_OF_ALL_FORMS)
def driver(request):
    return tb_reset.ResetDriver(PRESETS[request.param], ENGINE, Random(1))


@fast
def test_programs_run_with_any_content_of_memories_at_power_up(driver):
    passes("reset", lambda bench: tb_reset.check_power_up(bench, driver))


@fast
def test_programs_run_after_a_reset_in_any_cycle(driver):
    passes("reset", lambda bench: tb_reset.check_resets(bench, driver, 10, after=2))


def test_a_sweep_gives_words_their_first_content():
    passes("reset", tb_reset.check_sweep)


@pytest.fixture(scope="module")
def memories():
    """The memories of a pipelined and of a serial machine, and of a board."""
    board = BoardMachine(
        PRESETS["least"],
        int(CLOCK_HZ),
        int(CLOCK_HZ) // 16,
        lambda bits: SdramController(bits, CLOCK_HZ),
        video=Video,
    )
    found = [
        *memories_of(Fragment.get(Sm(PRESETS["default"]), platform=None)),
        *memories_of(Fragment.get(board, platform=None)),
    ]
    return [memory._replace(path=memory.path.removeprefix("sm.")) for memory in found]


def test_every_memory_is_swept_or_the_manual_says_why_not(memories):
    """Reset must restore every content that matters: see docs/reset.md."""
    known = described()
    found = {
        memory.path: "swept" if memory.swept else "" if memory.writes else "constants"
        for memory in memories
    }
    assert found.keys() == known.keys()
    for path, how in found.items():
        if how:
            assert known[path].startswith(how), path
        else:
            assert not known[path].startswith(("swept", "constants")), path


def test_no_memory_that_is_written_has_a_first_content_of_its_own(memories):
    """On an ASIC a memory has no initial content."""
    assert [memory.path for memory in memories if memory.filled and memory.writes] == []


def test_no_sweep_takes_longer_than_the_manual_says(memories):
    assert max(memory.data.depth for memory in memories if memory.swept) <= LONGEST_SWEEP
