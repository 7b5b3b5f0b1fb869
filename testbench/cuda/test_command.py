"""The command for CUDA programs: exit codes, output, files and refusals; the sources of the
libraries.
"""

import json
import re
import signal
import struct
import subprocess
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sim.cuda import build, command
from sim.cuda.build import LIBRARIES, SOURCES, sources
from sim.cuda.command import main
from sim.cuda.device import LaunchRecord
from sim.cuda.protocol import SOCKET_VARIABLE, c_header
from sim.cuda.setup import SetupLine
from sim.runner import Outcome
from testbench.cuda.test_server import Client
from testbench.refusal import refused

MODEL = ["--engine", "model", "--preset", "tiny"]


@pytest.fixture(autouse=True)
def no_libraries(monkeypatch):
    """Programs get the server's socket, and no libraries are built for them."""
    monkeypatch.setattr(command, "environment", lambda socket, _command: {SOCKET_VARIABLE: socket})


def shell(text):
    """Returns a program that runs a shell script."""
    return ["--", "/bin/sh", "-c", text]


@pytest.fixture
def launching(monkeypatch):
    """A program in this process that launches kernels: "launches", then their names."""

    class Program:
        def __init__(self, arguments, env):
            made = Client(SimpleNamespace(name=env[SOCKET_VARIABLE])).begin()
            address = made.get("allocate", size=256, kind=0)["address"]
            for name in arguments[1:]:
                made.launch(made.function(name), struct.pack("<QI", address, 5), block=(4, 1, 1))
            print("total", made.get("memory_info")["total"])
            made.socket.close()

        def wait(self):
            return 0

    monkeypatch.setattr(command.subprocess, "Popen", Program)
    return lambda *kernels: ["--", "/bin/sh", *kernels]


