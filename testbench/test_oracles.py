"""The two oracles, which share no idea, against each other and against what the kernels' PTX says.

The warp oracle has masks, stacks and vectors of threads; the thread oracle runs every thread by itself.
"""

import random

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ, Form
from rtl.isa.table import FORMS, find
from sim.launch import Launch
from sim.model import thread
from sim.model.scalar.state import FaultError
from sim.model.vector.operations import OPERATIONS
from sim.model.warp import Machine
from sim.toolchain.spelling import spell
from testbench.handmade import machine, warp_of
from testbench.programs.expected import complaints
from testbench.programs.manifest import LEVELS, RUNS, Run, build

LIMIT = 1_000_000


def on_warps(run: Run, level: str, **kind) -> Launch:
    """The launch of a run, ended on the warp oracle."""
    launch = build(run, level)
    result = Machine(launch, **kind).run(LIMIT)
    assert result.status == ("error" if run.traps else "ok"), result
    assert not run.traps or (result.error_status is not None and result.error_status.error is WarpError.NONE)
    return launch


def on_threads(run: Run, level: str) -> Launch:
    """The same on the thread oracle."""
    launch = build(run, level)
    assert (thread.run(launch).trap is not None) == run.traps
    return launch


def memory(launch: Launch) -> dict[str, bytes]:
    """Every byte of global memory that a kernel can name: buffers and module variables."""
    regions = {name: launch.memory.regions[name] for name in (*launch.buffers, "globals")}
    return {name: launch.memory.read(*region) for name, region in regions.items()}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RUNS)
def test_both_leave_the_same_memory_and_what_the_ptx_says(name, level):
    run = RUNS[name]
    launch = on_warps(run, level)
    assert complaints(run, level, launch) == []
    if not run.compared:
        assert memory(launch) == memory(on_threads(run, level))


@pytest.mark.parametrize("name", RUNS)
def test_any_order_of_warps_and_few_slots_leave_the_same_memory(name):
    run = RUNS[name]
    slots = build(run, "O3").warps
    launch = on_warps(run, "O3", warps=slots, order=1)
    assert complaints(run, "O3", launch) == []
    if not run.compared and not run.traps:
        assert memory(launch) == memory(on_warps(run, "O3"))


EDGES = [0, 1, 2, 31, 32, 33, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001,
         0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0x7FC00000, 0x4F800000, 0x4F000000, 0xCF000000]
REGISTERS = 16
# VOTE needs neighbours, and a move's lane mask threads of other numbers: the thread oracle's single steps have neither.
ARITHMETIC = [form for form in FORMS if form.name in OPERATIONS and form.name != "VOTE" and "lanes" not in form.fields]


def random_word(source: random.Random, form: Form) -> int:
    """A word of a form, any field at any value."""
    word = form.match
    for name, field in form.fields.items():
        if name in ("Rd", "Ra", "Rb", "Rc"):
            value = source.choice([RZ, 2 * source.randrange(REGISTERS // 2), source.randrange(REGISTERS)])
        elif name in ("bank", "offset"):
            value = {"bank": 2, "offset": 4 * source.randrange(32)}[name]
        elif name in ("guard", "guard_not"):
            value = {"guard": 7, "guard_not": 0}[name]
        else:
            value = source.choice(field.bounds)
        word = field.put(word, value)
    return word


def differs(form: Form, values: dict[str, int]) -> str:
    """Why the oracles may come to different ends: choices of each that no fact decides."""
    if form.name == "IMNMX" and values["cc"]:
        return "how CC carries the verdict between the words of a minimum"
    if form.name == "IADD3" and (values["cc"] or values["extended"]):
        return "where CC holds the second carry of a sum of three"
    if form.name == "LEA.HI" and values["negate_a"] and values["extended"]:
        return "what a negated scaled pair continues"
    return ""


@pytest.mark.parametrize("seed", range(40))
def test_single_instructions_compute_the_same(seed):
    source = random.Random(seed)
    bank = bytes(source.getrandbits(8) for _ in range(256))
    compared = 0
    for _ in range(60):
        form = source.choice(ARITHMETIC)
        word = random_word(source, form)
        if find(word) is not form or form.refuses(values := form.values(word)) or differs(form, values):
            continue
        made = machine([word], constants={2: bank})
        warp = warp_of(made)
        for number in range(REGISTERS):
            warp.registers[number] = [source.choice(EDGES) if source.random() < 0.5 else source.getrandbits(32)
                                      for _ in range(32)]
        warp.predicates[:7] = [source.getrandbits(32) for _ in range(7)]
        condition = warp.condition
        condition.zero, condition.sign, condition.carry, condition.overflow = (source.getrandbits(32) for _ in range(4))
        number = source.randrange(32)
        registers = {index: int(warp.registers[index][number]) for index in range(REGISTERS)}
        predicates = [mask >> number & 1 for mask in warp.predicates[:7]]
        flags = int(condition.nibbles()[number])
        record = made.retire(0)
        try:
            step = thread.step(word, registers, predicates=predicates, condition=flags, banks=made.launch.banks)
        except FaultError:
            continue  # a mode that one of them refuses
        if record.error is not WarpError.NONE:
            continue
        compared += 1
        where = f"{word:#x} {spell(word)}, registers {registers}, CC {flags:04b}"
        assert [int(warp.registers[index][number]) for index in range(REGISTERS)] == list(
            step.registers[:REGISTERS]), where
        assert [mask >> number & 1 for mask in warp.predicates[:7]] == list(step.predicates)[:7], where
        assert int(warp.condition.nibbles()[number]) == step.condition, where
    assert compared > 15
