"""A serial line: eight data bits, least significant first, between a start bit and a stop bit."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from rtl.layouts import Event

__all__ = ["UartReceiver", "UartTransmitter"]

_PHASE_BITS = 20
"""Bits of the phase, a fraction of a bit time. In the last bit of a byte, the error of rounding is
less than a thousandth of a bit time."""
_BYTE_BITS = 8
_BITS_AFTER_START = _BYTE_BITS + 1
"""Bits on the line after the start bit: eight data bits and the stop bit."""
_FRAME_BITS = 1 + _BITS_AFTER_START
"""Bits on the line for a byte."""
_LEAST_CYCLES = 4
"""The fewest cycles of a bit with which it can be sampled in its middle."""


def _phase_step(clock: int, baud: int) -> int:
    """The increment of the phase in a cycle; ValueError when the clock is too slow for the rate."""
    if not 0 < baud * _LEAST_CYCLES <= clock:
        least = baud * _LEAST_CYCLES
        raise ValueError(f"{baud} baud need a clock of at least {least} Hz, not {clock} Hz")
    return round((baud << _PHASE_BITS) / clock)


class UartReceiver(wiring.Component):
    """Receives bytes from a line.

    Each bit is sampled in its middle, at a time measured from the falling edge of the start bit. If
    the line is 1 in the middle of the start bit, or 0 in the middle of the stop bit, there is no
    event: the receiver waits for the next falling edge.

    Parameters
    ----------
    clock, baud : int
        Hz; bits a second, at most a quarter of ``clock``.

    Members
    -------
    pin : In(1)
        The line; asynchronous.
    received : Out(Event of a byte)
        In the middle of the stop bit.
    """

    pin: In(1, init=1)    # pyright: ignore[reportCallIssue]
    received: Out(Event(8))

    def __init__(self, clock: int, baud: int) -> None:
        self._phase_step = _phase_step(clock, baud)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(init=1)
        last_line = Signal(init=1)
        is_receiving = Signal()
        phase = Signal(_PHASE_BITS)
        samples = Signal()              # this cycle is the middle of a bit
        bits = self.received.payload
        remaining = Signal(range(_FRAME_BITS))
        m.submodules.synchronizer = FFSynchronizer(self.pin, line, init=1)
        m.d.sync += last_line.eq(line)
        with m.If(~is_receiving):
            # The first overflow of the phase is to be in the middle of the start bit, so the
            # phase starts at half a bit time. One and a half cycles are added to it: the delay,
            # on average, of the detection of the edge and of the sample.
            m.d.sync += phase.eq((1 << _PHASE_BITS - 1) + 3 * self._phase_step // 2)
            m.d.sync += samples.eq(0)
            m.d.sync += remaining.eq(_BITS_AFTER_START)
            m.d.sync += is_receiving.eq(last_line & ~line)
        with m.Else():
            m.d.sync += Cat(phase, samples).eq(phase + self._phase_step)

        is_start_bit = remaining == _BITS_AFTER_START
        is_stop_bit = remaining == 0
        with m.If(samples):
            m.d.sync += bits.eq(Cat(bits[1:], line))
            m.d.sync += remaining.eq(remaining - 1)
            with m.If(is_stop_bit | (is_start_bit & line)):
                m.d.sync += is_receiving.eq(0)
        m.d.comb += self.received.valid.eq(samples & is_stop_bit & line)
        return m


class UartTransmitter(wiring.Component):
    """Sends bytes on a line.

    Parameters
    ----------
    clock, baud : int
        Hz; bits a second, at most a quarter of ``clock``.

    Members
    -------
    content : In(stream of bytes)
        Ready when no byte is being sent. The start bit is on the line in the cycle after.
    pin : Out(1)
        The line; 1 between bytes.
    """

    content: In(stream.Signature(8))
    pin: Out(1, init=1)    # pyright: ignore[reportCallIssue]

    def __init__(self, clock: int, baud: int) -> None:
        self._phase_step = _phase_step(clock, baud)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        phase = Signal(_PHASE_BITS)
        shifts = Signal()               # a bit time has ended
        bits = Signal(_BYTE_BITS + 1)
        remaining = Signal(range(_FRAME_BITS + 1))
        is_idle = remaining == 0
        m.d.comb += self.content.ready.eq(is_idle)
        with m.If(is_idle):
            m.d.sync += phase.eq(0)
            m.d.sync += shifts.eq(0)
            with m.If(self.content.valid):
                m.d.sync += bits.eq(Cat(self.content.payload, 1))
                m.d.sync += self.pin.eq(0)
                m.d.sync += remaining.eq(_FRAME_BITS)
        with m.Else():
            m.d.sync += Cat(phase, shifts).eq(phase + self._phase_step)
            with m.If(shifts):
                m.d.sync += self.pin.eq(bits[0])
                m.d.sync += bits.eq(Cat(bits[1:], 1))
                m.d.sync += remaining.eq(remaining - 1)
        return m
