"""Cases of masked traps, errors, single steps, full stacks, a missing handler, and the host's
registers.
"""

from rtl.isa.errors import WarpError
from testbench.sm.errors import ALL_REPORTED
from testbench.trap.case import ADDRESS, BUSY, COUNT, LOG, Cases, Debugger
from testbench.words import address

HOSTS = Cases()
case = HOSTS.case
_STORE = ("STG.E [R2], R0", "EXIT")
_STATUS = (
    *COUNT,
    "S2R R21, SR_WARPERRORSTATUS",
    "S2R R22, SR_GLOBALERRORSTATUS",
    "STG.E [R18+0x4], R21",
    "STG.E [R18+0x8], R22",
)
"""COUNT, and SR66 and SR64 in the second and third word of the log."""
_BAD_LOAD = ("MOV R8, RZ", "MOV R9, RZ", "LDG.E R10, [R8]", "MOV R11, R10")


# IDE


@case(
    (
        *ADDRESS,
        "IDE.DI",
        "BPT.TRAP 0x1",
        "BPT.TRAP 0x6",
        "STG.E [R2], R0",
        *BUSY,
        "IDE.EN",
        "STG.E [R2+0x80], R0",
        "EXIT",
    ),
    (*_STATUS, "STG.E [R18+0xc], R23", "BPT.DRAIN", "RTT"),
)
async def masked_reasons_pend(d: Debugger) -> None:
    while not d.words(31, 1)[0]:
        await d.run(10)
    await d.see_state(trapping=0, locked=0)
    await d.see("BPT_TRAP_MASK", 1)
    await d.see_events(reasons=[1, 6])
    await d.end()
    d.expect("log", d.log(0)[:3], [1, 1 << 1 | 1 << 6, 1 << 1 | 1 << 6])


@case((*ADDRESS, "IDE.DI", "BPT.TRAP 0x7", *_STORE), (*COUNT, "RTT"))
async def reason_7_is_not_masked(d: Debugger) -> None:
    await d.end(words=range(32), entries=[1])


@case(("IDE.DI", "NOP", ".raw 0x0", "EXIT"), (*COUNT, "RTT.TERMINATE"), ends="error")
async def errors_are_not_masked(d: Debugger) -> None:
    await d.end(entries=[1])
    await d.see_error(WarpError.ILLEGAL_INSTR_ENCODING, 0, address(2))


@case(
    ("IDE.DI", *BUSY, "IDE.EN", *ADDRESS, *_STORE),
    (*COUNT, "STG.E [R18+0x4], R23", "BPT.DRAIN", "RTT"),
)
async def a_masked_stop_pends(d: Debugger) -> None:
    await d.begin(10)
    await d.stop()
    await d.run(500)
    d.expect("entries", d.log(0)[0], 0)
    await d.see_state(trapping=1, locked=0)
    await d.lock_down()
    d.expect("entries, what is left to do", d.log(0)[:2], [1, 0])
    await d.go()
    await d.end()


@case(
    (
        *ADDRESS,
        "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA other",
        "IDE.DI",
        *BUSY,
        *_STORE,
        "other:",
        "IDE.DI",
        "BPT.TRAP 0x7",
        *_STORE,
    ),
    (*COUNT, "RTT"),
    warps=2,
)
async def what_nobody_can_mask_makes_all_enter(d: Debugger) -> None:
    await d.end(words=range(64), entries=[1, 1])


@case(
    (
        *ADDRESS,
        "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA other",
        "IDE.DI",
        *BUSY,
        "IDE.EN",
        *_STORE,
        "other:",
        *["NOP"] * 6,
        "BPT.TRAP 0x1",
        *_STORE,
    ),
    (*COUNT, "BPT.DRAIN", "RTT"),
    warps=2,
)
async def who_masks_traps_keeps_the_others_waiting(d: Debugger) -> None:
    while not d.log(1)[0]:
        await d.run(20)
    await d.run(400)
    await d.see_state(trapping=1, locked=0)
    d.expect("entries", [d.log(slot)[0] for slot in range(2)], [0, 1])
    d.expect("words", d.words(32, 32), [0] * 32)
    await d.end(words=range(64), entries=[1, 1])


@case(("IDE.DI", *BUSY, "EXIT"), (*COUNT, "RTT"), ends="ok")
async def who_masks_traps_to_its_end_never_enters(d: Debugger) -> None:
    await d.begin(10)
    await d.stop()
    await d.end(entries=[0])
    await d.see_state(trapping=1, locked=1)


# Errors


