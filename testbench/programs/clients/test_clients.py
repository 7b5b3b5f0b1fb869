"""Recorded images of third-party compilers: each runs on the warp model, two on the machine in
lockstep.
"""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from rtl.params import PRESETS
from sim.cuda.compilers import JitOptions, OwnCompiler
from sim.cuda.images import module_of
from sim.engine import CompiledEngine
from sim.launch import place
from sim.launch.memory import Memory
from sim.runner import HardwareRunner, ModelRunner, Runner
from sim.support.command import CommandError
from testbench.engine.designs import needs_compiled
from testbench.programs.clients import record

HERE = Path(__file__).parent
_LIMIT = 1_000_000


class Case(NamedTuple):
    """A launch: its shape, the content of its buffers before and after, and the arguments that its
    compiler passes.
    """

    grid: int
    block: tuple[int, int]
    before: Sequence[np.ndarray]
    after: Sequence[np.ndarray]
    parameters: Callable[[Sequence[int], Sequence[np.ndarray]], bytes]


def pointers(addresses, _buffers):
    """Arguments: a pointer for each buffer."""
    return struct.pack(f"<{len(addresses)}Q", *addresses)


def with_count(addresses, buffers):
    """Arguments: a pointer for each buffer, then the number of elements."""
    return pointers(addresses, buffers) + struct.pack("<I", len(buffers[0]))


def numba_arrays(addresses, buffers):
    """Arguments: seven numbers for each array: two host pointers, length, element size, pointer,
    shape, strides.
    """
    return b"".join(
        struct.pack("<7Q", 0, 0, array.size, array.itemsize, address, array.size, array.itemsize)
        for address, array in zip(addresses, buffers, strict=True)
    )


def steps(number):
    """Returns the number of steps of Collatz's sequence from a number to 1."""
    count = 0
    while number != 1:
        number, count = number // 2 if number % 2 == 0 else 3 * number + 1, count + 1
    return count


def cases():
    """Returns the launch of each image, by name."""
    values, numbers = np.arange(150, dtype=np.int32), np.arange(1, 41, dtype=np.int64)
    left = np.arange(64, dtype=np.float32).reshape(8, 8)
    right = 2 * np.eye(8, dtype=np.float32)
    rows = np.array([[(7 * x + y) % 16 for x in range(16)] for y in range(16)], np.float32)
    a, b = np.arange(12, 492, 12, dtype=np.uint32), np.full(40, 18, np.uint32)
    return {
        "numba_sum": Case(
            3,
            (64, 1),
            [values, np.zeros(1, np.int32)],
            [values, values.sum(keepdims=True, dtype="i4")],
            numba_arrays,
        ),
        "numba_collatz": Case(
            2,
            (32, 1),
            [numbers, np.zeros(40, np.int32)],
            [numbers, np.array([steps(int(number)) for number in numbers], np.int32)],
            numba_arrays,
        ),
        "tinygrad_matmul": Case(
            1, (8, 8), [np.zeros_like(left), left, right], [left @ right, left, right], pointers
        ),
        "tinygrad_max": Case(
            16,
            (16, 1),
            [np.zeros(16, np.float32), rows],
            [rows.max(axis=1) - rows.mean(axis=1), rows],
            pointers,
        ),
        "core_gcd": Case(2, (32, 1), [a, b, np.zeros_like(a)], [a, b, np.gcd(a, b)], with_count),
    }


CASES = cases()
IMAGES = sorted(path.name for path in HERE.iterdir() if path.suffix in (".ptx", ".cubin"))


def run(image: str, runner: Runner) -> None:
    """Runs an image and checks all of its buffers."""
    case = CASES[image.partition(".")[0]]
    memory = Memory()
    placed = place(module_of((HERE / image).read_bytes(), OwnCompiler(), JitOptions()), memory)
    (kernel,) = placed.module.kernels.values()
    addresses = []
    for array in case.before:
        addresses.append(memory.allocate(memory.free_name("buffer"), array.nbytes))
        memory.write(addresses[-1], array.tobytes())
    launch = placed.launch(
        kernel,
        case.parameters(addresses, case.before),
        grid=(case.grid, 1, 1),
        block=(*case.block, 1),
    )
    outcome = runner.run(launch.on(runner.params), _LIMIT)
    assert (outcome.status, outcome.difference, outcome.error) == ("ok", None, None)
    for address, array in zip(addresses, case.after, strict=True):
        found = np.frombuffer(memory.read(address, array.nbytes), array.dtype).reshape(array.shape)
        np.testing.assert_array_equal(found, array)


def test_every_case_has_an_image():
    assert {image.partition(".")[0] for image in IMAGES} == set(CASES)


@pytest.mark.parametrize("image", IMAGES)
def test_recorded_images_run_on_the_warp_model(image):
    run(image, ModelRunner(PRESETS["programs"]))


@needs_compiled
@pytest.mark.parametrize("image", ["numba_sum.ptx", "numba_collatz.cubin"])
def test_recorded_images_run_on_the_machine_in_lockstep(image):
    run(image, HardwareRunner(PRESETS["default"], CompiledEngine, check=True))


def test_a_recording_replaces_no_file(tmp_path, capsys):
    images, prefix = [b"\x7fELF", b".version\0"], str(tmp_path / "sum")
    (tmp_path / "sum_1.ptx").write_text("kept")
    with pytest.raises(
        CommandError, match=r"sum_1\.ptx: exists; delete it, or name another PREFIX"
    ):
        record.write_new(prefix, images)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "sum_1.ptx").unlink()
    record.write_new(prefix, images)
    assert capsys.readouterr().out == f"{prefix}.cubin\n{prefix}_1.ptx\n"
    assert (tmp_path / "sum_1.ptx").read_bytes() == b".version"
