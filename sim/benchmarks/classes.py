"""Cycles that an instruction takes, by class: one warp alone, each instruction depends on the one before it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tqdm import tqdm

from sim.benchmarks.machine import BenchmarkMachine, Loop, stall_cycles

__all__ = ["CLASSES", "ClassRow", "InstructionClass", "class_table"]

_POINTER = "MOV R2, c[0x0][buffer]\nMOV R3, c[0x0][buffer+4]"
_CHAIN = f"{_POINTER}\nSTG.E.64 [R2], R2"
_REPETITIONS = 6
"""In a turn of the loop. A multiple of 6: code is padded to two groups of three instructions."""
_HALF = "S2R R5, SR_LANEID\nISETP.LT.AND P0, PT, R5, 0x10, PT"


@dataclass(frozen=True)
class InstructionClass:
    """A class of instructions: text that is repeated, in the loop and ``behind`` the kernel's EXIT, with ``#`` for the
    number of the repetition in labels. ``before`` is executed once.
    """

    name: str
    text: str
    before: str = ""
    behind: str = ""
    directives: str = ""
    warps: int = 1

    def loop(self, count: int) -> Loop:
        """A loop around so many repetitions."""
        body, behind = ("\n".join(text.replace("#", str(number)) for number in range(count))
                        for text in (self.text, self.behind))
        return Loop(self.name, body, self.before, behind, self.directives)


_SHARED = ".shared 256"
CLASSES: tuple[InstructionClass, ...] = (
    InstructionClass("arithmetic: IADD to IADD", "IADD R5, R5, 0x1"),
    InstructionClass("arithmetic: XMAD to XMAD", "XMAD R5, R5, R5, R5"),
    InstructionClass("carry: IADD.CC to IADD.X", "IADD.X R5.CC, R5, R5"),
    InstructionClass("predicate: ISETP to operand", "ISETP.NE.AND P1, PT, R5, RZ, P1"),
    InstructionClass("predicate: ISETP to guard", "@!P1 ISETP.NE.AND P1, PT, R5, RZ, PT"),
    InstructionClass("product: IMUL to IMUL", "IMUL R5, R5, R5"),
    InstructionClass("conversion: POPC to POPC", "POPC R5, R5"),
    InstructionClass("conversion: I2I to I2I", "I2I.U32.U16 R5, R5"),
    InstructionClass("S2R", "S2R R5, SR_LANEID"),
    InstructionClass("VOTE to VOTE", "VOTE.ANY R5, P1, P1"),
    InstructionClass("SHFL to SHFL", "SHFL.BFLY PT, R5, R5, 0x1, 0x1f"),
    InstructionClass("LDC to LDC", "LDC R5, c[0x2][R5]", directives=".const 2 zeros\n.word 0, 0, 0, 0"),
    InstructionClass("LDS to LDS", "LDS R5, [R5]", directives=_SHARED),
    InstructionClass("STS", "STS [RZ], R5", directives=_SHARED),
    InstructionClass("LDG to LDG", "LDG.E.64 R2, [R2]", before=_CHAIN),
    InstructionClass("STG", "STG.E [R2], R5", before=_POINTER),
    InstructionClass("ATOM to ATOM, one address", "ATOM.E.ADD R5, [R2], R5", before=_POINTER),
    InstructionClass("ATOMS to ATOMS, one address", "ATOMS.ADD R5, [RZ], R5", directives=_SHARED),
    InstructionClass("MEMBAR.CTA", "MEMBAR.CTA"),
    InstructionClass("MEMBAR.GL", "MEMBAR.GL"),
    *(InstructionClass(f"BAR.SYNC, {warps} {'warp' if warps == 1 else 'warps'}", "BAR.SYNC 0x0", warps=warps)
      for warps in (1, 8)),
    InstructionClass("BRA, taken", "BRA .B#\n.B#:"),
    InstructionClass("BRA, not taken", "@P1 BRA turn"),
    InstructionClass("EXIT, not taken", "@P1 EXIT"),
    InstructionClass("BRX", "BRX R6 0x0"),
    InstructionClass("MOV32I to BRX", "MOV32I R6, 0x0\nBRX R6 0x0"),
    InstructionClass("SSY, SYNC", "SSY .J#\nSYNC\n.J#:"),
    InstructionClass("PBK, BRK", "PBK .J#\nBRK\n.J#:"),
    InstructionClass("CAL, RET", "CAL .F#", behind=".F#:\nRET"),
    InstructionClass("SSY, BRA that diverges, SYNC, SYNC", "SSY .J#\n@P0 BRA .D#\nSYNC\n.D#:\nSYNC\n.J#:",
                     before=_HALF),
)
"""What is measured. Predicate P1 and R5, R6 are 0 at the start."""


@dataclass(frozen=True)
class ClassRow:
    """Instructions and cycles of a repetition, and the sum of its stall counts, which are what NVIDIA's assembler
    leaves at least.
    """

    name: str
    instructions: float
    cycles: float
    stall: float

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def class_table(machine: BenchmarkMachine, names: Sequence[str] | None = None,
                turns: tuple[int, int] = (2, 34)) -> list[ClassRow]:
    """A row for every class, or for those with these names. The loop's own instructions drop out: it is run with twice
    as many repetitions, too. The end of a grid is seen some cycles late: few turns give rough figures.

    A class with more warps than the machine has is measured with those that it has.
    """
    rows = []
    chosen = [each for each in CLASSES if names is None or each.name in names]
    for each in tqdm(chosen, unit=" classes", disable=None, leave=False):
        warps = min(each.warps, machine.params.warps)
        modules = [each.loop(count).module() for count in (_REPETITIONS, 2 * _REPETITIONS)]
        once, twice = (machine.steady(module, warps, turns) for module in modules)
        repeated = _REPETITIONS * (turns[1] - turns[0])
        stall = (stall_cycles(modules[1]) - stall_cycles(modules[0])) / _REPETITIONS
        rows.append(ClassRow(each.name, (twice["instructions"] - once["instructions"]) / repeated / warps,
                             (twice["cycles"] - once["cycles"]) / repeated, stall))
    return rows
