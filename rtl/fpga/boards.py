"""Boards, and their tops: the machine of a board, its clock and its pads.

What a board has, and where, is known by its platform in amaranth-boards alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

from amaranth.hdl import ClockDomain, Elaboratable, Module
from amaranth.lib import io

from rtl.params import PRESETS, SmParams

from .block_memory import BlockMemory, check_size
from .machine import BoardMachine
from .pll import ClockGenerator, PllSettings, find_pll

__all__ = ["BOARDS", "Board", "BoardTop", "board_top"]

_CLOCK, _BAUD = 50_000_000, 3_000_000
Maker = Callable[[SmParams, int, int, Callable[[int], Any], int], Any]


@dataclass(frozen=True)
class Board:
    """A board.

    Attributes
    ----------
    platform : str
        The class of its platform, behind the name of its module in amaranth_boards.
    preset : str
        The machine that it has, unless another one is asked for.
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
    "ulx3s-85f": Board("ulx3s.ULX3S_85F_Platform", "default"),
    "ulx3s-25f": Board("ulx3s.ULX3S_25F_Platform", "tiny"),
    "ecpix5-85f": Board("ecpix5.ECPIX585Platform", "default", lamps=4, coloured=True),
})
"""Those that there are tops for, by name."""


class BoardTop(Elaboratable):
    """All of a board.

    Parameters
    ----------
    board : Board
    platform : LatticeECP5Platform
        The board's.
    settings : PllSettings
        Of the machine's clock.
    machine : BoardMachine
        What is between the clock and the pads.
    """

    def __init__(self, board: Board, platform: Any, settings: PllSettings, machine: Any) -> None:
        self.board, self.platform, self.settings, self.machine = board, platform, settings, machine

    @property
    def frequency(self) -> int:
        """Of the machine's clock, in Hz."""
        return round(self.settings.frequency)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.clock = clock = ClockGenerator(self.settings, platform.default_clk_frequency)
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
        for number in range(self.board.lamps):
            lamps: dict[Any, Any] = {}
            if self.board.coloured:
                lamp = platform.request("rgb_led", number, dir="-")
                lamps = {"r": machine.failed, "g": machine.live, "b": machine.trapped}
            else:
                lamp, lamps = platform.request("led", number, dir="-"), {"": machine.lamps}
            for colour, lit in lamps.items():
                m.submodules[f"lamp_{number}{colour}"] = pad = io.Buffer(
                    io.Direction.Output, getattr(lamp, colour) if colour else lamp)
                m.d.comb += pad.o.eq(lit[number])
        return m


def board_top(board: Board, params: SmParams | None = None, *, clock: int | None = None, memory: int | None = None,
              make: Maker = BoardMachine) -> BoardTop:
    """The top of a board with a machine, a clock in Hz, and bytes of block memory; None: the board's own. The clock
    comes as near as a PLL can make it. ``make`` makes what is between the clock and the pads.

    ValueError for a clock that no PLL makes, or a memory that cannot be; ImportError without amaranth-boards.
    """
    size = check_size(board.memory if memory is None else memory)
    platform = board.make_platform()
    settings = find_pll(platform.default_clk_frequency, board.clock if clock is None else clock)
    machine = make(PRESETS[board.preset] if params is None else params, round(settings.frequency), board.baud,
                   partial(BlockMemory, size=size), board.lamps)
    return BoardTop(board, platform, settings, machine)
