"""Cases of RTT: which warps leave the trap, when, and in which state."""

from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import GLOBAL_ERROR_MASK_RESET, GlobalError
from rtl.isa.tokens import API_CALL_LIMIT
from testbench.trap.case import ADDRESS, BUSY, COUNT, DELAY, LOG, PATIENCE, Cases, Debugger
from testbench.words import address

RETURNS = Cases()
case = RETURNS.case
_TRAP_AND_STORE = (*ADDRESS, "BPT.TRAP 0x1", "STG.E [R2], R0", "EXIT")
_FIRST_TRAPS = (
    *ADDRESS,
    "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
    "@P0 BRA other",
    "BPT.TRAP 0x1",
    "other:",
    *BUSY,
    "STG.E [R2], R0",
    "EXIT",
)
_ENDS_AT_SECOND = (*COUNT, "ISETP.EQ.U32.AND P0, PT, R20, 0x2, PT", "@P0 BRA ends")
_ALL = 0xFFFF_FFFF


@case(_TRAP_AND_STORE, ("RTT",))
async def rtt_goes_back(d: Debugger) -> None:
    await d.end(words=range(32))
    await d.see_state(trapping=0, locked=0)
    await d.see_events(reasons=[1])


@case(
    (
        *ADDRESS,
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "SSY met",
        "@P0 BRA less",
        "MOV32I R4, 0x1",
        "BPT.TRAP 0x1",
        "SYNC",
        "less:",
        "MOV32I R4, 0x2",
        "SYNC",
        "met:",
        "IADD R4, R4, R0",
        "STG.E [R2], R4",
        "EXIT",
    ),
    (
        "PEXIT away",
        "SSY away",
        "SAM",
        "PBK away",
        "@P0 BRK",
        "CAL deeper",
        "away:",
        "NOP",
        "deeper:",
        "RTT.POPCRS",
    ),
)
async def popcrs_restores_masks_and_ignores_other_tokens(d: Debugger) -> None:
    await d.end(words=[thread + (2 if thread < 8 else 1) for thread in range(32)])


@case(
    (
        *ADDRESS,
        "ISETP.EQ.U32.AND P0, PT, R0, RZ, PT",
        "MOV32I R4, 0x1",
        "PBK met",
        "@P0 BRK",
        "SAM",
        "BPT.TRAP 0x1",
        "IADD32I R4, R4, 0x1",
        "RAM",
        "IADD32I R4, R4, 0x10",
        "BRK",
        "met:",
        "STG.E [R2], R4",
        "EXIT",
    ),
    ("RTT",),
)
async def a_trap_between_sam_and_ram_leaves_who_waits_waiting(d: Debugger) -> None:
    await d.end(words=[0x2, *[0x12] * 31])
    await d.see_events(reasons=[1])


@case(
    (
        "S2R R0, SR_TID.X",
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "@P0 EXIT",
        "SSY met",
        "ISETP.LT.U32.AND P0, PT, R0, 0x10, PT",
        "@P0 SYNC",
        "BPT.TRAP 0x1",
        "SYNC",
        "met:",
        "EXIT",
    ),
    (*COUNT, "VOTE.ANY R22, PT, PT", "STG.E [R18+0x4], R22", "RTT.TERMINATE"),
)
async def all_live_threads_are_active_in_the_handler(d: Debugger) -> None:
    await d.end()
    d.expect("log", d.log(0)[:2], [1, 0xFFFF_FF00])


