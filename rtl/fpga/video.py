"""The framebuffer in memory as a DVI signal, which HDMI screens accept.

::

    port of beats --> LineReader --> CrossingQueue --> Scanner --> TmdsEncoder x 3
                      sync                             pixel       |
                                                                   v
                                              lanes <--------- TmdsSerializer
                                                               shift

A pixel of memory is a byte: 3 bits of red (the upper ones), 3 of green, 2 of blue. Rows are
contiguous. In these files a row is one of the picture in memory, a line one of the screen, and a
line of memory 64 bytes.

The reader reads a row again for each line that shows it. The queue holds 512 pixels, most of a line
of the largest picture. In the first part of the vertical blanking the scanner flushes the queue and
the reader is stopped. So errors (an underrun, a reset of one domain) end with the picture in which
they occur: the next picture starts with its first pixel.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BeatPort, Event, ends_answer
from rtl.params import ADDRESS_BITS

from .crossing import CrossingQueue
from .registers import Framebuffer
from .tmds import CHANNELS, TmdsEncoder, TmdsSerializer

__all__ = ["VGA", "LineReader", "Scanner", "Video", "VideoMode"]

_WORD_BYTES = 4
"""Bytes, and so pixels, of a word of the queue."""
_WORDS = LINE_BYTES // _WORD_BYTES
_PLACE_BITS = (_WORDS - 1).bit_length()
"""Width of the number of a word in a line of memory."""
_SCALE_BITS = 2
_QUEUE_BITS = 7
_QUEUE = 1 << _QUEUE_BITS
"""Depth of the queue in words."""


@dataclass(frozen=True)
class VideoMode:
    """The timing of a screen: pixels of a line, and lines of a picture. The sync pulses are 0.

    Attributes
    ----------
    width, height : int
        Visible pixels, a multiple of 32; visible lines, a multiple of 8. So a picture of an eighth
        of both (scale 3) has whole words and rows.
    right, sync_width, left : int
        Pixels of the horizontal blanking: before the sync pulse, of the pulse, after it.
    below, sync_height, above : int
        Lines of the vertical blanking, in the same order.
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
"""640 x 480: 60 Hz with a pixel clock of 25.175 MHz, 59.5 Hz with 25 MHz."""


