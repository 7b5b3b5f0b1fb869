"""Cycles of an instruction by class: the latency of dependent instructions of one warp, and the
throughput of independent instructions of several warps.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tqdm import tqdm

from rtl.params import WARP_THREADS
from sim.checks.benchmarks.machine import BenchmarkMachine, LoopKernel, stall_cycles
from sim.checks.benchmarks.table import table
from sim.machine.memory_service import LATENCY

__all__ = [
    "CLASSES",
    "ClassRow",
    "InstructionClass",
    "class_table",
    "class_text",
]

_POINTER = "MOV R2, c[0x0][buffer]\nMOV R3, c[0x0][buffer+4]"
_CHAIN = f"{_POINTER}\nSTG.E.64 [R2], R2"
_REPETITIONS = 6
"""Repetitions in an iteration of the loop. A multiple of 6, since code is padded to two groups of
three instructions.
"""
_FIRST_NUMBER = 10
"""Number of the first repetition: R# is then a register that nothing else uses."""
_HALF = "S2R R5, SR_LANEID\nISETP.LT.AND P0, PT, R5, 0x10, PT"
_OWN_PLACE = "S2R R4, SR_TID.X\nSHL R4, R4, 0x2"
_OWN_WORD = f"{_OWN_PLACE}\n{_POINTER}\nIADD R2.CC, R2, R4\nIADD.X R3, R3, RZ"
_ONE_THREAD = "S2R R5, SR_LANEID\nISETP.EQ.AND P0, PT, R5, RZ, PT"
_WARPS = 8
"""Number of warps that execute independent instructions."""


@dataclass(frozen=True)
class InstructionClass:
    """A class of instructions.

    The text is repeated in the loop and, as ``behind``, after the kernel's EXIT. In labels and
    destinations ``#`` is the number of the repetition, from 10 on, and ``##`` twice that number,
    for register pairs. ``before`` is executed once. With several warps, each thread can have its
    own word of shared memory at R4, or of global memory at R2, if ``before`` sets that up.

    Attributes:
        floats: Whether the machine needs floating point.
        doubles: Whether it needs double precision.
    """

    name: str
    text: str
    before: str = ""
    behind: str = ""
    directives: str = ""
    warps: int = 1
    floats: bool = False
    doubles: bool = False

    def loop(self, count: int) -> LoopKernel:
        """Returns a loop around this many repetitions."""
        numbers = range(_FIRST_NUMBER, _FIRST_NUMBER + count)
        body, behind = (
            "\n".join(
                text.replace("##", str(2 * number)).replace("#", str(number)) for number in numbers
            )
            for text in (self.text, self.behind)
        )
        return LoopKernel(self.name, body, self.before, behind, self.directives)


