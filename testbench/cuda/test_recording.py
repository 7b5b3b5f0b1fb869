"""The recording of one launch, and the report of all launches."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest
import pywellen

from rtl.params import PRESETS
from sim.__main__ import main as warpstack
from sim.cuda.command import main
from sim.cuda.device import Device
from sim.cuda.recording import Files, Recording
from sim.cuda.server import Server
from sim.cuda.setup import environment
from sim.engine import CompiledEngine
from sim.engine.build import missing_tool
from sim.runner import HardwareRunner, ModelRunner
from sim.support.interrupt import stop_threads

pytestmark = pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
_MODEL = ("--engine", "model")


def read(path):
    return json.loads(path.read_text())


@pytest.fixture
def files(tmp_path):
    """The files of a recording."""
    return Files(
        vcd=str(tmp_path / "w.vcd"),
        timeline=str(tmp_path / "t.html"),
        profile=str(tmp_path / "p.html"),
    )


def written(files):
    return [name for name, path in files.requested.items() if os.path.exists(path)]


def test_a_report_has_all_launches(client, tmp_path):
    report = tmp_path / "r.json"
    assert main([*_MODEL, "--report", str(report), "--", str(client), "many", "3"]) == 0
    found = read(report)
    assert found["command"] == [str(client), "many", "3"]
    assert (found["engine"], found["preset"], found["exit_code"]) == ("model", "programs", 0)
    assert [
        (
            one["launch"],
            one["kernel"],
            one["grid"],
            one["block"],
            one["instructions"],
            one["status"],
            one["error"],
        )
        for one in found["launches"]
    ] == [
        (number, "add", [1, 1, 1], [32, 1, 1], found["launches"][0]["cycles"], "ok", None)
        for number in (1, 2, 3)
    ]


def test_a_report_has_an_error_in_full(client, tmp_path):
    report = tmp_path / "r.json"
    assert main([*_MODEL, "--report", str(report), "--", str(client), "errors"]) == 1
    found = read(report)
    assert found["exit_code"] == 1
    (launch,) = found["launches"]
    assert (launch["kernel"], launch["symbol"]) == ("bad", "_Z3badv")
    error = launch["error"]
    assert (
        error["result"],
        error["error"],
        error["warp"],
        error["block"],
        error["thread"],
        error["address"],
        error["instruction"],
    ) == (700, "MMU_FAULT", 0, [0, 0, 0], [0, 0, 0], 16, "STG.E [R2], R0")
    assert error["message"] == (
        f"kernel bad: MMU_FAULT at pc {error['pc']:#06x} (STG.E [R2], R0), warp 0, "
        "block [0,0,0], thread [0,0,0], address 0x10"
    )


@pytest.mark.parametrize(("command", "code"), [(["many", "2"], 0), (["nobody"], 2)])
def test_a_report_is_written_for_any_exit_code_of_the_program(client, tmp_path, command, code):
    report = tmp_path / "r.json"
    assert main([*_MODEL, "--report", str(report), "--", str(client), *command]) == code
    assert read(report)["exit_code"] == code


def test_ctrl_c_ends_the_launch_and_leaves_a_report(client, tmp_path):
    report = tmp_path / "r.json"
    with subprocess.Popen(
        [sys.executable, "-m", "sim.cuda", *_MODEL, "--report", report, "--", client, "endless"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "python -m sim.cuda: interrupted"
    found = read(report)
    assert found["exit_code"] == 130
    assert all(one["status"] == "interrupted" for one in found["launches"])
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--launch", "1"],
            "--launch needs --vcd, --fst, --timeline or --profile: what is recorded, and where it goes",
        ),
        (["--profile", "p"], "--profile needs --launch N: which launch is recorded"),
        (
            [*_MODEL, "--launch", "1", "--timeline", "t"],
            "--timeline needs hardware, which the engine model does not have",
        ),
        (["--launch", "1", "--fst", "w.vcd"], "--fst w.vcd: the name of an FST ends in .fst"),
        (
            ["--launch", "1", "--timeline", "/nowhere/t"],
            "/nowhere/t: No such file or directory: there is no folder /nowhere",
        ),
        (
            [*_MODEL, "--report", "/nowhere/r"],
            "/nowhere/r: No such file or directory: there is no folder /nowhere",
        ),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_a_machine_is_built(
    capsys, monkeypatch, options, line
):
    monkeypatch.setattr("sim.cuda.command.chosen_runner", None)
    with pytest.raises(SystemExit) as ended:
        main([*options, "--", "false"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"python -m sim.cuda: {line}\n"


def test_a_program_that_does_not_exist_is_refused_before_a_machine_is_built(capsys, monkeypatch):
    monkeypatch.setattr("sim.cuda.command.chosen_runner", None)
    with pytest.raises(SystemExit) as ended:
        main(["--", "no-such-program"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "python -m sim.cuda: no-such-program: no such program\n"


def test_one_launch_is_recorded_and_costs_the_same_cycles(client, files, tmp_path, capsys):
    report = tmp_path / "r.json"
    outputs = [word for name, path in files.requested.items() for word in (f"--{name}", path)]
    assert (
        main(
            [
                "--engine",
                "compiled",
                "--preset",
                "tiny",
                "--launch",
                "2",
                *outputs,
                "--report",
                str(report),
                "--",
                str(client),
                "many",
                "3",
            ]
        )
        == 0
    )
    assert capsys.readouterr().err.splitlines()[-3:] == [
        f"waveform      {files.vcd}",
        f"timeline      {files.timeline}",
        f"profile       {files.profile}",
    ]
    first, recorded, last = (one["cycles"] for one in read(report)["launches"])
    assert first == recorded == last
    assert written(files) == ["vcd", "timeline", "profile"]
    assert (tmp_path / "w.gtkw").exists()
    assert "launch 2: add, preset tiny" in (tmp_path / "t.html").read_text()
    assert f"The grid ran {recorded:,} cycles" in (tmp_path / "p.html").read_text()


@pytest.mark.skipif(shutil.which("vcd2fst") is None, reason="vcd2fst of GTKWave is not installed")
def test_an_fst_of_a_launch_says_what_its_vcd_says(client, tmp_path, capsys):
    places = {name: tmp_path / f"w.{name}" for name in ("vcd", "fst")}
    for name, place in places.items():
        assert (
            main(
                [
                    "--engine",
                    "compiled",
                    "--preset",
                    "tiny",
                    "--launch",
                    "2",
                    f"--{name}",
                    str(place),
                    "--",
                    str(client),
                    "many",
                    "3",
                ]
            )
            == 0
        )
        assert capsys.readouterr().err.splitlines()[-1] == f"waveform      {place}"
    vcd, fst = (
        {one.full_name: one for one in pywellen.Waveform(str(place)).all_vars()}  # pyright: ignore
        for place in places.values()
    )
    assert vcd.keys() == fst.keys()
    changes = sum(len(list(one.tv)) for one in vcd.values())
    assert changes > 1000
    assert all(list(fst[name].tv) == list(one.tv) for name, one in vcd.items())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "w.fst",
        "w.fst.gtkw",
        "w.gtkw",
        "w.vcd",
    ]


def test_a_missing_launch_is_reported(client, files, capsys):
    assert (
        main(
            [
                "--engine",
                "compiled",
                "--preset",
                "tiny",
                "--launch",
                "4",
                "--vcd",
                str(files.vcd),
                "--",
                str(client),
                "many",
                "3",
            ]
        )
        == 1
    )
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "launch 4 is not recorded: there were 3 launches"
    )
    assert written(files) == []


def test_an_interrupted_launch_leaves_what_there_is(client, files):
    params = PRESETS["tiny"]
    recording = Recording(
        1, files, params, lambda **how: HardwareRunner(params, CompiledEngine, **how), "here"
    )
    runs = threading.Event()
    device = Device(
        ModelRunner(params), 1 << 30, 1 << 40, lambda _launch, _cycles: runs.set(), recording
    )
    server = Server(device)
    try:
        process = subprocess.Popen(
            [client, "endless"],
            env=os.environ | environment(server.name, []),
            stdout=subprocess.DEVNULL,
        )
        assert runs.wait(120)
        device.stop(signal.SIGINT)
        assert process.wait(30) == 1
    finally:
        server.close()
        stop_threads(0)
        device.memory.close()
    assert [one.outcome.status for one in device.launches] == ["interrupted"]
    assert device.launches[0].outcome.cycles > 0
    assert recording.lines == [
        f"{name:13} {path}, up to the interruption"
        for name, path in (
            ("waveform", files.vcd),
            ("timeline", files.timeline),
            ("profile", files.profile),
        )
    ]
    assert written(files) == ["vcd", "timeline", "profile"]


def test_a_page_that_cannot_be_written_fails_the_command_and_not_the_program(
    client, tmp_path, capsys
):
    folder = tmp_path / "folder"
    folder.mkdir()
    script = f"rmdir {folder} && {client} many 1"
    assert (
        main(
            [
                "--engine",
                "compiled",
                "--preset",
                "tiny",
                "--launch",
                "1",
                "--timeline",
                str(folder / "t.html"),
                "--",
                "sh",
                "-c",
                script,
            ]
        )
        == 1
    )
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == (
        f"launch 1 is not recorded: {folder / 't.html'}: No such file or directory: "
        f"there is no folder {folder}"
    )
    assert lines[-2].endswith("ok")


def test_warpstack_cuda_is_short_for_it(client, capfd):
    assert warpstack(["cuda", *_MODEL, "--", str(client), "many", "1"]) == 0
    assert capfd.readouterr().out == "ok\n"
    with pytest.raises(SystemExit):
        warpstack(["cuda"])
    assert (
        capfd.readouterr().err
        == "warpstack cuda: the program is missing: it stands behind --, with its arguments\n"
    )
