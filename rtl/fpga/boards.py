"""Boards, and their top modules: the machine, its clocks and its pads.

Pins and resources of a board are those of its platform in amaranth-boards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

from amaranth.hdl import ClockDomain, Elaboratable, Module
from amaranth.lib import io
from amaranth.lib.wiring import connect

from rtl.params import PRESETS, SmParams

from .block_memory import BlockMemory, check_size
from .derived_clocks import DerivedClock, DerivedClocks
from .machine import BoardMachine
from .pll import ClockGenerator, PllSettings, find_pll
from .sdram import SdramController
from .sdram_pads import SdramPads, clock_phase
from .tmds import SHIFTS
from .video import Video
from .video_pads import VideoPads

__all__ = ["BOARDS", "SDRAM", "Board", "BoardTop", "board_top"]

SDRAM = "sdram"
"""Value of a parameter ``memory``: the board's SDRAM chip. An int is the bytes of a BlockMemory."""
_CLOCK_HZ = 45_000_000
_BAUD = 3_000_000
_PIXEL_HZ = 25_000_000


class Maker(Protocol):
    """The type of functions that make the component between a board's clocks and its pads, with the
    parameters of BoardMachine."""

    def __call__(self, params: SmParams, clock: int, baud: int, memory: Any, lamps: int,
                 video: Any) -> Any:
        """Makes the component."""
        ...


@dataclass(frozen=True)
class Board:
    """A board.

    Attributes
    ----------
    platform : str
        "MODULE.CLASS" of its platform in the package amaranth_boards.
    preset : str
        The default preset of the machine.
    clock, baud : int
        Default clock rate of the machine in Hz; bits a second of the serial line.
    memory : int or SDRAM
        Default memory: bytes of block memory, or its SDRAM chip.
    video : bool
        Whether it has video by default.
    lamps : int
        Number of LEDs that show the states of warps.
    coloured : bool
        The lamps are resources ``rgb_led``, not ``led``.
    """

    platform: str
    preset: str
    clock: int = _CLOCK_HZ
    baud: int = _BAUD
    memory: int | str = 1 << 16
    video: bool = False
    lamps: int = 8
    coloured: bool = False

    def make_platform(self) -> Any:
        """Makes the platform; ImportError without amaranth-boards."""
        module, _, name = self.platform.partition(".")
        return getattr(import_module(f"amaranth_boards.{module}"), name)()


BOARDS: Mapping[str, Board] = MappingProxyType({
    "ulx3s-85f": Board(
        "ulx3s.ULX3S_85F_Platform", "compact", clock=40_000_000, memory=SDRAM, video=True),
    "ulx3s-25f": Board(
        "ulx3s.ULX3S_25F_Platform", "least", clock=45_000_000, memory=SDRAM),
    "ecpix5-85f": Board(
        "ecpix5.ECPIX585Platform", "compact", lamps=4, coloured=True),
})
"""The boards by name."""


