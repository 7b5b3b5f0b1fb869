"""What happens in one cycle, without an answer: as a signature, and as one struct."""

from amaranth.hdl import ShapeLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

__all__ = ["Event", "EventLayout"]


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


class EventLayout(data.StructLayout):
    """The same as one value, for a port that is assigned, kept or listed as a whole."""

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"valid": 1, "payload": shape})
