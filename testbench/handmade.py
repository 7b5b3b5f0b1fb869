"""Programs made by hand, word by word from the instruction table, and machines that run them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES, ControlCode, pack
from rtl.isa.table import BY_NAME
from sim.launch import Argument, Launch, prepare
from sim.model.retirement import Retirement
from sim.model.state import Warp
from sim.model.warp import Machine
from sim.toolchain.module import Data, Kernel, Module, Parameter

__all__ = ["ALL", "NOP", "Program", "address", "alone", "encode", "entry", "launch", "machine", "vector",
           "warp_of"]

ALL = 0xFFFF_FFFF
"""Every thread."""
_NEGATED = 8
_CONTROL_WORD = pack([ControlCode(stall=1)] * GROUP_INSTRUCTIONS)


def encode(name: str, variant: str | None = None, **fields: int) -> int:
    """The word of an instruction: a form's default with some fields set. ``guard=8 + n`` is ``@!Pn``."""
    if fields.get("guard", 0) >= _NEGATED:
        fields |= {"guard": fields["guard"] - _NEGATED, "guard_not": 1}
    for form in BY_NAME[name]:
        if variant in (None, form.variant) and fields.keys() <= form.fields.keys():
            word = form.default
            for field, value in fields.items():
                word = form.fields[field].put(word, value)
            if word & form.mask == form.match:
                return word
    raise ValueError(f"{name} has no form {variant} with {fields}")


NOP = encode("NOP")


def address(index: int) -> int:
    """Where instruction ``index`` is."""
    return GROUP_BYTES * (index // GROUP_INSTRUCTIONS) + INSTRUCTION_BYTES * (1 + index % GROUP_INSTRUCTIONS)


def entry(index: int) -> int:
    """How instruction ``index`` is named as a target: the first of a group by the group."""
    place = address(index)
    return place - INSTRUCTION_BYTES if place % GROUP_BYTES == INSTRUCTION_BYTES else place


class Program:
    """Words with labels. ``to`` in an instruction is the label that it goes to."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str | None, dict[str, int], str | None] | int] = []
        self.labels: dict[str, int] = {}

    def __call__(self, name: str, variant: str | None = None, *, to: str | None = None, **fields: int) -> "Program":
        """Adds an instruction."""
        self._lines.append((name, variant, fields, to))
        return self

    def word(self, word: int) -> "Program":
        """Adds a word."""
        self._lines.append(word)
        return self

    def label(self, name: str) -> "Program":
        """Names the next instruction."""
        self.labels[name] = len(self._lines)
        return self

    def pc(self, label: str) -> int:
        """The pc of a label, as targets name it."""
        return entry(self.labels[label])

    def words(self) -> list[int]:
        """All words."""
        result = []
        for index, line in enumerate(self._lines):
            if isinstance(line, int):
                result.append(line)
                continue
            name, variant, fields, to = line
            if to is not None:
                base = 0 if name in ("JMP", "JCAL") else address(index) + INSTRUCTION_BYTES
                variant, fields = variant or BY_NAME[name][0].variant, fields | {"target": self.pc(to) - base}
            result.append(encode(name, variant, **fields))
        return result


def code(words: Sequence[int]) -> bytes:
    """Words with their control words, filled up to whole groups."""
    padded = [*words, *[NOP] * (-len(words) % GROUP_INSTRUCTIONS)]
    groups = [[_CONTROL_WORD, *padded[at:at + GROUP_INSTRUCTIONS]] for at in range(0, len(padded), GROUP_INSTRUCTIONS)]
    return b"".join(word.to_bytes(8, "little") for group in groups for word in group)


def launch(words: Program | Sequence[int], arguments: Sequence[Argument] = (), *, registers: int = 32,
           shared: int = 0, constants: Mapping[int, bytes] | None = None, block: tuple[int, int, int] = (32, 1, 1),
           grid: tuple[int, int, int] = (1, 1, 1), crs: int = 512, local: int = 64,
           barriers: int = 16, check_calls: bool = False) -> Launch:
    """A launch of a program whose parameters are 8 bytes each."""
    content = code(words.words() if isinstance(words, Program) else words)
    kernel = Kernel("k", 0, registers, barriers, shared, 0, 0, 0x140,
                    tuple(Parameter(number, 8 * number, 8) for number in range(len(arguments))),
                    {bank: Data(content) for bank, content in (constants or {}).items()})
    prepared = prepare(Module("handmade", Data(content), {"k": kernel}), arguments, block=block, grid=grid, crs=crs,
                       local=local)
    return replace(prepared, check_api_calls=check_calls)


def machine(words: Program | Sequence[int], *, report_mask: int = 0x00FF_FFFF, warps: int = 4, order: int | None = None,
            **kind) -> Machine:
    """A machine with a launch of a program, all errors reported."""
    return Machine(launch(words, **kind), warps=warps, report_mask=report_mask, order=order)


def warp_of(made: Machine, slot: int = 0) -> Warp:
    """The warp in a slot that has one."""
    warp = made.warps[slot]
    assert warp is not None
    return warp


def alone(word: int, registers: Mapping[int, Sequence[int] | int] | None = None, *, active: int = ALL,
          report_mask: int = 0x00FF_FFFF, predicates: Mapping[int, int] | None = None,
          **kind) -> tuple[Warp, Retirement]:
    """One instruction retired by a warp whose registers and predicates are set first; the warp and the record."""
    made = machine([word], report_mask=report_mask, **kind)
    warp = warp_of(made)
    for number, value in (registers or {}).items():
        warp.registers[number] = np.array(value, np.uint64).astype(np.uint32)
    for number, mask in (predicates or {}).items():
        warp.predicates[number] = mask
    warp.masks = type(warp.masks)(active=active)
    return warp, made.retire(0)


def vector(warp: Warp, number: int) -> list[int]:
    """A register of every thread."""
    return warp.registers[number].tolist()
