"""External faults: a shorter form of the testbench; that it detects errors; damaged files."""

import re
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtl.isa.qmd import QMD
from rtl.params import PRESETS
from sim.checks.testbench import CheckError
from sim.engine import CompiledEngine
from sim.machine import memory_service
from sim.machine.memory_service import MemoryService
from sim.toolchain.module import ProgramError
from testbench import simulation
from testbench.engine.designs import needs_compiled
from testbench.faults import guided
from testbench.faults.check import check
from testbench.faults.descriptors import wrong_values
from testbench.faults.files import READERS, read_or_refuse, samples
from testbench.faults.memory_errors import LATE, MemoryErrors
from testbench.programs import PROGRAMS
from testbench.refusal import refused
from testbench.sm.random_programs import random_program

DATA = Path(__file__).parents[1] / "data"
CUBINS = (
    DATA / "toolchain_two_kernels.cubin",
    DATA / "constant_pointers.debug.cubin",
    PROGRAMS / "k06_switch_brx.O3.cubin",
)
TEXT = random_program(Random(7), 8, flow=True).text
_HEADER_AT, _HEADER_BYTES, _COUNT_AT = 40, 64, 60
"""ELF64 offset of the section table's address, size of a section header, offset of the number of
sections.
"""

passes = partial(simulation.passes, "faults")


@needs_compiled
def test_a_memory_with_errors_and_late_answers_ends_as_the_model_says():
    report = passes(check)
    assert report.checks["memory errors that end with MMU_FAULT"]
    assert report.checks["late answers"]
    assert report.cycles > LATE


@needs_compiled
def test_cycles_are_those_of_all_runs():
    machine = MemoryErrors(PRESETS["tiny"], CompiledEngine)
    first = machine.cycles
    for runs in (1, 2):
        passes(lambda bench: machine.check_late(bench, [3, 9]))
        assert machine.cycles > first + runs * LATE


@needs_compiled
def test_a_memory_error_that_is_not_reported_is_detected(monkeypatch):
    """Memory that answers with zeros instead of an error leaves wrong results."""

    def silent(self, request):
        request.error, wrong = False, request.error
        original(self, request)
        if wrong and not request.fields["write"]:
            request.answer &= (1 << self._answer["data"][0]) - 1

    original = MemoryService._do
    machine = MemoryErrors(PRESETS["tiny"], CompiledEngine)
    monkeypatch.setattr(memory_service.MemoryService, "_do", silent)
    seen = []

    def count(bench):
        for number in range(8, 24):
            try:
                machine.check_error(bench, number)
            except CheckError as error:
                seen.append(str(error))

    passes(count)
    assert any("leaves 0x" in message for message in seen)


def test_every_field_of_a_descriptor_is_wrong_once():
    wrongs = list(wrong_values(Random(0)))
    assert {name for name, _, _ in wrongs} == set(QMD)
    assert ("QMD_VERSION", 0, 0) in wrongs


def swapped(content: bytes, one: int, other: int) -> bytes:
    """Returns an ELF file with two of its section headers exchanged."""
    table = int.from_bytes(content[_HEADER_AT : _HEADER_AT + 8], "little")
    count = int.from_bytes(content[_COUNT_AT : _COUNT_AT + 2], "little")
    headers = [
        content[at : at + _HEADER_BYTES]
        for at in range(table, table + count * _HEADER_BYTES, _HEADER_BYTES)
    ]
    one, other = one % count, other % count
    headers[one], headers[other] = headers[other], headers[one]
    return content[:table] + b"".join(headers) + content[table + count * _HEADER_BYTES :]


def flipped(content: bytes, bits: list[int]) -> bytes:
    """Returns the content with some bits inverted."""
    damaged = bytearray(content)
    for bit in bits:
        damaged[bit // 8 % len(damaged)] ^= 1 << bit % 8
    return bytes(damaged)


BITS = st.lists(st.integers(0, 1 << 20), max_size=6)


@settings(max_examples=120)
@given(st.sampled_from(CUBINS), st.integers(0, 30), st.integers(0, 30), BITS)
def test_cubins_with_sections_swapped_and_bits_inverted_are_launched_or_refused(
    path, one, other, bits
):
    read_or_refuse("cubin", flipped(swapped(path.read_bytes(), one, other), bits))


@settings(max_examples=60)
@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), BITS)
def test_assembler_texts_that_are_cut_and_inverted_are_assembled_or_refused(first, last, bits):
    read_or_refuse(
        "sass", flipped((TEXT[:first] + TEXT[max(first, last) :] or "\n").encode(), bits)
    )


@pytest.mark.parametrize("kind", READERS)
def test_files_as_they_are_are_read(kind):
    few = list(islice(samples(kind), 5))
    assert len(few) == 5
    assert all(read_or_refuse(kind, content) for content in few)


def test_what_is_refused_in_more_than_a_line_is_seen(monkeypatch):
    def refuse(_content):
        raise ProgramError("a\nb")

    monkeypatch.setitem(READERS, "sass", refuse)
    with pytest.raises(AssertionError, match="not a line"):
        read_or_refuse("sass", b"")


@pytest.mark.skipif(find_spec("atheris") is not None, reason="atheris is installed")
def test_guided_files_without_atheris_are_refused(capsys):
    assert refused(capsys, guided.main, ["sass"]).endswith("pip install -e '.[guided]'")


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
def test_guided_files_reach_more_than_the_files_they_begin_with(tmp_path, capfd):
    assert guided.main(["sass", "--seconds", "2", "--corpus", str(tmp_path / "kept")]) == 0
    assert re.fullmatch(
        r"[\d,]+ sass files, of which [\d,]+ reach other places: .* one line\n",
        capfd.readouterr().out,
    )
    assert any((tmp_path / "kept").iterdir())


def test_the_output_of_libfuzzer_for_a_fault_is_reported(capsys):
    said = (
        " === Uncaught Python exception: ===\nKeyError: 'x'\nTraceback\n\n==8128== ERROR: libFuzzer: x\n"
        "artifact_prefix='./'; Test unit written to ./crash-39\nstat::new_units_added:          523\n"
    )
    assert guided.outcome("sass", False, said) == 1
    assert capsys.readouterr().out == "KeyError: 'x'\nTraceback\n./crash-39: this file does it\n"
    assert guided.outcome("sass", False, "no such library") == 1
    assert capsys.readouterr().out == "no such library\n"


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_the_table_of_sections_is_where_these_tests_look_for_it(path):
    content = path.read_bytes()
    assert swapped(content, 0, 0) == content
    assert swapped(content, 1, 2) != content
