"""Traps of the warp model, one rule a test."""

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError, trap_bit
from rtl.isa.special_registers import SpecialRegister
from sim.launch import Launch
from sim.model.warp.host import ALL_SLOTS, ModelHost
from sim.model.warp.model import ErrorStatus, Result, WarpModel
from testbench.handmade import launch, retire, vector, warp_of
from testbench.model.trap_machine import events, handler_pc, in_handler, on, records, status0
from testbench.trap.programs import RETURN, kernel, with_handler
from testbench.words import address, encode, place

QUIET = f".raw {encode('BPT', mode=6):#x}"
STORE = (
    "S2R R0, SR_TID.X",
    "MOV R2, c[0x0][out]",
    "MOV R3, c[0x0][out+4]",
    "ISCADD R2.CC, R0, R2, 0x2",
    "IADD.X R3, RZ, R3",
    "STG.E [R2], R0",
)
"""Stores each thread's number in its word."""
P0_SECOND = ("S2R R0, SR_VIRTID", "LOP32I.AND R0, R0, 0x100", "ISETP.NE.U32.AND P0, PT, R0, RZ, PT")
"""P0 is set in the second warp."""


# Entry and exit


def test_a_trap_comes_back_behind_its_breakpoint():
    machine, host = on(with_handler(kernel("NOP", "BPT.TRAP 0x3", "EXIT"), "NOP", *RETURN))
    assert [record.pc for record in records(machine)] == [
        address(0),
        address(1),
        in_handler(machine, 0),
        in_handler(machine, 1),
        address(2),
    ]
    assert machine.run() == Result(
        "ok", 5, error_status=ErrorStatus(WarpError.NONE, 0, address(1), trap_reasons=(3,))
    )
    assert host.read("HWW_GLOBAL_ESR") == 1 << trap_bit(3)
    assert status0(host) == (0, 0)


def test_an_error_comes_back_to_the_instruction_that_failed():
    machine, host = on(
        with_handler(kernel("MOV R9, RZ", "MOV R8, RZ", "LDG.E R4, [R8]", "EXIT"), "RTT")
    )
    assert [record.pc for record in records(machine, 7)][2:] == [
        address(2),
        in_handler(machine, 0),
        address(2),
        in_handler(machine, 0),
        address(2),
    ]
    assert host.read("HWW_WARP_ESR_PC") == address(2)
    assert events(host) == {"MULTIPLE_WARP_ERRORS"}
    assert {status.error for status in machine.log.errors} == {WarpError.MMU_FAULT}


def test_all_warps_trap_together_and_leave_together():
    machine, host = on(with_handler(kernel("NOP", "BPT.TRAP 0x1", "EXIT", warps=3), "NOP", "RTT"))
    retire(machine, 0, 1, 0)
    assert [warp.in_trap for warp in machine.live] == [True] * 3
    assert [warp.stack.token(0).pc for warp in machine.live] == [address(2), address(1), address(0)]
    retire(machine, 2, 2, 0, 0)
    with pytest.raises(ValueError, match="warp slot 0 is stopped"):
        machine.retire(0)
    assert status0(host) == (1, 0)
    retire(machine, 1, 1)
    assert ([warp.in_trap for warp in machine.live], status0(host)) == ([False] * 3, (0, 0))
    assert machine.run().status == "ok"


def test_terminate_does_not_wait():
    machine, host = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT", warps=2), "RTT.TERMINATE"))
    retire(machine, 0, 0)
    assert ([warp.slot for warp in machine.live], status0(host)) == ([1], (1, 0))
    machine.retire(1)
    assert (machine.live, status0(host)) == ([], (0, 0))
    assert machine.run().status == "ok"


# Masking


def test_a_masked_trap_pends():
    machine, host = on(with_handler(kernel("IDE", "BPT.TRAP 0x6", "NOP", "IDE.EN", "EXIT"), "RTT"))
    retire(machine, 0, times=3)
    assert (status0(host), host.read("BPT_TRAP_MASK"), host.read("HWW_GLOBAL_ESR")) == (
        (0, 0),
        1,
        1 << trap_bit(6),
    )
    machine.retire(0)
    assert (status0(host), warp_of(machine).stack.token(0).pc) == ((1, 0), address(4))
    machine.retire(0)
    assert host.read("BPT_TRAP_MASK") == 0
    assert machine.run().status == "ok"