@case(
    ("SSY met", "BPT.TRAP 0x1", "met:", "EXIT"),
    (
        *_ENDS_AT_SECOND,
        "SSY fallen",
        "RTT.FALLTHROUGH",
        "GETCRSPTR R21",
        "VOTE.ANY R22, PT, PT",
        "STG.E [R18+0x4], R21",
        "STG.E [R18+0x8], R22",
        "BPT.TRAP 0x2",
        "fallen:",
        "ends:",
        "RTT.TERMINATE",
    ),
)
async def fallthrough_goes_on_with_masks_and_stack_as_they_are(d: Debugger) -> None:
    await d.end()
    entries, depth, active, _ = d.log(0)
    # SYNC with holes up to a line, the frame, and the handler's own SYNC with holes up to a line.
    d.expect("entries, depth, active threads", [entries, depth & 0x1FFFF, active], [2, 12, _ALL])
    await d.see_events(reasons=[1, 2])


@case(
    ("BPT.TRAP 0x1", "EXIT"),
    (*_ENDS_AT_SECOND, "RTT.FALLTHROUGH", "RTT", "ends:", "BPT.PAUSE", "RTT.TERMINATE"),
)
async def behind_fallthrough_a_warp_is_outside(d: Debugger) -> None:
    await d.lock_down()
    await d.see_error(
        WarpError.ILLEGAL_INSTR_ENCODING, 0, d.handler + address(len(_ENDS_AT_SECOND) + 1)
    )
    await d.see_events("BPT_PAUSE", reasons=[1])
    await d.clear()
    await d.run_trigger()
    await d.end()


@case(
    (*BUSY, "EXIT"), (*_ENDS_AT_SECOND, "RTT.FALLTHROUGH", "BPT.TRAP 0x1", "ends:", "RTT.TERMINATE")
)
async def fallthrough_holds_while_the_stop_trigger_is_set(d: Debugger) -> None:
    await d.hold(after=1)
    await d.see_state(trapping=1, locked=1)
    await d.run(200)
    await d.see("WARP_VALID_MASK", 1)
    await d.see("HWW_WARP_ESR", 0)
    await d.control(STOP_TRIGGER=0)
    await d.end()


@case(
    (
        *ADDRESS,
        "BPT.TRAP 0x3",
        "S2R R4, SR_WARPERRORSTATUS",
        "S2R R5, SR_GLOBALERRORSTATUS",
        "STG.E [R2], R4",
        "STG.E [R2+0x80], R5",
        "EXIT",
    ),
    (
        *LOG,
        "S2R R20, SR_WARPERRORSTATUS",
        "S2R R21, SR_GLOBALERRORSTATUS",
        "STG.E [R18], R20",
        "STG.E [R18+0x4], R21",
        "RTT",
    ),
)
async def rtt_clears_the_trap_bits(d: Debugger) -> None:
    await d.end()
    d.expect("in the handler", d.log(0)[:2], [1 << 3, 1 << 3])
    d.expect("afterwards", [d.words(0, 1), d.words(32, 1)], [[0], [0]])
    await d.see("BPT_TRAP_MASK", 0)


@case(
    _FIRST_TRAPS,
    (*COUNT, "@!P5 BRA late", "RTT", "late:", *DELAY, "STG.E [R18+0x4], R20", "RTT"),
    warps=2,
)
async def rtt_waits_for_every_warp(d: Debugger) -> None:
    while not d.log(0)[0]:
        await d.run(10)
    await d.run(150)
    d.expect("the other one", d.log(1)[1], 0)
    d.expect("words", d.words(0, 32), [0] * 32)
    await d.see_state(trapping=1, locked=0)
    await d.end(words=range(64), entries=[1, 1])


@case(
    _FIRST_TRAPS, (*COUNT, "@P5 BRA leave", "BPT.PAUSE", "leave:", "RTT"), warps=2, ends="timeout"
)
async def rtt_counts_paused_warps_as_waiting(d: Debugger) -> None:
    await d.interrupt()
    await d.leave()
    while await d.host.read("WARP_VALID_MASK") == 0b11:
        await d.run(100)
    await d.see("BPT_PAUSE_MASK", 0b10)
    await d.see_state(trapping=0, locked=0)
    await d.run(100)  # stores of a warp that has ended may be in flight
    d.expect("words", d.words(0, 32), list(range(32)))


