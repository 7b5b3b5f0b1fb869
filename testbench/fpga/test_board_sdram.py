"""A simulated board with an SDRAM chip and a screen, without clocks and pads: kernels over the
link.
"""

from functools import partial
from random import Random

import numpy as np
import pytest

from rtl.fpga.sdram import SdramChip, SdramController
from rtl.fpga.video import Video, VideoMode
from rtl.params import PRESETS
from sim.board.link import BAUD, Link, open_port
from sim.board.machine import Board
from sim.board.stand_in import StandIn
from sim.demo.command import main as demo
from sim.demo.picture import colours
from sim.demo.scenes import Size
from sim.engine import CompiledEngine
from testbench.commands.test_demo import mandelbrot
from testbench.engine.designs import needs_compiled
from testbench.fpga.sdram_chip import DATA_SHEET, SdramModel
from testbench.fpga.video_picture import Screen, serving
from testbench.programs import RECURSION

pytestmark = needs_compiled


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Longer timeouts, because a simulation that is observed in each cycle is slow."""
    monkeypatch.setattr("sim.launch_options.Link", partial(Link, silence=20))


CLOCK = 50_000_000


def test_a_kernel_runs_on_a_board_whose_memory_is_an_sdram_chip(run_program):
    """The chip model rejects violations of its data sheet, which ends the simulation."""
    board = StandIn(
        PRESETS["tiny"],
        CompiledEngine,
        clock=CLOCK,
        memory=partial(SdramController, clock_hz=CLOCK, chip=SdramChip(power_up=500)),
    )
    chip = SdramModel(Random(1), {**DATA_SHEET, "power up": 400})
    board.simulator.add_testbench(
        partial(chip.serve, bus=board.machine.bus, clock_hz=CLOCK), background=True
    )
    with serving(board) as port:
        code, written = run_program(
            RECURSION,
            "--block",
            "4",
            "--arg",
            "buf:OUT=u32[4]",
            "--check",
            "--local",
            "512",
            "--crs",
            "512",
            "--engine",
            "board",
            "--port",
            port,
        )
    assert (code, written["buffers"]["OUT"]) == (0, [0, 1, 1, 2])
    assert (
        min(chip.commands[name] for name in ("ACTIVATE", "READ", "WRITE", "PRECHARGE", "REFRESH"))
        > 20
    )


SCREEN = VideoMode(160, 4, 8, 6, 120, 2, 2, 2)


def test_a_demo_on_a_board_is_seen_on_its_screen(tmp_path, capsys, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    size, out = Size(80, 60), tmp_path / "set.png"
    monkeypatch.setattr("sim.demo.command._SCREEN", {size: 1})
    board = StandIn(PRESETS["tiny"], CompiledEngine, video=partial(Video, mode=SCREEN))
    screen = Screen(board, SCREEN)
    with serving(board) as port:
        options = ["mandelbrot", "--steps", "4", "--engine", "board", "--port", port]
        assert demo([*options, "--size", "80x60", "--check", "--png", str(out)]) == 0
        assert capsys.readouterr().out.endswith(" cycles\non the screen\n")
        seen = screen.look()
        link = Board(Link(open_port(port, BAUD), port), port)
        assert (link.has_video, link.underrun) == (True, False)
        link.close()
        assert demo([*options, "--size", "8x8"]) == 0
        assert capsys.readouterr().out.endswith("not on the screen, which shows 80x60\n")
    expected = colours(mandelbrot(size, 4))
    assert (seen.picture == expected.repeat(2, 0).repeat(2, 1)).all()
    assert (np.asarray(image.open(out)) == expected.repeat(8, 0).repeat(8, 1)).all()