@case((*ADDRESS, *_BAD_LOAD, *_STORE), (*_STATUS, "RTT.TERMINATE"), ends="error")
async def an_error_traps(d: Debugger) -> None:
    await d.end()
    code = WarpError.MMU_FAULT.value
    d.expect("log", d.log(0)[:3], [1, code << 16 | 1, 1])
    await d.see_error(WarpError.MMU_FAULT, 0, address(6))
    d.expect("words", d.words(0, 32), [0] * 32)


@case((*ADDRESS, *_BAD_LOAD, *_STORE), (*COUNT, "BPT.DRAIN", "BPT.PAUSE", "RTT"))
async def an_error_comes_back_to_what_failed(d: Debugger) -> None:
    await d.lock_down()
    await d.clear()
    await d.run_trigger()
    await d.run(5)
    await d.lock_down()
    await d.see_error(WarpError.MMU_FAULT, 0, address(6))
    d.expect("entries", d.log(0)[0], 2)
    await d.clear()
    await d.write("HWW_WARP_ESR_REPORT_MASK", 0)
    await d.run_trigger()
    await d.end(words=range(32))


@case(("BPT.TRAP 0x1", "EXIT"), (*COUNT, "BPT.DRAIN", ".raw 0x0", "RTT.TERMINATE"), ends="error")
async def an_error_in_the_trap_pauses(d: Debugger) -> None:
    await d.lock_down()
    await d.see_events("ERROR_IN_TRAP", "BPT_PAUSE", reasons=[1])
    await d.see_error(WarpError.ILLEGAL_INSTR_ENCODING, 0, d.handler + address(len(COUNT) + 1))
    d.expect("entries", d.log(0)[0], 1)
    await d.run_trigger()
    await d.end()


@case(("BPT.TRAP 0x1", "EXIT"), ("JMP 0x100000",), ends="error")
async def behind_what_memory_does_not_have_is_the_next_address(d: Debugger) -> None:
    # Three instructions of a group, and the first one of the next group.
    for place in (0x10_0008, 0x10_0010, 0x10_0018, 0x10_0028):
        await d.lock_down()
        await d.see_error(WarpError.MMU_FAULT, 0, place)
        await d.clear()
        await d.run_trigger()
    await d.lock_down()


@case(
    ("BPT.TRAP 0x1", "EXIT"),
    (
        *COUNT,
        "SETCRSPTR RZ",
        "STG.E [R18+0x4], R20",
        "RTT",
        "STG.E [R18+0x8], R20",
        "RTT.TERMINATE",
    ),
    crs=0,
)
async def behind_an_error_that_leaves_a_trace_a_handler_goes_on(d: Debugger) -> None:
    # The stack is empty, so there is no frame; an RTT reports the next address.
    for place in (len(COUNT), len(COUNT) + 3):
        await d.lock_down()
        await d.see_events("ERROR_IN_TRAP", "BPT_PAUSE", reasons=[1] if place == len(COUNT) else [])
        await d.see_error(WarpError.STACK_ERROR, 0, d.handler + address(place))
        d.expect("what is behind it", d.log(0)[1:3], [0 if place == len(COUNT) else 1, 0])
        await d.clear()
        await d.run_trigger()
    await d.end()
    d.expect("what is behind both", d.log(0)[:3], [1, 1, 1])


@case(
    ("BPT.TRAP 0x1", "EXIT"),
    (*COUNT, "CCTLL.CRS.WBALL", "SETCRSPTR RZ", "RET", "STG.E [R18+0x4], R20", "RTT"),
    report_mask=ALL_REPORTED,
    ends="error",
)
async def a_warp_that_ends_with_its_error_in_the_trap_does_not_go_on(d: Debugger) -> None:
    await d.end()
    await d.see_events("ERROR_IN_TRAP", "BPT_PAUSE", reasons=[1])
    await d.see_error(WarpError.RET_EMPTY_STACK_ERROR, 0, d.handler + address(len(COUNT) + 2))
    d.expect("log", d.log(0)[:2], [1, 0])


@case(("BPT.TRAP 0x1", "EXIT"), (*COUNT, "BPT.DRAIN", "BPT.TRAP 0x2", "RTT"))
async def a_trap_in_the_trap_pauses(d: Debugger) -> None:
    await d.lock_down()
    await d.see_events("ERROR_IN_TRAP", "BPT_PAUSE", reasons=[1, 2])
    await d.see("HWW_WARP_ESR", 0)
    await d.run_trigger()
    await d.end(entries=[1])


# Without a handler


