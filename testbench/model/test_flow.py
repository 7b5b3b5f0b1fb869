"""Branches, calls, pushes, leaving instructions and the unwind of the warp model."""

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement, StackToken, WarpMasks
from sim.model.warp.state import Warp
from testbench.handmade import ALL, Program, address, encode, held, machine, place, warp_of
from testbench.words import NOP

LEAVING = {
    "BRK": ("broken", TokenKind.BREAK),
    "CONT": ("continued", TokenKind.CONTINUE),
    "RET": ("returned", TokenKind.RETURN),
    "EXIT": ("exited", TokenKind.EXIT),
    "LONGJMP": ("longjumped", TokenKind.LONGJMP),
}
PUSHING = {
    "SSY": TokenKind.SYNC,
    "PBK": TokenKind.BREAK,
    "PCNT": TokenKind.CONTINUE,
    "PRET": TokenKind.RETURN,
    "PEXIT": TokenKind.EXIT,
    "PLONGJMP": TokenKind.LONGJMP,
}
NEXT = 0x10
"""The pc after the first instruction."""


def step(
    words,
    *,
    masks: WarpMasks | None = None,
    stack: tuple[StackToken, ...] = (),
    predicate: int = 0,
    registers: dict[int, int] | None = None,
    **kind,
) -> tuple[WarpModel, Warp, Retirement]:
    """Retires the first instruction of a program: P0 is ``predicate``, registers are uniform."""
    made, warp = held(words if isinstance(words, list | Program) else [words], **kind)
    warp.masks = masks or WarpMasks(active=ALL)
    warp.predicates[0] = predicate
    for number, value in (registers or {}).items():
        warp.registers[number] = value
    warp.stack.push(*stack)
    return made, warp, made.retire(0)


def token(kind: TokenKind, mask: int, pc: int = 0x40, counted: bool = False) -> StackToken:
    return StackToken(kind, pc, mask, counted)


# Branches


def test_a_branch_not_taken_falls_through():
    _, warp, record = step(encode("BRA", "i", target=0x38, guard=0))
    assert (record.next_pc, record.pushed, warp.masks.active, warp.pc) == (NEXT, (), ALL, NEXT)


def test_a_branch_all_take_pushes_nothing():
    _, warp, record = step(encode("BRA", "i", target=0x30, guard=0), predicate=ALL)
    assert (record.next_pc, record.pushed, warp.masks.active) == (0x40, (), ALL)


def test_a_divergent_branch_runs_the_taken_path_first():
    _, warp, record = step(encode("BRA", "i", target=0x30, guard=0), predicate=0xFF00)
    assert record.pushed == (token(TokenKind.DIVERGE, ALL & ~0xFF00, NEXT),)
    assert (record.next_pc, warp.masks.active, record.depth_before, record.depth_after) == (
        0x40,
        0xFF00,
        0,
        1,
    )
    assert (record.before.active, record.after.active) == (ALL, 0xFF00)


def test_only_active_threads_take_a_branch():
    _, warp, record = step(
        encode("BRA", "i", target=0x30), masks=WarpMasks(active=0xF0, broken=0xF)
    )
    assert (record.pushed, warp.masks.active) == ((), 0xF0)


@pytest.mark.parametrize("guard", [0, 8])
def test_a_branch_obeys_guard_and_cc_together(guard):
    made, warp = held([encode("BRA", "i", target=0x30, guard=guard, test=0x05)])
    warp.predicates[0] = 0x0F if guard == 0 else ALL & ~0x0F
    warp.condition.zero = 0x03
    made.retire(0)
    assert warp.masks.active == 0x0C


def test_the_last_slot_is_followed_by_the_next_group():
    made, warp = held([NOP, NOP, encode("BRA", "i", target=0x28, guard=0), NOP])
    warp.predicates[0] = 1
    records = [made.retire(0) for _ in range(3)]
    assert [record.pc for record in records] == [0x8, 0x10, 0x18]
    assert records[2].pushed == (token(TokenKind.DIVERGE, ALL & ~1, 0x20),)


