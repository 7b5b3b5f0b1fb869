"""Assembles firmware from texts with placeholders for the numbers of a launch."""

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
    """Returns an address as the two numbers NAME_LOW and NAME_HIGH."""
    return {f"{name}_LOW": address & (1 << _WORD_BITS) - 1, f"{name}_HIGH": address >> _WORD_BITS}


def assembled(name: str, parts: tuple[str, ...], numbers: Mapping[str, int]) -> Module:
    """Assembles the concatenated texts ``parts`` to the module ``name``, with each ``{NAME}``
    replaced by the number of that name.

    Raises ProgramError if a number does not fit into its instruction.
    """
    text = "".join(
        files("sim.firmware").joinpath(f"{part}.sass").read_text(encoding="utf-8") for part in parts
    )
    return load(assemble(_PLACE.sub(lambda place: str(numbers[place[1]]), text), name))