@case((*ADDRESS, "SSY met", "BPT.TRAP 0x2", "SYNC", "met:", *_STORE), warps=2)
async def without_a_handler_all_warps_pause(d: Debugger) -> None:
    await d.lock_down()
    await d.see("BPT_PAUSE_MASK", 0b11)
    await d.see_events("BPT_PAUSE", reasons=[2])
    while not d.host.ended and not d.host.failed:
        await d.run_trigger()
        await d.run(400)
    d.expect("words", d.words(0, 64), list(range(64)))


@case((*ADDRESS, *BUSY, *_STORE), warps=2)
async def without_a_handler_the_host_stops_and_goes_on(d: Debugger) -> None:
    await d.hold(after=1)
    await d.run_trigger()
    await d.run(50)
    await d.see_state(trapping=1, locked=1)  # the stop trigger holds them
    await d.see("BPT_PAUSE_MASK", 0)
    await d.control(STOP_TRIGGER=0)
    await d.end(words=range(64))


# Stacks


@case((*ADDRESS, *["SSY met"] * 12, "BPT.TRAP 0x1", "met:", *_STORE), (*COUNT, "RTT"), crs=0)
async def without_memory_twelve_tokens_leave_room_for_the_frame(d: Debugger) -> None:
    await d.end(words=range(32), entries=[1])


@case(
    (*ADDRESS, *["SSY met"] * 13, "BPT.TRAP 0x1", "met:", *_STORE),
    (*COUNT, "RTT"),
    crs=0,
    ends="error",
)
async def without_room_for_its_frame_a_warp_is_paused(d: Debugger) -> None:
    await d.lock_down()
    await d.see_events("PHYSICAL_STACK_OVERFLOW", "ERROR_IN_TRAP", "BPT_PAUSE", reasons=[1])
    await d.see_error(WarpError.STACK_OVERFLOW, 0, address(18))
    await d.run_trigger()
    await d.end(words=range(32), entries=[0])


@case(
    (*["SSY met"] * 16, "BPT.TRAP 0x1", "met:", "EXIT"),
    (
        *LOG,
        *["SSY away"] * 12,
        "GETCRSPTR R20",
        "STG.E [R18], R20",
        "BPT.DRAIN",
        "away:",
        "SSY away",
        "RTT",
    ),
    crs=512,
    ends="error",
)
async def sixteen_tokens_are_kept_for_the_handler(d: Debugger) -> None:
    await d.lock_down()
    d.expect("depth", d.log(0)[0] & 0x1FFFF, 32)
    await d.see_events("PHYSICAL_STACK_OVERFLOW", "ERROR_IN_TRAP", "BPT_PAUSE", reasons=[1])
    await d.see_error(WarpError.STACK_OVERFLOW, 0, d.handler + address(len(LOG) + 15))


# Single step


@case(
    (
        *ADDRESS,
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "SSY met",
        "@P0 BRA less",
        "MOV32I R4, 0x1",
        "SYNC",
        "less:",
        "MOV32I R4, 0x2",
        "SYNC",
        "met:",
        "IADD R4, R4, R0",
        "STG.E [R2], R4",
        "EXIT",
    ),
    (*_STATUS, "BPT.DRAIN", "BPT.PAUSE", "RTT"),
)
async def single_steps_through_divergence(d: Debugger) -> None:
    await d.begin()
    await d.stop()
    await d.control(SINGLE_STEP_MODE=1)
    await d.lock_down()
    await d.control(STOP_TRIGGER=0)
    issued, steps = await d.host.read("instructions"), 0
    instructions = len(_STATUS) + 4  # the instructions of the handler and the stepped one
    while not d.host.ended and not d.host.failed:
        await d.clear()
        await d.run_trigger()
        await d.host.until(lambda host: host.locked_down or host.ended, 5000)
        if d.host.ended:
            break
        steps += 1
        await d.see_events("SINGLE_STEP_COMPLETE", "BPT_PAUSE")
        d.expect("SR66, SR64", d.log(0)[1:3], [1 << 8, 1 << 8])
        d.expect("instructions", (await d.host.read("instructions") - issued) / steps, instructions)
    d.expect("words", d.words(0, 32), [thread + (2 if thread < 8 else 1) for thread in range(32)])


@case((*BUSY, *ADDRESS, *_STORE), (*COUNT, "BPT.DRAIN", "RTT"))
async def a_stop_that_is_pending_comes_before_the_step(d: Debugger) -> None:
    await d.hold(after=1)
    issued = await d.host.read("instructions")
    await d.control(STOP_TRIGGER=0, SINGLE_STEP_MODE=1)
    await d.control(STOP_TRIGGER=1, SINGLE_STEP_MODE=0)
    while d.log(0)[0] < 2:
        await d.run(1)
    await d.lock_down()
    d.expect(
        "instructions: of the handler alone",
        await d.host.read("instructions") - issued,
        len(COUNT) + 2,
    )
    await d.see_events()
    await d.go()
    await d.end(words=range(32))


