"""Hand-written programs with labels, and warp models that run them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.table import BY_NAME
from sim.launch import Argument, Launch
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement
from sim.model.warp.state import Warp
from sim.model.warp.vector.lanes import Condition
from testbench.words import address, encode, place
from testbench.words import launch as launch_words

ALL = 0xFFFF_FFFF
"""Mask of all 32 threads."""


class Program:
    """A list of instruction words with labels. The argument ``to`` of an instruction is the label
    of its target.
    """

    def __init__(self) -> None:
        self._lines: list[tuple[str, str | None, dict[str, int], str | None] | int] = []
        self.labels: dict[str, int] = {}

    def __call__(
        self, name: str, variant: str | None = None, *, to: str | None = None, **fields: int
    ) -> "Program":
        """Appends an instruction."""
        self._lines.append((name, variant, fields, to))
        return self

    def word(self, word: int) -> "Program":
        """Appends a word."""
        self._lines.append(word)
        return self

    def label(self, name: str) -> "Program":
        """Defines a label at the next instruction."""
        self.labels[name] = len(self._lines)
        return self

    def pc(self, label: str) -> int:
        """Returns the pc of a label, as branch targets encode it."""
        return place(self.labels[label])

    def words(self) -> list[int]:
        """Returns all words, with the targets filled in."""
        result = []
        for index, line in enumerate(self._lines):
            if isinstance(line, int):
                result.append(line)
                continue
            name, variant, fields, to = line
            if to is not None:
                base = 0 if name in ("JMP", "JCAL") else address(index) + INSTRUCTION_BYTES
                variant, fields = (
                    variant or BY_NAME[name][0].variant,
                    fields | {"target": self.pc(to) - base},
                )
            result.append(encode(name, variant, **fields))
        return result


def launch(
    words: Program | Sequence[int],
    arguments: Sequence[Argument] = (),
    *,
    block: tuple[int, int, int] = (32, 1, 1),
    crs: int = 512,
    local: int = 64,
    **kind: Any,
) -> Launch:
    """Returns a launch of one whole warp with a small stack and little memory.

    ``kind`` has further arguments of :func:`testbench.words.launch`.
    """
    words = words.words() if isinstance(words, Program) else words
    return launch_words(words, arguments, block=block, crs=crs, local=local, **kind)


def machine(
    words: Program | Sequence[int],
    *,
    report_mask: int = 0x00FF_FFFF,
    warps: int = 4,
    order: int | None = None,
    **kind: Any,
) -> WarpModel:
    """Returns a warp model with a launch of the program and all errors reported."""
    return WarpModel(launch(words, **kind), warps=warps, report_mask=report_mask, order=order)


def warp_of(made: WarpModel, slot: int = 0) -> Warp:
    """Returns the warp in a slot that is occupied."""
    warp = made.warps[slot]
    assert warp is not None
    return warp


def held(words: Program | Sequence[int], **kind: Any) -> tuple[WarpModel, Warp]:
    """Returns a warp model, as :func:`machine` makes it, and its first warp."""
    made = machine(words, **kind)
    return made, warp_of(made)


def retire(made: WarpModel, *slots: int, times: int = 1) -> None:
    """Retires one instruction of each of these slots' warps in turn, and repeats that ``times``
    times.
    """
    for slot in slots * times:
        made.retire(slot)


def alone(
    word: int,
    registers: Mapping[int, Sequence[int] | int] | None = None,
    *,
    active: int = ALL,
    report_mask: int = 0x00FF_FFFF,
    predicates: Mapping[int, int] | None = None,
    condition: Sequence[int] = (),
    **kind: Any,
) -> tuple[Warp, Retirement]:
    """One instruction retired by a warp whose registers, predicates and CC (masks of Z, S, C, O) are set first.

    Returns the warp and the record.
    """
    made, warp = held([word], report_mask=report_mask, **kind)
    for number, value in (registers or {}).items():
        warp.registers[number] = np.array(value, np.uint64).astype(np.uint32)
    for number, mask in (predicates or {}).items():
        warp.predicates[number] = mask
    warp.condition = Condition(*condition)
    warp.masks = type(warp.masks)(active=active)
    return warp, made.retire(0)


def vector(warp: Warp, number: int) -> list[int]:
    """Returns a register's value in every thread."""
    return warp.registers[number].tolist()
