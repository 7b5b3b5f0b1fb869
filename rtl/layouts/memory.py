"""What a unit says to memory, and what it hears."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.tokens import LINE_BYTES
from rtl.params import LINE_ADDRESS_BITS

__all__ = ["MemoryPort", "memory_request", "memory_response"]


def memory_request(tag_bits: int) -> data.StructLayout:
    """A line to read or write.

    ``address`` counts lines. ``data`` and ``mask`` (one bit a byte) are for writes. Requests of one tag are
    performed and answered in the order they were made; between tags there is no order.
    """
    return data.StructLayout({
        "write": 1, "tag": tag_bits, "address": LINE_ADDRESS_BITS, "data": 8 * LINE_BYTES, "mask": LINE_BYTES})


def memory_response(tag_bits: int) -> data.StructLayout:
    """The answer to a request: every read and every write has one. ``error``: nothing is mapped there."""
    return data.StructLayout({"write": 1, "tag": tag_bits, "error": 1, "data": 8 * LINE_BYTES})


class MemoryPort(wiring.Signature):
    """What a unit sees of memory: lines of 64 bytes, tagged, with any latency.

    Members
    -------
    request : Out(stream of memory_request)
    response : In(stream of memory_response)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({
            "request": Out(stream.Signature(memory_request(tag_bits))),
            "response": In(stream.Signature(memory_response(tag_bits)))})
