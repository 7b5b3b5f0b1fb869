"""The CUDA libraries and the server with a client in C, without any package: every kind of call, faults, limits."""

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from rtl.params import PRESETS
from sim.cuda.build import LIBRARIES, SOURCES, library_folder
from sim.cuda.device import Device
from sim.cuda.server import Server
from sim.cuda.setup import environment
from sim.engine.build import compiler, missing_tool
from sim.runner import ModelRunner

pytestmark = pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
_HERE = Path(__file__).parent
_ROOT = Path(__file__).parents[2]
_CLIENTS = _ROOT / "testbench" / "programs" / "clients"
_LIMIT = 3000


@pytest.fixture
def server():
    """A server of the warp model, whose launches are stopped after few instructions."""
    made = Server(Device(ModelRunner(PRESETS["default"]), 1 << 30, _LIMIT))
    yield made
    made.close()
    made.device.memory.close()


@pytest.mark.parametrize("major", [11, 12])
def test_structs_have_the_fields_where_nvidias_headers_have_them(major, tmp_path):
    made = tmp_path / "layouts"
    subprocess.run(
        [
            *(compiler() or []),
            "-x",
            "c",
            "-std=gnu11",
            f"-DRUNTIME_MAJOR={major}",
            "-I",
            str(SOURCES),
            str(_HERE / "layouts.c"),
            "-o",
            str(made),
        ],
        check=True,
    )
    printed = subprocess.run([made], capture_output=True, text=True, check=True).stdout
    assert printed == (_HERE / f"layouts_{major}.txt").read_text()


@pytest.fixture
def endless_server():
    """A server that never stops a launch."""
    made = Server(Device(ModelRunner(PRESETS["default"]), 1 << 30, 1 << 60))
    yield made
    made.close()
    made.device.memory.close()


def start(client, server, *arguments):
    """Starts the client's process."""
    return subprocess.Popen(
        [client, *arguments],
        env=os.environ | environment(server.name, []),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(client, server, *arguments):
    """Runs the client, which must succeed, and returns its output."""
    process = start(client, server, *arguments)
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed.splitlines()[-1:]) == (0, ["ok"]), printed + errors
    return errors


def memory_left(server):
    """Returns how much memory is allocated when no program is connected."""
    while server.programs:
        time.sleep(0.01)
    return server.device.memory.regions


@pytest.mark.parametrize(
    "check", ["add", "errors", "shapes", "memory", "owners", "full", "graphs", "fork"]
)
def test_calls_do_what_cuda_says(client, server, check):
    run(client, server, check)


@pytest.mark.parametrize("suffix", ["ptx", "cubin"])
def test_an_image_of_nvrtc_is_loaded_as_a_library(client, server, suffix, monkeypatch):
    """The functions are found by name, as cuda.core does it."""
    heard = []
    module = server.module
    monkeypatch.setattr(
        server, "module", lambda content, options: heard.append(options) or module(content, options)
    )
    run(client, server, "library", str(_CLIENTS / f"core_gcd.{suffix}"))
    assert [options.max_registers for options in heard] == [0, 16]
    assert [(one.kernel, one.outcome.status) for one in server.device.launches] == [
        ("divisors", "ok")
    ]


def test_programs_find_nvrtc_and_its_headers_where_packages_have_them(tmp_path, monkeypatch):
    """The variables are NVRTC_PATH for tinygrad and CUDA_HOME for numba."""
    for file in ("cuda_nvrtc/lib/libnvrtc.so.12", "cuda_runtime/include/cuda.h"):
        (tmp_path / "nvidia" / file).parent.mkdir(parents=True)
        (tmp_path / "nvidia" / file).touch()
    monkeypatch.syspath_prepend(tmp_path)
    found = environment("nobody", [])
    assert Path(found["NVRTC_PATH"]).resolve() == tmp_path / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
    home = Path(found["CUDA_HOME"])
    assert (home / "lib64" / "libnvrtc.so.12").resolve() == Path(found["NVRTC_PATH"]).resolve()
    assert (home / "include" / "cuda.h").exists()
    assert (home / "lib64" / "libcuda.so").resolve().parent == library_folder()


def test_a_launch_that_is_refused_names_its_kernel_as_the_table_does(client, server, capfd):
    run(client, server, "shapes")
    line, *_ = capfd.readouterr().err.splitlines()
    assert (
        line == "warpstack: PTX: kernel bad takes blocks of at most 32 threads (.maxntid), not 64"
    )


def test_a_function_that_is_not_supported_is_named_once(client, server):
    lines = run(client, server, "names").splitlines()
    assert lines == [
        "warpstack: cuDeviceGetCount: cuInit was not called, or this is a child of the process that called it",
        "warpstack: cuTexRefCreate is not supported: there are no textures",
    ]


