"""Memory ports: requests and responses by lines of 64 bytes, or by beats of 8."""

from typing import Any

from amaranth.hdl import Const, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.tokens import LINE_BYTES
from rtl.params import LINE_ADDRESS_BITS

__all__ = [
    "BEATS",
    "BEAT_BYTES",
    "BEAT_NUMBER_BITS",
    "BeatPort",
    "MemoryPort",
    "beat_request",
    "beat_response",
    "ends_answer",
    "ends_request",
    "memory_request",
    "memory_response",
]

BEAT_BYTES = 8
BEATS = LINE_BYTES // BEAT_BYTES
"""Beats of a line."""
BEAT_NUMBER_BITS = (BEATS - 1).bit_length()


def memory_request(tag_bits: int) -> data.StructLayout:
    """A line to read or write.

    ``address`` counts lines. ``data`` and ``mask`` (one bit a byte) are for writes. Requests of one
    tag are performed and answered in the order they were made; between tags there is no order.
    """
    return data.StructLayout({
        "write": 1,
        "tag": tag_bits,
        "address": LINE_ADDRESS_BITS,
        "data": 8 * LINE_BYTES,
        "mask": LINE_BYTES,
    })


def memory_response(tag_bits: int) -> data.StructLayout:
    """The response to a request: every read and every write has one. ``error``: nothing is mapped
    at the address."""
    return data.StructLayout({"write": 1, "tag": tag_bits, "error": 1, "data": 8 * LINE_BYTES})


class MemoryPort(wiring.Signature):
    """A unit's port to memory, by lines of 64 bytes. Requests have tags; the latency is arbitrary.

    Members
    -------
    request : Out(stream of memory_request)
    response : In(stream of memory_response)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({
            "request": Out(stream.Signature(memory_request(tag_bits))),
            "response": In(stream.Signature(memory_response(tag_bits)))})


def beat_request(tag_bits: int) -> data.StructLayout:
    """A beat of a line to write, or the single beat that requests a line to read.

    ``address`` counts lines; ``beat`` counts the beats of a write, and is 0 in a read. ``data`` and
    ``mask`` (one bit a byte) are for writes. ``write``, ``tag`` and ``address`` are the same in all
    beats of a burst. Requests of one tag are performed and answered in the order they were made;
    between tags there is no order.
    """
    return data.StructLayout({
        "write": 1,
        "tag": tag_bits,
        "address": LINE_ADDRESS_BITS,
        "beat": BEAT_NUMBER_BITS,
        "data": 8 * BEAT_BYTES,
        "mask": BEAT_BYTES,
    })


def beat_response(tag_bits: int) -> data.StructLayout:
    """A beat of a line that was read, or the single beat that answers a write, with number 0.
    ``error``: nothing is mapped there. A read then has eight beats, too, all with ``error``."""
    return data.StructLayout({
        "write": 1, "tag": tag_bits, "error": 1, "beat": BEAT_NUMBER_BITS, "data": 8 * BEAT_BYTES})


class BeatPort(wiring.Signature):
    """A port to memory by 64 bits at a time: of a machine of one lane, and of all on a board, where
    neither a serial line nor the pins of a memory chip transfer more.

    A line is a burst of eight beats, the lowest bytes first. The request of a write has eight beats
    and its response one; the request of a read has one and its response eight. Bursts do not
    interleave. A response starts after the last beat of its request.

    Parameters
    ----------
    tag_bits : int

    Members
    -------
    request : Out(stream of beats: write, tag, address, beat, data, mask)
    response : In(stream of beats: write, tag, error, beat, data)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({
            "request": Out(stream.Signature(beat_request(tag_bits))),
            "response": In(stream.Signature(beat_response(tag_bits)))})


def _has_beats(payload: Any) -> bool:
    """Whether a payload is a beat, not a line."""
    return "beat" in payload.shape().members


def ends_request(payload: Any) -> Value:
    """Whether a beat is the last one of a request. In a port of lines it always is."""
    return ~payload.write | (payload.beat == BEATS - 1) if _has_beats(payload) else Const(1)


def ends_answer(payload: Any) -> Value:
    """Whether a beat is the last one of a response. In a port of lines it always is."""
    return payload.write | (payload.beat == BEATS - 1) if _has_beats(payload) else Const(1)
