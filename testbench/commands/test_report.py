"""Reports of an outcome: output formatted as in C, errors with their names in logs, numbers of a
profile.
"""

import ctypes
import gc
import re
import struct
import warnings
from collections import Counter
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.enum import Enum
from amaranth.lib.wiring import In, Out

from rtl.fpga.registers import BOARD_BLOCK, BOARD_REGISTERS
from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import (
    COUNTER_BLOCK,
    COUNTERS,
    SM_BLOCK,
    SM_REGISTERS,
    Access,
    GlobalError,
)
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.table import BY_NAME
from rtl.layouts import LaunchRejection, WaitReason
from sim.launch import prepare
from sim.launch.memory import Memory
from sim.machine.base import HardwareResult
from sim.machine.profile import Cost
from sim.report.error_status import decode
from sim.report.exceptions import CudaException, cuda_exception
from sim.report.hardware import describe_hardware
from sim.report.output import output_of
from sim.report.ports import described_members, port_comments, ports_of
from sim.report.profile import content, page, text
from sim.report.reference import markdown_table, reference_pages, register_rows
from sim.report.run import buffer_lines, error_lines
from sim.report.surroundings import before, code_lines
from sim.report.timeline import konata
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from sim.toolchain.runtime import FAILED, PRINTED
from testbench.fakes import fake

# Output of kernels


def padded(data):
    """Returns a string of a record: terminated, padded to a multiple of 8 bytes."""
    data += b"\0"
    return data + bytes(-len(data) % 8)


def record(kind, body):
    return struct.pack("<II", 8 + len(body), kind) + body


def printed(format_, *arguments):
    """Returns the text of a record with the format, numbers and strings."""
    body = bytes(8) + padded(format_.encode())
    for argument in arguments:
        if isinstance(argument, bytes):
            body += padded(argument)
        elif isinstance(argument, float):
            body += struct.pack("<d", argument)
        else:
            body += (argument & (1 << 64) - 1).to_bytes(8, "little")
    return record(PRINTED, body)


def output(*records, used=None, lost=0):
    memory = Memory()
    variable, content = memory.allocate("variable", 32), b"".join(records)
    address = memory.allocate("output", max(len(content), 8))
    memory.write(address, content)
    used = len(content) if used is None else used
    for at, value in enumerate((address, len(content), used, lost)):
        memory.write_number(variable + 8 * at, 8, value)
    return output_of(memory, variable)


def in_c(format_, *arguments):
    """Returns the text that the C library formats."""
    buffer = ctypes.create_string_buffer(2000)
    given = [
        argument
        if isinstance(argument, bytes)
        else ctypes.c_double(argument)
        if isinstance(argument, float)
        else ctypes.c_uint64(argument & (1 << 64) - 1)
        for argument in arguments
    ]
    snprintf = ctypes.CDLL(None).snprintf
    snprintf.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
    snprintf(buffer, len(buffer), format_.encode(), *given)
    return buffer.value.decode()


WHOLES = (0, 1, 7, 8, 255, 4095, -1, -8, 0x8000_0000, 0x1_2345_6789, 1 << 63, (1 << 64) - 1)


@pytest.mark.parametrize("kind", ["d", "i", "u", "o", "x", "X"])
def test_whole_numbers_are_printed_as_in_c(kind):
    """Flags, widths, precisions and lengths of all kinds are tested; flags that C leaves undefined
    are not.
    """
    source, flags = Random(kind), "-0+ " if kind in "di" else "-0" if kind == "u" else "-0#"
    for _ in range(300):
        shape = "".join(flag for flag in flags if source.random() < 0.4)
        shape += source.choice(["", "1", "6", "10"]) + source.choice(["", ".0", ".3", ".", ".10"])
        size = source.choice(["", "l", "ll", "h", "hh", "j", "z", "t"])
        format_, value = f"<%{shape}{size}{kind}|", source.choice(WHOLES)
        assert output(printed(format_, value)).text == in_c(format_, value), (format_, value)


