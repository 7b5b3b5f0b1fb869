"""Reachability: exactly the code that a kernel's threads can reach is checked against the machine
before a run.
"""

from pathlib import Path

import pytest

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from sim.run import main
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load, read_cubin
from sim.toolchain.module import Module
from sim.toolchain.reachability import reachable_instructions
from testbench import refusal
from testbench.programs import CUBINS
from testbench.words import encode

UNKNOWN = ".raw 0xc03800000007000f"  # TEX


def module(text: str) -> Module:
    return load(assemble(text, "text.sass"))


def has_unknown(text: str, entry: str = "k") -> bool:
    """Returns whether a kernel reaches UNKNOWN."""
    made = module(text)
    return any(
        f"{word:#018x}" in UNKNOWN for _, word in reachable_instructions(made, made.kernels[entry])
    )


def refused(capsys, path: Path, *arguments: str) -> str:
    """Returns the line on stderr of a run that is refused."""
    line = refusal.refused(capsys, main, [str(path), "--engine", "model", *arguments])
    return line.removeprefix(f"python -m sim.run: {path}: ")


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.stem)
def test_every_instruction_but_padding_can_be_reached(path):
    """The last EXIT is followed by a branch to itself and NOPs; once there is a SYNC after a
    branch.
    """
    made = read_cubin(path)
    kernel = made.kernel()
    found = {place for place, _ in reachable_instructions(made, kernel)}
    content = made.code.content
    words = {
        place: int.from_bytes(content[place : place + INSTRUCTION_BYTES], "little")
        for place in range(0, len(content), INSTRUCTION_BYTES)
        if place % 32
    }
    itself = (
        -INSTRUCTION_BYTES,
        -2 * INSTRUCTION_BYTES,
    )  # a group's first instruction has the group's address
    padding = {encode("NOP"), *(encode("BRA", "i", target=distance) for distance in itself)}
    spare = {encode("SYNC")} if path.stem == "k51_nqueens.O0" else set()
    assert {words[place] for place in words.keys() - found} <= padding | spare
    assert found <= words.keys()


@pytest.mark.parametrize(
    "body",
    [
        f"EXIT; {UNKNOWN}",
        f"BRA L; {UNKNOWN}; L: EXIT",
        f"SSY L; SYNC; {UNKNOWN}; L: EXIT",
        f"CAL f; EXIT; f: RET; {UNKNOWN}",
        f"JMP f; {UNKNOWN}; f: EXIT",
    ],
)
def test_unreachable_code(body):
    assert not has_unknown(f".kernel k; {body}")


@pytest.mark.parametrize(
    "body",
    [
        f"@P0 EXIT; {UNKNOWN}",
        f"BRA CC.NE, L; {UNKNOWN}; L: EXIT",
        f"@P0 BRA L; EXIT; L: {UNKNOWN}",
        f"SSY L; SYNC; L: {UNKNOWN}",
        f"CAL f; {UNKNOWN}; EXIT; f: RET",
        f"CAL f; EXIT; f: {UNKNOWN}; RET",
        f"PBK L; BRK; L: {UNKNOWN}",
        f"PCNT L; CONT; L: {UNKNOWN}",
        f"PRET L; RET; L: {UNKNOWN}",
        f"PEXIT L; EXIT; L: {UNKNOWN}",
        f"PLONGJMP L; LONGJMP; L: {UNKNOWN}",
        f"BPT.TRAP 0x1; {UNKNOWN}",
        f"BRX R0 -.next; EXIT; {UNKNOWN}",
        f"BRA c[0x2][0x0]; {UNKNOWN}",
        f"JMX R0; {UNKNOWN}",
        f"BAR.SYNC 0x0; {UNKNOWN}",
    ],
)
def test_reachable_code(body):
    assert has_unknown(f".kernel k; {body}")


