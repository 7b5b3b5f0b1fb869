"""A program with all kinds of memory accesses, and a trap handler that ends warps with errors."""

from dataclasses import dataclass

from sim.launch import Buffer, Launch, prepare
from sim.model.warp.model import WarpModel
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from testbench.trap.programs import with_handler
from testbench.words import contents

__all__ = ["THREADS", "UNTOUCHED", "Victim", "victim"]

THREADS = 64
UNTOUCHED = 0xEEEE_EEEE
"""Initial value of a result, before a thread has stored it."""
_WORDS = 64
_TEXT = f"""
.kernel k
.param in 8
.param out 8
.param sums 8
.registers 32
.const 2 table
.word {", ".join(str(7 * word + 3) for word in range(_WORDS))}
    S2R R0, SR_TID.X
    ISCADD R2.CC, R0, c[0x0][in], 0x2
    IADD.X R3, RZ, c[0x0][in+4]
    ISCADD R6.CC, R0, c[0x0][out], 0x2
    IADD.X R7, RZ, c[0x0][out+4]
    ISCADD R8.CC, R0, c[0x0][sums], 0x2
    IADD.X R9, RZ, c[0x0][sums+4]
    LDG.E R4, [R2]
    LOP32I.AND R10, R0, {_WORDS - 1:#x}
    SHL R10, R10, 0x2
    LDC R11, c[0x2][R10]
    IADD R4, R4, R11
    STL [0x0], R4
    MOV32I R25, 0x17
    SSY over
    CAL self
    SYNC
self:
    ISETP.EQ.U32.AND P6, PT, R25, RZ, PT
    @P6 CCTLL.CRS.WBALL
    SSY up
    @P6 SYNC
    IADD32I R25, R25, -0x1
    IADD R4, R4, R25
    CAL self
    SYNC
up:
    RET
over:
    LDL R12, [0x0]
    IADD R4, R4, R12
    ATOM.E.ADD R13, [R8], R0
    RED.E.ADD [R8], R0
    MEMBAR.GL
    STG.E [R6], R4
    EXIT
"""
_HANDLER = (
    "S2R R30, SR_WARPERRORSTATUS",
    "LOP32I.AND R30, R30, 0x1",
    "ISETP.EQ.U32.AND P5, PT, R30, RZ, PT",
    "@P5 BRA back",
    "RTT.TERMINATE",
    "back:",
    "RTT",
)


@dataclass(frozen=True)
class Victim:
    """A launch, and the words that its threads store if there is no fault."""

    launch: Launch
    expected: tuple[int, ...]


def victim(*, handler: bool = True) -> Victim:
    """Returns the program; without ``handler`` warps with errors are paused."""

    def made() -> Launch:
        values = b"".join(
            (thread * 0x01234567 & 0xFFFF_FFFF).to_bytes(4, "little") for thread in range(THREADS)
        )
        buffers = [
            Buffer("in", values),
            Buffer("out", UNTOUCHED.to_bytes(4, "little") * THREADS),
            Buffer("sums", bytes(4 * THREADS)),
        ]
        return prepare(
            load(assemble(_TEXT, "victim.sass")),
            buffers,
            grid=(1, 1, 1),
            block=(THREADS, 1, 1),
            local=16,
            crs=2048,
        )

    reference = made()
    WarpModel(reference).run()
    launch = made()
    return Victim(
        with_handler(launch, *_HANDLER) if handler else launch, tuple(contents(reference, "out"))
    )
