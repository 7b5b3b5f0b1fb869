"""A serial line: bytes of eight bits, least significant first, between a start bit and a stop bit."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from rtl.layouts import Event

__all__ = ["UartReceiver", "UartTransmitter"]

_PHASE_BITS = 20
"""Of the fraction of a bit. A byte's last bit is then less than a thousandth of a bit off."""
_LEAST_CYCLES = 4
"""Of a bit: fewer leave no room between its edges and its middle."""


def _step(clock: int, baud: int) -> int:
    """What the phase gains in a cycle; ValueError when the clock is too slow for the rate."""
    if not 0 < baud * _LEAST_CYCLES <= clock:
        raise ValueError(f"{baud} baud need a clock of at least {baud * _LEAST_CYCLES} Hz, not {clock} Hz")
    return round((baud << _PHASE_BITS) / clock)


class UartReceiver(wiring.Component):
    """Takes bytes from a line.

    Each bit is looked at in its middle, counted from the edge of the start bit. A start bit that is over by then, and a
    byte whose stop bit is missing, are left out.

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
        self._step = _step(clock, baud)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line, before, busy, tick = Signal(init=1), Signal(init=1), Signal(), Signal()
        phase, bits, left = Signal(_PHASE_BITS), Signal(8), Signal(range(10))
        m.submodules.synchronizer = FFSynchronizer(self.pin, line, init=1)
        m.d.sync += before.eq(line)
        with m.If(~busy):       # the edge is seen, and the first tick comes, later by a cycle and a half
            m.d.sync += [
                phase.eq((1 << _PHASE_BITS - 1) + 3 * self._step // 2), tick.eq(0), left.eq(9), busy.eq(before & ~line)]
        with m.Else():
            m.d.sync += Cat(phase, tick).eq(phase + self._step)
        with m.If(tick):
            m.d.sync += [bits.eq(Cat(bits[1:], line)), left.eq(left - 1)]
            with m.If((left == 0) | ((left == 9) & line)):
                m.d.sync += busy.eq(0)
        m.d.comb += [self.received.valid.eq(tick & (left == 0) & line), self.received.payload.eq(bits)]
        return m


class UartTransmitter(wiring.Component):
    """Gives bytes to a line.

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
        self._step = _step(clock, baud)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        phase, tick, bits, left = Signal(_PHASE_BITS), Signal(), Signal(9), Signal(range(11))
        m.d.comb += self.content.ready.eq(left == 0)
        with m.If(left == 0):
            m.d.sync += [phase.eq(0), tick.eq(0)]
            with m.If(self.content.valid):
                m.d.sync += [bits.eq(Cat(self.content.payload, 1)), self.pin.eq(0), left.eq(10)]
        with m.Else():
            m.d.sync += Cat(phase, tick).eq(phase + self._step)
        with m.If(tick & (left != 0)):
            m.d.sync += [self.pin.eq(bits[0]), bits.eq(Cat(bits[1:], 1)), left.eq(left - 1)]
        return m
