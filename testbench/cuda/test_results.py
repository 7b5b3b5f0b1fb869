"""Constants of CUDA: results, attributes and limits, as in the headers of CUDA 13 and its guide."""

from pathlib import Path

import pytest

from rtl.isa.errors import WarpError
from rtl.params import PRESETS
from sim.cuda.device import Device
from sim.cuda.errors import RESULTS, CudaError, c_results, result_of_warp_error
from sim.cuda.protocol import CALLS, REPLY_HEADER, REQUEST_HEADER, Fields, c_header
from sim.runner import ModelRunner

_HEADER = Path(__file__).with_name("results_13.txt")
"""The enumeration CUresult of cuda.h: name and number."""
_LATER = {"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"}


def test_results_have_the_numbers_and_names_of_cuda():
    expected = {
        int(number): name
        for name, number in (line.split() for line in _HEADER.read_text().splitlines())
        if name not in _LATER
    }
    assert {number: name for number, (name, _) in RESULTS.items()} == expected
    assert all(text and '"' not in text and "\n" not in text for _, text in RESULTS.values())


def test_every_result_is_in_the_header_of_the_libraries():
    lines = c_results().splitlines()
    for number, (name, text) in RESULTS.items():
        assert f'    {{{number}, "{name}", "{text}"}},' in lines
    assert lines[1] == "#pragma once" and "RESULTS[]" in c_results()


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", ["MMU_FAULT", "OOR_ADDR"]),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", ["MISALIGNED_ADDR"]),
        ("CUDA_ERROR_INVALID_ADDRESS_SPACE", ["INVALID_ADDR_SPACE"]),
        (
            "CUDA_ERROR_ILLEGAL_INSTRUCTION",
            ["ILLEGAL_INSTR_ENCODING", "ILLEGAL_INSTR_PARAM", "OOR_REG", "MISALIGNED_REG"],
        ),
        ("CUDA_ERROR_INVALID_PC", ["PC_WRAP", "MISALIGNED_PC", "PC_OVERFLOW"]),
        (
            "CUDA_ERROR_HARDWARE_STACK_ERROR",
            ["STACK_ERROR", "API_STACK_ERROR", "RET_EMPTY_STACK_ERROR", "STACK_OVERFLOW"],
        ),
        ("CUDA_ERROR_LAUNCH_FAILED", ["NONE"]),
    ],
)
def test_an_error_of_a_warp_is_the_result_whose_description_it_meets(name, errors):
    """The descriptions are those of CUDA_ERROR_ILLEGAL_ADDRESS and the following ones in the API's
    reference.
    """
    for error in errors:
        assert RESULTS[result_of_warp_error(WarpError[error])][0] == name


def test_an_error_without_a_message_has_its_results_text():
    assert str(CudaError(201)) == RESULTS[201][1] and CudaError(201).message == ""
    assert str(CudaError(201, "said")) == CudaError(201, "said").message == "said"
    assert CudaError(201).result == 201


# Attributes and limits


def device_of(preset, size=1 << 22):
    return Device(ModelRunner(PRESETS[preset]), size, 10_000)


