"""A CUDA program that measures its own calls: ``python cuda_client.py times|growth LAUNCHES`` in
the environment of a server.

It loads libcuda itself, without a package in between, and prints a line of JSON. ``times``: seconds
of a launch of an empty kernel with synchronisation, and of copying 128 MiB to the device and back.
``growth``: bytes and open files by which this process grows with a number of launches, each with
new memory, a stream and an event.
"""

import ctypes
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry empty() { ret; }
"""
_COPIED = 128 << 20
_WARM_UP = 100
"""Launches before growth is measured, which create everything that is made once."""


def _time(count: int, call: Any) -> float:
    """Returns the mean duration of ``count`` calls in seconds."""
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def footprint() -> tuple[int, int]:
    """Returns this process's bytes in main memory, and its number of open files."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))


def main(what: str, launches: int) -> None:
    """Measures the calls."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: Any) -> None:
        if (result := getattr(cuda, name)(*arguments)) != 0:
            sys.exit(f"{name}: {result}")

    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    address = ctypes.c_uint64()
    call("cuInit", 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    call("cuModuleLoadData", ctypes.byref(module), _PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"empty")

    def launch() -> None:
        call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
        call("cuCtxSynchronize")

    def round_of_calls() -> None:
        stream, event = ctypes.c_void_p(), ctypes.c_void_p()
        number = ctypes.c_uint32(1)
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4096))
        call("cuStreamCreate", ctypes.byref(stream), 0)
        call("cuEventCreate", ctypes.byref(event), 0)
        call("cuMemcpyHtoD_v2", address, ctypes.byref(number), ctypes.c_size_t(4))
        call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, stream, None, None)
        call("cuEventRecord", event, stream)
        call("cuMemcpyDtoH_v2", ctypes.byref(number), address, ctypes.c_size_t(4))
        call("cuEventDestroy_v2", event)
        call("cuStreamDestroy_v2", stream)
        call("cuMemFree_v2", address)

    launch()  # The first launch may compile the machine's model
    if what == "growth":
        for _ in range(_WARM_UP):
            round_of_calls()
        memory, files = footprint()
        for _ in range(launches):
            round_of_calls()
        later_memory, later_files = footprint()
        print(json.dumps({"memory": later_memory - memory, "files": later_files - files}))
        return
    figures = {"launch": _time(launches, launch)}
    content = ctypes.create_string_buffer(bytes(range(256)) * (_COPIED // 256), _COPIED)
    back = ctypes.create_string_buffer(_COPIED)
    ctypes.memset(back, 0xFF, _COPIED)  # Allocates its pages before the time is measured
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(_COPIED))
    figures["up"] = _time(
        1, lambda: call("cuMemcpyHtoD_v2", address, content, ctypes.c_size_t(_COPIED))
    )
    figures["down"] = _time(
        1, lambda: call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(_COPIED))
    )
    if back.raw != content.raw:
        sys.exit("what was copied is not what comes back")
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
