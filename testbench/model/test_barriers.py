"""CTA barriers of the warp model."""

import pytest

from rtl.isa.barriers import SYNCALL_BARRIER
from rtl.isa.errors import WarpError
from sim.model.warp.barriers import withdraw
from sim.model.warp.model import WarpModel
from testbench.handmade import ALL, Program, encode, machine, retire, vector, warp_of

SYNC, ARRIVE, REDUCE, SCAN = range(4)
EXIT = encode("EXIT")


def bar(mode: int, barrier: int = 0, count: int = 0, **fields: int) -> int:
    """Encodes a BAR with barrier and count in the instruction; its predicate is PT unless given."""
    return encode(
        "BAR", "ii", **{"mode": mode, "barrier": barrier, "count": count, "Pc": 7} | fields
    )


def cta(words, warps: int, **kind) -> WarpModel:
    """Returns a warp model with one CTA of this number of warps."""
    return machine(words, block=(32 * warps, 1, 1), warps=8, **kind)


def waiting(made: WarpModel) -> list[int | None]:
    return [None if warp is None else warp.barrier for warp in made.warps[:4]]


def test_the_last_of_all_warps_lets_everybody_go():
    made = cta([bar(SYNC, 3), EXIT], 3)
    for slot in (2, 0):
        assert made.retire(slot).next_pc == 0x10
    assert waiting(made)[:3] == [3, None, 3]
    made.retire(1)
    assert waiting(made)[:3] == [None] * 3
    assert made.run().status == "ok"


def test_a_barrier_counts_warps_not_threads():
    made = cta([bar(SYNC, 0), EXIT], 2)
    warp_of(made).masks = type(warp_of(made).masks)(active=1, exited=ALL & ~1)
    made.retire(0)
    assert waiting(made)[:2] == [0, None]
    made.retire(1)
    assert waiting(made)[:2] == [None, None]


def test_a_barrier_without_an_executing_thread_is_passed():
    made = cta([encode("BAR", "ii", mode=SYNC, Pc=7, guard=0), EXIT], 2)
    made.retire(0)
    assert waiting(made)[0] is None


def test_a_count_of_threads():
    made = cta([bar(SYNC, 0, 64), EXIT], 3)
    retire(made, 0, 2)
    assert waiting(made)[:3] == [None] * 3
    made.retire(1)
    assert waiting(made)[1] == 0


def test_arriving_does_not_wait():
    made = cta(
        [encode("BAR", "ii", mode=ARRIVE, count=64, Pc=7, guard=0), bar(SYNC, 0, 64), EXIT], 2
    )
    warp_of(made, 0).predicates[0] = ALL
    made.retire(0)
    made.retire(1)  # its guard is false
    made.retire(1)
    assert waiting(made)[:2] == [None, None]


def test_barriers_are_apart_and_can_be_used_again():
    program = [bar(SYNC, 1), bar(SYNC, 2), bar(SYNC, 1), EXIT]
    made = cta(program, 2)
    retire(made, 0, 1, 1)
    assert waiting(made)[:2] == [None, 2]
    assert made.run().status == "ok"


def test_a_warp_that_ends_leaves_the_count():
    program = Program()
    program("EXIT", guard=0).word(bar(SYNC)).word(EXIT)
    made = cta(program, 3)
    retire(made, 0, 0, 2, 2)
    warp_of(made, 1).predicates[0] = ALL
    assert waiting(made)[:3] == [0, None, 0]
    assert made.retire(1).terminated
    assert waiting(made)[:3] == [None] * 3


def test_threads_that_only_wait_at_the_exit_do_not_leave():
    program = Program()
    program("PEXIT", to="after")("EXIT", guard=0).word(bar(SYNC)).word(EXIT).label("after").word(
        EXIT
    )
    made = cta(program, 2)
    warp_of(made, 1).predicates[0] = ALL
    for slot, count in ((0, 3), (1, 2)):
        retire(made, slot, times=count)
    assert waiting(made)[:2] == [0, None]
    assert made.retire(1).terminated
    assert waiting(made)[:2] == [None, None]


