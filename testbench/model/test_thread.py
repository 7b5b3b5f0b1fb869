"""Behaviour of the thread model alone: flow, meetings of threads, barriers, faults, traps,
fairness.
"""

import struct
from dataclasses import replace
from functools import partial

import pytest

from rtl.isa.condition import ConditionCode
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.kinds import (
    BarrierMode,
    BarrierReduction,
    BreakpointMode,
    Compare,
    MemorySize,
    ShuffleMode,
    VoteMode,
)
from rtl.isa.syntax import PT, RZ
from sim.launch import Buffer
from sim.model.thread.run import ThreadFaultError, run, step
from sim.model.thread.state import FaultError
from testbench import words
from testbench.words import (
    FINISH,
    START,
    STORE,
    address,
    branch,
    compare,
    contents,
    encode,
    launch,
    move,
    offset,
    place,
)

WORD = 0xFFFF_FFFF
EXIT = encode("EXIT")
LOAD = encode("LDG", Rd=0, Ra=2, wide=1, size=MemorySize.B32.value)
results = partial(words.results, run)


def fault(content: int) -> FaultError:
    """Returns the error of an instruction that faults."""
    with pytest.raises(FaultError) as caught:
        step(content)
    return caught.value


def add(register: int, value: int) -> int:
    return encode("IADD32I", Rd=register, Ra=register, imm32=value)


# Flow


def test_threads_of_an_if_take_their_own_path_and_meet():
    body = [
        branch(0, 7, "SSY"),
        compare(0, Compare.LT, 1, 2),
        branch(2, 5, guard=0),
        move(0, 100),
        encode("SYNC"),
        move(0, 7),
        encode("SYNC"),
        add(0, 1),
    ]
    assert results(body, 4) == [8, 8, 101, 101]


def test_a_group_address_means_its_first_instruction():
    first = len(START)
    assert place(first + 2) % 32 == 0
    assert results([branch(0, 2), EXIT, move(0, 5)]) == [5]


def test_break_drops_what_lies_above_it():
    body = [
        branch(0, 5, "PBK"),
        branch(1, 4, "SSY"),
        branch(2, 4, "PCNT"),
        encode("BRK"),
        EXIT,
        move(0, 3),
    ]
    assert results(body) == [3]


def test_continue_goes_to_the_innermost_place_and_takes_it():
    # Every iteration pushes the address of its break target again; the last one leaves by BRK.
    body = [
        branch(0, 7, "PBK"),
        branch(1, 3, "PCNT"),
        encode("CONT"),
        add(0, 1),
        compare(0, Compare.GE, 0, 3),
        encode("BRK", guard=0),
        branch(6, 1),
        add(0, 10),
    ]
    assert results(body) == [13]


def test_calls_nest_and_return():
    body = [
        branch(0, 4, "CAL"),
        add(0, 1),
        branch(2, 8),
        EXIT,
        branch(4, 6, "CAL"),
        encode("RET"),
        move(0, 40),
        encode("RET"),
        add(0, 2),
    ]
    assert results(body) == [43]


def test_a_pushed_return_and_an_indexed_branch_make_a_call():
    here = address(len(START) + 2) + INSTRUCTION_BYTES
    body = [
        move(4, place(len(START) + 4)),
        branch(1, 3, "PRET"),
        encode("BRX", "r", Ra=4, target=-here),
        branch(3, 6),
        move(0, 9),
        encode("RET"),
        add(0, 1),
    ]
    assert results(body) == [10]


def test_absolute_jumps_and_calls_count_from_the_program():
    first = len(START)
    body = [
        encode("JMP", "i", target=place(first + 2)),
        EXIT,
        encode("JCAL", "i", target=place(first + 5)),
        branch(3, 7),
        EXIT,
        move(0, 6),
        encode("RET"),
        add(0, 1),
    ]
    assert results(body) == [7]


def test_constants_hold_offsets_for_relative_branches_and_pcs_for_absolute_ones():
    first = len(START)
    table = struct.pack("<3i", offset(first, first + 2), place(first + 4), place(first + 6))
    body = [
        encode("BRA", "c", bank=2, offset=0),
        EXIT,
        encode("JMP", "c", bank=2, offset=4),
        EXIT,
        encode("JMX", "c", bank=2, offset=8, Ra=RZ),
        EXIT,
        move(0, 12),
    ]
    assert results(body, constants={2: table}) == [12]


