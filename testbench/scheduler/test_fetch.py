"""The fetch unit: its predecoder against the instruction table, its groups against the memory."""

import random
from dataclasses import replace
from functools import partial

import pytest

from rtl.fetch import Predecoder, kind_of
from rtl.fetch.outcomes import Outcomes
from rtl.fetch.predecode import CONSTANT_FIELDS, PLACES
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode
from rtl.isa.legality import encoding_error, exists, register_groups, rules
from rtl.isa.rate import quarter_rules
from rtl.isa.special_registers import SPECIAL_REGISTER_TEXTS
from rtl.isa.syntax import Constant
from rtl.isa.table import BY_NAME, FORMS, find
from rtl.layouts import InstructionKind as Kind
from rtl.machines import units_of
from rtl.params import SmParams
from rtl.serial.fetch import InstructionDiagram, WalkingPredecoder
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour, MemoryServer
from testbench import simulation
from testbench.kernels.manifest import RUNS, build
from testbench.scheduler import tb_scheduler
from testbench.scheduler.fetch_driver import fetch_driver
from testbench.scheduler.fetch_image import PROGRAM, Image, random_image, random_word
from testbench.simulation import failure, simulate
from testbench.words import encode, form_of

SMALL = SmParams(warps=4, lanes=4, instruction_groups=32, constant_words=64)
SERIAL = replace(SMALL, lanes=1, floats=False, doubles=False)
BOTH = pytest.mark.parametrize("params", [SMALL, SERIAL], ids=["pipelined", "serial"])


passes = partial(simulation.passes, "scheduler")


def kernel_words():
    """Every instruction word of some kernels."""
    words = set()
    for kernel in list(RUNS.values())[::9]:
        launch = build(kernel, "O3")
        words |= {
            launch.memory.read_number(launch.program_base + at, 8)
            for at in range(0, launch.program_size, 8)
        }
    return sorted(words)


def table_words(source):
    """Words of all forms, undefined words, and words of kernels."""
    words = [random_word(source) for _ in range(1500)] + kernel_words()[:500]
    return words + [form.match | source.getrandbits(64) & ~form.mask for form in FORMS]


def compare_with_table(got, word, registers, parameters):
    """Compares the outputs of a predecoder with the instruction table; returns the error."""
    form, error = find(word), encoding_error(word, registers, *parameters)
    assert got.error == error.value, f"{word:#018x}, {registers} registers"
    assert got.kind is (kind_of(form) if form and error is WarpError.NONE else Kind.REFUSED), (
        f"{word:#018x}"
    )
    if (
        form is not None
        and exists(form, *parameters)
        and error is not WarpError.ILLEGAL_INSTR_ENCODING
    ):
        where = [
            (form.fields[operand.offset], form.fields[operand.bank])
            for operand in form.operands.values()
            if isinstance(operand, Constant) and operand.index is None
        ]
        assert got.constant == (1 + CONSTANT_FIELDS.index(where[0]) if where else 0), (
            f"{word:#018x}"
        )
    return error


_ERRORS = {
    WarpError.NONE,
    WarpError.ILLEGAL_INSTR_ENCODING,
    WarpError.OOR_REG,
    WarpError.MISALIGNED_REG,
}


@pytest.mark.parametrize("parameters", [(False, False), (True, False), (True, True)])
def test_the_predecoder_says_what_the_table_says(parameters):
    source, dut = random.Random(7), Predecoder(*parameters)

    async def body(ctx):
        errors = set()
        for word in table_words(source):
            registers = source.choice([16, 40, 64, 254, 255])
            ctx.set(dut.word, word)
            ctx.set(dut.registers, registers)
            await ctx.tick()
            errors.add(compare_with_table(ctx.get(dut.predecoded), word, registers, parameters))
        assert errors == _ERRORS

    simulate(dut, body)


