"""Instructions that the machine refuses by name: the list against words from NVIDIA's disassembler,
and the message.

The words of ``data/refused_words.txt`` are legal for NVIDIA's disassembler: all opcodes found of
instructions for which the table has no form.
"""

import struct
from pathlib import Path

import pytest

from rtl.isa.absent import ABSENT, absent
from rtl.isa.errors import WarpError
from rtl.isa.legality import REFUSALS, encoding_error, refusal_of
from rtl.isa.syntax import RZ
from rtl.isa.table import FORMS, find
from sim.dis import main as disassemble
from sim.run import main as run
from sim.toolchain.assembly.spelling import ILLEGAL, spell
from sim.toolchain.cubin.elf_reader import read_object
from testbench import refusal
from testbench.programs import PROGRAMS
from testbench.toolchain.test_words import rows

DATA = Path(__file__).parents[1] / "data" / "refused_words.txt"
TEX = 0xC03800000007000F


def words() -> list[tuple[int, str]]:
    """Returns word and mnemonic of every line."""
    lines = (line.split() for line in DATA.read_text().splitlines() if not line.startswith("#"))
    return [(int(word, 16), name) for word, name in lines]


def test_what_nvidia_reads_is_refused_by_name():
    """An instruction that gets a form must be removed from the list, and its words from the file."""
    for word, name in words():
        row = absent(word)
        assert find(word) is None, (
            f"{word:016x} is {name}: it has a form, and is in rtl.isa.absent still"
        )
        assert row is not None and row.name == name, (hex(word), name)
        assert encoding_error(word, RZ) is WarpError.ILLEGAL_INSTR_ENCODING


def test_every_row_is_of_words_that_nvidia_reads():
    seen = {id(absent(word)) for word, _ in words()}
    assert [f"{row.name} {row.match:04x}" for row in ABSENT if id(row) not in seen] == []


def test_what_has_a_form_is_not_on_the_list():
    """Words with a text and words that their form refuses are not found either, nor are undefined
    words.
    """
    assert all(absent(word) is None for word, _, text in rows() if text != ILLEGAL)
    assert absent(0) is None and absent(0xF1F0_0000_0007_0000) is None
    assert not {row.name for row in ABSENT} & {form.name for form in FORMS}


def test_the_run_and_the_disassembler_tell_the_name(tmp_path, capsys):
    text = tmp_path / "k.sass"
    text.write_text(f".kernel k; NOP; .raw {TEX:#018x}; EXIT")
    line = refusal.refused(capsys, run, [str(text), "--engine", "model"])
    assert line.endswith(
        f"kernel k, 0x0010: this machine has no instruction {TEX:016x} TEX: there are no textures"
    )
    raw = tmp_path / "k.bin"
    raw.write_bytes(struct.pack("<4Q", 0, TEX, TEX, TEX))
    assert disassemble([str(raw), "--raw"]) == 0
    assert capsys.readouterr().out.count(f"/* {TEX:#018x} */ // TEX: there are no textures") == 3


def test_the_list_has_a_line_for_everything(capsys):
    assert disassemble(["--refused"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines, key=lambda line: line.split()[1]) == lines
    assert len(set(lines)) == len(lines)
    names = {line.split()[1] for line in lines}
    assert names == {row.name for row in ABSENT} | {
        name for refused in REFUSALS for name in refused.names
    }
    assert any("TEX " in line and line.endswith("there are no textures") for line in lines)
    assert any("(operation .SAFEADD)" in line for line in lines)


def test_no_binary_of_a_compiler_has_a_word_of_the_list():
    """The page gives their number."""
    paths = sorted(PROGRAMS.rglob("*.cubin"))
    page = (Path(__file__).parents[2] / "docs" / "refused.md").read_text()
    assert f"none of the {len(paths)} binaries of NVIDIA's compilers" in page
    compiled: set[int] = set()
    for path in paths:
        for section in read_object(path.read_bytes(), path.name).sections.values():
            if section.name.startswith(".text."):
                words = struct.unpack(f"<{len(section.content) // 8}Q", section.content)
                compiled |= {word for at, word in enumerate(words) if at % 4}  # no control words
    assert len(compiled) > 40_000
    for word in compiled:
        form = find(word)
        assert form is not None and refusal_of(form, form.values(word)) is None, f"{word:016x}"


@pytest.mark.parametrize("arguments", [[], ["--refused", "k.cubin"]])
def test_the_list_takes_no_file_and_else_there_is_one(capsys, arguments):
    line = refusal.refused(capsys, disassemble, arguments)
    assert line.removeprefix("python -m sim.dis: ") in (
        "the following arguments are required: IN",
        "--refused takes no file",
    )


def test_a_word_of_the_list_has_no_text():
    assert {spell(word) for word, _ in words()} == {ILLEGAL}