def test_a_group_address_means_its_first_instruction():
    made = machine([NOP] * 3)
    assert (made.launch.entry, made.retire(0).pc) == (0, 8)


def test_a_uniform_branch_that_diverges_is_an_error():
    _, warp, record = step(encode("BRA", "i", target=0x30, guard=0, uniform=1), predicate=1)
    assert (record.error, warp.masks.active, record.pushed) == (WarpError.DIVERGENT, ALL, ())
    _, _, record = step(encode("BRA", "i", target=0x30, guard=0, uniform=1), predicate=ALL)
    assert (record.error, record.next_pc) == (WarpError.NONE, 0x40)


@pytest.mark.parametrize("name,variant", [("BRA", "i"), ("JMP", "i"), ("BRX", "r"), ("JMX", "r")])
def test_limited_branches_are_not_taken_once_future_branches_are_killed(name, variant):
    for killed in (False, True):
        made = machine([encode(name, variant, target=0x40, limited=1)])
        warp = warp_of(made)
        warp.kill_future_branch = killed
        assert made.retire(0).next_pc == (
            NEXT if killed else 0x40 + (NEXT if name in ("BRA", "BRX") else 0)
        )


def test_absolute_and_constant_targets():
    bank = (0x48).to_bytes(4, "little") + (0xFFFFFFF8).to_bytes(4, "little")
    cases = [
        (encode("JMP", "i", target=0x48), 0x48),
        (encode("JMP", "c", bank=2, offset=0), 0x48),
        (encode("BRA", "c", bank=2, offset=0), NEXT + 0x48),
        (encode("BRA", "c", bank=2, offset=4), 0x8),
        (encode("JMX", "r", Ra=3, target=-0x8), 0x98),
        (encode("BRX", "r", Ra=3, target=-0x10), 0xA0),
        (encode("JMX", "c", bank=2, offset=-0xA0, Ra=3), 0x48),
        (encode("BRX", "c", bank=2, offset=-0x9C, Ra=3), 0x8),
        (encode("JCAL", "i", target=0x48), 0x48),
        (encode("CAL", "c", bank=2, offset=0), NEXT + 0x48),
        (encode("JCAL", "c", bank=2, offset=0), 0x48),
    ]
    for word, target in cases:
        _, _, record = step(word, constants={2: bank}, registers={3: 0xA0})
        assert (hex(record.next_pc), record.error) == (hex(target), WarpError.NONE), hex(word)


def test_pushed_targets_come_from_constants_too():
    _, _, record = step(encode("SSY", "c", bank=2, offset=0), constants={2: bytes([0x40, 0, 0, 0])})
    assert (record.pushed[0].pc, record.next_pc) == (NEXT + 0x40, NEXT)


@pytest.mark.parametrize(
    "word,error",
    [
        (encode("BRA", "i", target=-0x18), WarpError.PC_WRAP),
        (encode("SSY", "i", target=-0x18), WarpError.PC_WRAP),
        (encode("SSY", "i", target=-0x11), WarpError.PC_WRAP),
        (encode("JMX", "r", Ra=4, target=8), WarpError.PC_WRAP),
        (encode("BRX", "r", Ra=3, target=-0x18), WarpError.PC_WRAP),
        (encode("JMX", "r", Ra=3, target=-0x18), WarpError.PC_WRAP),
        (encode("BRA", "i", target=4), WarpError.MISALIGNED_PC),
        (encode("CAL", "i", target=4), WarpError.MISALIGNED_PC),
        (encode("JMX", "r", Ra=3, target=4), WarpError.MISALIGNED_PC),
        (encode("JMP", "c", bank=2, offset=2), WarpError.MISALIGNED_IMMC_ADDR),
        (encode("JMX", "c", bank=2, offset=2, Ra=3), WarpError.MISALIGNED_ADDR),
        (encode("JMP", "c", bank=3, offset=0), WarpError.INVALID_CONST_ADDR),
        (encode("JMP", "c", bank=2, offset=8), WarpError.INVALID_CONST_ADDR),
    ],
)
def test_targets_that_are_no_pc(word, error):
    _, warp, record = step(word, constants={2: bytes(8)}, registers={4: 0xFFFFFFF8})
    assert (record.error, record.next_pc, warp.pc, warp.stack.depth) == (error, 0, 0, 0)