@case(
    (
        *ADDRESS,
        "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA other",
        *["NOP"] * 4,
        "other:",
        "BAR.SYNC 0x0",
        "STG.E [R2], R0",
        "BAR.SYNC 0x0",
        "EXIT",
    ),
    ("BPT.PAUSE", "RTT"),
    warps=2,
)
async def single_steps_at_a_barrier(d: Debugger) -> None:
    await d.begin()
    await d.stop()
    await d.control(SINGLE_STEP_MODE=1)
    await d.lock_down()
    await d.control(STOP_TRIGGER=0)
    steps = 0
    while not d.host.ended and not d.host.failed and steps < 60:
        await d.run_trigger()
        await d.host.until(lambda host: host.locked_down or host.ended, 5000)
        steps += 1
    d.expect("the grid is over", d.host.ended or d.host.failed, True)
    d.expect("words", d.words(0, 64), list(range(64)))


@case(
    (
        *ADDRESS,
        "ISETP.LT.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA first",
        *BUSY,
        "EXIT",
        "first:",
        *["NOP"] * 400,
        *_STORE,
    ),
    (*COUNT, "BPT.DRAIN", "RTT"),
    warps=2,
)
async def every_warp_steps(d: Debugger) -> None:
    await d.begin(30)
    await d.stop()
    await d.control(SINGLE_STEP_MODE=1)
    await d.lock_down()
    before = [d.log(slot)[0] for slot in range(2)]
    await d.control(STOP_TRIGGER=0)
    await d.run(5000)
    await d.stop()
    await d.control(SINGLE_STEP_MODE=0)
    await d.lock_down()
    entries = [d.log(slot)[0] - before[slot] for slot in range(2)]
    d.expect("entries of both", entries[0], entries[1])
    d.expect("several steps", entries[0] > 5, True)
    await d.go()
    await d.end(words=range(32))


# Lock-down, special registers


@case(("EXIT",), (*COUNT, "RTT"))
async def an_empty_machine_can_be_held(d: Debugger) -> None:
    await d.end()
    await d.see_state(trapping=0, locked=0)
    await d.stop()
    await d.run(10)
    await d.see_state(trapping=1, locked=1)
    await d.control(STOP_TRIGGER=0)
    await d.run(10)
    await d.see_state(trapping=0, locked=0)


@case((*BUSY, "EXIT"), (*_STATUS, "BPT.DRAIN", "RTT"))
async def the_stop_trigger_is_in_sr64_alone(d: Debugger) -> None:
    await d.hold(after=1)
    d.expect("entries, SR66, SR64", d.log(0)[:3], [1, 0, 1 << 9])
    await d.go()
    await d.end()


@case(
    (
        *ADDRESS,
        "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA other",
        "BPT.TRAP 0x3",
        "other:",
        *BUSY,
        *_STORE,
    ),
    (*_STATUS, "RTT"),
    warps=2,
)
async def sr64_tells_of_all_warps_and_sr66_of_one(d: Debugger) -> None:
    await d.end()
    d.expect("log", [d.log(slot)[:3] for slot in range(2)], [[1, 1 << 3, 1 << 3], [1, 0, 1 << 3]])


@case(
    ("BPT.TRAP 0x5", "EXIT"),
    (
        *LOG,
        "S2R R20, SR_WARPERRORSTATUSCLEAR",
        "S2R R21, SR_WARPERRORSTATUS",
        "S2R R22, SR_GLOBALERRORSTATUS",
        "STG.E [R18], R20",
        "STG.E [R18+0x4], R21",
        "STG.E [R18+0x8], R22",
        "RTT",
    ),
)
async def sr67_reads_and_clears(d: Debugger) -> None:
    await d.end()
    d.expect("SR67, SR66, SR64", d.log(0)[:3], [1 << 5, 0, 0])
    await d.see_events(reasons=[5])  # SR67 does not clear the host's register


@case((*BUSY, *ADDRESS, *_STORE), ("BPT.PAUSE", *COUNT, "RTT"), warps=2)
async def the_watchdog_does_not_count_while_locked_down(d: Debugger) -> None:
    await d.begin()
    await d.write("SM_TIMEOUT_INTERVAL", 11)
    await d.hold()
    await d.run(9000)
    await d.see_events("BPT_PAUSE")
    await d.go()
    await d.end()
    await d.see_events("BPT_PAUSE")
