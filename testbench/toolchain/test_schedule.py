"""The assembler's control codes satisfy the machine's latency contract on every path through the
code.

The checker below is written from the contract and shares no code with the scheduler: it follows
every result along all paths of a thread and checks every instruction that uses it. NVIDIA's own
code passes it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtl.isa.condition import ConditionCode
from rtl.isa.control_code import NO_BARRIER, ControlCode, instruction_address, pack
from rtl.isa.effects import Effects, effects
from rtl.isa.syntax import Form, Pipe, Target
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.nvinfo import Attribute, decode
from sim.toolchain.cubin.object_file import ObjectFile, Section, SectionRole, info_name
from sim.toolchain.listing.code_listing import instructions
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import ProgramError
from testbench.programs import CUBINS
from testbench.words import form_of

# The contract: the smallest distances in code of NVIDIA's assembler
ALU_TO_ALU, ALU_TO_MEMORY, TO_BRANCH_REGISTER, PREDICATE = 6, 2, 7, 13
CARRY, CONDITION_TO_BRANCH, PRODUCT, PREDICATES_TO_REGISTER = 6, 13, 15, 15
SCOREBOARD_SEEN = 2
LONGEST = 15
VARIABLE = (Pipe.MEMORY, Pipe.CONVERSION, Pipe.DOUBLE, Pipe.SYSTEM)
ANNOUNCED = (*VARIABLE, Pipe.MULTIPLY)  # products have a fixed latency, but also use scoreboards
LATE_READERS = (Pipe.MEMORY, Pipe.CONVERSION, Pipe.DOUBLE)
PUSHES = {
    "SSY": "SYNC",
    "PBK": "BRK",
    "PCNT": "CONT",
    "PRET": "RET",
    "PEXIT": "EXIT",
    "PLONGJMP": "LONGJMP",
}
POPS = {pop: push for push, pop in PUSHES.items()}
CALLS = ("CAL", "JCAL")


@dataclass(frozen=True)
class DecodedInstruction:
    """A decoded instruction."""

    address: int
    form: Form
    values: dict
    effects: Effects
    code: ControlCode
    text: str

    @property
    def may_not(self) -> bool:
        """Whether a guard may prevent threads from executing it."""
        guard = (self.values.get("guard", 7), self.values.get("guard_not", 0)) != (7, 0)
        return guard or self.values.get("test", ConditionCode.T.value) != ConditionCode.T.value


class CodePaths:
    """A code section and the paths through it that a thread can take."""

    def __init__(self, file: ObjectFile, section: Section) -> None:
        self.all = {}
        for address, word, code in instructions(section.content):
            form = form_of(word)
            values = form.values(word)
            self.all[address] = DecodedInstruction(
                address, form, values, effects(form, values), code, spell(word, address, code.reuse)
            )
        self.targets = self._known_targets(file, section)
        self.next = {
            address: frozenset(self._next(instruction)) & self.all.keys()
            for address, instruction in self.all.items()
        }

    @staticmethod
    def _known_targets(file: ObjectFile, section: Section) -> dict[int, list[int]]:
        found = {}
        for record in decode(file.sections[info_name(section.owner or "")].content):
            words = (
                list(record.words) if record.attribute == Attribute.INDIRECT_BRANCH_TARGETS else []
            )
            while words:
                offset, kind, count, *words = words
                if kind == 0:
                    found[offset] = words[:count]
                words = words[count:]
        return found

    def _pushed(self, name: str) -> Iterator[int]:
        for other in self.all.values():
            if other.form.name == name:
                yield self._target(other)
            elif name == "PRET" and other.form.name in CALLS:
                yield self._after(other)

    def _target(self, instruction: DecodedInstruction) -> int:
        place = instruction.values["target"] + instruction.address + 8
        return instruction_address(place)

    def _after(self, instruction: DecodedInstruction) -> int:
        return instruction_address(instruction.address + 8)

    def _next(self, instruction: DecodedInstruction) -> Iterator[int]:
        name, form = instruction.form.name, instruction.form
        direct = any(
            isinstance(operand, Target) and operand.relative and operand.index is None
            for operand in form.operands.values()
        )
        if name in POPS:
            if instruction.may_not:
                yield self._after(instruction)
            if instruction.address in self.targets:
                yield from map(instruction_address, self.targets[instruction.address])
            else:
                yield from self._pushed(POPS[name])
        elif name in ("BRX", "JMX"):
            known = self.targets.get(instruction.address)
            yield from map(instruction_address, known) if known is not None else iter(self.all)
        elif direct and name not in PUSHES:
            yield self._target(instruction)
            if instruction.may_not:
                yield self._after(instruction)
        elif name not in ("KIL",):
            yield self._after(instruction)


Resource = tuple[str, int]


def resources(registers: frozenset, predicates: frozenset, condition: bool) -> frozenset[Resource]:
    """Returns the resources that an instruction reads or writes, as one set."""
    return frozenset(
        {("R", n) for n in registers}
        | {("P", n) for n in predicates}
        | ({("CC", 0)} if condition else set())
    )


def distance(producer: DecodedInstruction, resource: Resource, consumer: DecodedInstruction) -> int:
    """Returns the distance in cycles that the contract requires for a result of fixed latency."""
    pipe, reader = producer.form.pipe, consumer.form
    if pipe is Pipe.MULTIPLY:
        return PRODUCT
    if pipe is Pipe.PREDICATE:
        return PREDICATES_TO_REGISTER if resource[0] == "R" else PREDICATE
    if resource[0] == "CC":
        late = reader.pipe in (Pipe.FLOW, Pipe.PREDICATE)
        return CONDITION_TO_BRANCH if late else CARRY
    if resource[0] == "P":
        return 1 if producer.form.name == "LEA.HI" and reader.name in ("LD", "ST") else PREDICATE
    if reader.name in ("BRX", "JMX"):
        return TO_BRANCH_REGISTER
    return ALU_TO_MEMORY if reader.pipe in LATE_READERS else ALU_TO_ALU


@dataclass(frozen=True)
class Walk:
    """The state of one result, or one late read, at a point of a path."""

    at: int
    cycles: int
    result: frozenset | None
    """Scoreboards, each of which indicates that the result is available; None if it is known to be."""
    read: frozenset | None
    newer: tuple[tuple[int, int], ...]
    """How often each of them was raised since, for partial waits."""
    same_guard: bool = True
    """Whether the guard's predicate is unchanged."""