@pytest.mark.parametrize("kind", ["e", "E", "f", "F", "g", "G"])
def test_floating_point_numbers_are_printed_as_in_c(kind):
    source = Random(kind)
    values = (0.0, -0.0, 1.0, -2.5, 1e-7, 123456.789, 1e300, 0.1)
    for _ in range(100):
        shape = "".join(flag for flag in "-0+ #" if source.random() < 0.3)
        shape += source.choice(["", "1", "12"]) + source.choice(["", ".0", ".3", ".9"])
        format_, value = f"<%{shape}{kind}|", source.choice(values)
        assert output(printed(format_, value)).text == in_c(format_, value), (format_, value)


@pytest.mark.parametrize(
    ("format_", "arguments", "expected"),
    [
        ("%s|%5s|%-5s|%.2s|", [b"abc", b"ab", b"ab", b"abc"], "abc|   ab|ab   |ab|"),
        ("%s%s%d", [b"1234567", b"12345678", 3], "1234567123456783"),
        ("%c%3c%c", [65, 66, 67 + 256], "A  BC"),
        ("100%% of %d%%", [3], "100% of 3%"),
        ("%*d|%-*d|%.*f", [5, 3, 4, 2, 1, 0.25], "    3|2   |0.2"),
        ("%*d|", [-4, 7], "7   |"),
        ("%p %12p|", [0x1F, 0x2_0000_0000], "0x1f  0x200000000|"),
        ("%y %d", [1, 2], "%y 2"),
        ("%5lk", [1], "%5lk"),
        ("%d at the end %", [4], "4 at the end "),
        ("%d at the end %5l", [4], "4 at the end "),
        ("%.*d|%.*s|", [-1, 0, -3, b"abc"], "0|abc|"),
        ("%(x)d %5-d %$d", [1, 2, 3], "%(x)d %5-d %$d"),
        ("%Lf %lf", [1.5, 2.5], "1.500000 2.500000"),
        ("", [], ""),
    ],
)
def test_texts_characters_and_stars_are_printed_as_in_c(format_, arguments, expected):
    assert output(printed(format_, *arguments)).text == expected


def test_a_format_in_memory_is_read_there():
    memory = Memory()
    variable, address = memory.allocate("variable", 32), memory.allocate("output", 64)
    place = memory.allocate("format", 64, 64)
    memory.write(place, b"%d from memory\0 and no more")
    content_ = record(PRINTED, place.to_bytes(8, "little") + (5).to_bytes(8, "little"))
    memory.write(address, content_)
    for at, value in enumerate((address, 64, len(content_), 0)):
        memory.write_number(variable + 8 * at, 8, value)
    assert output_of(memory, variable).text == "5 from memory"
    memory.write(place, b"x" * 64)  # without terminator: read as far as it is mapped
    assert output_of(memory, variable).text == "x" * 64
    assert output_of(memory, None).text == ""


def test_a_failed_assertion_names_its_place():
    place = struct.pack("<7I4x", 12, 1, 2, 3, 4, 5, 6)
    body = place + padded(b"a.cu") + padded(b"kernel()") + padded(b"x > 1")
    found = output(printed("one\n"), record(FAILED, body), printed("two\n"), lost=3)
    assert found.text == "one\ntwo\n"
    line = "a.cu:12: kernel(): block: [1,2,3], thread: [4,5,6] Assertion `x > 1` failed."
    assert found.failed == [line]
    assert found.lines() == [
        f"assertion     {line}",
        "output        3 more records had no room: more bytes with --output",
    ]
    assert output(printed("one\n")).lines() == []


def test_what_was_not_written_to_its_end_is_left_out():
    first, second = printed("one "), printed("two ")
    assert output(first, second, used=len(first) + 8).text == "one "
    assert output(first, second, used=len(first) + 4).text == "one "
    for broken in (bytes(8), struct.pack("<II", 12, PRINTED) + bytes(8), record(77, bytes(16))):
        assert output(first, broken, second).text == "one "
    assert output().text == ""


# Errors