def test_barrier_and_count_from_the_lowest_executing_thread():
    word = encode("BAR", "rr", mode=SYNC, Ra=1, Rb=2, Pc=7)
    made = cta([word, EXIT], 3)
    for slot in range(3):
        warp_of(made, slot).registers[1] = [9, 5, 7] + [0] * 29
        warp_of(made, slot).registers[2] = [1, 64 << 16 | 3, 3] + [0] * 29
        warp_of(made, slot).masks = type(warp_of(made, slot).masks)(active=ALL & ~1, exited=1)
    made.retire(0)
    assert waiting(made)[0] == 5
    made.retire(1)
    assert waiting(made)[:2] == [None, None]


@pytest.mark.parametrize("reduction,expected", [(0, 5 + 32), (1, 0), (2, 1)])
def test_a_reduction_counts_the_predicates_of_all_warps(reduction, expected):
    made = cta(
        [bar(REDUCE, 2, Pc=1, reduction=reduction), encode("B2R", "result", Rd=4, Pd=3), EXIT], 2
    )
    warp_of(made, 0).predicates[1] = 0b11111
    warp_of(made, 1).predicates[1] = ALL
    for slot in (0, 1, 0, 1):
        record = made.retire(slot)
    assert vector(warp_of(made), 4) == [expected] * 32
    assert record.predicates == {3: (ALL, ALL if expected else 0)}


def test_all_and_none():
    for predicate, flipped, both, some in ((ALL, 0, 1, 1), (0, 1, 1, 1), (0, 0, 0, 0)):
        for reduction, expected in ((1, both), (2, some)):
            word = encode("BAR", "ii", mode=REDUCE, Pc=1, Pc_not=flipped, reduction=reduction)
            made = cta([word, EXIT], 2)
            for slot in range(2):
                warp_of(made, slot).predicates[1] = predicate
                made.retire(slot)
            assert [warp_of(made, slot).reduction for slot in range(2)] == [expected] * 2


def test_only_executing_threads_are_reduced():
    word = encode("BAR", "ii", mode=REDUCE, Pc=1, reduction=0, guard=0)
    made = cta([word, EXIT], 1)
    warp_of(made).predicates[:2] = [0xFF, 0xF0F]
    made.retire(0)
    assert warp_of(made).reduction == 4


def test_a_scan_counts_what_came_before():
    made = cta([bar(SCAN, 2, Pc=1), EXIT], 3)
    for slot, predicate in enumerate((0xF, 0x3, 0xFF)):
        warp_of(made, slot).predicates[1] = predicate
    retire(made, 1, 2, 0)
    assert [warp_of(made, slot).reduction for slot in range(3)] == [10, 0, 2]


def test_the_state_of_a_barrier_can_be_moved():
    made = cta(
        [
            bar(REDUCE, 4, 96, Pc=1, reduction=0),
            encode("B2R", "barrier", Rd=4, barrier=4),
            encode("R2B", Rb=5, barrier=6),
            bar(REDUCE, 6, 96, Pc=1, reduction=0),
            EXIT,
        ],
        3,
    )
    for slot in range(3):
        warp_of(made, slot).predicates[1] = 0x7F
    made.retire(0)
    warp = warp_of(made, 1)
    warp.pc = 0x10
    made.retire(1)
    assert vector(warp, 4) == [1 | 3 << 7 | 7 << 14 | 1 << 26 | 1 << 27] * 32
    warp.registers[5] = warp.registers[4]
    retire(made, 1, 1)
    warp_of(made, 2).pc = 0x28
    made.retire(2)
    assert [warp_of(made, slot).reduction for slot in range(3)] == [0, 21, 21]


def test_results_can_be_moved():
    made = cta(
        [
            encode("R2B", Rb=5, mode=1),
            encode("B2R", "result", Rd=4),
            encode("B2R", "warp", Rd=6),
            EXIT,
        ],
        1,
    )
    warp = warp_of(made)
    warp.registers[5] = [3, 9] + [0] * 30
    warp.registers[6] = 1
    warp.masks = type(warp.masks)(active=ALL & ~1, exited=1)
    retire(made, 0, times=3)
    assert (vector(warp, 4), vector(warp, 6)) == ([0] + [9] * 31, [1] + [0] * 31)


