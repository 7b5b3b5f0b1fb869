"""Instructions that fail in the trap handler, one of each kind that can.

The warp is paused. When the host wakes it, it continues after the failed instruction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, MemorySize, ReturnFromTrapMode
from rtl.isa.tokens import API_CALL_LIMIT
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS
from sim.launch import Launch
from testbench.sm.errors import launch_text
from testbench.trap.case import ADDRESS, LOG
from testbench.trap.programs import kernel_text, with_handler
from testbench.words import address, encode

_REGISTERS = 32
_HEAD = (
    *LOG,
    "ISETP.NE.U32.AND P0, PT, R0, RZ, PT",
    "MOV32I R4, 0x2",
    "MOV32I R5, 0x21",
    "MOV32I R6, 0x10",
    "MOV R8, RZ",
    "MOV R9, RZ",
    "MOV32I R10, 0x4",
    "SHL R11, R0, 0x3",
)
"""The beginning of the handler. P0 marks all threads but the first; R8 and R9 are an address
without memory.
"""
_TAIL = ("away:", "MOV32I R20, 0x1", "RED.E.ADD [R18], R20", "RTT")
"""The end of the handler: each thread that reaches it increments the slot's first word of the log.
"""
_PUSHED = 28
"""Tokens that fill the stack's region of 512 bytes together with the four of the frame."""
_DEEP = 24
"""Tokens that do not fill the region, but of which the lowest are in memory."""


@dataclass(frozen=True)
class Failure:
    """An instruction that fails, the instructions before it, and its error.

    A BPT.TRAP has a ``reason`` and no ``error``.
    """

    error: WarpError
    line: str
    before: Sequence[str] = ()
    reason: int = 0

    @property
    def events(self) -> set[str]:
        """The expected bits of the global error status."""
        overflow = {"PHYSICAL_STACK_OVERFLOW"} if self.error is WarpError.STACK_OVERFLOW else set()
        return {"ERROR_IN_TRAP", "BPT_PAUSE"} | overflow


@dataclass(frozen=True)
class HandlerErrors:
    """A handler in which several instructions fail in turn.

    Attributes:
        failures: The instructions that fail.
        threads: Active threads at the end of the handler.
        crs: Size of the stack's region in bytes.
        floats: The errors need a machine with floating point.
        last: Instructions after the last failure.
    """

    name: str
    failures: Sequence[Failure]
    threads: int = WARP_THREADS
    crs: int = 512
    check_calls: bool = False
    floats: bool = False
    last: Sequence[str] = ()

    @property
    def _lines(self) -> list[str]:
        """The lines of the handler. A drain after each failure makes its error precede the next
        one.
        """
        lines = list(_HEAD)
        for failure in self.failures:
            lines += [*failure.before, failure.line, "BPT.DRAIN"]
        return [*lines, *self.last, *_TAIL]

    def launch(self) -> Launch:
        """The launch of the program with its handler."""
        lines = (*ADDRESS, "BAR.SYNC 0x0", "BPT.TRAP 0x1", "STG.E [R2], R0", "EXIT")
        text = kernel_text(lines, registers=_REGISTERS, shared=256)
        text += ".const 2 table\n.word 8, 0x30\n"
        made = launch_text(text, words=256, block=32, grid=1, crs=self.crs)
        made = replace(made, check_api_calls=self.check_calls)
        return with_handler(made, *self._lines, registers=_REGISTERS)

    def places(self, handler: int) -> Iterator[tuple[Failure, int]]:
        """Each failure with the address of its instruction; ``handler`` is the pc of the
        handler.
        """
        at = len(_HEAD)
        for failure in self.failures:
            at += sum(not line.endswith(":") for line in failure.before)
            yield failure, handler + address(at)
            at += 2


def _raw(name: str, variant: str | None = None, **fields: int) -> str:
    """The word of an instruction that the assembler refuses."""
    return f".raw {encode(name, variant, **fields):#018x}"


def _all(error: WarpError, *lines: str) -> list[Failure]:
    """Lines that fail with the same error."""
    return [Failure(error, line) for line in lines]