def registers(**values: Any) -> dict[str, int]:
    """Returns the registers of the error status: fields of the two ESR by name, other registers
    whole.
    """
    found: dict[str, int] = dict.fromkeys(
        (
            "HWW_WARP_ESR",
            "HWW_GLOBAL_ESR",
            "HWW_WARP_ESR_REPORT_MASK",
            "HWW_GLOBAL_ESR_REPORT_MASK",
            "HWW_WARP_ESR_PC",
        ),
        0,
    )
    warp, global_ = SM_REGISTERS["HWW_WARP_ESR"], SM_REGISTERS["HWW_GLOBAL_ESR"]
    for name, value in values.items():
        if name in ("ERROR", "WARP_ID"):
            found["HWW_WARP_ESR"] = warp.put(found["HWW_WARP_ESR"], **{name: value})
        elif name == "TRAP_REASONS":
            found["HWW_GLOBAL_ESR"] = global_.put(found["HWW_GLOBAL_ESR"], **{name: value})
        elif name == "events":
            found["HWW_GLOBAL_ESR"] |= sum(1 << event.value for event in value)
        else:
            found[name] = value
    return found


KERNEL = load(assemble(".kernel k\n" + "NOP\n" * 10 + "EXIT\n", "k.sass"))


def test_an_error_has_its_log_lines_its_exception_and_its_place():
    launch = prepare(KERNEL)
    found = registers(ERROR=WarpError.OOR_ADDR.value, WARP_ID=3, HWW_WARP_ESR_PC=0x10)
    status = decode(found)
    assert status.stopped and status.warp == 3 and status.pc == 0x10 and not status.handled
    lines = error_lines(status, launch, launch.memory, None, "nothing is mapped there")
    assert lines[0] == (
        "Warpstack: Xid 13, Graphics SM Warp Exception on (GPC 0, TPC 0): Out Of Range Address"
    )
    assert lines[1].startswith("Warpstack: Xid 13, Graphics Exception: ESR 0x")
    assert f"={found['HWW_WARP_ESR']:#x} " in lines[1]
    assert lines[2:5] == [
        "exception     CUDA_EXCEPTION_5, Warp Out-of-range Address",
        f"error         OOR_ADDR, code {WarpError.OOR_ADDR.value:#04x}: nothing is mapped there",
        "where         warp 3, pc 0x0010",
    ]
    assert lines[5:] == code_lines(launch, launch.memory, 0x10)
    assert (
        "error         OOR_ADDR, code 0x0e" in error_lines(status, launch, launch.memory, None)[3]
    )
    told = status.decoded()
    assert told["cuda_exception"] == {
        "number": 5,
        "name": "CUDA_EXCEPTION_5",
        "meaning": "Warp Out-of-range Address",
    }
    assert (told["error"], told["code"], told["warp"], told["pc"]) == ("OOR_ADDR", 14, 3, 16)
    assert told["registers"] == found and "trap_reasons" not in told and "global" not in told


def test_a_trap_is_at_the_instruction_before_the_next_pc_or_was_handled():
    found = registers(TRAP_REASONS=0b101, HWW_WARP_ESR_PC=0x28)
    stopped, ended = decode(found), decode(found, ended=True)
    assert stopped.reasons == ended.reasons == (1, 3)
    assert stopped.stopped and not ended.stopped
    assert stopped.pc == 0x18  # 0x20 has the control word of a group
    assert stopped.cause() == "BPT.TRAP, reasons so far: 1 3"
    assert ended.handled == "BPT.TRAP, reasons 1 3: handled"
    assert decode(registers(TRAP_REASONS=2), ended=True).handled == "BPT.TRAP, reason 2: handled"
    assert stopped.handled == "" and decode(registers(), ended=True).handled == ""
    assert stopped.decoded()["trap_reasons"] == [1, 3]
    launch = prepare(KERNEL)
    assert error_lines(ended, launch, launch.memory, None) == [
        "traps         BPT.TRAP, reasons 1 3: handled"
    ]
    assert decode(registers()).decoded() == {} and not decode(registers()).log_lines()


def test_events_that_a_debugger_requests_are_no_lines_of_a_log():
    events = [GlobalError.BPT_INT, GlobalError.SINGLE_STEP_COMPLETE]
    assert decode(registers(events=events)).log_lines() == []
    status = decode(registers(events=[*events, GlobalError.PHYSICAL_STACK_OVERFLOW]))
    assert len(status.log_lines()) == 2
    assert status.log_lines()[0].startswith(
        "Warpstack: Xid 13, Graphics SM Global Exception on (GPC 0, TPC 0): "
    )
    assert set(status.events) == {"BPT_INT", "SINGLE_STEP_COMPLETE", "PHYSICAL_STACK_OVERFLOW"}
    assert status.decoded()["global"] == sorted(status.events)
    assert status.exception is not None and status.exception.value == 3


