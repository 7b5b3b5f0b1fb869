"""The memory unit: its parts against the instruction table and Python's numbers, the unit by its
testbench.
"""

import random
from collections import Counter
from functools import partial

import numpy as np
import pytest
from amaranth.hdl import Fragment, Value

from rtl.isa.effects import effects
from rtl.isa.errors import WarpError
from rtl.isa.kinds import FloatRounding
from rtl.isa.legality import encoding_error
from rtl.isa.syntax import PT, RZ
from rtl.layouts import InstructionKind
from rtl.machines import units_of
from rtl.memory import MEMORY_FORMS, MemoryDecoder
from rtl.memory.atomic import AtomicArithmetic, AtomicPipeline
from rtl.memory.float_adder import FLOAT_ADDER_CYCLES, FloatAdder
from rtl.memory.instruction import MemoryOperation
from rtl.params import LOCAL_WINDOW, PRESETS, SHARED_WINDOW, SmParams
from sim.model.thread.access import ATOMICS, atomic_change
from testbench import simulation
from testbench.driver import offer
from testbench.execute.singles import EDGES, singles
from testbench.handmade import encode
from testbench.memory import tb_memory
from testbench.memory.cases import conflicts, lines_of
from testbench.memory.coverage import (
    EXPECTED,
    LEAST_LINES_UNDER_WAY,
    LEAST_OVERLAP,
    LEAST_WAITING,
    MemoryCoverage,
)
from testbench.memory.random_accesses import random_world
from testbench.memory.world import BUFFER, REGISTERS, MemoryStep, MemoryWorld
from testbench.model.test_single import expected, flushed
from testbench.simulation import combinational

CHECKS = (
    tb_memory.check_least,
    tb_memory.check_serial,
    tb_memory.check_lines,
    tb_memory.check_banks,
    tb_memory.check_rates,
    tb_memory.check_fills,
    tb_memory.check_edges,
    tb_memory.check_faults,
    tb_memory.check_local_base,
    tb_memory.check_clear,
    tb_memory.check_float_sums,
    tb_memory.check_swaps,
    tb_memory.check_shuffles,
)


passes = partial(simulation.passes, "memory")


def legal_words(source, form, count):
    """Legal words of a form, with any value in each field."""
    while count:
        word = form.match
        for field in form.fields.values():
            if not field.mask & form.mask:
                word = field.put(
                    word,
                    source.choice([field.bounds[0], field.bounds[-1], source.choice(field.bounds)]),
                )
        if encoding_error(word, REGISTERS) is WarpError.NONE:
            count -= 1
            yield word


def test_the_decoder_reads_and_writes_the_registers_that_the_table_says():
    source, dut = random.Random(0), MemoryDecoder(floats=True)
    words = [(form, word) for form in MEMORY_FORMS for word in legal_words(source, form, 12)]

    async def body(ctx):
        for form, word in words:
            ctx.set(dut.word, word)
            got, used = ctx.get(dut.instruction), effects(form, form.values(word))
            if got.operation is MemoryOperation.NONE:
                assert form.name in ("MEMBAR", "CCTL", "CCTLL")
                continue
            first, second = ([int(register) for register in gather] for gather in got.gathers)
            reads = {*first, *(second if got.second else ())} - {RZ}
            assert reads == used.reads, (form.name, form.variant, hex(word))
            written = (
                range(got.destination, got.destination + got.results)
                if got.destination != RZ
                else ()
            )
            assert set(written) == used.writes, (form.name, form.variant, hex(word))
            assert {got.predicate} - {PT} == used.predicate_writes
            assert bool(got.results) == bool(used.writes or used.predicate_writes)

    combinational(dut, body)


@pytest.mark.parametrize("wide", [False, True])
def test_atomic_arithmetic_agrees_with_the_thread_model(wide):
    """Every operation, signed and unsigned, on numbers at the edges and in between."""
    source, dut, bits = random.Random(wide), AtomicArithmetic(), 64 if wide else 32
    edges = [0, 1, 2, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits - 1) + 1, (1 << bits) - 1]

    async def body(ctx):
        ctx.set(dut.wide, wide)
        numbers = [*edges, *(source.getrandbits(bits) for _ in range(6))]
        for old in numbers:
            for operand in (*numbers, old):
                ctx.set(dut.old, old)
                ctx.set(Value.cast(dut.operands)[:64], operand)
                for operation in ATOMICS:
                    for is_signed in (False, True):
                        ctx.set(dut.instruction.atomic, operation)
                        ctx.set(dut.instruction.is_signed, is_signed)
                        expected = atomic_change(operation, bits, is_signed)(old, operand)
                        assert (ctx.get(dut.new) - expected) % (1 << bits) == 0, (
                            operation,
                            hex(old),
                            hex(operand),
                            is_signed,
                        )
                ctx.set(dut.instruction.compare, 1)
                ctx.set(Value.cast(dut.operands)[64:], 3)
                assert (ctx.get(dut.new), ctx.get(dut.equal)) == (
                    3 if old == operand else old,
                    old == operand,
                )
                ctx.set(dut.instruction.compare, 0)

    combinational(dut, body)


