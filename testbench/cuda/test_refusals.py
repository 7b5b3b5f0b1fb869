"""Refused calls of the CUDA libraries: each prints one line on stderr that names it and the reason."""

import json
import os
import re
import subprocess
import sys

import pytest

from rtl.params import PRESETS
from sim.cuda.build import SOURCES, library_folder
from sim.cuda.device import Device
from sim.cuda.server import Server
from sim.cuda.setup import environment
from sim.engine.build import missing_tool
from sim.runner import ModelRunner

PLACE = "place"
"""Placeholder of an argument: the address of eight bytes."""
CALLER = f"""
import ctypes, json, sys
libraries = [ctypes.CDLL(name) for name in sys.argv[1:]]
place = ctypes.byref(ctypes.c_uint64())
for library, function, arguments in json.load(sys.stdin):
    values = [
        place if one == {PLACE!r} else one.encode() if isinstance(one, str) else ctypes.c_uint64(one)
        for one in arguments
    ]
    print(getattr(libraries[library], function)(*values))
"""
NO_INIT = "cuInit was not called, or this is a child of the process that called it"
DRIVER, RUNTIME = range(2)
CALLS = [
    (DRIVER, "cuMemFree_v2", [16], 3, f"cuMemFree: {NO_INIT}"),
    (DRIVER, "cuDeviceGetAttribute", [PLACE, 1, 0], 3, f"cuDeviceGetAttribute: {NO_INIT}"),
    (DRIVER, "cuInit", [5], 1, "cuInit: flags are 0x5, not 0"),
    (DRIVER, "cuInit", [0], 0, None),
    (DRIVER, "cuMemAlloc_v2", [PLACE, 4], 201, "cuMemAlloc: no context is current in this thread"),
    (
        DRIVER,
        "cuCtxCreate_v2",
        [PLACE, 0, 1],
        101,
        "cuCtxCreate: there is one device, number 0, not 1",
    ),
    (DRIVER, "cuCtxCreate_v2", [PLACE, 0, 0], 0, None),
    (DRIVER, "cuCtxDestroy_v2", [0], 201, "cuCtxDestroy: the context is NULL"),
    (DRIVER, "cuCtxEnablePeerAccess", [0, 0], 217, "cuCtxEnablePeerAccess: there is one device"),
    (DRIVER, "cuMemAlloc_v2", [PLACE, 0], 1, "cuMemAlloc: 0 bytes"),
    (
        DRIVER,
        "cuMemAllocPitch_v2",
        [PLACE, PLACE, 8, 8, 3],
        1,
        "cuMemAllocPitch: elements of 3 bytes, not of 4, 8 or 16",
    ),
    (
        DRIVER,
        "cuMemcpyHtoD_v2",
        [16, PLACE, 8],
        1,
        "cuMemcpyHtoD: 0x10 is no address of the device",
    ),
    (DRIVER, "cuMemsetD32_v2", [17, 0, 1], 1, "cuMemset: 0x11 is not a multiple of 4"),
    (
        DRIVER,
        "cuMemHostUnregister",
        [64],
        713,
        "cuMemHostUnregister: 0x40 is not registered",
    ),
    (
        DRIVER,
        "cuModuleLoad",
        [PLACE, "none.ptx"],
        301,
        "cuModuleLoad: none.ptx: No such file or directory",
    ),
    (DRIVER, "cuModuleUnload", [0], 400, "cuModuleUnload: the module is NULL"),
    (DRIVER, "cuLaunchKernel", [0] * 11, 400, "cuLaunchKernel: the kernel is NULL"),
    (DRIVER, "cuEventRecord", [0, 0], 400, "cuEventRecord: the event is NULL"),
    (
        DRIVER,
        "cuStreamCreate",
        [PLACE, 2],
        1,
        "cuStreamCreateWithPriority: flags are 0x2, not 0 or 1",
    ),
    (
        DRIVER,
        "cuStreamBeginCapture_v2",
        [0, 0],
        900,
        "cuStreamBeginCapture: a default stream can't be recorded",
    ),
    (DRIVER, "cuGraphLaunch", [0, 0], 1, "cuGraphLaunch: the graph is NULL"),
    (DRIVER, "cuTexRefCreate", [], 801, "cuTexRefCreate is not supported: there are no textures"),
    # Calls that the server refuses look the same.
    (
        DRIVER,
        "cuMemFree_v2",
        [16],
        1,
        "cuMemFree: no allocation begins at 0x10",
    ),
    # Queries are answered without a message.
    (DRIVER, "cuPointerGetAttribute", [PLACE, 2, 16], 1, None),
    (DRIVER, "cuMemGetAddressRange_v2", [PLACE, PLACE, 16], 500, None),
    (DRIVER, "cuGetErrorName", [12345, PLACE], 1, None),
    (DRIVER, "cuGetProcAddress", ["cuNobody", PLACE, 12000, 0], 500, None),
    (RUNTIME, "cudaSetDevice", [1], 101, "cudaSetDevice: there is one device, number 0, not 1"),
    (
        RUNTIME,
        "cudaMemcpy",
        [PLACE, PLACE, 8, 9],
        21,
        "cudaMemcpyAsync: direction 9 does not exist",
    ),
    (
        RUNTIME,
        "cudaMemcpy2DAsync",
        [PLACE, 4, PLACE, 16, 8, 1, 4, 0],
        12,
        "cudaMemcpy2DAsync: rows of 8 bytes with pitches of 4 and 16",
    ),
    (
        RUNTIME,
        "cudaFuncSetCacheConfig",
        [64, 0],
        98,
        "cudaFuncSetCacheConfig: no kernel is registered at 0x40",
    ),
    (
        RUNTIME,
        "cudaGetSymbolAddress",
        [PLACE, 64],
        13,
        "cudaGetSymbolAddress: no variable is registered at 0x40",
    ),
    (RUNTIME, "cudaFree", [16], 1, "cuMemFree: no allocation begins at 0x10"),
]
"""Library, function, arguments, result, and the printed message."""
SILENT = {
    "server_lost",
    "exchange_locked",
    "open_locked",
    "connection_state",
    "refuse",
    "cuCtxGetCurrent",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress_v2",
    "cuMemGetAddressRange_v2",
    "cuPointerGetAttribute",
    "cudaLaunchKernel",
    "kernel_at_for",
}
"""Functions with an error that they do not report by ``refused``: they or their callers report it
in another way, or the error is the answer to a query.
"""