def test_a_misaligned_target_that_is_only_pushed_is_no_error_yet():
    _, _, record = step(encode("SSY", "i", target=4))
    assert (record.error, record.pushed[0].pc) == (WarpError.NONE, NEXT + 4)


def test_an_indexed_branch_goes_to_one_target_at_a_time():
    words = [encode("BRX", "r", Ra=3, guard=0, target=-0x10), *[encode("EXIT")] * 5]
    made, warp = held(words)
    warp.predicates[0] = 0xFF
    warp.registers[3][:8] = [0x28, 0x18, 0x28, 0x30, 0x18, 0x28, 0x28, 0x30]
    first = made.retire(0)
    groups = {0x28: 0b01100101, 0x18: 0b00010010, 0x30: 0b10001000}
    assert first.next_pc == 0x28
    assert first.pushed == (
        token(TokenKind.DIVERGE, ALL & ~0xFF, NEXT),
        token(TokenKind.DIVERGE, 0xFF & ~groups[0x28], 8),
    )
    order = [(record.before.active, record.pc) for record in iter(made.step, None)]
    assert order == [
        (groups[0x28], 0x28),
        (0xFF & ~groups[0x28], 8),
        (groups[0x18], 0x18),
        (groups[0x30], 8),
        (groups[0x30], 0x30),
        (ALL & ~0xFF, NEXT),
    ]


def test_an_indexed_branch_through_constants_compares_registers():
    _, warp, record = step(
        encode("JMX", "c", bank=2, offset=0, Ra=3), constants={2: bytes(64)}, registers={3: 4}
    )
    assert (warp.masks.active, record.pushed) == (ALL, ())
    made = machine([encode("JMX", "c", bank=2, offset=0, Ra=3)], constants={2: bytes(64)})
    other = warp_of(made)
    other.registers[3][5] = 4
    assert made.retire(0).pushed == (token(TokenKind.DIVERGE, 1 << 5, 8),)


# Calls and pushes


@pytest.mark.parametrize("name,counted", [("CAL", 1), ("CAL", 0), ("JCAL", 1), ("JCAL", 0)])
def test_a_call_pushes_its_return(name, counted):
    _, warp, record = step(
        encode(name, "i", target=0x40, counted=counted), masks=WarpMasks(active=0xF0, broken=0xF)
    )
    assert record.pushed == (token(TokenKind.RETURN, 0xF0, NEXT, bool(counted)),)
    assert (record.next_pc, warp.api_call_depth) == (0x40 + (NEXT if name == "CAL" else 0), counted)
    assert record.api_call_depth == counted


@pytest.mark.parametrize("name,kind", PUSHING.items())
def test_a_push_goes_nowhere(name, kind):
    _, warp, record = step(encode(name, target=0x30), masks=WarpMasks(active=0xF0, broken=0xF))
    assert record.pushed == (token(kind, 0xF0, 0x40, counted=name == "PRET"),)
    assert (record.next_pc, warp.masks.active, warp.api_call_depth) == (
        NEXT,
        0xF0,
        int(name == "PRET"),
    )


def call_depth(word: int, depth: int, **kind) -> tuple[Warp, Retirement]:
    made, warp = held([word], check_calls=True, **kind)
    warp.api_call_depth, warp.kill_future_branch = depth, depth == 7
    return warp, made.retire(0)


def test_the_call_limit():
    call, other = encode("CAL", "i", target=0x40), encode("CAL", "i", target=0x40, counted=0)
    assert call_depth(call, 31)[1].next_pc == NEXT + 0x40
    warp, record = call_depth(call, 32)
    assert (record.error, warp.api_call_depth, record.pushed) == (WarpError.API_STACK_ERROR, 32, ())
    _, record = call_depth(call, 32, report_mask=0)
    assert (record.error, record.next_pc) == (WarpError.NONE, NEXT)
    assert call_depth(other, 32)[1].next_pc == NEXT + 0x40


