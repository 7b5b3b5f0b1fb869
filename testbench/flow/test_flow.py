"""The flow unit: its parts against the instruction table, the unit by its testbench."""

import random
import re
from dataclasses import replace
from functools import partial

import pytest

from rtl.execute.condition import CONDITION_TABLES, ConditionTest
from rtl.flow import FlowDecoder
from rtl.flow.target import TargetResolver
from rtl.flow_forms import FLOW_FORMS
from rtl.isa.condition import TRUTH
from rtl.isa.errors import WarpError
from rtl.isa.syntax import Constant, Target
from rtl.isa.table import FORMS, find
from rtl.layouts import FlowOperation, ThreadCode
from rtl.params import PRESETS
from sim.checks.testbench import Bench
from testbench import simulation
from testbench.flow import tb_flow
from testbench.flow.cases import directed
from testbench.flow.driver import FlowDriver
from testbench.flow.serial_cycles import check_serial_cycles
from testbench.flow.steps import Stream
from testbench.project.test_manual import DOCS, table
from testbench.simulation import combinational, failure

passes = partial(simulation.passes, "flow")


def random_word(source, form):
    """A random word of a form: any value in any field, the opcode bits unchanged."""
    word = form.match
    for field in form.fields.values():
        if not field.mask & form.mask:
            word = field.put(
                word,
                source.choice([field.bounds[0], field.bounds[-1], source.choice(field.bounds)]),
            )
    return word


def test_the_decoder_reads_what_the_table_says():
    source, dut = random.Random(0), FlowDecoder()
    words = [(form, random_word(source, form)) for form in FORMS for _ in range(4)]

    async def body(ctx):
        seen = set()
        for form, word in words:
            ctx.set(dut.word, word)
            got = ctx.get(dut.instruction)
            if find(word) not in FLOW_FORMS:
                assert got.operation is FlowOperation.NONE, hex(word)
                continue
            seen.add((form.name, form.variant))
            values = form.values(word)
            for name in ("uniform", "limited", "counted", "keep_reference"):
                if name in values:
                    assert got[name] == values[name], (hex(word), name)
            target = form.operands.get("target")
            sets = form.name in ("SETCRSPTR", "SETLMEMBASE")
            assert got.constant == (sets or isinstance(target, Constant))
            if isinstance(target, Target):
                assert got.offset == values["target"] & 0xFFFF_FFFF
                assert got.relative == target.relative
            if isinstance(target, Constant | Target):
                assert got.indexed == (target.index is not None)
        assert seen == {(form.name, form.variant) for form in FLOW_FORMS}

    combinational(dut, body)


def test_what_leaves_has_the_code_of_the_token_that_it_waits_for():
    codes = {
        "SYNC": ThreadCode.NONE,
        "BRK": ThreadCode.BREAK,
        "CONT": ThreadCode.CONTINUE,
        "RET": ThreadCode.RETURN,
        "EXIT": ThreadCode.EXIT,
        "LONGJMP": ThreadCode.LONGJMP,
        "KIL": ThreadCode.KILLED,
    }
    dut = FlowDecoder()

    async def body(ctx):
        for form in FLOW_FORMS:
            ctx.set(dut.word, form.default | form.match)
            got = ctx.get(dut.instruction)
            assert (got.operation is FlowOperation.LEAVE) == (form.name in codes)
            assert form.name not in codes or got.code is codes[form.name]

    combinational(dut, body)


def test_every_condition_of_every_flag():
    dut = ConditionTest()

    async def body(ctx):
        for offset in (0, 5):
            ctx.set(
                dut.flags.as_value(),
                sum(((thread + offset) % 16) << 4 * thread for thread in range(32)),
            )
            for test, truth in enumerate(TRUTH):
                ctx.set(dut.test.as_value(), CONDITION_TABLES[test])
                passed = ctx.get(dut.passed)
                assert passed == sum(
                    (truth >> (thread + offset) % 16 & 1) << thread for thread in range(32)
                ), test

    combinational(dut, body)