class BoardTop(Elaboratable):
    """The top module of a board.

    Parameters
    ----------
    board : Board
    platform : LatticeECP5Platform
        The board's platform.
    settings : PllSettings
        Of the machine's clock.
    later : mapping
        Domain of the SDRAM chip -> degrees by which its clock lags the machine's. Empty if the chip
        is not used.
    machine : BoardMachine
        The component between the clocks and the pads; other components with its ports are allowed.
    """

    def __init__(self, board: Board, platform: Any, settings: PllSettings,
                 later: Mapping[str, float], machine: Any) -> None:
        self.board = board
        self.platform = platform
        self.settings = settings
        self.machine = machine
        self._later = later

    @property
    def frequency(self) -> int:
        """Frequency of the machine's clock in Hz."""
        return round(self.settings.frequency)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.clock = clock = ClockGenerator(
            self.settings, platform.default_clk_frequency, self._later)
        m.submodules.machine = self.machine
        if platform.default_clk is not None:
            m.submodules.clock_pad = pad = _input_pad(platform, platform.default_clk)
            m.d.comb += clock.clock.eq(pad.i)
        if platform.default_rst is not None:
            m.submodules.reset_pad = pad = _input_pad(platform, platform.default_rst)
            m.d.comb += clock.reset.eq(pad.i)
        self._connect_line(m, platform)
        self._connect_lamps(m, platform)
        if self._later:
            self._connect_sdram(m, platform)
        if "lanes" in self.machine.signature.members:
            self._connect_video(m, platform, clock.clock)
        return m

    def _connect_line(self, m: Module, platform: Any) -> None:
        """The serial line."""
        uart = platform.request("uart", dir="-")
        m.submodules.receive_pad = rx = io.Buffer(io.Direction.Input, uart.rx)
        m.submodules.transmit_pad = tx = io.Buffer(io.Direction.Output, uart.tx)
        m.d.comb += self.machine.receive.eq(rx.i)
        m.d.comb += tx.o.eq(self.machine.transmit)

    def _connect_lamps(self, m: Module, platform: Any) -> None:
        """The lamps, of one colour or of three: red is failed, green live, blue trapped."""
        shown = self.machine.lamps
        for number in range(self.board.lamps):
            if self.board.coloured:
                lamp = platform.request("rgb_led", number, dir="-")
                self._light(m, f"lamp_{number}r", lamp.r, shown.failed[number])
                self._light(m, f"lamp_{number}g", lamp.g, shown.live[number])
                self._light(m, f"lamp_{number}b", lamp.b, shown.trapped[number])
            else:
                lamp = platform.request("led", number, dir="-")
                self._light(m, f"lamp_{number}", lamp, shown.lit[number])

    def _light(self, m: Module, name: str, lamp: Any, is_lit: Any) -> None:
        """Connects a lamp of one colour, or one colour of a lamp."""
        m.submodules[name] = pad = io.Buffer(io.Direction.Output, lamp)
        m.d.comb += pad.o.eq(is_lit)

    def _connect_sdram(self, m: Module, platform: Any) -> None:
        """The SDRAM chip."""
        domain, = self._later
        m.domains += ClockDomain(domain, reset_less=True)
        m.submodules.sdram_pads = pads = SdramPads(platform.request("sdram", dir="-"), domain)
        connect(m, self.machine.bus, pads.bus)

    def _connect_video(self, m: Module, platform: Any, oscillator: Any) -> None:
        """The screen, and its clocks from a second PLL: ``pixel``, and ``shift`` for the bits. They
        have no resets."""
        m.domains += ClockDomain("pixel", reset_less=True)
        m.domains += ClockDomain("shift", reset_less=True)
        m.submodules.video_clocks = clocks = DerivedClocks(platform.default_clk_frequency, {
            "pixel": DerivedClock(_PIXEL_HZ),
            "shift": DerivedClock(_PIXEL_HZ * SHIFTS),
        })
        m.submodules.video_pads = pads = VideoPads(platform.request("hdmi", dir="-"))
        m.d.comb += clocks.clock.eq(oscillator)
        m.d.comb += pads.lanes.eq(self.machine.lanes)


def _input_pad(platform: Any, resource: str) -> io.Buffer:
    """The pad of a resource that is an input."""
    return io.Buffer(io.Direction.Input, platform.request(resource, dir="-"))


def board_top(board: Board, params: SmParams | None = None, *, clock: int | None = None,
              memory: int | str | None = None, video: bool | None = None,
              make: Maker = BoardMachine) -> BoardTop:
    """Makes the top module of a board.

    Parameters
    ----------
    board : Board
        Its defaults are used for parameters that are None.
    params : SmParams or None
    clock : int or None
        Hz; the machine's clock is the nearest one that a PLL can make.
    memory : int, SDRAM or None
        Bytes of block memory, or the SDRAM chip.
    video : bool or None
    make : Maker
        Makes the component between the clocks and the pads.

    Raises
    ------
    ValueError
        No PLL makes the clock, the size of the memory is not possible, or the board has no SDRAM
        or video.
    ImportError
        amaranth-boards is not installed.
    """
    if params is None:
        params = PRESETS[board.preset]
    if clock is None:
        clock = board.clock
    if memory is None:
        memory = board.memory
    if video is None:
        video = board.video
    platform = board.make_platform()
    settings = find_pll(platform.default_clk_frequency, clock)
    if memory == SDRAM:
        _check_resource(platform, "sdram")
    if video:
        _check_resource(platform, "hdmi")
    later: dict[str, float] = {}
    if memory == SDRAM:
        phase = clock_phase(settings.frequency)
        later["sdram"] = phase.degrees
        make_memory = partial(
            SdramController, clock_hz=settings.frequency, pad_cycles=phase.cycles)
    else:
        make_memory = partial(BlockMemory, size=check_size(int(memory)))
    machine = make(
        params, round(settings.frequency), board.baud, make_memory, board.lamps,
        Video if video else None)
    return BoardTop(board, platform, settings, later, machine)


def _check_resource(platform: Any, name: str) -> None:
    """ValueError if the board does not have the resource."""
    if (name, 0) not in platform.resources:
        raise ValueError(f"the board has no {name.upper()} that the machine can use")
