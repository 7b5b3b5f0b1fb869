"""Cases of BPT: traps and their reasons, pauses and wake-ups, interrupts, drains."""

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.isa.registers import GlobalError
from rtl.isa.tokens import TokenKind
from testbench.trap.case import ADDRESS, BUSY, COUNT, DELAY, LOG, PATIENCE, Cases, Debugger
from testbench.words import address, encode, place

BREAKPOINTS = Cases()
case = BREAKPOINTS.case
QUIET = f".raw {encode('BPT', mode=BreakpointMode.PAUSE_QUIET.value):#x}"
_STORE = ("STG.E [R2], R0", "EXIT")
_TRAP_AND_STORE = (*ADDRESS, "BPT.TRAP 0x1", *_STORE)
_FIRST_TRAPS = (
    *ADDRESS,
    "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
    "@P0 BRA other",
    "BPT.TRAP 0x1",
    "other:",
    *BUSY,
    *_STORE,
)


def _raw(mode: BreakpointMode, reason: int = 0) -> str:
    """The word of a BPT that the assembler refuses."""
    return f".raw {encode('BPT', mode=mode.value, reason=reason):#x}"


# BPT.TRAP


@case(
    (*ADDRESS, "STG.E [R2], R0", "BPT.TRAP 0x2", "MOV32I R0, 0x7", "STG.E [R2+0x80], R0", "EXIT"),
    (*LOG, "STG.E [R18], R0", "BPT.DRAIN", "BPT.PAUSE", "RTT"),
)
async def trap_is_precise(d: Debugger) -> None:
    await d.lock_down()
    # thread 31 stored last, so the trap came after the store
    d.expect("R0 in the handler", d.log(0)[0], 31)
    d.expect("before and behind it", [d.words(0, 32), d.words(32, 32)], [list(range(32)), [0] * 32])
    await d.see("HWW_WARP_ESR_PC", place(6))
    await d.see_events("BPT_PAUSE", reasons=[2])
    await d.run_trigger()
    await d.end()
    d.expect("words", d.words(32, 32), [7] * 32)


@case(
    ("SSY met", "NOP", "NOP", "BPT.TRAP 0x1", "SYNC", "met:", "EXIT"),
    ("CCTLL.CRS.WBALL", "BPT.DRAIN", "BPT.PAUSE", "RTT"),
)
async def the_frame_is_on_the_stack(d: Debugger) -> None:
    await d.lock_down()
    base, _ = d.host.memory.regions["local memory"]
    stack = base + 32 * d.launch.local
    tokens = [
        (
            d.host.memory.read_number(stack + at + 8, 1),
            d.host.memory.read_number(stack + at, 4),
            d.host.memory.read_number(stack + at + 4, 4),
        )
        for at in range(0, 8 * 16, 16)
    ]
    kinds = [kind for kind, _, _ in tokens]
    d.expect(
        "kinds of tokens",
        kinds,
        [TokenKind.SYNC.value, 0, 0, 0, TokenKind.TRAP.value, *[TokenKind.MASKS.value] * 3],
    )
    d.expect("what the trap's says", tokens[4][1:], (address(4) | 3, 0xFFFF_FFFF))
    await d.run_trigger()
    await d.end()


@case(
    (
        *ADDRESS,
        "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA other",
        "BPT.TRAP 0x4",
        "EXIT",
        "other:",
        "BPT.TRAP 0x5",
        "EXIT",
    ),
    (*LOG, "S2R R20, SR_WARPERRORSTATUS", "STG.E [R18], R20", "BPT.DRAIN", "BPT.PAUSE", "RTT"),
    warps=2,
    ends="error",
)
async def each_warp_knows_its_reason_and_the_host_all(d: Debugger) -> None:
    reasons = set()
    for _ in range(2):
        await d.lock_down()
        trapped = await d.host.read("BPT_TRAP_MASK")
        for slot, reason in ((0, 4), (1, 5)):
            if trapped >> slot & 1:
                d.expect("SR66", d.log(slot)[0], 1 << reason)
                reasons.add(reason)
        if reasons != {4, 5}:
            await d.run_trigger()
    await d.see_events("BPT_PAUSE", reasons=[4, 5])


@case((*(f"BPT.TRAP {reason:#x}" for reason in range(1, 8)), "EXIT"), (*COUNT, "RTT"))
async def all_seven_reasons(d: Debugger) -> None:
    await d.end(entries=[7])
    await d.see_events(reasons=range(1, 8))


BREAKPOINTS.illegal(
    "reason_0_is_illegal", "NOP", _raw(BreakpointMode.TRAP, 0), error=WarpError.ILLEGAL_INSTR_PARAM
)
BREAKPOINTS.illegal(
    "reasons_above_7_are_illegal",
    "NOP",
    _raw(BreakpointMode.TRAP, 8),
    error=WarpError.ILLEGAL_INSTR_PARAM,
)