def test_targets_against_python():
    source, dut = random.Random(1), TargetResolver(PRESETS["tiny"])
    edges = [0, 8, 4, 0x7FFF_FFF8, 0x8000_0000, 0xFFFF_FFF0, 0xFFFF_FFF8]

    def number():
        return source.choice(
            [source.choice(edges), source.getrandbits(29) << 3, source.getrandbits(32)]
        )

    def signed(value, is_signed):
        return value - (1 << 32) * (is_signed and value >> 31)

    async def body(ctx):
        seen = set()
        for _ in range(3000):
            pc, operand, offset = number(), number(), number()
            relative, form = (
                source.getrandbits(1),
                source.choice(["plain", "indexed", "constant", "both"]),
            )
            pushes = source.random() < 0.3
            indexed, constant = form in ("indexed", "both"), form in ("constant", "both")
            fault = source.choice([WarpError.NONE, WarpError.NONE, WarpError.OOR_ADDR])
            ctx.set(dut.request.pc, pc & ~7)
            ctx.set(dut.request.operand, operand)
            ctx.set(dut.request.fault, fault)
            ctx.set(
                dut.request.instruction,
                {
                    "operation": FlowOperation.PUSH if pushes else FlowOperation.BRANCH,
                    "relative": relative,
                    "indexed": indexed,
                    "constant": constant,
                    "offset": offset,
                },
            )
            total = (pc & ~7) + 8 if relative else 0
            total += signed(operand, relative) if indexed or constant else 0
            total += 0 if constant else signed(offset, relative or indexed)
            expected = WarpError.NONE
            if fault is not WarpError.NONE and (indexed or constant):
                expected = fault
            elif not 0 <= total < 1 << 32:
                expected = WarpError.PC_WRAP
            elif total % 8 and not pushes:
                expected = WarpError.MISALIGNED_PC
            assert (ctx.get(dut.target.pc), ctx.get(dut.target.error)) == (
                total & 0xFFFF_FFFF,
                expected,
            )
            seen.add(expected)
        assert len(seen) == 4

    combinational(dut, body)


def test_each_flow_instruction_leaves_the_masks_and_tokens_of_the_model():
    assert passes(tb_flow.check_directed).checks["instructions, directed"] > 1500


def test_flow_instructions_take_the_documented_cycles():
    figures = passes(tb_flow.check_speed).figures
    rates = {row[0]: row[1] for row in table(DOCS / "benchmarks.md", "## The flow unit", "rate")}
    jumps, _ = figures["instructions a cycle, 8 warps that jump"]
    assert rates["flow instructions, 8 warps that jump"] == f"{jumps:.2f} a cycle"
    (row,) = [
        row
        for row in table(DOCS / "units" / "flow.md", "## Cycles", "from")
        if row[:2] == ["an instruction", "another warp's"]
    ]
    assert row[2].startswith(f"{1 / jumps:.0f};")
    pushes, _ = figures["cycles a push, 600 on end, memory taking a line per 4"]
    row = "consecutive pushes of one warp, 600 of them"
    assert rates[row].startswith(f"1 in {pushes:g} cycles")


def test_serial_flow_instructions_take_the_documented_cycles():
    passes(check_serial_cycles)


def test_random_flow_instructions_agree_with_the_model():
    assert passes(tb_flow.check_random, 1).checks["instructions, random"] > 2000


def test_the_serial_flow_unit_agrees_with_the_model():
    report = passes(tb_flow.check_serial)
    assert report.checks["instructions, directed, serial"] > 400
    assert report.checks["instructions, random, serial"] > 200


def test_the_flow_of_the_kernels_agrees_with_the_model():
    report = passes(tb_flow.check_programs)
    assert report.checks["instructions, of the kernels"] > 3000
    ((_, rows),) = report.tables
    means = {name: mean for name, _, mean, *_ in rows[1:]}
    page = " ".join((DOCS / "benchmarks.md").read_text(encoding="utf-8").split())
    found = re.search(
        r"reports for the kernels ([\d.]+) to ([\d.]+) cycles on average for branches, calls, EXIT, BRK, RET and SYNC, "
        r"and (\d+) for CCTLL\.CRS\.WBALL\.",
        page,
    )
    assert found is not None
    least, most, written_back = map(float, found.groups())
    # The memory's latency is random, and differs from that in the whole testbench.
    assert abs(means["CCTLL"] - written_back) < 2
    for name in ("BRA", "BRX", "CAL", "EXIT", "BRK", "RET", "SYNC"):
        assert least - 0.1 <= means[name] <= most + 0.1, name


@pytest.mark.parametrize("what", ["active", "codes", "pc_after", "depth", "error"])
def test_a_wrong_result_is_seen(what):
    def body(bench: Bench) -> None:
        life = next(life for life in directed() if life.name.startswith("BRA: nobody"))
        steps = list(life.steps)
        wrong = WarpError.DIVERGENT if what == "error" else getattr(steps[-1], what) ^ 8
        steps[-1] = replace(steps[-1], **{what: wrong})
        FlowDriver(bench, 1, [Stream(life.name, life.start, steps)], idle=0.9).run()

    assert what.split("_")[0] in failure("flow", body)
