"""The warp model as a whole: CTAs in slots, order of warps, errors, special registers, traps."""

import pytest

from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.special_registers import SpecialRegister
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, Buffer
from sim.model.warp.model import ErrorStatus, Result, WarpModel
from sim.model.warp.retirement import WarpMasks
from testbench.handmade import (
    ALL,
    Program,
    address,
    alone,
    encode,
    launch,
    machine,
    retire,
    vector,
    warp_of,
)
from testbench.words import NOP

EXIT = encode("EXIT")


def special(register: int, **kind) -> list[int]:
    warp, record = alone(encode("S2R", Rd=4, special=register), **kind)
    assert record.registers[4][1] == tuple(vector(warp, 4))
    return vector(warp, 4)


# Warps, CTAs and the order of warps


def test_threads_of_the_last_warp_that_were_not_created_count_as_killed():
    made = machine([EXIT], block=(10, 4, 1))
    assert warp_of(made, 0).masks == WarpMasks(active=ALL)
    assert warp_of(made, 1).masks == WarpMasks(active=0xFF, killed=ALL & ~0xFF)
    assert made.run() == Result("ok", 2)


def test_a_warp_starts_with_nothing():
    warp = warp_of(machine([EXIT]))
    assert (warp.pc, warp.stack.depth, warp.api_call_depth, warp.reduction, warp.barrier) == (
        0,
        0,
        0,
        0,
        None,
    )
    assert (
        warp.kill_future_branch,
        warp.traps_masked,
        warp.terminated,
        warp.cta.keeps_reference,
    ) == (False,) * 4
    assert not warp.registers.any()
    assert warp.predicates == [0] * 7 + [ALL]
    assert not warp.condition.nibbles().any()


def test_thread_coordinates_run_x_first():
    made = machine(
        [encode("S2R", Rd=4 + axis, special=SpecialRegister.TID_X + axis) for axis in range(3)],
        block=(5, 3, 4),
    )
    for slot in range(2):
        retire(made, slot, times=3)
        for thread in range(32):
            number = 32 * slot + thread
            found = [vector(warp_of(made, slot), 4 + axis)[thread] for axis in range(3)]
            assert number >= 60 or found == [number % 5, number // 5 % 3, number // 15]


def test_ctas_start_in_the_order_of_the_grid():
    made = machine([NOP, EXIT], grid=(2, 2, 2), warps=1)
    order = []
    while made.live:
        order.append(warp_of(made).cta.index)
        retire(made, 0, 0)
    assert order == [
        (0, 0, 0),
        (1, 0, 0),
        (0, 1, 0),
        (1, 1, 0),
        (0, 0, 1),
        (1, 0, 1),
        (0, 1, 1),
        (1, 1, 1),
    ]


def test_a_cta_waits_until_all_its_warps_have_slots_and_takes_the_lowest():
    made = machine([NOP, EXIT], block=(64, 1, 1), grid=(2, 1, 1), warps=3)
    assert [warp is not None for warp in made.warps] == [True, True, False]
    retire(made, 0, 0)
    assert [warp is not None and warp.cta.index for warp in made.warps] == [
        (1, 0, 0),
        (0, 0, 0),
        (1, 0, 0),
    ]


def test_a_cta_that_never_fits():
    with pytest.raises(
        ValueError, match=r"^a CTA of 160 threads needs 5 warps, the machine has 4$"
    ):
        machine([EXIT], block=(160, 1, 1))


def test_warps_take_turns():
    made = machine([NOP, NOP, EXIT], block=(96, 1, 1))
    assert [record.warp for record in iter(made.step, None)] == [0, 1, 2] * 3


def test_a_random_order_follows_its_seed():
    def order(seed: int) -> list[int]:
        made = machine([NOP] * 20 + [EXIT], block=(96, 1, 1), order=seed)
        return [record.warp for record in iter(made.step, None)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2)) == [0] * 21 + [1] * 21 + [2] * 21


def test_a_given_warp_can_be_driven_alone():
    made = machine([NOP, EXIT], block=(64, 1, 1))
    assert [made.retire(1).pc, made.retire(1).pc] == [8, 16]
    with pytest.raises(ValueError, match="warp slot 1 is empty"):
        made.retire(1)
    assert made.retire(0).pc == 8


