"""Fixtures and settings that all tests share."""

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
from sim.support import activity

os.environ.setdefault(
    "CXXFLAGS", f"{FLAGS} -Og"
)  # most models simulate few cycles: a fast compilation matters more than fast code

# On a busy machine a compilation may take so long that a command announces it, on stderr, which tests compare.
activity.ANNOUNCED_AFTER = 3600.0

# The import of vcdvcd sets SIGPIPE to its default action: a write to a pipe without a reader would
# end this process, and the whole run with it.
signal.signal(signal.SIGPIPE, signal.SIG_IGN)

# A shell that starts the suite in the background makes it ignore Ctrl-C, and the programs that
# tests interrupt inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(
    100_000, 20, 20
)  # designs are large and live as long as their test: they are no garbage

# The suite uses the same generated inputs in every run, so that failures are reproducible. For
# others: --hypothesis-profile search.
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
"""Test files with the longest run times."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the files with the longest run times to the front, so that at the end no process waits
    for another.
    """
    longest = {Path(__file__).parent / name for name in _LONGEST}
    items.sort(key=lambda item: item.path not in longest)


def pytest_collection_finish() -> None:
    """Excludes from garbage collection what was imported and collected: it lives until the end of
    the run.
    """
    gc.freeze()


@pytest.fixture
def full_device(tmp_path) -> Path:
    """A device node that is always full. It is the test's own, because a user may be able to
    replace ``/dev/full``.
    """
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
    """Returns a function that calls the command ``run_program`` with arguments: exit code and
    result file, decoded.
    """

    def run(*arguments: object) -> tuple[int, dict]:
        out = tmp_path / "out.json"
        code = main([*map(str, arguments), "--json", str(out)])
        return code, json.loads(out.read_text())

    return run
