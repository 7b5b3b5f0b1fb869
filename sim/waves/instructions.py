"""Instructions as text in waveforms."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sim.toolchain.assembly.spelling import spell
from sim.waves.traces import Text

__all__ = ["instruction", "instruction_text"]


@lru_cache(maxsize=4096)
def instruction_text(word: int, pc: int) -> str:
    """Returns an instruction's address and disassembly."""
    return f"{pc:04x} {spell(word, pc)}"


def instruction(valid: Any, word: Any, pc: Any = None) -> Text:
    """Returns a trace with the disassembly of the instruction in signals, with its address if
    ``pc`` is given. While it is not valid it keeps the last one.
    """

    def decode(given: int, bits: int, *address: int) -> str | None:
        if not given:
            return None
        return instruction_text(bits, *address) if address else spelled(bits)

    spelled: Callable[[int], str] = lru_cache(maxsize=4096)(spell)
    return Text(decode, (valid, word) if pc is None else (valid, word, pc))