@pytest.mark.parametrize(
    ("pc", "expected"),
    [
        (0x08, [0x08, 0x10, 0x18, 0x28]),
        (0x18, [0x08, 0x10, 0x18, 0x28, 0x30, 0x38]),
        (0x28, [0x08, 0x10, 0x18, 0x28, 0x30, 0x38, 0x48]),
        (0x38, [0x18, 0x28, 0x30, 0x38, 0x48, 0x50, 0x58]),
    ],
)
def test_three_instructions_are_shown_on_both_sides_without_control_words(pc, expected):
    launch = prepare(KERNEL)
    lines = code_lines(launch, launch.memory, pc)
    assert [
        int(line.split()[-3 if ";" in line else 1 if "->" in line else 0], 16) for line in lines
    ] == expected
    assert [line[2:4] for line in lines] == ["->" if at == pc else "  " for at in expected]


def test_the_instruction_before_one_is_not_a_control_word():
    assert [before(at) for at in (0x10, 0x18, 0x28, 0x30)] == [0x08, 0x10, 0x18, 0x28]


def test_buffers_are_shown_by_their_first_eight_elements():
    launch = prepare(KERNEL)
    base = launch.memory.allocate("a", 64)
    launch.memory.write(base, bytes(range(1, 65)))
    for kind, size, shown in (
        (None, 64, "04030201 08070605 0c0b0a09 100f0e0d 14131211 18171615 1c1b1a19 201f1e1d ..."),
        ("u8", 8, "1 2 3 4 5 6 7 8"),
        ("u8", 9, "1 2 3 4 5 6 7 8 ..."),
        ("s16", 4, "513 1027"),
        ("b64", 8, "0807060504030201"),
        ("b8", 2, "01 02"),
    ):
        made = fake(buffers={"a": (base, size)}, buffer_types={} if kind is None else {"a": kind})
        assert buffer_lines(made, launch.memory) == [
            f"buffer        a, {size} bytes at {base:#x}: {shown}"
        ]
    launch.memory.write(base, struct.pack("<hhd", -2, -1, 1.5))
    for kind, at, size, shown in (("s16", 0, 4, "-2 -1"), ("u16", 0, 4, "65534 65535")):
        made = fake(buffers={"a": (base + at, size)}, buffer_types={"a": kind})
        assert buffer_lines(made, launch.memory)[0].endswith(f": {shown}")
    made = fake(buffers={"a": (base + 4, 8)}, buffer_types={"a": "f64"})
    assert buffer_lines(made, launch.memory)[0].endswith(": 1.5")


def test_the_outcome_of_hardware_is_told_as_far_as_it_is_known():
    launch = prepare(KERNEL)
    counters = {"instructions": 11, "memory_lines": 4, "unknown": 7, "idle": 2}
    machine = fake(lockstep=None, memory=launch.memory)

    def told(difference=None, lockstep=None, **facts):
        machine.lockstep = lockstep
        found = {"status": "ok", "cycles": 99, "registers": registers(), "counters": counters}
        return describe_hardware(
            launch, machine, HardwareResult(**(found | facts)), difference
        ).splitlines()

    first = [
        "kernel        k",
        "status        ok",
        "cycles        99",
        "instructions  11",
        "idle cycles   2",
        "memory lines  4",
    ]
    assert told() == first
    compared = "compared      5 instructions with the warp model"
    lockstep = fake(compared=5)
    assert told(lockstep=lockstep) == [*first, compared]
    assert told("they differ", lockstep) == [*first, compared, "they differ"]
    rejected = told(status="error", reason="why", rejection=LaunchRejection(1))
    assert rejected[1] == "status        error: why"
    assert rejected[-1] == f"rejected      {LaunchRejection(1).name}"
    for status, shown in (("timeout", True), ("interrupted", True), ("error", False)):
        lines = told(status=status, diagnosis=["warp 0 waits"])
        assert (lines[-1] == "warp 0 waits") == shown
        assert ("interrupted after 99 cycles" in lines[1]) == (status == "interrupted")
    machine.lockstep, result = None, HardwareResult("ok", 99, registers=registers())
    named = describe_hardware(launch, machine, result, None, "tiny, compiled engine").splitlines()
    assert named[:2] == [first[0], "machine       tiny, compiled engine"]
    events = registers(events=[GlobalError.BPT_INT])
    assert "events        BPT_INT" in told(registers=events)


