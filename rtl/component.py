"""The base of components whose ports depend on their parameters."""

from typing import TYPE_CHECKING, Any

from amaranth.lib import wiring

__all__ = ["Component"]


class Component(wiring.Component):
    """A component that passes its ports to the constructor, where type checkers cannot find
    them."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """A port."""
