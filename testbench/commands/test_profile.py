"""Profiles: every cycle of a warp is attributed; lines and conflicts are those of the addresses."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from rtl.layouts import WaitReason
from rtl.params import PRESETS
from sim.launch import prepare
from sim.launch.arguments import parse_arguments
from sim.launch.programs import read_program
from sim.machine.hardware import Hardware
from sim.machine.profile import Cost, Profile
from sim.profile import main
from sim.report.profile import text as profile_text
from sim.toolchain.cubin.line_table import source_lines
from testbench.programs import PROGRAMS
from testbench.simulation import ENGINE
from testbench.waves.sources import check_page

VOTES = PROGRAMS / "cuda" / "c01_tile_votes.G.cubin"
ACCESSES = """\
.kernel accesses
.param out 8
.shared 4096
        S2R R0, SR_TID.X
        SHL R1, R0, 0x2
        SHL R2, R0, 0x4
        SHL R3, R0, 0x6
        ISETP.LT.AND P0, PT, R0, 0x8, PT
        MOV R4, c[0x0][out]
        MOV R5, c[0x0][out+4]
        IADD R6.CC, R4, R1
        IADD.X R7, R5, RZ
        STS [R1], R0
        STS [R2], R0
        LDS R8, [RZ]
        STG.E [R6], R0
        IADD R6.CC, R4, R3
        IADD.X R7, R5, RZ
        STG.E [R6], R0
        IADD R10, R0, 0x10
        ATOMS.ADD R9, [RZ], R0
        ATOMS.ADD R9, [R1], R0
        STS.64 [R2], R4
        LDS.64 R12, [R2]
        SHL R11, R0, 0x5
        LDS R9, [R11]
        SHFL.IDX PT, R9, R0, R10, 0x1f
        SHFL.IDX PT, R9, R0, R1, 0x1f
        ATOM.E.ADD R9, [R6], R0
        SSY meet
   @!P0 SYNC
        IADD R0, R0, R0
        SYNC