def violations(code: CodePaths) -> Iterator[str]:
    """Yields every violation of the contract."""
    for producer in code.all.values():
        touched = producer.effects
        writes = resources(touched.writes, touched.predicate_writes, touched.writes_cc)
        reads = (
            resources(touched.reads, frozenset(), False)
            if producer.form.pipe in LATE_READERS
            else frozenset()
        )
        for resource in sorted(writes):
            yield from follow(code, producer, resource, True)
        for resource in sorted(reads):
            yield from follow(code, producer, resource, False)


def follow(
    code: CodePaths, producer: DecodedInstruction, resource: Resource, written: bool
) -> Iterator[str]:
    """Follows one resource from the instruction that writes it, or reads it late, and yields
    violations.
    """
    own = producer.code
    result = (
        frozenset({own.write_barrier} - {NO_BARRIER}) if producer.form.pipe in ANNOUNCED else None
    )
    read = frozenset({own.write_barrier, own.read_barrier} - {NO_BARRIER})
    scoreboards = sorted({own.write_barrier, own.read_barrier} - {NO_BARRIER})
    start = Walk(producer.address, 0, result, read, tuple((number, 0) for number in scoreboards))
    seen: set[Walk] = set()
    todo = [start]
    while todo:
        walk = todo.pop()
        if walk in seen:
            continue
        seen.add(walk)
        here = code.all[walk.at]
        cycles = min(walk.cycles + max(here.code.stall, 1), LONGEST + 1)
        for address in code.next[walk.at]:
            step = replace(walk, at=address, cycles=cycles)
            problem, following = meet(producer, resource, written, code.all[address], step)
            if problem:
                yield f"{producer.address:#x} {producer.text} -> {address:#x} {code.all[address].text}: {problem}"
            elif following is not None:
                todo.append(following)