@case(("BPT.TRAP 0x1", "EXIT"), (*COUNT, "RTT"))
async def trap_interrupts_the_host(d: Debugger) -> None:
    await d.write("HWW_GLOBAL_ESR_REPORT_MASK", 0)
    await d.interrupt()
    await d.end()
    d.expect("interrupt", d.host.interrupted, True)
    await d.clear()
    d.expect("interrupt", d.host.interrupted, False)


@case(_FIRST_TRAPS, (*COUNT, "RTT"), warps=4)
async def every_live_warp_enters(d: Debugger) -> None:
    await d.end(words=range(128), entries=[1] * 4)


@case(
    (*ADDRESS, "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT", "@P0 EXIT", *BUSY, "BPT.TRAP 0x1", *_STORE),
    (*COUNT, "RTT"),
    warps=2,
)
async def a_warp_that_has_ended_does_not_enter(d: Debugger) -> None:
    await d.end(entries=[1, 0])


@case(
    (
        "S2R R4, SR_CTAID.X",
        "ISETP.NE.U32.AND P0, PT, R4, RZ, PT",
        "@P0 EXIT",
        "BPT.TRAP 0x1",
        "EXIT",
    ),
    ("BPT.PAUSE", "RTT"),
    warps=8,
    grid=3,
)
async def no_cta_starts_in_a_trap(d: Debugger) -> None:
    await d.lock_down()
    await d.run(500)
    started = await d.host.read("ctas")
    d.expect("CTAs", started, 1)
    while not d.host.ended and not d.host.failed:
        await d.run_trigger()
        await d.run(500)
    d.expect("CTAs", await d.host.read("ctas"), 3)


# Undefined modes

BREAKPOINTS.illegal("bpt_cal_is_illegal", _raw(BreakpointMode.CAL))
BREAKPOINTS.illegal("bpt_drain_illegal_is_illegal", _raw(BreakpointMode.DRAIN_ILLEGAL))
BREAKPOINTS.illegal("bpt_mode_7_is_illegal", f".raw {encode('BPT', mode=7):#x}")
BREAKPOINTS.illegal(
    "rtt_preempted_is_illegal", f".raw {encode('RTT', mode=ReturnFromTrapMode.PREEMPTED.value):#x}"
)


# BPT.PAUSE

BREAKPOINTS.illegal("pause_outside_is_illegal", "BPT.PAUSE")
BREAKPOINTS.illegal("pause_quiet_outside_is_illegal", QUIET)


@case((*BUSY, "EXIT"), ("BPT.PAUSE", *COUNT, "RTT"))
async def pause_interrupts_and_holds_the_warp(d: Debugger) -> None:
    await d.begin()
    d.expect("interrupt", d.host.interrupted, False)
    await d.stop()
    await d.interrupt()
    await d.see_events("BPT_PAUSE")
    await d.lock_down()
    await d.run(2000)
    d.expect("log", d.log(0)[0], 0)
    await d.see("BPT_PAUSE_MASK", 1)
    await d.clear()
    d.expect("interrupt", d.host.interrupted, False)
    await d.see_state(trapping=1, locked=1)
    await d.go()
    await d.end(entries=[1])


@case((*BUSY, "EXIT"), ("BPT.PAUSE", "RTT"))
async def pause_interrupts_whatever_the_mask_says(d: Debugger) -> None:
    await d.begin()
    await d.write("HWW_GLOBAL_ESR_REPORT_MASK", 0)
    d.expect("interrupt", d.host.interrupted, False)
    await d.stop()
    await d.interrupt()
    await d.see_events("BPT_PAUSE")
    await d.write("HWW_GLOBAL_ESR", 1 << GlobalError.BPT_PAUSE.value)
    d.expect("interrupt", d.host.interrupted, False)
    await d.lock_down()
    await d.go()
    await d.end()


@case(
    (
        *ADDRESS,
        "ISETP.LT.U32.AND P0, PT, R0, 0x60, PT",
        "@P0 BRA other",
        "BPT.TRAP 0x1",
        "other:",
        "BAR.SYNC 0x0",
        *_STORE,
    ),
    (
        *COUNT,
        "SHR.U32 R21, R16, 0x1",
        "IADD32I R21, R21, 0x1",
        "delay:",
        "IADD32I R21, R21, -0x1",
        "ISETP.NE.U32.AND P4, PT, R21, RZ, PT",
        "@P4 BRA delay",
        "BPT.PAUSE",
        "RTT",
    ),
    warps=4,
)
async def warps_are_paused_one_by_one(d: Debugger) -> None:
    seen = []
    while not d.host.locked_down and not d.host.failed:
        paused = await d.host.read("BPT_PAUSE_MASK")
        if paused not in seen:
            seen.append(paused)
            if paused not in (0, 0b1111):
                await d.see_state(trapping=1, locked=0)
        await d.run(20)
    d.expect("who is paused", [paused for paused in seen if paused], [0b1, 0b11, 0b111])
    await d.see("BPT_PAUSE_MASK", 0b1111)
    await d.run_trigger()
    await d.end(entries=[1] * 4)