# Profiles


def profile():
    """Returns the profile of three instructions in two lines of a source; the last one costs
    nothing.
    """
    waits = (
        {WaitReason.READY: 4, WaitReason.SCOREBOARD: 30, WaitReason.STALL: 6},
        {
            WaitReason.READY: 10,
            WaitReason.FETCH: 1,
            WaitReason.LANES: 5,
            WaitReason.UNIT: 3,
            WaitReason.STALL: 1,
        },
        {},
    )
    costs = {
        8 * at: Cost(8 * at, f"I{at} <R1>", 2 + at, 64 - at, Counter(spent), 50, 2, 3, 9 - at, at)
        for at, spent in enumerate(waits, 1)
    }
    hottest = sorted(costs.values(), key=lambda cost: -cost.cycles)
    return fake(costs=costs, hottest=hottest, timeline=fake(grid_cycles=1234))


def test_the_text_of_a_profile_has_columns_of_equal_width():
    assert text(profile()) == (
        "warp cycles   60: scoreboard 50.0%, stall 11.7%, not selected 11.7%, issue 11.7%, lanes 8.3%, unit 5.0%, "
        "fetch 1.7%\n\n"
        "cycles  share  issues  threads  lines  passes  conflicts  instruction   waits\n"
        "    40  66.7%       3     21.0      3       8          1  0008 I1 <R1>  "
        "scoreboard 30, stall 6, not selected 1\n"
        "    20  33.3%       4     15.5      3       7          2  0010 I2 <R1>  not selected 6, lanes 5, unit 3\n"
        "     0   0.0%       5     12.2      3       6          3  0018 I3 <R1>\n"
    )
    assert text(fake(costs={}, hottest=[])).split() == [
        *("cycles", "share", "issues", "threads", "lines", "passes", "conflicts"),
        *("instruction", "waits"),
    ]


def test_the_text_of_a_profile_says_that_it_is_cut():
    assert text(profile(), 1).splitlines()[-1] == "1 of 3 instructions; --lines N shows more"
    assert text(profile(), 1).count("\n") == 5
    assert "--lines" not in text(profile(), 3)


def test_the_content_of_a_profile_is_in_the_order_of_the_program():
    found = content(profile(), {0x10: ("a.cu", 7)})
    assert (found["cycles"], found["warp_cycles"]) == (1234, 60)
    assert (found["issues"], found["not_selected"]) == (12, 7)
    assert found["waits"] == {
        "ready": 14,
        "scoreboard": 30,
        "stall": 7,
        "fetch": 1,
        "lanes": 5,
        "unit": 3,
    }
    assert [one["pc"] for one in found["instructions"]] == [8, 16, 24]
    assert found["instructions"][1] == {
        "pc": 16,
        "text": "I2 <R1>",
        "issues": 4,
        "threads": 62,
        "cycles": 20,
        "waits": {"ready": 10, "fetch": 1, "lanes": 5, "unit": 3, "stall": 1},
        "not_selected": 6,
        "latency": 50,
        "ended": 2,
        "lines": 3,
        "passes": 7,
        "conflicts": 2,
        "source": ["a.cu", 7],
    }
    assert all("source" not in one for one in found["instructions"][::2])