_DOUBLES = {"DADD": "R8, R8", "DMUL": "R8, R8", "DFMA": "R8, R8, R8"}
_SHARED, _SHARED_EACH = ".shared 256", f".shared {4 * WARP_THREADS * _WARPS}"
CLASSES: tuple[InstructionClass, ...] = (
    InstructionClass("arithmetic: IADD to IADD", "IADD R5, R5, 0x1"),
    InstructionClass("arithmetic: XMAD to XMAD", "XMAD R5, R5, R5, R5"),
    InstructionClass("carry: IADD.CC to IADD.X", "IADD.X R5.CC, R5, R5"),
    InstructionClass("predicate: ISETP to operand", "ISETP.NE.AND P1, PT, R5, RZ, P1"),
    InstructionClass("predicate: ISETP to guard", "@!P1 ISETP.NE.AND P1, PT, R5, RZ, PT"),
    InstructionClass("product: IMUL to IMUL", "IMUL R5, R5, R5"),
    InstructionClass("field: BFE to BFE", "BFE R5, R5, R6"),
    InstructionClass("bytes: PRMT to PRMT", "PRMT R5, R5, R6, R5"),
    InstructionClass("address: LEA.HI to LEA.HI", "LEA.HI R5, R5, R6, R5, 0x2"),
    InstructionClass("conversion: POPC to POPC", "POPC R5, R5"),
    InstructionClass("conversion: I2I to I2I", "I2I.U32.U16 R5, R5"),
    *(
        InstructionClass(f"double: {name} to {name}", f"{name} R8, {operands}", doubles=True)
        for name, operands in _DOUBLES.items()
    ),
    InstructionClass(
        "double: DFMA to DFMA, one thread active",
        "@P0 DFMA R8, R8, R8, R8",
        _ONE_THREAD,
        doubles=True,
    ),
    InstructionClass("double: DFMA, independent", "DFMA R##, R8, R8, R8", doubles=True),
    InstructionClass("S2R", "S2R R5, SR_LANEID"),
    InstructionClass("VOTE to VOTE", "VOTE.ANY R5, P1, P1"),
    InstructionClass("SHFL to SHFL", "SHFL.BFLY PT, R5, R5, 0x1, 0x1f"),
    InstructionClass(
        "LDC to LDC", "LDC R5, c[0x2][R5]", directives=".const 2 zeros\n.word 0, 0, 0, 0"
    ),
    InstructionClass("LDS to LDS", "LDS R5, [R5]", directives=_SHARED),
    InstructionClass("STS", "STS [RZ], R5", directives=_SHARED),
    InstructionClass("LDG to LDG", "LDG.E.64 R2, [R2]", before=_CHAIN),
    InstructionClass("STG", "STG.E [R2], R5", before=_POINTER),
    InstructionClass("ATOM to ATOM, one address", "ATOM.E.ADD R5, [R2], R5", before=_POINTER),
    InstructionClass(
        "ATOM to ATOM of floats, one address",
        "ATOM.E.ADD.F32.FTZ.RN R5, [R2], R5",
        before=_POINTER,
        floats=True,
    ),
    InstructionClass("ATOMS to ATOMS, one address", "ATOMS.ADD R5, [RZ], R5", directives=_SHARED),
    InstructionClass("MEMBAR.CTA", "MEMBAR.CTA"),
    InstructionClass("MEMBAR.GL", "MEMBAR.GL"),
    *(
        InstructionClass(
            f"BAR.SYNC, {warps} {'warp' if warps == 1 else 'warps'}", "BAR.SYNC 0x0", warps=warps
        )
        for warps in (1, 8)
    ),
    InstructionClass("BRA, taken", "BRA .B#\n.B#:"),
    InstructionClass("BRA, not taken", "@P1 BRA turn"),
    InstructionClass("EXIT, not taken", "@P1 EXIT"),
    InstructionClass("BRX", "BRX R6 0x0"),
    InstructionClass("MOV32I to BRX", "MOV32I R6, 0x0\nBRX R6 0x0"),
    InstructionClass("SSY, SYNC", "SSY .J#\nSYNC\n.J#:"),
    InstructionClass("PBK, BRK", "PBK .J#\nBRK\n.J#:"),
    InstructionClass("CAL, RET", "CAL .F#", behind=".F#:\nRET"),
    InstructionClass(
        "SSY, BRA that diverges, SYNC, SYNC",
        "SSY .J#\n@P0 BRA .D#\nSYNC\n.D#:\nSYNC\n.J#:",
        before=_HALF,
    ),
    *(
        InstructionClass(
            f"SSY, {code.split(maxsplit=1)[0]}, SYNC",
            f"SSY .J#\n{code}\nSYNC\n.J#:",
            directives=_SHARED,
        )
        for code in ("LDS R5, [R5]", "STS [RZ], R5", "BAR.SYNC 0x0")
    ),
    InstructionClass(
        f"RED of floats, consecutive words, {_WARPS} warps",
        "RED.E.ADD.F32.FTZ.RN [R2], R5",
        _OWN_WORD,
        warps=_WARPS,
        floats=True,
    ),
    *(
        InstructionClass(
            f"{name}, {_WARPS} warps", text, before, directives=directives, warps=_WARPS
        )
        for name, text, before, directives in (
            ("LDG, coalesced", "LDG.E R#, [R2]", _OWN_WORD, ""),
            ("STG, coalesced", "STG.E [R2], R5", _OWN_WORD, ""),
            ("RED, consecutive words", "RED.E.ADD [R2], R5", _OWN_WORD, ""),
            ("LDS, no conflict", "LDS R#, [R4]", _OWN_PLACE, _SHARED_EACH),
            ("STS, no conflict", "STS [R4], R5", _OWN_PLACE, _SHARED_EACH),
            ("ATOMS, consecutive words", "ATOMS.ADD R#, [R4], R5", _OWN_PLACE, _SHARED_EACH),
            ("IADD", "IADD R#, R5, 0x1", "", ""),
            ("PRMT", "PRMT R#, R5, R6, R5", "", ""),
            ("SHFL", "SHFL.BFLY PT, R#, R5, 0x1, 0x1f", "", ""),
            ("POPC", "POPC R#, R5", "", ""),
        )
    ),
    *(
        InstructionClass(
            f"{name}, {_WARPS} warps", f"{name} R##, {operands}", warps=_WARPS, doubles=True
        )
        for name, operands in _DOUBLES.items()
    ),
)
"""The measured classes. Predicate P1, R5, R6, R8 and R9 are initially 0."""