def test_the_predecoder_that_walks_says_the_same():
    source, dut = random.Random(7), WalkingPredecoder(False, False)
    words = table_words(source)

    async def body(ctx):
        errors, slow = set(), 0
        groups = [
            encode("LDS", size=size, Rd=register)
            for size in (4, 5, 6)
            for register in (0, 1, 2, 3, 12, 14, 15)
        ]
        for word in groups + source.sample(words, 200):
            registers = source.choice([16, 255])
            ctx.set(dut.word, word)
            ctx.set(dut.registers, registers)
            ctx.set(dut.works, 1)
            await ctx.tick().until(dut.done)
            ctx.set(dut.works, 0)
            got = ctx.get(dut.predecoded)
            error = compare_with_table(got, word, registers, (False, False))
            if error is WarpError.NONE:
                form = form_of(word)
                quarter = any(rule(form.values(word)) for rule in quarter_rules(form))
                assert got.quarter == quarter, f"{word:#018x}"
                slow += quarter
            errors.add(error)
            await ctx.tick().repeat(source.randint(1, 3))
            assert ctx.get(dut.predecoded) == got, "it does not stay"
        assert errors == _ERRORS and slow

    simulate(dut, body)


def test_the_table_as_a_diagram():
    source, table = random.Random(8), InstructionDiagram(False, False)
    for word in table_words(source):
        facts, form, error = (
            table.facts_of(word),
            find(word),
            encoding_error(word, 255, False, False),
        )
        assert facts.illegal == (error is WarpError.ILLEGAL_INSTR_ENCODING), f"{word:#018x}"
        if form is not None and not facts.illegal:
            assert facts.kind is kind_of(form), f"{word:#018x}"
            groups = register_groups(form, form.values(word))
            sizes = [
                max(
                    (size for name, size in groups.items() if form.fields[name] == place), default=0
                )
                for place in PLACES
            ]
            assert [(0, 1, 2, 4)[code] for code in facts.groups] == sizes, f"{word:#018x}"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        (encode("SSY", "i", target=0), Kind.PUSH),
        (encode("PRET", "c"), Kind.PUSH),
        (encode("BRA", "i"), Kind.FLOW),
        (encode("CAL", "i"), Kind.FLOW),
        (encode("EXIT"), Kind.FLOW),
        (encode("BRX", "r"), Kind.FLOW_INDEXED),
        (encode("JMX", "c"), Kind.FLOW_INDEXED),
        (encode("SETCRSPTR"), Kind.FLOW_INDEXED),
        (encode("GETLMEMBASE"), Kind.FLOW_READ),
        (encode("CCTLL", "stack"), Kind.FLOW),
        (encode("LDG"), Kind.MEMORY),
        (encode("POPC", "r"), Kind.CONVERSION),
        (encode("IMAD", "r"), Kind.LANES),
        (encode("P2R", "i"), Kind.LANES),
        (encode("S2R"), Kind.LANES),
        (encode("BAR", "ii", mode=BarrierMode.SYNC.value), Kind.BARRIER),
        (encode("BAR", "ir", mode=BarrierMode.ARV.value), Kind.BARRIER_INDEXED),
        (encode("R2B"), Kind.BARRIER_INDEXED),
        (encode("B2R", "barrier"), Kind.BARRIER_READ),
        (encode("BPT"), Kind.TRAP),
        (encode("NOP"), Kind.NOTHING),
        (encode("DEPBAR", "zero"), Kind.DEPENDENCY),
    ],
)
def test_a_word_is_predecoded_to_its_kind(word, kind):
    form = form_of(word)
    assert kind_of(form) is kind


def test_a_rule_is_tabulated_over_the_fields_that_it_looks_at():
    (form,) = BY_NAME["S2R"]
    (rule,) = rules(form)
    condition = Outcomes(form, rule).when(bool)
    assert condition.fields == (form.fields["special"],)
    assert condition.codes == set(range(256)) - SPECIAL_REGISTER_TEXTS.keys()


def test_random_programs_are_fetched_in_order():
    assert passes(tb_scheduler.check_fetch, 1).checks["groups, random"] > 200


def test_random_programs_of_a_serial_machine():
    def body(bench: Bench) -> None:
        tb_scheduler.check_fetch(bench, SERIAL, 2200)

    checks = passes(body, 1).checks
    assert checks["groups, random"] > 100 and checks["constants, random"] > 10, checks