def test_a_place_for_exit_takes_the_thread_once():
    assert results([branch(0, 3, "PEXIT"), branch(1, 2, "SSY"), EXIT, move(0, 11)]) == [11]


def test_a_killed_thread_does_not_come_back_to_a_place_for_exit():
    assert results([branch(0, 3, "PEXIT"), encode("KIL"), EXIT, move(0, 11)]) == [0]


def test_a_long_jump_leaves_calls_behind():
    body = [
        branch(0, 5, "PLONGJMP"),
        branch(1, 3, "CAL"),
        EXIT,
        branch(3, 4, "CAL"),
        encode("LONGJMP"),
        move(0, 8),
    ]
    assert results(body) == [8]


def test_a_return_without_a_call_ends_the_thread():
    assert results([move(0, 5), STORE, encode("RET"), move(0, 6)]) == [5]


@pytest.mark.parametrize("name", ["BRK", "CONT", "LONGJMP", "SYNC"])
def test_leaving_without_a_place_is_a_stack_error(name):
    assert fault(encode(name)).error is WarpError.STACK_ERROR


def test_synchronising_past_another_place_is_a_stack_error():
    made = launch(
        [encode("SSY", "i", target=8), encode("PBK", "i", target=8), encode("SYNC"), EXIT]
    )
    with pytest.raises(ThreadFaultError, match="SYNC finds BREAK where SSY's place should be"):
        run(made)


@pytest.mark.parametrize("condition", range(16))
def test_flow_instructions_test_the_condition(condition):
    zero, negative = condition & 1, condition & 2
    branched = step(
        encode("BRA", "i", target=-16, test=ConditionCode.EQU.value), condition=condition, pc=80
    )
    assert branched.next_pc == (72 if zero else 88)
    left = step(encode("EXIT", test=ConditionCode.SFT.value), condition=condition, pc=80)
    assert left.next_pc == (None if negative else 88)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        *(
            ([encode("BRX", "r", Ra=RZ, target=target), EXIT], error)
            for target, error in (
                (4, WarpError.MISALIGNED_PC),
                (0x10000, WarpError.PC_OVERFLOW),
                (-0x1000, WarpError.PC_OVERFLOW),
            )
        ),
        ([encode("NOP")] * 3, WarpError.PC_OVERFLOW),
    ],
)
def test_going_out_of_the_program_faults(words, error):
    with pytest.raises(ThreadFaultError) as caught:
        run(launch(words))
    assert caught.value.error is error


@pytest.mark.parametrize("name", ["SAM", "RAM", "GETCRSPTR", "SETLMEMBASE"])
def test_what_needs_a_warp_is_refused(name):
    with pytest.raises(FaultError, match=f"{name} is about the warp's"):
        step(encode(name))


NONE, HANDLERS = "is not an instruction of this machine", "is for the trap handler alone"


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (encode("VOTE.VTG"), NONE),
        (encode("BPT", mode=BreakpointMode.CAL.value), NONE),
        (encode("RTT", mode=3), NONE),
        (encode("SHL", "r", extended=1), NONE),
        (encode("SHL", "r", extended=1, guard=0), NONE),
        (0xFFFF_FFFF_FFFF_FFFF, NONE),
        (encode("RTT"), HANDLERS),
        (encode("BAR", "all"), HANDLERS),
        (encode("BPT", mode=BreakpointMode.PAUSE.value), HANDLERS),
    ],
)
def test_what_this_machine_or_a_program_does_not_have_is_an_illegal_encoding(content, cause):
    found = fault(content)
    assert cause in str(found)
    assert found.error is WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize(
    "content",
    [
        encode("R2B", mode=0),
        encode("B2R", "warp"),
        encode("BAR", "ii", mode=BarrierMode.SCAN.value),
    ],
)
def test_the_state_of_barriers_is_not_in_this_oracle(content):
    assert fault(content).error is None


# Meetings