@pytest.mark.parametrize("line", ["BPT.TRAP 0x7", ".raw 0x0"])
def test_the_last_reason_and_errors_are_not_masked(line):
    machine, _ = on(with_handler(kernel("IDE", line, "EXIT"), "RTT.TERMINATE"))
    retire(machine, 0, 0)
    assert warp_of(machine).in_trap


def test_a_warp_that_masks_traps_delays_the_others():
    machine, host = on(with_handler(kernel("BPT.TRAP 0x1", "IDE.EN", "EXIT", warps=2), "RTT"))
    warp_of(machine, 1).traps_masked = True
    retire(machine, 0, 0)
    assert ([warp.in_trap for warp in machine.live], status0(host)) == ([True, False], (1, 0))
    machine.retire(1)
    assert not warp_of(machine, 1).in_trap
    machine.retire(1)
    assert [warp.in_trap for warp in machine.live] == [True, True]
    machine.retire(1)
    assert (status0(host), [warp.pc for warp in machine.live]) == ((0, 0), [address(1), address(2)])


# Pauses


def test_a_pause_locks_down_until_the_host_wakes():
    machine, host = on(
        with_handler(kernel("BPT.TRAP 0x1", "EXIT", warps=2), "BPT.PAUSE", "NOP", "RTT")
    )
    assert machine.run() == Result(
        "error", 3, error_status=ErrorStatus(WarpError.NONE, 0, address(0), "", (1,))
    )
    assert (status0(host), host.read("BPT_PAUSE_MASK"), events(host)) == ((1, 1), 3, {"BPT_PAUSE"})
    host.wake(2)
    assert (status0(host), host.read("BPT_PAUSE_MASK")) == ((1, 0), 1)
    assert [record.pc for record in records(machine)] == [
        in_handler(machine, 1),
        in_handler(machine, 2),
        address(0),
        in_handler(machine, 0),
    ]


def test_a_quiet_pause_ends_the_trap_and_parks():
    lines = (QUIET, "NOP", "RTT")
    machine, host = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT"), *lines))
    assert machine.run() == Result("timeout", 2, "every live warp is paused")
    assert (status0(host), host.read("BPT_PAUSE_MASK"), events(host)) == ((0, 0), 1, set())
    host.run_trigger()
    assert host.read("BPT_PAUSE_MASK") == 1
    host.stop()
    assert status0(host) == (1, 1)
    host.run_trigger()
    assert records(machine, 2)[-1].pc == in_handler(machine, 2)
    assert (status0(host), machine.step()) == ((1, 1), None)
    host.resume()
    assert machine.run().status == "ok"


def test_one_loud_pause_among_quiet_ones_keeps_the_trap():
    handler = (*P0_SECOND, "@P0 BRA quiet", "BPT.PAUSE", "RTT", "quiet:", QUIET, "RTT")
    machine, host = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT", warps=2), *handler))
    assert machine.run().status == "error"
    assert (status0(host), host.read("BPT_PAUSE_MASK")) == ((1, 1), 3)
    host.clear_errors()
    host.run_trigger()
    assert status0(host) == (1, 0)


def test_launches_wait_for_the_end_of_a_trap():
    machine, host = on(
        with_handler(kernel("BPT.TRAP 0x1", "EXIT", grid=3), "BPT.PAUSE", "RTT.TERMINATE"), warps=2
    )
    machine.run()
    host.wake(1)
    machine.step()
    assert ([warp is None for warp in machine.warps], status0(host)) == ([True, False], (1, 1))
    host.wake(2)
    machine.step()
    assert (warp_of(machine).cta.index, status0(host)) == ((2, 0, 0), (0, 0))


# Errors in the trap


@pytest.mark.parametrize(
    ("line", "reasons", "error"),
    [
        ("BPT.TRAP 0x2", (1, 2), WarpError.NONE),
        (".raw 0x0", (1,), WarpError.ILLEGAL_INSTR_ENCODING),
    ],
)
def test_what_fails_in_the_trap_pauses(line, reasons, error):
    machine, host = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT"), line, "RTT"))
    result = machine.run()
    assert (result.status, machine.error_status) == ("error", result.error_status)
    assert result.error_status is not None
    assert (result.error_status.error, result.error_status.trap_reasons) == (error, reasons)
    assert (events(host), status0(host)) == ({"ERROR_IN_TRAP", "BPT_PAUSE"}, (1, 1))
    assert warp_of(machine).trap.status == 1 << 1


