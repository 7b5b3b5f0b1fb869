"""A warp's masks and stack at a moment, on any machine."""

from dataclasses import asdict, dataclass

from rtl.layouts import ThreadCode
from sim.model.warp.faults import WarpFaultError
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.model.warp.state import Warp
from sim.model.warp.unwind import DISABLED_BY

__all__ = ["MASK_OF", "SHOWN_TOKENS", "WarpState", "state_of"]

SHOWN_TOKENS = 16
"""Number of tokens from the top of a stack that a state holds."""
MASK_OF = {
    **{ThreadCode[kind.name]: mask for kind, mask in DISABLED_BY.items()},
    ThreadCode.KILLED: "killed",
}
"""The disabled mask for each thread code."""


@dataclass(frozen=True)
class WarpState:
    """The state of a stopped warp, for a user.

    Attributes:
        depth: Number of tokens on the stack.
        calls: Number of counted calls among them, if known.
        tokens: The topmost tokens, top first.
        unreadable: The reason why memory could not be read for the rest of them.
    """

    masks: WarpMasks
    depth: int
    calls: int
    tokens: tuple[StackToken, ...]
    unreadable: str = ""

    def lines(self) -> list[str]:
        """Returns the state as text: masks that have threads, and the stack."""
        masks = " ".join(f"{name} {mask:08x}" for name, mask in asdict(self.masks).items() if mask)
        head = (
            f"stack         {self.depth} tokens, {self.calls} counted calls open"
            + ", top first" * bool(self.depth)
        )
        return [f"masks         {masks}", head, *self.stack_lines()]

    def stack_lines(self) -> list[str]:
        """Returns the tokens as text."""
        lines, rest = [f"     {token}" for token in self.tokens], self.depth - len(self.tokens)
        if self.unreadable:
            return [*lines, f"     {rest} tokens in memory that faults: {self.unreadable}"]
        return [*lines, f"     {rest} more"] if rest else lines

    def decoded(self) -> dict[str, object]:
        """Returns the state for JSON: masks and depth as numbers, tokens as text."""
        return {
            "masks": asdict(self.masks),
            "stack": {
                "depth": self.depth,
                "calls": self.calls,
                "top": [str(token) for token in self.tokens],
            },
        }


def state_of(warp: Warp) -> WarpState:
    """Returns the state of a warp of the warp model."""
    tokens, unreadable, depth = [], "", warp.stack.depth
    for index in reversed(range(max(0, depth - SHOWN_TOKENS), depth)):
        try:
            tokens.append(warp.stack.token(index))
        except WarpFaultError as fault:
            unreadable = fault.detail
            break
    return WarpState(warp.masks, depth, warp.api_call_depth, tuple(tokens), unreadable)