def sums():
    """Operands and their sums as computed by MPFR and by numpy, with subnormal numbers flushed.

    Operands at the edges, near each other, far apart, and pairs that nearly cancel, or of which one
    is just at half of the other's last bit.
    """
    source = random.Random(0)
    first, second, _ = singles(source, 3000)
    pairs = [*((a, b) for a in EDGES for b in EDGES), *zip(first, second, strict=True)]
    for distance in range(30):
        for _ in range(20):
            large, small = (
                source.randrange(40, 230) << 23 | source.getrandbits(23),
                source.getrandbits(32),
            )
            small = small & 0x807F_FFFF | (large >> 23) - distance << 23
            pairs += [
                (large, small),
                (small & 0xFF80_0000, large),
                (small & 0xFFC0_0001, large & 0xFFFF_FFFE),
            ]
            pairs.append((large, (large ^ 1 << 31) + source.randrange(-2, 3)))
    for a, b in pairs:
        total = expected(a, 0x3F80_0000, b, FloatRounding.RN, True)
        with np.errstate(all="ignore"):
            x, y = (np.array([flushed(word, True)], np.uint32).view(np.float32) for word in (a, b))
            assert np.isnan(x + y) or flushed(int((x + y).view(np.uint32)[0]), True) == total
        yield a, b, total


def test_the_adder_of_floats_is_mpfr_s():
    """The adder takes operands every cycle; the sum follows FLOAT_ADDER_CYCLES later."""
    dut, cases = FloatAdder(), list(sums())

    async def body(ctx):
        for number in range(len(cases) + FLOAT_ADDER_CYCLES):
            if number < len(cases):
                ctx.set(dut.a, cases[number][0])
                ctx.set(dut.b, cases[number][1])
            if number >= FLOAT_ADDER_CYCLES:
                a, b, total = cases[number - FLOAT_ADDER_CYCLES]
                assert ctx.get(dut.sum) == total, (
                    hex(a),
                    hex(b),
                    hex(ctx.get(dut.sum)),
                    hex(total),
                )
            await ctx.tick()

    simulation.simulate(dut, body)


@pytest.mark.parametrize("floats", [False, True])
def test_the_adder_is_there_only_with_floats(floats):
    dut = AtomicPipeline(SmParams(floats=floats, doubles=False))
    parts = {name for _, name, _ in Fragment.get(dut, None).subfragments}
    assert ("adder" in parts) == floats and "arithmetic" in parts


def test_lines_and_conflicts_by_hand():
    """The expected lines and conflicts for patterns whose result is known without a formula."""
    word_each = {thread: 4 * thread for thread in range(32)}
    assert lines_of(word_each, 4) == 2
    assert lines_of({0: 60, 1: 64}, 4) == 2
    for loads in (False, True):
        assert conflicts(word_each, 4, 8, loads=loads) == 8
        assert conflicts({thread: 8 * thread for thread in range(32)}, 4, 8, loads=loads) == 8
        assert conflicts({thread: 32 * thread for thread in range(32)}, 4, 8, loads=loads) == 32
        assert conflicts(dict.fromkeys(range(32), 12), 4, 8, loads=loads) == (4 if loads else 8)
        assert conflicts({thread: 16 * thread for thread in range(32)}, 16, 8, loads=loads) == (
            32 if loads else 64
        )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_directed_check_of_the_memory_unit_passes(check):
    passes(check)


def test_random_instructions_agree_with_the_reference_machine():
    """The overlaps must also reach LEAST_OVERLAP and the other limits."""
    reached = []
    report = passes(lambda bench: reached.append(tb_memory.check_random(bench)), seed=1)
    assert report.checks["random instructions"] >= 180
    ((_, (_, *rows)),) = report.tables
    assert rows == reached[0].rows()
    assert (
        sum(count for what, count in rows if what.startswith("instructions accepted"))
        == report.checks["random instructions"]
    )


def test_random_instructions_reach_everything():
    """Every coverage point; the short form of the testbench need not reach all of them."""
    coverage, source = MemoryCoverage(), random.Random(1)
    for mask in (tb_memory.ALL_REPORTED, 0):
        coverage.take(random_world(source, 800, mask).steps)
    assert coverage.missing() == []


