"""The device of CUDA programs without a server: results of outcomes, reasons of failures, refused
calls.
"""

import pytest

from rtl.isa.errors import WarpError
from rtl.params import PRESETS
from sim.cuda import device as device_module
from sim.cuda.device import Device
from sim.cuda.errors import RESULTS, CudaError
from sim.launch.memory import OutOfMemoryError
from sim.launch.programs import read_program
from sim.launch.runtime import HEAP_DEFAULT, OUTPUT_DEFAULT
from sim.report.output import Output
from sim.runner import LaunchInterrupted, MachineError, ModelRunner, Outcome, Space
from sim.support.command import CommandError
from sim.toolchain.module import ProgramError
from testbench.fakes import fake
from testbench.programs import PROGRAMS

SIZE = 1 << 22
ADD = PROGRAMS / "runtime" / "hello.O3.cubin"


@pytest.fixture
def device():
    made = Device(ModelRunner(PRESETS["tiny"]), SIZE, 10_000)
    yield made
    made.memory.close()


def result_of(call):
    """Returns the name of the result with which a call is refused, and the message."""
    with pytest.raises(CudaError) as refused:
        call()
    return RESULTS[refused.value.result][0], refused.value.message


def error(kind):
    return MachineError(kind, "k", 3, 0x40, "BRA 0x40", (0, 0, 0), (5, 0, 0), 0x10)


@pytest.mark.parametrize(
    ("outcome", "failed", "result", "why"),
    [
        (Outcome("ok", 7, 3), [], "CUDA_SUCCESS", None),
        (Outcome("ok", 7, 3), ["file:3: failed"], "CUDA_ERROR_ASSERT", "file:3: failed"),
        (
            Outcome("interrupted", 12_345, 3, reason="other"),
            [],
            "CUDA_ERROR_LAUNCH_FAILED",
            "kernel k: interrupted after 12,345 cycles",
        ),
        (
            Outcome("timeout", 7, 3, reason="all wait"),
            [],
            "CUDA_ERROR_LAUNCH_TIMEOUT",
            "kernel k: timeout: all wait",
        ),
        (
            Outcome("error", 7, 3, error(WarpError.MISALIGNED_ADDR)),
            [],
            "CUDA_ERROR_MISALIGNED_ADDRESS",
            str(error(WarpError.MISALIGNED_ADDR)),
        ),
        (
            Outcome("error", 7, 3, error(WarpError.NONE)),
            [],
            "CUDA_ERROR_LAUNCH_FAILED",
            str(error(WarpError.NONE)),
        ),
        (
            Outcome("error", 7, 3, error(WarpError.OOR_REG), difference="r1 is 3, not 4"),
            [],
            "CUDA_ERROR_ILLEGAL_INSTRUCTION",
            "kernel k: r1 is 3, not 4",
        ),
        (
            Outcome("error", 7, 3),
            [],
            "CUDA_ERROR_LAUNCH_FAILED",
            "kernel k: error: no reason is known",
        ),
    ],
)
def test_the_outcome_of_a_launch_has_a_result_of_cuda_and_a_reason(outcome, failed, result, why):
    output = Output("", failed)
    assert RESULTS[Device._result(outcome, output)][0] == result
    if why is not None:
        assert Device._why("k", outcome, output) == why


def test_memory_that_is_not_there_or_was_not_given_is_refused(device):
    context, other = device.make_context(), device.make_context()
    address = device.allocate(context, 1000, 3)
    assert context.allocations == {address: (1000, 3)} and not other.allocations
    assert device.free_bytes() == SIZE - 1000
    assert result_of(lambda: device.allocate(context, SIZE, 0))[0] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert result_of(lambda: device.free(other, address))[0] == "CUDA_ERROR_INVALID_VALUE"
    device.free(context, address)
    assert result_of(lambda: device.free(context, address))[0] == "CUDA_ERROR_INVALID_VALUE"
    assert device.free_bytes() == SIZE and not context.allocations


def test_handles_that_do_not_exist_are_refused(device):
    context = device.make_context()
    number = device.load(context, read_program(str(ADD)))
    made, loaded = device.find_kernel(context, number, "k")
    assert number > 0 and made > 0 and made != number
    assert device.kernel(context, made) is loaded
    assert device.module(context, number) is loaded.placement
    for call, result in (
        (lambda: device.module(context, made), "CUDA_ERROR_INVALID_HANDLE"),
        (lambda: device.kernel(context, number), "CUDA_ERROR_INVALID_HANDLE"),
        (lambda: device.unload(context, 99), "CUDA_ERROR_INVALID_HANDLE"),
        (lambda: device.find_kernel(context, 99, "k"), "CUDA_ERROR_INVALID_HANDLE"),
        (lambda: device.find_kernel(context, number, "none"), "CUDA_ERROR_NOT_FOUND"),
    ):
        assert result_of(call)[0] == result


def test_a_module_that_is_unloaded_takes_its_kernels_and_no_others(device):
    context = device.make_context()
    first, second = (device.load(context, read_program(str(ADD))) for _ in range(2))
    one, _ = device.find_kernel(context, first, "k")
    other, kept = device.find_kernel(context, second, "k")
    device.unload(context, first)
    assert list(context.modules) == [second] and list(context.kernels) == [other]
    assert device.kernel(context, other) is kept
    assert result_of(lambda: device.kernel(context, one))[0] == "CUDA_ERROR_INVALID_HANDLE"
    device.allocate(context, 64, 0)
    device.release(context)
    assert not context.modules and not context.kernels and not context.allocations
    assert device.free_bytes() == SIZE


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OutOfMemoryError("full"), ("CUDA_ERROR_OUT_OF_MEMORY", "")),
        (
            ProgramError("no such function"),
            ("CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "no such function"),
        ),
    ],
)
def test_a_module_that_cannot_be_placed_is_refused(device, monkeypatch, error, expected):
    def place(*_arguments, **_options):
        raise error

    monkeypatch.setattr(device_module, "place", place)
    context = device.make_context()
    assert result_of(lambda: device.load(context, read_program(str(ADD)))) == expected
    assert not context.modules


