"""Runs kernels of CUDA C++ on the host, whose C++ compiler compiles the same source.

``host_sources`` has headers that define CUDA's extensions of C++.
"""

import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from sim.launch import Argument, Buffer, Scalar
from testbench.kernels.manifest import LEVELS, Run

COMPILER = shutil.which("g++")
"""Path of the compiler, None if it is missing."""
_FOLDER = Path(__file__).parent / "host_sources"
_OPTIONS = (
    "-std=c++17",
    "-O1",
    "-x",
    "c++",
    # Undefined behaviour of C++ ends the run, so that no result depends on it.
    "-fsanitize=undefined",
    "-fsanitize-undefined-trap-on-error",
)
_SECONDS = 60


class HostError(Exception):
    """A kernel that does not compile, or does not terminate."""


def _packed(argument: Argument) -> bytes:
    assert isinstance(argument, Buffer | Scalar), "the manifest has no structures made of parts"
    content = (
        argument.content
        if isinstance(argument, Buffer)
        else argument.value.to_bytes(argument.size, "little")
    )
    return struct.pack("<2I", isinstance(argument, Buffer), len(content)) + content


def words_left(run: Run) -> dict[str, list[int]]:
    """Returns the 32-bit words that a run leaves in each of its buffers. Raises HostError."""
    if COMPILER is None:
        raise HostError("g++ is not there")
    arguments = run.launch_arguments(LEVELS[0])
    source = run.folder / f"{run.kernel}.cu"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "kernel")
        built = subprocess.run(
            [
                COMPILER,
                *_OPTIONS,
                f'-DKERNEL="{source}"',
                f"-DENTRY={run.entry}",
                str(_FOLDER / "main.cc"),
                "-o",
                str(program),
            ],
            capture_output=True,
            text=True,
            env=os.environ | {"LC_ALL": "C"},
        )
        if built.returncode:
            raise HostError(built.stderr)
        given = struct.pack("<8I", *run.grid, *run.block, len(arguments), 0) + b"".join(
            map(_packed, arguments)
        )
        ran = subprocess.run([program], input=given, capture_output=True, timeout=_SECONDS)
    if ran.returncode:
        raise HostError(
            f"{run.name}: {ran.stderr.decode().rstrip() or f'ended by signal {-ran.returncode}'}"
        )
    left, place = {}, 0
    for argument in arguments:
        if isinstance(argument, Buffer):
            words = len(argument.content) // 4
            left[argument.name] = list(struct.unpack_from(f"<{words}I", ran.stdout, place))
            place += 4 * words
    return left
