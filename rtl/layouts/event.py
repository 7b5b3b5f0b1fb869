"""What happens in one cycle, without an answer."""

from typing import Any

from amaranth.hdl import Module, ShapeLike
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

__all__ = ["Event", "delayed"]


class Event(wiring.Signature):
    """Something that happens in the cycles in which ``valid`` is 1; the receiver cannot refuse it.

    Where a stream would need ``ready``, the sender of an event relies on a receiver that is always
    there.

    Members
    -------
    valid : Out(1)
    payload : Out(shape)
        What happens; without meaning while ``valid`` is 0.
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"valid": Out(1), "payload": Out(shape)})


def delayed(m: Module, event: Any, cycles: int = 1) -> Any:
    """The same event that many cycles later."""
    for number in range(cycles):
        before = event
        event = before.signature.create(path=(f"stage_{number}",))
        m.d.sync += event.valid.eq(before.valid)
        m.d.sync += event.payload.eq(before.payload)
    return event
