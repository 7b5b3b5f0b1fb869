"""Programs that raise one warp error each, as assembly text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rtl.isa.control_code import instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.kinds import MemorySize
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW
from sim.launch import Buffer, Launch, prepare
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from testbench.words import address, encode

ALL_REPORTED = sum(1 << error.value for error in WarpError if error is not WarpError.NONE)
_HEAD = """.kernel k
.param out 8
.registers 16
.shared 256
.const 2 table
.word 4, 0x30
    S2R R0, SR_LANEID
    ISCADD R2.CC, R0, c[0x0][out], 0x2
    IADD.X R3, RZ, c[0x0][out+4]
    ISETP.NE.U32.AND P0, PT, R0, RZ, PT
    STG.E [R2], R0
"""
_HEAD_INSTRUCTIONS = 5
_OTHERS_END = ("S2R R1, SR_TID.X", "ISETP.LT.U32.AND P1, PT, R1, {first}, PT", "@P1 EXIT")
"""Lines that end all warps but the last one."""
_WORDS = 64
_STACK = 1024
"""Size of the call/return stack in bytes: more than the counted calls can fill."""


def launch_text(
    text: str,
    *,
    words: int = _WORDS,
    block: int = 32,
    grid: int = 1,
    local: int = 64,
    crs: int = 512,
) -> Launch:
    """A launch of a kernel whose first parameter is the address of the buffer ``out``."""
    return prepare(
        load(assemble(text, "test.sass")),
        [Buffer("out", bytes(4 * words))],
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        local=local,
        crs=crs,
    )


@dataclass(frozen=True)
class ErrorCase:
    """A program that raises an error, or with NONE ends with a BPT.TRAP.

    Attributes:
        error: The error.
        body: The lines of the program. The last one raises the error.
        line: The index of another line that raises it.
        place: The pc of the error, if it is of no line.
    """

    error: WarpError
    body: Sequence[str]
    check_calls: bool = False
    line: int = -1
    place: int | None = None

    @property
    def name(self) -> str:
        """The name of the case in reports."""
        return f"{self.error.name}: {self.body[-1].strip()}"

    def launch(self, warp: int = 0, *, drains: bool = False) -> Launch:
        """The launch of the program.

        After the error there is only EXIT, since errors of units may be reported after later
        instructions have executed; with ``drains`` there is a BPT.DRAIN. ``warp`` is the last warp
        of the CTA; the ones before it end at once.
        """
        ending = ["BPT.DRAIN"] if drains else []
        lines = "\n".join(
            f"    {line}" for line in (*_others_end(warp), *self.body, *ending, "EXIT")
        )
        made = launch_text(f"{_HEAD}{lines}\n", crs=_STACK, block=32 * (warp + 1))
        return replace(made, check_api_calls=self.check_calls)

    def pc(self, warp: int = 0) -> int:
        """Address of the instruction that raises the error."""
        if self.place is not None:
            return self.place
        behind = [
            line for line in (*_others_end(warp), *self.body[: self.line]) if not line.endswith(":")
        ]
        return address(_HEAD_INSTRUCTIONS + len(behind))


def _others_end(warp: int) -> tuple[str, ...]:
    """Lines that end all warps below this one."""
    return tuple(line.format(first=32 * warp) for line in _OTHERS_END) if warp else ()


def _raw(name: str, variant: str | None = None, **fields: int) -> str:
    """The word of an instruction that the assembler refuses."""
    return f".raw {encode(name, variant, **fields):#018x}"


def error_cases() -> Iterator[ErrorCase]:
    """Every error that the machine can raise, from each unit that can raise it."""
    case = ErrorCase
    for word in (".raw 0x0", _raw("VOTE.VTG"), "BPT.PAUSE", "BAR.SYNCALL", "RTT"):
        yield case(WarpError.ILLEGAL_INSTR_ENCODING, [word])
    for word in (_raw("IADD32I", Rd=16), _raw("IADD32I", Ra=16)):
        yield case(WarpError.OOR_REG, [word])
    wide = MemorySize.B64.value
    yield case(WarpError.OOR_REG, [_raw("LDS", Rd=15, size=wide)])
    yield case(WarpError.MISALIGNED_REG, [_raw("LDS", Rd=5, size=wide)])
    yield case(
        WarpError.MISALIGNED_REG, [_raw("LDG", Rd=4, Ra=5, wide=1, size=MemorySize.B32.value)]
    )
    for text in (
        "LDS R4, [0x2]",
        "STL [0x6], R4",
        "LDG.E.64 R4, [R2]",
        "ATOM.E.ADD R4, [R2+0x1], R0",
        "LDC R4, c[0x2][R0]",
        "BRX c[0x2][R0+0x1]",
    ):
        yield case(WarpError.MISALIGNED_ADDR, [text])
    yield case(WarpError.MISALIGNED_ADDR, ["MOV32I R4, 0x2", "ATOMS.ADD R4, [R4], R0"])
    for text in (
        "LDS R4, [0x100]",
        "STS [-0x4], R4",
        "LDL R4, [0x40]",
        "STL [-0x4], R4",
        "ATOMS.ADD R4, [0x100], R0",
    ):
        yield case(WarpError.OOR_ADDR, [text])
    for window in (SHARED_WINDOW, LOCAL_WINDOW):
        yield case(
            WarpError.OOR_ADDR, [f"MOV32I R4, {window + 0x8000:#x}", "MOV R5, RZ", "LD.E R6, [R4]"]
        )
        yield case(
            WarpError.INVALID_ADDR_SPACE,
            [f"MOV32I R4, {window:#x}", "MOV R5, RZ", "ATOM.E.ADD R6, [R4], R0"],
        )
    for text in (
        "LDG.E R4, [R8]",
        "STG.E [R8], R0",
        "ATOM.E.ADD R4, [R8], R0",
        "RED.E.ADD [R8], R0",
    ):
        yield case(WarpError.MMU_FAULT, ["MOV R8, RZ", "MOV R9, RZ", text])
    yield case(WarpError.MMU_FAULT, ["JMP 0x100000"], place=instruction_address(0x100000))
    for text in (
        "IADD R4, R0, c[0x2][0x100]",
        "MOV R4, c[0x5][0x0]",
        "I2F.F32.S32 R4, c[0x2][0x100]",
        "BRA c[0x2][0x100]",
        "JMX c[0x2][R0+0x100]",
    ):
        yield case(WarpError.INVALID_CONST_ADDR, [text])
    yield case(WarpError.INVALID_CONST_ADDR_LDC, ["SHL R4, R0, 0x4", "LDC R5, c[0x2][R4]"])
    yield case(WarpError.MISALIGNED_IMMC_ADDR, [_raw("BRA", "c", bank=2, offset=2)])
    yield case(WarpError.STACK_OVERFLOW, ["again:", "SSY again", "BRA again"], line=1)
    yield case(WarpError.STACK_OVERFLOW, ["again:", "CAL again"])
    yield case(WarpError.API_STACK_ERROR, ["again:", "CAL again"], check_calls=True)
    for text in ("SYNC", "BRK", "RAM"):
        yield case(WarpError.STACK_ERROR, [text])
    yield case(WarpError.RET_EMPTY_STACK_ERROR, ["RET"])
    yield case(WarpError.PC_WRAP, [_raw("BRA", "i", target=-0x2000)])
    for text in (_raw("BRA", "i", target=0x14), "JMP 0x14", "JMX R0 0x100"):
        yield case(WarpError.MISALIGNED_PC, ["MOV32I R0, 0x4", text])
    yield case(WarpError.DIVERGENT, ["again:", "@P0 BRA.U again"])
    yield case(WarpError.ILLEGAL_INSTR_PARAM, [_raw("BPT", mode=3, reason=0)])
    yield case(WarpError.ILLEGAL_INSTR_PARAM, ["BAR.ARV 0x0, 0x21"])
    yield case(WarpError.ILLEGAL_INSTR_PARAM, ["MOV32I R4, 0x21", "BAR.ARV 0x0, R4"])
    yield case(WarpError.ILLEGAL_INSTR_PARAM2, ["MOV32I R4, 0x10", "BAR.SYNC R4"])
    for reason in (1, 7):
        yield case(WarpError.NONE, [_raw("BPT", mode=3, reason=reason)])