def test_votes_count_the_threads_that_arrive_together():
    body = [
        compare(0, Compare.LT, 1, 3),
        branch(1, 4, guard=0),
        encode("VOTE", mode=VoteMode.ANY.value, Rd=0),
        branch(3, 5),
        encode("VOTE", mode=VoteMode.ANY.value, Rd=0),
    ]
    assert results(body, 5) == [7, 7, 7, 0x18, 0x18]


def test_threads_wait_for_those_that_are_behind_them_in_the_program():
    # Threads 3 and 4 are at the second vote while the others are at the first one.
    body = [
        compare(0, Compare.GE, 1, 3),
        branch(1, 3, guard=0),
        encode("VOTE", mode=VoteMode.ANY.value, Rd=4),
        encode("VOTE", mode=VoteMode.ANY.value, Rd=0),
    ]
    assert results(body, 5) == [0x1F] * 5


@pytest.mark.parametrize(
    ("mode", "below", "holds"),
    [
        (VoteMode.ALL, 5, True),
        (VoteMode.ALL, 4, False),
        (VoteMode.ANY, 1, True),
        (VoteMode.ANY, 0, False),
        (VoteMode.EQ, 0, True),
        (VoteMode.EQ, 2, False),
        (VoteMode.EQ, 5, True),
    ],
)
def test_votes_ask_for_all_any_or_the_same(mode, below, holds):
    body = [
        compare(0, Compare.LT, 1, below),
        encode("VOTE", mode=mode.value, Rd=4, Pd=1, Pc=0),
        encode("SEL", "i", Rd=5, Ra=RZ, imm=100, Pc=1, Pc_not=1),
        encode("IADD", "r", Rd=0, Ra=4, Rb=5),
    ]
    assert results(body, 5) == [(1 << below) - 1 + 100 * holds] * 5


def test_a_guarded_vote_leaves_threads_out():
    body = [
        move(0, 77),
        compare(0, Compare.NE, 1, 1),
        encode("VOTE", mode=VoteMode.ANY.value, Rd=0, guard=0),
    ]
    assert results(body, 3) == [5, 77, 5]


# For eight threads, the lane that each reads and whether it is in range, by PTX's definition of
# shfl.
@pytest.mark.parametrize(
    ("mode", "b", "c", "sources", "inside"),
    [
        (ShuffleMode.UP, 2, 0, [0, 1, 0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 1, 1, 1, 1]),
        (ShuffleMode.DOWN, 3, 7, [3, 4, 5, 6, 7, 5, 6, 7], [1, 1, 1, 1, 1, 0, 0, 0]),
        (ShuffleMode.BFLY, 4, 5, [4, 5, 2, 3, 0, 1, 2, 3], [1, 1, 0, 0, 1, 1, 1, 1]),
        (ShuffleMode.IDX, 1, 0x1C03, [1, 1, 1, 1, 5, 5, 5, 5], [1] * 8),
        (ShuffleMode.UP, 1, 0x1C00, [0, 0, 1, 2, 4, 4, 5, 6], [0, 1, 1, 1, 0, 1, 1, 1]),
    ],
)
def test_shfl_reads_the_source_thread_and_returns_whether_it_is_inside(mode, b, c, sources, inside):
    body = [
        encode("IADD32I", Rd=4, Ra=1, imm32=100),
        encode("SHFL", "ii", Rd=5, Pd=1, Ra=4, mode=mode.value, lane=b, clamp=c),
        encode("SEL", "i", Rd=6, Ra=RZ, imm=1000, Pc=1, Pc_not=1),
        encode("IADD", "r", Rd=0, Ra=5, Rb=6),
    ]
    assert results(body, 8) == [
        100 + source + 1000 * holds for source, holds in zip(sources, inside, strict=True)
    ]


def test_a_shuffle_gives_0_of_a_thread_that_does_not_come():
    body = [
        encode("IADD32I", Rd=4, Ra=1, imm32=100),
        move(0, 5),
        compare(0, Compare.LT, 1, 3),
        encode(
            "SHFL", "ii", Rd=0, Pd=1, Ra=4, mode=ShuffleMode.DOWN.value, lane=1, clamp=31, guard=0
        ),
        encode("IADD32I", Rd=0, Ra=0, imm32=1000, guard=1),
    ]
    assert results(body, 6) == [1101, 1102, 1000, 5, 5, 5]


