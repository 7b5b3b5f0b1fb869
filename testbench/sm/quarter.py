"""Instructions of the full lanes at the least distance from other instructions that compiled code
may have.
"""

from collections.abc import Iterator
from random import Random

from rtl.execute.decode import LANE_FORMS
from rtl.isa.rate import quarter_rate, quarter_rules
from rtl.isa.syntax import PT, Form, Pipe
from sim.launch import Launch
from sim.toolchain.assembly.spelling import spell
from testbench.pipeline.random_programs import random_word
from testbench.sm.errors import launch_text

QUARTER_FORMS = tuple(form for form in LANE_FORMS if quarter_rules(form))
"""Forms of which some words, or all, execute on the full lanes only."""
_HEAD = """.kernel close
.param out 8
.registers 32
.const 2 table
.word 0x1234567, 0x89abcdef, 0x204, 0x5
    S2R R5, SR_TID.X
    XMAD R6, R5, 0x4e35, R5
    SHL R7, R6, 0x9
    ISETP.LT.AND P0, PT, R5, 0x9, PT
    ISETP.NE.AND P3, PT, R7, 0x200, PT
    IADD R6.CC, R6, R7
"""
_REGISTER, _GUARD = 6, 13
"""Cycles to a reader of a register, and to a guard."""
_LONG = 15
"""Cycles to any reader of a product, or of a move between registers and predicates."""
_CONSTANTS = 4


def _word(source: Random, form: Form, *registers: int) -> int:
    """A random word of a form with these registers: the result and the operands."""
    while True:
        word = random_word(source, form)
        names = [name for name in ("Rd", "Ra", "Rb", "Rc") if name in form.fields]
        for name in names:
            word = form.fields[name].put(word, registers[("Rd", "Ra", "Rb", "Rc").index(name)])
        for name, value in (
            ("guard", PT),
            ("guard_not", 0),
            ("Pd", 1),
            ("bank", 2),
            ("offset", 4 * source.randrange(_CONSTANTS)),
        ):
            if name in form.fields:
                word = form.fields[name].put(word, value)
        if quarter_rate(word):
            return word


def _lines(source: Random, form: Form) -> Iterator[str]:
    """Instructions of a form, among others that read their results and write their operands."""
    long = _REGISTER if form.pipe is Pipe.ALU else _LONG

    def line(stall: int, text: str) -> str:
        return f"[S{stall:02}] {text}"

    def quarter(stall: int, *registers: int) -> str:
        return line(stall, spell(_word(source, form, *registers), 0))

    yield quarter(long, 4, 5, 6, 7)
    yield line(_REGISTER, "IADD R8, R4, R5")
    yield quarter(long, 9, 8, 4, 7)
    yield quarter(1, 10, 9, 6, 8)
    yield quarter(long - _REGISTER + 1, 11, 5, 6, 7)
    yield line(_REGISTER, "LOP32I.XOR R5, R6, 0x10203")
    yield line(_REGISTER, "IADD R7, R10, R7")
    yield quarter(_GUARD, 6, 6, 5, 7)
    yield line(_REGISTER, "@P1 IADD32I R8, R8, 0x7")
    yield quarter(long, 5, 8, 5, 6)
    yield line(_REGISTER, "IADD.X R7.CC, R5, R8")


def close_program(source: Random) -> Launch:
    """A program with instructions of every form, in random order."""
    forms = list(QUARTER_FORMS)
    source.shuffle(forms)
    text = [
        _HEAD,
        *(f"    {line}\n" for form in forms for line in _lines(source, form)),
        "    EXIT\n",
    ]
    return launch_text("".join(text), block=64)