def test_the_page_of_a_profile_has_bars_shares_and_the_lines_of_the_source():
    lines = {8: ("a.cu", 1), 16: ("a.cu", 3), 24: ("b.cu", 1)}
    found = page(profile(), "A & B", lines, {"a.cu": ["int a;", "", "a < 1;"]})
    assert found.count("<title>A &amp; B</title>") == found.count("<h1>A &amp; B</h1>") == 1
    assert "The grid ran 1,234 cycles; its warps lived 60 altogether" in found
    assert "share: scoreboard 50.0%, stall 11.7%" in found
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", found)]
    rows = [row for row in rows if row]
    assert [row[:3] for row in rows[:3]] == [
        ["1", "40", "66.7%"],
        ["2", "", ""],
        ["3", "20", "33.3%"],
    ]
    assert [row[4] for row in rows[:3]] == ["int a;", "", "a &lt; 1;"]
    assert [row[:7] for row in rows[3:]] == [
        ["40", "66.7%", "3", "21.0", "3", "8", "1"],
        ["20", "33.3%", "4", "15.5", "3", "7", "2"],
        ["0", "0.0%", "5", "12.2", "3", "6", "3"],
    ]
    assert [row[8] for row in rows[3:]] == [
        "0008 I1 &lt;R1&gt;  a.cu:1",
        "0010 I2 &lt;R1&gt;  a.cu:3",
        "0018 I3 &lt;R1&gt;  b.cu:1",
    ]
    assert re.findall(r"--share:(\d+%)", found) == ["100%", "0%", "50%", "100%", "50%", "0%"]
    assert re.findall(r'<i style="flex:(\d+);[^"]*" title="([^"]*)">', rows[3][7]) == [
        ("30", "scoreboard 30"),
        ("6", "stall 6"),
        ("4", "ready 4"),
    ]
    assert "Instructions" in page(
        fake(costs={}, hottest=[], timeline=fake(grid_cycles=0)), "", {}, {}
    )


def test_exceptions_have_the_numbers_of_cuda_gdb():
    names = (
        "Lane Illegal Address",
        "Lane User Stack Overflow",
        "Device Hardware Stack Overflow",
        "Warp Illegal Instruction",
        "Warp Out-of-range Address",
        "Warp Misaligned Address",
        "Warp Invalid Address Space",
        "Warp Invalid PC",
        "Warp Hardware Stack Overflow",
        "Device Illegal Address",
        "Lane Misaligned Address",
        "Warp Assert",
        "Lane Syscall Error",
        "Warp Illegal Address",
    )
    found = [(one.value, one.symbol, one.meaning) for one in CudaException]
    assert found == [(at, f"CUDA_EXCEPTION_{at}", name) for at, name in enumerate(names, 1)]


@pytest.mark.parametrize(
    ("number", "errors"),
    [
        (4, "MISALIGNED_IMMC_ADDR MISALIGNED_REG ILLEGAL_INSTR_ENCODING ILLEGAL_SPH_INSTR_COMBO"),
        (4, "ILLEGAL_INSTR_PARAM OOR_REG ILLEGAL_INSTR_PARAM2"),
        (5, "OOR_ADDR"),
        (6, "MISALIGNED_ADDR"),
        (7, "INVALID_ADDR_SPACE"),
        (8, "PC_WRAP MISALIGNED_PC PC_OVERFLOW"),
        (9, "STACK_ERROR API_STACK_ERROR RET_EMPTY_STACK_ERROR STACK_OVERFLOW"),
        (14, "MMU_FAULT"),
    ],
)
def test_an_error_of_a_warp_goes_before_events_of_the_machine(number, errors):
    for name in errors.split():
        found = cuda_exception(WarpError[name], ["PHYSICAL_STACK_OVERFLOW"])
        assert found is not None and found.value == number, name
    assert cuda_exception(WarpError.NONE) is None
    assert cuda_exception(WarpError.NONE, ["TIMEOUT"]) is None
    found = cuda_exception(WarpError.NONE, ["TIMEOUT", "PHYSICAL_STACK_OVERFLOW"])
    assert found is CudaException.DEVICE_HARDWARE_STACK_OVERFLOW


def test_an_instruction_takes_a_cycle_at_least_in_a_log_for_konata():
    timeline = fake(
        cycles=9,
        executed=[
            fake(warp=1, cycle=3, end=end, pc=8, text="NOP", active=1, error=WarpError.NONE)
            for end in (3, 4, 6, None)
        ],
    )
    now, ends = 0, {}
    for line in konata(timeline).splitlines()[2:]:
        kind, first, *_ = line.split("\t")
        if kind == "C":
            now += int(first)
        elif kind == "E":
            ends[int(first)] = now
    assert ends == {0: 4, 1: 4, 2: 6, 3: 9}


# Ports


class Command(Enum, shape=2):
    GO = 0
    STOP = 2


class Toy(wiring.Component):
    """Does something.

    Members
    -------
    command : In
        What it does, in words that are many more than fit into a line of a comment, so that it continues behind an
        indent.
    first, second : Out
        Two that share a description.
    """

    def __init__(self):
        self.fields = StructLayout({"low": 3, "high": 1})
        super().__init__(
            {"command": In(Command), "first": Out(self.fields), "second": Out(1), "other": In(8)}
        )

    def elaborate(self, platform):
        return Module()


