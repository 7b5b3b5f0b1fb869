// Every atomic operation of 32 and 64 bits on global and shared memory, with results that do not depend on the order.

extern "C" __global__ void k(unsigned *out, unsigned long long *wide, int *numbers, const unsigned *in) {
    __shared__ unsigned counters[4];
    __shared__ unsigned long long total;
    __shared__ int least;
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x, x = in[t];
    if (threadIdx.x == 0) counters[0] = counters[1] = counters[2] = counters[3] = total = 0, least = 0x7fffffff;
    __syncthreads();
    atomicAdd(&out[0], x);
    atomicSub(&out[1], x >> 3);
    atomicMin(&out[2], x);
    atomicMax(&out[3], x);
    atomicAnd(&out[4], x | 0x0f0f0f0f);
    atomicOr(&out[5], x & 0x11111111);
    atomicXor(&out[6], x);
    atomicInc(&out[7], 20);
    atomicDec(&out[8], 30);
    unsigned place = atomicAdd(&out[9], 1);
    atomicExch(&out[16 + place], 77u);
    atomicMin(&numbers[0], static_cast<int>(x));
    atomicMax(&numbers[1], static_cast<int>(x) / 2);
    atomicAdd(&numbers[2], -static_cast<int>(x & 0xffff));
    atomicAdd(&wide[0], static_cast<unsigned long long>(x) << 20);
    atomicMax(&wide[1], static_cast<unsigned long long>(x) * x);
    atomicXor(&wide[2], static_cast<unsigned long long>(x) << (x & 31));
    atomicAdd(&counters[x & 3], 1u);
    atomicMin(&least, static_cast<int>(x));
    atomicAdd(&total, static_cast<unsigned long long>(x));
    __syncthreads();
    if (threadIdx.x < 4) atomicAdd(&out[10 + threadIdx.x], counters[threadIdx.x]);
    if (threadIdx.x == 4) atomicAdd(&wide[3], total);
    if (threadIdx.x == 5) atomicMin(&numbers[3], least);
    if (t % 12) return;
    unsigned long long seen = wide[4], old;
    for (; (old = atomicCAS(&wide[4], seen, seen * 3 + 1)) != seen; seen = old) {}
}
