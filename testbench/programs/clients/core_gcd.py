"""Greatest common divisors by recursion, in C++ through NVRTC: ``python core_gcd.py ptx`` or ``cubin``."""

import sys

import numpy as np
from cuda.core import (  # type: ignore[import-not-found]
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = """
template <typename T> __device__ __noinline__ T gcd(T a, T b) { return b ? gcd<T>(b, a % b) : a; }
extern "C" __global__ void divisors(const unsigned *a, const unsigned *b, unsigned *out, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = gcd(a[i], b[i]);
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
module = Program(SOURCE, "c++", options=ProgramOptions(std="c++17", arch="sm_50")).compile(
    sys.argv[1]
)
memory = LegacyPinnedMemoryResource()
buffers = [memory.allocate(160, stream=stream) for _ in range(3)]
a, b, out = [np.from_dlpack(buffer).view(np.uint32) for buffer in buffers]
a[:], b[:] = 12 * np.arange(1, 41), 18
launch(
    stream, LaunchConfig(grid=2, block=32), module.get_kernel("divisors"), *buffers, np.uint32(40)
)
stream.sync()
assert (out == np.gcd(a, b)).all()
