"""Repeats the scalar optimisations until none of them finds anything to change.

They use only values whose single definition dominates every use (as in SSA): if a value and what it is made of are
such, then wherever the value may be used what it is made of has not changed.
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
    """Repeats all steps until none of them finds anything to change."""
    analysis = _Analysis(function)
    due = set(_PASSES)
    """The passes that may find something to change."""
    for step in _PASSES * _ROUNDS:
        if step not in due:
            continue
        due.discard(step)
        if step(analysis):
            # Only guards and branches that numbers decide change the ways between blocks.
            analysis = _Analysis(function, analysis.dominators if step is not _fold else None)
            due |= _AFTER_REMOVAL if step is _remove_dead else set(_PASSES)
        if not due:
            return


_ROUNDS = 12


class _Analysis:
    """A function, and what is known of it as long as it does not change."""

    def __init__(self, function: Function, dominators: Dominators | None = None) -> None:
        self.function = function
        self._dominators = dominators

    @property
    def dominators(self) -> Dominators | None:
        """The dominator tree, if it is known already."""
        return (
            self.definitions.dominators.blocks if "definitions" in vars(self) else self._dominators
        )

    @cached_property
    def definitions(self) -> Definitions:
        """Its values that are defined once."""
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
"""Each tells whether it has changed anything."""
_AFTER_REMOVAL = {_combine, _remove_dead}
"""What may find more once operations are gone: a value has one use left, or none. The other passes look at
definitions, and those that are used stay."""