def test_ports_are_told_with_their_meaning_direction_and_bits():
    dut: Any = Toy()
    dut._MustUse__used = True
    assert list(port_comments(dut)) == [
        "command: What it does, in words that are many more than fit into a line of a comment, so that it continues",
        "    behind an indent.",
        "  in  command, 2: Command",
        "first: Two that share a description.",
        "  out first_low, 3",
        "  out first_high, 1",
        "second",
        "  out second, 1",
        "other",
        "  in  other, 8",
        "Command: 0=GO, 2=STOP",
    ]


def test_the_ports_of_a_unit_are_asked_for_without_a_warning():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert "request" in ports_of("crs").signature.members
        gc.collect()
    assert told == []


def rows_of(text):
    """Returns the cells of the tables of a Markdown page, without headings."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line[2:-2].split(" | ")] for line in lines]


def test_the_page_of_errors_says_which_are_reported_and_what_cuda_calls_them():
    rows = rows_of(reference_pages()["errors.md"])[2:]
    assert [row[:3] for row in rows] == [
        [f"`{error.value:#04x}`", error.name, ("no", "yes")[REPORT_MASK_RESET >> error.value & 1]]
        for error in WarpError
        if error is not WarpError.NONE
    ]
    assert {row[2] for row in rows} == {"yes", "no"}
    told = {row[1]: row[3] for row in rows}
    assert told["OOR_ADDR"] == "CUDA_EXCEPTION_5, Warp Out-of-range Address"
    assert "" in told.values()


def test_the_page_of_registers_has_addresses_fields_and_counters():
    text = reference_pages()["registers.md"]
    rows = {row[1]: row for row in rows_of(text)}
    for base, registers_ in ((SM_BLOCK, SM_REGISTERS), (BOARD_BLOCK, BOARD_REGISTERS)):
        for name, register in registers_.items():
            row = rows[f"`{name}`"]
            assert row[0].startswith(f"`{base + register.offset:#x}`")
            assert row[2:4] == [register.access.value, f"{register.reset:#x}"]
            assert [bits.split()[0] for bits in row[4].split(", ") if bits] == [*register.fields]
    for number, name in enumerate(COUNTERS):
        assert rows[name][0] == f"`{COUNTER_BLOCK + 8 * number:#x}`"
    assert (
        f"| {SpecialRegister.TID_X.value} | `SR_TID.X` |" in text.split("## Special registers")[1]
    )
    fields = {"one": (3, 3), "more": (9, 4)}
    made = fake(offset=8, count=4, reset=31, fields=fields, meaning="some", access=Access.READ)
    assert list(register_rows(0x100, {"A": made})) == [
        ("`0x108` + 4n, n < 4", "`A`", Access.READ.value, "0x1f", "one 3, more 9:4", "some")
    ]


def test_the_page_of_instructions_has_a_row_for_each_form():
    rows = rows_of(reference_pages()["instructions.md"])[2:]
    forms = [(name, form) for name, forms in sorted(BY_NAME.items()) for form in forms]
    assert len(rows) >= len(forms)
    for row, (name, form) in zip(rows, forms, strict=False):
        assert row[:2] == [f"`{name}`", form.pipe.name.lower()]
        assert row[3] == f"`{form.match >> 48:04x}/{form.mask >> 48:04x}`"


def test_a_cell_of_a_table_may_have_a_bar():
    assert markdown_table(("a", "b"), [("1|2", "3")]) == "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |\n"


def test_members_are_described_until_the_next_heading_or_the_next_text():
    class Documented:
        """A unit.

        Members
        -------
        a : In
            The first.
            In two lines.
        b, c : Out
            Both.

        Attributes
        ----------
        d : In
            No member.
        """

    class Other:
        """Another.

        Members
        -------
        a : In
            The first.
        No member.
        b : In
            No member either.
        """

    assert described_members(Documented) == {"a": "The first. In two lines.", "b": "Both.", "c": ""}
    assert described_members(Other) == {"a": "The first."}
    assert described_members(type("None_", (), {})) == {}
