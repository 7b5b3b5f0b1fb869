"""The base of components whose ports depend on their parameters."""

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

__all__ = ["Component", "members_of", "pass_on", "ports"]


def members_of(part: wiring.Component, *names: str, **renamed: str) -> dict[str, Any]:
    """Members of a component, for the signature of one that has the same ports, or by another name (``own=inner``),
    and joins them with its own."""
    return {own: part.signature.members[inner] for own, inner in (*zip(names, names, strict=True), *renamed.items())}


def ports(*names: str, **renamed: str) -> dict[str, str]:
    """Names of ports and what those are called in a part: for ``members_of`` and ``join``."""
    return dict(zip(names, names, strict=True)) | renamed


def pass_on(m: Module, sender: Any, receiver: Any, *names: str, domain: str = "comb") -> None:
    """Assigns ports of a component, or fields of a structure, to those of the same names of another."""
    m.d[domain] += [getattr(receiver, name).eq(getattr(sender, name)) for name in names]


class Component(wiring.Component):
    """A component that gives its ports to the constructor, where type checkers do not see them."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """A port."""

    def join(self, m: Module, part: wiring.Component, *names: str, **renamed: str) -> None:
        """Joins ports with those of the same names of a part of the component, or of another name (``own=inner``)."""
        for own_name, name in (*zip(names, names, strict=True), *renamed.items()):
            member, here, there = part.signature.members[name], getattr(self, own_name), getattr(part, name)
            if not member.is_signature:
                m.d.comb += there.eq(here) if member.flow is In else here.eq(there)
            else:
                for own, inner in zip(here, there, strict=True) if member.dimensions else ((here, there),):
                    connect(m, flipped(own), inner)