@case(_TRAP_AND_STORE, (*COUNT, "RTT.TERMINATE"), warps=2)
async def terminate_ends_the_warp(d: Debugger) -> None:
    await d.end(words=[0] * 64, entries=[1, 1])
    await d.see_state(trapping=0, locked=0)


@case(
    _TRAP_AND_STORE,
    (*COUNT, "@!P5 BRA waits", "RTT.TERMINATE", "waits:", "BPT.PAUSE", "RTT"),
    warps=2,
)
async def terminate_does_not_wait(d: Debugger) -> None:
    await d.lock_down()
    await d.see("WARP_VALID_MASK", 0b10)
    await d.run_trigger()
    await d.run(1500)
    # The other warp then reaches its own BPT.TRAP and is paused again.
    if await d.host.read("WARP_VALID_MASK"):
        await d.run_trigger()
    await d.end(words=[0] * 32 + list(range(32, 64)))


@case(
    (*ADDRESS, "BPT.TRAP 0x1", "STG.E [R2], R0", "EXIT"),
    (
        *COUNT,
        "GETLMEMBASE R6",
        "MOV32I R7, 0x1234567",
        "@!P5 BRA late",
        "SETLMEMBASE R7",
        *["SSY late"] * 5,
        "BAR.SYNCALL",
        "SETLMEMBASE R6",
        "LDG.E R22, [R18+0x14]",
        "STG.E [R18+0x8], R22",
        "RTT",
        "late:",
        "MOV32I R21, 0x100",
        *DELAY[1:],
        "MOV32I R22, 0x5",
        "STG.E [R18+0x4], R22",
        "MEMBAR.GL",
        "BAR.SYNCALL",
        "RTT",
    ),
    warps=2,
    ends="error",
)
async def who_is_woken_at_syncall_still_waits_there(d: Debugger) -> None:
    """Memory refuses a line of the stack: the error belongs to no instruction."""
    for _ in range(PATIENCE // 10):
        if await d.host.read("BPT_PAUSE_MASK"):
            break
        await d.run(10)
    await d.see("BPT_PAUSE_MASK", 1)
    await d.see_error(WarpError.MMU_FAULT, 0, 0)
    await d.wake(1)
    d.expect("the other one is not there yet", d.log(1)[1], 0)
    await d.end()
    d.expect("what the first saw behind it", d.log(0)[2], 5)


@case(
    _FIRST_TRAPS,
    (
        *LOG,
        "@!P5 BRA late",
        "RTT.TERMINATE",
        "late:",
        *DELAY,
        "S2R R20, SR_GLOBALERRORSTATUS",
        "STG.E [R18], R20",
        "IADD32I R20, R20, 0x1",
        "STG.E [R18+0x4], R20",
        "RTT",
    ),
    warps=2,
)
async def terminate_clears_the_trap_bits_of_its_warp(d: Debugger) -> None:
    await d.end(words=[0] * 32 + list(range(32, 64)))
    d.expect("SR64 in the other one's handler", d.log(1)[:2], [0, 1])
    await d.see_events(reasons=[1])


@case(
    ("BPT.TRAP 0x1", "EXIT"),
    (
        *COUNT,
        "CCTLL.CRS.WBALL",
        "SETCRSPTR RZ",
        "RTT",
        "IADD32I R20, R20, 0x10",
        "STG.E [R18], R20",
        "EXIT",
    ),
    report_mask=REPORT_MASK_RESET & ~(1 << WarpError.STACK_ERROR.value),
)
async def popcrs_without_a_frame_goes_on_outside_if_that_is_not_reported(d: Debugger) -> None:
    await d.end(entries=[0x11])
    await d.see_events(reasons=[1])


# KillFutureBranch is bit 31 of GETCRSPTR's result, the API call depth bits 30:23.
_KILLED, _DEPTH_AT = 1 << 31, 23
_CALL_UP_TO_THE_LIMIT = (
    f"MOV32I R4, {API_CALL_LIMIT:#x}",
    "MOV R6, RZ",
    "deeper:",
    "IADD32I R4, R4, -0x1",
    "ISETP.EQ.U32.AND P0, PT, R4, RZ, PT",
    "@P0 BRA there",
    "CAL deeper",
    "there:",
    "CAL last",
    "last:",
)


@case(
    (
        *ADDRESS,
        *_CALL_UP_TO_THE_LIMIT,
        "GETCRSPTR R4",
        "BPT.TRAP 0x1",
        "GETCRSPTR R5",
        "BRA.LMT off",
        "MOV32I R6, 0x1",
        "off:",
        "STG.E [R2], R4",
        "STG.E [R2+0x80], R5",
        "STG.E [R2+0x100], R6",
        "EXIT",
    ),
    ("PRET away", "away:", "RTT"),
    check_calls=True,
)
async def a_counted_pret_in_the_handler_decides_of_limited_branches(d: Debugger) -> None:
    await d.end()
    depth = API_CALL_LIMIT << _DEPTH_AT
    d.expect(
        "before and behind the trap",
        [d.words(0, 1)[0] >> _DEPTH_AT, d.words(32, 1)[0] >> _DEPTH_AT],
        [depth >> _DEPTH_AT, (_KILLED | depth) >> _DEPTH_AT],
    )
    d.expect("the branch is not taken", d.words(64, 32), [1] * 32)


@case(
    (
        *ADDRESS,
        *_CALL_UP_TO_THE_LIMIT,
        "PRET off",
        "GETCRSPTR R4",
        "BPT.TRAP 0x1",
        "GETCRSPTR R5",
        "BRA.LMT off",
        "MOV32I R6, 0x1",
        "off:",
        "STG.E [R2], R4",
        "STG.E [R2+0x80], R5",
        "STG.E [R2+0x100], R6",
        "EXIT",
    ),
    (
        "GETCRSPTR R20",
        "CCTLL.CRS.WBALL",
        f"MOV32I R21, {0x1FFFF:#x}",
        "LOP.AND R21, R20, R21",
        "SETCRSPTR R21",
        "PRET away",
        "SETCRSPTR R20",
        "away:",
        "RTT",
    ),
    check_calls=True,
)
async def a_handler_gives_the_kill_bit_back_with_setcrsptr(d: Debugger) -> None:
    await d.end()
    depth = API_CALL_LIMIT << _DEPTH_AT
    d.expect(
        "before and behind the trap",
        [d.words(0, 1)[0] >> _DEPTH_AT, d.words(32, 1)[0] >> _DEPTH_AT],
        [(_KILLED | depth) >> _DEPTH_AT] * 2,
    )
    d.expect("the branch is not taken", d.words(64, 32), [1] * 32)


@case((*BUSY, "EXIT"), (*COUNT, "RTT"))
async def rtt_holds_while_the_stop_trigger_is_set(d: Debugger) -> None:
    await d.hold(after=1)
    await d.see_state(trapping=1, locked=1)
    await d.see("BPT_PAUSE_MASK", 0)
    await d.run_trigger()
    await d.run(300)
    await d.see_state(trapping=1, locked=1)
    await d.control(STOP_TRIGGER=0)
    await d.end(entries=[1])


RETURNS.illegal("rtt_outside_is_illegal", "RTT")


@case(
    (*ADDRESS, "BPT.TRAP 0x1", "STG.E [R2], R0", "EXIT"),
    ("MOV R16, RZ", "SETCRSPTR R16", "RTT", "RTT.TERMINATE"),
    ends="error",
)
async def popcrs_without_a_frame_is_an_error_in_the_trap(d: Debugger) -> None:
    await d.lock_down()
    await d.see_events("ERROR_IN_TRAP", "BPT_PAUSE", reasons=[1])
    d.expect("error", WarpError(await d.host.field("HWW_WARP_ESR", "ERROR")).name, "STACK_ERROR")


# BAR.SYNCALL


@case(
    (*ADDRESS, "BPT.TRAP 0x1", "STG.E [R2], R0", "EXIT"),
    (
        *COUNT,
        "@!P5 BRA late",
        "BAR.SYNCALL",
        "LDG.E R22, [R18+0x14]",
        "STG.E [R18+0x8], R22",
        "RTT",
        "late:",
        *DELAY,
        "MOV32I R22, 0x5",
        "STG.E [R18+0x4], R22",
        "MEMBAR.GL",
        "BAR.SYNCALL",
        "RTT",
    ),
    warps=2,
)
async def syncall_meets_syncall(d: Debugger) -> None:
    await d.end()
    d.expect("what the first saw behind it", d.log(0)[2], 5)


@case(
    ("BPT.TRAP 0x1", "EXIT"),
    (
        *COUNT,
        "@!P5 BRA ends",
        "BAR.SYNCALL",
        "MOV32I R20, 0x7",
        "STG.E [R18+0x4], R20",
        "RTT",
        "ends:",
        *DELAY,
        "RTT.TERMINATE",
    ),
    warps=2,
)
async def syncall_is_released_by_terminate(d: Debugger) -> None:
    await d.end()
    d.expect("log", d.log(0)[1], 7)


def _deadlock(mode: str) -> tuple[str, ...]:
    return (*COUNT, "@P5 BRA leave", "BAR.SYNCALL", "leave:", f"RTT{mode}", "EXIT")


@case(("BPT.TRAP 0x1", "EXIT"), _deadlock(""), warps=2, ends="timeout")
async def popcrs_against_syncall_deadlocks_and_the_watchdog_tells(d: Debugger) -> None:
    await d.write("SM_TIMEOUT_INTERVAL", 10)
    await d.interrupt()
    await d.run(100)  # the second warp traps a launch later
    await d.clear()
    await d.run(3000)
    await d.see_events("TIMEOUT")
    await d.see_state(trapping=1, locked=0)
    await d.see("WARP_VALID_MASK", 3)
    # The mask of the drivers does not have the watchdog's bit.
    d.expect("interrupt", d.host.interrupted, False)
    await d.write(
        "HWW_GLOBAL_ESR_REPORT_MASK", GLOBAL_ERROR_MASK_RESET | 1 << GlobalError.TIMEOUT.value
    )
    await d.run(1)
    d.expect("interrupt with the bit in the mask", d.host.interrupted, True)


@case(("BPT.TRAP 0x1", "EXIT"), _deadlock(".FALLTHROUGH"), warps=2, ends="timeout")
async def fallthrough_against_syncall_deadlocks(d: Debugger) -> None:
    await d.run(4000)
    await d.see_events(reasons=[1])
    await d.see_state(trapping=1, locked=0)
    await d.write("SM_TIMEOUT_INTERVAL", 8)
    await d.run(
        400
    )  # bit 8 of the count is set within 256 cycles and checked in the next period of 64
    await d.see_events("TIMEOUT", reasons=[1])


@case(
    (
        *ADDRESS,
        "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA waits",
        *BUSY,
        "waits:",
        "BAR.SYNC 0x0",
        "STG.E [R2], R0",
        "EXIT",
    ),
    (*COUNT, "BAR.SYNCALL", "RTT"),
    warps=2,
)
async def syncall_leaves_barriers_of_the_kernel_alone(d: Debugger) -> None:
    await d.hold(after=50)
    await d.go()
    await d.end(words=range(64))


RETURNS.illegal("syncall_outside_is_illegal", "BAR.SYNCALL")


# What a warp executes after it has left the trap


@case(
    (
        *ADDRESS,
        "ISETP.LT.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA waits",
        "BPT.TRAP 0x1",
        "waits:",
        "BAR.SYNC 0x0",
        "STG.E [R2], R0",
        "EXIT",
    ),
    (*COUNT, "RTT"),
    warps=2,
)
async def a_bar_that_was_rolled_back_runs_again(d: Debugger) -> None:
    await d.end(words=range(64), entries=[1, 1])


@case((*BUSY, *ADDRESS, "STG.E [R2], R0", "EXIT"), (*COUNT, "RTT"), warps=2)
async def a_stop_that_is_pending_again_comes_first(d: Debugger) -> None:
    await d.hold(after=1)
    issued = await d.host.read("instructions")
    for _ in range(3):
        entries = d.log(0)[0]
        await d.control(STOP_TRIGGER=0)
        await d.control(STOP_TRIGGER=1)
        while d.log(0)[0] == entries:
            await d.run(1)
        await d.lock_down()
    d.expect(
        "instructions: of the handler alone",
        await d.host.read("instructions") - issued,
        3 * 2 * (len(COUNT) + 1),
    )
    await d.go()
    await d.end(words=range(32))


@case(
    (*ADDRESS, *BUSY, "STG.E [R2], R0", "EXIT"),
    (*COUNT, "@P5 BRA ends", "RTT", "ends:", "RTT.TERMINATE"),
    warps=2,
)
async def a_terminated_warp_never_resumes(d: Debugger) -> None:
    await d.hold(after=1)
    await d.see("WARP_VALID_MASK", 0b10)
    await d.go()
    await d.end(words=[0] * 32 + list(range(32, 64)))


# Instructions that fail, and the ones after them


@case(
    (
        *ADDRESS,
        "MOV R4, R0",
        "B2R R10, 0xf",
        *("IADD32I R4, R4, 0x1",) * 4,
        "STG.E [R2], R4",
        "EXIT",
    ),
    ("BPT.DRAIN", "BPT.PAUSE", "RTT"),
)
async def nothing_is_executed_behind_a_b2r_that_failed(d: Debugger) -> None:
    await d.lock_down()
    await d.see_error(WarpError.ILLEGAL_INSTR_PARAM2, 0, address(len(ADDRESS) + 1))
    await d.clear()
    await d.write("HWW_WARP_ESR_REPORT_MASK", 0)
    await d.run_trigger()
    await d.end(words=[thread + 4 for thread in range(32)])


_BAD_LOAD = "LDG.E R10, [RZ]"
_FULL = (*ADDRESS, *("SSY met",) * 16)
"""A program that fills its stack of 512 bytes up to the limit of user mode."""
_BEHIND = ("MOV R11, R10", "met:", "STG.E [R2], R0", "EXIT")


async def _comes_back(d: Debugger, failing_line: int, *events: str) -> None:
    """Checks that a push fails at line ``failing_line``, whose error is reported first. Without
    reported errors the program ends.
    """
    await d.lock_down()
    await d.see_error(WarpError.STACK_OVERFLOW, 0, address(failing_line))
    await d.see_events("PHYSICAL_STACK_OVERFLOW", "BPT_PAUSE", *events)
    await d.clear()
    await d.write("HWW_WARP_ESR_REPORT_MASK", 0)
    await d.run_trigger()
    await d.end(words=range(32))


@case((*_FULL, _BAD_LOAD, "SSY met", *_BEHIND), ("BPT.DRAIN", "BPT.PAUSE", "RTT"), crs=512)
async def behind_a_load_that_failed_a_push_fails_earlier(d: Debugger) -> None:
    await _comes_back(
        d, len(_FULL) + 1, "MULTIPLE_WARP_ERRORS"
    )  # returns to the load, as in the warp model


@case((*_FULL, "SSY met", _BAD_LOAD, *_BEHIND), ("BPT.DRAIN", "BPT.PAUSE", "RTT"), crs=512)
async def behind_a_push_that_failed_no_load_is_executed(d: Debugger) -> None:
    await _comes_back(d, len(_FULL))