def test_a_counted_pre_return_at_the_limit_kills_future_branches():
    word = encode("PRET", "i", target=0x30)
    warp, record = call_depth(word, 32)
    assert (record.pushed, record.kill_future_branch, warp.api_call_depth) == ((), True, 32)
    warp, record = call_depth(word, 7)
    assert (len(record.pushed), record.kill_future_branch, warp.api_call_depth) == (1, False, 8)
    warp, record = call_depth(encode("PRET", "i", target=0x30, counted=0), 7)
    assert (len(record.pushed), record.kill_future_branch, warp.api_call_depth) == (1, True, 7)


def test_without_a_check_calls_only_count():
    made = machine([encode("CAL", "i", target=-8)], crs=8192)
    depths = [made.retire(0).api_call_depth for _ in range(258)]
    assert depths == [*range(1, 256), 0, 1, 2]


# Leaving instructions and the unwind


@pytest.mark.parametrize("name", LEAVING)
def test_threads_that_leave_wait_in_their_mask(name):
    field, _ = LEAVING[name]
    _, warp, record = step(encode(name, guard=0), predicate=0xF)
    assert (warp.masks, record.next_pc, record.popped) == (
        WarpMasks(active=ALL & ~0xF, **{field: 0xF}),
        NEXT,
        (),
    )


@pytest.mark.parametrize("name", [*LEAVING, "SYNC", "KIL"])
def test_leaving_without_a_thread_does_nothing(name):
    _, warp, record = step(encode(name, guard=0), stack=(token(TokenKind.SYNC, ALL),))
    assert (warp.masks, record.next_pc, record.popped) == (WarpMasks(active=ALL), NEXT, ())


@pytest.mark.parametrize("name", LEAVING)
def test_the_last_thread_that_leaves_unwinds_to_its_token(name):
    field, kind = LEAVING[name]
    masks = WarpMasks(active=0xF0, **{field: 0x0F}, killed=ALL & ~0xFF)
    _, warp, record = step(encode(name), masks=masks, stack=(token(kind, 0xFF),))
    assert (warp.masks, record.next_pc) == (WarpMasks(active=0xFF, killed=ALL & ~0xFF), 0x40)
    assert (record.popped, record.depth_after) == ((token(kind, 0xFF),), 0)


@pytest.mark.parametrize("name", LEAVING)
def test_a_token_of_another_kind_revives_no_thread(name):
    field, own = LEAVING[name]
    for other, other_field in (
        (kind, field) for field, kind in LEAVING.values() if kind is not own
    ):
        below = token(TokenKind.SYNC, ALL, 0x60)
        masks = WarpMasks(active=0xF, **{other_field: 0xF0})
        above = (token(other, 0xFF), token(other, 0xF, 0x48))
        _, warp, record = step(encode(name), masks=masks, stack=(below, *above))
        assert (warp.masks.active, record.next_pc, record.popped) == (
            0xF0,
            0x40,
            (above[1], above[0]),
        )
        assert getattr(warp.masks, field) == 0xF


def test_sync_waits_and_the_token_brings_all_back():
    made, warp = held([encode("SYNC", guard=0), encode("SYNC")])
    warp.predicates[0] = 0xFF
    warp.stack.push(token(TokenKind.SYNC, ALL))
    record = made.retire(0)
    assert (warp.masks, record.next_pc) == (WarpMasks(active=ALL & ~0xFF), NEXT)
    record = made.retire(0)
    assert (warp.masks, record.next_pc) == (WarpMasks(active=ALL), 0x40)


@pytest.mark.parametrize("kind", [TokenKind.SYNC, TokenKind.DIVERGE])
def test_holding_tokens_revive_threads_that_are_not_disabled(kind):
    masks = WarpMasks(
        active=1, broken=2, continued=4, returned=8, exited=16, longjumped=32, killed=64
    )
    _, warp, record = step(encode("SYNC"), masks=masks, stack=(token(kind, 0xFF),))
    assert (warp.masks.active, record.next_pc) == (0x81, 0x40)