# Stops and steps by the host


def test_the_stop_trigger():
    machine, host = on(
        with_handler(kernel("NOP", "NOP", "EXIT", warps=2), "S2R R4, SR_GLOBALERRORSTATUS", "RTT")
    )
    machine.retire(0)
    host.stop()
    assert [warp.stack.token(0).pc for warp in machine.live] == [address(1), address(0)]
    assert machine.run() == Result(
        "timeout", 5, "every live warp waits for another one, or is paused"
    )
    assert (status0(host), vector(warp_of(machine), 4)[0]) == ((1, 1), 1 << 9)
    host.resume()
    assert (status0(host), machine.run()) == ((0, 0), Result("ok", 10))


def test_stopping_an_empty_machine():
    machine, host = on(kernel("EXIT"))
    machine.run()
    host.stop()
    assert status0(host) == (1, 1)
    host.resume()
    assert status0(host) == (0, 0)


def test_a_masked_warp_is_not_stopped():
    machine, host = on(with_handler(kernel("IDE", "NOP", "IDE.EN", "EXIT"), "RTT"))
    machine.retire(0)
    host.stop()
    assert [record.pc for record in records(machine)] == [
        address(1),
        address(2),
        in_handler(machine, 0),
    ]


def test_a_single_step_is_one_instruction_of_each_warp():
    machine, host = on(
        kernel(
            "NOP", "BRA there", "NOP", "there:", "SSY end", "SYNC", "NOP", "end:", "EXIT", warps=2
        )
    )
    host.single_step(True)
    host.stop()
    seen = []
    while machine.live:
        seen.append([warp.pc for warp in machine.live])
        host.clear_errors()
        host.resume()
        records(machine)
        assert not machine.live or (events(host), status0(host)) == (
            {"SINGLE_STEP_COMPLETE", "BPT_PAUSE"},
            (1, 1),
        )
        assert all(warp.trap.status == 1 << 8 for warp in machine.live)
    assert seen == [[pc] * 2 for pc in (0, *(place(number) for number in (1, 3, 4, 6)))]


def test_a_pending_trap_comes_before_the_step():
    machine, host = on(with_handler(kernel("NOP", "EXIT", warps=2), "NOP", "RTT"))
    host.single_step(True)
    host.stop()
    records(machine)
    host.resume()
    machine.memory.write_number(machine.launch.program_base + address(0), 8, 0)
    assert machine.retire(1).error is WarpError.ILLEGAL_INSTR_ENCODING
    machine.retire(0)
    assert (warp_of(machine).trap.last_pc, warp_of(machine).trap.status) == (
        in_handler(machine, 0),
        0,
    )


# Barriers


def test_a_warp_that_waits_at_a_barrier_returns_to_it():
    machine, _ = on(with_handler(kernel("BAR.SYNC 0x0", "BPT.TRAP 0x1", "EXIT", warps=2), "RTT"))
    machine.retire(0)
    host = ModelHost(machine)
    host.stop()
    barrier = warp_of(machine).cta.barriers[0]
    assert (warp_of(machine).barrier, barrier.arrived) == (None, 0)
    assert [warp.stack.token(0).pc for warp in machine.live] == [address(0)] * 2
    records(machine)
    host.resume()
    machine.retire(1)
    assert (warp_of(machine, 1).barrier, barrier.arrived) == (0, 1)
    assert machine.run().status == "ok"


def test_a_barrier_of_the_trap():
    machine, _ = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT", warps=2), "BAR.SYNCALL", "RTT"))
    retire(machine, 0, times=2)
    assert warp_of(machine).barrier is not None
    machine.retire(1)
    assert [warp.barrier for warp in machine.live] == [None, None]


@pytest.mark.parametrize("watched", [True, False])
def test_a_barrier_of_the_trap_and_a_return_wait_for_each_other(watched):
    handler = (*P0_SECOND, "@P0 BRA leave", "BAR.SYNCALL", "leave:", "RTT")
    machine, host = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT", warps=2), *handler))
    host.write("SM_TIMEOUT_INTERVAL", 10 * watched)
    assert machine.run() == Result(
        "timeout", 11, "every live warp waits for another one, or is paused"
    )
    assert events(host) == ({"TIMEOUT"} if watched else set())
    assert status0(host) == (1, 0)