@pytest.mark.parametrize(
    ("preset", "threads", "resident", "warps", "shared"),
    [("tiny", 64, 64, 2, 8192), ("default", 256, 256, 8, None)],
)
def test_attributes_are_those_of_a_small_gpu_of_compute_capability_5_0(
    preset, threads, resident, warps, shared
):
    """Numbers are those of cuda.h; limits are those of compute capability 5.0 unless the machine is
    smaller.
    """
    made = device_of(preset)
    shared = shared or min(PRESETS[preset].shared_bytes, 48 << 10)
    expected = {
        1: threads,  # MAX_THREADS_PER_BLOCK
        2: threads,  # MAX_BLOCK_DIM_X
        3: threads,
        4: 64,
        5: 2**31 - 1,  # MAX_GRID_DIM_X
        6: 65535,
        7: 65535,
        8: shared,  # SHARED_MEMORY_PER_BLOCK
        9: 64 << 10,  # TOTAL_CONSTANT_MEMORY
        10: 32,  # WARP_SIZE
        11: 2**31 - 1,  # MAX_PITCH
        12: PRESETS[preset].registers * 32,  # REGISTERS_PER_BLOCK
        13: 1_000_000,  # CLOCK_RATE, in kHz
        14: 512,  # TEXTURE_ALIGNMENT
        15: 1,  # GPU_OVERLAP
        16: 1,  # MULTIPROCESSOR_COUNT
        17: 0,  # KERNEL_EXEC_TIMEOUT
        18: 0,  # INTEGRATED
        19: 1,  # CAN_MAP_HOST_MEMORY
        30: 512,  # SURFACE_ALIGNMENT
        31: 0,  # CONCURRENT_KERNELS
        36: 1_000_000,  # MEMORY_CLOCK_RATE
        37: 512,  # GLOBAL_MEMORY_BUS_WIDTH: a line a cycle
        38: 0,  # L2_CACHE_SIZE
        39: resident,  # MAX_THREADS_PER_MULTIPROCESSOR
        40: 1,  # ASYNC_ENGINE_COUNT
        41: 1,  # UNIFIED_ADDRESSING
        51: 32,  # TEXTURE_PITCH_ALIGNMENT
        75: 5,  # COMPUTE_CAPABILITY_MAJOR
        76: 0,  # COMPUTE_CAPABILITY_MINOR
        78: 1,  # STREAM_PRIORITIES_SUPPORTED
        81: PRESETS[preset].shared_bytes,  # MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        82: PRESETS[preset].registers * 32,  # MAX_REGISTERS_PER_MULTIPROCESSOR
        83: 1,  # MANAGED_MEMORY
        87: 32,  # SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
        91: 0,  # CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        97: shared,  # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        99: 1,  # HOST_REGISTER_SUPPORTED
        106: warps,  # MAX_BLOCKS_PER_MULTIPROCESSOR
    }
    try:
        assert dict(made.attributes) == expected
    finally:
        made.memory.close()


def test_limits_of_a_context_are_the_stack_the_output_and_the_heap():
    """CU_LIMIT_STACK_SIZE 0, CU_LIMIT_PRINTF_FIFO_SIZE 1, CU_LIMIT_MALLOC_HEAP_SIZE 2."""
    made = device_of("tiny", 1 << 30)
    try:
        context, other = made.make_context(), made.make_context()
        assert [made.get_limit(context, limit) for limit in range(3)] == [1024, 1 << 20, 8 << 20]
        made.set_limit(context, 2, 4096)
        assert made.get_limit(context, 2) == 4096 and made.get_limit(other, 2) == 8 << 20
        for refused in (lambda: made.get_limit(context, 3), lambda: made.set_limit(context, 5, 1)):
            with pytest.raises(CudaError) as error:
                refused()
            assert RESULTS[error.value.result][0] == "CUDA_ERROR_UNSUPPORTED_LIMIT"
    finally:
        made.memory.close()


# Table of the protocol


def test_calls_have_numbers_of_their_own_without_gaps():
    assert [call.number for call in CALLS.values()] == list(range(1, len(CALLS) + 1))
    assert all(call.meaning.endswith(".") for call in CALLS.values())


def test_fields_are_packed_one_behind_the_other_in_little_endian():
    fields = Fields({"a": "u32", "b": "i32", "c": "u32[3]", "d": "u64"})
    assert fields.size == 4 + 4 + 12 + 8
    content = fields.pack(a=0x01020304, b=-2, c=(5, 6, 7), d=0x0A0B0C0D0E0F1011)
    assert content == bytes.fromhex("04030201 feffffff 05000000 06000000 07000000 11100f0e0d0c0b0a")
    assert fields.unpack(content) == {
        "a": 0x01020304,
        "b": -2,
        "c": (5, 6, 7),
        "d": 0x0A0B0C0D0E0F1011,
    }
    with pytest.raises(AssertionError, match="no such fields"):
        Fields({}).pack(e=1)
    assert (REQUEST_HEADER.size, REPLY_HEADER.size) == (16, 16)


def test_the_header_of_c_has_a_packed_struct_for_each_request_and_reply():
    header = c_header()
    assert header.startswith("/* Made from sim/cuda/protocol.py. */\n")
    assert "#pragma once\n#include <stdint.h>\n" in header
    assert (
        "#define CALL_LAUNCH 15\n"
        "struct launch_request {\n"
        "    uint64_t function;\n"
        "    uint32_t grid[3];\n"
        "    uint32_t block[3];\n"
        "    uint32_t dynamic_shared;\n"
        "    uint32_t cooperative;\n"
        "} __attribute__((packed));\n"
        "struct launch_reply {\n"
        "    uint32_t failed;\n"
        "} __attribute__((packed));\n"
    ) in header
    assert "clock_request" not in header  # it has no fields
    for name, call in CALLS.items():
        assert f"#define CALL_{name.upper()} {call.number}\n" in header
        assert (f"struct {name}_reply" in header) == bool(call.reply.types)