# Barriers


def barrier(mode: BarrierMode, number: int, threads: int = 0, **fields: int) -> int:
    return encode("BAR", "ii", mode=mode.value, barrier=number, count=threads, **fields)


SYNC = barrier(BarrierMode.SYNC, 0)
WRITE_SHARED = [
    encode("SHL", "i", Rd=6, Ra=1, imm=2),
    encode("STS", Ra=6, Rd=1, size=MemorySize.B32.value),
]


def read_shared(threads: int) -> list[int]:
    """R0 = the word that thread number ``threads`` - 1 - tid wrote."""
    return [
        encode("IADD32I", Rd=7, Ra=6, imm32=4 * (threads - 1), negate_a=1),
        encode("LDS", Rd=0, Ra=7, uniform_size=MemorySize.B32.value),
    ]


def test_a_barrier_holds_every_thread_until_the_last_one_comes():
    # The first warp arrives long after the others.
    delay = [
        compare(0, Compare.LT, 1, 32),
        move(5, 3000),
        branch(2, 6, guard=0, guard_not=1),
        add(5, -1),
        compare(1, Compare.NE, 5, 0),
        branch(5, 3, guard=1),
    ]
    body = [*delay, *WRITE_SHARED, SYNC, *read_shared(70)]
    assert results(body, 70, shared=280) == list(reversed(range(70)))


def test_threads_that_ended_are_not_waited_for():
    body = [
        compare(0, Compare.GE, 1, 40),
        encode("EXIT", guard=0),
        *WRITE_SHARED,
        SYNC,
        *read_shared(40),
    ]
    assert results(body, 70, shared=280)[:40] == list(reversed(range(40)))


def test_a_warp_arrives_only_when_none_of_its_threads_meets_elsewhere():
    # In the first warp threads 0 to 4 branch to the barrier; the others vote first, and are late.
    body = [
        compare(0, Compare.GE, 1, 32),
        branch(1, 9, guard=0),
        compare(0, Compare.LT, 1, 5),
        branch(3, 9, guard=0),
        encode("VOTE", mode=VoteMode.ANY.value, Rd=4),
        move(5, 3000),
        add(5, -1),
        compare(1, Compare.NE, 5, 0),
        branch(8, 6, guard=1),
        *WRITE_SHARED,
        SYNC,
        *read_shared(64),
    ]
    assert results(body, 64, shared=256) == list(reversed(range(64)))


def test_a_count_of_threads_is_rounded_up_to_warps():
    body = [
        compare(0, Compare.LT, 1, 32),
        move(5, 3000),
        branch(2, 6, guard=0, guard_not=1),
        add(5, -1),
        compare(1, Compare.NE, 5, 0),
        branch(5, 3, guard=1),
        *WRITE_SHARED,
        barrier(BarrierMode.SYNC, 1, 40),
    ]
    assert results([*body, *read_shared(64)], 64, shared=256) == list(reversed(range(64)))


def test_a_barrier_with_a_count_waits_for_that_many_threads():
    # The third warp never reaches barrier 3, for which two warps are enough.
    body = [
        compare(0, Compare.GE, 1, 64),
        branch(1, 7, guard=0),
        *WRITE_SHARED,
        barrier(BarrierMode.SYNC, 3, 64),
        *read_shared(64),
        SYNC,
    ]
    assert results(body, 96, shared=384)[:64] == list(reversed(range(64)))


def test_an_arrival_that_does_not_wait_is_counted():
    # The first warp only arrives; the second waits for two.
    body = [
        compare(0, Compare.LT, 1, 32),
        *WRITE_SHARED,
        branch(3, 6, guard=0),
        barrier(BarrierMode.SYNC, 5, 64),
        branch(5, 7),
        barrier(BarrierMode.ARV, 5, 64),
        move(0, 0),
    ]
    assert results([*body, *read_shared(64)], 64, shared=256)[32:] == list(reversed(range(32)))


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [(BarrierReduction.POPC, 37), (BarrierReduction.AND, 0), (BarrierReduction.OR, 1)],
)
def test_a_reduction_is_over_the_threads_of_all_warps(reduction, expected):
    body = [
        compare(0, Compare.LT, 1, 37),
        barrier(BarrierMode.RED, 2, reduction=reduction.value, Pc=0),
        encode("B2R", "result", Rd=4, Pd=1),
        encode("SEL", "i", Rd=5, Ra=RZ, imm=100, Pc=1, Pc_not=1),
        encode("IADD", "r", Rd=0, Ra=4, Rb=5),
    ]
    assert results(body, 50) == [expected + 100 * (expected > 0)] * 50