def test_a_terminated_warp_leaves_the_barrier_of_the_trap():
    handler = (*P0_SECOND, "@P0 BRA leave", "BAR.SYNCALL", "RTT", "leave:", "RTT.TERMINATE")
    machine, _ = on(with_handler(kernel("BPT.TRAP 0x1", "EXIT", warps=2), *handler))
    assert machine.run().status == "ok"


# Without a handler


def test_without_a_handler_all_are_paused_as_they_are():
    machine, host = on(kernel("SSY end", "BPT.TRAP 0x2", "end:", *STORE, "EXIT", warps=2))
    result = machine.run()
    assert (result.status, [warp.trap.paused for warp in machine.live]) == ("error", [True, True])
    assert [warp.stack.depth for warp in machine.live] == [1, 1]
    assert (host.read("BPT_PAUSE_MASK"), host.read("BPT_TRAP_MASK"), status0(host)) == (
        3,
        1,
        (1, 1),
    )
    host.wake(1)  # it continues alone and ends the trap; the other one waits for the next
    assert (status0(host), host.read("BPT_PAUSE_MASK")) == ((0, 0), 2)
    assert {record.warp for record in records(machine)} == {0}
    host.run_trigger()
    assert machine.run() == Result("timeout", 10, "every live warp is paused")
    host.stop()
    host.resume()
    machine.run()
    host.run_trigger()
    assert machine.run().status == "ok"
    base, _ = machine.launch.buffers["out"]
    assert [machine.memory.read_number(base + 4 * at, 4) for at in range(64)] == list(range(64))


def test_a_handler_can_be_installed_later():
    machine, host = on(with_handler(kernel("BPT.TRAP 0x1", "BPT.TRAP 0x2", "EXIT"), "RTT"))
    handler = machine.launch.trap_handler
    host.install(None)
    machine.run()
    assert (host.read("TRAP_CONTROL"), status0(host)) == (0, (1, 1))
    host.install(handler)
    assert (host.read("TRAP_HANDLER"), host.read("TRAP_CONTROL")) == (handler, 1)
    host.run_trigger()
    assert machine.run().status == "ok"


# Special registers of programs


def special(machine: WarpModel, slot: int, register: SpecialRegister) -> int:
    """Reads a special register at a warp's next instruction."""
    warp = warp_of(machine, slot)
    place = machine.launch.program_base + (warp.pc or address(0))
    place += 8 if place % 32 == 0 else 0
    machine.memory.write_number(place, 8, encode("S2R", Rd=9, special=register))
    machine.retire(slot)
    return vector(warp, 9)[0]


def test_the_error_status_that_a_handler_reads():
    machine, _ = on(
        with_handler(kernel("BPT.TRAP 0x5", ".raw 0x0", "EXIT", warps=2), *["NOP"] * 6, "RTT")
    )
    machine.retire(1)
    read = SpecialRegister
    assert special(machine, 0, read.WARPERRORSTATUS) == 0
    assert special(machine, 0, read.GLOBALERRORSTATUS) == 1 << 5
    for register in (read.WARPERRORSTATUS, read.WARPERRORSTATUSCLEAR):
        assert special(machine, 1, register) == 1 << 5
    assert (
        special(machine, 1, read.WARPERRORSTATUS),
        special(machine, 0, read.GLOBALERRORSTATUS),
    ) == (0, 0)


def test_the_error_code_that_a_handler_reads():
    machine, _ = on(with_handler(kernel(".raw 0x0", "EXIT"), *["NOP"] * 6, "RTT"))
    machine.retire(0)
    code = WarpError.ILLEGAL_INSTR_ENCODING.value
    assert special(machine, 0, SpecialRegister.WARPERRORSTATUS) == code << 16 | 1
    assert special(machine, 0, SpecialRegister.GLOBALERRORSTATUS) == 1


# Registers of the host


