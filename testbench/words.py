"""Instruction words and small programs for tests, encoded with the tables of the machine language."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rtl.isa.control_code import (
    GROUP_BYTES,
    GROUP_INSTRUCTIONS,
    INSTRUCTION_BYTES,
    ControlCode,
    pack,
)
from rtl.isa.kinds import Compare, MemorySize
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import PT, RZ, Form, Predicate
from rtl.isa.table import BY_NAME, find
from sim.launch import Argument, Buffer, Launch, prepare
from sim.toolchain.cubin.object_file import PARAMETER_BASE
from sim.toolchain.module import EntryParameter, EntryPoint, Module, SectionData

_NEGATED = 8
_CONTROL_WORD = pack([ControlCode(stall=1)] * GROUP_INSTRUCTIONS)


def encode(name: str, variant: str | None = None, /, **fields: int) -> int:
    """Encodes an instruction: the form of this variant that has these fields.

    Predicates that are not named are PT, other fields have their defaults. ``guard=8 + n`` is
    ``@!Pn``.
    """
    if fields.get("guard", 0) >= _NEGATED:
        fields |= {"guard": fields["guard"] - _NEGATED, "guard_not": 1}
    found = []
    for form in BY_NAME[name]:
        if variant in (None, form.variant) and fields.keys() <= form.fields.keys():
            word = form.default
            for operand in form.operands.values():
                if isinstance(operand, Predicate):
                    word = form.fields[operand.field].put(word, PT)
            for field, value in fields.items():
                word = form.fields[field].put(word, value)
            if find(word) is form:
                found.append(word)
    if len(found) != 1:
        raise ValueError(f"{len(found)} forms of {name} are {variant} and have {', '.join(fields)}")
    return found[0]


def form_of(word: int) -> Form:
    """Returns the form of a word that encodes an instruction."""
    form = find(word)
    assert form is not None, f"{word:016x} is no instruction"
    return form


def address(number: int) -> int:
    """Returns the byte address of the program's instruction with this number, counted from 0."""
    group, slot = divmod(number, GROUP_INSTRUCTIONS)
    return group * GROUP_BYTES + (slot + 1) * INSTRUCTION_BYTES


def place(number: int) -> int:
    """Returns the pc that compiled code uses for that instruction: for the first one of a group,
    the group's address.
    """
    return address(number) - (0 if number % GROUP_INSTRUCTIONS else INSTRUCTION_BYTES)


def branch(source: int, target: int, name: str = "BRA", **fields: int) -> int:
    """Encodes a relative branch or push between two instructions of a body, both counted from its
    first.
    """
    distance = offset(len(START) + source, len(START) + target)
    return encode(name, "" if name == "PEXIT" else "i", target=distance, **fields)


def move(register: int, value: int) -> int:
    """Encodes a move of a constant to a register."""
    return encode("MOV32I", Rd=register, imm32=value - (value >> 31 << 32))


def compare(predicate: int, relation: Compare, register: int, value: int) -> int:
    """Encodes an unsigned comparison of a register with a constant, whose result is written to a
    predicate.
    """
    return encode("ISETP", "i", Pd=predicate, Ra=register, imm=value, compare=relation.value)


def offset(source: int, target: int) -> int:
    """Returns the offset that a relative branch at instruction ``source`` needs to reach
    instruction ``target``.
    """
    return place(target) - address(source) - INSTRUCTION_BYTES


def code(words: Sequence[int]) -> bytes:
    """Returns the bytes of a program: words and control words, padded to whole groups."""
    padded = [*words, *[NOP] * (-len(words) % GROUP_INSTRUCTIONS)]
    groups = [
        [_CONTROL_WORD, *padded[at : at + GROUP_INSTRUCTIONS]]
        for at in range(0, len(padded), GROUP_INSTRUCTIONS)
    ]
    return b"".join(
        word.to_bytes(INSTRUCTION_BYTES, "little") for group in groups for word in group
    )


def launch(
    words: Sequence[int],
    arguments: Sequence[Argument] = (),
    *,
    registers: int = 32,
    barriers: int = 16,
    shared: int = 0,
    constants: Mapping[int, bytes] | None = None,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (1, 1, 1),
    crs: int | None = None,
    local: int | None = None,
    check_calls: bool = False,
) -> Launch:
    """Returns a launch of these instructions. Every argument is 8 bytes.

    Shared memory and constant banks have exactly the sizes given, where a driver would round them
    up, so that tests can access their ends.
    """
    kernel = EntryPoint(
        "k",
        0,
        registers,
        barriers,
        shared,
        0,
        0,
        PARAMETER_BASE,
        tuple(EntryParameter(number, 8 * number, 8) for number in range(len(arguments))),
        {number: SectionData(content) for number, content in (constants or {}).items()},
    )
    prepared = prepare(
        Module("test", SectionData(code(words)), {"k": kernel}),
        arguments,
        grid=grid,
        block=block,
        crs=crs,
        local=local,
    )
    sizes = {bank: len(data.content) for bank, data in kernel.constants.items()}
    sizes[0] = PARAMETER_BASE + 8 * len(arguments)
    banks = {bank: content[: sizes[bank]] for bank, content in prepared.banks.items()}
    return replace(prepared, check_api_calls=check_calls, shared=shared, banks=banks)


NOP = encode("NOP")
START = (
    encode("S2R", Rd=1, special=SpecialRegister.TID_X),
    encode("MOV", "c", Rd=3, offset=PARAMETER_BASE + 4),
    encode("ISCADD", "c", Rd=2, Ra=1, offset=PARAMETER_BASE, shift=2, cc=1),
    encode("IADD", "r", Rd=3, Ra=3, Rb=RZ, extended=1),
)
"""Start of a program: R1 = tid.x, R2 and R3 = address of word tid.x of the first buffer. A body
follows.
"""
STORE = encode("STG", Rd=0, Ra=2, wide=1, size=MemorySize.B32.value)
FINISH = (STORE, encode("EXIT"))
"""End of a program: stores R0 to that word and exits."""


def contents(made: Any, name: str) -> list[int]:
    """Returns the current 32-bit words of a buffer of a launch, of PTX or of machine code."""
    base, size = made.buffers[name]
    return list(struct.unpack(f"<{size // 4}I", made.memory.read(base, size)))


def memory_left(made: Launch) -> dict[str, bytes]:
    """Returns the current bytes of the global memory that a kernel can name: buffers and module
    variables.
    """
    regions = made.memory.regions
    return {
        name: made.memory.read(*regions[name])
        for name in (*made.buffers, "globals")
        if name in regions
    }


def results(
    run: Callable[[Launch], object], body: Sequence[int], threads: int = 1, **options: Any
) -> list[int]:
    """Returns what each thread of one CTA stores after START, the body and FINISH."""
    made = launch(
        [*START, *body, *FINISH],
        [Buffer("o", bytes(4 * threads))],
        block=(threads, 1, 1),
        **options,
    )
    run(made)
    return contents(made, "o")
