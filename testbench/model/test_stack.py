"""The call/return stack of the warp model: tokens on chip, tokens in memory, and limits."""

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement, StackToken, WarpMasks
from sim.model.warp.stack import decode_token, encode_token
from sim.model.warp.state import Warp
from testbench.handmade import ALL, Program, alone, encode, held, retire, vector
from testbench.words import NOP

PUSH = encode("SSY", target=0)
WRITE_BACK = encode("CCTLL", "stack")
GET, SET = encode("GETCRSPTR", Rd=4), encode("SETCRSPTR", Ra=4)


def numbered(count: int) -> list[StackToken]:
    return [StackToken(TokenKind.SYNC, 8 * index, index) for index in range(count)]


def in_memory(made: WarpModel, warp: Warp, count: int) -> list[StackToken]:
    """Reads the first ``count`` tokens of the region from memory, whatever is on chip.

    The region follows the 64 bytes of local memory of each of 32 threads.
    """
    base = warp.local_base + made.launch.local * 32
    return [decode_token(made.memory.read(base + 16 * index, 16)) for index in range(count)]


HOLE = StackToken(TokenKind.NONE, 0, 0)


def test_bytes_of_a_token():
    token = StackToken(TokenKind.RETURN, 0x11223344, 0x55667788, counted=True)
    assert encode_token(token) == bytes.fromhex("44332211 88776655 05 01 000000000000")
    assert decode_token(encode_token(token)) == token
    assert decode_token(bytes([0xFF] * 16)) == StackToken(TokenKind.ILLEGAL, ALL, ALL, True)
    assert decode_token(bytes(8) + b"\x09" + bytes(7)).kind is TokenKind.ILLEGAL
    assert decode_token(bytes(8) + b"\x0a" + bytes(7)).kind is TokenKind.TRAP


def test_a_line_reaches_memory_when_it_leaves_the_window():
    made, warp = held([NOP], crs=1024)
    tokens = numbered(24)
    for count, spilled in ((16, 0), (17, 4), (20, 4), (21, 8), (24, 8)):
        warp.stack.push(*tokens[warp.stack.depth : count])
        assert in_memory(made, warp, 12) == tokens[:spilled] + [HOLE] * (12 - spilled)
    assert warp.stack.tokens() == tokens


def test_popping_under_the_window_reads_memory():
    made, warp = held([NOP], crs=1024)
    warp.stack.push(*numbered(16))
    warp.stack.push(*numbered(8))
    changed = StackToken(TokenKind.BREAK, 0x80, 3)
    made.memory.write(warp.stack.region + 16 * 2, encode_token(changed))
    warp.stack.drop(21)
    assert warp.stack.tokens() == [*numbered(2), changed]


def test_a_clean_line_is_not_written_again():
    made, warp = held([NOP], crs=1024)
    warp.stack.push(*numbered(8))
    warp.stack.write_back()
    changed = StackToken(TokenKind.BREAK, 0x80, 3)
    made.memory.write(warp.stack.region, encode_token(changed))
    warp.stack.push(*numbered(10))
    assert in_memory(made, warp, 2) == [changed, numbered(2)[1]]


def test_write_back_fills_the_top_line_with_holes():
    made, warp = held([PUSH] * 6 + [WRITE_BACK], crs=512)
    retire(made, 0, times=7)
    assert warp.stack.depth == 6
    assert in_memory(made, warp, 12) == [*warp.stack.tokens(), *[HOLE] * 6]
    assert warp.stack.tokens()[5] == StackToken(TokenKind.SYNC, 0x40, ALL)


def test_write_back_after_a_pop_leaves_no_old_token_above_the_top():
    made, warp = held([WRITE_BACK] * 2, crs=512)
    warp.stack.push(*numbered(3))
    made.retire(0)
    warp.stack.drop(1)
    made.retire(0)
    assert in_memory(made, warp, 4) == [*numbered(2), HOLE, HOLE]


def test_write_back_obeys_its_guard():
    made, warp = held([encode("CCTLL", "stack", guard=0)], crs=512)
    warp.stack.push(*numbered(1))
    made.retire(0)
    assert in_memory(made, warp, 1) == [HOLE]


@pytest.mark.parametrize("depth,rounded", [(0, 0), (1, 4), (4, 4), (5, 8), (13, 16)])
def test_the_stack_pointer_reads_in_whole_lines(depth, rounded):
    made, warp = held([GET], crs=512)
    warp.stack.push(*numbered(depth))
    warp.api_call_depth, warp.kill_future_branch = 0xA5, True
    made.retire(0)
    assert vector(warp, 4) == [1 << 31 | 0xA5 << 23 | rounded] * 32


@pytest.mark.parametrize("value,depth", [(0, 0), (5, 8), (16, 16), (17, 16), (0x1FFFF, 16)])
def test_the_stack_pointer_is_clamped_to_the_limit_of_user_mode(value, depth):
    warp, record = alone(SET, {4: 0x7F << 17 & 0x7E0000 | value}, crs=512)
    assert (warp.stack.depth, record.depth_after, record.next_pc) == (depth, depth, 0x10)


def test_the_stack_pointer_sets_all_three_parts_from_the_lowest_active_thread():
    values = [0] * 32
    values[3] = 1 << 31 | 200 << 23 | 8
    warp, record = alone(SET, {4: values}, active=0xFFF8, crs=1024)
    assert (warp.stack.depth, record.api_call_depth, record.kill_future_branch) == (8, 200, True)
    warp, record = alone(SET, {4: values}, active=0xFFF0, crs=1024)
    assert (warp.stack.depth, record.api_call_depth, record.kill_future_branch) == (0, 0, False)


