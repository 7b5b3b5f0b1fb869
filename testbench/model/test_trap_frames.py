"""The trap handler's stack in the warp model: what it finds at entry and what remains after it."""

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from sim.model.warp.faults import WarpFaultError
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.model.warp.trap_frame import masks_of_frame
from testbench.handmade import ALL, retire, vector, warp_of
from testbench.model.trap_machine import events, handler_pc, in_handler, on, status0
from testbench.trap.programs import RETURN, kernel, with_handler
from testbench.words import address, place


def test_a_trap_pushes_the_masks_and_the_return_pc():
    machine, _ = on(with_handler(kernel("SSY here", "BPT.TRAP 0x1", "here:", "EXIT"), *RETURN))
    warp = warp_of(machine)
    machine.retire(0)
    before = WarpMasks(
        0xFF,
        broken=0xF00,
        continued=0xF000,
        returned=0xF0000,
        exited=0xF00000,
        longjumped=0xF000000,
        killed=0x10000000,
    )
    warp.masks = before
    machine.retire(0)
    token = StackToken
    assert warp.stack.tokens() == [
        token(TokenKind.SYNC, address(2), ALL),
        *[token(TokenKind.NONE, 0, 0)] * 3,
        token(TokenKind.TRAP, address(2) | 3, 0xFF),
        token(TokenKind.MASKS, 0xF000, 0xF00),
        token(TokenKind.MASKS, 0xF000000, 0xF0000),
        token(TokenKind.MASKS, 0x10000000, 0xF00000),
    ]
    assert warp.masks == WarpMasks(ALL & ~0x10F00000, exited=0xF00000, killed=0x10000000)
    assert (warp.pc, warp.in_trap, warp.stack.in_trap) == (handler_pc(machine), True, True)
    machine.retire(0)
    assert (warp.masks, warp.stack.depth, warp.in_trap, warp.stack.in_trap) == (
        before,
        1,
        False,
        False,
    )
    assert warp.pc == address(2)


def test_between_sam_and_ram_waiting_threads_wait_after_the_trap():
    program = ("PBK met", "@P0 BRK", "SAM", "BPT.TRAP 0x1", "RAM", "BRK", "met:", "EXIT")
    machine, _ = on(with_handler(kernel(*program), "RTT"))
    warp = warp_of(machine)
    warp.predicates[0] = 1
    retire(machine, 0, times=5)
    assert (warp.masks, warp.pc) == (WarpMasks(ALL, broken=1), address(4))
    machine.retire(0)
    assert warp.masks == WarpMasks(ALL & ~1, broken=1)
    machine.retire(0)
    assert (warp.masks, warp.pc, warp.stack.depth) == (WarpMasks(ALL), place(6), 0)


def test_a_thread_active_in_a_frame_is_not_dead():
    machine, _ = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT"), "RTT"))
    warp = warp_of(machine)
    warp.masks = WarpMasks(0xF)
    retire(machine, 0)
    trap = warp.stack.token(0)
    warp.stack.drop(4)
    warp.stack.push(
        trap,
        StackToken(TokenKind.MASKS, 0x3, 0x30),
        StackToken(TokenKind.MASKS, 0x6, 0),
        StackToken(TokenKind.MASKS, 0x11, 0x22),
    )
    machine.retire(0)
    assert warp.masks == WarpMasks(0xF, longjumped=0x4, exited=0x20, killed=0x10)


def test_falling_through_keeps_masks_and_stack():
    machine, _ = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT"), "RTT.FALLTHROUGH", "NOP", "RTT"))
    warp = warp_of(machine)
    retire(machine, 0, 0)
    assert (warp.pc, warp.in_trap, warp.stack.in_trap, warp.stack.depth) == (
        in_handler(machine, 1),
        False,
        False,
        4,
    )
    machine.retire(0)
    assert machine.retire(0).error is WarpError.ILLEGAL_INSTR_ENCODING


def test_after_a_handler_that_left_more_than_fits_branches_continue():
    """User mode can't push then, but a branch that all threads take needs no push."""
    pushes = ["SSY next"] * 13
    machine, _ = on(
        with_handler(
            kernel("BPT.TRAP 0x1", "EXIT", crs=512),
            *pushes,
            "RTT.FALLTHROUGH",
            "BRX R0 -.next+next",
            "next:",
            "SSY next",
        )
    )
    for _ in range(15):
        assert machine.retire(0).error is WarpError.NONE
    assert warp_of(machine).stack.depth == 17
    assert machine.retire(0).error is WarpError.NONE
    assert machine.retire(0).error is WarpError.STACK_OVERFLOW


