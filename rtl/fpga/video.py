"""A picture in memory on a screen: DVI, as HDMI takes it.

::

    port of beats --> LineReader --> CrossingQueue --> Scanner --> TmdsEncoder x 3 --> TmdsSerializer --> lanes
                      sync                             pixel                           shift

A pixel of memory is a byte: 3 bits of red, 3 of green, 2 of blue, from the upper bit. Rows follow each other without a
gap. The reader reads a row for each line that shows it; the queue between holds most of a line of the largest picture.
While the screen is between two pictures, the scanner empties the queue and the reader waits; so whatever went wrong in
one picture, the next one begins with its first pixel.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BeatPort, ends_answer
from rtl.params import ADDRESS_BITS

from .crossing import CrossingQueue
from .tmds import CHANNELS, SYMBOL_BITS, TmdsEncoder, TmdsSerializer

__all__ = ["VGA", "LineReader", "Scanner", "Video", "VideoMode"]

_WORD_BYTES = 4
"""Pixels that go through the queue at once."""
_WORDS = LINE_BYTES // _WORD_BYTES
_SCALE_BITS = 2
_QUEUE_BITS = 7
_QUEUE = 1 << _QUEUE_BITS
"""Words."""


@dataclass(frozen=True)
class VideoMode:
    """Visible pixels and lines, and those of the pauses before, in and behind the synchronisation, whose signals are 0.

    The width is a multiple of 32, the height of 8: pictures of an eighth of both can be shown.
    """

    width: int
    right: int
    sync_width: int
    left: int
    height: int
    below: int
    sync_height: int
    above: int

    @property
    def line(self) -> int:
        """Cycles of a line."""
        return self.width + self.right + self.sync_width + self.left

    @property
    def lines(self) -> int:
        """Lines from one picture to the next."""
        return self.height + self.below + self.sync_height + self.above


VGA = VideoMode(640, 16, 96, 48, 480, 10, 2, 33)
"""640 x 480 at 60 Hz with 25.175 MHz; with 25 MHz at 59.5 Hz."""


class LineReader(Component):
    """Reads the rows of a picture, each as often as it is shown; domain ``sync``.

    Parameters
    ----------
    mode : VideoMode
    tag_bits : int
        Of the port to memory. One request is under way at a time, with tag 0.

    Members
    -------
    memory : Out(BeatPort)
    base : In(40)
        Address of the picture, a multiple of 4.
    scale : In(2)
        A pixel of memory is 2**scale pixels wide and high.
    run : In(1)
        While it is 0 nothing is read; when it becomes 1 a picture begins.
    room : In(1)
        There is a place for a whole line of memory.
    valid, word : Out(1), Out(32)
        Four pixels, the left one in the lower bits.
    """

    def __init__(self, mode: VideoMode, tag_bits: int) -> None:
        self._mode = mode
        super().__init__({
            "memory": Out(BeatPort(tag_bits)), "base": In(ADDRESS_BITS), "scale": In(_SCALE_BITS), "run": In(1),
            "room": In(1), "valid": Out(1), "word": Out(8 * _WORD_BYTES)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mode, memory = self._mode, self.memory
        most, inside = mode.width // _WORD_BYTES, (_WORDS - 1).bit_length()
        widths = Array(most >> scale for scale in range(1 << _SCALE_BITS))
        scale = Signal(_SCALE_BITS)
        row, place = Signal(ADDRESS_BITS - 2), Signal(ADDRESS_BITS - 2)
        """Words of memory: the row's first one, and the next one to read."""
        left = Signal(range(most + 1))
        """Words of the row to come."""
        shown, lines = Signal((1 << _SCALE_BITS) - 1), Signal(range(mode.height + 1))
        """Lines that have shown the row; lines to come."""
        number = Signal(range(BEAT_BYTES // _WORD_BYTES))
        """Of the word in a beat."""
        answer = memory.response.payload
        again = shown != (1 << scale) - 1
        last = number == BEAT_BYTES // _WORD_BYTES - 1
        m.d.comb += [
            memory.request.payload.address.eq(place >> inside),
            self.word.eq(Mux(answer.error, 0, answer.data.word_select(number, 8 * _WORD_BYTES)))]
        with m.FSM(name="reader"):
            with m.State("BEGIN"):
                m.d.sync += [scale.eq(self.scale), row.eq(self.base >> 2), place.eq(self.base >> 2), shown.eq(0),
                             left.eq(widths[self.scale]), lines.eq(mode.height)]
                with m.If(self.run):
                    m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(~self.run):
                    m.next = "BEGIN"
                with m.Elif((lines != 0) & self.room):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += memory.request.valid.eq(1)
                with m.If(memory.request.ready):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [
                    memory.response.ready.eq(last),
                    self.valid.eq(memory.response.valid & (left != 0) & (Cat(number, answer.beat) == place[:inside]))]
                m.d.sync += number.eq(number + memory.response.valid)
                with m.If(self.valid):
                    m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
                with m.If(memory.response.valid & last & ends_answer(answer)):
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.next = "WAIT"
                with m.If(left == 0):
                    m.d.sync += [left.eq(widths[scale]), lines.eq(lines - 1), shown.eq(Mux(again, shown + 1, 0))]
                    with m.If(again):
                        m.d.sync += place.eq(row)
                    with m.Else():
                        m.d.sync += row.eq(place)
        return m


class Scanner(Component):
    """Goes over the screen, pixel by pixel; domain ``pixel``.

    Members
    -------
    enable : In(1)
        There is a picture to show: else the screen is black. Looked at between pictures, as ``scale`` is.
    scale : In(2)
    available, word : In(1), In(32)
        The next four pixels of memory.
    take : Out(1)
        They are not needed any more.
    run : Out(1)
        The reader may read: see :class:`LineReader`.
    visible, pixel : Out(1), Out(8)
        A pixel of the screen.
    horizontal, vertical : Out(1)
        The synchronisation, which is 0 for a while.
    underrun : Out(1)
        A pixel was not there in time, since the reset.
    """

    def __init__(self, mode: VideoMode) -> None:
        self._mode = mode
        super().__init__({
            "enable": In(1), "scale": In(_SCALE_BITS), "available": In(1), "word": In(8 * _WORD_BYTES), "take": Out(1),
            "run": Out(1), "visible": Out(1), "pixel": Out(8), "horizontal": Out(1), "vertical": Out(1),
            "underrun": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mode = self._mode
        x, y = Signal(range(mode.line)), Signal(range(mode.lines))
        with m.If(x != mode.line - 1):
            m.d.pixel += x.eq(x + 1)
        with m.Else():
            m.d.pixel += [x.eq(0), y.eq(Mux(y == mode.lines - 1, 0, y + 1))]

        def within(place: Signal, first: int, count: int) -> Value:
            return (place >= first) & (place < first + count)

        enabled, scale, shown, between = Signal(), Signal(_SCALE_BITS), Signal(), Signal()
        column = x >> scale
        fine = Cat(x[bit] | (bit >= scale) for bit in range((1 << _SCALE_BITS) - 1)).all()
        """This is the last time that a pixel of memory is shown in this line."""
        m.d.comb += [
            shown.eq((x < mode.width) & (y < mode.height)),
            between.eq(within(y, mode.height, mode.below + mode.sync_height)),
            self.take.eq(between | shown & fine & (column[:2] == _WORD_BYTES - 1))]
        with m.If(between):
            m.d.pixel += [enabled.eq(self.enable), scale.eq(self.scale)]
        with m.If(shown & enabled & ~self.available):
            m.d.pixel += self.underrun.eq(1)
        m.d.pixel += [
            self.run.eq(enabled & ~between), self.visible.eq(shown),
            self.pixel.eq(Mux(self.available & enabled, self.word.word_select(column[:2], 8), 0)),
            self.horizontal.eq(~within(x, mode.width + mode.right, mode.sync_width)),
            self.vertical.eq(~within(y, mode.height + mode.below, mode.sync_height))]
        return m


class Video(Component):
    """A picture in memory as bits on the wires of a screen.

    It needs the domains ``pixel`` and ``shift`` beside ``sync``: see :class:`~rtl.fpga.tmds.TmdsSerializer`.

    Parameters
    ----------
    tag_bits : int
        Of the port to memory.
    mode : VideoMode

    Members
    -------
    memory : Out(BeatPort)
    base : In(40)
        Address of the picture, a multiple of 4; taken when a picture begins, as the others are.
    scale : In(2)
        A pixel of memory is 2**scale pixels wide and high.
    enable : In(1)
        Whether the picture is shown; else the screen is black, and memory is left alone.
    underrun : Out(1)
        Memory was too slow for a pixel, since the reset.
    lanes : Out(array of 4 pairs of bits)
        Blue, green, red, clock; domain ``shift``.

    Attributes
    ----------
    symbols : Signal
        What is serialised: three symbols, domain ``pixel``.
    """

    def __init__(self, tag_bits: int, mode: VideoMode = VGA) -> None:
        self._mode, self._tag_bits = mode, tag_bits
        super().__init__({
            "memory": Out(BeatPort(tag_bits)), "base": In(ADDRESS_BITS), "scale": In(_SCALE_BITS), "enable": In(1),
            "underrun": Out(1), "lanes": Out(data.ArrayLayout(2, CHANNELS + 1))})
        self.symbols: Any = Signal(data.ArrayLayout(SYMBOL_BITS, CHANNELS))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.reader = reader = LineReader(self._mode, self._tag_bits)
        m.submodules.scanner = scanner = Scanner(self._mode)
        m.submodules.queue = queue = CrossingQueue(8 * _WORD_BYTES, _QUEUE_BITS, "sync", "pixel")
        m.submodules.serializer = serializer = TmdsSerializer()
        m.submodules += [
            FFSynchronizer(self.enable, scanner.enable, o_domain="pixel"),
            FFSynchronizer(self.scale, scanner.scale, o_domain="pixel"),
            FFSynchronizer(scanner.run, reader.run), FFSynchronizer(scanner.underrun, self.underrun)]
        connect(m, reader.memory, flipped(self.memory))
        m.d.comb += [
            reader.base.eq(self.base), reader.scale.eq(self.scale), reader.room.eq(queue.level <= _QUEUE - _WORDS),
            queue.write.eq(reader.valid), queue.word.eq(reader.word), queue.take.eq(scanner.take),
            scanner.available.eq(queue.available), scanner.word.eq(queue.head),
            serializer.symbols.eq(self.symbols), self.lanes.eq(serializer.lanes)]
        red, green, blue = scanner.pixel[5:], scanner.pixel[2:5], scanner.pixel[:2]
        levels = (blue.replicate(4), Cat(green[1:], green, green), Cat(red[1:], red, red))
        """All bits of a level from its upper ones, so that full is 255."""
        for index, level in enumerate(levels):
            m.submodules[f"encoder_{index}"] = encoder = TmdsEncoder()
            m.d.comb += [encoder.visible.eq(scanner.visible), encoder.value.eq(level),
                         self.symbols[index].eq(encoder.symbol)]
            if index == 0:
                m.d.comb += encoder.control.eq(Cat(scanner.horizontal, scanner.vertical))
        return m