ERROR = re.compile(
    r"(?:return|\?|:|(?<!=)=|keep\() ?(?:CUDA_ERROR_[A-Z]|cudaError[A-Z]|\d{3};)(?![^;]*\{\n)"
)
"""An error code that is returned, selected or stored, and is no argument of ``refused``."""


@pytest.fixture
def server():
    made = Server(Device(ModelRunner(PRESETS["tiny"]), 1 << 30, 1000))
    yield made
    made.close()
    made.device.memory.close()


@pytest.mark.skipif(missing_tool() is not None, reason=f"{missing_tool()}")
def test_a_refused_call_has_a_line_with_its_name_and_the_reason(server, capfd):
    libraries = library_folder()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            CALLER,
            *(libraries / name for name in ("libcuda.so.1", "libcudart.so.12")),
        ],
        input=json.dumps([call[:3] for call in CALLS]),
        env=os.environ | environment(server.name, []),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [int(line) for line in done.stdout.split()] == [call[3] for call in CALLS]
    lines = [f"warpstack: {call[4]}" for call in CALLS if call[4] is not None]
    of_server = [line for line in lines if "no allocation begins" in line]
    assert done.stderr.splitlines() == [line for line in lines if line not in of_server]
    assert capfd.readouterr().err.splitlines() == of_server


def test_every_error_of_the_libraries_is_reported_or_is_an_answer():
    silent = set()
    for source in SOURCES.glob("*.c"):
        function = ""
        text = re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.DOTALL)
        for statement in re.split(r"(?<=[;{}])\n", text):
            if found := re.search(r"^(?:EXPORT |static )?\w+ \*?(\w+)\([^;]*\{$", statement, re.M):
                function = found[1]
            if ERROR.search(statement):
                silent.add(function)
    assert silent == SILENT
