"""Python's garbage collector, kept from looking where there is nothing to find."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_off"]


@contextmanager
def collector_off() -> Iterator[None]:
    """Keeps Python from looking for garbage: a design or a program is very many objects, and none of them is."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