def test_a_warp_that_is_withdrawn_is_as_if_it_had_not_come():
    made = cta([bar(SYNC, 3), EXIT], 2)
    made.retire(0)
    withdraw(warp_of(made, 0))
    assert waiting(made)[:2] == [None, None]
    made.retire(1)
    assert waiting(made)[:2] == [None, 3]
    warp_of(made, 0).pc = warp_of(made, 1).pc - 8
    made.retire(0)
    assert waiting(made)[:2] == [None, None]
    assert made.run().status == "ok"


def test_what_a_withdrawn_warp_gave_to_a_reduction_goes_with_it():
    made = cta([bar(REDUCE, 2, Pc=1, reduction=0), EXIT], 4)
    barrier = warp_of(made).cta.barriers[2]
    for slot, predicate in enumerate((0xF0, ALL, 0)):
        warp_of(made, slot).predicates[1] = predicate
        made.retire(slot)
    assert (barrier.arrived, barrier.population, barrier.some_false, barrier.some_true) == (
        3,
        36,
        1,
        1,
    )
    withdraw(warp_of(made, 0))
    assert (barrier.arrived, barrier.population, barrier.some_false, barrier.some_true) == (
        2,
        32,
        1,
        1,
    )
    withdraw(warp_of(made, 2))
    assert (barrier.arrived, barrier.population, barrier.some_false, barrier.some_true) == (
        1,
        32,
        0,
        1,
    )
    withdraw(warp_of(made, 1))
    assert barrier.pack() == 0


def test_arrivals_without_waiting_stay_when_a_warp_is_withdrawn():
    made = cta([bar(ARRIVE, 1, 96), bar(SYNC, 1, 96), EXIT], 2)
    retire(made, 1, 1)
    withdraw(warp_of(made, 1))
    assert warp_of(made).cta.barriers[1].pack() == 1 | 3 << 7


def test_only_a_warp_that_waits_at_a_user_barrier_can_be_withdrawn():
    made = cta([encode("BAR", "all"), EXIT], 2)
    warp_of(made).in_trap = True
    for _ in range(2):
        with pytest.raises(
            ValueError,
            match="the warp in slot 0 waits at no barrier that it could be taken back from",
        ):
            withdraw(warp_of(made))
        if warp_of(made).barrier is None:
            made.retire(0)


def test_the_trap_handlers_barrier_waits_for_every_live_warp():
    made = cta([encode("BAR", "all"), EXIT], 3, barriers=0)
    for slot in range(3):
        warp_of(made, slot).in_trap = True
    made.retire(0)
    assert waiting(made)[:3] == [SYNCALL_BARRIER, None, None]
    made.retire(2)
    warp_of(made, 1).pc = 8 * 2
    assert made.retire(1).terminated
    assert waiting(made)[0] is None
    assert waiting(made)[2] is None
    assert made.run().status == "ok"


@pytest.mark.parametrize(
    "word,error",
    [
        (bar(SYNC, 16), WarpError.ILLEGAL_INSTR_PARAM2),
        (bar(SYNC, 255), WarpError.ILLEGAL_INSTR_PARAM2),
        (bar(SYNC, 0, 33), WarpError.ILLEGAL_INSTR_PARAM),
        (encode("BAR", "all"), WarpError.ILLEGAL_INSTR_ENCODING),
        (encode("B2R", "barrier", Rd=4, barrier=16), WarpError.ILLEGAL_INSTR_PARAM2),
    ],
)
def test_barriers_that_are_not_there(word, error):
    made = cta([word, EXIT], 1)
    assert made.retire(0).error is error
    assert waiting(made)[0] is None


def test_a_barrier_that_the_launch_did_not_ask_for():
    made = cta([bar(SYNC, 2), EXIT], 1, barriers=2)
    assert made.retire(0).error is WarpError.ILLEGAL_INSTR_PARAM2
    assert cta([bar(SYNC, 1), EXIT], 1, barriers=2).retire(0).error is WarpError.NONE


def test_warps_that_wait_without_end_are_reported():
    made = cta([bar(SYNC, 0, 96), EXIT], 2)
    result = made.run()
    assert (result.status, result.instructions, result.reason) == (
        "timeout",
        2,
        "every live warp waits at a barrier",
    )
    with pytest.raises(ValueError, match="warp slot 1 waits at a barrier"):
        made.retire(1)
