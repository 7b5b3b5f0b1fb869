"""Building the kernels of CUDA C++: threads on the host, errors that end a run there, and the
command.
"""

import json
from dataclasses import replace

import pytest

from sim.toolchain.cuda import CompilerError, cubin_of_ptx, ptx_of_cuda
from testbench.kernels.manifest import Run, read
from testbench.programs.cuda import build
from testbench.programs.cuda.host import COMPILER, HostError, words_left
from testbench.programs.cuda.runs import CUDA_RUNS, expectation_file
from testbench.refusal import refused

FEW = ["c04_tile_scan", "c43_expressions", "c47_byte_atomics", "c57_chained_scan"]
"""Kernels with every kind of synchronization between the host's threads."""
KERNEL = "c08_ballot_select"
ENTRY = """
[[run]]
kernel = "k"
exercises = "nothing"
grid = [1]
block = [32]
arguments = [{ name = "out", type = "u32", count = 32 }]
"""
_HEAD = 'extern "C" __global__ void k(unsigned *out) { unsigned t = threadIdx.x; '


def _nvidia_is_missing() -> str:
    """Returns why NVIDIA's compilers can't be used; empty if they can."""
    try:
        cubin_of_ptx(ptx_of_cuda(_HEAD + "}", "k.cu", debug=False))
    except (CompilerError, OSError) as error:
        return str(error)
    return ""


needs_host = pytest.mark.skipif(COMPILER is None, reason="g++ is missing")


@pytest.fixture(scope="module")
def nvidia():
    if missing := _nvidia_is_missing():
        pytest.skip(f"NVIDIA's compilers: {missing}")


def run_of(folder, text: str) -> Run:
    """Returns a run of a kernel with this body."""
    (folder / "k.cu").write_text(_HEAD + text + " }\n")
    return read(ENTRY, folder)["k"]


@needs_host
@pytest.mark.parametrize("name", FEW)
def test_a_host_leaves_what_is_kept(name):
    run = CUDA_RUNS[name]
    assert words_left(run) == json.loads(expectation_file(run).read_text())


@needs_host
def test_threads_of_a_mask_meet(tmp_path):
    text = (
        "unsigned m = t < 5 ? 0x1f : ~0x1fu; "
        "out[t] = __ballot_sync(m, t & 1) + __shfl_sync(m, t * 100, t < 5 ? 4 : 6);"
    )
    expected = [
        (0xAAAAAAAA & (0x1F if t < 5 else ~0x1F)) + (400 if t < 5 else 600) & 0xFFFFFFFF
        for t in range(32)
    ]
    assert words_left(run_of(tmp_path, text)) == {"out": expected}


@needs_host
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("out[t] = __ballot_sync(0xff, 1);", "a thread that is not in the mask"),
        ("if (t) __syncwarp();", ""),
        (
            "if (t < 16) out[t] = __shfl_sync(0xffff, t, 20);",
            "a shuffle reads a thread that is not there",
        ),
        (
            "if (t < 16) __syncwarp(); else __ballot_sync(~0u, 1);",
            "threads wait for each other without end",
        ),
        ("for (;;) atomicAdd(&out[t], 1u);", "the grid does not end"),
        ("out[t] = 7 / int(t);", "ended by signal 4"),
        ("out[t] = 1u << t + 1;", "ended by signal 4"),
        ("out[t] = 0x7fffffff + int(t);", "ended by signal 4"),
    ],
)
def test_what_no_outcome_can_be_expected_of_ends_the_run(tmp_path, text, message):
    run = run_of(tmp_path, text)
    if message:
        with pytest.raises(HostError, match=f"^k: (host: )?{message}$"):
            words_left(run)
    else:  # a thread that has ended is not waited for
        words_left(run)


@needs_host
def test_a_kernel_with_other_parameters_is_refused(tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(unsigned *out, int x) {}")
    with pytest.raises(HostError, match="another number of arguments"):
        words_left(read(ENTRY, tmp_path)["k"])


@needs_host
def test_a_kernel_that_does_not_compile_is_refused(tmp_path):
    with pytest.raises(HostError, match="nowhere"):
        words_left(run_of(tmp_path, "nowhere();"))


@needs_host
def test_nvidia_s_compilers_still_make_what_is_kept(nvidia, capsys):
    assert build.main(["--check", KERNEL]) == 0
    assert capsys.readouterr().out == ""


@needs_host
def test_a_file_that_would_change_is_named_and_left_alone_or_written(
    nvidia, monkeypatch, tmp_path, capsys
):
    for path in CUDA_RUNS[KERNEL].folder.glob(f"{KERNEL}.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(build, "CUDA_RUNS", {KERNEL: replace(CUDA_RUNS[KERNEL], folder=tmp_path)})
    spoilt = tmp_path / f"{KERNEL}.json"
    kept = spoilt.read_bytes()
    spoilt.write_bytes(b"{}")
    assert build.main(["--check"]) == 1
    assert (capsys.readouterr().out, spoilt.read_bytes()) == (f"{spoilt.name}\n", b"{}")
    assert build.main([]) == 0
    assert (capsys.readouterr().out, spoilt.read_bytes()) == (f"{spoilt.name}\n", kept)


def test_a_source_with_an_error_is_refused(nvidia):
    with pytest.raises(
        CompilerError, match=r"k\.cu\(1\): error: identifier \"nowhere\" is undefined"
    ):
        ptx_of_cuda(_HEAD + "nowhere(); }", "k.cu", debug=False)


def test_a_kernel_that_is_not_there_is_refused(capsys):
    assert refused(capsys, build.main, ["c99_nothing"]).endswith(
        ".build: no kernels of the manifest: c99_nothing"
    )
