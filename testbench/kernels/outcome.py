"""Kinds of expectations of a buffer's final content."""

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
    """Returns the low ``bits`` bits of ``value`` as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


class Outcome(ABC):
    """The expected content of a buffer."""

    @abstractmethod
    def complaints(self, content: bytes) -> list[str]:
        """Returns one line for each error in the buffer's content, for the first few errors."""


@dataclass(frozen=True)
class Exact(Outcome):
    """Every byte is defined and must equal ``content``."""

    content: np.ndarray

    def complaints(self, content: bytes) -> list[str]:
        """Returns a line for each element that differs."""
        found = np.frombuffer(content, self.content.dtype)
        if found.shape != self.content.shape:
            return [f"{len(found)} elements, not {len(self.content)}"]
        return [
            f"element {at} is {int(found[at]):#x}, not {int(self.content[at]):#x}"
            for at in np.flatnonzero(found != self.content)[:_SHOWN]
        ]


@dataclass(frozen=True)
class OneOf(Outcome):
    """For each 32-bit word the permitted values, or None if every value is permitted."""

    words: list[frozenset[int] | None]

    def complaints(self, content: bytes) -> list[str]:
        """Returns a line for each word with another value."""
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
    """Any content for which ``broken``, called with the buffer's elements of a type, returns no
    complaint.
    """

    dtype: str
    broken: Callable[[np.ndarray], list[str]]

    def complaints(self, content: bytes) -> list[str]:
        """Returns the complaints of the rule."""
        return self.broken(np.frombuffer(content, self.dtype))


@dataclass(frozen=True)
class Thread:
    """The indices of a thread in its CTA, and of its CTA in the grid."""

    tid: tuple[int, int, int]
    ctaid: tuple[int, int, int]


class Inputs:
    """Inputs of a run's kernel.

    Attributes:
        run: The manifest's entry.
        buffers (dict[str, np.ndarray]): Copies of the buffers' initial contents, which may be
        changed.
        values: The scalar parameters as unsigned or signed numbers, according to their type.
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
        """Number of threads of a CTA."""
        return self.run.threads

    def words(self, name: str) -> list[int]:
        """Returns a buffer as 32-bit unsigned words."""
        return [int(word) for word in self.buffers[name].view("<u4")]

    def ctas(self) -> Iterator[tuple[int, int, int]]:
        """Yields the positions of the CTAs, x fastest."""
        return _positions(self.run.grid)

    def everybody(self) -> Iterator[Thread]:
        """Yields every thread of the grid."""
        for ctaid in self.ctas():
            for tid in _positions(self.run.block):
                yield Thread(tid, ctaid)


def _positions(size: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    for z in range(size[2]):
        for y in range(size[1]):
            for x in range(size[0]):
                yield x, y, z


Expectation = Callable[[Inputs], Mapping[str, Outcome]]
"""A function from a run's inputs to the expected outcome of each buffer that changes."""


class Kernels(dict[str, Expectation]):
    """Expectations by kernel."""

    def of(self, kernel: str) -> Callable[[Expectation], Expectation]:
        """Returns a decorator that registers a function for the kernel."""

        def enter(expectation: Expectation) -> Expectation:
            self[kernel] = expectation
            return expectation

        return enter

    def changing(self, kernel: str, *buffers: str) -> Callable[[Callable[..., None]], None]:
        """Returns a decorator for a function that changes the words of these buffers as the kernel
        does.
        """

        def enter(change: Callable[..., None]) -> None:
            def expectation(inputs: Inputs) -> Mapping[str, Outcome]:
                words = {name: inputs.words(name) for name in buffers}
                change(inputs, *words.values())
                return {name: exact(left) for name, left in words.items()}

            self[kernel] = expectation

        return enter


def exact(words: list[int], bits: int = 32) -> Exact:
    """Returns an outcome of words that are all defined: the low ``bits`` bits of each number."""
    return Exact(np.array([word & (1 << bits) - 1 for word in words], f"<u{bits // 8}"))