def test_number_and_count_of_a_barrier_may_be_in_registers():
    body = [
        move(4, 9),
        move(5, 64),
        *WRITE_SHARED,
        encode("BAR", "rr", mode=BarrierMode.SYNC.value, Ra=4, Rb=5),
        *read_shared(64),
    ]
    assert results(body, 64, shared=256) == list(reversed(range(64)))


def test_a_register_may_have_both_number_and_count_of_a_barrier():
    body = [
        move(5, 9 | 64 << 16),
        *WRITE_SHARED,
        encode("BAR", "rr", mode=BarrierMode.SYNC.value, Ra=5, Rb=5),
        *read_shared(64),
    ]
    assert results(body, 64, shared=256) == list(reversed(range(64)))


def test_a_warp_whose_paths_wait_at_different_barriers_arrives_at_both():
    body = [
        compare(0, Compare.LT, 1, 5),
        branch(1, 4, guard=0),
        barrier(BarrierMode.SYNC, 1),
        branch(3, 5),
        barrier(BarrierMode.SYNC, 2),
        move(0, 1),
    ]
    assert results(body, 10) == [1] * 10


@pytest.mark.parametrize("mode", [BarrierMode.SYNC, BarrierMode.ARV])
def test_there_are_sixteen_barriers(mode):
    with pytest.raises(ThreadFaultError, match="barrier 16 is not one of 16"):
        run(launch([barrier(mode, 16), EXIT]))


def test_threads_that_wait_without_end_are_reported():
    made = launch([barrier(BarrierMode.SYNC, 1, 64), EXIT])
    with pytest.raises(
        ThreadFaultError, match=r"^thread .* at 0x0008 `BAR.SYNC 0x1, 0x40`: waits at a barrier"
    ):
        run(made)


# Fairness


def test_a_thread_that_spins_gets_what_it_waits_for():
    # Thread 0 waits for what thread 1 stores.
    body = [
        compare(0, Compare.NE, 1, 0),
        branch(1, 6, guard=0),
        encode("LDG", Rd=4, Ra=2, wide=1, offset=4, size=4),
        compare(1, Compare.EQ, 4, 0),
        branch(4, 2, guard=1),
        branch(5, 7),
        move(0, 55),
        add(0, 1),
    ]
    assert results(body, 2) == [1, 56]


def test_all_ctas_run_with_their_own_numbers():
    body = [
        encode("S2R", Rd=4, special=37),
        encode("S2R", Rd=5, special=38),
        encode("S2R", Rd=6, special=39),
    ]
    made = launch(
        [
            *START,
            *body,
            encode("ISCADD", "r", Rd=5, Ra=6, Rb=5, shift=1),
            encode("ISCADD", "r", Rd=0, Ra=5, Rb=4, shift=1),
            encode("ISCADD", "r", Rd=2, Ra=0, Rb=2, shift=2),
            *FINISH,
        ],
        [Buffer("o", bytes(32))],
        grid=(2, 2, 2),
    )
    run(made)
    assert contents(made, "o") == list(range(8))


def test_a_runaway_is_stopped_and_named():
    with pytest.raises(
        ThreadFaultError, match=r"at 0x0008 `BRA 0x8`: still running after 5000 instructions"
    ):
        run(launch([encode("BRA", "i", target=-8), EXIT]), max_instructions=5000)


def test_instructions_are_counted_by_name():
    counted = run(
        launch(
            [encode("NOP"), encode("BRA", "i", target=8, guard=0), encode("NOP"), EXIT],
            block=(3, 1, 1),
        )
    )
    assert counted.counts == {"NOP": 6, "BRA": 3, "EXIT": 3}
    assert counted.instructions == 12