def handler_errors() -> Iterator[HandlerErrors]:
    """Each kind of instruction that can fail in the handler, by the unit that detects the error."""
    yield HandlerErrors("what nobody executes", _refused())
    yield HandlerErrors("memory instructions", list(_of_memory()))
    yield HandlerErrors("constants", list(_of_constants()))
    yield HandlerErrors(
        "constants of floats",
        _all(
            WarpError.INVALID_CONST_ADDR,
            "FADD R12, R0, c[0x2][0x100]",
            "I2F.F32.S32 R12, c[0x2][0x100]",
            "F2I.S32.F32 R12, c[0x2][0x100]",
            "DADD R12, R12, c[0x2][0x100]",
        ),
        floats=True,
    )
    yield HandlerErrors("barriers", _of_barriers())
    yield HandlerErrors("BPT and RTT", list(_of_traps()))
    yield HandlerErrors("targets", list(_of_targets()))
    yield HandlerErrors("unwinds into the handler's frame", list(_unwinds()))
    yield HandlerErrors(
        "unwinds of a warp that is parted",
        [
            Failure(WarpError.STACK_ERROR, "SYNC", before=["@P0 SYNC"]),
            *_all(WarpError.STACK_ERROR, "BRK"),
        ],
        threads=1,
    )
    yield HandlerErrors(
        "unwinds past who waits",
        [Failure(WarpError.STACK_ERROR, "SYNC", before=["PBK away", "@P0 BRK"])],
        threads=1,
    )
    yield from _of_the_stack()


def _refused() -> list[Failure]:
    return [
        *_all(WarpError.ILLEGAL_INSTR_ENCODING, ".raw 0x0", _raw("VOTE.VTG")),
        *_all(WarpError.OOR_REG, _raw("IADD32I", Rd=_REGISTERS), _raw("SETCRSPTR", Ra=_REGISTERS)),
        *_all(WarpError.MISALIGNED_REG, _raw("LDS", Rd=5, size=MemorySize.B64.value)),
    ]


def _of_memory() -> Iterator[Failure]:
    """Loads, stores and atomic operations."""
    yield from _all(
        WarpError.MISALIGNED_ADDR,
        "LDS R12, [0x2]",
        "STS [0x2], R12",
        "LDL R12, [0x6]",
        "STL [0x6], R12",
        "LDG.E.64 R12, [R2+0x1]",
        "STG.E [R2+0x1], R12",
        "LD.E R12, [R2+0x2]",
        "ST.E [R2+0x2], R12",
        "ATOM.E.ADD R12, [R2+0x1], R0",
        "RED.E.ADD [R2+0x1], R0",
        "ATOMS.ADD R12, [R4], R0",
        "LDC R12, c[0x2][R0+0x1]",
    )
    yield from _all(
        WarpError.OOR_ADDR,
        "LDS R12, [0x100]",
        "STS [-0x4], R12",
        "LDL R12, [0x40]",
        "STL [-0x4], R12",
        "ATOMS.ADD R12, [0x100], R0",
    )
    for window in (SHARED_WINDOW, LOCAL_WINDOW):
        beyond = (f"MOV32I R12, {window + 0x8000:#x}", "MOV R13, RZ")
        yield Failure(WarpError.OOR_ADDR, "LD.E R14, [R12]", beyond)
        yield from _all(WarpError.OOR_ADDR, "ST.E [R12], R0")
        yield from _all(
            WarpError.INVALID_ADDR_SPACE, "ATOM.E.ADD R14, [R12], R0", "RED.E.ADD [R12], R0"
        )
    yield from _all(
        WarpError.MMU_FAULT,
        "LDG.E R12, [R8]",
        "STG.E [R8], R0",
        "LD.E R12, [R8]",
        "ST.E [R8], R0",
        "ATOM.E.ADD R12, [R8], R0",
        "ATOM.E.CAS R12, [R8], R14, R15",
        "RED.E.ADD [R8], R0",
    )
    yield from _all(WarpError.INVALID_CONST_ADDR_LDC, "LDC R12, c[0x2][R11+0x100]")


def _of_constants() -> Iterator[Failure]:
    """Constant operands of each unit."""
    yield from _all(
        WarpError.INVALID_CONST_ADDR,
        "IADD R12, R0, c[0x2][0x100]",
        "MOV R12, c[0x5][0x0]",
        "IMUL R12, R0, c[0x2][0x100]",
        "I2I.S32.S16 R12, c[0x2][0x100]",
        "POPC R12, c[0x2][0x100]",
        *(f"{name} c[0x2][0x100]" for name in ("BRA", "JMP", "CAL", "JCAL", "SSY", "PRET")),
        "JMX c[0x2][R0+0x100]",
        "BRX c[0x2][R0+0x100]",
    )
    yield from _all(
        WarpError.MISALIGNED_IMMC_ADDR,
        *(_raw(name, "c", bank=2, offset=2) for name in ("BRA", "CAL", "JMP", "JCAL", "PRET")),
    )
    yield from _all(WarpError.MISALIGNED_ADDR, "BRX c[0x2][R0+0x1]", "JMX c[0x2][R0+0x1]")


