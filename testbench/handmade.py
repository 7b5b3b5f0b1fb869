"""Programs with labels, made by hand, and models that run them."""

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
"""Every thread."""


class Program:
    """Words with labels. ``to`` in an instruction is the label that it goes to."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str | None, dict[str, int], str | None] | int] = []
        self.labels: dict[str, int] = {}

    def __call__(
        self, name: str, variant: str | None = None, *, to: str | None = None, **fields: int
    ) -> "Program":
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
        return place(self.labels[label])

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
    """A launch of a whole warp with little stack and memory; ``kind`` is what :func:`testbench.words.launch` takes."""
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
    """A machine with a launch of a program, all errors reported."""
    return WarpModel(launch(words, **kind), warps=warps, report_mask=report_mask, order=order)


def warp_of(made: WarpModel, slot: int = 0) -> Warp:
    """The warp in a slot that has one."""
    warp = made.warps[slot]
    assert warp is not None
    return warp


def held(words: Program | Sequence[int], **kind: Any) -> tuple[WarpModel, Warp]:
    """A machine, as :func:`machine` makes it, and its first warp."""
    made = machine(words, **kind)
    return made, warp_of(made)


def retire(made: WarpModel, *slots: int, times: int = 1) -> None:
    """Retires an instruction of the warps in these slots, one at a time, so many times."""
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
    """A register of every thread."""
    return warp.registers[number].tolist()
