"""A warp's masks and stack at a moment, of any machine."""

from dataclasses import asdict, dataclass

from rtl.layouts import ThreadCode
from sim.model.warp.faults import WarpFaultError
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.model.warp.state import Warp
from sim.model.warp.unwind import DISABLED_BY

__all__ = ["MASK_OF", "SHOWN_TOKENS", "WarpState", "state_of"]

SHOWN_TOKENS = 16
"""Of a stack's top, tokens that a state holds."""
MASK_OF = {
    **{ThreadCode[kind.name]: mask for kind, mask in DISABLED_BY.items()},
    ThreadCode.KILLED: "killed",
}
"""The mask of the threads with a code."""


@dataclass(frozen=True)
class WarpState:
    """The state of a stopped warp, for a user.

    ``depth`` is the number of tokens on its stack, ``calls`` the number of its counted calls, if
    known. ``tokens`` are the topmost ones, top first; where memory could not be read for the rest
    of them, ``unreadable`` has the reason.
    """

    masks: WarpMasks
    depth: int
    calls: int
    tokens: tuple[StackToken, ...]
    unreadable: str = ""

    def lines(self) -> list[str]:
        """As text: masks that have threads, and the stack."""
        masks = " ".join(f"{name} {mask:08x}" for name, mask in asdict(self.masks).items() if mask)
        head = (
            f"stack         {self.depth} tokens, {self.calls} counted calls open"
            + ", top first" * bool(self.depth)
        )
        return [f"masks         {masks}", head, *self.stack_lines()]

    def stack_lines(self) -> list[str]:
        """The tokens as text."""
        lines, rest = [f"     {token}" for token in self.tokens], self.depth - len(self.tokens)
        if self.unreadable:
            return [*lines, f"     {rest} tokens in memory that faults: {self.unreadable}"]
        return [*lines, f"     {rest} more"] if rest else lines

    def decoded(self) -> dict[str, object]:
        """The form for files: masks and depth as numbers, tokens as text."""
        return {
            "masks": asdict(self.masks),
            "stack": {
                "depth": self.depth,
                "calls": self.calls,
                "top": [str(token) for token in self.tokens],
            },
        }


def state_of(warp: Warp) -> WarpState:
    """The state of a warp of the warp model."""
    tokens, unreadable, depth = [], "", warp.stack.depth
    for index in reversed(range(max(0, depth - SHOWN_TOKENS), depth)):
        try:
            tokens.append(warp.stack.token(index))
        except WarpFaultError as fault:
            unreadable = fault.detail
            break
    return WarpState(warp.masks, depth, warp.api_call_depth, tuple(tokens), unreadable)
