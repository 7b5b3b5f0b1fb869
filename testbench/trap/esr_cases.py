"""Cases of the error status: what the registers keep, what clears them, and when they interrupt the
host.
"""

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError
from testbench.trap.case import ADDRESS, BUSY, COUNT, Cases, Debugger
from testbench.words import address

REGISTERS = Cases()
case = REGISTERS.case
_TWO_ERRORS = (
    "S2R R0, SR_TID.X",
    "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
    "@P0 BRA second",
    "MOV32I R4, 0x2",
    "LDS R5, [R4]",
    "MOV R6, R5",
    "EXIT",
    "second:",
    *BUSY,
    "BPT.DRAIN",
    ".raw 0x0",
    "EXIT",
)
"""A kernel in which the first warp has MISALIGNED_ADDR, and the second one, much later,
ILLEGAL_INSTR_ENCODING.
"""
_FIRST_AT, _SECOND_AT = address(4), address(7 + len(BUSY))
_LATER = (*BUSY, "LDS R5, [0x2]", "MOV R6, R5", "EXIT")
_LATER_AT = address(len(BUSY) - 1)


@case(("EXIT",))
async def values_after_reset(d: Debugger) -> None:
    await d.end()
    for name, register in SM_REGISTERS.items():
        await d.see(name, register.reset)
    d.expect("interrupt", d.host.interrupted, False)


@case(_TWO_ERRORS, ("RTT.TERMINATE",), warps=2, ends="error")
async def the_handler_ends_both(d: Debugger) -> None:
    # Both warps trap for the first error, so the second one never occurs.
    await d.end()
    await d.see_error(WarpError.MISALIGNED_ADDR, 0, _FIRST_AT)
    await d.see_events()


@case(
    _TWO_ERRORS, (*COUNT, "@!P5 BRA leave", "RTT.TERMINATE", "leave:", "RTT"), warps=2, ends="error"
)
async def the_first_error_is_kept(d: Debugger) -> None:
    await d.interrupt()
    await d.see_events()
    # The handler is disabled while warp 1 is in it. Between a warp's error and its entry the
    # hardware may already have selected the handler.
    while d.log(1)[0] < 2 and not d.host.failed:
        await d.run(4)
    await d.see_error(WarpError.MISALIGNED_ADDR, 0, _FIRST_AT)
    await d.see_events("MULTIPLE_WARP_ERRORS")
    await d.write("TRAP_CONTROL", 0)
    await d.lock_down()


@case(
    _TWO_ERRORS,
    (*COUNT, "@!P5 BRA leave", "RTT.TERMINATE", "leave:", "BPT.DRAIN", "BPT.PAUSE", "RTT"),
    warps=2,
    ends="error",
)
async def an_error_behind_a_cleared_one_is_a_first_one(d: Debugger) -> None:
    await d.lock_down()
    await d.see_error(WarpError.MISALIGNED_ADDR, 0, _FIRST_AT)
    await d.write("HWW_WARP_ESR", 0)
    await d.see("HWW_WARP_ESR", 0)
    d.expect("interrupt", d.host.interrupted, True)  # BPT_PAUSE is still set
    await d.write("HWW_GLOBAL_ESR", 1 << GlobalError.BPT_PAUSE.value)
    d.expect("interrupt", d.host.interrupted, False)
    await d.run_trigger()
    await d.interrupt()
    await d.lock_down()
    await d.see_error(WarpError.ILLEGAL_INSTR_ENCODING, 1, _SECOND_AT)
    await d.see_events("BPT_PAUSE")


@case((*ADDRESS, "BPT.INT", "BPT.TRAP 0x2", "EXIT"), ("BPT.PAUSE", "RTT"))
async def ones_that_are_written_clear(d: Debugger) -> None:
    await d.lock_down()
    await d.see_events("BPT_INT", "BPT_PAUSE", reasons=[2])
    await d.write("HWW_GLOBAL_ESR", 0)
    await d.see_events("BPT_INT", "BPT_PAUSE", reasons=[2])
    await d.write("HWW_GLOBAL_ESR", 1 << GlobalError.BPT_PAUSE.value)
    await d.see_events("BPT_INT", reasons=[2])
    await d.write("HWW_GLOBAL_ESR", ~(1 << GlobalError.BPT_INT.value) & 0xFFFF_FFFF)
    await d.see_events("BPT_INT")
    await d.write("HWW_GLOBAL_ESR", await d.host.read("HWW_GLOBAL_ESR"))
    await d.see_events()
    await d.run_trigger()
    await d.end()