# Faults and traps


def test_a_fault_names_thread_place_instruction_and_cause():
    body = [
        compare(0, Compare.EQ, 1, 3),
        encode("LDG", Rd=0, Ra=2, wide=1, offset=0x10000, size=4, guard=0),
    ]
    made = launch(
        [*START, *body, *FINISH], [Buffer("o", bytes(64))], grid=(1, 2, 1), block=(4, 2, 1)
    )
    found = address(len(START) + 1)
    with pytest.raises(ThreadFaultError) as caught:
        run(made)
    base, _ = made.buffers["o"]
    assert str(caught.value) == (
        f"thread (3, 0, 0) of CTA (0, 0, 0) at {found:#06x} `@P0 LDG.E R0, [R2+0x10000]`: "
        f"nothing is mapped at {base + 12 + 0x10000:#x}"
    )
    assert (caught.value.pc, caught.value.error) == (found, WarpError.MMU_FAULT)


@pytest.mark.parametrize("reason", range(1, 8))
def test_a_trap_ends_the_run_and_is_reported(reason):
    made = launch(
        [*START, move(0, 1), encode("BPT", mode=BreakpointMode.TRAP.value, reason=reason), *FINISH],
        [Buffer("o", bytes(8))],
        block=(2, 1, 1),
    )
    trap = run(made).trap
    assert trap is not None
    assert (trap.reason, trap.pc, trap.thread, trap.cta) == (
        reason,
        address(len(START) + 1),
        (0, 0, 0),
        (0, 0, 0),
    )
    assert contents(made, "o") == [0, 0]


@pytest.mark.parametrize("reason", [0, 8])
def test_a_trap_has_a_reason_from_1_to_7(reason):
    assert (
        fault(encode("BPT", mode=BreakpointMode.TRAP.value, reason=reason)).error
        is WarpError.ILLEGAL_INSTR_PARAM
    )


@pytest.mark.parametrize(("reason", "at"), [(3, 3), (7, 1)])
def test_masked_traps_wait_but_for_reason_7(reason, at):
    made = launch(
        [
            encode("IDE", disable=1),
            encode("BPT", mode=BreakpointMode.TRAP.value, reason=reason),
            encode("NOP"),
            encode("IDE", disable=0),
            EXIT,
        ]
    )
    trap = run(made).trap
    assert trap is not None
    assert (trap.reason, trap.pc) == (reason, address(at))


@pytest.mark.parametrize(
    "content",
    [
        encode("BPT", mode=BreakpointMode.INT.value),
        encode("BPT", mode=BreakpointMode.DRAIN.value),
        encode("NOP", trigger=1),
        encode("MEMBAR"),
        encode("DEPBAR", "zero"),
        encode("CCTLL", "stack"),
        encode("CCTL", "address", operation=1),
    ],
)
def test_hints_and_orders_change_nothing(content):
    done = step(content, {1: 5})
    assert (done.registers, done.next_pc) == ((0, 5, *[0] * 253), 16)


def test_a_guard_that_is_never_true_skips_the_instruction():
    assert step(encode("MOV32I", Rd=0, imm32=1, guard=PT, guard_not=1)).registers[0] == 0
    assert (
        step(encode("MOV32I", Rd=0, imm32=1, guard=2, guard_not=1), predicates=[0, 0, 1]).registers[
            0
        ]
        == 0
    )
    assert step(encode("MOV32I", Rd=0, imm32=1, guard=2), predicates=[0, 0, 1]).registers[0] == 1


RECURSION = [
    move(0, 0),
    branch(1, 4, "CAL"),
    branch(2, 7),
    EXIT,
    add(0, 1),
    branch(5, 4, "CAL"),
    encode("RET"),
]


def test_calls_beyond_the_limit_are_not_taken_when_the_launch_asks():
    made = launch([*START, *RECURSION, *FINISH], [Buffer("o", bytes(4))])
    run(replace(made, check_api_calls=True))
    assert contents(made, "o") == [32]
    with pytest.raises(ThreadFaultError, match="still running"):
        run(made, max_instructions=5000)