@dataclass(frozen=True)
class ClassRow:
    """The result of a class.

    Attributes:
        warps: Number of warps.
        instructions: Instructions of a repetition, of one warp.
        cycles: Cycles of one repetition of all warps.
        stall: Sum of the stall counts of a repetition, as NVIDIA's assembler sets them at least.
    """

    name: str
    warps: int
    instructions: float
    cycles: float
    stall: float

    @property
    def per_instruction(self) -> float:
        """Cycles of an instruction, over all warps."""
        return self.cycles / self.instructions / self.warps

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {"cycles_per_instruction": self.per_instruction}


def class_table(
    machine: BenchmarkMachine,
    names: Sequence[str] | None = None,
    iterations: tuple[int, int] = (2, 34),
) -> list[ClassRow]:
    """Returns a row for every class, or for those in ``names``.

    The cost of the loop itself cancels out, since it also runs with twice as many repetitions. The
    end of a grid is detected some cycles late, so few iterations give rough figures. A class with
    more warps than the machine has is measured with the machine's warps.
    """
    rows = []
    chosen = [
        each
        for each in CLASSES
        if (names is None or each.name in names)
        and (machine.params.floats or not each.floats)
        and (machine.params.doubles or not each.doubles)
    ]
    for each in tqdm(chosen, unit=" classes", disable=None, leave=False):
        warps = min(each.warps, machine.params.warps)
        modules = [each.loop(count).module() for count in (_REPETITIONS, 2 * _REPETITIONS)]
        once, twice = (machine.steady(module, warps, iterations) for module in modules)
        repeated = _REPETITIONS * (iterations[1] - iterations[0])
        stall = (stall_cycles(modules[1]) - stall_cycles(modules[0])) / _REPETITIONS
        rows.append(
            ClassRow(
                each.name,
                warps,
                (twice["instructions"] - once["instructions"]) / repeated / warps,
                (twice["cycles"] - once["cycles"]) / repeated,
                stall,
            )
        )
    return rows


def class_text(rows: list[ClassRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.name,
            f"{row.warps}",
            f"{row.instructions:g}",
            f"{row.cycles:.1f}",
            f"{row.per_instruction:.1f}",
            f"{row.stall:g}",
        )
        for row in rows
    ]
    return table(
        f"Cycles by class of instructions; memory answers after {LATENCY} cycles",
        ("class", "warps", "instructions", "cycles", "cycles/instruction", "NVIDIA's stall"),
        lines,
    )