@case(("LDS R5, [0x2]", "MOV R6, R5", "EXIT"), ends="error")
async def drivers_clear_in_either_order(d: Debugger) -> None:
    for order in ((0, 1), (1, 0)):
        await d.lock_down()
        await d.see_error(WarpError.MISALIGNED_ADDR, 0, address(0))
        await d.see_events("BPT_PAUSE")
        for which in order:
            await d.write(
                "HWW_WARP_ESR" if which else "HWW_GLOBAL_ESR",
                0 if which else await d.host.read("HWW_GLOBAL_ESR"),
            )
        await d.see("HWW_WARP_ESR", 0)
        await d.see_events()
        d.expect("interrupt", d.host.interrupted, False)
        await d.run_trigger()  # the instruction fails again
        await d.interrupt()
    await d.lock_down()


@case(("LDS R5, [0x2]", "MOV R6, R5", "EXIT"), ends="error")
async def every_write_clears_the_warp_error(d: Debugger) -> None:
    await d.lock_down()
    await d.write("HWW_WARP_ESR", 0xFFFF_FFFF)
    await d.see("HWW_WARP_ESR", 0)
    await d.run_trigger()
    await d.lock_down()


@case(_LATER, ends="error")
async def a_warp_error_interrupts_whatever_the_global_mask_says(d: Debugger) -> None:
    await d.write("HWW_GLOBAL_ESR_REPORT_MASK", 0)
    await d.lock_down()
    d.expect("interrupt", d.host.interrupted, True)
    await d.write("HWW_GLOBAL_ESR", 1 << GlobalError.BPT_PAUSE.value)
    await d.see_events()
    d.expect("interrupt", d.host.interrupted, True)
    await d.write("HWW_WARP_ESR", 0)
    d.expect("interrupt", d.host.interrupted, False)
    await d.run_trigger()
    await d.lock_down()


@case(_LATER, ends="error")
async def the_address_of_an_error_stays_when_the_error_is_cleared(d: Debugger) -> None:
    await d.lock_down()
    await d.write("HWW_WARP_ESR", 0)
    await d.see("HWW_WARP_ESR_PC", _LATER_AT)
    await d.write("HWW_WARP_ESR_PC", 0)
    await d.see("HWW_WARP_ESR_PC", _LATER_AT)
    await d.run_trigger()
    await d.lock_down()


@case(("BPT.INT", *BUSY, "EXIT"))
async def the_global_mask_decides_who_interrupts(d: Debugger) -> None:
    await d.write("HWW_GLOBAL_ESR_REPORT_MASK", ~(1 << GlobalError.BPT_INT.value) & 0xFFFF_FFFF)
    await d.begin(20)
    await d.see_events("BPT_INT")
    d.expect("interrupt", d.host.interrupted, False)
    await d.write("HWW_GLOBAL_ESR_REPORT_MASK", 1 << GlobalError.BPT_INT.value)
    await d.run(1)
    d.expect("interrupt", d.host.interrupted, True)
    await d.end()


@case(_LATER)
async def the_report_mask_may_change_while_a_grid_runs(d: Debugger) -> None:
    await d.begin(20)
    await d.write("HWW_WARP_ESR_REPORT_MASK", ~(1 << WarpError.MISALIGNED_ADDR.value) & 0xFFFF_FFFF)
    await d.end()
    await d.see("HWW_WARP_ESR", 0)
    await d.see_events()
    d.expect("interrupt", d.host.interrupted, False)


@case(("BPT.TRAP 0x3", "EXIT"), ("RTT",))
async def of_a_trap_the_warp_and_its_next_address_are_kept(d: Debugger) -> None:
    await d.end()
    await d.see("HWW_WARP_ESR", 0)
    await d.see("HWW_WARP_ESR_PC", address(1))
    await d.see_events(reasons=[3])


@case(
    (*["SSY again"] * 3, "again:", "SSY again", "BRA again"),
    (*COUNT, "RTT.TERMINATE"),
    ends="error",
)
async def an_overflow_of_the_stack_is_in_both_registers(d: Debugger) -> None:
    await d.end()
    await d.see_error(WarpError.STACK_OVERFLOW, 0, address(3))
    await d.see_events("PHYSICAL_STACK_OVERFLOW")