def test_tokens_and_calls_of_the_handler_are_forgotten():
    handler = (
        "CAL deeper",
        "deeper:",
        "SSY deeper",
        "SAM",
        "PBK deeper",
        "CAL inside",
        "inside:",
        "RTT",
    )
    machine, _ = on(with_handler(kernel("CAL there", "there:", "BPT.TRAP 0x1", "EXIT"), *handler))
    warp = warp_of(machine)
    retire(machine, 0, times=8)
    assert (warp.stack.depth, warp.api_call_depth, warp.pc, warp.masks.active) == (
        1,
        1,
        address(2),
        ALL,
    )


def test_a_handler_that_has_lost_the_frame():
    handler = ("MOV R0, RZ", "SETCRSPTR R0", "RTT", "RTT.TERMINATE")
    machine, host = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT"), *handler))
    result = machine.run()
    assert result.status == "error"
    assert machine.log.errors[0].error is WarpError.STACK_ERROR
    assert (events(host), status0(host)) == ({"ERROR_IN_TRAP", "BPT_PAUSE"}, (1, 1))
    host.run_trigger()
    assert machine.run().status == "error"
    assert machine.live == []


@pytest.mark.parametrize("depth", [12, 13])
def test_without_memory_there_may_be_no_room_for_the_frame(depth):
    pushes = ["SSY here"] * depth
    machine, host = on(with_handler(kernel(*pushes, "BPT.TRAP 0x1", "here:", "EXIT", crs=0), "RTT"))
    retire(machine, 0, times=depth + 1)
    warp = warp_of(machine)
    if depth == 12:
        assert (warp.stack.depth, warp.trap.framed) == (16, True)
        assert machine.run().status == "ok"
        return
    assert (warp.stack.depth, warp.trap.framed, warp.trap.paused, warp.masks.active) == (
        13,
        False,
        True,
        ALL,
    )
    assert events(host) == {"PHYSICAL_STACK_OVERFLOW", "ERROR_IN_TRAP", "BPT_PAUSE"}
    assert status0(host) == (1, 1)
    host.run_trigger()
    assert (status0(host), warp.pc) == ((0, 0), address(depth + 1))


def test_the_handler_may_use_the_reserve():
    handler = ["again:", *["SSY again"] * 12, "GETCRSPTR R4", "SSY again"]
    pushes = ["SSY here"] * 16
    machine, _ = on(with_handler(kernel(*pushes, "BPT.TRAP 0x1", "here:", "EXIT"), *handler))
    for _ in range(16 + 1 + 12 + 1):
        assert machine.retire(0).error is WarpError.NONE
    assert vector(warp_of(machine), 4)[0] & 0x1FFFF == 32
    assert machine.retire(0).error is WarpError.STACK_OVERFLOW


_SAVED = [StackToken(TokenKind.MASKS, 0, 0)] * 3


@pytest.mark.parametrize(
    ("mask", "saved"),
    [
        (0, _SAVED),  # no thread would continue
        (1, [*_SAVED[:2], StackToken(TokenKind.SYNC, 0, 0)]),
        (1, [StackToken(TokenKind.NONE, 0, 0), *_SAVED[1:]]),
        (1, _SAVED[:2]),
    ],
)
def test_a_frame_without_its_masks_is_an_error_of_the_stack(mask, saved):
    with pytest.raises(WarpFaultError) as caught:
        masks_of_frame([StackToken(TokenKind.TRAP, 0x20, mask), *saved])
    assert caught.value.error is WarpError.STACK_ERROR


def test_masks_of_a_frame_exclude_each_other():
    line = [
        StackToken(TokenKind.TRAP, 0x20, 0x0F),
        StackToken(TokenKind.MASKS, 0x30, 0x30),  # continued, broken
        StackToken(TokenKind.MASKS, 0x40, 0x70),
        StackToken(TokenKind.MASKS, 0x80, 0x1C0),
    ]
    masks = masks_of_frame(line)
    assert masks.active == 0x0F
    disabled = [
        getattr(masks, name)
        for name in ("killed", "exited", "longjumped", "returned", "continued", "broken")
    ]
    assert [hex(mask) for mask in disabled] == ["0x80", "0x140", "0x0", "0x30", "0x0", "0x0"]