@pytest.mark.parametrize("kind", [TokenKind.SYNC, TokenKind.DIVERGE])
def test_a_holding_token_that_revives_no_thread_is_passed(kind):
    stack = (token(TokenKind.SYNC, 0xF), token(kind, 0x1, 0x50))
    _, warp, record = step(encode("BRK"), masks=WarpMasks(active=1), stack=stack)
    assert (warp.masks.active, record.next_pc, len(record.popped)) == (0xE, 0x40, 2)


def test_holes_are_skipped():
    stack = (token(TokenKind.SYNC, ALL), token(TokenKind.NONE, 5, 3), token(TokenKind.NONE, 0, 0))
    _, warp, record = step(encode("SYNC"), stack=stack)
    assert (warp.masks.active, record.next_pc, record.popped) == (ALL, 0x40, stack[::-1])


@pytest.mark.parametrize("kind", [kind for _, kind in LEAVING.values()])
def test_a_thread_that_waits_past_a_token_is_an_error(kind):
    stack = (token(TokenKind.SYNC, 0xFF), token(kind, 0xFF))
    masks = WarpMasks(active=0x0F, killed=ALL & ~0xFF)
    made, warp, record = step(encode("BRK"), masks=masks, stack=stack)
    assert (record.error, warp.masks, warp.stack.depth, warp.pc) == (
        WarpError.STACK_ERROR,
        masks,
        2,
        0,
    )
    assert made.step() is None


@pytest.mark.parametrize(
    "kind", [TokenKind.QUAD, TokenKind.TRAP, TokenKind.MASKS, TokenKind.ILLEGAL]
)
def test_tokens_that_no_unwind_may_meet(kind):
    stack = (token(TokenKind.SYNC, ALL), token(kind, ALL))
    _, warp, record = step(encode("SYNC"), stack=stack)
    assert (record.error, record.popped, warp.stack.depth) == (WarpError.STACK_ERROR, (), 2)
    _, warp, record = step(encode("SYNC"), stack=stack, report_mask=0)
    assert (record.error, record.next_pc, warp.masks.active, warp.stack.depth) == (
        WarpError.NONE,
        NEXT,
        ALL,
        2,
    )


def test_the_unwind_checks_the_pc_at_which_it_continues():
    _, warp, record = step(encode("SYNC"), stack=(token(TokenKind.SYNC, ALL, 0x44),))
    assert (record.error, warp.stack.depth) == (WarpError.MISALIGNED_PC, 1)
    stack = (token(TokenKind.SYNC, ALL), token(TokenKind.BREAK, 0, 0x44))
    assert step(encode("SYNC"), stack=stack)[2].next_pc == 0x40


@pytest.mark.parametrize("counted", [False, True])
def test_a_popped_counted_return_closes_its_call(counted):
    made, warp = held([encode("EXIT")])
    warp.api_call_depth = 1
    warp.stack.push(token(TokenKind.EXIT, ALL), token(TokenKind.RETURN, ALL, 0x50, counted))
    record = made.retire(0)
    assert (record.next_pc, record.api_call_depth) == (0x40, 1 - counted)


# The end of a warp


@pytest.mark.parametrize("name,ending", [("EXIT", "exited"), ("KIL", "killed")])
def test_a_warp_ends_when_everybody_has_left(name, ending):
    made, warp, record = step(
        encode(name), masks=WarpMasks(active=0xFF, exited=0xF00, killed=ALL & ~0xFFF)
    )
    assert (record.terminated, record.error, warp.masks.active) == (True, WarpError.NONE, 0)
    assert getattr(warp.masks, ending) & 0xFF == 0xFF
    assert (made.warps[0], made.run().status) == (None, "ok")