def settled(walk: Walk, instruction: DecodedInstruction) -> Walk:
    """Returns the state after the waits of an instruction."""
    waited = {number for number in range(6) if instruction.code.wait >> number & 1}
    values = instruction.values
    newer = dict(walk.newer)
    if instruction.form.name == "DEPBAR":
        waited |= {number for number in range(6) if values["wait"] >> number & 1}
        number = values.get("scoreboard")
        if number is not None and newer.get(number, -1) >= values["count"]:
            waited.add(number)
    if walk.cycles < SCOREBOARD_SEEN:
        waited = set()
    result = None if walk.result is not None and walk.result & waited else walk.result
    read = None if walk.read is None or walk.read & waited else walk.read
    return replace(walk, result=result, read=read)


def meet(
    producer: DecodedInstruction,
    resource: Resource,
    written: bool,
    other: DecodedInstruction,
    walk: Walk,
) -> tuple[str, Walk | None]:
    """Returns the violation, if any, when a path reaches another instruction, and the state after
    it.
    """
    walk = settled(walk, other)
    if excludes(producer, other) and walk.same_guard:
        return "", raised(producer, other, walk)
    touched = other.effects
    reads = resources(touched.reads, touched.predicate_reads, touched.reads_cc)
    writes = resources(touched.writes, touched.predicate_writes, touched.writes_cc)
    if written:
        if resource in reads and not there(producer, walk, distance(producer, resource, other)):
            return f"reads after {walk.cycles} cycles what is not there", None
        if (
            resource in writes
            and other.form.pipe is not producer.form.pipe
            and not there(producer, walk, 1)
        ):
            return "overwrites a result that is still to come", None
        finished = there(producer, walk, LONGEST)
    else:
        if (
            resource in writes
            and walk.read is not None
            and other.form.pipe is not producer.form.pipe
        ):
            return "overwrites a source that may not have been read", None
        finished = walk.read is None
    if finished or (resource in writes and not other.may_not):
        return "", None
    return "", raised(producer, other, walk)


def excludes(one: DecodedInstruction, other: DecodedInstruction) -> bool:
    """Returns whether a thread executes at most one of two instructions, because their guards are
    opposite.
    """
    guards = [(i.values.get("guard", 7), i.values.get("guard_not", 0)) for i in (one, other)]
    return guards[0][0] == guards[1][0] != 7 and guards[0][1] != guards[1][1]


def there(producer: DecodedInstruction, walk: Walk, needed: int) -> bool:
    """Returns whether a result is available: a scoreboard indicated it, or its latency has elapsed."""
    if producer.form.pipe in VARIABLE:
        return walk.result is None
    if producer.form.pipe is Pipe.MULTIPLY:
        return walk.result is None or walk.cycles >= PRODUCT
    return walk.cycles >= needed


def raised(producer: DecodedInstruction, other: DecodedInstruction, walk: Walk) -> Walk:
    """Returns the state after the scoreboards that an instruction raises: those of the same pipe
    also cover the result.
    """
    newer = dict(walk.newer)
    result, read = walk.result, walk.read
    if other.form.name in ("BAR", "MEMBAR"):
        read = None  # they are raised after everything that the warp has started
    same_guard = (
        walk.same_guard and producer.values.get("guard", 7) not in other.effects.predicate_writes
    )
    for number in {other.code.write_barrier, other.code.read_barrier} - {NO_BARRIER}:
        if number in newer:
            newer[number] = min(newer[number] + 1, 63)
    if other.form.pipe is producer.form.pipe:
        if other.code.write_barrier != NO_BARRIER:
            result = result | {other.code.write_barrier} if result is not None else None
            read = read | {other.code.write_barrier} if read is not None else None
            newer.setdefault(other.code.write_barrier, 0)
        if other.code.read_barrier != NO_BARRIER and read is not None:
            read = read | {other.code.read_barrier}
            newer.setdefault(other.code.read_barrier, 0)
    return replace(
        walk, result=result, read=read, newer=tuple(sorted(newer.items())), same_guard=same_guard
    )