def test_a_kernel_that_never_ends_is_given_up_at_the_limit(client, server):
    run(client, server, "endless")
    assert [one.outcome.status for one in server.device.launches] == ["timeout"]


def test_a_client_that_dies_leaves_no_memory(client, server):
    start(client, server, "dies").communicate()
    assert memory_left(server) == {}
    run(client, server, "add")


def test_a_client_that_is_killed_in_a_launch_ends_the_launch(client, endless_server):
    process = start(client, endless_server, "endless")
    assert process.stdout is not None and process.stdout.readline() == "begins\n"
    process.kill()
    process.communicate()
    assert memory_left(endless_server) == {}
    assert endless_server.device.launches == []
    assert endless_server.device.lock.acquire(timeout=10)
    endless_server.device.lock.release()
    run(client, endless_server, "add")


def test_a_server_that_is_closed_in_a_launch_gives_the_program_an_error(client, endless_server):
    process = start(client, endless_server, "endless")
    assert process.stdout is not None and process.stdout.readline() == "begins\n"
    endless_server.close()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors == "warpstack: the CUDA server has ended\n"


@pytest.mark.parametrize("engine", ["model", "pysim"])
def test_ctrl_c_ends_a_kernel_that_never_ends(client, tmp_path, engine):
    command = [
        sys.executable,
        "-m",
        "sim.cuda",
        "--engine",
        engine,
        "--preset",
        "tiny",
        "--",
        client,
        "endless",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "begins\n"
        time.sleep(1)
        # a terminal also sends it to the command and its program
        os.killpg(process.pid, signal.SIGINT)
        try:
            printed, errors = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    *_launches, last = errors.splitlines()  # a launch that ended before its program is reported
    assert (process.returncode, printed, last) == (130, "", "python -m sim.cuda: interrupted")
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_killed_gives_the_program_an_error(client):
    code = (
        "import sys, time; from rtl.params import PRESETS; from sim.cuda.device import Device; "
        "from sim.cuda.server import Server; from sim.runner import ModelRunner; "
        "print(Server(Device(ModelRunner(PRESETS['default']), 1 << 30, 1 << 40)).name, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=_ROOT
    ) as serving:
        assert serving.stdout is not None
        name = serving.stdout.readline().strip()
        process = subprocess.Popen(
            [client, "endless"],
            env=os.environ | environment(name, []),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdout.readline() == "begins\n"
        serving.kill()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors == "warpstack: the CUDA server has ended\n"


def _resident():
    """Returns the resident memory of this process in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_launches_leave_nothing_behind(client, server):
    """Device memory and open files must not grow; host memory grows little, by the table of
    launches.
    """
    run(client, server, "many", "100")
    files, resident = len(os.listdir("/proc/self/fd")), _resident()
    run(client, server, "many", "1000")
    assert memory_left(server) == {}
    assert len(server.device.launches) == 1100
    assert len(os.listdir("/proc/self/fd")) <= files
    assert _resident() - resident < 16 << 20


def test_several_clients_at_once_do_not_meet(client, server):
    clients = [start(client, server, "graphs") for _ in range(8)]
    ended = [(one.communicate(timeout=60), one.returncode) for one in clients]
    assert [(printed, code) for (printed, _), code in ended] == [("ok\n", 0)] * 8


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"GET / HTTP/1.0\r\n\r\n", bytes(3)])
def test_garbage_on_the_socket_ends_its_connection_only(client, server, garbage):
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(f"\0{server.name}")
        stranger.sendall(garbage)
        stranger.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert stranger.recv(16) == b""
    run(client, server, "add")


def test_a_program_without_a_server_gets_advice(client):
    libraries = environment("warpstack-nobody", [])
    done = subprocess.run(
        [client, "add"], env=os.environ | libraries, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no CUDA server answers at WARPSTACK_CUDA_SOCKET=warpstack-nobody" in done.stderr


def test_a_server_that_ends_gives_the_program_an_error(client, server):
    process = start(client, server, "many", "1000000")
    while not server.device.launches:
        time.sleep(0.02)
    server.close()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors == "warpstack: the CUDA server has ended\n"


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is missing")
@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_have_every_public_name_and_no_others(library):
    """A function that is missing in the list of names would not be found by cuGetProcAddress."""
    folder = library_folder()
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", folder / library], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}
    source = Path(environment.__code__.co_filename).with_name("library")
    if library.startswith("libcuda.so"):
        wanted = {
            line.split()[0]
            for line in (source / "symbols.txt").read_text().splitlines()
            if line[0] != "#"
        }
    else:
        major = library.split(".")[2]
        rows = [
            line.split()
            for line in (source / "runtime_symbols.txt").read_text().splitlines()
            if line[0] != "#"
        ]
        wanted = {row[0] for row in rows if major in row[1:]}
    assert wanted - names == set()
    assert {name for name in names if name.startswith("cu")} - wanted == set()
