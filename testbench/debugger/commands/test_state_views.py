"""The debugger's views of a stopped warp: masks, stack, registers, predicates, memory,
instructions.
"""

import pytest

from sim.debugger.machine import MachineState
from testbench.debugger.commands.fake_machine import INSTRUCTIONS, refusal, run, stopped_warp


def addresses(lines):
    return [int(line[6:12], 16) for line in lines if "0x" in line[:12]]


def test_masks_and_threads_are_those_that_are_active_disabled_or_wait(session):
    session.look_at(1)
    assert run(session, "masks") == [
        "active      0000000f",
        "broken      00000030",
        "waiting     000000c0",
    ]
    assert run(session, "thread") == ["active      0-3", "broken      4-5", "waiting     6-7"]
    session.look_at(3)
    assert run(session, "masks") == ["active      80000001"]
    assert run(session, "thread") == ["active      0 31"]


def test_the_stack_is_shown_with_its_top_first(session):
    session.look_at(1)
    assert run(session, "stack") == [
        "3 tokens, 1 counted calls open, top first",
        "    2  RETURN    mask 0000000f  pc 0x0010 k+0x10  counted",
        "    1  NONE",
        "    0  SYNC      mask 000000ff  pc 0x0030 inner+0x8",
    ]
    session.look_at(3)
    assert run(session, "stack") == ["0 tokens, 0 counted calls open"]


def test_registers_are_of_the_thread_or_some_of_them_of_all_threads(session):
    session.look_at(1)
    assert run(session, "thread 5") == ["warp 1, thread 5"]
    assert run(session, "registers") == [
        "R0   00000005   R1   00000069   R2   000000cd   R3   00000131",
        "R4   00000195   R5   000001f9",
    ]
    shown = run(session, "registers R2 5")
    assert shown[:4] == [
        "R2    0: 000000c8 000000c9 000000ca 000000cb 000000cc 000000cd 000000ce 000000cf",
        *(f"     {first:>2}: {' '.join(['       -'] * 8)}" for first in (8, 16, 24)),
    ]
    assert len(shown) == 8 and shown[4].startswith("R5    0: 000001f4 ")
    assert refusal(session, "registers R6") == "there is no R6; threads have 6 registers"


def test_predicates_are_masks_and_values_of_the_thread(session):
    session.look_at(1)
    run(session, "thread 5")
    assert run(session, "predicates") == [
        "         threads   thread 5",
        "P0       000000aa  1",
        "P1       000000cc  0",
        "P2       000000f0  1",
        *(f"P{at}       00000000  0" for at in range(3, 7)),
        "zero     000000cc  0",
        "sign     000000f0  1",
        "carry    00000000  0",
        "overflow 00000000  0",
    ]
    session.thread = 9
    assert all(line.endswith("  -") for line in run(session, "predicates")[1:])


def test_threads_and_warps_that_there_are_not_are_not_selected(session):
    assert run(session, "warp 1")[0] == "warp 1 at 0x0010 k+0x10: breakpoint 2"
    assert refusal(session, "thread 8") == "there is no thread 8; there are 0, 1, 2, 3, 4, 5, 6, 7"
    assert refusal(session, "thread 32").startswith("there is no thread 32;")
    assert refusal(session, "warp 2") == "there is no warp 2; there are 1, 3"
    assert (session.warp_number, session.thread) == (1, 0)
    session._machine.warps = {}
    assert refusal(session, "warp") == "there is no warp 1; there are none"


def test_another_warp_is_looked_at_from_its_first_active_thread(session):
    session._machine.warps[5] = stopped_warp(0x08, 0b1100, 0b11)
    session.look_at(5)
    assert session.thread == 2
    session._machine.warps[6] = stopped_warp(0x08, 0, 0b1)
    session.look_at(6)
    assert session.thread == 0


def test_memory_is_shown_by_words_from_a_buffer_or_an_address(session):
    base, _ = session.area.launch.buffers["out"]
    assert run(session, "memory out") == [
        f"{base:#012x}  00001000 00001001 00001002 00001003",
        f"{base + 16:#012x}  00001004 00001005 00001006 00001007",
        f"{base + 32:#012x}  00001008 00001009",
    ]
    assert run(session, "memory out+0x20") == [f"{base + 32:#012x}  00001008 00001009"]
    assert run(session, "memory out+37")[0].startswith(f"{base + 37:#012x}  ")
    assert refusal(session, "memory out+38") == "out+38: the buffer has 38 bytes"
    assert run(session, "memory out 1") == [f"{base:#012x}  00001000"]
    assert run(session, f"memory {base + 4:#x} 2") == [f"{base + 4:#012x}  00001001 00001002"]
    assert refusal(session, "memory") == "memory of what? buffers: out"
    assert refusal(session, "memory other") == "no buffer other; there are out"
    assert refusal(session, "memory 0x10") == "nothing is mapped at 0x10"
    for count in ("0", "4097"):
        assert refusal(session, f"memory out {count}") == (
            f"{count} is no number of words: 1 to 4,096"
        )
    assert refusal(session, "memory out x") == "'x' is no number of words"


def test_instructions_are_shown_around_the_warp_without_control_words(session):
    """Up to four instructions before the current one are shown."""
    for place, at in enumerate(INSTRUCTIONS[:9]):
        session._machine.warps[1].pc = at
        session.look_at(1)
        shown = run(session, "disassemble")
        first = max(0, place - 4)
        assert addresses(shown) == INSTRUCTIONS[first : first + 10]
        (marked,) = (line for line in shown if line.startswith("  ->"))
        assert addresses([marked]) == [at]


def test_instructions_are_shown_from_a_place_with_the_names_of_functions(session):
    session.look_at(1)
    run_ = run(session, "disassemble k 6")
    assert run_[0] == "k:" and run_[4] == "inner:" and len(run_) == 8
    assert addresses(run_) == INSTRUCTIONS[:6]
    assert run_[2].startswith("  ->  0x0010  ") and run_[2].endswith("  MOV32I R1, 0x1")
    assert addresses(run(session, "disassemble inner+0x8 1")) == [0x30]
    beyond = run(session, "disassemble 0x78 4")
    assert beyond[-1].endswith("  nothing is there") or len(beyond) >= 4
    session._machine.state = MachineState.HELD
    assert not any(line.startswith("  ->") for line in run(session, "disassemble k"))
    assert refusal(session, "disassemble") == "no warp has started yet; run starts it"


@pytest.mark.parametrize(
    ("state", "hint"),
    [
        (MachineState.HELD, "no warp has started yet; run starts it"),
        (MachineState.RUNNING, "the grid runs; stop stops it"),
        (MachineState.OVER, "the grid is over; run starts it again"),
    ],
)
def test_what_needs_stopped_warps_says_how_to_get_them(session, state, hint):
    session._machine.state = state
    for line in ("warps", "warp", "thread", "registers", "predicates", "masks", "stack", "step"):
        assert refusal(session, line) == hint
