"""Memory in block RAM, for boards without SDRAM and for tests."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import In

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BEATS, BeatPort, ends_request

__all__ = ["BlockMemory", "check_size"]


def check_size(size: int) -> int:
    """Returns ``size`` if a BlockMemory can have it; ValueError if not."""
    if size < 2 * LINE_BYTES or size & size - 1:
        least = 2 * LINE_BYTES
        raise ValueError(
            f"a block memory has a power of two of bytes, at least {least}, not {size}")
    return size


class BlockMemory(Component):
    """Block RAM with a port of beats: a beat a cycle, in or out, with a latency of one cycle. ::

        request --> block RAM --> response

    The response of a write is valid in the cycle after its last beat was accepted. A read occupies
    the RAM for eight cycles: the one in which it is accepted, and seven in which no request is
    accepted. While a response is valid and not accepted, everything stalls.

    Parameters
    ----------
    tag_bits : int
        Of the port.
    size : int
        Bytes: a power of two, at least two lines. Requests for lines outside are answered with
        ``error``; a write then changes nothing.

    Members
    -------
    port : In(BeatPort)

    Attributes
    ----------
    size : int
        Bytes.
    beats : Memory
        The content, eight bytes a row.
    """

    def __init__(self, tag_bits: int, size: int = 1 << 16) -> None:
        self.size = check_size(size)
        self.beats = memory.Memory(shape=8 * BEAT_BYTES, depth=size // BEAT_BYTES, init=[])
        super().__init__({"port": In(BeatPort(tag_bits))})
        self._advances = Signal()
        """The response is accepted, or there is none."""
        self._is_taken = Signal()
        """A beat of a request is accepted."""
        self._is_inside = Signal()
        """Its line exists."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.beats = beats = self.beats
        request = self.port.request
        response = self.port.response
        beat = request.payload
        line = Signal(range(self.size // LINE_BYTES))       # the line that is read
        number = Signal(range(BEATS))                       # its next beat; 0: no read in progress
        is_reading = number != 0
        m.d.comb += self._advances.eq(~response.valid | response.ready)
        m.d.comb += self._is_taken.eq(request.valid & request.ready)
        m.d.comb += self._is_inside.eq(beat.address[len(line):] == 0)
        m.d.comb += request.ready.eq(self._advances & ~is_reading)
        with m.If(request.ready):
            m.d.sync += line.eq(beat.address)
            m.d.sync += response.payload.write.eq(beat.write)
            m.d.sync += response.payload.tag.eq(beat.tag)
            m.d.sync += response.payload.error.eq(~self._is_inside)
        with m.If(self._advances):
            reads = is_reading | (self._is_taken & ~beat.write)
            is_written = self._is_taken & beat.write & ends_request(beat)
            m.d.sync += response.valid.eq(reads | is_written)
            m.d.sync += response.payload.beat.eq(number)
            m.d.sync += number.eq(number + reads)

        place = Cat(beat.beat, beat.address[:len(line)])
        self._write(m, beats.write_port(granularity=8), place)
        self._read(m, beats.read_port(), place, is_reading, Cat(number, line))
        return m

    def _write(self, m: Module, port: Any, place: Any) -> None:
        """Writes a beat, by its mask."""
        beat = self.port.request.payload
        writes = self._is_taken & self._is_inside & beat.write
        m.d.comb += port.addr.eq(place)
        m.d.comb += port.data.eq(beat.data)
        m.d.comb += port.en.eq(beat.mask & writes.replicate(BEAT_BYTES))

    def _read(self, m: Module, port: Any, place: Any, is_reading: Any, next_place: Any) -> None:
        """Reads the first beat of a read when it is accepted, then the next ones."""
        m.d.comb += port.en.eq(self._advances)
        m.d.comb += port.addr.eq(Mux(is_reading, next_place, place))
        m.d.comb += self.port.response.payload.data.eq(port.data)