def launched(device, context, kernel, **options):
    parameters = bytes(sum(parameter.size for parameter in kernel.kernel.parameters))
    return device.launch(context, kernel, parameters, (1, 1, 1), (1, 1, 1), 0, **options)


def loaded(device):
    context = device.make_context()
    number = device.load(context, read_program(str(ADD)))
    return context, device.find_kernel(context, number, "k")[1]


@pytest.mark.parametrize(
    ("stage", "error", "expected"),
    [
        ("sized", ProgramError("too many"), ("CUDA_ERROR_INVALID_VALUE", "too many")),
        ("sized", OutOfMemoryError("full"), ("CUDA_ERROR_OUT_OF_MEMORY", "")),
        ("run", OutOfMemoryError("full"), ("CUDA_ERROR_OUT_OF_MEMORY", "")),
        ("run", CommandError("no answer"), ("CUDA_ERROR_LAUNCH_FAILED", "no answer")),
    ],
)
def test_a_launch_that_cannot_run_is_refused(device, monkeypatch, stage, error, expected):
    def fails(*_arguments, **_options):
        raise error

    context, kernel = loaded(device)
    monkeypatch.setattr(device._runner, stage, fails)
    assert result_of(lambda: launched(device, context, kernel)) == expected
    assert not device.launches and device.cycles == 0 and context.error == 0


def test_a_launch_that_lacks_something_names_what_the_machine_has(device, monkeypatch):
    monkeypatch.setattr(
        device_module, "lacking", lambda _made, _params: ("needs 9 registers", "8 registers")
    )
    context, kernel = loaded(device)
    assert result_of(lambda: launched(device, context, kernel)) == (
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        "kernel k: needs 9 registers, the machine has 8 registers",
    )


def test_the_stack_of_a_thread_is_the_kernels_own_or_the_limit(device, monkeypatch):
    context, kernel = loaded(device)
    asked = []
    sized = device._runner.sized

    def noted(make, local, kernel):
        asked.append(local)
        return sized(make, local, kernel)

    monkeypatch.setattr(device._runner, "sized", noted)
    for limit in (1024, 2048, 0):
        device.set_limit(context, 0, limit)
        launched(device, context, kernel)
    assert asked == [max(kernel.kernel.local, limit) for limit in (1024, 2048, 0)]


def test_an_interrupted_launch_keeps_its_outcome_and_is_printed(device, monkeypatch, capsys):
    def run(_made, limit, progress):
        assert limit == 10_000
        progress(30)
        raise LaunchInterrupted(2, Outcome("interrupted", 30, 4, report="long"))

    seen = []
    device._progress = lambda launch, cycles: seen.append((launch, cycles))
    monkeypatch.setattr(device._runner, "run", run)
    context, kernel = loaded(device)
    checks = []
    for _ in range(2):
        launched(device, context, kernel, check=lambda: checks.append(1))
    assert seen == [(1, 30), (2, 30)] and checks == [1, 1]
    assert device.cycles == 60
    first, second = device.launches
    assert first.outcome == second.outcome == Outcome("interrupted", 30, 4)
    assert RESULTS[first.result][0] == "CUDA_ERROR_LAUNCH_FAILED"
    assert context.error == first.result
    assert capsys.readouterr().err.splitlines() == [
        f"warpstack: launch {number}: kernel k: interrupted after 30 cycles" for number in (1, 2)
    ]


def test_only_the_launch_of_a_recording_runs_on_the_machine_that_is_watched(device, monkeypatch):
    used, finished = [], []

    def runner(name):
        def run(*_arguments):
            used.append(name)
            return Outcome("ok", 5, 5)

        return fake(run=run)

    recording = fake(
        number=2,
        runner=lambda: runner("watched"),
        finish=lambda kernel, outcome: finished.append((kernel, outcome.cycles)),
        failure=None,
    )
    device._recording = recording
    monkeypatch.setattr(device._runner, "run", runner("plain").run)
    context, kernel = loaded(device)
    for _ in range(3):
        launched(device, context, kernel)
    assert used == ["plain", "watched", "plain"] and finished == [("k", 5)]

    def broken():
        raise CommandError("no room")

    recording.runner, recording.number = broken, 4
    assert result_of(lambda: launched(device, context, kernel)) == (
        "CUDA_ERROR_LAUNCH_FAILED",
        "no room",
    )
    assert recording.failure == "no room"


def test_limits_of_a_small_device_are_shares_of_its_memory(device):
    """At most a sixteenth of the memory, if that is less than the default."""
    context = device.make_context()
    assert [device.get_limit(context, limit) for limit in (0, 1, 2)] == [
        1024,
        min(OUTPUT_DEFAULT, SIZE // 16),
        min(HEAP_DEFAULT, SIZE // 16),
    ]


def test_a_board_has_the_memory_that_it_has():
    space = Space(first=0x1000, gap=64, size=1 << 20)
    runner = fake(params=PRESETS["tiny"], space=space)
    made = Device(runner, SIZE, 1)
    assert made.size == 1 << 20 and made.memory.first == 0x1000
    assert made.free_bytes() == 1 << 20
    made.memory.close()
