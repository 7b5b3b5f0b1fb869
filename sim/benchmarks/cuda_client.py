"""A CUDA program that times its own calls: ``python cuda_client.py LAUNCHES`` in the environment of a server.

It loads libcuda by itself, so that no package is in between, and prints a line of JSON: seconds of a launch of an
empty kernel with what waits for it, and of copying 128 MiB to the device and back.
"""

import ctypes
import json
import sys
import time
from typing import Any

_PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry empty() { ret; }
"""
_COPIED = 128 << 20


def _time(count: int, call: Any) -> float:
    """Seconds of a call, the mean of so many."""
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def main(launches: int) -> None:
    """Times the calls."""
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

    launch()    # the first one may compile the machine's model
    figures = {"launch": _time(launches, launch)}
    content = ctypes.create_string_buffer(bytes(range(256)) * (_COPIED // 256), _COPIED)
    back = ctypes.create_string_buffer(_COPIED)
    ctypes.memset(back, 0xFF, _COPIED)      # its pages are there before time is taken
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(_COPIED))
    figures["up"] = _time(1, lambda: call("cuMemcpyHtoD_v2", address, content, ctypes.c_size_t(_COPIED)))
    figures["down"] = _time(1, lambda: call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(_COPIED)))
    if back.raw != content.raw:
        sys.exit("what was copied is not what comes back")
    print(json.dumps(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]))
