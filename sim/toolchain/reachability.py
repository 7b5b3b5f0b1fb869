"""Computes the instructions of a program that a kernel can reach.

The walk begins at the kernel's entry and follows the next instruction and the targets of branches,
calls and pushes. A target in a register or a constant may be every instruction of the same code
section and, if it is absolute, every function whose address the program contains. The result is an
overapproximation (ours).
"""

from collections.abc import Iterator, Mapping

from rtl.isa.control_code import INSTRUCTION_BYTES, instruction_address, next_address
from rtl.isa.syntax import Constant, Target

from .assembly.latency import Operation, operation
from .module import EntryPoint, Module, Patch

__all__ = ["reachable_instructions"]

_LEAVES = frozenset(
    {"BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "KIL", "BRK", "CONT", "LONGJMP", "SYNC", "RTT"}
)
"""Instructions without a successor, if they have no guard."""


def reachable_instructions(module: Module, kernel: EntryPoint) -> Iterator[tuple[int, int]]:
    """Yields address and word of the instructions that threads of ``kernel`` can reach, in
    ascending order.
    """
    walk = _CodeWalk(module, kernel)
    walk.go(kernel.entry)
    for address in sorted(walk.found):
        yield address, walk.found[address]


class _CodeWalk:
    """A walk over the code. ``found`` are the words found so far by their addresses."""

    def __init__(self, module: Module, kernel: EntryPoint) -> None:
        self._code, self._extents = (
            module.code.content,
            module.sections or (range(len(module.code.content)),),
        )
        self._functions: Mapping[str, int] = module.code.symbols
        self._patches = {patch.offset: patch for patch in module.code.patches}
        self._tables = [
            patch
            for data in (module.data, *module.constants.values(), *kernel.constants.values())
            for patch in data.patches
        ]
        self._jumps_anywhere = False
        self._addressed: set[int] = set()
        self._todo: list[int] = []
        self.found: dict[int, int] = {}

    def go(self, entry: int) -> None:
        """Walks from one address until no new instruction is found."""
        self._todo.append(entry)
        while self._todo:
            address = instruction_address(self._todo.pop())
            if address in self.found or address not in range(len(self._code)):
                continue
            word = int.from_bytes(self._code[address : address + INSTRUCTION_BYTES], "little")
            self.found[address] = word
            if (op := operation(word)) is not None:
                self._follow(address, op, word)

    def _follow(self, address: int, op: Operation, word: int) -> None:
        """Adds the successors of an instruction."""
        following = next_address(address)
        if op.guarded or op.form.name not in _LEAVES:
            self._todo.append(following)
        patch = self._patches.get(address)
        match op.form.operands.get("target"):
            case Target(field, relative, None):
                place = op.form.fields[field].get(word) + (
                    address + INSTRUCTION_BYTES if relative else 0
                )
                if patch is not None:
                    place = self._place(patch)
                self._todo += [] if place is None else [place]
            case Target(_, relative, _):
                self._anywhere(address, relative)
            case Constant():
                self._anywhere(address, op.form.name not in ("JMP", "JMX", "JCAL"))
            case _ if patch is not None and (place := self._place(patch)) is not None:
                self._addressed.add(place)
                if self._jumps_anywhere:
                    self._todo.append(place)

    def _place(self, patch: Patch) -> int | None:
        """Returns the code address in a patch, or None if it is not that of a function."""
        function = self._functions.get(patch.symbol)
        return None if function is None else function + patch.addend

    def _anywhere(self, address: int, relative: bool) -> None:
        """Adds all possible targets of a branch through a register or a constant."""
        section = next(extent for extent in self._extents if address in extent)
        self._todo += range(section.start, section.stop, INSTRUCTION_BYTES)
        if not relative and not self._jumps_anywhere:
            self._jumps_anywhere = True
            self._addressed |= {
                place for patch in self._tables if (place := self._place(patch)) is not None
            }
            self._todo += self._addressed