@pytest.mark.parametrize(
    ("text", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_the_exit_code_is_the_programs(capsys, text, code):
    assert main([*MODEL, *shell(text)]) == code
    assert capsys.readouterr().err == ""


def test_launches_are_printed_and_written(tmp_path, capfd, launching):
    out = tmp_path / "out.json"
    assert main([*MODEL, "--report", str(out), *launching("adds", "adds", "shares")]) == 0
    said = capfd.readouterr()
    assert said.out == f"total {4096 << 20}\n"
    lines = said.err.splitlines()
    assert lines[0] == "machine       tiny, warp model"
    assert lines[1].split()[:4] == ["launch", "kernel", "grid", "block"]
    assert [line.split()[:4] for line in lines[2:]] == [
        ["1", "adds", "1", "4"],
        ["2", "adds", "1", "4"],
        ["3", "shares", "1", "4"],
    ]
    written: Mapping[str, Any] = json.loads(out.read_text())
    assert (written["engine"], written["preset"], written["exit_code"]) == ("model", "tiny", 0)
    assert (
        written["command"] == ["/bin/sh", "adds", "adds", "shares"]
        and len(written["launches"]) == 3
    )


def test_a_program_whose_launch_fails_ends_with_1(tmp_path, capfd, launching):
    out = tmp_path / "out.json"
    arguments = [*MODEL, "--max-cycles", "1000", "--report", str(out), *launching("endless")]
    assert main(arguments) == 1
    said = capfd.readouterr()
    assert "warpstack: launch 1: kernel endless: timeout" in said.err
    assert said.err.splitlines()[-1].endswith("timeout")
    assert json.loads(out.read_text())["exit_code"] == 1


def test_device_memory_is_as_large_as_asked_for(capfd, launching):
    assert main([*MODEL, "--memory", "3", *launching()]) == 0
    assert capfd.readouterr().out == f"total {3 << 20}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the program is missing: it stands behind --"),
        (["--", "no-such-program"], "no-such-program: no such program"),
        (["--memory", "0", *shell("")], "argument --memory: '0' is not a whole number from 1 on"),
        (
            ["--vcd", "a.vcd", *shell("")],
            "--vcd needs hardware, which the engine model does not have",
        ),
        (
            ["--launch", "1", *shell("")],
            "--launch needs hardware, which the engine model does not have",
        ),
        (
            ["--report", "none/a.json", *shell("")],
            "none/a.json: No such file or directory: there is no folder none",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(capsys, arguments, said):
    assert said in refused(capsys, main, [*MODEL, *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--engine", "board", "--port", "p", "--memory", "4"],
            "--memory needs a simulation, which a board is not",
        ),
        (
            ["--engine", "board", "--port", "p", "--timeline", "t"],
            "--timeline needs a simulation, which a board is not",
        ),
        (["--timeline", "t.html"], "--timeline needs --launch N: which launch is recorded"),
        (
            ["--launch", "2"],
            "--launch needs --vcd, --fst, --timeline or --profile: what is recorded, and where it goes",
        ),
        (
            ["--launch", "2", "--profile", "none/a"],
            "none/a: No such file or directory: there is no folder none",
        ),
    ],
)
def test_a_recording_needs_a_simulation_a_launch_and_a_file(capsys, arguments, said):
    assert said in refused(capsys, main, [*arguments, *shell("")])


def test_an_assembler_that_is_not_installed_is_named(capsys, monkeypatch):
    monkeypatch.setattr(command, "find_ptxas", lambda _command: None)
    said = refused(capsys, main, [*MODEL, "--ptxas", *shell("")])
    assert "--ptxas: no ptxas that knows sm_50 is installed (CUDA 13 cannot" in said
    assert "for it): pip install -e '.[cuda]'" in said


def test_the_setup_is_listed_with_what_installs_it(capsys, monkeypatch):
    lines = [
        SetupLine("this", True, "pip install this"),
        SetupLine("that", False, "pip install that"),
    ]
    monkeypatch.setattr(command, "check_setup", lambda: lines)
    assert main(["--check-setup"]) == 0
    assert capsys.readouterr().out == "there    this\nmissing  that: pip install that\n"


def test_a_shell_gets_lines_that_export_the_environment(capsys, monkeypatch):
    monkeypatch.setattr(command.signal, "pause", lambda: None)
    monkeypatch.setattr(
        command, "environment", lambda socket, _command: {SOCKET_VARIABLE: socket, "A": "b c"}
    )
    assert main([*MODEL, "--shell"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"export WARPSTACK_CUDA_SOCKET=warpstack-\d+-[0-9a-f]{16}", first)
    assert second == "export A='b c'"


@pytest.mark.parametrize("ends", [True, False])
def test_ctrl_c_stops_the_launch_and_a_program_that_does_not_end_is_killed(monkeypatch, ends):
    done = []

    class Program:
        def __init__(self, arguments, env):
            done.append(("begins", arguments, env[SOCKET_VARIABLE]))

        def wait(self, seconds=None):
            if len(done) == 1:
                done.append("Ctrl-C")
                raise KeyboardInterrupt
            done.append(("wait", seconds))
            if not ends and seconds is not None:
                raise subprocess.TimeoutExpired("program", seconds)

        def kill(self):
            done.append("kill")

    monkeypatch.setattr(command.subprocess, "Popen", Program)
    server: Any = SimpleNamespace(
        name="socket", device=SimpleNamespace(stop=lambda number: done.append(("stop", number)))
    )
    options: Any = SimpleNamespace(command=["a"])
    with pytest.raises(KeyboardInterrupt):
        command._run(["a"], options, server)
    expected = [("begins", ["a"], "socket"), "Ctrl-C", ("stop", signal.SIGINT), ("wait", 5)]
    assert done == expected + ([] if ends else ["kill", ("wait", None)])


def launched(status):
    """Returns a launch with this outcome."""
    return LaunchRecord("k", (1, 1, 1), (32, 1, 1), Outcome(status, 8, 4), 0.5)


def recorded(lines=(), failure=None):
    return SimpleNamespace(number=3, lines=list(lines), failure=failure)


@pytest.mark.parametrize(
    ("statuses", "recording", "code", "expected", "last"),
    [
        ([], None, 0, 0, None),
        ([], None, 7, 7, None),
        (["ok", "ok"], None, 0, 0, "ok"),
        (["ok", "ok"], None, 7, 7, "ok"),
        (["timeout", "ok"], None, 0, 1, "ok"),
        (["timeout", "ok"], None, 7, 7, "ok"),
        (["ok"], recorded(["waveform  w.vcd"]), 0, 0, "waveform  w.vcd"),
        (["ok"], recorded(), 0, 1, "launch 3 is not recorded: there were 1 launches"),
        ([], recorded(), 0, 1, "launch 3 is not recorded: there were 0 launches"),
        (["ok"], recorded([], "no room"), 0, 1, "launch 3 is not recorded: no room"),
        (
            ["ok"],
            recorded(["waveform  w.vcd"], "no room"),
            0,
            1,
            "launch 3 is not recorded: no room",
        ),
        (["ok"], recorded(), 7, 7, "launch 3 is not recorded: there were 1 launches"),
    ],
)
def test_the_exit_code_and_the_last_line_are_those_of_launches_and_recording(
    capsys, tmp_path, statuses, recording, code, expected, last
):
    out = tmp_path / "report.json"
    options: Any = SimpleNamespace(report=str(out), command=["a"], engine="auto", preset=None)
    device: Any = SimpleNamespace(launches=[launched(status) for status in statuses])
    runner: Any = SimpleNamespace(engine="compiled engine")
    assert command._tell(options, device, runner, recording, code) == expected
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (len(statuses) + 2) * bool(statuses) + (
        0 if recording is None else len(recording.lines) + (last != (recording.lines or [None])[-1])
    )
    assert not lines if last is None else lines[-1].endswith(last)
    written: Mapping[str, Any] = json.loads(out.read_text())
    assert (written["exit_code"], written["preset"]) == (expected, "programs")


def test_a_signal_during_a_program_stops_the_device_and_closes_the_server(monkeypatch):
    done: list[Any] = []
    server: Any = SimpleNamespace(
        device=SimpleNamespace(stop=lambda number: done.append(number)),
        close=lambda: done.append("closed"),
    )
    monkeypatch.setattr(command, "stop_threads", lambda number: done.append(("threads", number)))

    def ends(*_):
        raise KeyboardInterrupt

    options: Any = SimpleNamespace(shell=False)
    monkeypatch.setattr(command, "_run", ends)
    with pytest.raises(KeyboardInterrupt):
        command._programs(["a"], options, server)
    assert done == [signal.SIGINT, "closed", ("threads", 0)]
    done.clear()
    monkeypatch.setattr(command, "_run", lambda *_: 5)
    assert command._programs(["a"], options, server) == 5
    assert done == ["closed", ("threads", 0)]
    monkeypatch.setattr(command, "_serve", lambda *_: 6)
    options.shell = True
    assert command._programs([], options, server) == 6


def test_launches_so_far_are_printed_after_ctrl_c(monkeypatch, capsys):
    def ends(_program, _options, server):
        server.device.launches.append(launched("interrupted"))
        server.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_programs", ends)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        main([*MODEL, *shell("")])
    assert capsys.readouterr().err.splitlines()[2].endswith("interrupted")


def test_the_defaults_of_the_command_line():
    options = command._parser().parse_args(["--", "a", "-b"])
    assert vars(options) == {
        "engine": "auto", "preset": None, "check": False, "max_cycles": 1_000_000_000,
        "memory": None, "port": None, "baud": 3_000_000, "ptxas": False, "launch": None,
        "vcd": None, "fst": None, "timeline": None, "profile": None, "report": None,
        "shell": False, "check_setup": False, "cached": True, "command": ["a", "-b"],
    }  # fmt: skip


def test_what_runs_kernels_has_the_preset_programs_unless_another_is_named(monkeypatch):
    asked = []

    class FoundError(Exception):
        pass

    def chosen(options, preset, default):
        asked.append((preset, default))
        raise FoundError

    monkeypatch.setattr(command, "chosen_runner", chosen)
    for arguments in ([], ["--preset", "tiny"]):
        with pytest.raises(FoundError):
            main(["--engine", "model", *arguments, *shell("")])
    assert asked == [(None, "programs"), ("tiny", "programs")]


# Sources of the libraries


def names_of(file, version=None):
    """Returns the symbols of a list that a version of the libraries has."""
    rows = [
        line.split()
        for line in (SOURCES / file).read_text().splitlines()
        if not line.startswith("#")
    ]
    return {row[0] for row in rows if version is None or str(version) in row[1:]}


def exported(text):
    """Returns the functions that a generated source exports."""
    return set(re.findall(r"^EXPORT (?:CUresult|cudaError_t|__typeof\(\w+\)) (\w+)", text, re.M))


def test_every_public_name_of_the_driver_is_a_function_an_alias_or_a_refusal():
    made = sources()
    own = {
        name
        for file in SOURCES.glob("*.c")
        if file.name != "runtime.c"
        for name in re.findall(r"^EXPORT [^(]*?\b(cu\w+)\(", file.read_text(), re.M)
    }
    others = exported(made["libcuda.c"])
    fills = {name for name in names_of("symbols.txt") if name.startswith("cuMemsetD")}
    assert names_of("symbols.txt") - fills <= own | others
    assert not own & others
    assert made["libcuda.c"].startswith('#define _GNU_SOURCE\n#include "connection.c"\n')


def drivers_own():
    """Returns the sources of the driver's functions."""
    return "\n".join(path.read_text() for path in SOURCES.glob("*.c") if path.name != "runtime.c")


def test_an_alias_is_of_the_same_function_and_a_refusal_says_why():
    text = sources()["libcuda.c"]
    aliases = re.findall(r'__typeof\((\w+)\) (\w+) __attribute__\(\(alias\("(\w+)"\)\)\);', text)
    assert len(aliases) > 10
    own = drivers_own()
    assert all(f" {base}(" in own or base.startswith("cuMemsetD") for base, _, _ in aliases)
    assert all(
        base == of and name in (f"{base}_ptds", f"{base}_ptsz") for base, name, of in aliases
    )
    for name, why in (
        ("cuTexRefCreate", "there are no textures"),
        ("cuMemMap", "there is no virtual memory management"),
        ("cuGraphicsMapResources", "there is no graphics"),
    ):
        assert f'CUresult {name}(void) {{ return refuse("{name}", "{why}"); }}' in text


@pytest.mark.parametrize("version", [11, 12])
def test_the_runtime_has_the_names_of_its_version(version):
    text = sources()[f"libcudart_{version}.c"]
    own = set(re.findall(r"^EXPORT [^(]*?\b(cuda\w+)\(", (SOURCES / "runtime.c").read_text(), re.M))
    assert text.startswith('#include "runtime.c"\n')
    assert exported(text) == names_of("runtime_symbols.txt", version) - own


def test_made_headers_are_among_the_sources():
    made = sources()
    assert made["protocol.h"] == c_header()
    assert '{"CUDA_SUCCESS"' not in made["results.h"] and '"CUDA_SUCCESS"' in made["results.h"]
    for line in (SOURCES / "symbols.txt").read_text().splitlines()[-3:]:
        symbol, name, version = line.split()
        assert f'    {{"{symbol}", "{name}", {version}}},\n' in made["symbols.h"]
    assert {path.name for path in SOURCES.glob("*.[ch]")} | {"runtime.map"} < made.keys()


def test_libraries_are_compiled_once_and_errors_of_the_compiler_are_one_line(tmp_path, monkeypatch):
    """The compiler is a fake that only creates files."""
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "missing_tool", lambda: None)
    fake = tmp_path / "cc"
    fake.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho >> log\necho made > "$2"\n'
    )
    fake.chmod(0o700)
    monkeypatch.setattr(build, "compiler", lambda: [str(fake)])
    folder = build.library_folder()
    assert folder == build.library_folder() and folder.parent == tmp_path
    assert {path.name for path in folder.iterdir()} == {*LIBRARIES, "libcuda.so", "libcudart.so"}
    assert (folder / "libcudart.so").readlink().name == "libcudart.so.12"
    assert (folder / "libcuda.so").readlink().name == "libcuda.so.1"
    monkeypatch.setenv("WARPSTACK_CACHE", str(tmp_path / "other"))
    for said, line in (
        ("a warning\\nx.c:3: error: bad\\nmore", "x.c:3: error: bad"),
        ("one\\nlast", "last"),
        ("", "no message"),
    ):
        fake.write_text(f'#!/bin/sh\nprintf "{said}" >&2\nexit 1\n')
        with pytest.raises(build.LibraryError) as failed:
            build.library_folder()
        assert str(failed.value) == f"the CUDA libraries do not compile: {line}"
    monkeypatch.setattr(build, "missing_tool", lambda: "install one")
    with pytest.raises(build.LibraryError) as failed:
        build.library_folder()
    assert str(failed.value) == "the CUDA libraries need a compiler: install one"
