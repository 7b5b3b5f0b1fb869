"""Instruction words and small programs for tests, made from the table of the machine language."""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.isa.kinds import Compare, MemorySize
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import PT, RZ, Predicate
from rtl.isa.table import BY_NAME
from sim.launch import Argument, Buffer, Launch, prepare
from sim.toolchain.module import Data, Kernel, Module, Parameter

__all__ = ["FINISH", "PARAMETERS", "START", "STORE", "address", "branch", "compare", "contents", "for_many", "launch",
           "move", "offset", "place", "results", "word"]

PARAMETERS = 0x140
"""Where a kernel's parameters begin in constant bank 0."""


def for_many(*strategies: SearchStrategy) -> Callable[[Callable], Callable]:
    """Runs a test on many inputs, the same ones each time."""
    return lambda test: settings(max_examples=80, deadline=None, derandomize=True)(given(*strategies)(test))


def word(name: str, variant: str | None = None, /, **fields: int) -> int:
    """An instruction in the form of this variant that has these fields. Predicates that are not named are PT, other
    fields at their defaults."""
    found = []
    for form in BY_NAME[name]:
        if variant in (None, form.variant) and fields.keys() <= form.fields.keys():
            result = form.default
            for operand in form.operands.values():
                if isinstance(operand, Predicate):
                    result = form.fields[operand.field].put(result, PT)
            for field, value in fields.items():
                result = form.fields[field].put(result, value)
            if result & form.mask == form.match:
                found.append(result)
    if len(found) != 1:
        raise ValueError(f"{len(found)} forms of {name} are {variant} and have {', '.join(fields)}")
    return found[0]


def address(number: int) -> int:
    """Where a program's instruction of this number, from 0, is."""
    group, slot = divmod(number, GROUP_INSTRUCTIONS)
    return group * GROUP_BYTES + (slot + 1) * INSTRUCTION_BYTES


def place(number: int) -> int:
    """The pc that compiled code uses for that instruction: a group's first one goes by the group's address."""
    return address(number) - (0 if number % GROUP_INSTRUCTIONS else INSTRUCTION_BYTES)


def branch(source: int, target: int, name: str = "BRA", **fields: int) -> int:
    """A relative branch or push between two instructions of a body, both counted from its first."""
    return word(name, "" if name == "PEXIT" else "i", target=offset(len(START) + source, len(START) + target), **fields)


def move(register: int, value: int) -> int:
    """A register set to a number."""
    return word("MOV32I", Rd=register, imm32=value - (value >> 31 << 32))


def compare(predicate: int, relation: Compare, register: int, value: int) -> int:
    """A predicate that tells how a register, as an unsigned number, compares to one."""
    return word("ISETP", "i", Pd=predicate, Ra=register, imm=value, compare=relation.value)


def offset(source: int, target: int) -> int:
    """What a relative branch at one instruction's number holds to reach another's."""
    return place(target) - address(source) - INSTRUCTION_BYTES


def launch(words: Sequence[int], arguments: Iterable[Argument] = (), *, grid: tuple[int, int, int] = (1, 1, 1),
           block: tuple[int, int, int] = (1, 1, 1), shared: int = 0, banks: dict[int, bytes] | None = None,
           local: int | None = None) -> Launch:
    """A launch of these instructions. Every argument is 8 bytes."""
    groups = -(-len(words) // GROUP_INSTRUCTIONS)
    code = bytearray(groups * GROUP_BYTES)
    for number, content in enumerate(words):
        code[address(number):address(number) + INSTRUCTION_BYTES] = content.to_bytes(INSTRUCTION_BYTES, "little")
    arguments = list(arguments)
    kernel = Kernel("k", 0, 32, 16, shared, 0, 0, PARAMETERS,
                    tuple(Parameter(number, 8 * number, 8) for number in range(len(arguments))),
                    {number: Data(content) for number, content in (banks or {}).items()})
    return prepare(Module("test", Data(bytes(code)), {"k": kernel}), arguments, grid=grid, block=block, local=local)


START = (word("S2R", Rd=1, special=SpecialRegister.TID_X), word("MOV", "c", Rd=3, offset=PARAMETERS + 4),
         word("ISCADD", "c", Rd=2, Ra=1, offset=PARAMETERS, shift=2, cc=1),
         word("IADD", "r", Rd=3, Ra=3, Rb=RZ, extended=1))
"""R1 = tid.x, R2 and R3 the address of word tid.x of the first buffer. What comes behind is a body."""
STORE = word("STG", Rd=0, Ra=2, wide=1, size=MemorySize.B32.value)
FINISH = (STORE, word("EXIT"))
"""R0 stored to that word, and the thread's end."""


def contents(made: Launch, name: str) -> list[int]:
    """A buffer's 32-bit words as they are now."""
    base, size = made.buffers[name]
    return list(struct.unpack(f"<{size // 4}I", made.memory.read(base, size)))


def results(run: Callable[[Launch], object], body: Sequence[int], threads: int = 1, **options: Any) -> list[int]:
    """What each thread of one CTA stores after START, the body and FINISH."""
    made = launch([*START, *body, *FINISH], [Buffer("o", bytes(4 * threads))], block=(threads, 1, 1), **options)
    run(made)
    return contents(made, "o")
