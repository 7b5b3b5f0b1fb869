"""Decodes an instruction word to its guard, its action and its error."""

from collections.abc import Mapping
from dataclasses import dataclass

from rtl.isa.condition import ConditionCode
from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error
from rtl.isa.syntax import PT, ConditionTest
from rtl.isa.table import find

from .action import Action, Maker
from .barrier_actions import barrier_action, read_action, write_action
from .compute import compute_action
from .flow import FLOW
from .state import Warp
from .system import SYSTEM
from .transfer import TRANSFERS
from .vector.operations import OPERATIONS

__all__ = ["WarpInstruction", "decode"]

_BARRIERS: Mapping[str, Maker] = {"BAR": barrier_action, "B2R": read_action, "R2B": write_action}
_MAKERS: Mapping[str, Maker] = {
    **dict.fromkeys(OPERATIONS, compute_action),
    **FLOW,
    **TRANSFERS,
    **_BARRIERS,
    **SYSTEM,
}
_ALWAYS = ConditionCode.T.value
"""The CC test that always holds."""


@dataclass(frozen=True, slots=True)
class WarpInstruction:
    """A decoded word. An ``error`` other than NONE means that the word is illegal, with any guard."""

    word: int
    error: WarpError
    action: Action
    guard: int = PT
    guard_flip: bool = False
    test: int = _ALWAYS

    def threads(self, warp: Warp) -> int:
        """Returns the active threads whose guard and CC test hold."""
        threads = warp.masks.active
        if self.guard != PT or self.guard_flip:
            guard = warp.predicates[self.guard]
            threads &= ~guard if self.guard_flip else guard
        if self.test != _ALWAYS:
            threads &= warp.condition.holds(self.test)
        return threads


def _refused(core: object, warp: Warp, threads: int, record: object) -> None:
    """The action of an illegal word, which must not be executed."""


def decode(word: int, registers: int, floats: bool = True, doubles: bool = True) -> WarpInstruction:
    """Decodes a word.

    Args:
        word: The instruction.
        registers: Registers that the launch gives each thread; a higher one is illegal.
        floats: Whether the machine has floating point.
        doubles: Whether it has double precision, too.
    """
    error = encoding_error(word, registers, floats, doubles)
    if error is not WarpError.NONE:
        return WarpInstruction(word, error, _refused)
    form = find(word)
    assert form is not None
    values = form.values(word)
    test = (
        values["test"]
        if any(isinstance(o, ConditionTest) for o in form.operands.values())
        else None
    )
    return WarpInstruction(
        word,
        WarpError.NONE,
        _MAKERS[form.name](form, values),
        values.get("guard", PT),
        bool(values.get("guard_not", 0)),
        _ALWAYS if test is None else test,
    )