def test_registers_keep_what_the_host_writes():
    _, host = on(kernel("EXIT"))
    for register, word in (
        ("HWW_WARP_ESR_REPORT_MASK", 0xFFFF),
        ("HWW_GLOBAL_ESR_REPORT_MASK", 7),
        ("TRAP_HANDLER", 64),
        ("DBGR_CONTROL0", 0x1C0B),
    ):
        host.write(register, word)
        assert host.read(register) == word
    host.write("TRAP_HANDLER", 71)
    assert host.read("TRAP_HANDLER") == 64
    host.run_trigger()
    assert host.read("DBGR_CONTROL0") == 0x1C0B
    assert host.read("WARP_VALID_MASK") == 1
    for name in SM_REGISTERS:
        assert host.read(name) >= 0


def test_what_is_wrong_is_kept_until_the_host_clears_it():
    machine, host = on(kernel(".raw 0x0", "EXIT", warps=2))
    machine.run()
    assert (host.read("HWW_WARP_ESR"), host.read("HWW_WARP_ESR_PC")) == (9, address(0))
    host.write("HWW_WARP_ESR", 0)
    assert host.read("HWW_WARP_ESR") == 0
    host.write("HWW_GLOBAL_ESR", 1 << GlobalError.BPT_PAUSE.value)
    assert events(host) == set()
    host.wake(ALL_SLOTS)
    assert machine.step() is not None
    assert host.read("HWW_WARP_ESR") >> 16 in (0, 1)


# A model that follows another machine


def follower(launch: Launch) -> WarpModel:
    machine = WarpModel(launch, warps=4, follows=True)
    cta = machine.make_cta(0)
    machine.start(cta, range(launch.warps))
    return machine


def test_a_following_model_enters_and_leaves_on_command():
    machine = follower(
        with_handler(kernel("BPT.TRAP 0x1", "NOP", "EXIT", warps=2), "BPT.PAUSE", "RTT")
    )
    machine.retire(0)
    assert not warp_of(machine).in_trap
    record = machine.enter(0)
    assert (record.pc, record.next_pc, record.depth_after, record.pushed[0].pc) == (
        address(1),
        handler_pc(machine),
        4,
        address(1),
    )
    with pytest.raises(ValueError, match="warp slot 0 does not wait to leave a trap"):
        machine.leave(0)
    retire(machine, 0, 0)
    record = machine.leave(0)
    assert (record.next_pc, record.depth_after, warp_of(machine).in_trap) == (address(1), 0, False)
    machine.retire(1)


def test_a_following_model_returns_to_the_first_failed_instruction():
    machine = follower(
        with_handler(kernel("MOV R8, RZ", "MOV R9, RZ", "LDG.E R4, [R8]", "NOP", "EXIT"), "RTT")
    )
    retire(machine, 0, times=4)
    assert machine.enter(0).pushed[0].pc == address(2)


def test_a_following_model_without_a_handler_continues_with_the_next_instruction():
    machine = follower(kernel("BPT.TRAP 0x1", "EXIT"))
    machine.retire(0)
    assert machine.enter(0).next_pc == address(1)
    assert machine.retire(0).terminated


def test_warps_beyond_the_32nd_are_in_registers_of_their_own(monkeypatch):
    made, host = on(launch([encode("EXIT")], block=(32, 1, 1), grid=(64, 1, 1)), warps=40)
    assert host.read("WARP_VALID_MASK") == 0xFFFF_FFFF
    assert host.read("WARP_VALID_MASK_1") == 0xFF
    woken = []
    monkeypatch.setattr(made.traps, "wake", woken.append)
    host.write("BPT_PAUSE_MASK", 0xFFFF_FFFE)
    host.write("BPT_PAUSE_MASK_1", 0xFFFF_FFF0)
    host.wake(1 << 35 | 1 << 2)
    assert woken == [1, 0xF << 32, 1 << 2, 1 << 35]


def test_a_handlers_place_counts_while_it_is_valid():
    made, host = on(launch([encode("EXIT")]))
    assert made.traps.handler is None
    host.write("TRAP_HANDLER", 0x207)
    assert made.traps.handler is None
    host.write("TRAP_CONTROL", 1)
    assert made.traps.handler == 0x200
    host.write("TRAP_HANDLER", 0x400)
    assert made.traps.handler == 0x400
    host.write("TRAP_CONTROL", 0)
    assert made.traps.handler is None
    host.install(0x600)
    assert made.traps.handler == 0x600