def check(file: ObjectFile) -> list[str]:
    """Returns all violations in a file."""
    return [
        problem
        for section in file.by_role[SectionRole.CODE]
        for problem in violations(CodePaths(file, section))
    ]


def read(path: Path) -> ObjectFile:
    return read_object(path.read_bytes(), path.name)


def without_codes(line: str) -> str:
    return re.sub(r"^\[[^]]*\]", "", line)


def is_instruction(line: str) -> bool:
    return bool(re.match(r"\[|  +[@A-Z]", line)) and not line.lstrip().startswith(".")


def program(body: str) -> ObjectFile:
    return assemble(f".kernel k\n{body}\n", "test.sass")


def codes(file: ObjectFile) -> list[ControlCode]:
    (section,) = file.by_role[SectionRole.CODE]
    return [code for _, _, code in instructions(section.content)]


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.stem)
def test_the_checker_accepts_what_nvidia_made(path):
    assert check(read(path)) == []


@pytest.mark.parametrize(
    "path", [path for path in CUBINS if ".O3" in path.name], ids=lambda path: path.stem
)
def test_programs_without_codes_keep_the_contract(path):
    text = "\n".join(map(without_codes, listing(read(path)).splitlines())).replace(".reuse", "")
    file = assemble(text, path.name)
    assert check(file) == []
    theirs = sum(max(code.stall, 1) for code in codes(read(path)))
    assert sum(max(code.stall, 1) for code in codes(file)) <= theirs


@pytest.mark.parametrize(
    "path", [path for path in CUBINS if ".O3" in path.name][::4], ids=lambda path: path.stem
)
@pytest.mark.parametrize("keep", [2, 3, 10])
def test_instructions_without_codes_among_others_are_safe_or_refused(path, keep):
    lines = listing(read(path)).splitlines()
    choice = Random(keep)
    lines = [line if choice.randrange(keep) else without_codes(line) for line in lines]
    try:
        file = assemble("\n".join(lines), path.name)
    except ProgramError as error:
        assert "this instruction must" in str(error)
        return
    given = [line.startswith("[") for line in lines if is_instruction(line)]
    (section,) = file.by_role[SectionRole.CODE]
    known = dict(
        zip((address for address, _, _ in instructions(section.content)), given, strict=True)
    )
    for problem in check(file):
        first, second = (int(part.split()[0], 16) for part in problem.split(" -> "))
        assert known[first] and known[second], problem


SAMPLE = """
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, 0x10, PT
    @P0 EXIT
        MOV R2, c[0x0][0x140]
        MOV R3, c[0x0][0x144]
        LDG.E R4, [R2]
        IADD R4.CC, R4, 0x1
        IADD.X R5, RZ, RZ
        STG.E [R2], R4
        MOV R4, RZ
        IMUL R6, R5, R5
        IADD R6, R6, R6
        SSY L1
    @P0 SYNC
        I2F.F32.U32 R7, R0
        MOV R0, R7
        SYNC
L1:     STG.E [R2+0x4], R0
        EXIT
"""