@pytest.mark.parametrize("body", ["BRX R0 -.next", "BRA c[0x2][0x0]", "JMX R0", "EXIT"])
def test_where_a_branch_may_go_anywhere_that_is_every_instruction_of_its_code(body):
    """The control code at the start of each group of three and other code are excluded."""
    made = module(f".kernel other; NOP; NOP; EXIT\n.kernel k; {body}; {'NOP; ' * 9}EXIT")
    kernel = made.kernels["k"]
    found = [place for place, _ in reachable_instructions(made, kernel)]
    code = range(kernel.entry, kernel.entry + 4 * GROUP_BYTES, INSTRUCTION_BYTES)
    everywhere = [place for place in code if place % GROUP_BYTES]
    assert kernel.entry and sorted(found) == (everywhere if body != "EXIT" else everywhere[:1])


FUNCTIONS = f"""
.function good; RET; .end
.function bad; {UNKNOWN}; RET; .end
.function table_only; RET; .end
"""


@pytest.mark.parametrize(
    ("body", "comes"),
    [
        ("JCAL good; EXIT", False),
        ("JCAL bad; EXIT", True),
        ("JMP bad", True),
        ("MOV32I R0, 32@lo(bad); PRET L; JMX R0; L: EXIT", True),
        ("MOV32I R0, 32@lo(good); PRET L; JMX R0; L: EXIT", False),
        ("PRET L; JMX R0; L: MOV32I R0, 32@lo(bad); EXIT", True),
        ("MOV32I R0, 32@lo(bad); EXIT", False),
        ("@P0 BRA J; MOV32I R0, 32@lo(bad); EXIT; J: JMX R0", True),
        ("MOV32I R0, 32@lo(bad); BRX R0 -.next; EXIT", False),
    ],
)
def test_functions_that_all_may_call(body, comes):
    assert (
        has_unknown(f".kernel other; JCAL bad; EXIT\n.kernel k; {body}\n.end\n{FUNCTIONS}") == comes
    )
    assert has_unknown(
        f".kernel other; JCAL bad; EXIT\n.kernel k; {body}\n.end\n{FUNCTIONS}", "other"
    )


def test_functions_in_tables():
    table = "\n.global table; .word {}\n"
    indirect, direct = (
        ".kernel k; PRET L; JMX R0; L: EXIT\n.end\n",
        ".kernel k; JCAL good; EXIT\n.end\n",
    )
    assert has_unknown(indirect + FUNCTIONS + table.format("bad"))
    assert not has_unknown(indirect + FUNCTIONS + table.format("table_only"))
    assert not has_unknown(direct + FUNCTIONS + table.format("bad"))


TWO = """
.kernel good; EXIT
.kernel bad; CAL helper; EXIT
.function helper; NOP; {}; RET
"""


def test_a_function_of_another_kernel_refuses_nothing(tmp_path, capsys):
    path = tmp_path / "two.sass"
    path.write_text(TWO.format(UNKNOWN))
    assert main([str(path), "--engine", "model", "--entry", "good"]) == 0
    capsys.readouterr()
    assert (
        refused(capsys, path, "--entry", "bad")
        == "kernel bad, function helper, 0x0068: this machine has no instruction c03800000007000f TEX: "
        "there are no textures"
    )


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (
            encode("LOP32I", Rd=1, Ra=2, imm32=5, extended=1),
            " LOP32I.AND.X R1, R2, 0x5: no public document says what it does",
        ),
        (
            encode("VABSDIFF4", "parts", Rd=1, Ra=2, Rb=3, Rc=4, saturate=1),
            " VABSDIFF4.SAT R1, R2, R3, R4: compiled code takes all bytes of two registers in their order, "
            "without bounds",
        ),
        (encode("IADD32I", Rd=1, Ra=2, plus_one=1), ""),
    ],
)
def test_forms_that_are_no_instructions_are_refused(tmp_path, capsys, word, text):
    path = tmp_path / "two.sass"
    path.write_text(TWO.format(f".raw {word:#018x}"))
    assert (
        refused(capsys, path, "--entry", "bad")
        == f"kernel bad, function helper, 0x0068: this machine has no instruction {word:016x}{text}"
    )


@pytest.mark.parametrize("line", ["MOV R200, R0", "IADD R0, R3, R201"])
def test_registers_beyond_the_launch_are_the_run_s_error(tmp_path, capsys, line):
    path = tmp_path / "one.sass"
    path.write_text(f".kernel k; .registers 8; {line}; EXIT")
    assert main([str(path), "--engine", "model"]) == 1
    assert "OOR_REG" in capsys.readouterr().out
