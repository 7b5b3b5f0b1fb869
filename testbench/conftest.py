"""What all tests share."""

import gc
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import vcdvcd  # noqa: F401
from hypothesis import settings

from sim.engine.build import FLAGS
from sim.run import main

os.environ.setdefault(
    "CXXFLAGS", f"{FLAGS} -Og"
)  # most models run a short time: compile them sooner

# Since vcdvcd was imported a write to a pipe without a reader would end this process, and the whole
# run with it.
signal.signal(signal.SIGPIPE, signal.SIG_IGN)

# A shell that starts the suite in the background has it ignore Ctrl-C, and so all programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(
    100_000, 20, 20
)  # designs are large, live as long as their test, and are not garbage

# The suite tries the same inputs every time: what fails here fails everywhere. Others: --hypothesis-profile search.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, derandomize=False)
settings.load_profile("suite")

_LONGEST = frozenset(
    {
        "commands/test_figures.py",
        "convert/test_convert.py",
        "crs/test_crs.py",
        "cuda/test_client.py",
        "cuda/test_client_board.py",
        "fpga/test_board_sdram.py",
        "launch/test_launch.py",
        "memory/test_memory.py",
        "pipeline/test_pipeline.py",
        "project/test_contributing.py",
        "project/test_documented.py",
        "scheduler/test_scheduler.py",
        "waves/test_save_files.py",
    }
)
"""Files that take most time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the files that take most time, so that at the end no process waits for another one."""
    longest = {Path(__file__).parent / name for name in _LONGEST}
    items.sort(key=lambda item: item.path not in longest)


def pytest_collection_finish() -> None:
    """What was imported and collected lives to the end: no search for garbage goes through it."""
    gc.freeze()


@pytest.fixture
def full_device(tmp_path) -> Path:
    """A device that is always full: one of its own for a user who could replace that of the system."""
    device = Path("/dev/full")
    if os.geteuid() == 0:
        device = tmp_path / "full"
        try:
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
            device.open("wb").close()
        except OSError as error:
            pytest.skip(f"no device can be made here: {error.strerror}")
    if not device.exists():
        pytest.skip("there is no device /dev/full")
    return device


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    """The serial port of a simulated board with the smallest machine."""
    board = subprocess.Popen(
        [sys.executable, "-m", "sim.board", "--preset", "tiny", "--engine", "compiled"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert board.stdout is not None
    try:
        yield board.stdout.readline().strip()
    finally:
        board.terminate()
        board.wait()
        board.stdout.close()


@pytest.fixture
def run_program(tmp_path) -> Callable[..., tuple[int, dict]]:
    """Gives the command that runs a program arguments: its exit code, and the results that it writes."""

    def run(*arguments: object) -> tuple[int, dict]:
        out = tmp_path / "out.json"
        code = main([*map(str, arguments), "--json", str(out)])
        return code, json.loads(out.read_text())

    return run
