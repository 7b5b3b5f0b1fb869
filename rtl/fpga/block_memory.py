"""Memory on the chip, for boards without another, and for the first steps on one."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import In

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BEATS, BeatPort, ends_request

__all__ = ["BlockMemory", "check_size"]


def check_size(size: int) -> int:
    """A size of a BlockMemory; ValueError for what is none."""
    if size < 2 * LINE_BYTES or size & size - 1:
        least = 2 * LINE_BYTES
        raise ValueError(
            f"a block memory has a power of two of bytes, at least {least}, not {size}")
    return size


class BlockMemory(Component):
    """Block RAM behind a port of beats. It takes or gives a beat a cycle, and answers a cycle after
    the request. ::

        request --> block RAM --> response

    A write is answered with its last beat. A read takes the RAM for eight cycles, in which no
    request is taken. All waits while a response is not taken.

    Parameters
    ----------
    tag_bits : int
        Of the port.
    size : int
        Bytes: a power of two from two lines on. Requests beyond are answered with ``error``.

    Members
    -------
    port : In(BeatPort)

    Attributes
    ----------
    size : int
        Bytes.
    beats : Memory
        What is stored, eight bytes a row.
    """

    def __init__(self, tag_bits: int, size: int = 1 << 16) -> None:
        self.size = check_size(size)
        self.beats = memory.Memory(shape=8 * BEAT_BYTES, depth=size // BEAT_BYTES, init=[])
        super().__init__({"port": In(BeatPort(tag_bits))})
        self._advances = Signal()
        """The response is taken, or there is none."""
        self._is_taken = Signal()
        """A request is taken."""
        self._is_inside = Signal()
        """It is for a line that there is."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.beats = beats = self.beats
        request = self.port.request
        response = self.port.response
        beat = request.payload
        line = Signal(range(self.size // LINE_BYTES))       # that is read
        number = Signal(range(BEATS))                       # of its next beat; 0: no read goes on
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
        """A beat that is written."""
        beat = self.port.request.payload
        writes = self._is_taken & self._is_inside & beat.write
        m.d.comb += port.addr.eq(place)
        m.d.comb += port.data.eq(beat.data)
        m.d.comb += port.en.eq(beat.mask & writes.replicate(BEAT_BYTES))

    def _read(self, m: Module, port: Any, place: Any, is_reading: Any, next_place: Any) -> None:
        """The first beat of a read, or the next one."""
        m.d.comb += port.en.eq(self._advances)
        m.d.comb += port.addr.eq(Mux(is_reading, next_place, place))
        m.d.comb += self.port.response.payload.data.eq(port.data)
