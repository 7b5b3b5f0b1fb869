// Threads of a branch add up what they have before one of them goes to memory. Which threads meet does not matter.

static __device__ void count(unsigned *place) {
    unsigned mask = __activemask();
    if ((mask & (1u << (threadIdx.x & 31)) - 1) == 0) atomicAdd(place, __popc(mask));
}

static __device__ unsigned reserve(unsigned *next) {
    unsigned mask = __activemask(), lane = threadIdx.x & 31, leader = __ffs(mask) - 1, first = 0;
    if (lane == leader) first = atomicAdd(next, __popc(mask));
    return __shfl_sync(mask, first, leader) + __popc(mask & (1u << lane) - 1);
}

extern "C" __global__ void k(unsigned *out, const unsigned *in, unsigned *counters) {
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x, x = in[t];
    if (x % 3 == 0) count(&counters[0]);
    else if (x % 3 == 1) count(&counters[1]);
    for (unsigned round = 0; round < (x & 3); round++) count(&counters[2]);
    if (x & 4) atomicXor(&out[reserve(&counters[3])], 0x10000u);
}
