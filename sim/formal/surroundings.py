"""What is said of hardware that is proved, and what is around it."""

from collections.abc import Callable
from typing import Any

from amaranth.asserts import AnySeq  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Assert, Assume, Cat, Cover, Elaboratable, Fragment, Module, ResetSignal, Signal, Value
from amaranth.lib.wiring import In

__all__ = ["Past", "can_happen", "claim", "free", "no_reset", "put"]


class Past:
    """What values were in the cycle before; 0 in the first one. Called outside of conditions: what it makes is a
    register.

    Attributes:
        begun: There was a cycle before.
    """

    def __init__(self, m: Module) -> None:
        self._m = m
        self._made = 0
        self.begun = Signal()
        m.d.sync += self.begun.eq(1)

    def __call__(self, value: Any) -> Any:
        """What it was."""
        self._made += 1
        before: Any = Signal.like(value, name=f"past_{self._made}", init=0)
        self._m.d.sync += before.eq(value)
        return before


def claim(m: Module, what: Any, message: str, *, when: Any = 1) -> None:
    """Something holds, in every cycle, or in those in which something else is true."""
    m.d.comb += Assert(~Value.cast(when).any() | Value.cast(what).any(), message, src_loc_at=1)


def can_happen(m: Module, what: Any, message: str) -> None:
    """Something is true in some cycle of some run."""
    m.d.comb += Cover(what, message, src_loc_at=1)


def free(m: Module, *signals: Any) -> None:
    """Signals are anything in every cycle; of a component or an interface, its inputs are."""
    for signal in signals:
        targets = ([value for _, member, value in signal.signature.flatten(signal) if member.flow is In]
                   if hasattr(signal, "signature") else [signal])
        for target in map(Value.cast, targets):
            m.d.comb += target.eq(AnySeq(len(target)))


def no_reset(m: Module) -> None:
    """Nobody resets the hardware once it has begun."""
    m.d.comb += Assume(~ResetSignal(), "no reset")


def put(m: Module, name: str, part: Elaboratable) -> Callable[..., Value]:
    """Makes a part a submodule that has a state machine, and tells whether that is in one of some states, by their names."""
    fragment = Fragment.get(part, platform="formal")
    m.submodules[name] = fragment
    machine = fragment.generated["fsm"]

    def at(*states: str) -> Value:
        return Cat(machine.state == machine.encoding[state] for state in states).any()
    return at
