"""Builds the data of a program: constant banks and global variables."""

from collections.abc import Mapping
from typing import Protocol

from lark import Token

from sim.toolchain.cubin.relocation import GENERIC_BYTES, RelocationKind

from .operands import Reference
from .program import ELEMENT_BYTES, ZERO, DataBlock, Piece
from .source import Number, SassAddressByte, SassGeneric, SassSum, SourceError

__all__ = ["build_memory"]

_ADDRESSES = {".word": RelocationKind.DATA_32, ".dword": RelocationKind.GENERIC_64}
_GENERIC_ADDRESSES = {".word": RelocationKind.GENERIC_32, ".dword": RelocationKind.GENERIC_64}


class _NameResolver(Protocol):
    """Resolves names."""

    def value(self, name: Token) -> int:
        """Returns the value of a name."""
        ...


def build_memory(
    memory: DataBlock, scope: _NameResolver, addressed: set[str]
) -> tuple[bytes, list[tuple[int, Reference]]]:
    """Builds the content of a bank or of the variables.

    Args:
        memory: The pieces with their directives.
        scope: The resolver of names.
        addressed: The names that have addresses.

    Returns:
        The content, and the places of addresses in it.
    """
    content = bytearray(memory.size)
    references: list[tuple[int, Reference]] = []
    for piece in memory.pieces:
        data = _piece(piece, scope, addressed, references)
        content[piece.place : piece.place + len(data)] = data
    return bytes(content), references


def _piece(
    piece: Piece, scope: _NameResolver, addressed: set[str], references: list[tuple[int, Reference]]
) -> bytes:
    data = bytearray()
    for line in piece.data:
        for value in line.values:
            if line.kind == ZERO:
                data += bytes(value.token)
                continue
            address = value.inner if isinstance(value, SassAddressByte) else value
            generic = isinstance(address, SassGeneric)
            terms = address.inner if isinstance(address, SassGeneric) else address
            kinds: Mapping[str, RelocationKind] = _GENERIC_ADDRESSES if generic else _ADDRESSES
            if isinstance(value, SassAddressByte):
                kinds = {".byte": GENERIC_BYTES[value.shift]}
            names = [
                token
                for _, token in terms.terms
                if isinstance(token, Token) and (generic or token in addressed)
            ]
            if (generic or isinstance(value, SassAddressByte)) and not names:
                raise SourceError(terms.token, "expected one address, and numbers added to it")
            if names:
                references.append(
                    (piece.place + len(data), _reference(line.kind, terms, names, kinds))
                )
            total = 0 if names else _total(terms, scope)
            size = ELEMENT_BYTES[line.kind]
            if not -(1 << 8 * size - 1) <= total < 1 << 8 * size:
                raise SourceError(value.token, f"{total:#x} does not fit {size} bytes")
            data += (total % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(data)


def _total(value: SassSum, scope: _NameResolver) -> int:
    return sum(
        sign * (token if isinstance(token, Number) else scope.value(token))
        for sign, token in value.terms
    )


def _reference(
    kind: Token, value: SassSum, names: list[Token], kinds: Mapping[str, RelocationKind]
) -> Reference:
    """Returns the reference for a value with an address; its kind is that of the directive in
    ``kinds``.
    """
    others = [(sign, token) for sign, token in value.terms if token is not names[0]]
    if str(kind) not in kinds:
        raise SourceError(
            names[0],
            f"{names[0]} has an address, for which {kind} has no room: "
            f"expected {' or '.join(kinds)}",
        )
    numbers = [sign * token for sign, token in others if isinstance(token, Number)]
    if len(numbers) < len(others) or (-1, names[0]) in value.terms:
        raise SourceError(names[0], "expected one address, and numbers added to it")
    return Reference(kinds[str(kind)], names[0], sum(numbers))
