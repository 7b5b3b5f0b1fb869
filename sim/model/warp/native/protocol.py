"""The warp model's interface for an executor."""

from typing import Protocol

from ..action import Core
from ..retirement import Execution
from ..state import Cta, Warp

__all__ = ["ExecutableModel"]


class ExecutableModel(Core, Protocol):
    """The warp model, as :class:`~sim.model.warp.model.WarpModel` documents it."""

    warps: list[Warp | None]
    instructions: int
    report_mask: int
    stack_tokens: int
    banks: dict[int, bytes]
    local_memory: int
    cta_count: int
    next_cta: int
    last_slot: int

    @property
    def live(self) -> list[Warp]:
        """The warps that have not ended."""
        ...

    def make_cta(self, number: int) -> Cta:
        """Returns a new CTA of the launch, by its number in the order in which CTAs start."""
        ...

    def number_of(self, cta: Cta) -> int:
        """Returns the number of a CTA in the order in which CTAs start."""
        ...

    def execute(self, warp: Warp) -> Execution:
        """Executes the next instruction of a warp, without its consequences for the machine."""
        ...

    def complete(self, warp: Warp, execution: Execution) -> None:
        """Applies the consequences of an executed instruction."""
        ...