meet:   EXIT
"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """The profile of one warp on the smallest pipelined machine."""
    return profile_on("tiny", tmp_path_factory)


@pytest.fixture(scope="module")
def serial_profile(tmp_path_factory):
    """The profile of one warp on the smallest machine."""
    return profile_on("least", tmp_path_factory)


def profile_on(preset, tmp_path_factory):
    """Returns the profile of one warp on a preset."""
    program = tmp_path_factory.mktemp("profile") / "accesses.sass"
    program.write_text(ACCESSES)
    profile = Profile(PRESETS[preset])
    hardware = Hardware(PRESETS[preset], ENGINE, watched=profile.watched)
    launch = prepare(read_program(str(program)), parse_arguments(["buf:OUT=u32[512]"]))
    result = hardware.run(launch, 100_000)
    assert result.status == "ok"
    profile.finish(hardware.cycles, result.cycles)
    return profile


def named(profile, text):
    """Returns the costs of instructions whose text begins with ``text``, in the order of the
    program.
    """
    return [cost for _, cost in sorted(profile.costs.items()) if cost.text.startswith(text)]


def banks(profile, text):
    """Returns passes and conflicts of instructions whose text begins with ``text``."""
    return [(cost.passes, cost.conflicts) for cost in named(profile, text)]


def test_every_cycle_of_a_warp_is_at_one_instruction(profile):
    lived = sum(span.end - span.begin for span in profile.timeline.spans)
    assert sum(cost.cycles for cost in profile.costs.values()) == lived > 100
    assert [cost.cycles for cost in profile.hottest] == sorted(
        (c.cycles for c in profile.costs.values()), reverse=True
    )


def test_every_issue_is_counted_with_its_threads(profile):
    assert sum(cost.issues for cost in profile.costs.values()) == len(profile.timeline.executed)
    assert all(cost.waits[WaitReason.READY] >= cost.issues for cost in profile.costs.values())
    assert [(cost.issues, cost.threads) for cost in named(profile, "IADD R0")] == [(1, 8)]
    assert [(cost.issues, cost.threads) for cost in named(profile, "EXIT")] == [(1, 32)]


def test_a_branch_and_its_wait_are_together(profile):
    assert named(profile, "EXIT")[0].waits[WaitReason.FLOW] > 0
    assert named(profile, "IADD R6.CC")[0].waits[WaitReason.FLOW] == 0


def test_lines_are_those_of_the_addresses(profile):
    assert [cost.lines for cost in named(profile, "STG")] == [2, 32]
    assert not any(cost.lines for cost in named(profile, "STS"))


def test_conflicts_are_those_of_the_banks(profile):
    """With four lanes and four banks, 32 neighbouring words are 16 halves of beats; every fourth
    word is in the same bank.
    """
    assert banks(profile, "STS [") == [(16, 0), (32, 16)]
    assert banks(profile, "LDS R") == [(8, 0), (32, 16)]  # a beat with one word is not halved


def test_atomic_operations_pass_thread_by_thread_wherever_their_words_are(profile):
    assert banks(profile, "ATOMS") == [(32, 0), (32, 0)]


def test_words_of_wide_accesses_conflict_like_others(profile):
    """Each of 16 halves of a beat has two words of each of its two threads, whose words are 16
    bytes apart.
    """
    assert banks(profile, "STS.64") == banks(profile, "LDS.64") == [(64, 32)]


def test_shuffles_conflict_where_threads_read_others_of_one_lane(profile):
    """The source is the neighbour half a warp away, or every fourth thread, all of which have the
    same lane.
    """
    assert banks(profile, "SHFL") == [(16, 0), (32, 16)]


def test_nothing_else_uses_the_banks(profile):
    accesses = ("STS", "LDS", "ATOMS", "SHFL")
    others = [cost for cost in profile.costs.values() if not cost.text.startswith(accesses)]
    assert len(others) > 10
    assert not any(cost.passes or cost.conflicts for cost in others)


def test_a_serial_machine_accesses_memory_word_by_word(serial_profile):
    """There are no conflicts, and a memory access in flight costs its own warp cycles, not the next
    instruction.
    """
    lived = sum(span.end - span.begin for span in serial_profile.timeline.spans)
    assert sum(cost.cycles for cost in serial_profile.costs.values()) == lived > 1_000
    assert [cost.lines for cost in named(serial_profile, "STG")] == [32, 32]
    assert banks(serial_profile, "STS [") == [(32, 0), (32, 0)]
    (slow,) = named(serial_profile, "IADD R0")
    assert (
        slow.waits[WaitReason.DRAIN]
        > 4 * named(serial_profile, "SSY")[0].waits[WaitReason.DRAIN]
        > 0
    )


def test_lines_of_the_source_are_found():
    module = read_program(str(VOTES))
    lines = source_lines(str(VOTES), module)
    assert lines[0x8] == ("c01_tile_votes.cu", 3) and lines[0xD8] == ("c01_tile_votes.cu", 4)
    assert {line for _, line in lines.values()} == set(range(3, 14))
    assert max(lines) < module.code.symbols["_Z10__all_syncji"]
    for without in ("k01_vecadd.O3.cubin", "k01_vecadd.ptx"):
        assert source_lines(str(PROGRAMS / without), module) == {}


def test_the_text_names_the_three_longest_waits_of_an_instruction():
    waits = Counter(
        {
            WaitReason.STALL: 2,
            WaitReason.FETCH: 40,
            WaitReason.LANES: 7,
            WaitReason.DRAIN: 11,
            WaitReason.READY: 9,
        }
    )
    profile = Profile(PRESETS["tiny"])
    profile.costs = {8: Cost(8, "NOP", issues=1, waits=waits)}
    assert profile_text(profile).splitlines()[-1].endswith("  fetch 40, drain 11, not selected 8")


def test_the_command_prints_and_writes(tmp_path, capsys):
    program = shutil.copy(VOTES, tmp_path)
    shutil.copy(VOTES.with_name("c01_tile_votes.cu"), tmp_path)
    page, file = tmp_path / "a.html", tmp_path / "a.json"
    assert (
        main(
            [
                str(program),
                "--preset",
                "tiny",
                "--block",
                "64",
                "--arg",
                "buf:OUT=u32[384]",
                "--arg",
                "buf:IN=u32[64]",
                "--lines",
                "3",
                "--html",
                str(page),
                "--json",
                str(file),
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    rows = re.findall(
        r"^ *(\d+) +[\d.]+% +\d+ +[\d.]+ +\d+ +\d+ +\d+  [0-9a-f]{4} \S.*$", printed, re.MULTILINE
    )
    cycles = re.search(r"^cycles +(\d+)$", printed, re.MULTILINE)
    assert cycles and int(cycles[1]) == json.loads(file.read_text())["cycles"]
    assert f"The grid ran {int(cycles[1]):,} cycles" in page.read_text()
    written = json.loads(file.read_text())["instructions"]
    assert [int(row) for row in rows] == sorted((one["cycles"] for one in written), reverse=True)[
        :3
    ]
    assert {one["source"][1] for one in written if "source" in one} <= set(range(3, 14))
    assert "mine[0] = __ballot_sync(tile8, 1);" in page.read_text()
    assert page.read_text().count("<tr>") > len(written)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lines", "0"], "'0' is not a whole number from 1 on"),
        (["--html", "/none/a.html"], "/none/a.html: No such file"),
        (["--engine", "board"], "a profile needs a simulation"),
    ],
)
def test_mistakes_get_one_line(capsys, options, message):
    with pytest.raises(SystemExit) as ended:
        main([str(PROGRAMS / "k01_vecadd.O3.cubin"), *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_every_program_of_the_page_runs(tmp_path, monkeypatch, capsys):
    from testbench.programs.test_tour import commands_of, prints

    page = Path(__file__).parents[2] / "docs" / "profile.md"
    (tmp_path / "testbench").symlink_to(PROGRAMS.parent)
    monkeypatch.chdir(tmp_path)
    for command, expected in commands_of(page.read_text()):
        prints(command, expected, capsys)
    check_page(page.with_suffix(".png"), tmp_path / "profile.html")