@case(_FIRST_TRAPS, ("BPT.PAUSE", *COUNT, "RTT"), warps=4)
async def run_trigger_wakes_all(d: Debugger) -> None:
    await d.lock_down()
    await d.see("BPT_PAUSE_MASK", 0b1111)
    await d.run_trigger()
    await d.see("BPT_PAUSE_MASK", 0)
    await d.see("DBGR_CONTROL0", 0x1C02)  # RUN_TRIGGER reads 0
    await d.end(words=range(128))


@case(_FIRST_TRAPS, ("BPT.PAUSE", *COUNT, "RTT"), warps=4)
async def one_write_stops_and_wakes(d: Debugger) -> None:
    await d.lock_down()
    await d.see("BPT_PAUSE_MASK", 0b1111)
    await d.control(STOP_TRIGGER=1, RUN_TRIGGER=1)
    await d.run(3)
    await d.see("BPT_PAUSE_MASK", 0)
    await d.lock_down()  # waiting at RTT because of the stop trigger
    await d.see("BPT_PAUSE_MASK", 0)
    d.expect("entries", [d.log(slot)[0] for slot in range(4)], [1] * 4)
    await d.control(STOP_TRIGGER=0)
    await d.end(words=range(128))


@case(_FIRST_TRAPS, ("BPT.PAUSE", *COUNT, "BPT.PAUSE", "RTT"), warps=4)
async def clearing_its_bit_wakes_a_warp(d: Debugger) -> None:
    await d.lock_down()
    for slots in (0b0100, 0b1001, 0b0010):
        before = [d.log(slot)[0] for slot in range(4)]
        await d.wake(slots)
        await d.run(5)
        await d.see("BPT_PAUSE_MASK", ~slots & 0b1111)
        await d.lock_down()
        d.expect(
            "who has gone on",
            [d.log(slot)[0] - before[slot] for slot in range(4)],
            [slots >> slot & 1 for slot in range(4)],
        )
    await d.run_trigger()
    await d.end(words=range(128))


@case(_TRAP_AND_STORE, ("BPT.PAUSE", *COUNT, *DELAY, "RTT"), warps=2)
async def waking_who_is_not_paused_does_nothing(d: Debugger) -> None:
    await d.lock_down()
    await d.wake(0b01)
    await d.run(100)
    await d.wake(0b01)
    await d.see("BPT_PAUSE_MASK", 0b10)
    while not d.host.ended and not d.host.failed:
        await d.run(500)
        await d.run_trigger()
    d.expect("words", d.words(0, 64), list(range(64)))


@case((*BUSY, *ADDRESS, *_STORE), (*COUNT, "@P5 BRA leave", "BPT.PAUSE", "leave:", "RTT"), warps=2)
async def waking_outside_a_trap_is_ignored(d: Debugger) -> None:
    await d.hold(after=40)
    await d.control(STOP_TRIGGER=0)  # the first one leaves the trap, the other stays paused
    await d.leave()
    await d.see("BPT_PAUSE_MASK", 0b10)
    await d.run_trigger()
    await d.wake(0b11)
    await d.run(100)
    await d.see("BPT_PAUSE_MASK", 0b10)
    await d.hold()
    await d.run_trigger()
    await d.control(STOP_TRIGGER=0)
    await d.end(words=range(64), entries=[2, 1])


@case(_TRAP_AND_STORE, (*LOG, "STG.E [R18], R18", "BPT.DRAIN", "BPT.PAUSE", "RTT"))
async def drain_before_pause_completes_stores(d: Debugger) -> None:
    await d.lock_down()
    base, _ = d.launch.buffers["out"]
    d.expect("log", d.log(0)[0], (base + 4 * 128) & 0xFFFF_FFFF)
    await d.run_trigger()
    await d.end()


# BPT.PAUSE_QUIET


