"""Events: transfers without backpressure."""

from typing import Any

from amaranth.hdl import Module, ShapeLike
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

__all__ = ["Event", "delayed"]


class Event(wiring.Signature):
    """A stream without ``ready``: a transfer happens in each cycle in which ``valid`` is 1.

    The receivers are always ready; an event may have several.

    Members
    -------
    valid : Out(1)
    payload : Out(shape)
        Undefined while ``valid`` is 0.
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"valid": Out(1), "payload": Out(shape)})


def delayed(m: Module, event: Any, cycles: int = 1) -> Any:
    """The same event, delayed by ``cycles`` cycles."""
    for number in range(cycles):
        before = event
        event = before.signature.create(path=(f"stage_{number}",))
        m.d.sync += event.valid.eq(before.valid)
        m.d.sync += event.payload.eq(before.payload)
    return event
