"""The environment of CUDA programs, and the tables of their launches."""

import json
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rtl.isa.errors import WarpError
from sim.cuda import recording, setup
from sim.cuda.device import LaunchRecord
from sim.cuda.recording import Files, Recording
from sim.cuda.report import content, table
from sim.cuda.setup import check_setup, environment, find_ptxas
from sim.runner import MachineError, Outcome
from sim.support.command import CommandError


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of packages as the only search path, and an empty cache."""
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    monkeypatch.setattr(setup, "library_folder", lambda: libraries)
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setattr(setup.sys, "path", [str(folder)])
    for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return folder


def add(packages, *names):
    """Adds files of NVIDIA's packages."""
    for name in names:
        path = packages / "nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def program(path, text):
    """Returns a shell script that prints a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_programs_are_told_the_socket_the_libraries_and_a_cuda(packages, tmp_path):
    libraries = tmp_path / "libraries"
    found = environment("a-socket", [])
    home = Path(found["CUDA_HOME"])
    assert found == {
        "WARPSTACK_CUDA_SOCKET": "a-socket",
        "LD_LIBRARY_PATH": str(libraries),
        "CUDA_HOME": str(home),
        "CUDA_PATH": str(home),
    }
    assert {path.name: os.readlink(path) for path in (home / "lib64").iterdir()} == {
        "libcudart.so": str(libraries / "libcudart.so"),
        "libcuda.so": str(libraries / "libcuda.so.1"),
    }
    assert environment("a-socket", [])["CUDA_HOME"] == str(home)


def test_libraries_go_before_those_that_the_environment_has(packages, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/a:/b")
    assert environment("s", [])["LD_LIBRARY_PATH"] == f"{tmp_path / 'libraries'}:/a:/b"


def test_packages_of_nvidia_are_where_an_installed_cuda_has_them(packages):
    add(
        packages,
        "cuda_nvcc/nvvm/lib64/libnvvm.so.4",
        "cuda_nvcc/bin/ptxas",
        "cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
        "cuda_nvrtc/lib/libnvrtc.so.12",
    )
    found = environment("s", [])
    home, nvidia = Path(found["CUDA_HOME"]), packages / "nvidia"
    links = {
        str(path.relative_to(home)): os.readlink(path)
        for path in home.rglob("*")
        if path.is_symlink()
    }
    assert {name: target for name, target in links.items() if target.startswith(str(nvidia))} == {
        "nvvm/lib64/libnvvm.so": f"{nvidia}/cuda_nvcc/nvvm/lib64/libnvvm.so.4",
        "nvvm/lib64/libnvvm.so.4": f"{nvidia}/cuda_nvcc/nvvm/lib64/libnvvm.so.4",
        "nvvm/libdevice": f"{nvidia}/cuda_nvcc/nvvm/libdevice",
        "bin/ptxas": f"{nvidia}/cuda_nvcc/bin/ptxas",
        "lib64/libnvrtc.so": f"{nvidia}/cuda_nvrtc/lib/libnvrtc.so.12",
        "lib64/libnvrtc.so.12": f"{nvidia}/cuda_nvrtc/lib/libnvrtc.so.12",
    }
    assert found["NVRTC_PATH"] == str(home / "lib64" / "libnvrtc.so")


def test_packages_of_the_programs_python_go_before_those_of_this_one(packages, tmp_path):
    other = tmp_path / "other"
    for folder in (packages, other):
        add(folder, "cuda_nvcc/bin/ptxas")
    python = program(tmp_path / "python3.9", str(other))
    home = Path(environment("s", [str(python), "a.py"])["CUDA_HOME"])
    assert os.readlink(home / "bin/ptxas") == str(other / "nvidia/cuda_nvcc/bin/ptxas")
    for command in ([sys.executable], [str(program(tmp_path / "tool", str(other)))], ["none"]):
        home = Path(environment("s", command)["CUDA_HOME"])
        assert os.readlink(home / "bin/ptxas") == str(packages / "nvidia/cuda_nvcc/bin/ptxas")
    broken = tmp_path / "python3.8"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    assert environment("s", [str(broken)])["CUDA_HOME"] == str(home)


def test_the_first_assembler_that_knows_sm_50_is_taken(packages, tmp_path, monkeypatch):
    assert find_ptxas([]) is None
    old = "--gpu-name sm_50, sm_60"
    in_path = program(tmp_path / "bin" / "ptxas", old)
    assert find_ptxas([]) == in_path
    in_home = program(tmp_path / "home" / "bin" / "ptxas", old)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "home"))
    assert find_ptxas([]) == in_home
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nowhere"))
    assert find_ptxas([]) == in_home
    of_package = program(packages / "nvidia" / "cuda_nvcc" / "bin" / "ptxas", "sm_75, sm_80")
    assert find_ptxas([]) == in_home
    program(of_package, old)
    assert find_ptxas([]) == of_package
    of_package.chmod(0o600)
    assert find_ptxas([]) == in_home


def test_the_check_of_the_setup_says_what_is_there(packages, monkeypatch):
    monkeypatch.setattr(setup, "missing_tool", lambda: None)
    monkeypatch.setattr(setup, "find_spec", lambda name: name if name == "tinygrad" else None)
    add(packages, "cuda_nvrtc/lib/libnvrtc.so.11.2")
    assert [(line.component.split(",")[0], line.is_installed) for line in check_setup()] == [
        ("a C compiler", True),
        ("numba", False),
        ("NVVM and libdevice", False),
        ("ptxas", False),
        ("NVRTC", True),
        ("tinygrad", True),
    ]
    assert all("install" in line.install for line in check_setup())
    monkeypatch.setattr(setup, "missing_tool", lambda: "none")
    assert not check_setup()[0].is_installed


# Tables of launches


ERROR = MachineError(
    WarpError.MMU_FAULT, "k", 3, 0x48, "LDG.E R0, [R2]", (1, 0, 0), (5, 2, 0), 0x10
)
LAUNCHES = [
    LaunchRecord(
        "_Z3addPi",
        (2, 1, 1),
        (32, 2, 1),
        Outcome("ok", 12_345, 1_000, counters={"cycles": 1}),
        0.25,
    ),
    LaunchRecord(
        "k",
        (1, 1, 3),
        (1, 1, 1),
        Outcome("error", 7, 0, ERROR, "why"),
        1.0,
        700,
        "it failed",
        ("a", "b"),
    ),
]


def test_a_table_of_launches_has_a_line_for_each():
    assert table(LAUNCHES) == [
        "launch  kernel   grid  block  cycles  instructions  cycles/instr  seconds  status",
        "     1  add         2   32,2  12,345         1,000         12.35    0.250  ok",
        "     2  k       1,1,3      1       7             0             -    1.000  error",
    ]
    assert len(table([])) == 1


def test_a_file_of_launches_has_the_setting_and_all_that_is_known():
    text = content(LAUNCHES, {"preset": "tiny"}).decode()
    assert text.count("\n") == 3 and text.startswith(
        '{"preset": "tiny", "launches": [\n {"launch": 1'
    )
    first, second = json.loads(text)["launches"]
    assert first == {
        "launch": 1,
        "kernel": "add",
        "symbol": "_Z3addPi",
        "grid": [2, 1, 1],
        "block": [32, 2, 1],
        "cycles": 12_345,
        "instructions": 1_000,
        "counters": {"cycles": 1},
        "seconds": 0.25,
        "status": "ok",
        "error": None,
    }
    assert second["error"] == {
        "message": "it failed",
        "result": 700,
        "error": "MMU_FAULT",
        "warp": 3,
        "block": [1, 0, 0],
        "thread": [5, 2, 0],
        "pc": 0x48,
        "instruction": "LDG.E R0, [R2]",
        "address": 0x10,
        "reason": "why",
        "difference": None,
        "assertions": ["a", "b"],
    }


# Files of a recording


def test_the_files_of_a_recording_are_those_that_were_given(tmp_path):
    files = Files(vcd="a.vcd", profile="p.html")
    assert files.requested == {"vcd": "a.vcd", "profile": "p.html"}
    assert files.waveform == Path("a.vcd")
    assert Files(fst="a.fst").waveform == Path("a.fst") and Files(timeline="t").waveform is None
    with pytest.raises(CommandError, match=r"^--fst a.vcd: the name of an FST ends in .fst$"):
        Files(fst="a.vcd").check()
    with pytest.raises(CommandError, match="No such file or directory"):
        Files(timeline=str(tmp_path / "none" / "t.html")).check()
    Files(vcd=str(tmp_path / "a.vcd"), timeline=str(tmp_path / "t.html")).check()


@pytest.fixture
def pages(monkeypatch):
    """Replaces the writer of recordings by one that writes a line for each page."""
    seen = []

    class Made:
        def __init__(self, params):
            self.timeline = SimpleNamespace(
                finish=lambda *cycles: seen.append(("timeline", *cycles)),
                watched=lambda sm: ["timeline"],
            )

        def finish(self, *cycles):
            seen.append(("profile", *cycles))

        def watched(self, sm):
            return ["profile"]

    monkeypatch.setattr(recording, "Profile", Made)
    monkeypatch.setattr(
        recording.timeline_report, "page", lambda timeline, title: f"timeline of {title}"
    )
    monkeypatch.setattr(
        recording.profile_report, "page", lambda profile, title, *_more: f"profile of {title}"
    )
    return seen


def recorded(files, status="ok"):
    """Returns the recording of launch 2, which took 90 cycles of 100, and the arguments of its
    machine.
    """
    made = []

    def make(**how: Any) -> Any:
        made.append(how)
        return SimpleNamespace(hardware=SimpleNamespace(cycles=100))

    params: Any = None
    found = Recording(2, files, params, make, "preset tiny")
    found.runner()
    found.finish("_Z3addPi", Outcome(status, 90, 10))
    return found, made[0]


def test_a_recording_writes_the_pages_that_were_asked_for(tmp_path, pages):
    timeline, profile = str(tmp_path / "t.html"), str(tmp_path / "p.html")
    found, how = recorded(Files(timeline=timeline, profile=profile, vcd="a.vcd"))
    assert found.lines == [
        "waveform      a.vcd",
        f"timeline      {timeline}",
        f"profile       {profile}",
    ]
    assert (
        found.failure is None
        and how["vcd"] == Path("a.vcd")
        and how["watched"]("sm") == ["profile"]
    )
    assert pages == [("profile", 100, 90)]
    assert Path(timeline).read_text() == "timeline of launch 2: add, preset tiny"
    assert Path(profile).read_text() == "profile of launch 2: add, preset tiny"


def test_a_recording_of_one_page_watches_what_that_needs(tmp_path, pages):
    profile, timeline = str(tmp_path / "p.html"), str(tmp_path / "t.html")
    found, how = recorded(Files(profile=profile))
    assert found.lines == [f"profile       {profile}"] and how["vcd"] is None
    found, how = recorded(Files(timeline=timeline))
    assert found.lines == [f"timeline      {timeline}"] and how["watched"]("sm") == ["timeline"]
    assert pages == [("profile", 100, 90), ("timeline", 100, 90)]
    found, how = recorded(Files(fst="a.fst"), "interrupted")
    assert found.lines == ["waveform      a.fst, up to the interruption"]
    assert how["watched"]("sm") == [] and len(pages) == 2


def test_a_page_that_cannot_be_written_is_told(tmp_path, pages):
    found, _ = recorded(Files(timeline=str(tmp_path / "none" / "t.html")))
    assert found.lines == [] and found.failure is not None
    assert "No such file or directory" in found.failure