def test_returning_with_an_empty_stack_ends_the_warp():
    for report_mask, error, status in (
        (0, WarpError.NONE, "ok"),
        (ALL, WarpError.RET_EMPTY_STACK_ERROR, "error"),
    ):
        made, warp, record = step(encode("RET"), report_mask=report_mask)
        assert (record.terminated, record.error, warp.masks) == (
            True,
            error,
            WarpMasks(active=0, exited=ALL),
        )
        assert made.run().status == status


@pytest.mark.parametrize(
    "masks",
    [
        WarpMasks(active=1, broken=2),
        WarpMasks(active=1, continued=2),
        WarpMasks(active=1, longjumped=2),
        WarpMasks(active=1),
        WarpMasks(active=1, returned=2, broken=4),
    ],
)
def test_an_empty_stack_with_threads_left_is_an_error(masks):
    _, warp, record = step(encode("EXIT"), masks=masks)
    assert (record.error, record.terminated, warp.masks) == (WarpError.STACK_ERROR, False, masks)


def test_code_after_the_exit_runs_before_the_warp_ends():
    program = Program()
    program("PEXIT", to="after")("PRET", to="back")("EXIT", guard=0)("RET").label("back")(
        "EXIT"
    ).label("after")("EXIT")
    made, warp = held(program)
    warp.predicates[0] = 0xFFFF
    records = list(iter(made.step, None))
    assert [record.pc for record in records] == [address(index) for index in range(6)]
    assert records[3].after == WarpMasks(active=ALL & ~0xFFFF, exited=0xFFFF)
    assert (records[4].after, records[4].next_pc) == (WarpMasks(active=ALL), place(5))
    assert records[5].terminated


def test_a_killed_thread_never_comes_back():
    program = Program()
    program("PEXIT", to="after")("KIL", guard=0)("EXIT").label("after")("EXIT")
    made, warp = held(program)
    warp.predicates[0] = 0xF
    records = list(iter(made.step, None))
    assert records[2].after == WarpMasks(active=ALL & ~0xF, killed=0xF)


# SAM and RAM


def test_all_threads_and_back():
    masks = WarpMasks(active=0xF, broken=0xF0, exited=0xF00, killed=0xF000)
    made, warp = held([encode("SAM"), encode("EXIT", guard=0), encode("RAM")])
    warp.masks, warp.predicates[0] = masks, 0x3
    record = made.retire(0)
    assert (record.pushed, warp.masks.active) == ((token(TokenKind.QUAD, 0xF, 0),), ALL & ~0xFF00)
    made.retire(0)
    record = made.retire(0)
    assert (warp.masks.active, record.popped, record.next_pc) == (
        0xC,
        (token(TokenKind.QUAD, 0xF, 0),),
        0x20,
    )


def test_ram_skips_holes_and_requires_its_token():
    stack = (token(TokenKind.QUAD, 0xF), token(TokenKind.NONE, 0))
    _, warp, record = step(encode("RAM"), stack=stack)
    assert (warp.masks.active, record.depth_after) == (0xF, 0)
    for wrong in (
        (),
        (token(TokenKind.NONE, 0),),
        (token(TokenKind.QUAD, ALL), token(TokenKind.SYNC, ALL)),
    ):
        _, warp, record = step(encode("RAM"), stack=wrong)
        assert (record.error, warp.stack.depth) == (WarpError.STACK_ERROR, len(wrong))


def test_ram_is_an_error_when_no_thread_of_its_token_lives():
    stack = (token(TokenKind.SYNC, 0xF0), token(TokenKind.QUAD, 0xF))
    _, warp, record = step(encode("RAM"), masks=WarpMasks(active=0xF0, exited=0xF), stack=stack)
    assert (record.error, warp.masks.active, warp.stack.depth) == (WarpError.STACK_ERROR, 0xF0, 2)


def test_exit_keeps_the_reference_only_if_a_thread_exits():
    for predicate, kept in ((0, False), (1, True)):
        _, warp, _ = step(encode("EXIT", guard=0, keep_reference=1), predicate=predicate)
        assert warp.cta.keeps_reference is kept
