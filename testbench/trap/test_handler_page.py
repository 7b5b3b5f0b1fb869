"""The tutorial on trap handlers: its programs, its commands and its picture."""

import re
from pathlib import Path

from rtl.params import PRESETS
from sim.machine.hardware import Hardware
from testbench.programs.test_tour import commands_of, prints
from testbench.simulation import ENGINE
from testbench.trap.programs import kernel, with_handler

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
PAGE = (DOCS / "trap_handlers.md").read_text()


def test_the_page_shows_its_programs_as_they_are():
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for name in ("traps.sass", "count_traps.sass"):
        assert (EXAMPLES / name).read_text() in blocks, name


def test_commands_print_what_the_page_says_and_draw_its_picture(tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").symlink_to(DOCS)
    monkeypatch.chdir(tmp_path)
    commands = commands_of(PAGE)
    assert len(commands) == 7
    for command, expected in commands:
        prints(command, expected, capsys)
    drawn = (tmp_path / "traps.svg").read_text()
    assert drawn == (DOCS / "trap_handlers.svg").read_text(), "draw docs/trap_handlers.svg again"
    assert (tmp_path / "traps.gtkw").exists()


def test_registers_beyond_the_programs_are_the_handlers_own():
    """Registers above those of the program are 0 when the warp starts, and keep the handler's
    values between traps.
    """
    lines = (
        "S2R R0, SR_TID.X",
        "ISCADD R2.CC, R0, c[0x0][out], 0x2",
        "IADD.X R3, RZ, c[0x0][out+4]",
        *["BPT.TRAP 0x1"] * 3,
        "STG.E [R2], R4",
        "EXIT",
    )
    handler = ("IADD32I R12, R12, 0x1", "MOV R4, R12", "RTT")
    hardware = Hardware(PRESETS["tiny"], ENGINE, check=True)
    for _ in range(2):
        launch = with_handler(kernel(*lines, registers=8), *handler, registers=16)
        assert hardware.run(launch, 100_000).status == "ok"
        base, _ = launch.buffers["out"]
        assert hardware.memory.read(base, 4 * 32) == (3).to_bytes(4, "little") * 32
