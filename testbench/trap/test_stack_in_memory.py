"""The manual shows the bytes of a stack as the hardware leaves them in memory."""

import re
from pathlib import Path

import pytest

from rtl.params import PRESETS
from sim.launch import LOCAL_MEMORY, prepare, with_trap_handler
from sim.launch.arguments import parse_arguments
from sim.launch.programs import read_program
from sim.machine.hardware import Hardware
from testbench.programs import PROGRAMS
from testbench.simulation import ENGINE

PAGE = Path(__file__).parents[2] / "docs" / "control_flow.md"
HANDLER = ".kernel handler\n.registers 12\n        CCTLL.CRS.WBALL\n        RTT\n"


@pytest.fixture(scope="module")
def shown() -> bytes:
    section = PAGE.read_text().split("\n### A stack in memory\n")[1].split("\n###")[0]
    return bytes.fromhex(
        " ".join(re.findall(r"^0x[0-9a-f]{4}  ((?:[0-9a-f]{2} ?){16})$", section, re.MULTILINE))
    )


def test_the_manual_shows_the_stack_of_a_warp_in_a_trap(shown, tmp_path):
    assert len(shown) == 128
    (tmp_path / "handler.sass").write_text(HANDLER)
    launch = with_trap_handler(
        prepare(
            read_program(str(PROGRAMS / "tour" / "trap.sass")),
            parse_arguments(["buf:OUT=u32[64]"]),
            block=(64, 1, 1),
            crs=1024,
        ),
        read_program(str(tmp_path / "handler.sass")),
    )
    hardware = Hardware(PRESETS["tiny"], ENGINE)
    assert hardware.run(launch, 100_000).status == "ok"
    blocks, _ = hardware.memory.regions[LOCAL_MEMORY]
    stack = hardware.memory.read(blocks + 32 * launch.local, launch.crs)
    assert stack == shown.ljust(launch.crs, b"\0")
