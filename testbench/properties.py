"""Tests on many inputs. Apart from :mod:`testbench.words`, which testbenches read, too: they do without hypothesis."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy


def for_many(*strategies: SearchStrategy) -> Callable[[Callable], Callable]:
    """Runs a test on many inputs, the same ones each time."""
    return lambda test: settings(max_examples=80, deadline=None, derandomize=True)(given(*strategies)(test))
