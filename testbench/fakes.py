"""Objects that replace others in a test."""

from types import SimpleNamespace
from typing import Any

__all__ = ["fake"]


def fake(**attributes: Any) -> Any:
    """Returns an object with just these attributes, of type Any, so that it can replace an object
    of any class.
    """
    return SimpleNamespace(**attributes)
