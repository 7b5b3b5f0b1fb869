"""Memory on the chip, for boards without another, and for the first steps on one."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import In

from rtl.component import Component, pass_on
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BEATS, BeatPort, ends_request

__all__ = ["BlockMemory", "check_size"]


def check_size(size: int) -> int:
    """A size of a BlockMemory; ValueError for what is none."""
    if size < 2 * LINE_BYTES or size & size - 1:
        raise ValueError(f"a block memory has a power of two of bytes, at least {2 * LINE_BYTES}, not {size}")
    return size


class BlockMemory(Component):
    """Block RAM behind a port of beats. It takes or gives one in each cycle, and answers in the next one.

    Parameters
    ----------
    tag_bits : int
        Of the port.
    size : int
        Bytes: a power of two from two lines on. Behind them there is nothing: a request there is answered with
        ``error``.

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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, response = self.port.request, self.port.response
        asked, answer = request.payload, response.payload
        lines = self.size // LINE_BYTES
        m.submodules.beats = store = self.beats
        reading, writing = store.read_port(), store.write_port(granularity=8)
        line, number, free = Signal(range(lines)), Signal(range(BEATS)), Signal()
        """The line that is read; its next beat, 0 while none is to come."""
        place = Cat(asked.beat, asked.address[:len(line)])
        inside, goes_on = asked.address[len(line):] == 0, number != 0
        taken = request.valid & request.ready
        m.d.comb += [
            free.eq(~response.valid | response.ready), request.ready.eq(free & ~goes_on), reading.en.eq(free),
            reading.addr.eq(Mux(goes_on, Cat(number, line), place)), writing.addr.eq(place),
            writing.data.eq(asked.data), answer.data.eq(reading.data),
            writing.en.eq(asked.mask & (taken & inside & asked.write).replicate(BEAT_BYTES))]
        with m.If(free):
            m.d.sync += [
                response.valid.eq(goes_on | taken & (~asked.write | ends_request(asked))), answer.beat.eq(number),
                number.eq(number + (goes_on | taken & ~asked.write))]
        with m.If(request.ready):
            m.d.sync += [line.eq(asked.address), answer.error.eq(~inside)]
            pass_on(m, asked, answer, "write", "tag", domain="sync")
        return m