def test_setting_the_stack_pointer_loses_what_was_not_written_back():
    made, warp = held([SET], crs=1024)
    warp.stack.push(*numbered(4))
    warp.stack.write_back()
    warp.stack.drop(4)
    lost = [StackToken(TokenKind.BREAK, 8, 1)] * 4
    warp.stack.push(*lost)
    warp.registers[4] = 4
    made.retire(0)
    assert warp.stack.tokens() == numbered(4)


def test_a_stack_made_in_memory_is_unwound():
    program = Program()
    program.word(SET)("SYNC")("EXIT").label("join")("EXIT")
    made, warp = held(program, crs=512)
    made.memory.write(
        warp.stack.region, encode_token(StackToken(TokenKind.SYNC, program.pc("join"), 0xF))
    )
    warp.registers[4] = 1
    made.retire(0)
    record = made.retire(0)
    assert (record.popped[:3], record.next_pc, record.after.active) == (
        (HOLE,) * 3,
        program.pc("join"),
        0xF,
    )


@pytest.mark.parametrize("crs,limit", [(0, 16), (512, 16), (1024, 48), (1 << 20, 65520)])
def test_user_mode_may_hold_all_but_the_reserve(crs, limit):
    made, warp = held([PUSH], crs=crs)
    assert warp.stack.limit == limit
    for tokens in [numbered(8)] * (limit // 8):
        warp.stack.push(*tokens)
    record = made.retire(0)
    assert (record.error, record.pushed, warp.stack.depth) == (WarpError.STACK_OVERFLOW, (), limit)
    assert made.raised == {"PHYSICAL_STACK_OVERFLOW", "BPT_PAUSE"}
    warp.stack.drop(1)
    warp.stack.push(*numbered(1))


@pytest.mark.parametrize(
    "word",
    [
        encode("BRA", "i", target=0x30, guard=0),
        encode("BRX", "r", Ra=3),
        encode("CAL", "i", target=0x40),
        encode("PRET", "i", target=0x40),
        encode("SAM"),
    ],
)
def test_an_overflow_changes_nothing(word):
    made, warp = held([word], crs=512)
    warp.predicates[0] = 1
    warp.registers[3][:16] = 8
    warp.stack.push(*numbered(8))
    warp.stack.push(*numbered(8))
    record = made.retire(0)
    assert (record.error, record.depth_after, record.next_pc) == (WarpError.STACK_OVERFLOW, 16, 0)
    assert (warp.masks.active, warp.api_call_depth, record.pushed) == (ALL, 0, ())


def test_an_unreported_overflow_is_a_push_that_does_not_happen():
    made, warp = held([PUSH], crs=512, report_mask=0)
    warp.stack.push(*numbered(8))
    warp.stack.push(*numbered(8))
    record = made.retire(0)
    assert (record.error, record.next_pc, warp.stack.depth, made.raised) == (
        WarpError.NONE,
        0x10,
        16,
        set(),
    )


def test_a_branch_of_two_tokens_needs_room_for_both():
    made, warp = held([encode("BRX", "r", Ra=3, guard=0)], crs=512)
    warp.predicates[0] = 0xFFFF
    warp.registers[3][:8] = 8
    warp.stack.push(*numbered(15))
    assert made.retire(0).error is WarpError.STACK_OVERFLOW
    assert warp.stack.depth == 15


def test_setting_the_stack_pointer_without_memory_empties_the_stack():
    for report_mask in (0, ALL):
        made, warp = held([SET], crs=0, report_mask=report_mask)
        warp.stack.push(*numbered(3))
        warp.registers[4] = 4
        record = made.retire(0)
        error = WarpError.STACK_ERROR if report_mask else WarpError.NONE
        assert (record.error, record.depth_after, record.next_pc) == (
            error,
            0,
            0 if report_mask else 0x10,
        )


def test_writing_back_without_memory_does_nothing():
    made, warp = held([WRITE_BACK], crs=0)
    warp.stack.push(*numbered(3))
    assert made.retire(0).error is WarpError.NONE
    assert warp.stack.tokens() == numbered(3)


def faulting(words, depth: int) -> tuple[Warp, Retirement]:
    """Returns a warp whose block was moved to unmapped memory, and the record of the instruction
    that needs it.
    """
    made, warp = held(words, crs=1024)
    for tokens in [numbered(4)] * (depth // 4):
        warp.stack.push(*tokens)
    warp.local_base = 1 << 39
    warp.masks = WarpMasks(active=1, broken=ALL & ~1)
    return warp, made.retire(0)


def test_spills_fills_and_write_backs_that_fault():
    for word, depth in ((PUSH, 16), (WRITE_BACK, 4), (encode("BRK"), 20)):
        warp, record = faulting([word], depth)
        assert (record.error, warp.stack.depth, record.after.active) == (
            WarpError.MMU_FAULT,
            depth,
            1,
        )


def test_the_local_base_is_read_and_set_in_units_of_512_bytes():
    warp, _ = alone(encode("GETLMEMBASE", Rd=4))
    assert vector(warp, 4) == [warp.local_base // 512] * 32
    assert warp.local_base % 512 == 0
    warp, _ = alone(encode("SETLMEMBASE", Ra=4), {4: [7, 9, *[0] * 30]}, active=0xE)
    assert (warp.local_base, warp.stack.region) == (9 * 512, 9 * 512 + 64 * 32)
