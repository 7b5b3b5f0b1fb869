"""Runs the scalar optimisations until none of them changes anything.

They use only values whose single definition dominates every use (as in SSA). If a value and its
sources have this property, the sources are unchanged at every use of the value.
"""

from functools import cached_property

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.analysis.dominators import Dominators
from sim.toolchain.compiler.ir import Function

from .combine import combine
from .constant_folding import fold_constants
from .constant_propagation import propagate
from .cse import share_subexpressions
from .dead_code import remove_dead_code

__all__ = ["optimise"]


def optimise(function: Function) -> None:
    """Runs all optimisations until none of them changes anything."""
    analysis = _Analysis(function)
    due = set(_PASSES)
    """The optimisations that may change something."""
    for step in _PASSES * _ROUNDS:
        if step not in due:
            continue
        due.discard(step)
        if step(analysis):
            # Only constant guards and branches change the control-flow graph.
            analysis = _Analysis(function, analysis.dominators if step is not _fold else None)
            due |= _AFTER_REMOVAL if step is _remove_dead else set(_PASSES)
        if not due:
            return


_ROUNDS = 12


class _Analysis:
    """A function, and analyses that are valid until it changes."""

    def __init__(self, function: Function, dominators: Dominators | None = None) -> None:
        self.function = function
        self._dominators = dominators

    @property
    def dominators(self) -> Dominators | None:
        """The dominator tree, or None if it is not computed."""
        return (
            self.definitions.dominators.blocks if "definitions" in vars(self) else self._dominators
        )

    @cached_property
    def definitions(self) -> Definitions:
        """The values with a single definition."""
        return Definitions(self.function, self._dominators)


def _fold(analysis: _Analysis) -> bool:
    return fold_constants(analysis.function)


def _propagate(analysis: _Analysis) -> bool:
    return propagate(analysis.function, analysis.definitions)


def _share(analysis: _Analysis) -> bool:
    return share_subexpressions(analysis.function, analysis.definitions)


def _combine(analysis: _Analysis) -> bool:
    return combine(analysis.function, analysis.definitions)


def _remove_dead(analysis: _Analysis) -> bool:
    return remove_dead_code(analysis.function)


_PASSES = (_fold, _propagate, _share, _combine, _remove_dead)
"""The optimisations in order. Each returns whether it changed anything."""
_AFTER_REMOVAL = {_combine, _remove_dead}
"""Optimisations that may find more after operations are removed, as a value has one use left, or
none. The others depend on definitions only, and used definitions are kept.
"""
