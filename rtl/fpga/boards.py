"""Boards, and their tops: the machine of a board, its clock and its pads.

What a board has, and where, is known by its platform in amaranth-boards alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import io

from rtl.params import PRESETS, SmParams

from .block_memory import BlockMemory
from .machine import BoardMachine
from .pll import ClockGenerator, find_pll

__all__ = ["BOARDS", "Board", "BoardTop"]

_CLOCK, _BAUD = 50_000_000, 3_000_000
Maker = Callable[[SmParams, int, int, Callable[[int], Any], int], BoardMachine]


@dataclass(frozen=True)
class Board:
    """A board.

    Attributes
    ----------
    platform : str
        The class of its platform, behind the name of its module in amaranth_boards.
    preset : str
        The machine that it has, unless another one is asked for.
    loader : tuple of str
        Arguments of openFPGALoader before the name of the bitstream.
    clock, baud : int
        Hz of the machine; bits a second of the serial line.
    memory : int
        Bytes of block memory.
    lamps : int
        Lamps for warps.
    coloured : bool
        These are resources rgb_led, and not led.
    """

    platform: str
    preset: str
    loader: tuple[str, ...]
    clock: int = _CLOCK
    baud: int = _BAUD
    memory: int = 1 << 16
    lamps: int = 8
    coloured: bool = False

    def make_platform(self) -> Any:
        """The platform; ImportError without amaranth-boards."""
        module, _, name = self.platform.partition(".")
        return getattr(import_module(f"amaranth_boards.{module}"), name)()


BOARDS: Mapping[str, Board] = MappingProxyType({
    "ulx3s-85f": Board("ulx3s.ULX3S_85F_Platform", "default", ("-b", "ulx3s")),
    "ulx3s-25f": Board("ulx3s.ULX3S_25F_Platform", "tiny", ("-b", "ulx3s")),
    "ecpix5-85f": Board("ecpix5.ECPIX585Platform", "default", ("-b", "ecpix5"), lamps=4, coloured=True),
})
"""Those that there are tops for, by name."""


class BoardTop(Elaboratable):
    """All of a board.

    Parameters
    ----------
    board : Board
    params : SmParams or None
        The machine; None: the board's preset.
    clock : int or None
        Hz, if not the board's. The PLL comes as near to it as it can: see ``frequency``.
    memory : int or None
        Bytes, if not the board's.
    make : Callable
        Makes what is between the clock and the pads: BoardMachine, or something with the same ports.
    """

    def __init__(self, board: Board, params: SmParams | None = None, *, clock: int | None = None,
                 memory: int | None = None, make: Maker = BoardMachine) -> None:
        self._board = board
        self.platform = board.make_platform()
        self.source = self.platform.default_clk_frequency
        self.settings = find_pll(self.source, board.clock if clock is None else clock)
        self.frequency = round(self.settings.frequency)
        self.machine = make(PRESETS[board.preset] if params is None else params, self.frequency, board.baud,
                            partial(BlockMemory, size=board.memory if memory is None else memory), board.lamps)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.clock = clock = ClockGenerator(self.settings, self.source)
        m.submodules.machine = machine = self.machine
        for name, wanted, signal in ((platform.default_clk, "clock", clock.clock),
                                     (platform.default_rst, "reset", clock.reset)):
            if name is not None:
                m.submodules[f"{wanted}_pad"] = pad = io.Buffer(io.Direction.Input, platform.request(name, dir="-"))
                m.d.comb += signal.eq(pad.i)
        uart = platform.request("uart", dir="-")
        m.submodules.receive_pad = rx = io.Buffer(io.Direction.Input, uart.rx)
        m.submodules.transmit_pad = tx = io.Buffer(io.Direction.Output, uart.tx)
        m.d.comb += [machine.receive.eq(rx.i), tx.o.eq(machine.transmit)]
        for number in range(self._board.lamps):
            lamps: dict[Any, Any] = {}
            if self._board.coloured:
                lamp = platform.request("rgb_led", number, dir="-")
                lamps = {"r": machine.failed, "g": machine.live, "b": machine.trapped}
            else:
                lamp, lamps = platform.request("led", number, dir="-"), {"": machine.lamps}
            for colour, lit in lamps.items():
                m.submodules[f"lamp_{number}{colour}"] = pad = io.Buffer(
                    io.Direction.Output, getattr(lamp, colour) if colour else lamp)
                m.d.comb += pad.o.eq(lit[number])
        return m