def test_a_spin_lock_makes_progress():
    program = Program()
    program("MOV32I", Rd=5, imm32=1).label("again")(
        "ATOMS", "bb", Rd=4, Ra=255, Rb=6, compare_and_swap=4
    )
    program("ISETP", "r", Pd=0, Pd2=7, Ra=4, Rb=255, compare=5, Pc=7)("BRA", to="again", guard=0)
    program("LDS", Rd=8, Ra=255, offset=4, uniform_size=4)("IADD32I", Rd=8, Ra=8, imm32=1)
    program("STS", Rd=8, Ra=255, offset=4, size=4)("STS", Rd=255, Ra=255, size=4)("EXIT")
    for order in (None, 3):
        made = machine(program, block=(128, 1, 1), shared=8, order=order)
        cta = warp_of(made).cta
        for warp in cta.warps:
            warp.masks = WarpMasks(active=1, exited=ALL & ~1)
            warp.registers[7] = 1
        assert made.run(5000).status == "ok"
        assert cta.shared[4] == 4


def test_the_limit_of_a_run():
    program = Program()
    program.label("here")("BRA", to="here")
    made = machine(program)
    assert made.run(100) == Result("timeout", 100, "stopped after 100 instructions")
    assert made.run(5).instructions == 105


def test_what_runs_ends_with_memory_as_it_should_be():
    words = [
        encode("S2R", Rd=0, special=SpecialRegister.TID_X),
        encode("MOV", "c", Rd=2, bank=0, offset=0x140),
        encode("MOV", "c", Rd=3, bank=0, offset=0x144),
        encode("ISCADD", "r", Rd=2, Ra=0, Rb=2, shift=2),
        encode("STG", Rd=0, Ra=2, wide=1, size=4),
        EXIT,
    ]
    made = machine(words, arguments=[Buffer("out", bytes(256))], block=(50, 1, 1))
    assert made.run() == Result("ok", 12)
    base = made.launch.buffers["out"][0]
    assert [made.memory.read_number(base + 4 * at, 4) for at in range(64)] == [
        *range(50),
        *[0] * 14,
    ]


# Records


def test_a_record_says_what_happened():
    made = machine([NOP, NOP, encode("IADD32I", Rd=4, Ra=4, imm32=3, cc=1), EXIT])
    records = list(iter(made.step, None))
    third = records[2]
    assert (third.warp, third.pc, third.next_pc) == (0, 0x18, 0x20)
    assert third.word == encode("IADD32I", Rd=4, Ra=4, imm32=3, cc=1)
    assert third.before == third.after == WarpMasks(active=ALL)
    assert third.registers == {4: (ALL, (3,) * 32)}
    assert third.condition == (ALL, (0,) * 32)
    assert [record.terminated for record in records] == [False, False, False, True]
    assert (records[3].pc, records[3].after) == (0x28, WarpMasks(active=0, exited=ALL))


# Errors

ILLEGAL = WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize(
    "word,error",
    [
        (0, ILLEGAL),
        ((1 << 64) - 1, ILLEGAL),
        (encode("VOTE.VTG"), ILLEGAL),
        *((encode("RTT", mode=mode), ILLEGAL) for mode in range(4)),
        *((encode("BPT", mode=mode), ILLEGAL) for mode in (0, 1, 2, 6, 7)),
        *(
            (encode("BPT", mode=3, reason=reason), WarpError.ILLEGAL_INSTR_PARAM)
            for reason in (0, 8)
        ),
        (encode("MOV", "r", Rd=32, Rb=1), WarpError.OOR_REG),
        (encode("MOV", "r", Rd=1, Rb=254), WarpError.OOR_REG),
        (encode("LDG", Rd=30, Ra=1, size=6), WarpError.OOR_REG),
        (encode("LDG", Rd=29, Ra=1, size=5), WarpError.MISALIGNED_REG),
        (encode("LDG", Rd=4, Ra=31, size=4, wide=1), WarpError.OOR_REG),
        (encode("LDG", Rd=4, Ra=3, size=4, wide=1), WarpError.MISALIGNED_REG),
        (encode("STG", Rd=6, Ra=2, size=6, wide=1), WarpError.MISALIGNED_REG),
        (encode("ATOM", "bb", Rd=4, Ra=2, Rb=3), WarpError.MISALIGNED_REG),
        (encode("ATOM", "bb", Rd=4, Ra=2, Rb=6, wide_data=1), WarpError.MISALIGNED_REG),
        (encode("ATOM", "bz", Rd=4, Ra=2, Rb=3), WarpError.MMU_FAULT),
        (encode("I2F", "r", Rd=4, Rb=3, source=3, destination=2), WarpError.MISALIGNED_REG),
        (encode("F2I", "r", Rd=5, Rb=4, source=2, destination=3), WarpError.MISALIGNED_REG),
        (encode("MOV", "r", Rd=31, Rb=255), WarpError.NONE),
        (encode("LDG", Rd=255, Ra=255, size=6), WarpError.MMU_FAULT),
    ],
)
def test_illegal_words(word, error):
    for report_mask in (ALL, 0):
        warp, record = alone(word, {4: 9}, report_mask=report_mask)
        assert (record.error, record.word) == (error if report_mask else WarpError.NONE, word)
        stays = report_mask and error is not WarpError.NONE
        assert warp.pc == record.next_pc == (0 if stays else 0x10)
        assert vector(warp, 4) == [9] * 32 or error is WarpError.NONE


