"""The base of components whose ports depend on their parameters."""

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

__all__ = ["Component", "members_of", "pass_on"]


def members_of(part: wiring.Component, *names: str, **renamed: str) -> dict[str, Any]:
    """Members of a component, for the signature of one that has the same ports, by the same name
    or by another one (``own=inner``)."""
    members = part.signature.members
    same = {name: members[name] for name in names}
    return same | {own: members[inner] for own, inner in renamed.items()}


def pass_on(m: Module, sender: Any, receiver: Any, *names: str, domain: str = "comb") -> None:
    """Assigns ports of a component, or fields of a structure, to those of the same names of
    another."""
    for name in names:
        m.d[domain] += getattr(receiver, name).eq(getattr(sender, name))


class Component(wiring.Component):
    """A component that gives its ports to the constructor, where type checkers do not see them."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """A port."""

    def join(self, m: Module, part: wiring.Component, *names: str, **renamed: str) -> None:
        """Connects ports with those of a part of the component, of the same names or of other ones
        (``own=inner``)."""
        for own_name, name in (*zip(names, names, strict=True), *renamed.items()):
            member = part.signature.members[name]
            own = getattr(self, own_name)
            inner = getattr(part, name)
            if member.is_signature:
                pairs = zip(own, inner, strict=True) if member.dimensions else ((own, inner),)
                for own_port, inner_port in pairs:
                    connect(m, flipped(own_port), inner_port)
            elif member.flow is In:
                m.d.comb += inner.eq(own)
            else:
                m.d.comb += own.eq(inner)
