"""Repeats the scalar optimisations until none of them finds anything to change.

They use only values whose single definition dominates every use (as in SSA): if a value and what it is made of are
such, then wherever the value may be used what it is made of has not changed.
"""

from collections.abc import Callable
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
    unchanged = 0
    for step in _PASSES * _ROUNDS:
        if step(analysis):
            # Only guards and branches that numbers decide change the ways between blocks.
            analysis = _Analysis(function, analysis.dominators if step is not _PASSES[0] else None)
            unchanged = 0
            continue
        unchanged += 1
        if unchanged == _STEPS:
            return


_ROUNDS = 12
_STEPS = 5


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


_PASSES: tuple[Callable[[_Analysis], bool], ...] = (
    lambda analysis: fold_constants(analysis.function),
    lambda analysis: propagate(analysis.function, analysis.definitions),
    lambda analysis: share_subexpressions(analysis.function, analysis.definitions),
    lambda analysis: combine(analysis.function, analysis.definitions),
    lambda analysis: remove_dead_code(analysis.function),
)
"""Each tells whether it has changed anything."""
