"""Simulates a board behind a pseudo-terminal: all of it except its clock generators and its pads."""

import os
import pty
import select
import tty
from collections.abc import Callable
from threading import Event
from typing import Any

from amaranth.hdl import DomainRenamer, Module, Signal
from amaranth.lib import memory

from rtl.component import Component
from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.machine import BoardMachine
from rtl.fpga.uart import UartReceiver, UartTransmitter
from rtl.params import SmParams
from sim.engine import Engine, make_simulator, run_cycles

__all__ = ["StandIn"]

_CLOCK = 12_000_000
_BIT_CYCLES = 4
"""Clock cycles of a bit: as few as the line allows, to reduce the simulation of a byte."""
_RING_BITS = 12
_CYCLES = 400
"""Cycles between two polls of the pseudo-terminal."""
_IDLE = 0.05
"""Seconds between two polls while the board is idle."""


Maker = Callable[[int], Any]


class _Cable(Component):
    """A board and the other end of its serial line, with a ring buffer of bytes for each direction.

    Attributes:
        put: Number of bytes that were put into the ring to the board.
        taken: Number of these that the board has received.
        given: Number of bytes that the board has put into the other ring.
        outgoing: The ring to the board.
        incoming: The ring from the board.
    """

    def __init__(
        self, params: SmParams, clock: int, make_memory: Maker, video: Maker | None
    ) -> None:
        super().__init__({})
        self._clock = clock
        self.machine = BoardMachine(params, clock, clock // _BIT_CYCLES, make_memory, video=video)
        self.put, self.taken, self.given = (
            Signal(_RING_BITS, name=name) for name in ("put", "taken", "given")
        )
        self.busy = Signal()
        self.outgoing, self.incoming = (
            memory.Memory(shape=8, depth=1 << _RING_BITS, init=[]) for _ in range(2)
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.machine = machine = self.machine
        m.submodules.outgoing, m.submodules.incoming = self.outgoing, self.incoming
        m.submodules.transmitter = transmitter = UartTransmitter(
            self._clock, self._clock // _BIT_CYCLES
        )
        m.submodules.receiver = receiver = UartReceiver(self._clock, self._clock // _BIT_CYCLES)
        next_byte, received = self.outgoing.read_port(domain="comb"), self.incoming.write_port()
        m.d.comb += [
            machine.receive.eq(transmitter.pin),
            receiver.pin.eq(machine.transmit),
            next_byte.addr.eq(self.taken),
            transmitter.content.payload.eq(next_byte.data),
            transmitter.content.valid.eq(self.taken != self.put),
            received.addr.eq(self.given),
            received.data.eq(receiver.received.payload),
            received.en.eq(receiver.received.valid),
            self.busy.eq(
                (self.taken != self.put)
                | ~transmitter.content.ready
                | machine.traffic
                | machine.sm.busy
            ),
        ]
        with m.If(transmitter.content.valid & transmitter.content.ready):
            m.d.sync += self.taken.eq(self.taken + 1)
        with m.If(received.en):
            m.d.sync += self.given.eq(self.given + 1)
        return m


class StandIn:
    """A simulated board behind a pseudo-terminal.

    Its clock stops while there is no traffic and no grid runs. The clocks of video are the
    machine's.

    Parameters:
        engine: The simulation engine.
        memory: See :class:`~rtl.fpga.machine.BoardMachine`.
        video: See :class:`~rtl.fpga.machine.BoardMachine`.
        clock: Clock frequency in Hz.

    Attributes:
        port: Name of the port that a host opens.
    """

    def __init__(
        self,
        params: SmParams,
        engine: type[Engine],
        memory: Maker = BlockMemory,
        video: Maker | None = None,
        clock: int = _CLOCK,
    ) -> None:
        self._cable = _Cable(params, clock, memory, video)
        self.machine = self._cable.machine
        design = (
            self._cable
            if video is None
            else DomainRenamer({"pixel": "sync", "shift": "sync"})(self._cable)
        )
        self.simulator: Any = make_simulator(design, engine)
        self.simulator.add_clock(1 / clock)
        self._line, self._far = pty.openpty()  # The far end stays open when a host closes it
        tty.setraw(self._far)
        self.port = os.ttyname(self._far)
        self._ended, self._more, self._passed = False, 0, Event()

    def serve(self) -> None:
        """Simulates until :meth:`end`."""
        self.simulator.add_testbench(self._serve)
        self.simulator.run()

    def end(self) -> None:
        """Ends :meth:`serve`; called from another thread."""
        self._ended = True

    def go_on(self, cycles: int) -> None:
        """Advances the clock by this many cycles even if the board is idle; called from another
        thread than :meth:`serve`'s.
        """
        self._passed.clear()
        self._more = cycles
        self._passed.wait()

    async def _serve(self, ctx: Any) -> None:
        cable, mask = self._cable, (1 << _RING_BITS) - 1
        put = seen = 0
        quiet = 0
        while not self._ended:
            if self._more:
                await run_cycles(ctx, self._more)
                self._more = 0
                self._passed.set()
            room = mask - (put - ctx.get(cable.taken) & mask)
            wait = _IDLE if quiet > 1 else 0
            if room and select.select([self._line], [], [], wait)[0]:
                for byte in os.read(self._line, room):
                    ctx.set(cable.outgoing.data[put], byte)
                    put = put + 1 & mask
                ctx.set(cable.put, put)
                quiet = 0
            quiet = 0 if ctx.get(cable.busy) else quiet + 1
            if quiet > 1:
                continue
            await run_cycles(ctx, _CYCLES)
            sent_count = ctx.get(cable.given)
            if sent_count != seen:
                os.write(
                    self._line,
                    bytes(
                        ctx.get(cable.incoming.data[at & mask])
                        for at in range(seen, seen + (sent_count - seen & mask))
                    ),
                )
                seen = sent_count
