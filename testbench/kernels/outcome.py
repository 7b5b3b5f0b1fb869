"""What a kernel must leave in a buffer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .manifest import BufferSpec, Run, ScalarSpec

__all__ = [
    "LONG",
    "WORD",
    "Exact",
    "Expectation",
    "Inputs",
    "Kernels",
    "OneOf",
    "Outcome",
    "Rule",
    "Thread",
    "exact",
    "signed",
]

WORD = 0xFFFF_FFFF
"""All bits of a 32-bit register."""
LONG = (1 << 64) - 1
"""All bits of a 64-bit register."""
_SHOWN = 4


def signed(value: int, bits: int = 32) -> int:
    """The two's complement number in the low ``bits`` bits of ``value``."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


class Outcome(ABC):
    """What is expected of a buffer."""

    @abstractmethod
    def complaints(self, content: bytes) -> list[str]:
        """One line for each thing that is wrong with the buffer's content; the first few of them."""


@dataclass(frozen=True)
class Exact(Outcome):
    """Every byte is defined: those of ``content``."""

    content: np.ndarray

    def complaints(self, content: bytes) -> list[str]:
        """The elements that differ."""
        found = np.frombuffer(content, self.content.dtype)
        if found.shape != self.content.shape:
            return [f"{len(found)} elements, not {len(self.content)}"]
        return [
            f"element {at} is {int(found[at]):#x}, not {int(self.content[at]):#x}"
            for at in np.flatnonzero(found != self.content)[:_SHOWN]
        ]


@dataclass(frozen=True)
class OneOf(Outcome):
    """For each 32-bit word the values that it may have, or None where it may have any."""

    words: list[frozenset[int] | None]

    def complaints(self, content: bytes) -> list[str]:
        """The words that have another value."""
        found = np.frombuffer(content, "<u4")
        if len(found) != len(self.words):
            return [f"{len(found)} words, not {len(self.words)}"]
        return [
            f"word {at} is {int(value):#x}, not one of {', '.join(f'{choice:#x}' for choice in sorted(choices))}"
            for at, (value, choices) in enumerate(zip(found, self.words, strict=True))
            if choices is not None and int(value) not in choices
        ][:_SHOWN]


@dataclass(frozen=True)
class Rule(Outcome):
    """Anything for which ``broken``, given the buffer's elements of a type, returns no complaint."""

    dtype: str
    broken: Callable[[np.ndarray], list[str]]

    def complaints(self, content: bytes) -> list[str]:
        """What the rule finds."""
        return self.broken(np.frombuffer(content, self.dtype))


@dataclass(frozen=True)
class Thread:
    """A thread's indices: its own in the CTA, and its CTA's."""

    tid: tuple[int, int, int]
    ctaid: tuple[int, int, int]


class Inputs:
    """What a run's kernel is given.

    Attributes:
        run: The manifest's entry.
        buffers (dict[str, np.ndarray]): Copies of the buffers' first contents, to be changed at will.
        values: The scalar parameters; unsigned ones as they are, signed ones with their sign.
    """

    def __init__(self, run: Run, level: str) -> None:
        self.run = run
        self.buffers = {
            spec.name: spec.content.copy() for spec in run.arguments if isinstance(spec, BufferSpec)
        }
        self.values = {
            spec.name: spec.values[level] for spec in run.arguments if isinstance(spec, ScalarSpec)
        }

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.run.threads

    def words(self, name: str) -> list[int]:
        """A buffer as 32-bit unsigned words."""
        return [int(word) for word in self.buffers[name].view("<u4")]

    def ctas(self) -> Iterator[tuple[int, int, int]]:
        """Positions of the CTAs, x fastest."""
        return _positions(self.run.grid)

    def everybody(self) -> Iterator[Thread]:
        """Every thread of the grid."""
        for ctaid in self.ctas():
            for tid in _positions(self.run.block):
                yield Thread(tid, ctaid)


def _positions(size: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    for z in range(size[2]):
        for y in range(size[1]):
            for x in range(size[0]):
                yield x, y, z


Expectation = Callable[[Inputs], Mapping[str, Outcome]]
"""From a run's inputs to what is expected of the buffers that change."""


class Kernels(dict[str, Expectation]):
    """Expectations by kernel."""

    def of(self, kernel: str) -> Callable[[Expectation], Expectation]:
        """Enters the decorated function."""

        def enter(expectation: Expectation) -> Expectation:
            self[kernel] = expectation
            return expectation

        return enter

    def changing(self, kernel: str, *buffers: str) -> Callable[[Callable[..., None]], None]:
        """Enters the decorated function, which changes the words of some buffers as the kernel does."""

        def enter(change: Callable[..., None]) -> None:
            def expectation(inputs: Inputs) -> Mapping[str, Outcome]:
                words = {name: inputs.words(name) for name in buffers}
                change(inputs, *words.values())
                return {name: exact(left) for name, left in words.items()}

            self[kernel] = expectation

        return enter


def exact(words: list[int], bits: int = 32) -> Exact:
    """Words of ``bits`` bits that are all defined; of each number the low bits count."""
    return Exact(np.array([word & (1 << bits) - 1 for word in words], f"<u{bits // 8}"))