def test_encodings_are_checked_with_any_guard():
    made = machine([encode("LDG", Rd=29, Ra=1, size=5, guard=0)])
    assert made.retire(0).error is WarpError.MISALIGNED_REG


def test_an_error_stops_the_machine_where_it_is():
    made = machine([NOP, encode("JMP", "i", target=4), EXIT], block=(64, 1, 1))
    result = made.run()
    assert result == Result(
        "error", 2, error_status=ErrorStatus(WarpError.MISALIGNED_PC, 0, address(1))
    )
    assert (made.step(), warp_of(made).pc, warp_of(made).masks.active) == (None, address(1), ALL)
    with pytest.raises(ValueError, match="warp slot 0 is stopped"):
        made.retire(0)


def test_an_error_that_is_not_reported_is_an_instruction_that_does_nothing():
    made = machine([encode("JMP", "i", target=4), EXIT], report_mask=0)
    assert made.run() == Result("ok", 2)


def test_the_usual_report_mask():
    silent = {
        WarpError.API_STACK_ERROR,
        WarpError.RET_EMPTY_STACK_ERROR,
        WarpError.INVALID_CONST_ADDR,
        WarpError.INVALID_CONST_ADDR_LDC,
        WarpError.GEOMETRY_SM_ERROR,
        WarpError.WARP_EXIT,
        WarpError.NONE,
    }
    made = WarpModel(launch([EXIT]))
    assert made.report_mask == REPORT_MASK_RESET
    assert {error for error in WarpError if not made.reports(error)} == silent


def test_running_off_the_end_of_the_program():
    made = machine([NOP] * 6)
    records = list(iter(made.step, None))
    assert (records[-1].pc, records[-1].error, records[-1].word) == (0x48, WarpError.MMU_FAULT, 0)


def test_self_modified_code_is_what_runs():
    made = machine([NOP, NOP])
    made.retire(0)
    made.memory.write_number(made.launch.program_base + 0x10, 8, EXIT)
    assert made.retire(0).terminated


# Traps and interrupts


def test_a_trap_stops_the_machine_behind_it():
    made = machine([NOP, encode("BPT", mode=3, reason=5), EXIT])
    assert made.run() == Result(
        "error", 2, error_status=ErrorStatus(WarpError.NONE, 0, 0x10, trap_reasons=(5,))
    )
    assert warp_of(made).pc == 0x18


def test_an_interrupt_sets_its_bit_and_the_warp_continues():
    made = machine([encode("BPT", mode=4), encode("BPT", mode=5), EXIT])
    assert made.run().status == "ok"
    assert made.raised == {"BPT_INT"}
    assert special(SpecialRegister.GLOBALERRORSTATUS) == [0] * 32


def test_traps_can_be_masked():
    for word, masked in ((encode("IDE", disable=1), True), (encode("IDE", disable=0), False)):
        made = machine([word])
        warp_of(made).traps_masked = not masked
        made.retire(0)
        assert warp_of(made).traps_masked is masked


# Special registers


