"""Which functions run again when a word or a memory changes: a flag for each function, 32 flags to
a word.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sim.engine.graph import WORD

__all__ = ["FLAGS", "Wakes"]

FLAGS = 32
"""Flags in a word: as many as an instruction can set at once."""
_FEW = 6
"""Limit of words of flags that are set one by one; more are set by a loop."""
_TESTS = 6
"""Limit of groups of a word's bits that are tested separately."""

Change = tuple[int, str, int]
"""The place of a word, the name of its new value in C++, and its width."""
_EVERY = (1 << WORD) - 1


def _masks(functions: Iterable[int]) -> list[tuple[int, int]]:
    """Returns the words that hold the flags of functions, and their bits."""
    found: dict[int, int] = defaultdict(int)
    for function in functions:
        found[function // FLAGS] |= 1 << function % FLAGS
    return sorted(found.items())


class CollectedChanges(NamedTuple):
    """C++ that changes several words: declarations before the first change, a statement for each
    word, and statements after the last one.
    """

    declarations: list[str]
    statements: list[str]
    wakes: list[str]


class Wakes:
    """The readers of words and memories, by number of the function."""

    def __init__(self) -> None:
        self._readers: dict[int, dict[int, int]] = defaultdict(dict)
        self._memory_readers: dict[int, set[int]] = defaultdict(set)

    def note(self, function: int, place: int, bits: int) -> None:
        """Records that a function depends on bits of a word."""
        readers = self._readers[place]
        readers[function] = readers.get(function, 0) | bits

    def note_memories(self, function: int, memories: Iterable[int]) -> None:
        """Records that a function depends on memories."""
        for memory in memories:
            self._memory_readers[memory].add(function)

    def change(self, place: int, value: str, width: int, but: int | None = None) -> str:
        """Returns C++ that assigns a word of this width and sets the flags of its readers, except
        one.
        """
        groups = self._groups(place, (1 << width) - 1, but)
        if not groups:
            return f"w[{place}] = {value};"
        if list(groups) == [0]:
            raised = self._raise(place, _masks(groups[0]))
            return f"if ({value} != w[{place}]) {{ w[{place}] = {value}; {raised} }}"
        tests = []
        for bits, readers in groups.items():
            text = self._raise(place, _masks(readers))
            tests.append(f"if (x & {bits:#x}ull) {{ {text} }}" if bits else text)
        return f"if (const word x = {value} ^ w[{place}]) {{ w[{place}] = {value}; {' '.join(tests)} }}"

    def change_together(self, changes: Sequence[Change]) -> CollectedChanges:
        """Returns C++ that assigns several words and sets the flags of their readers.

        Functions that several of the words wake are woken together: changed bits are collected
        without a branch, and tested once at the end. One in five to ten of the recomputed words has
        changed, irregularly, so that processors mispredict such branches: with fewer of them a
        model is 5 to 11 % faster.
        """
        groups = [
            {
                bits: tuple(_masks(readers))
                for bits, readers in self._groups(place, (1 << width) - 1, None).items()
            }
            for place, _, width in changes
        ]
        uses = Counter(target for each in groups for target in each.values())
        collectors = {
            target: f"g{number}"
            for number, target in enumerate(
                target for target, count in uses.items() if count > 1 and len(target) <= _FEW
            )
        }
        statements = []
        for (place, value, width), each in zip(changes, groups, strict=True):
            if collectors.keys().isdisjoint(each.values()):
                statements.append(self.change(place, value, width))
                continue
            effects = []
            for bits, target in each.items():
                changed = f"x & {bits:#x}ull" if bits else "x"
                if target in collectors:
                    effects.append(f"{collectors[target]} |= {changed};")
                else:
                    effects.append(f"if ({changed}) {{ {self._raise(place, target)} }}")
            statements.append(
                f"{{ const word x = {value} ^ w[{place}]; w[{place}] = {value}; {' '.join(effects)} }}"
            )
        return CollectedChanges(
            [f"word {name} = 0;" for name in collectors.values()],
            statements,
            [f"if ({name}) {{ {self._raise(0, target)} }}" for target, name in collectors.items()],
        )

    def _groups(self, place: int, every: int, but: int | None) -> dict[int, list[int]]:
        """Groups a word's readers by the bits on which they depend; key 0 means all bits."""
        groups: dict[int, list[int]] = defaultdict(list)
        for reader, bits in self._readers.get(place, {}).items():
            if reader != but:
                groups[0 if bits & every == every else bits & every].append(reader)
        while len(groups) > _TESTS + (0 in groups):
            widest = max(groups, key=int.bit_count)
            groups[0] += groups.pop(widest)
        return groups

    def _raise(self, place: int, masks: Sequence[tuple[int, int]]) -> str:
        """Returns C++ that sets the flags of a word's readers."""
        if len(masks) > _FEW:
            return f"s->wake({place}, {_EVERY:#x}ull);"
        return " ".join(f"d[{word}] |= {mask:#x};" for word, mask in masks)

    def tables(self, words: int, memories: int) -> str:
        """Returns the tables that the runtime reads: for each word and each memory the index of its
        first entry.
        """
        lines = []
        readers = [self._readers.get(place, {}) for place in range(words)]
        everything = [
            dict.fromkeys(self._memory_readers.get(memory, ()), -1) for memory in range(memories)
        ]
        for name, owners in (("reader", readers), ("memory", everything)):
            starts, entries = [0], []
            for each in owners:
                groups: dict[int, list[int]] = defaultdict(list)
                for function, bits in each.items():
                    groups[bits & _EVERY].append(function)
                entries += [
                    f"{{ {bits:#x}ull, {word}, {mask:#x} }}"
                    for bits, functions in groups.items()
                    for word, mask in _masks(functions)
                ]
                starts.append(len(entries))
            lines += [
                f"static const uint32_t {name}_starts[] = {{ {', '.join(map(str, starts))} }};",
                f"static const entry {name}_entries[] = {{ {', '.join(entries) or '{}'} }};",
            ]
        return "\n".join(lines)
