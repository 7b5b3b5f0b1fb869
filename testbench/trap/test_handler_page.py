"""The tutorial on trap handlers: its programs, its commands and its picture."""

import re
from pathlib import Path

from rtl.params import PRESETS
from sim.machine.hardware import Hardware
from sim.waves.picture import Waveform
from sim.waves.sequence import messages
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
    assert len(commands) == 9
    for command, expected in commands:
        prints(command, expected, capsys)
    for drawn, kept in (("traps.svg", "trap_handlers.svg"), ("bad.svg", "trap_handlers_error.svg")):
        same = (tmp_path / drawn).read_text() == (DOCS / kept).read_text()
        assert same, f"draw docs/{kept} again"
    assert (tmp_path / "traps.gtkw").exists()
    assert "[markername] Berror" in (tmp_path / "bad.gtkw").read_text()
    check_cycles_of_the_error(Waveform(tmp_path / "bad.vcd"))


def check_cycles_of_the_error(wave: Waveform) -> None:
    """The table of an error's cycles has those of its waveform."""
    section = PAGE.split("\n## 5.")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| ([\d, ]+) \| (.*) \|$", section, re.MULTILINE))
    assert len(rows) == 11
    events = {
        (message.cycle, message.sender, message.receiver): message.text
        for message in messages(wave, 0, wave.cycles)
        if not message.text.startswith("resumes")
    }
    for cycles, sender, receiver, text in (
        ("1072", "warp 0", "trap unit", "0068 STG.E [R2], R4: MMU_FAULT"),
        ("1074", "trap unit", "", "the machine is TRAPPING"),
        ("1080", "trap unit", "warp 0", "enters the trap"),
        ("1083", "warp 0", "warp 0", "is in the handler"),
        ("1087", "warp 0", "stack", "push TRAP"),
        ("1093", "warp 1", "trap unit", "0068 STG.E [R2], R4: MMU_FAULT"),
        ("1101", "trap unit", "warp 1", "enters the trap"),
        ("1104", "warp 1", "warp 1", "is in the handler"),
    ):
        assert cycles in rows
        assert events[int(cycles), sender, receiver] == text
    for warp in (0, 1):
        (waits,) = wave.values(f"warp{warp}.waits", 1073, 1)
        assert (waits, *wave.values(f"warp{warp}.waits", 1072, 1)) == ("TRAP", "DRAIN")
        for cycles, receiver, text in (
            ("1338, 1356", "trap unit", "02d0 RTT.TERMINATE"),
            ("1359, 1377", f"warp {warp}", "has ended"),
        ):
            assert events[int(cycles.split(", ")[warp]), f"warp {warp}", receiver] == text
            assert cycles in rows


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