def test_every_code_that_matters_is_seen():
    """The checker reports a violation if any stall, wait or scoreboard on which a result depends is
    removed. (A product has both, so that its scoreboard is redundant, and flow instructions of the
    sample wait for nothing.)
    """
    file = program(SAMPLE)
    assert check(file) == []
    (section,) = file.by_role[SectionRole.CODE]
    found = codes(file)
    missed = []
    for index, code in enumerate(found):
        without = {
            "stall": replace(code, stall=1),
            "wait": replace(code, wait=0),
            "write": replace(code, write_barrier=NO_BARRIER),
            "read": replace(code, read_barrier=NO_BARRIER),
        }
        for what, changed in without.items():
            if check(with_code(file, section, found, index, changed)):
                missed.append((index, what))
    assert missed == [
        (0, "stall"),
        (0, "write"),
        (1, "stall"),
        (1, "wait"),
        (4, "stall"),
        (5, "stall"),
        (5, "write"),
        (6, "stall"),
        (6, "wait"),
        (8, "stall"),
        (8, "read"),
        (9, "stall"),
        (9, "wait"),
        (10, "stall"),
        (14, "stall"),
        (14, "write"),
        (15, "wait"),
    ]


def with_code(
    file: ObjectFile, section: Section, found: list[ControlCode], index: int, changed: ControlCode
) -> ObjectFile:
    """Returns the file with another control code for one instruction."""
    group, slot = divmod(index, 3)
    new = found[3 * group : 3 * group + 3]
    new[slot] = changed
    content = bytearray(section.content)
    content[32 * group : 32 * group + 8] = pack(new).to_bytes(8, "little")
    return ObjectFile(
        file.name,
        {**file.sections, section.name: replace(section, content=bytes(content))},
        file.symbols,
    )


def test_the_codes_of_a_short_program():
    """Loads are waited for before their use, stores never; arithmetic stalls 6 cycles, predicates
    13.
    """
    body = """
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, 0x10, PT
    @P0 EXIT
        ISCADD R2.CC, R0, c[0x0][0x140], 0x2
        IADD.X R3, RZ, c[0x0][0x144]
        STG.E [R2], R0
        EXIT
    """
    found = codes(program(body))[:7]
    assert [code.stall for code in found] == [2, 13, 5, 6, 2, 1, 5]
    assert [code.wait for code in found] == [0, 1 << found[0].write_barrier, 0, 0, 0, 0, 0]
    assert [code.read_barrier for code in found] == [NO_BARRIER] * 7


def test_a_loop_waits_for_its_load_before_it_goes_back():
    body = """
        MOV R2, RZ
        MOV R3, RZ
L1:     LDG.E R4, [R2]
        ISETP.NE.U32.AND P0, PT, R3, 0x5, PT
    @P0 BRA L1
        EXIT
    """
    file = program(body)
    assert check(file) == []
    load, _, branch = codes(file)[2:5]
    assert branch.wait == 1 << load.write_barrier


@pytest.mark.parametrize("jump", ["@P0 BRA L1", "BRA L1"])
def test_a_label_waits_for_what_a_branch_with_a_given_code_has_not_waited_for(jump):
    body = f"""
        [B------:R-:W3:-:S01] LDG.E R0, [R2]
        [B------:R-:W-:-:S05] {jump}
        [B---3--:R-:W-:-:S06] IADD R4, R0, R0
        [B------:R-:W-:-:S05] EXIT
L0:     IADD R5, R4, R4
        EXIT
L1:     IADD R1, R0, R0
        EXIT
    """
    assert [code.wait for code in codes(program(body))[4:7]] == [0, 0, 1 << 3]


@pytest.mark.parametrize("stall", [0, 1, 2])
@pytest.mark.parametrize("between", [0, 1, 2, 7])
def test_an_instruction_with_a_given_code_takes_a_cycle_at_least(between, stall):
    given = f"[B------:R-:W-:-:S{stall:02}] NOP\n" * between
    found = codes(program(f"MOV R0, RZ\n{given}IADD R1, R0, R0\nEXIT"))
    assert found[0].stall == max(ALU_TO_ALU - between * max(stall, 1), 1)


def test_a_store_is_waited_for_only_when_its_sources_change():
    kept = codes(program("STG.E [R2], R0\nEXIT"))
    changed = codes(program("STG.E [R2], R0\nMOV R0, RZ\nEXIT"))
    assert kept[0].read_barrier == NO_BARRIER
    assert changed[1].wait == 1 << changed[0].read_barrier


