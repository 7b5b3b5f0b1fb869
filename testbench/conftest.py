"""What all tests share."""

import gc
import os
import stat
from pathlib import Path

import pytest

gc.set_threshold(100_000, 20, 20)   # designs are large, live as long as their test, and are not garbage


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
