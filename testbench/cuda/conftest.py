"""Fixtures of the tests of the CUDA driver: a client in C."""

import subprocess
from pathlib import Path

import pytest

from sim.cuda.build import library_folder
from sim.engine.build import compiler

_SOURCE = Path(__file__).with_name("client.c")


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """Compiles the client and returns its program."""
    made = tmp_path_factory.mktemp("client") / "client"
    libraries = library_folder()
    subprocess.run(
        [
            *(compiler() or []),
            "-x",
            "c",
            "-std=gnu11",
            "-Wall",
            "-Werror",
            str(_SOURCE),
            "-x",
            "none",
            str(libraries / "libcuda.so.1"),
            "-o",
            str(made),
        ],
        check=True,
    )
    return made