def test_groups_of_the_kernels_are_fetched_as_they_are():
    assert passes(tb_scheduler.check_kernels).checks["groups, of the kernels"] > 100


@BOTH
def test_caches_are_emptied_while_warps_run(params):
    def body(bench: Bench) -> None:
        image = random_image(bench.random, 20, 40)
        for chance in (0.002, 0.02):
            behaviour = MemoryBehaviour(latency=(1, 20), stall=0.1, reorder=True)
            driver = fetch_driver(bench, image, params, behaviour, invalidates=chance)
            driver.run(1500)
            bench.expect(
                "whether groups and words came", driver.groups > 20 and driver.words > 5, True
            )

    passes(body)


def test_redirects_while_lines_and_constants_are_waited_for():
    """In a program larger than the cache a redirected warp misses and can't continue while another
    one is redirected.
    """

    def body(bench: Bench) -> None:
        image = random_image(bench.random, 150, 40)
        for chance in (0.2, 0.6):
            behaviour = MemoryBehaviour(latency=(10, 40), stall=0.1, reorder=True)
            driver = fetch_driver(bench, image, SMALL, behaviour, redirects=chance, takes=0.6)
            driver.run(5000)
            bench.expect(
                "whether groups and constants came",
                driver.groups > 100 and driver.constants > 30,
                True,
            )

    passes(body, 1)


@BOTH
def test_what_was_written_is_seen_behind_an_invalidation(params):
    """A written line is read from the cache until the cache is invalidated, and from memory
    afterwards.
    """
    old, new = (Image(bytes([kind]) * 256, {}, 40) for kind in (1, 2))
    words, dut = [], units_of(params).fetch(params)
    server = MemoryServer(dut.memory, old.memory, MemoryBehaviour(), random.Random(0))

    async def fetch(ctx):
        ctx.set(dut.room, 0)
        ctx.set(dut.redirect.valid, 1)
        ctx.set(dut.redirect.payload, {"warp": 1, "pc": 8})
        await ctx.tick()
        ctx.set(dut.redirect.valid, 0)
        ctx.set(dut.room, 0b10)
        words.append(
            (await ctx.tick().sample(dut.group.payload).until(dut.group.valid))[0]
            .instructions[0]
            .word
        )

    async def body(ctx):
        ctx.set(dut.grid, old.grid)
        await fetch(ctx)
        old.memory.write(PROGRAM, new.memory.read(PROGRAM, 256))
        await fetch(ctx)
        ctx.set(dut.invalidate, 1)
        await ctx.tick()
        ctx.set(dut.invalidate, 0)
        await fetch(ctx)

    simulate(dut, body, background=[server.serve])
    before, after = (int.from_bytes(bytes([kind]) * 8) for kind in (1, 2))
    assert words == [before, before, after]


@BOTH
def test_a_pc_outside_of_the_program_is_a_fault_of_memory(params):
    def body(bench: Bench) -> None:
        image = random_image(bench.random, 8, 40)
        driver = fetch_driver(bench, image, params, MemoryBehaviour(), redirects=0.05, outside=1.0)
        driver.run(300)
        bench.expect("whether there were groups", driver.groups > 5, True)

    passes(body)


class Wrong(Image):
    """An image with a wrong expectation for one instruction of each group."""

    change: dict = {}

    def group(self, pc):
        first, *others = super().group(pc)
        return [replace(first, **self.change), *others]


@pytest.mark.parametrize(
    "change",
    [
        {"word": 1},
        {"control": 1},
        {"kind": Kind.TRAP},
        {"error": WarpError.DIVERGENT},
        {"constant": 5},
    ],
)
def test_a_wrong_group_is_seen(change):
    def body(bench: Bench) -> None:
        Wrong.change = change
        image = Wrong(bytes(64 * 32), {}, 40)
        fetch_driver(bench, image, SMALL, MemoryBehaviour(), redirects=0.1, outside=0.0).run(300)

    assert failure("scheduler", body)