@case((*BUSY, *ADDRESS, *_STORE), (*COUNT, QUIET, "RTT"), warps=2)
async def quiet_pauses_set_nothing_and_end_the_trap(d: Debugger) -> None:
    await d.hold(after=1)
    await d.see_events()
    d.expect("interrupt", d.host.interrupted, False)
    await d.control(STOP_TRIGGER=0)
    await d.leave()
    await d.see("BPT_PAUSE_MASK", 0b11)
    await d.run_trigger()
    await d.run(500)
    # quietly paused: the host can wake them only in a later trap
    await d.see("BPT_PAUSE_MASK", 0b11)
    await d.see_events()
    await d.hold()
    # before the stop trigger is cleared: without it the trap would end at once
    await d.run_trigger()
    await d.control(STOP_TRIGGER=0)
    await d.end(words=range(64), entries=[1, 1])


@case(
    (
        "S2R R4, SR_CTAID.X",
        "ISETP.NE.U32.AND P0, PT, R4, RZ, PT",
        "@P0 EXIT",
        "BPT.TRAP 0x1",
        "EXIT",
    ),
    (QUIET, "RTT"),
    warps=4,
    grid=3,
    ends="timeout",
)
async def quiet_pauses_let_ctas_start(d: Debugger) -> None:
    await d.run(PATIENCE)
    d.expect("CTAs", await d.host.read("ctas"), 3)
    await d.see("WARP_VALID_MASK", 0b1111)
    await d.see("BPT_PAUSE_MASK", 0b1111)
    await d.see_state(trapping=0, locked=0)


@case(
    (*BUSY, *ADDRESS, *_STORE),
    (*LOG, "@P5 BRA loud", QUIET, "RTT", "loud:", "BPT.PAUSE", "RTT"),
    warps=3,
)
async def one_loud_pause_keeps_the_trap(d: Debugger) -> None:
    await d.hold(after=1)
    await d.control(STOP_TRIGGER=0)
    await d.run(1000)
    await d.see_state(trapping=1, locked=1)
    await d.see_events("BPT_PAUSE")
    await d.run_trigger()
    await d.end(words=range(96))


@case(
    (*BUSY, *ADDRESS, *_STORE),
    (*LOG, "@P5 BRA leave", QUIET, "leave:", "RTT"),
    warps=3,
    ends="timeout",
)
async def rtt_does_not_wait_for_quiet_pauses(d: Debugger) -> None:
    await d.hold(after=1)
    await d.control(STOP_TRIGGER=0)
    while await d.host.read("WARP_VALID_MASK") != 0b110:
        await d.run(500)
    await d.run(100)  # its stores may be in flight
    await d.see_state(trapping=0, locked=0)
    d.expect("words", d.words(0, 96), [*range(32), *[0] * 64])


# BPT.INT


@case(
    (
        *ADDRESS,
        "BPT.INT",
        "S2R R4, SR_GLOBALERRORSTATUS",
        "S2R R5, SR_WARPERRORSTATUS",
        "STG.E [R2], R4",
        "STG.E [R2+0x80], R5",
        *BUSY,
        "EXIT",
    ),
    (*COUNT, "RTT"),
)
async def int_interrupts_and_does_not_trap(d: Debugger) -> None:
    await d.interrupt()
    await d.see_events("BPT_INT")
    await d.see_state(trapping=0, locked=0)
    await d.write("HWW_GLOBAL_ESR", 0)
    await d.see_events("BPT_INT")
    await d.write("HWW_GLOBAL_ESR", 1 << GlobalError.BPT_INT.value)
    await d.see_events()
    d.expect("interrupt", d.host.interrupted, False)
    await d.end()
    d.expect("what programs read", d.words(0, 64), [0] * 64)
    d.expect("entries", d.log(0)[0], 0)


@case(
    ("BPT.TRAP 0x1", "EXIT"),
    (*COUNT, "BPT.INT", "S2R R20, SR_GLOBALERRORSTATUS", "STG.E [R18+0x4], R20", "RTT"),
)
async def int_in_the_handler(d: Debugger) -> None:
    await d.end()
    await d.see_events("BPT_INT", reasons=[1])
    d.expect("entries, SR64", d.log(0)[:2], [1, 1 << 1])


# BPT.DRAIN


@case(
    (
        *ADDRESS,
        "MOV R8, RZ",
        "MOV R9, RZ",
        "LDG.E R10, [R8]",
        "BPT.DRAIN",
        "MOV32I R0, 0x7",
        "STG.E [R2], R0",
        "EXIT",
    ),
    (*LOG, "STG.E [R18], R0", "RTT.TERMINATE"),
    ends="error",
)
async def drain_takes_errors_before_it(d: Debugger) -> None:
    await d.end()
    await d.see_error(WarpError.MMU_FAULT, 0, address(6))
    d.expect("R0 in the handler", d.log(0)[0], 31)
    d.expect("words", d.words(0, 32), [0] * 32)