def test_missing_coverage_is_reported():
    coverage = MemoryCoverage()
    assert len(coverage.missing()) == sum(map(len, EXPECTED.values()))
    assert coverage.shallow() == [
        f"instructions that have read registers at once: 0, not {LEAST_OVERLAP}",
        f"instructions accepted at once: 0, not {LEAST_WAITING}",
        f"lines under way at once: 0, not {LEAST_LINES_UNDER_WAY}",
    ]
    coverage.read_registers(LEAST_OVERLAP)
    coverage.accepted(LEAST_WAITING)
    coverage.requested(Counter({LEAST_LINES_UNDER_WAY: 3}))
    assert coverage.shallow() == []


@pytest.mark.parametrize(
    "form, fields, value, reached",
    [
        (
            "LDG",
            {"size": 4, "wide": 1},
            lambda thread: BUFFER + 4 * thread,
            "lines of global memory: 2",
        ),
        (
            "STG",
            {"size": 4, "wide": 1},
            lambda thread: BUFFER + 64 * thread,
            "lines of global memory: 17 to 32",
        ),
        ("LDL", {"size": 5}, lambda thread: 8, "lines of local memory: 3 to 4"),
        ("STS", {"size": 4}, lambda thread: 4 * thread, "conflict degree: 1"),
        ("STS", {"size": 5}, lambda thread: 8 * thread, "conflict degree: 2"),
        ("STS", {"size": 4}, lambda thread: 0, "conflict degree: 1"),
        (
            "LD",
            {"size": 4},
            lambda thread: SHARED_WINDOW + 128 * (thread % 8),
            "conflict degree: 5 to 8",
        ),
        ("LD", {"size": 4}, lambda thread: LOCAL_WINDOW + 4, "lines of local memory: 2"),
        (
            "ATOMS",
            {"operation": 0, "type": 0},
            lambda thread: 4 * (thread // 16),
            "threads of an atomic operation at one word: 9 to 16",
        ),
        (
            "LDG",
            {"size": 4, "wide": 1},
            lambda thread: BUFFER + 2,
            "error: MISALIGNED_ADDR, reported",
        ),
    ],
)
def test_what_an_access_counts_as(form, fields, value, reached):
    world = MemoryWorld(tb_memory.ALL_REPORTED)
    world.set_pair(0, 0, map(value, range(32)))
    coverage = MemoryCoverage()
    variant = [""] if form == "ATOMS" else []
    coverage.take([world.execute(MemoryStep(0, encode(form, *variant, Ra=0, Rd=64, **fields)))])
    assert [what for what, count in coverage.rows() if count] == [reached]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [({"warp": 1, "local_base": 7}, {"warp": 0, "base": 9})], id="in the same cycle"
        ),
        pytest.param(
            [(None, {"warp": 0, "base": 9}), ({"warp": 1, "local_base": 7}, None)],
            id="launch behind the move",
        ),
        pytest.param(
            [
                ({"warp": 1, "local_base": 7}, {"warp": 0, "base": 9}),
                ({"warp": 1, "local_base": 8}, None),
            ],
            id="another launch behind both",
        ),
        pytest.param(
            [({"warp": 1, "local_base": 7}, None), (None, {"warp": 0, "base": 9})],
            id="move behind the launch",
        ),
        pytest.param(
            [
                (None, {"warp": 0, "base": 9}),
                *[(None, None)] * 4,
                ({"warp": 0, "local_base": 7}, None),
            ],
            id="the moved warp's slot launched again",
        ),
    ],
)
@pytest.mark.parametrize("preset", ["tiny", "least"])
def test_a_warp_has_the_local_memory_of_its_last_launch_or_move(preset, events):
    """Warps 0 and 1 are launched; then these launches and moves (SETLMEMBASE) follow, a pair in
    each cycle.
    """
    params = PRESETS[preset]
    dut = units_of(params).memory(params)
    launches = [({"warp": warp, "local_base": 5 + warp}, None) for warp in range(2)]
    expected = {}
    for launch, move in launches + events:
        if launch:
            expected[launch["warp"]] = launch["local_base"]
        if move:
            expected[move["warp"]] = move["base"]
    found = {}

    async def body(ctx):
        for launch, move in launches + events:
            offer(ctx, dut.launch, launch)
            offer(ctx, dut.local_base, move)
            await ctx.tick()
        offer(ctx, dut.launch, None)
        offer(ctx, dut.local_base, None)
        await ctx.tick().repeat(4)
        for warp in expected:
            offer(
                ctx,
                dut.dispatch,
                {"warp": warp, "word": encode("LDL", Ra=RZ, Rd=4), "kind": InstructionKind.MEMORY},
            )
            entry = dut.front.queue.arriving.payload if preset == "tiny" else None
            if entry is not None:
                found[warp] = ctx.get(entry.local_base)
            await ctx.tick()
            offer(ctx, dut.dispatch, None)
            if entry is None:
                found[warp] = ctx.get(dut._local_base)
                await ctx.tick().repeat(200)
        assert found == expected

    simulation.simulate(dut, body)
