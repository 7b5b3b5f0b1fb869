"""Scopes of names, and unique names that remain valid once scopes are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

from lark import Token

from sim.toolchain.grammar import SourceError

from .module import FunctionRef, Linkage, PtxLabel, PtxRegister, PtxVariable, Signature, Type

__all__ = [
    "BranchTable",
    "CallTable",
    "Declared",
    "Entity",
    "Namer",
    "Opaque",
    "Prototype",
    "RegisterVector",
    "Scope",
    "TextureError",
]

MOST_REGISTERS = 1 << 20
"""The longest range of registers (ours)."""


@dataclass(frozen=True)
class RegisterVector:
    """Registers that were declared as one vector."""

    elements: tuple[PtxRegister, ...]


@dataclass(frozen=True)
class Opaque:
    """A texture, sampler or surface, as ``kind`` says."""

    kind: str


class TextureError(SourceError):
    """A function uses a texture, sampler or surface. These are not supported: the function cannot
    run, others can.
    """


@dataclass(frozen=True)
class BranchTable:
    """The labels of a .branchtargets list."""

    labels: tuple[PtxLabel, ...]


@dataclass(frozen=True)
class CallTable:
    """The functions of a .calltargets list."""

    functions: tuple[Declared, ...]


@dataclass(frozen=True)
class Prototype:
    """The signature of a .callprototype."""

    signature: Signature


@dataclass(eq=False)
class Declared:
    """A declared function. ``name`` is the token of its first declaration."""

    name: Token
    entry: bool
    linkage: Linkage
    signature: Signature
    reference: FunctionRef
    defined: bool = False
    used: Token | None = None


Entity = (
    PtxRegister
    | RegisterVector
    | PtxVariable
    | PtxLabel
    | BranchTable
    | CallTable
    | Prototype
    | Declared
    | Opaque
)


@dataclass
class Namer:
    """Provides unique names. A name that is in use gets a dot and a number; PTX names have no
    dots.
    """

    taken: set[str] = field(default_factory=set)

    def unique(self, name: str) -> str:
        """Returns the name, or a unique variant of it."""
        found, number = name, 0
        while found in self.taken:
            number += 1
            found = f"{name}.{number}"
        self.taken.add(found)
        return found


@dataclass(frozen=True)
class _Range:
    """The range ``r<10>``: registers r0 to r9, which are created when they are first named."""

    name: Token
    prefix: str
    count: int
    type: Type

    def __contains__(self, name: str) -> bool:
        digits = name.removeprefix(self.prefix)
        # removeprefix leaves a name with another prefix unchanged, and no name consists of digits
        # only.
        if not (digits.isascii() and digits.isdigit()) or (digits[0] == "0" and digits != "0"):
            return False
        return len(digits) <= len(str(self.count)) and int(digits) < self.count


@dataclass
class Scope:
    """The names of a block. ``outer`` is the scope around it, None for the module.

    ``namer`` and ``registers`` belong to the whole function; ``registers`` collects the registers
    that it names. ``copies`` are the function's own registers for module registers that it names;
    :mod:`.copies` keeps them consistent.
    """

    namer: Namer
    outer: Scope | None = None
    registers: list[PtxRegister] = field(default_factory=list)
    copies: dict[PtxRegister, PtxRegister] = field(default_factory=dict)
    _entities: dict[str, Entity] = field(default_factory=dict)
    _places: dict[str, Token] = field(default_factory=dict)
    _ranges: list[_Range] = field(default_factory=list)

    def inner(self) -> Scope:
        """Returns a new scope inside this one."""
        return Scope(self.namer, self, self.registers, self.copies)

    @property
    def outermost(self) -> Scope:
        """The module's scope."""
        return self if self.outer is None else self.outer.outermost

    def declare(self, name: Token, entity: Entity) -> None:
        """Declares a name.

        Raises:
            SourceError: The scope already has the name.
        """
        inside = next((range_.name for range_ in self._ranges if name in range_), None)
        # Plain strings are looked up faster than tokens, whose comparison includes their types.
        key = str(name)
        self._refuse_taken(name, key, self._places.get(key, inside))
        self._entities[key] = entity
        self._places[key] = name

    def declare_range(self, prefix: Token, count: int, kind: Type) -> None:
        """Declares a range of registers, numbered from 0."""
        if count > MOST_REGISTERS:
            raise SourceError(
                prefix, f"{prefix}<{count}> are too many registers: {MOST_REGISTERS} at most"
            )
        new = _Range(prefix, str(prefix), count, kind)
        for name, place in self._places.items():
            if name in new:
                self._refuse_taken(prefix, name, place)
        for old in self._ranges:
            # Two ranges overlap if the longer prefix is the shorter one plus digits: r<20> and
            # r1<5> at r10.
            short, long = sorted((old, new), key=lambda item: len(item.prefix))
            common = next(
                (
                    number
                    for number in range(min(long.count, 10))
                    if f"{long.prefix}{number}" in short
                ),
                None,
            )
            if common is not None:
                self._refuse_taken(prefix, f"{long.prefix}{common}", old.name)
        self._ranges.append(new)

    @staticmethod
    def _refuse_taken(place: Token, name: str, first: Token | None) -> None:
        if first is not None:
            raise SourceError(
                place, f"{name} is declared twice in the same scope, first in line {first.line}"
            )

    def new_register(self, name: str, kind: Type) -> PtxRegister:
        """Returns a new register of the function."""
        register = PtxRegister(self.namer.unique(name), kind)
        self.registers.append(register)
        return register

    def find(self, name: Token) -> Entity | None:
        """Returns the entity that a name denotes in this scope, or None if it is not declared."""
        key = str(name)
        found = self._entities.get(key)
        if found is not None:
            return found
        for range_ in self._ranges:
            if key in range_:
                register = self.new_register(key, range_.type)
                self._entities[key] = register
                return register
        if self.outer is None:
            return None
        found = self.outer.find(name)
        if self.outer.outer is not None or not isinstance(found, PtxRegister | RegisterVector):
            return found
        # A function has its own registers for those of the module.
        own = (
            self._copy(found)
            if isinstance(found, PtxRegister)
            else RegisterVector(tuple(self._copy(element) for element in found.elements))
        )
        self._entities[key] = own
        return own

    def _copy(self, register: PtxRegister) -> PtxRegister:
        """Returns the function's own register for a module register."""
        if register not in self.copies:
            self.copies[register] = self.new_register(register.name, register.type)
        return self.copies[register]
