"""The report of a run that was stopped: the driver's log lines, the exception, code, masks and
stack, equal on all engines.
"""

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError, trap_bit
from sim.report.error_status import decode
from sim.report.exceptions import CudaException, cuda_exception, text_of
from testbench.engine.designs import needs_compiled

ENGINES = ["model", pytest.param("compiled", marks=needs_compiled)]
LOST = """
.kernel lost
.crs 1024
        S2R R0, SR_TID.X
        PEXIT .Lend
        ISETP.GE.U32.AND P0, PT, R0, 0x10, PT
        SSY .Ljoin
    @P0 SYNC
        ISETP.GE.U32.AND P0, PT, R0, 0x8, PT
    @P0 EXIT
        PBK .Ljoin
        LDL R1, [R0+0x7ffff0]
        SYNC
.Ljoin:
        NOP
.Lend:
        EXIT
"""
"""Threads 0 to 7 read beyond local memory; 8 to 15 have exited, the others are pending on SSY's
token.
"""
DEEP = """
.kernel deep
.crs 1024
.Lagain:
        CAL .Lagain
        EXIT
"""


@pytest.fixture
def run(run_program, tmp_path, capsys):
    """Runs a program that ends in an error; returns its result file and its output."""

    def stopped(text: str, *arguments: str) -> tuple[dict, str]:
        source = tmp_path / "k.sass"
        source.write_text(text)
        code, written = run_program(source, "--preset", "tiny", *arguments)
        assert code == 1
        return written["esr"], capsys.readouterr().out

    return stopped


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_is_logged_as_a_driver_does_it_and_written_decoded(run, engine):
    written, text = run(LOST, "--engine", engine)
    lines = text.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("Warpstack: "))
    assert lines[at : at + 3] == [
        "Warpstack: Xid 13, Graphics SM Warp Exception on (GPC 0, TPC 0): Out Of Range Address",
        "Warpstack: Xid 13, Graphics Exception: ESR 0x504648=0xe 0x504650=0x20 0x504644=0xd3eff2 0x50464c=0x7f",
        "exception     CUDA_EXCEPTION_5, Warp Out-of-range Address",
    ]
    assert lines[at + 3].startswith("error         OOR_ADDR, code 0x0e")
    assert lines[at + 4] == "where         warp 0, pc 0x0058"
    assert [line for line in lines if line.startswith("  -> ")] == [lines[at + 8]]
    assert lines[at + 8].endswith("LDL R1, [R0+0x7ffff0]")
    assert lines[at + 12 : at + 15] == [
        "masks         active 000000ff exited 0000ff00",
        "stack         3 tokens, 0 counted calls open, top first",
        "     BREAK pc=0x0070 mask=000000ff",
    ]
    assert written["registers"].pop("HWW_WARP_ESR_PC") == written["pc"]
    assert written == {
        "error": "OOR_ADDR",
        "code": 0xE,
        "warp": 0,
        "pc": 0x58,
        "global": ["BPT_PAUSE"],
        "cuda_exception": {
            "number": 5,
            "name": "CUDA_EXCEPTION_5",
            "meaning": "Warp Out-of-range Address",
        },
        "report_masks": {"warp": 0xD3EFF2, "global": 0x7F},
        "registers": {
            "HWW_WARP_ESR": 0xE,
            "HWW_GLOBAL_ESR": 0x20,
            "HWW_WARP_ESR_REPORT_MASK": 0xD3EFF2,
            "HWW_GLOBAL_ESR_REPORT_MASK": 0x7F,
        },
        "warps": {
            "0": {
                "masks": {
                    "active": 0xFF,
                    "broken": 0,
                    "continued": 0,
                    "returned": 0,
                    "exited": 0xFF00,
                    "longjumped": 0,
                    "killed": 0,
                },
                "stack": {
                    "depth": 3,
                    "calls": 0,
                    "top": [
                        "BREAK pc=0x0070 mask=000000ff",
                        "SYNC pc=0x0070 mask=ffffffff",
                        "EXIT pc=0x0078 mask=ffffffff",
                    ],
                },
            }
        },
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stack_that_is_partly_in_memory_is_shown(run, engine):
    written, text = run(DEEP, "--engine", engine, "--crs", "1024")
    assert written["global"] == ["BPT_PAUSE", "PHYSICAL_STACK_OVERFLOW"]
    assert written["cuda_exception"]["name"] == "CUDA_EXCEPTION_9"
    assert written["warps"]["0"]["stack"] == {
        "depth": 48,
        "calls": 48,
        "top": ["RETURN pc=0x0010 mask=ffffffff counted"] * 16,
    }
    assert (
        "Warpstack: Xid 13, Graphics SM Warp Exception on (GPC 0, TPC 0): Stack Overflow\n"
        "Warpstack: Xid 13, Graphics SM Global Exception on (GPC 0, TPC 0): Physical Stack Overflow\n"
        in text
    )
    assert "\nexception     CUDA_EXCEPTION_9, Warp Hardware Stack Overflow\n" in text
    assert "\n     32 more\n" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_breakpoint_is_no_exception_of_cuda(run, engine):
    written, text = run(".kernel k\n    NOP\n    BPT.TRAP 0x3\n    EXIT\n", "--engine", engine)
    assert written.items() >= {"error": "NONE", "warp": 0, "pc": 0x10, "trap_reasons": [3]}.items()
    assert "cuda_exception" not in written
    assert (
        written["registers"]["HWW_GLOBAL_ESR"]
        == 1 << trap_bit(3) | 1 << GlobalError.BPT_PAUSE.value
    )
    assert "Warpstack: Xid 13, Graphics Exception: ESR 0x504648=0x0 0x504650=0x80020 " in text
    assert "Warp Exception" not in text
    assert "error         BPT.TRAP, reasons so far: 3\nwhere         warp 0, pc 0x0010\n" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_without_an_error_reports_its_handled_traps(run_program, tmp_path, capsys, engine):
    source, handler = tmp_path / "k.sass", tmp_path / "handler.sass"
    source.write_text(".kernel k\n    BPT.TRAP 0x3\n    BPT.TRAP 0x5\n    EXIT\n")
    handler.write_text(".kernel handler\n    RTT\n")
    code, written = run_program(
        source, "--preset", "tiny", "--engine", engine, "--handler", handler
    )
    lines = capsys.readouterr().out.splitlines()
    assert (code, written["status"], written["esr"]["trap_reasons"]) == (0, "ok", [3, 5])
    assert "traps         BPT.TRAP, reasons 3 5: handled" in lines
    assert not [line for line in lines if line.startswith(("error", "where", "Warpstack"))]


def test_nothing_that_happened_is_nothing_written():
    registers = {name: register.reset for name, register in SM_REGISTERS.items()}
    assert decode(registers).decoded() == {}
    assert decode(registers).log_lines() == []


@pytest.mark.parametrize("event", GlobalError)
def test_global_events_are_logged_unless_a_debugger_requested_them(event):
    registers = {name: register.reset for name, register in SM_REGISTERS.items()} | {
        "HWW_GLOBAL_ESR": 1 << event.value
    }
    status = decode(registers)
    assert status.decoded()["global"] == [event.name]
    asked_for = event.name in ("BPT_INT", "BPT_PAUSE", "SINGLE_STEP_COMPLETE")
    assert (status.log_lines() == []) == asked_for


@pytest.mark.parametrize(
    "error,text",
    [
        (WarpError.OOR_ADDR, "Out Of Range Address"),
        (WarpError.MISALIGNED_ADDR, "Misaligned Address"),
        (WarpError.ILLEGAL_INSTR_ENCODING, "Illegal Instruction Encoding"),
        (WarpError.ILLEGAL_INSTR_PARAM, "Illegal Instruction Parameter"),
        (WarpError.INVALID_ADDR_SPACE, "Invalid Address Space"),
        (GlobalError.MULTIPLE_WARP_ERRORS, "Multiple Warp Errors"),
        (WarpError.MISALIGNED_IMMC_ADDR, "Misaligned Immediate Constant Address"),
        (WarpError.MMU_FAULT, "MMU Fault"),
        (WarpError.PC_WRAP, "PC Wrap"),
    ],
)
def test_errors_are_called_what_drivers_call_them(error, text):
    assert text_of(error) == text


def test_every_error_is_the_exception_that_debuggers_would_show():
    found = {
        error.value: exception.value
        for error in WarpError
        if (exception := cuda_exception(error)) is not None
    }
    assert found == {
        **dict.fromkeys((1, 2, 3, 0x16), 9),
        **dict.fromkeys((4, 5, 6), 8),
        **dict.fromkeys((7, 8, 9, 0xA, 0xB, 0xD, 0x11), 4),
        0xE: 5,
        0xF: 6,
        0x10: 7,
        0x17: 14,
    }
    assert (
        cuda_exception(WarpError.NONE, ["BPT_INT", "PHYSICAL_STACK_OVERFLOW"])
        is CudaException.DEVICE_HARDWARE_STACK_OVERFLOW
    )
    assert cuda_exception(WarpError.DIVERGENT, ["PHYSICAL_STACK_OVERFLOW"]) is None


def test_exceptions_are_numbered_and_named_as_debuggers_do():
    assert [(exception.symbol, exception.meaning) for exception in CudaException] == [
        ("CUDA_EXCEPTION_1", "Lane Illegal Address"),
        ("CUDA_EXCEPTION_2", "Lane User Stack Overflow"),
        ("CUDA_EXCEPTION_3", "Device Hardware Stack Overflow"),
        ("CUDA_EXCEPTION_4", "Warp Illegal Instruction"),
        ("CUDA_EXCEPTION_5", "Warp Out-of-range Address"),
        ("CUDA_EXCEPTION_6", "Warp Misaligned Address"),
        ("CUDA_EXCEPTION_7", "Warp Invalid Address Space"),
        ("CUDA_EXCEPTION_8", "Warp Invalid PC"),
        ("CUDA_EXCEPTION_9", "Warp Hardware Stack Overflow"),
        ("CUDA_EXCEPTION_10", "Device Illegal Address"),
        ("CUDA_EXCEPTION_11", "Lane Misaligned Address"),
        ("CUDA_EXCEPTION_12", "Warp Assert"),
        ("CUDA_EXCEPTION_13", "Lane Syscall Error"),
        ("CUDA_EXCEPTION_14", "Warp Illegal Address"),
    ]
