"""What a unit says to memory, and what it hears."""

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
"""Of a line."""
BEAT_NUMBER_BITS = (BEATS - 1).bit_length()


def memory_request(tag_bits: int) -> data.StructLayout:
    """A line to read or write.

    ``address`` counts lines. ``data`` and ``mask`` (one bit a byte) are for writes. Requests of one
    tag are performed and answered in the order they were made; between tags there is no order.
    """
    return data.StructLayout(
        {
            "write": 1,
            "tag": tag_bits,
            "address": LINE_ADDRESS_BITS,
            "data": 8 * LINE_BYTES,
            "mask": LINE_BYTES,
        }
    )


def memory_response(tag_bits: int) -> data.StructLayout:
    """The answer to a request: every read and every write has one. ``error``: nothing is mapped
    there."""
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


def beat_request(tag_bits: int) -> data.StructLayout:
    """A beat of a line to write, or the one that asks for a line.

    ``address`` counts lines; ``beat`` counts the beats of a write, and is 0 in a read. ``data`` and
    ``mask`` (one bit a byte) are for writes. ``write``, ``tag`` and ``address`` are the same in all
    beats of a burst. Requests of one tag are performed and answered in the order they were made;
    between tags there is no order.
    """
    return data.StructLayout(
        {
            "write": 1,
            "tag": tag_bits,
            "address": LINE_ADDRESS_BITS,
            "beat": BEAT_NUMBER_BITS,
            "data": 8 * BEAT_BYTES,
            "mask": BEAT_BYTES,
        }
    )


def beat_response(tag_bits: int) -> data.StructLayout:
    """A beat of a line that was read, or the one that answers a write, which is number 0.
    ``error``: nothing is mapped there; a read is answered with eight beats even so, all with
    ``error``."""
    return data.StructLayout({
        "write": 1, "tag": tag_bits, "error": 1, "beat": BEAT_NUMBER_BITS, "data": 8 * BEAT_BYTES})


class BeatPort(wiring.Signature):
    """What somebody sees of memory who wants 64 bits at a time: a machine of one lane, and whoever
    is on a board, where neither a serial line nor the pins of a memory chip want more.

    A line goes as a burst of eight beats, the lowest bytes first. A write asks with eight beats and
    is answered with one; a read asks with one and is answered with eight. The beats of a burst
    follow each other: nobody else's is between them. An answer begins when all of its request has
    been taken.

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
    """Whether a beat is the last one of a request. A line is whole."""
    return ~payload.write | (payload.beat == BEATS - 1) if _has_beats(payload) else Const(1)


def ends_answer(payload: Any) -> Value:
    """Whether a beat is the last one of an answer. A line is whole."""
    return payload.write | (payload.beat == BEATS - 1) if _has_beats(payload) else Const(1)