class LineReader(Component):
    """Reads the rows of a picture, each as often as it is shown; in the domain ``sync``.

    Parameters
    ----------
    mode : VideoMode
    tag_bits : int
        Of the port to memory. One request at most is outstanding, with tag 0.

    Members
    -------
    memory : Out(BeatPort)
    base : In(40)
        Address of the picture in bytes, a multiple of 4.
    scale : In(2)
        A pixel of memory is 2**scale pixels wide and high.
    run : In(1)
        While it is 0, no request starts; one that is outstanding is completed, and its words are
        sent. When it becomes 1, a new picture starts, with the present ``base`` and ``scale``.
    room : In(1)
        The queue has room for the words of a line of memory. No request starts while it is 0.
    words : Out(Event of 32 bits)
        Four pixels, the leftmost one in the low byte; 0 where memory answers with ``error``.
    """

    def __init__(self, mode: VideoMode, tag_bits: int) -> None:
        self._mode = mode
        super().__init__({
            "memory": Out(BeatPort(tag_bits)),
            "base": In(ADDRESS_BITS),
            "scale": In(_SCALE_BITS),
            "run": In(1),
            "room": In(1),
            "words": Out(Event(8 * _WORD_BYTES)),
        })
        widest = mode.width // _WORD_BYTES
        self._row_words = Array(widest >> scale for scale in range(1 << _SCALE_BITS))
        """Words of a row, by the scale."""
        self._scale = Signal(_SCALE_BITS, name="scale")
        self._row = Signal(ADDRESS_BITS - 2, name="row")
        """Address of the first word of the row, in words."""
        self._next = Signal(ADDRESS_BITS - 2, name="next")
        """Address of the next word to send, in words."""
        self._remaining_words = Signal(range(widest + 1), name="remaining_words")
        """Words of the row that remain to be sent."""
        self._times_shown = Signal((1 << _SCALE_BITS) - 1, name="times_shown")
        """Lines for which the row has been read before."""
        self._remaining_lines = Signal(range(mode.height + 1), name="remaining_lines")
        """Lines of the screen that remain, including the current one."""
        self._number = Signal(range(BEAT_BYTES // _WORD_BYTES), name="number")
        """Number of the word in the beat of the response."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.memory.request
        response = self.memory.response
        answer = response.payload
        word = answer.data.word_select(self._number, 8 * _WORD_BYTES)
        m.d.comb += request.payload.address.eq(self._next >> _PLACE_BITS)
        m.d.comb += self.words.payload.eq(Mux(answer.error, 0, word))
        is_last_word = self._number == BEAT_BYTES // _WORD_BYTES - 1
        with m.FSM(name="reader"):
            with m.State("BEGIN"):
                self._begin_picture(m)
                with m.If(self.run):
                    m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(~self.run):
                    m.next = "BEGIN"
                with m.Elif((self._remaining_lines != 0) & self.room):
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += request.valid.eq(1)
                with m.If(request.ready):
                    m.next = "RESPONSE"
            with m.State("RESPONSE"):
                m.d.comb += response.ready.eq(is_last_word)
                self._take_word(m)
                with m.If(response.valid & is_last_word & ends_answer(answer)):
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.next = "WAIT"
                with m.If(self._remaining_words == 0):
                    self._end_line(m)
        return m

    def _begin_picture(self, m: Module) -> None:
        """BEGIN: takes the settings of a picture until it starts."""
        first = self.base >> 2
        m.d.sync += self._scale.eq(self.scale)
        m.d.sync += self._row.eq(first)
        m.d.sync += self._next.eq(first)
        m.d.sync += self._times_shown.eq(0)
        m.d.sync += self._remaining_words.eq(self._row_words[self.scale])
        m.d.sync += self._remaining_lines.eq(self._mode.height)

    def _take_word(self, m: Module) -> None:
        """RESPONSE: takes a word of the line of memory a cycle. Words before the next one of the
        row (a row may start within a line of memory) and after its last one are dropped."""
        response = self.memory.response
        place = Cat(self._number, response.payload.beat)
        is_next = place == self._next[:_PLACE_BITS]
        m.d.comb += self.words.valid.eq(response.valid & (self._remaining_words != 0) & is_next)
        m.d.sync += self._number.eq(self._number + response.valid)
        with m.If(self.words.valid):
            m.d.sync += self._next.eq(self._next + 1)
            m.d.sync += self._remaining_words.eq(self._remaining_words - 1)

    def _end_line(self, m: Module) -> None:
        """NEXT: the next line of the screen shows the same row again, or the next row."""
        is_repeated = self._times_shown != (1 << self._scale) - 1
        m.d.sync += self._remaining_words.eq(self._row_words[self._scale])
        m.d.sync += self._remaining_lines.eq(self._remaining_lines - 1)
        with m.If(is_repeated):
            m.d.sync += self._next.eq(self._row)
            m.d.sync += self._times_shown.eq(self._times_shown + 1)
        with m.Else():
            m.d.sync += self._row.eq(self._next)
            m.d.sync += self._times_shown.eq(0)


class Scanner(Component):
    """Counts pixels and lines of the screen, and outputs the pixel and the sync signals of each
    position; in the domain ``pixel``.

    Members
    -------
    enable : In(1)
        The picture is shown; otherwise the screen is black. Sampled, as ``scale`` is, in the first
        part of the vertical blanking.
    scale : In(2)
        A pixel of memory is 2**scale pixels wide and high.
    words : In(stream of 32 bits)
        The present four pixels of memory; accepted in the cycle in which the last of them is shown
        for the last time in its line. In the first part of the vertical blanking all are accepted.
    run : Out(1)
        The reader may read: see :class:`LineReader`. 1 from the last ``above`` lines of the
        vertical blanking to the end of the picture.
    visible, pixel : Out(1), Out(8)
        The position is in the picture; its pixel. Without ``visible``, ``pixel`` has no meaning.
    horizontal, vertical : Out(1)
        The sync signals; 0 in the pulses. In time with ``pixel``.
    underrun : Out(1)
        A pixel was not available in time. It holds until a reset of the domain.
    """

    def __init__(self, mode: VideoMode) -> None:
        self._mode = mode
        super().__init__({
            "enable": In(1),
            "scale": In(_SCALE_BITS),
            "words": In(stream.Signature(8 * _WORD_BYTES)),
            "run": Out(1),
            "visible": Out(1),
            "pixel": Out(8),
            "horizontal": Out(1),
            "vertical": Out(1),
            "underrun": Out(1),
        })
        self._x = Signal(range(mode.line), name="x")
        self._y = Signal(range(mode.lines), name="y")
        self._is_visible = Signal(name="is_visible")
        """The position is in the picture."""
        self._is_flushing = Signal(name="is_flushing")
        """The first part of the vertical blanking, up to the end of the sync pulse. The queue is
        flushed; in the rest, the reader fills it for the next picture."""
        self._is_enabled = Signal(name="is_enabled")
        self._scale = Signal(_SCALE_BITS, name="scale")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._scan(m)
        self._show(m)
        self._synchronize(m)
        return m

    def _scan(self, m: Module) -> None:
        """Counts the positions, and decodes their part of the screen."""
        mode = self._mode
        x = self._x
        y = self._y
        with m.If(x != mode.line - 1):
            m.d.pixel += x.eq(x + 1)
        with m.Else():
            m.d.pixel += x.eq(0)
            m.d.pixel += y.eq(Mux(y == mode.lines - 1, 0, y + 1))
        m.d.comb += self._is_visible.eq((x < mode.width) & (y < mode.height))
        m.d.comb += self._is_flushing.eq(
            _is_within(y, mode.height, mode.below + mode.sync_height))
        with m.If(self._is_flushing):
            m.d.pixel += self._is_enabled.eq(self.enable)
            m.d.pixel += self._scale.eq(self.scale)
        m.d.pixel += self.run.eq(self._is_enabled & ~self._is_flushing)

    def _show(self, m: Module) -> None:
        """Outputs the pixel, a cycle after the position, and accepts words. ``is_last_time``: the
        position is the last of the 2**scale that show the same pixel of memory."""
        column = self._x >> self._scale
        is_last_time = Cat(
            self._x[bit] | (bit >= self._scale) for bit in range((1 << _SCALE_BITS) - 1)).all()
        is_last_pixel = is_last_time & (column[:2] == _WORD_BYTES - 1)
        m.d.comb += self.words.ready.eq(self._is_flushing | (self._is_visible & is_last_pixel))
        m.d.pixel += self.visible.eq(self._is_visible)
        m.d.pixel += self.pixel.eq(0)
        with m.If(self._is_enabled & self.words.valid):
            m.d.pixel += self.pixel.eq(self.words.payload.word_select(column[:2], 8))
        with m.Elif(self._is_enabled & self._is_visible):
            m.d.pixel += self.underrun.eq(1)

    def _synchronize(self, m: Module) -> None:
        """Outputs the sync signals, a cycle after the position, as the pixel."""
        mode = self._mode
        in_horizontal = _is_within(self._x, mode.width + mode.right, mode.sync_width)
        in_vertical = _is_within(self._y, mode.height + mode.below, mode.sync_height)
        m.d.pixel += self.horizontal.eq(~in_horizontal)
        m.d.pixel += self.vertical.eq(~in_vertical)


def _is_within(place: Signal, first: int, count: int) -> Value:
    return (place >= first) & (place < first + count)


class Video(Component):
    """The framebuffer in memory as bits on the wires of a screen.

    It uses the domains ``sync``, ``pixel`` and ``shift``; for the latter two see
    :class:`~rtl.fpga.tmds.TmdsSerializer`.

    Parameters
    ----------
    tag_bits : int
        Of the port to memory.
    mode : VideoMode

    Members
    -------
    memory : Out(BeatPort)
    framebuffer : In(Framebuffer)
        Settings are sampled before each picture. While ``enable`` is 0, the screen is black and
        memory is not accessed. ``underrun`` is not cleared.
    lanes : Out(array of 4 pairs of bits)
        Blue, green, red, clock; in the domain ``shift``.

    Attributes
    ----------
    symbols : Signal
        The symbols of blue, green and red, before they are serialised; in the domain ``pixel``.
    """

    def __init__(self, tag_bits: int, mode: VideoMode = VGA) -> None:
        self._mode = mode
        self._tag_bits = tag_bits
        super().__init__({
            "memory": Out(BeatPort(tag_bits)),
            "framebuffer": In(Framebuffer()),
            "lanes": Out(data.ArrayLayout(2, CHANNELS + 1)),
        })
        self._serializer = TmdsSerializer()
        self.symbols: Any = self._serializer.symbols

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.reader = reader = LineReader(self._mode, self._tag_bits)
        m.submodules.scanner = scanner = Scanner(self._mode)
        m.submodules.queue = queue = CrossingQueue(8 * _WORD_BYTES, _QUEUE_BITS, "sync", "pixel")
        m.submodules.serializer = self._serializer
        framebuffer = self.framebuffer
        m.submodules += [
            FFSynchronizer(framebuffer.enable, scanner.enable, o_domain="pixel"),
            FFSynchronizer(framebuffer.scale, scanner.scale, o_domain="pixel"),
            FFSynchronizer(scanner.run, reader.run),
            FFSynchronizer(scanner.underrun, framebuffer.underrun),
        ]
        m.d.comb += framebuffer.present.eq(1)
        m.d.comb += reader.base.eq(framebuffer.base)
        m.d.comb += reader.scale.eq(framebuffer.scale)
        m.d.comb += reader.room.eq(queue.level <= _QUEUE - _WORDS)
        connect(m, reader.memory, flipped(self.memory))
        connect(m, reader.words, queue.write)
        connect(m, queue.read, scanner.words)
        m.d.comb += self.lanes.eq(self._serializer.lanes)
        self._encode(m, scanner)
        return m

    def _encode(self, m: Module, scanner: Scanner) -> None:
        """Encodes the colours of a pixel. The 2 or 3 bits of a colour are repeated to 8, so that
        the maximum is 255. The channel of blue has the sync signals as its control signals."""
        red = scanner.pixel[5:]
        green = scanner.pixel[2:5]
        blue = scanner.pixel[:2]
        levels = (blue.replicate(4), Cat(green[1:], green, green), Cat(red[1:], red, red))
        for index, level in enumerate(levels):
            m.submodules[f"encoder_{index}"] = encoder = TmdsEncoder()
            m.d.comb += encoder.visible.eq(scanner.visible)
            m.d.comb += encoder.value.eq(level)
            m.d.comb += self.symbols[index].eq(encoder.symbol)
            if index == 0:
                m.d.comb += encoder.control.eq(Cat(scanner.horizontal, scanner.vertical))
