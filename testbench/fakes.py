"""Objects that take the place of others in a test."""

from types import SimpleNamespace
from typing import Any

__all__ = ["fake"]


def fake(**attributes: Any) -> Any:
    """An object with just these attributes. Its type is Any: it takes the place of an object of any class."""
    return SimpleNamespace(**attributes)
