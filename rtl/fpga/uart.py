"""A serial line: bytes of eight bits, least significant first, between a start and a stop bit."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from rtl.layouts import Event

__all__ = ["UartReceiver", "UartTransmitter"]

_PHASE_BITS = 20
"""Of the fraction of a bit. A byte's last bit is then less than a thousandth of a bit off."""
_BYTE_BITS = 8
_START_BIT = _BYTE_BITS + 1
"""Bits behind the start bit: eight, and a stop bit, behind which there is none."""
_FRAME_BITS = 1 + _START_BIT
"""Bits on the line for a byte."""
_LEAST_CYCLES = 4
"""Of a bit: fewer leave no room between its edges and its middle."""


def _phase_step(clock: int, baud: int) -> int:
    """What the phase gains in a cycle; ValueError when the clock is too slow for the rate."""
    if not 0 < baud * _LEAST_CYCLES <= clock:
        least = baud * _LEAST_CYCLES
        raise ValueError(f"{baud} baud need a clock of at least {least} Hz, not {clock} Hz")
    return round((baud << _PHASE_BITS) / clock)


class UartReceiver(wiring.Component):
    """Receives bytes from a line.

    Each bit is sampled in its middle, counted from the edge of the start bit. A start bit that is
    too short for that is ignored, and so is a byte whose stop bit is missing.

    Parameters
    ----------
    clock, baud : int
        Hz, and bits a second: at most a quarter of it.

    Members
    -------
    pin : In(1)
        The line; asynchronous.
    received : Out(Event of a byte)
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
        samples = Signal()              # the middle of a bit
        bits = self.received.payload
        remaining = Signal(range(_FRAME_BITS))
        m.submodules.synchronizer = FFSynchronizer(self.pin, line, init=1)
        m.d.sync += last_line.eq(line)
        with m.If(~is_receiving):
            # To the middle of the start bit, less the cycle and a half by which its edge is
            # noticed, and the first sample taken, too late.
            m.d.sync += phase.eq((1 << _PHASE_BITS - 1) + 3 * self._phase_step // 2)
            m.d.sync += samples.eq(0)
            m.d.sync += remaining.eq(_START_BIT)
            m.d.sync += is_receiving.eq(last_line & ~line)
        with m.Else():
            m.d.sync += Cat(phase, samples).eq(phase + self._phase_step)

        is_start_bit = remaining == _START_BIT
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
        As of the receiver.

    Members
    -------
    content : In(stream of bytes)
    pin : Out(1)
        The line.
    """

    content: In(stream.Signature(8))
    pin: Out(1, init=1)    # pyright: ignore[reportCallIssue]

    def __init__(self, clock: int, baud: int) -> None:
        self._phase_step = _phase_step(clock, baud)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        phase = Signal(_PHASE_BITS)
        shifts = Signal()               # the end of a bit
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