def _of_barriers() -> list[Failure]:
    return [
        *_all(
            WarpError.ILLEGAL_INSTR_PARAM,
            "BAR.ARV 0x0, 0x21",
            "BAR.SYNC 0x0, R5",
            "BAR.RED.POPC 0x0, 0x21, P0",
        ),
        *_all(
            WarpError.ILLEGAL_INSTR_PARAM2,
            "BAR.SYNC R6",
            "BAR.ARV R6, R6",
            _raw("B2R", mode=0, barrier=15, Rd=12),
            _raw("R2B", mode=0, barrier=15, Rb=12),
        ),
    ]


def _of_traps() -> Iterator[Failure]:
    """Instructions of the trap unit."""
    for reason in (0, 8):
        yield Failure(
            WarpError.ILLEGAL_INSTR_PARAM,
            _raw("BPT", mode=BreakpointMode.TRAP.value, reason=reason),
        )
    for mode in (BreakpointMode.DRAIN_ILLEGAL, BreakpointMode.CAL):
        yield Failure(WarpError.ILLEGAL_INSTR_ENCODING, _raw("BPT", mode=mode.value))
    yield Failure(
        WarpError.ILLEGAL_INSTR_ENCODING, _raw("RTT", mode=ReturnFromTrapMode.PREEMPTED.value)
    )
    for reason in (2, 7):
        yield Failure(WarpError.NONE, f"BPT.TRAP {reason:#x}", reason=reason)


def _of_targets() -> Iterator[Failure]:
    """Invalid targets of branches, calls and tokens."""
    for name in ("BRA", "CAL", "SSY", "PBK", "PCNT", "PRET", "PEXIT", "PLONGJMP"):
        yield Failure(WarpError.PC_WRAP, _raw(name, target=-0x80_0000))
    for name in ("BRA", "CAL"):
        yield Failure(WarpError.MISALIGNED_PC, _raw(name, "i", target=0x14))
    yield from _all(
        WarpError.MISALIGNED_PC, "JMP 0x14", "JCAL 0x14", "JMX R10 0x100", "BRX R10 0x100"
    )
    yield from _all(WarpError.DIVERGENT, "@P0 BRA.U away", "@P0 JMP.U c[0x2][0x0]")


def _unwinds() -> Iterator[Failure]:
    """Unwinds into the frame, and unwinds to a token with a misaligned pc."""
    leaving = ("SYNC", "BRK", "CONT", "RET", "EXIT", "LONGJMP", "KIL")
    yield from _all(WarpError.STACK_ERROR, *leaving, "RAM")
    yield Failure(WarpError.MISALIGNED_PC, "SYNC", [_raw("SSY", target=0x14)])
    yield Failure(WarpError.MISALIGNED_PC, "BRK", [_raw("PBK", target=0x14)])
    yield Failure(WarpError.STACK_ERROR, "RAM", ["SSY away"])


def _of_the_stack() -> Iterator[HandlerErrors]:
    """Pushes, calls and lines in memory."""
    two = Failure(WarpError.STACK_OVERFLOW, "@P0 BRX R11 0x0", ["SSY away"] * (_PUSHED - 1))
    first, *others = _all(
        WarpError.STACK_OVERFLOW,
        "SSY away",
        "PBK away",
        "PCNT away",
        "PRET.NOINC away",
        "PEXIT away",
        "PLONGJMP away",
        "CAL.NOINC away",
        "JCAL.NOINC 0x8",
        "SAM",
        "@P0 BRA away",
        "@P0 JMP c[0x2][0x0]",
        "@P0 BRX R11 0x0",
    )
    yield HandlerErrors("pushes without room", [two, replace(first, before=["SSY away"]), *others])
    limit = (f"MOV32I R12, {API_CALL_LIMIT << 23 | 4:#x}", "CCTLL.CRS.WBALL", "SETCRSPTR R12")
    counted, *more = _all(WarpError.API_STACK_ERROR, "CAL away", "JCAL 0x8")
    yield HandlerErrors(
        "calls at the limit", [replace(counted, before=limit), *more], check_calls=True
    )
    # The stack pointer refers to lines without memory; the instructions after the failures restore
    # it.
    lost = [
        "GETLMEMBASE R6",
        "MOV32I R7, 0x1234567",
        *["SSY away"] * _DEEP,
        "CCTLL.CRS.WBALL",
        "SETLMEMBASE R7",
    ]
    yield HandlerErrors(
        "lines that memory does not have",
        [Failure(WarpError.MMU_FAULT, "BRK", lost), *_all(WarpError.MMU_FAULT, "RET")],
        last=["SETLMEMBASE R6"],
    )
