"""Firmware from its text: assembly with places for the numbers that a launch decides."""

import re
from collections.abc import Mapping
from importlib.resources import files

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import Module

__all__ = ["assembled", "halves"]

_PLACE = re.compile(r"\{(\w+)\}")
_WORD_BITS = 32


def halves(name: str, address: int) -> dict[str, int]:
    """An address as the two numbers NAME_LOW and NAME_HIGH."""
    return {f"{name}_LOW": address & (1 << _WORD_BITS) - 1, f"{name}_HIGH": address >> _WORD_BITS}


def assembled(name: str, parts: tuple[str, ...], numbers: Mapping[str, int]) -> Module:
    """The module ``name`` of the texts ``parts``, one behind the other, with ``{NAME}`` replaced by the number of that
    name. ProgramError when the numbers do not fit into the instructions.
    """
    text = "".join(
        files("sim.firmware").joinpath(f"{part}.sass").read_text(encoding="utf-8") for part in parts
    )
    return load(assemble(_PLACE.sub(lambda place: str(numbers[place[1]]), text), name))
