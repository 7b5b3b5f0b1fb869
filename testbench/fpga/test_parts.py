"""Every part of a board is a module of its own in RTLIL."""

from functools import partial

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from rtl.beats import BeatArbiter, LineBeats
from rtl.fpga.block_memory import BlockMemory
from rtl.fpga.crossing import CrossingQueue
from rtl.fpga.frames import Deframer, Framer
from rtl.fpga.gate import MemoryGate
from rtl.fpga.lamps import WarpLamps
from rtl.fpga.link import HostLink
from rtl.fpga.registers import BoardRegisters
from rtl.fpga.sdram import SdramController
from rtl.fpga.uart import UartReceiver, UartTransmitter
from rtl.fpga.video import VGA, Video
from rtl.params import PRESETS


@pytest.mark.parametrize(
    "part",
    [
        partial(LineBeats, 3),
        partial(BeatArbiter, [3, 1]),
        partial(BlockMemory, 3, 4096),
        partial(MemoryGate, PRESETS["tiny"], 3),
        partial(MemoryGate, PRESETS["least"], 3),
        partial(Deframer, 8),
        Framer,
        HostLink,
        partial(BoardRegisters, PRESETS["tiny"], 48_000_000, 1 << 16),
        partial(WarpLamps, PRESETS["tiny"], 48_000_000, 2),
        partial(UartReceiver, 48_000_000, 3_000_000),
        partial(UartTransmitter, 48_000_000, 3_000_000),
        partial(CrossingQueue, 8, 3, "left", "right"),
        partial(SdramController, 2, 50e6),
        partial(Video, 5, VGA),
    ],
    ids=lambda part: getattr(part, "func", part).__name__,
)
def test_every_part_converts(part):
    assert "\nmodule \\top\n" in rtlil.convert(part())
