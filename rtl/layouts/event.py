"""The signature of what happens in one cycle, without an answer."""

from amaranth.hdl import ShapeLike
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

__all__ = ["Event"]


class Event(wiring.Signature):
    """Something that happens in the cycles in which ``valid`` is 1; nobody can refuse it.

    Where a stream would need ``ready``, the sender of an event relies on a receiver that is always there.

    Members
    -------
    valid : Out(1)
    payload : Out(shape)
        What happens; without meaning while ``valid`` is 0.
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"valid": Out(1), "payload": Out(shape)})