def test_exited_threads_are_waited_for_when_pexit_revives_them():
    body = "PEXIT L1\nLDG.E R0, [R2]\nEXIT\nL1: MOV R1, R0\nEXIT"
    file = program(body)
    assert codes(file)[2].wait == 1 << codes(file)[1].write_barrier
    assert check(file) == []


def test_more_loads_than_scoreboards():
    body = (
        "\n".join(f"LDG.E R{n}, [R{n}]" for n in range(20))
        + "\n"
        + "\n".join(f"IADD R{n}, R{n}, R{n}" for n in range(20))
        + "\nEXIT"
    )
    assert check(program(body)) == []


REGISTERS = st.integers(0, 6).map(lambda number: f"R{number}")
PREDICATES = st.integers(0, 2).map(lambda number: f"P{number}")
GUARDS = st.sampled_from(["", "", "", "@P0 ", "@!P1 ", "@P2 "])
TEMPLATES = st.sampled_from(
    [
        "IADD {0}, {1}, {2}",
        "IADD {0}.CC, {1}, {2}",
        "IADD.X {0}, {1}, {2}",
        "XMAD {0}, {1}, {2}, {0}",
        "MOV {0}, {1}",
        "LOP.XOR {0}.CC, {1}, {2}",
        "LOP.AND.X.NZ {p}, {0}, {1}, {2}",
        "LOP32I.AND {0}.CC, {1}, 0x5",
        "IMUL {0}, {1}, {2}",
        "IMNMX.XLO {0}, {1}, {2}, PT",
        "ISETP.GE.AND {p}, PT, {0}, {1}, PT",
        "SEL {0}, {1}, {2}, {p}",
        "LEA.HI {p}, {0}, {1}, {2}, RZ, 0x2",
        "P2R {0}, PR, RZ, 0x7f",
        "R2P PR, {0}, 0x7f",
        "R2P CC, {0}, 0xf",
        "LDG.E {0}, [{1}]",
        "LDG.E.64 R8, [R10]",
        "STG.E [{0}], {1}",
        "LDS {0}, [{1}]",
        "ATOM.ADD {0}, [{1}], {2}",
        "SHFL.BFLY {p}, {0}, {1}, 0x1, 0x1f",
        "I2F.F32.U32 {0}, {1}",
        "POPC {0}, {1}",
        "MUFU.RCP {0}, {1}",
        "S2R {0}, SR_TID.X",
        "VOTE.ANY {0}, {p}, {p}",
        "CSETP.LT.AND {p}, PT, CC, PT",
        "LD.E {0}, [R10], {p}",
        "BAR.SYNC 0x0",
        "MEMBAR.GL",
        "LDC {0}, c[0x2][{1}]",
    ]
)
PLAIN = st.builds(
    lambda guard, text, a, b, c, p: guard + text.format(a, b, c, p=p),
    GUARDS,
    TEMPLATES,
    REGISTERS,
    REGISTERS,
    REGISTERS,
    PREDICATES,
)
FLOW = st.sampled_from(
    [
        "@P0 BRA L{0}",
        "@!P1 BRA CC.NE, L{0}",
        "SSY L{0}",
        "@P2 SYNC",
        "SYNC",
        "PBK L{0}",
        "@P0 BRK",
        "CAL L{0}",
        "@!P0 RET",
        "@P1 EXIT",
        "BRX R0 -.next",
    ]
)


@st.composite
def bodies(draw) -> str:
    """Generates a program of a few blocks with arbitrary branches."""
    blocks = draw(st.integers(1, 5))
    lines = []
    for number in range(blocks):
        lines.append(f"L{number}:")
        lines += draw(st.lists(PLAIN, max_size=10))
        lines.append(draw(FLOW).format(draw(st.integers(0, blocks - 1))))
    return "\n".join([*lines, "EXIT"])


@settings(max_examples=120)
@given(bodies())
def test_any_program_keeps_the_contract(body):
    assert check(program(body)) == []