def test_lanes_and_their_masks():
    assert special(SpecialRegister.LANEID) == list(range(32))
    assert special(SpecialRegister.EQMASK) == [1 << lane for lane in range(32)]
    assert special(SpecialRegister.LTMASK) == [(1 << lane) - 1 for lane in range(32)]
    assert special(SpecialRegister.LEMASK) == [(2 << lane) - 1 for lane in range(32)]
    assert special(SpecialRegister.GTMASK) == [ALL & ~((2 << lane) - 1) for lane in range(32)]
    assert special(SpecialRegister.GEMASK) == [ALL & ~((1 << lane) - 1) for lane in range(32)]


@pytest.mark.parametrize(
    "register,value",
    [
        (SpecialRegister.SWINLO, SHARED_WINDOW),
        (SpecialRegister.LWINLO, LOCAL_WINDOW),
        (SpecialRegister.SWINSZ, 1 << 24),
        (SpecialRegister.LWINSZ, 1 << 24),
        (SpecialRegister.SMEMSZ, 96),
        (SpecialRegister.SMEMBANKS, 32),
        (SpecialRegister.LMEMLOSZ, 64),
        (SpecialRegister.LMEMHIOFF, 0),
        (SpecialRegister.REGALLOC, 32),
        (SpecialRegister.NTID, 32 | 2 << 16 | 3 << 26),
        (SpecialRegister.VIRTCFG, 8 << 8 | 1 << 20),
        (5, 0),
        (255, 0),
    ],
)
def test_a_special_register_holds_what_the_launch_says(register, value):
    made = machine([encode("S2R", Rd=4, special=register)], shared=96, block=(32, 2, 3), warps=8)
    made.retire(0)
    assert vector(warp_of(made), 4) == [value] * 32


def test_warp_and_cta_numbers():
    registers = (
        SpecialRegister.VIRTID,
        SpecialRegister.TID,
        SpecialRegister.CTAID_X,
        SpecialRegister.CTAID_Y,
        SpecialRegister.CTAID_Z,
    )
    made = machine(
        [encode("S2R", Rd=4 + at, special=number) for at, number in enumerate(registers)],
        block=(8, 2, 2),
        grid=(2, 1, 2),
    )
    retire(made, 3, times=5)
    warp = warp_of(made, 3)
    assert vector(warp, 4)[0] >> 8 & 0x3F == 3
    assert vector(warp, 4)[0] >> 20 == 0
    assert vector(warp, 5) == [
        thread % 8 | thread // 8 % 2 << 16 | thread // 16 << 26 for thread in range(32)
    ]
    assert [vector(warp, 6 + axis)[0] for axis in range(3)] == [1, 0, 1]


def test_clocks_count_retired_instructions_and_can_be_set():
    words = [
        encode("CS2R", Rd=4 + at, special=register)
        for at, register in enumerate(
            (
                SpecialRegister.CLOCKLO,
                SpecialRegister.CLOCKLO,
                SpecialRegister.CLOCKHI,
                SpecialRegister.GLOBALTIMERLO,
            )
        )
    ]
    made = machine(words)
    retire(made, 0, 0)
    made.clock = 7 << 32 | 9
    retire(made, 0, 0)
    assert [vector(warp_of(made), number)[0] for number in range(4, 8)] == [0, 1, 7, 10]


def test_the_program_counter_that_is_next():
    made = machine([NOP, NOP, encode("LEPC", Rd=4)])
    retire(made, 0, times=3)
    assert vector(warp_of(made), 4) == [0x20] * 32


def test_a_guard_of_a_special_register_read():
    warp, record = alone(encode("S2R", Rd=4, special=0, guard=8), {4: 77}, predicates={0: ALL & ~2})
    assert (vector(warp, 4)[:3], record.registers[4][0]) == ([77, 1, 77], 2)


@pytest.mark.parametrize(
    "name,variant",
    [
        ("NOP", ""),
        ("DEPBAR", "zero"),
        ("DEPBAR", "at_most"),
        ("MEMBAR", ""),
        ("CCTL", "address"),
        ("CCTL", "query"),
        ("CCTL", "all"),
        ("CCTLL", "address"),
        ("CCTLL", "all"),
    ],
)
def test_hints_and_orders_do_nothing(name, variant):
    write_back = {"operation": 4} if variant == "address" else {}
    _, record = alone(encode(name, variant, **write_back))
    assert (record.error, record.next_pc, record.registers, record.memory) == (
        WarpError.NONE,
        0x10,
        {},
        (),
    )
